"""Files and folders that are written atomically: a process that is killed leaves the old file, or none."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a file beside `path`, in a folder that is made, which takes its place in the end or vanishes on an error.

    Raises
    ------
    OSError
        There is no room, or no permission.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = _beside(path)
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def making_folder(path: Path) -> Iterator[Path]:
    """Give a new folder beside `path`, hidden, which is renamed to it in the end or vanishes on an error.

    Raises
    ------
    OSError
        There is no room, no permission, or a folder of that name that is not empty.
    """
    partial = _beside(path)
    try:
        partial.mkdir(parents=True)
        yield partial
        partial.rename(path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file, text in UTF-8.

    Raises
    ------
    OSError
        There is no room, or no permission.
    """
    with replacing(path) as partial:
        partial.write_bytes(content if isinstance(content, bytes) else content.encode())


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.stem}.{os.getpid()}-{threading.get_ident()}{path.suffix}")
