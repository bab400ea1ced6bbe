"""Paths of the package's data (templates, configurations, workflow), and the command that installs an extra.

Data are in the root of a checkout, or in a folder of the package in a wheel (see pyproject.toml); data of extensions
are in their packages.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path

from repro.errors import ReproError
from repro.extensions import extension_folders

#: Default configuration of commands and runs.
DEFAULT_CONFIG = Path("config/config.yaml")
_PACKAGE = Path(__file__).resolve().parent
#: Folder of data in a wheel; a checkout has none.
WHEEL_DATA = _PACKAGE / "files"
_ROOT = WHEEL_DATA if WHEEL_DATA.is_dir() else _PACKAGE.parents[1]


def install(extra: str) -> str:
    """Return the pip command that installs an extra of `pyproject.toml`, such as `cuda`, for a wheel or a checkout.

    A wheel that came from a file or URL is named by it, as no index need have the package.
    """
    if _ROOT == WHEEL_DATA:
        origin = json.loads(distribution("sparse-repro").read_text("direct_url.json") or "{}")
        source = "{vcs_info[vcs]}+{url}@{vcs_info[commit_id]}" if "vcs_info" in origin else "{url}"
        url = f" @ {source.format(**origin)}" if origin else ""
        return f"pip install {shlex.quote(f'sparse-repro[{extra}]{url}')}"
    checkout = "." if Path.cwd() == _ROOT else _ROOT
    return f"pip install -e {shlex.quote(f'{checkout}[{extra}]')}"


def require_packages(modules: Iterable[str]) -> None:
    """Raise `ReproError` if one of these modules of the extra `campaign` is not installed."""
    if missing := [name for name in modules if not _is_found(name)]:
        raise ReproError(
            "packages that campaigns and commands need are not installed; the operators need none of them",
            where=sys.executable,
            actual=f"no module {', '.join(missing)}",
            todo=install("campaign"),
        )


def _is_found(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # a finder, or an entry of `sys.modules`, that refuses it
        return False


def shipped(path: Path | str, *, here: bool = True) -> Path:
    """Return the path of a file or folder named relative to a checkout, such as `config/problems.yaml`.

    With `here`, the current folder is searched first; extensions are searched last. An absolute path, and a path that
    exists nowhere, are returned unchanged.
    """
    path = Path(path)
    with suppress(OSError):  # for example a too long name; the code that opens the file reports the error
        is_local = here and (path.exists() or path.is_symlink())
        if not is_local and (packed_path := _ROOT / path).exists():
            return packed_path
        if not is_local and not path.is_absolute() and path.parts:
            of_extensions = (folder.parent / path for folder in extension_folders(path.parts[0]))
            return next((candidate for candidate in of_extensions if candidate.exists()), path)
    return path
