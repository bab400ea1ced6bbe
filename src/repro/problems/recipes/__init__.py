"""Recipes: the papers' five tetrahedral meshes, which are not public, made again to their sizes; and others.

Each recipe has one file in this folder. Every file of the folder is imported here and registers its own recipe. Gmsh,
TetGen and the other packages of the extra `mesh` are imported only while a recipe runs; where one is missing, an error
says what to install.

This module also has what recipes share. A closed triangle surface is repaired and simplified to a number of faces.
TetGen fills surfaces with tetrahedra, and Gmsh surfaces and CAD solids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from repro.config.models import Fetch
from repro.errors import ReproError
from repro.package_data import install
from repro.plugins import import_all
from repro.problems.assembly import Floats, Integers
from repro.problems.fetch import Found
from repro.problems.files import mesh_checksum
from repro.problems.meshes import tetrahedron_volumes
from repro.problems.registry import REGISTRY
from repro.problems.registry import Recipe as Item
from repro.problems.repositories import MeshFile, mesh, obtain_recorded

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


def load_package(module: str) -> Any:
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


# Gives a registered surface or tetrahedral mesh by the name of its problem; ReproError where it cannot be had.
SurfaceSource = Callable[[str], MeshFile]


class Made(NamedTuple):
    """A tetrahedral mesh: vertices float64 `(v, 3)`, tetrahedra int64 `(t, 4)`, and how it came about."""

    vertices: Floats
    tets: NDArray[np.int64]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class MeshRecipe:
    """How a mesh is made.

    Attributes
    ----------
    name
        For one of the papers' meshes its own name there, without `fem/`.
    make
        Makes the mesh, given where to get its surface from.
    ell_factor
        Published size of ELLPACK over that of CSR (Mueller-Roemer et al. 2020, table 9); None for another mesh.
    """

    name: str
    make: Callable[[SurfaceSource], Made]
    ell_factor: float | None = None


_RECIPES: dict[str, MeshRecipe] = {}


def register(recipe: MeshRecipe) -> MeshRecipe:
    """Add a recipe to those that can be built by name."""
    if recipe.name in _RECIPES:
        raise ValueError(f"two recipes are called {recipe.name}")
    _RECIPES[recipe.name] = recipe
    return recipe


def recipes() -> dict[str, MeshRecipe]:
    """Return all registered recipes by name."""
    return dict(_RECIPES)


def row_lengths(tets: Integers) -> NDArray[np.int64]:
    """Return the entries in each row of the mesh's vertex graph with its diagonal, int64 `(v,)`."""
    n = int(tets.max()) + 1
    pairs = np.sort(tets[:, [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]].reshape(-1, 2), axis=1)
    edges = np.sort(pairs[:, 0].astype(np.int64) * n + pairs[:, 1])
    edges = edges[np.diff(edges, prepend=-1) > 0]  # np.unique takes four times as long
    return 1 + np.bincount(edges // n, minlength=n) + np.bincount(edges % n, minlength=n)


PASSES = 6
CLOSE = 0.005  # half the tolerance in rows


class Surface(NamedTuple):
    """Vertices float64 `(v, 3)` and faces `(f, 3)`, counterclockwise from outside."""

    vertices: Floats
    faces: Integers


def first_of(source: SurfaceSource, *problems: str) -> tuple[Surface, tuple[str, ...]]:
    """Return the first surface that can be had; of a tetrahedral mesh it is the boundary.

    Parameters
    ----------
    source
        Gives a registered mesh by name.
    problems
        Names, the papers' own surface first, then those that stand in for it.

    Returns
    -------
    Surface
        As it is in the file.
    notes
        Which one it is, and whether it stands in.

    Raises
    ------
    ReproError
        None can be had; the message is about the papers' own.
    """
    missing: ReproError | None = None
    for name in problems:
        try:
            mesh = source(name)
        except ReproError as error:
            missing = missing or error
            continue
        solid = mesh.cells.shape[1] == 4
        surface = boundary(mesh.vertices, mesh.cells) if solid else Surface(mesh.vertices, mesh.cells)
        note = f"made from {'the boundary of ' if solid else ''}{name}"
        return surface, (note + (f", which stands in for {problems[0]}" if missing else ""),)
    assert missing is not None  # recipes name at least one
    raise missing


def boundary(vertices: Floats, tets: Integers) -> Surface:
    """Return the boundary of a tetrahedral mesh of positive volumes: the faces of one tetrahedron only."""
    faces = tets[:, [[1, 2, 3], [0, 3, 2], [0, 1, 3], [0, 2, 1]]].reshape(-1, 3)
    _, first, count = np.unique(np.sort(faces, axis=1), axis=0, return_index=True, return_counts=True)
    used, faces = np.unique(faces[np.sort(first[count == 1])], return_inverse=True)
    return Surface(vertices[used], faces.reshape(-1, 3))


def repair(surface: Surface) -> Surface:
    """Close holes, cut away self-intersections and keep the largest component (Attene 2010, MeshFix)."""
    pymeshfix = load_package("pymeshfix")
    with failing_as("repairing the surface by pymeshfix"):
        fixer = pymeshfix.MeshFix(surface.vertices, surface.faces.astype(np.int32))
        fixer.repair()
        return Surface(fixer.points, fixer.faces)


def simplify(surface: Surface, faces: int, aggressiveness: float) -> Surface:
    """Collapse edges by their quadric error until about `faces` are left.

    Parameters
    ----------
    surface
        What to simplify.
    faces
        How many to keep.
    aggressiveness
        How fast the error that is allowed grows: a small one gives even, well-shaped triangles, but does not get far.
        Errors are relative to the diagonal of the bounding box, whatever the unit of length.
    """
    simplification = load_package("fast_simplification")
    origin, diagonal = surface.vertices.min(axis=0), np.linalg.norm(np.ptp(surface.vertices, axis=0))
    with failing_as("simplifying the surface by fast-simplification"):
        vertices, kept = simplification.simplify(
            (surface.vertices - origin) / diagonal,
            surface.faces.astype(np.int32),
            target_count=faces,
            agg=aggressiveness,
        )
    return Surface(vertices.astype(np.float64) * diagonal + origin, kept)


def fit(make: Callable[[int], Made], faces: int, rows: int) -> Made:
    """Choose the number of surface triangles that gives a mesh of a wanted number of vertices.

    Recipes give the number that is right for the surface they were tried with, and are done after one pass; for
    another scan of the same thing it is corrected in proportion.

    Parameters
    ----------
    make
        Makes the mesh from a number of triangles.
    faces
        Where to start.
    rows
        Vertices wanted.
    """
    for _ in range(PASSES):
        made = make(faces)
        if abs(len(made.vertices) - rows) <= CLOSE * rows:
            break
        faces = round(faces * rows / len(made.vertices))
    return made


TETRAHEDRON = 4  # Gmsh's number of the element type
HXT = 10  # Gmsh's number of its newest 3D algorithm

# One thread, and the same pseudo-random perturbations: the same mesh on every run
_REPRODUCIBLE = {
    "General.Terminal": 0,
    "General.NumThreads": 1,
    "Mesh.MaxNumThreads1D": 1,
    "Mesh.MaxNumThreads2D": 1,
    "Mesh.MaxNumThreads3D": 1,
    "Mesh.RandomSeed": 1,
    "Mesh.Algorithm3D": HXT,
}

Tetrahedra = tuple[Floats, NDArray[np.int64]]


def fill_by_tetgen(surface: Surface, *, ratio: float, dihedral: float, flattest: float) -> Tetrahedra:
    """Fill a closed surface by TetGen's constrained Delaunay refinement (Si 2015), leaving its triangles as they are.

    Parameters
    ----------
    surface
        Closed, without self-intersections.
    ratio
        Largest circumradius over shortest edge of a tetrahedron before a vertex is added.
    dihedral
        Smallest dihedral angle in degrees before a vertex is added.
    flattest
        Dihedral angle in degrees above which flips and smoothing try to improve a tetrahedron.
    """
    tetgen = load_package("tetgen")
    with failing_as("filling the surface by TetGen"):
        # by keywords: given a string of switches, the package prints to the standard output
        mesher = tetgen.TetGen(surface.vertices, surface.faces.astype(np.int32))
        vertices, tets, *_ = mesher.tetrahedralize(
            nobisect=True, minratio=ratio, mindihedral=dihedral, optmaxdihedral=flattest
        )
    return vertices, tets.astype(np.int64)


def fill_by_gmsh(surface: Surface, options: Mapping[str, float]) -> Tetrahedra:
    """Fill a closed surface by Gmsh, leaving its triangles as they are.

    Parameters
    ----------
    surface
        Closed, without self-intersections.
    options
        Gmsh's numerical options by name, such as `Mesh.OptimizeThreshold`.
    """
    with _model(options) as gmsh:
        skin = gmsh.model.addDiscreteEntity(2)
        gmsh.model.mesh.addNodes(2, skin, np.arange(len(surface.vertices)) + 1, surface.vertices.ravel())
        gmsh.model.mesh.addElementsByType(skin, 2, [], (surface.faces + 1).ravel())
        gmsh.model.geo.addVolume([gmsh.model.geo.addSurfaceLoop([skin])])
        gmsh.model.geo.synchronize()
        return _tetrahedra(gmsh)


def mesh_solid(
    draw: Callable[[Any], None],
    options: Mapping[str, float],
    size_at: Callable[[Floats], float] | None = None,
) -> Tetrahedra:
    """Mesh a solid that is drawn with Gmsh's OpenCASCADE kernel.

    Parameters
    ----------
    draw
        Draws one solid, given `gmsh.model.occ`.
    options
        Gmsh's numerical options by name, such as `Mesh.MeshSizeMax`.
    size_at
        Edge length at a corner of the solid, given its position float64 `(3,)`; between corners it is interpolated.
    """
    with _model(options) as gmsh:
        draw(gmsh.model.occ)
        gmsh.model.occ.synchronize()
        if size_at is not None:
            for corner in gmsh.model.getEntities(0):
                gmsh.model.mesh.setSize([corner], size_at(gmsh.model.getValue(*corner, [])))
        return _tetrahedra(gmsh)


@contextmanager
def _model(options: Mapping[str, float]) -> Iterator[Any]:
    gmsh = load_package("gmsh")
    with failing_as("meshing by Gmsh"):
        gmsh.initialize(readConfigFiles=False, interruptible=False)
        try:
            for name, value in {**_REPRODUCIBLE, **options}.items():
                gmsh.option.setNumber(name, value)
            gmsh.model.add("recipe")
            yield gmsh
        finally:
            gmsh.finalize()


def _tetrahedra(gmsh: Any) -> Tetrahedra:
    gmsh.model.mesh.generate(3)
    tags, coordinates, _ = gmsh.model.mesh.getNodes()
    _, corners = gmsh.model.mesh.getElementsByType(TETRAHEDRON)
    order = np.argsort(tags)
    # copies: Gmsh's arrays are views of memory that it frees
    vertices = np.array(coordinates, dtype=np.float64).reshape(-1, 3)[order]
    return vertices, np.searchsorted(tags[order], corners).reshape(-1, 4).astype(np.int64)


import_all(__name__, __path__)


def names() -> list[str]:
    """Return the names of all recipes, sorted."""
    return sorted(recipes())


def obtain_mesh(item: Item, settings: Fetch, registry: Path = REGISTRY) -> Found[MeshFile]:
    """Return the mesh of a registered recipe: ready-made where the download folder or a mirror has it, else made.

    Parameters
    ----------
    item
        The problem; its checksum, where it has one, decides which ready-made mesh is taken.
    settings
        Where meshes, and the surfaces that some recipes start from, are looked for, and how they are downloaded.
    registry
        The file that lists these surfaces.

    Raises
    ------
    ReproError
        There is no such recipe; or there is no such mesh, and a package or a system library is missing, no surface
        that the recipe can start from is to be had, or the mesher failed.
    """
    recipe = _find(item.recipe)

    def with_shape(mesh: MeshFile, *notes: str) -> MeshFile:
        return replace(mesh, notes=(*notes, *mesh.notes, _shape(recipe, mesh.cells)))

    def make() -> Found[MeshFile]:
        vertices, tets, notes = build(item.recipe, settings, registry)
        sha256 = mesh_checksum(vertices, tets)
        same = ("the recorded mesh, bit for bit",) if sha256 == item.checksum else ()
        made = MeshFile(vertices, tets, (*notes, *same), {"sha256": sha256, "state": "rebuilt"})
        return Found((), f"recipe: {item.recipe}", with_shape(made))

    obtained = obtain_recorded(item, settings, make)
    if not obtained.paths:
        return obtained
    made_before = (f"made before, {item.made}",) if item.made and item.checksum else ()
    return replace(obtained, content=with_shape(obtained.content, *made_before))


def build(name: str, settings: Fetch, registry: Path = REGISTRY) -> tuple[Floats, NDArray[np.int64], tuple[str, ...]]:
    """Make a mesh.

    Parameters
    ----------
    name
        One of `names()`.
    settings
        Where the surfaces that some recipes start from are looked for, and how they are downloaded.
    registry
        The file that lists these surfaces.

    Returns
    -------
    vertices
        float64 `(v, 3)`, rounded to single precision, each a corner of some tetrahedron.
    tetrahedra
        int64 `(t, 4)`, all of positive volume, in order of their vertices. The same on every run of the same package
        versions.
    notes
        What it was made from and with.

    Raises
    ------
    ReproError
        There is no such recipe, a package or a system library is missing, no surface that the recipe can start from
        is to be had, or the mesher failed.
    """
    recipe = _find(name)
    made = recipe.make(partial(mesh, settings=settings, registry=registry))
    return *_tidied(made.vertices, made.tets, name), made.notes


def _find(name: str) -> MeshRecipe:
    if name not in recipes():
        raise ReproError("unknown recipe", expected=f"one of {', '.join(names())}", actual=name)
    return recipes()[name]


def _shape(recipe: MeshRecipe, tets: Integers) -> str:
    lengths = row_lengths(tets)
    published = f" (published {recipe.ell_factor})" if recipe.ell_factor else ""
    factor = lengths.max() * len(lengths) / lengths.sum()
    return f"longest row {lengths.max()}, ELL factor {factor:.1f}{published}"


def _tidied(vertices: Floats, tets: NDArray[np.int64], name: str) -> tuple[Floats, NDArray[np.int64]]:
    """Bring a mesh into the one form in which it is kept.

    Vertices without a tetrahedron are dropped, the others keep the mesher's order and are rounded to single precision;
    the order of tetrahedra and of the vertices in each is that of the vertices' numbers, but for positive volumes.
    """
    used, tets = np.unique(tets, return_inverse=True)
    vertices = vertices[used].astype(np.float32).astype(np.float64)
    tets = np.sort(tets.reshape(-1, 4).astype(np.int64), axis=1)
    tets = tets[np.lexsort(tets.T[::-1])]
    volumes = tetrahedron_volumes(vertices, tets)
    if flat := np.count_nonzero(volumes == 0):
        raise ReproError("the mesher left flat tetrahedra", where=f"recipe {name}", actual=f"{flat} of {len(tets)}")
    turned = np.flatnonzero(volumes < 0)
    tets[turned[:, None], [2, 3]] = tets[turned[:, None], [3, 2]]
    return vertices, tets


__all__ = ["build", "names", "obtain_mesh", "register"]
