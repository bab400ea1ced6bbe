"""The optional packages that recipes use, loaded when they are needed, and what to install for a missing one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from repro.errors import ReproError
from repro.shipped import install

# Debian's names for what the wheel of Gmsh links to and does not bring along
GMSH_LIBRARIES = (
    "libglu1-mesa",
    "libgl1",
    "libx11-6",
    "libxext6",
    "libxrender1",
    "libxcursor1",
    "libxfixes3",
    "libxft2",
    "libxinerama1",
    "libfontconfig1",
    "libgomp1",
)


def load(module: str) -> Any:
    """Import an optional package.

    Raises
    ------
    ReproError
        It is not installed, or a library of the system that it links to is not; the message says what to install.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise _missing(module, error) from None
    except OSError as error:  # Gmsh's module loads its library through ctypes
        raise ReproError(
            f"{module} is installed, but a library of the system that it needs is not",
            actual=error,
            todo=f"on Debian or Ubuntu: apt-get install {' '.join(GMSH_LIBRARIES)}",
        ) from None


def _missing(package: str, error: ImportError) -> ReproError:
    return ReproError(f"rebuilding the papers' tetrahedral meshes needs {package}", actual=error, todo=install("mesh"))


def versions(*packages: str) -> str:
    """Return installed packages with their versions, for a note.

    Raises
    ------
    ReproError
        One of them is not installed.
    """
    try:
        return ", ".join(f"{package} {version(package)}" for package in packages)
    except PackageNotFoundError as error:
        raise _missing(error.name, error) from None


@contextmanager
def failing_as(what: str) -> Iterator[None]:
    """Turn what a mesher raises, which is of many kinds, into the error that a user sees."""
    try:
        yield
    except ReproError:
        raise
    except Exception as error:
        raise ReproError(
            f"{what} failed",
            actual=" ".join(f"{type(error).__name__}: {error}".split()),
            todo="try the versions of the extra `mesh` in pyproject.toml",
        ) from error
