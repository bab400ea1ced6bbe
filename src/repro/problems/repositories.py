"""Inputs from public repositories: matrices of the SuiteSparse collection, Stanford's surfaces, and meshes.

The collection's index is asked through ssgetpy, and files are fetched (`repro.problems.fetch`). Tetrahedral meshes
come from a mirror, or from recipes that made them.
"""

from __future__ import annotations

import gzip
import lzma
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import meshio
import numpy as np
from meshio import medit
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from repro.config.models import Fetch, Limits
from repro.errors import ReproError
from repro.problems.assembly import Floats
from repro.problems.fetch import Address, Found, Wanted, flaw_of_environment, obtain, obtain_or_make, partial_folder
from repro.problems.files import check_content, mesh_checksum
from repro.problems.generators import subdivide
from repro.problems.matrix_market import MatrixFile, read_matrix
from repro.problems.meshes import read_surface, read_tetrahedra
from repro.problems.registry import REGISTRY, Indexed, Recipe, Stanford, Suitesparse, Tetmesh, load_registry
from repro.programs import run_program
from repro.untrusted_files import shown

SITE = "https://sparse.tamu.edu/MM"
SUFFIXES = ((".tar.gz",), (".mtx.gz",), (".mtx",))

# ssgetpy downloads the whole index, without a time-out, while it is imported: so in a process of its own
_LOOKUP = """
import json, sys
try:
    import ssgetpy
except Exception as error:
    while error.__context__ is not None:  # the innermost says it best
        error = error.__context__
    sys.exit(f"{type(error).__name__}: {error}")
names = sys.argv[1:]  # none: all of the index
matrices = ssgetpy.search(**({"name": names[0]} if names else {}), limit=100000)
matrices = [m for m in matrices if not names or m.name == names[0]]
fields = ("id", "group", "name", "rows", "cols", "nnz", "dtype", "kind")
print(json.dumps([{**{f: getattr(m, f) for f in fields}, "url": m.url("MM")} for m in matrices]))
"""


class _Entry(BaseModel):
    """What is relied on of an entry of the index."""

    model_config = ConfigDict(extra="allow")

    group: str
    name: str
    rows: int
    cols: int
    nnz: int
    dtype: str
    kind: str
    url: str


_ENTRIES = TypeAdapter(list[_Entry])


@dataclass(frozen=True)
class Checked:
    """A matrix, and the state of its checksum."""

    file: MatrixFile
    checksum: dict[str, str]


def read_suitesparse(item: Suitesparse, settings: Fetch, limits: Limits | None = None) -> Found[Checked]:
    """Find or download a matrix of the collection, and read it.

    Raises
    ------
    ReproError
        It is nowhere to be had, or what there is has another content.
    """
    cache = Path(settings.cache)

    def read(paths: tuple[Path, ...]) -> Checked:
        file = read_matrix(paths[0], limits, distinct=item.entry == "pattern", lower=item.stored == "lower")
        return Checked(file, check_content(item.name, file.checksum(), item.checksum, cache, paths[0]))

    return obtain(
        Wanted(
            name=item.name,
            stem=f"suitesparse/{item.group}/{item.matrix}",
            suffixes=SUFFIXES,
            addresses=lambda: _addresses(item, settings),
        ),
        settings,
        read,
    )


def _addresses(item: Suitesparse, settings: Fetch) -> Iterator[Address]:
    for url in item.urls:
        yield Address((url,))
    try:
        entry = look_up(item.group, item.matrix, settings)
        yield Address((entry["url"],), details={"index": entry})
    except ReproError as error:
        # the registry's group is a good guess where the index cannot be asked
        url = f"{SITE}/{item.group}/{item.matrix}.tar.gz"
        yield Address((url,), details={"index": None}, remark=f"{error.what}: {error.actual}")


def look_up(group: str, matrix: str, settings: Fetch) -> dict[str, Any]:
    """Return the entry of the collection's index for a matrix: id, group, name, size, kind and address.

    The index decides the group: `group` only chooses where several matrices share a name.

    Raises
    ------
    ReproError
        The index cannot be reached or read, or does not have the matrix.
    """
    entries = _ask_index(settings, matrix)
    for entry in entries:
        if entry["group"] == group:
            return entry
    if len(entries) != 1:
        groups = ", ".join(entry["group"] for entry in entries)
        raise ReproError(
            "the SuiteSparse index does not have the matrix", expected=f"{group}/{matrix}", actual=groups or "none"
        )
    return entries[0]


def read_index(settings: Fetch) -> list[Indexed]:
    """Return all of the collection's index.

    Raises
    ------
    ReproError
        It cannot be reached or read.
    """
    return [
        Indexed(
            entry["group"], entry["name"], entry["rows"], entry["cols"], entry["nnz"], entry["dtype"], entry["kind"]
        )
        for entry in _ask_index(settings)
    ]


def _ask_index(settings: Fetch, *names: str) -> list[dict[str, Any]]:
    """Return the entries of the index for matrices of a name, or all."""
    cache = Path(settings.cache).absolute()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        # ssgetpy keeps its index in ~/.ssgetpy
        home = {**os.environ, "HOME": str(cache)}
        try:
            done = run_program([sys.executable, "-c", _LOOKUP, *names], settings.timeout, "the lookup", home)
        except ReproError:
            raise _unreachable(f"no answer in {settings.timeout:g} s") from None
        if done.code:
            said = (done.errors.strip() or "no reason given").splitlines()[-1]
            raise _unreachable(flaw_of_environment(SITE) or shown(said))
        return [entry.model_dump() for entry in _ENTRIES.validate_json(done.output)]
    except ValidationError as error:
        raise _unreachable(error.errors()[0]["msg"]) from None
    except (OSError, ValueError) as error:
        raise _unreachable(error) from None


def _unreachable(reason: object) -> ReproError:
    return ReproError("the SuiteSparse index could not be read", actual=reason)


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
