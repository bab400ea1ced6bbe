"""The formats of meshes: what names say, which files belong together, and unpacked copies of them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from repro.config.models import Limits
from repro.errors import ReproError
from repro.problems.files import open_plain

#: suffix: the module of `repro.problems.meshreaders`.
FORMATS = {
    ".ply": "ply",
    ".obj": "obj",
    ".off": "off",
    ".stl": "stl",
    ".msh": "gmsh",
    ".node": "tetgen",
    ".ele": "tetgen",
    ".mesh": "medit",
    ".meshb": "medit",
    ".vtk": "vtk",
    ".vtu": "vtu",
}
#: Those that keep data of cells, as many numbers each as there are.
FIELD_FORMATS = (".vtu", ".vtk")
PACKED = (".gz", ".xz")
TETGEN_PAIR = {".node": ".ele", ".ele": ".node"}


def format_of(path: Path) -> str | None:
    """Return the suffix in `FORMATS` that a file's name has before that of its packing; None if it has none."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in PACKED:
        suffixes.pop()
    return suffixes[-1] if suffixes and suffixes[-1] in FORMATS else None


def companions(path: Path) -> tuple[Path, ...]:
    """Return all files that a problem at a path is read from, that path first.

    It is more than one for TetGen's meshes, whose vertices and cells are in two files. One that is missing is left
    out: to read the mesh says so.
    """
    suffix = format_of(path)
    if suffix not in TETGEN_PAIR:
        return (path,)
    return (path, *[other for other in _others(path, suffix) if other.is_file()][:1])


@contextmanager
def unpacked(path: Path, suffix: str, limits: Limits) -> Iterator[Path]:
    """Give a copy of the mesh in the form that readers want: unpacked, TetGen's two files side by side."""
    parts = {suffix: path}
    if suffix in TETGEN_PAIR:
        parts[TETGEN_PAIR[suffix]] = companion(path, suffix)
    with tempfile.TemporaryDirectory(prefix="repro-mesh-") as folder:
        for part, source in parts.items():
            with open_plain(source, limits) as packed:
                try:
                    with Path(folder, f"mesh{part}").open("wb") as plain:
                        shutil.copyfileobj(packed, plain)
                except OSError as error:
                    raise ReproError(
                        "the mesh file cannot be unpacked",
                        where=folder,
                        actual=error,
                        todo="make room there, or set TMPDIR to another folder",
                    ) from error
        yield Path(folder, f"mesh{suffix}")


def companion(path: Path, suffix: str) -> Path:
    """Find the other one of TetGen's two files, packed or not.

    Raises
    ------
    ReproError
        There is none.
    """
    candidates = _others(path, suffix)
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise ReproError(
        "TetGen keeps a mesh in two files, and one of them is missing",
        where=path,
        expected=f"one of {', '.join(candidate.name for candidate in candidates)} beside it",
        todo="put it there",
    )


def _others(path: Path, suffix: str) -> list[Path]:
    bare = path.with_suffix("") if path.suffix.lower() in PACKED else path
    return [bare.with_name(bare.stem + TETGEN_PAIR[suffix] + packing) for packing in ("", *PACKED)]
