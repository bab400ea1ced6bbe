"""Meshes in files: Stanford's surfaces and the tetrahedral meshes of a mirror."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from repro.config.models import Fetch
from repro.errors import ReproError
from repro.problems.assembled import Floats
from repro.problems.content import check_content, mesh_checksum
from repro.problems.fetch import Address, Found, Wanted, obtain
from repro.problems.meshes import read_surface, read_tetrahedra
from repro.problems.registry import REGISTRY, Stanford, Tetmesh, load_registry

WRAPPINGS = ("", ".gz", ".xz")
Read = tuple[Floats, NDArray[np.int64], tuple[str, ...]]


@dataclass(frozen=True)
class MeshFile:
    """A mesh: vertices `(v, 3)`, cells `(m, 3)` or `(m, 4)`, the reader's notes, the state of its checksum."""

    vertices: Floats
    cells: NDArray[np.int64]
    notes: tuple[str, ...]
    checksum: dict[str, str]


def read_stanford(item: Stanford, settings: Fetch) -> Found[MeshFile]:
    """Find or download a surface, and read it.

    Raises
    ------
    ReproError
        It is nowhere to be had, or what there is has another content.
    """
    wanted = Wanted(
        name=item.name,
        stem=f"stanford/{item.model}",
        suffixes=tuple((f".ply{wrapping}",) for wrapping in WRAPPINGS),
        addresses=lambda: [Address((url,), item.member if _is_archive(url) else None) for url in item.urls],
    )
    return obtain(wanted, settings, _reader(item, settings, read_surface))


def read_tetmesh(item: Tetmesh, settings: Fetch) -> Found[MeshFile]:
    """Find or download a tetrahedral mesh, and read it.

    Raises
    ------
    ReproError
        It is nowhere to be had, or what there is has another content.
    """
    wanted = Wanted(
        name=item.name,
        stem=f"tetmesh/{item.mesh}",
        suffixes=tuple(tuple(part + wrapping for part in item.parts) for wrapping in WRAPPINGS),
        addresses=lambda: [Address(urls) for urls in item.urls],
    )
    return obtain(wanted, settings, _reader(item, settings, read_tetrahedra))


def mesh(name: str, settings: Fetch, registry: Path = REGISTRY) -> MeshFile:
    """Return a registered surface or tetrahedral mesh, for the recipes that start from one.

    Raises
    ------
    ReproError
        There is no such problem, it is no mesh in a file, or it cannot be had.
    """
    item = load_registry(registry).find(name)
    if isinstance(item, Stanford):
        return read_stanford(item, settings).content
    if isinstance(item, Tetmesh):
        return read_tetmesh(item, settings).content
    raise ReproError(
        "the problem is no mesh in a file", where=name, expected="source stanford or tetmesh", actual=item.source
    )


def _is_archive(url: str) -> bool:
    return url.endswith((".tar.gz", ".tgz", ".tar"))


def _reader(
    item: Stanford | Tetmesh, settings: Fetch, read: Callable[[Path], Read]
) -> Callable[[tuple[Path, ...]], MeshFile]:
    def checked(paths: tuple[Path, ...]) -> MeshFile:
        vertices, cells, notes = read(paths[0])
        sha256 = mesh_checksum(vertices, cells)
        state = check_content(item.name, sha256, item.checksum, Path(settings.cache), paths[0])
        return MeshFile(vertices, cells, notes, state)

    return checked
