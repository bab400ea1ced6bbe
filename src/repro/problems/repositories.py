"""Obtains inputs from public repositories: SuiteSparse matrices, Stanford surfaces, and tetrahedral meshes.

The SuiteSparse index is read through ssgetpy; files are downloaded by `repro.problems.fetch`. Tetrahedral meshes come
from a mirror or are built by recipes.
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
from repro.problems.assembly import Floats, Integers
from repro.problems.fetch import Address, Found, Wanted, flaw_of_environment, obtain, obtain_or_make, partial_folder
from repro.problems.files import check_content, mesh_checksum
from repro.problems.generators import subdivide
from repro.problems.matrix_market import MatrixFile, read_matrix
from repro.problems.meshes import read_surface, read_tetrahedra, tetrahedron_volumes
from repro.problems.recipes import find_recipe
from repro.problems.registry import REGISTRY, Indexed, Recipe, Stanford, Suitesparse, Tetmesh, load_registry
from repro.programs import run_program
from repro.untrusted_files import shown

SITE = "https://sparse.tamu.edu/MM"
SUFFIXES = ((".tar.gz",), (".mtx.gz",), (".mtx",))

# When imported, ssgetpy downloads the whole index without a timeout, so it runs in a subprocess.
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
    """Required fields of an entry in the SuiteSparse index."""

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
    """A matrix, and whether its checksum was compared with the registry's."""

    file: MatrixFile
    checksum: dict[str, str]


def read_suitesparse(item: Suitesparse, fetch_settings: Fetch, limits: Limits | None = None) -> Found[Checked]:
    """Obtain and read a SuiteSparse matrix; raise `ReproError` if it is unavailable or its checksum differs."""
    cache = Path(fetch_settings.cache)

    def read(paths: tuple[Path, ...]) -> Checked:
        file = read_matrix(paths[0], limits, distinct=item.entry == "pattern", lower=item.stored == "lower")
        return Checked(file, check_content(item.name, file.checksum(), item.checksum, cache, paths[0]))

    return obtain(
        Wanted(
            name=item.name,
            stem=f"suitesparse/{item.group}/{item.matrix}",
            suffixes=SUFFIXES,
            addresses=lambda: _mirror_addresses(item, fetch_settings),
        ),
        fetch_settings,
        read,
    )


def _mirror_addresses(item: Suitesparse, fetch_settings: Fetch) -> Iterator[Address]:
    for url in item.urls:
        yield Address((url,))
    try:
        entry = look_up(item.group, item.matrix, fetch_settings)
        yield Address((entry["url"],), details={"index": entry})
    except ReproError as error:
        # If the index is unavailable, the group in the registry is very likely right.
        url = f"{SITE}/{item.group}/{item.matrix}.tar.gz"
        yield Address((url,), details={"index": None}, remark=f"{error.what}: {error.actual}")


def look_up(group: str, matrix: str, fetch_settings: Fetch) -> dict[str, Any]:
    """Return a matrix's entry in the SuiteSparse index: id, group, name, size, kind and address.

    `group` is used only if several matrices have this name. Raises `ReproError`: the index cannot be read or does not
    contain the matrix.
    """
    entries = _ask_index(fetch_settings, matrix)
    for entry in entries:
        if entry["group"] == group:
            return entry
    if len(entries) != 1:
        groups = ", ".join(entry["group"] for entry in entries)
        raise ReproError(
            "the SuiteSparse index does not contain the matrix", expected=f"{group}/{matrix}", actual=groups or "none"
        )
    return entries[0]


def read_index(fetch_settings: Fetch) -> list[Indexed]:
    """Return the whole SuiteSparse index; raise `ReproError` if it cannot be read."""
    return [
        Indexed(
            entry["group"], entry["name"], entry["rows"], entry["cols"], entry["nnz"], entry["dtype"], entry["kind"]
        )
        for entry in _ask_index(fetch_settings)
    ]


def _ask_index(fetch_settings: Fetch, *names: str) -> list[dict[str, Any]]:
    """Return the entries of the SuiteSparse index for matrices with the given names; without names, return all."""
    cache = Path(fetch_settings.cache).absolute()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        # ssgetpy stores its index in ~/.ssgetpy.
        home = {**os.environ, "HOME": str(cache)}
        try:
            result = run_program([sys.executable, "-c", _LOOKUP, *names], fetch_settings.timeout, "the lookup", home)
        except ReproError:
            raise _index_error(f"no answer in {fetch_settings.timeout:g} s") from None
        if result.code:
            reason = (result.errors.strip() or "no reason given").splitlines()[-1]
            raise _index_error(flaw_of_environment(SITE) or shown(reason))
        return [entry.model_dump() for entry in _ENTRIES.validate_json(result.output)]
    except ValidationError as error:
        raise _index_error(error.errors()[0]["msg"]) from None
    except (OSError, ValueError) as error:
        raise _index_error(error) from None


