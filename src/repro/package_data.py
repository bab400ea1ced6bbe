"""Where the package's data lie (templates, configurations, the workflow), and how extras are installed.

In a checkout the data lie in its root, beside `src`; a wheel has them in a folder of the package (pyproject.toml).
"""

from __future__ import annotations

import shlex
from contextlib import suppress
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
#: The folder that a wheel has them in, and a checkout does not have.
PACKED = _PACKAGE / "files"
_ROOT = PACKED if PACKED.is_dir() else _PACKAGE.parents[1]


def install(extra: str) -> str:
    """Return the command that installs what an extra brings, into the environment that the package runs in.

    Parameters
    ----------
    extra
        One of those in `pyproject.toml`, such as `cuda`.

    Returns
    -------
    str
        Of a wheel, which pip knows by its name, it needs no checkout; else it names the checkout, `.` where that is the
        current folder.
    """
    if _ROOT == PACKED:
        return f"pip install {shlex.quote(f'sparse-repro[{extra}]')}"
    checkout = "." if Path.cwd() == _ROOT else _ROOT
    return f"pip install -e {shlex.quote(f'{checkout}[{extra}]')}"


def shipped(path: Path | str, *, here: bool = True) -> Path:
    """Return where a file or folder is that is named as in a checkout, such as `config/problems.yaml`.

    Parameters
    ----------
    path
        Relative to the root of a checkout; any other is returned as it is.
    here
        Whether what the current folder has by that name stands in its place: in a checkout then the path is returned as
        it was given.

    Returns
    -------
    Path
        It, in the current folder or with the package; where neither has it, as it was given.
    """
    path = Path(path)
    with suppress(OSError):  # such as of a name that is too long, which whoever reads the file explains
        own = here and (path.exists() or path.is_symlink())
        if not own and (packed := _ROOT / path).exists():
            return packed
    return path
