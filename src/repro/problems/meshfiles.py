"""Meshes in files: Stanford's surfaces, the tetrahedral meshes of a mirror, and those that recipes made."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import meshio
import numpy as np
from meshio import medit
from numpy.typing import NDArray

from repro.config.models import Fetch, Limits
from repro.errors import ReproError
from repro.problems.assembled import Floats
from repro.problems.content import check_content, mesh_checksum
from repro.problems.fetch import Address, Found, Wanted, obtain, obtain_or_make
from repro.problems.meshes import read_surface, read_tetrahedra
from repro.problems.partial import partial_folder
from repro.problems.registry import REGISTRY, Recipe, Stanford, Tetmesh, load_registry
from repro.problems.shapes import subdivide

WRAPPINGS = ("", ".gz", ".xz")
SUFFIX = ".meshb"  # of the meshes that are written: binary, small, and of many programs
Read = tuple[Floats, NDArray[np.int64], tuple[str, ...]]


@dataclass(frozen=True)
class MeshFile:
    """A mesh: vertices `(v, 3)`, cells `(m, 3)` or `(m, 4)`, the reader's notes, the state of its checksum."""

    vertices: Floats
    cells: NDArray[np.int64]
    notes: tuple[str, ...]
    checksum: dict[str, str]


def read_stanford(item: Stanford, settings: Fetch, limits: Limits | None = None) -> Found[MeshFile]:
    """Find or download a surface, read it, and cut its triangles as often as the item asks for.

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
    obtained = obtain(wanted, settings, _reader(item, settings, read_surface, limits))
    if not item.subdivide:
        return obtained
    read = obtained.content
    vertices, faces = read.vertices, read.cells
    for _ in range(item.subdivide):
        vertices, faces = subdivide(vertices, faces)
    note = f"each triangle cut into {4**item.subdivide}"
    return replace(obtained, content=replace(read, vertices=vertices, cells=faces, notes=(*read.notes, note)))


def read_tetmesh(item: Tetmesh, settings: Fetch, limits: Limits | None = None) -> Found[MeshFile]:
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
    return obtain(wanted, settings, _reader(item, settings, read_tetrahedra, limits))


def obtain_recorded(item: Recipe, settings: Fetch, make: Callable[[], Found[MeshFile]]) -> Found[MeshFile]:
    """Find the mesh that a recipe made before, as `write_mesh` writes it, or make it.

    Parameters
    ----------
    item
        The problem; a ready-made mesh has to have its checksum, if it has one.
    settings
        Where to look.
    make
        Makes it.

    Raises
    ------
    ReproError
        There is none, or only others, and making it failed.
    """
    wanted = Wanted(
        name=item.name,
        stem=f"recipe/{item.recipe}",
        suffixes=tuple((SUFFIX + wrapping,) for wrapping in WRAPPINGS),
        addresses=lambda: [],
    )
    return obtain_or_make(wanted, settings, _reader(item, settings, read_tetrahedra), make)


def write_mesh(path: Path, vertices: Floats, cells: NDArray[np.int64]) -> None:
    """Write a mesh in MEDIT's binary format, packed if the suffix says so: whole or not at all.

    Parameters
    ----------
    path
        Ends with `.meshb`, `.meshb.gz` or `.meshb.xz`.
    vertices, cells
        float64 `(v, 3)`, and triangles `(m, 3)` or tetrahedra `(m, 4)`; both keep their order.

    Raises
    ------
    ReproError
        The suffix is another, or the file cannot be written.
    """
    bare = path.with_suffix("") if path.suffix in WRAPPINGS else path
    if bare.suffix != SUFFIX:
        raise ReproError(
            "unknown kind of mesh file to write",
            where=path,
            expected=" or ".join(SUFFIX + wrapping for wrapping in WRAPPINGS),
        )
    content = meshio.Mesh(vertices, [({3: "triangle", 4: "tetra"}[cells.shape[1]], cells.astype(np.int32))])
    packings: dict[str, Callable[[bytes], bytes]] = {".gz": partial(gzip.compress, mtime=0), ".xz": lzma.compress}
    pack = packings.get(path.suffix, bytes)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial_folder(path.parent) as folder:
            plain, packed = folder / f"mesh{SUFFIX}", folder / "packed"
            medit.write(plain, content)
            packed.write_bytes(pack(plain.read_bytes()))
            packed.replace(path)
    except OSError as error:
        raise ReproError(
            "cannot write the mesh", where=path, actual=error, todo="make room there, or name another file"
        ) from None


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
    item: Stanford | Tetmesh | Recipe,
    settings: Fetch,
    read: Callable[[Path, Limits | None], Read],
    limits: Limits | None = None,
) -> Callable[[tuple[Path, ...]], MeshFile]:
    def checked(paths: tuple[Path, ...]) -> MeshFile:
        vertices, cells, notes = read(paths[0], limits)
        sha256 = mesh_checksum(vertices, cells)
        state = check_content(item.name, sha256, item.checksum, Path(settings.cache), paths[0])
        return MeshFile(vertices, cells, notes, state)

    return checked