def _index_error(reason: object) -> ReproError:
    return ReproError("the SuiteSparse index could not be read", actual=reason)


WRAPPINGS = ("", ".gz", ".xz")
SUFFIX = ".meshb"  # MEDIT's binary format, compact and widely supported
Read = tuple[Floats, NDArray[np.int64], tuple[str, ...]]


@dataclass(frozen=True)
class MeshFile:
    """A mesh: vertices `(v, 3)`, cells `(m, 3)` or `(m, 4)`, notes of the reader, and the result of the checksum
    comparison.
    """

    vertices: Floats
    cells: NDArray[np.int64]
    notes: tuple[str, ...]
    checksum: dict[str, str]


def read_stanford(item: Stanford, fetch_settings: Fetch, limits: Limits | None = None) -> Found[MeshFile]:
    """Obtain and read a surface, and subdivide it as the registry requires; for errors see `read_suitesparse`."""
    wanted_files = Wanted(
        name=item.name,
        stem=f"stanford/{item.model}",
        suffixes=tuple((f".ply{wrapping}",) for wrapping in WRAPPINGS),
        addresses=lambda: [
            Address((url,), item.member if url.endswith((".tar.gz", ".tgz", ".tar")) else None) for url in item.urls
        ],
    )
    found_mesh = obtain(wanted_files, fetch_settings, _reader(item, fetch_settings, read_surface, limits))
    if not item.subdivide:
        return found_mesh
    read = found_mesh.content
    vertices, faces = read.vertices, read.cells
    for _ in range(item.subdivide):
        vertices, faces = subdivide(vertices, faces)
    note = f"each triangle cut into {4**item.subdivide}"
    return replace(found_mesh, content=replace(read, vertices=vertices, cells=faces, notes=(*read.notes, note)))


def read_tetmesh(item: Tetmesh, fetch_settings: Fetch, limits: Limits | None = None) -> Found[MeshFile]:
    """Obtain and read a tetrahedral mesh; for errors see `read_suitesparse`."""
    wanted_files = Wanted(
        name=item.name,
        stem=f"tetmesh/{item.mesh}",
        suffixes=tuple(tuple(part + wrapping for part in item.parts) for wrapping in WRAPPINGS),
        addresses=lambda: [Address(urls) for urls in item.urls],
    )
    return obtain(wanted_files, fetch_settings, _reader(item, fetch_settings, read_tetrahedra, limits))


def obtain_recipe(item: Recipe, fetch_settings: Fetch, registry: Path = REGISTRY) -> Found[MeshFile]:
    """Obtain a recipe's mesh from the download folder or a mirror and check its checksum, or build it now.

    Raises `ReproError`: the recipe does not exist, or the mesh is unavailable and cannot be built.
    """
    recipe = find_recipe(item.recipe)

    def add_shape_note(mesh: MeshFile, *notes: str) -> MeshFile:
        lengths = row_lengths(mesh.cells)
        factor = lengths.max() * len(lengths) / lengths.sum()
        published = f" (published {recipe.ell_factor})" if recipe.ell_factor else ""
        shape = f"longest row {lengths.max()}, ELL factor {factor:.1f}{published}"
        return replace(mesh, notes=(*notes, *mesh.notes, shape))

    def make() -> Found[MeshFile]:
        vertices, tets, notes = build_recipe(item.recipe, fetch_settings, registry)
        sha256 = mesh_checksum(vertices, tets)
        notes_of_equality = ("the recorded mesh, bit for bit",) if sha256 == item.checksum else ()
        mesh_file = MeshFile(vertices, tets, (*notes, *notes_of_equality), {"sha256": sha256, "state": "rebuilt"})
        return Found((), f"recipe: {item.recipe}", add_shape_note(mesh_file))

    wanted_files = Wanted(
        name=item.name,
        stem=f"recipe/{item.recipe}",
        suffixes=tuple((SUFFIX + wrapping,) for wrapping in WRAPPINGS),
        addresses=lambda: [],
    )
    found_mesh = obtain_or_make(wanted_files, fetch_settings, _reader(item, fetch_settings, read_tetrahedra), make)
    if not found_mesh.paths:
        return found_mesh
    made_before = (f"made before, {item.made}",) if item.made and item.checksum else ()
    return replace(found_mesh, content=add_shape_note(found_mesh.content, *made_before))


