"""Writing an export: the whole folder or nothing."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from repro.errors import ReproError


def write_folder(folder: Path, texts: Mapping[str, str], binaries: Mapping[str, Callable[[Path], None]]) -> list[Path]:
    """Write files to a new folder, which is there when all of them are; return their paths.

    Parameters
    ----------
    texts
        File to content.
    binaries
        File to what writes it.

    Raises
    ------
    ReproError
        The folder is there and holds something.
    """
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise ReproError("the folder is not empty", where=folder, todo="name a new one with --to")
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        partial.chmod(0o755)
        for name, text in texts.items():
            (partial / name).write_text(text)
        for name, write in binaries.items():
            write(partial / name)
        partial.replace(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return [folder / name for name in (*texts, *binaries)]