def build_recipe(name: str, fetch_settings: Fetch, registry: Path = REGISTRY) -> Read:
    """Build the mesh that a recipe describes.

    Raises `ReproError`: the recipe does not exist; a package, library or surface is missing; or the mesh generator
    failed.

    Returns
    -------
    vertices, tetrahedra
        float64 `(v, 3)`, rounded to single precision, all in use; int64 `(t, 4)`, positive volume, sorted. Equal
        package versions give equal results.
    notes
        Sentences that name the surface and the programs used.
    """
    recipe = find_recipe(name)
    recipe_mesh = recipe.make(partial(mesh, fetch_settings=fetch_settings, registry=registry))
    return *_tidy_mesh(recipe_mesh.vertices, recipe_mesh.tets, name), recipe_mesh.notes


def _tidy_mesh(vertices: Floats, tets: NDArray[np.int64], name: str) -> tuple[Floats, NDArray[np.int64]]:
    """Normalize a mesh: drop unused vertices, round the others to single precision, and sort tetrahedra.

    Vertices keep the mesh generator's order. Within a tetrahedron, vertex numbers are sorted, except that two may be
    swapped for a positive volume.
    """
    used_vertices, tets = np.unique(tets, return_inverse=True)
    vertices = vertices[used_vertices].astype(np.float32).astype(np.float64)
    tets = np.sort(tets.reshape(-1, 4).astype(np.int64), axis=1)
    tets = tets[np.lexsort(tets.T[::-1])]
    volumes = tetrahedron_volumes(vertices, tets)
    if flat_count := np.count_nonzero(volumes == 0):
        raise ReproError(
            "the mesher made flat tetrahedra", where=f"recipe {name}", actual=f"{flat_count} of {len(tets)}"
        )
    inverted_cells = np.flatnonzero(volumes < 0)
    tets[inverted_cells[:, None], [2, 3]] = tets[inverted_cells[:, None], [3, 2]]
    return vertices, tets


def row_lengths(tets: Integers) -> NDArray[np.int64]:
    """Return the row lengths of the mesh's sparsity pattern (vertex graph plus diagonal), int64 `(v,)`."""
    n = int(tets.max()) + 1
    pairs = np.sort(tets[:, [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]].reshape(-1, 2), axis=1)
    edges = np.sort(pairs[:, 0].astype(np.int64) * n + pairs[:, 1])
    edges = edges[np.diff(edges, prepend=-1) > 0]  # np.unique needs four times as long
    return 1 + np.bincount(edges // n, minlength=n) + np.bincount(edges % n, minlength=n)


def write_mesh(path: Path, vertices: Floats, cells: NDArray[np.int64]) -> None:
    """Write a mesh atomically in MEDIT's binary format: `.meshb`, `.meshb.gz` or `.meshb.xz`. Raises `ReproError`."""
    bare = path.with_suffix("") if path.suffix in WRAPPINGS else path
    if bare.suffix != SUFFIX:
        raise ReproError(
            "unknown mesh format for writing",
            where=path,
            expected=" or ".join(SUFFIX + wrapping for wrapping in WRAPPINGS),
        )
    content = meshio.Mesh(vertices, [({3: "triangle", 4: "tetra"}[cells.shape[1]], cells.astype(np.int32))])
    packings: dict[str, Callable[[bytes], bytes]] = {".gz": partial(gzip.compress, mtime=0), ".xz": lzma.compress}
    pack = packings.get(path.suffix, bytes)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial_folder(path.parent) as folder:
            plain_file, packed_file = folder / f"mesh{SUFFIX}", folder / "packed"
            medit.write(plain_file, content)
            packed_file.write_bytes(pack(plain_file.read_bytes()))
            packed_file.replace(path)
    except OSError as error:
        raise ReproError(
            "cannot write the mesh", where=path, actual=error, todo="free some space there, or name another file"
        ) from None


def mesh(name: str, fetch_settings: Fetch, registry: Path = REGISTRY) -> MeshFile:
    """Return a registered surface or tetrahedral mesh, for use by recipes; raise `ReproError` if it is unavailable."""
    item = load_registry(registry).find(name)
    if isinstance(item, Stanford):
        return read_stanford(item, fetch_settings).content
    if isinstance(item, Tetmesh):
        return read_tetmesh(item, fetch_settings).content
    raise ReproError(
        "the problem is not a mesh in a file", where=name, expected="source stanford or tetmesh", actual=item.source
    )


def _reader(
    item: Stanford | Tetmesh | Recipe,
    fetch_settings: Fetch,
    read: Callable[[Path, Limits | None], Read],
    limits: Limits | None = None,
) -> Callable[[tuple[Path, ...]], MeshFile]:
    def read_checked(paths: tuple[Path, ...]) -> MeshFile:
        vertices, cells, notes = read(paths[0], limits)
        sha256 = mesh_checksum(vertices, cells)
        state = check_content(item.name, sha256, item.checksum, Path(fetch_settings.cache), paths[0])
        return MeshFile(vertices, cells, notes, state)

    return read_checked
