"""Recipes that rebuild the five unpublished tetrahedral meshes of the papers, and further meshes.

Each other file of this folder registers recipes. Gmsh, TetGen and other optional packages (extra `mesh`) are imported
only while a recipe runs. Functions here repair and simplify a closed triangle surface and fill it with tetrahedra.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from repro.errors import ReproError
from repro.package_data import install
from repro.plugins import import_all

Floats = NDArray[np.float64]
Integers = NDArray[np.signedinteger[Any]]
# Debian packages with libraries that Gmsh's wheel needs but does not contain.
GMSH_LIBRARIES = (
    "libglu1-mesa", "libgl1", "libx11-6", "libxext6", "libxrender1", "libxcursor1", "libxfixes3", "libxft2",
    "libxinerama1", "libfontconfig1", "libgomp1",
)  # fmt: skip


def load_package(module: str) -> Any:
    """Import an optional package; if it is missing, raise `ReproError` that says what to install."""
    try:
        return import_module(module)
    except ImportError as error:
        raise _missing(module, error) from None
    except OSError as error:  # Gmsh's Python module loads a shared library
        raise ReproError(
            f"{module} is installed, but a system library that it needs is not",
            actual=error,
            todo=f"on Debian or Ubuntu: apt-get install {' '.join(GMSH_LIBRARIES)}",
        ) from None


def _missing(package: str, error: ImportError) -> ReproError:
    return ReproError(f"rebuilding the papers' tetrahedral meshes needs {package}", actual=error, todo=install("mesh"))


def versions(*packages: str) -> str:
    """Return names and versions of packages for a note; `ReproError` if one is missing."""
    try:
        return ", ".join(f"{package} {version(package)}" for package in packages)
    except PackageNotFoundError as error:
        raise _missing(error.name, error) from None


@contextmanager
def failing_as(subject: str) -> Iterator[None]:
    """Convert exceptions of a mesh generator to `ReproError`."""
    try:
        yield
    except ReproError:
        raise
    except Exception as error:
        raise ReproError(
            f"{subject} failed",
            actual=" ".join(f"{type(error).__name__}: {error}".split()),
            todo="try the versions of the extra `mesh` in pyproject.toml",
        ) from error


class Mesh(Protocol):
    """Vertices float64 `(v, 3)`, and cells: triangles `(m, 3)` or tetrahedra `(m, 4)`."""

    @property
    def vertices(self) -> Floats: ...

    @property
    def cells(self) -> NDArray[np.int64]: ...


#: Function that returns a registered surface or tetrahedral mesh by problem name, or raises ReproError.
SurfaceSource = Callable[[str], Mesh]


class Made(NamedTuple):
    """A tetrahedral mesh: vertices float64 `(v, 3)`, tetrahedra int64 `(t, 4)`, and notes."""

    vertices: Floats
    tets: NDArray[np.int64]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class MeshRecipe:
    """Recipe for one mesh."""

    #: Name of the mesh in the paper, without `fem/`.
    name: str
    #: Builds the mesh; the argument provides surfaces.
    make: Callable[[SurfaceSource], Made]
    #: Published ratio of ELLPACK size to CSR size (Mueller-Roemer et al. 2020, table 9); None if not published.
    ell_factor: float | None = None


_RECIPES: dict[str, MeshRecipe] = {}


def register(recipe: MeshRecipe) -> MeshRecipe:
    if recipe.name in _RECIPES:
        raise ValueError(f"two recipes are called {recipe.name}")
    _RECIPES[recipe.name] = recipe
    return recipe


def names() -> list[str]:
    return sorted(_RECIPES)


def find_recipe(name: str) -> MeshRecipe:
    if name not in _RECIPES:
        raise ReproError("unknown recipe", expected=f"one of {', '.join(names())}", actual=name)
    return _RECIPES[name]


PASSES = 6
CLOSE = 0.005  # half of the builder's relative tolerance for the number of vertices (rows)


class Surface(NamedTuple):
    """Vertices float64 `(v, 3)` and faces `(f, 3)`, counterclockwise from outside."""

    vertices: Floats
    faces: Integers


def first_of(source: SurfaceSource, *problems: str) -> tuple[Surface, tuple[str, ...]]:
    """Return the first available surface (for a tetrahedral mesh its boundary), and a note if it is a substitute."""
    first_error: ReproError | None = None
    for name in problems:
        try:
            mesh = source(name)
        except ReproError as error:
            first_error = first_error or error
            continue
        solid = mesh.cells.shape[1] == 4
        surface = boundary(mesh.vertices, mesh.cells) if solid else Surface(mesh.vertices, mesh.cells)
        note = f"made from {'the boundary of ' if solid else ''}{name}"
        return surface, (note + (f", which stands in for {problems[0]}" if first_error else ""),)
    assert first_error is not None  # recipes name at least one problem
    raise first_error


def boundary(vertices: Floats, tets: Integers) -> Surface:
    """Return the boundary of a tetrahedral mesh with positive volumes: all faces that belong to only one
    tetrahedron.
    """
    faces = tets[:, [[1, 2, 3], [0, 3, 2], [0, 1, 3], [0, 2, 1]]].reshape(-1, 3)
    _, first, count = np.unique(np.sort(faces, axis=1), axis=0, return_index=True, return_counts=True)
    used_vertices, faces = np.unique(faces[np.sort(first[count == 1])], return_inverse=True)
    return Surface(vertices[used_vertices], faces.reshape(-1, 3))


def repair(surface: Surface) -> Surface:
    """Close holes, remove self-intersections and keep the largest component (Attene 2010, MeshFix)."""
    pymeshfix = load_package("pymeshfix")
    with failing_as("repairing the surface by pymeshfix"):
        fixer = pymeshfix.MeshFix(surface.vertices, surface.faces.astype(np.int32))
        fixer.repair()
        return Surface(fixer.points, fixer.faces)


def simplify(surface: Surface, faces: int, aggressiveness: float) -> Surface:
    """Collapse edges by their quadric error until about `faces` are left.

    `aggressiveness` is the rate at which the allowed error grows: a small value gives even, well-shaped triangles, but
    more than `faces` may remain. Errors are relative to the diagonal of the bounding box.
    """
    simplification = load_package("fast_simplification")
    origin, diagonal = surface.vertices.min(axis=0), np.linalg.norm(np.ptp(surface.vertices, axis=0))
    with failing_as("simplifying the surface by fast-simplification"):
        vertices, kept_faces = simplification.simplify(
            (surface.vertices - origin) / diagonal,
            surface.faces.astype(np.int32),
            target_count=faces,
            agg=aggressiveness,
        )
    return Surface(vertices.astype(np.float64) * diagonal + origin, kept_faces)


def fit_vertices(make: Callable[[int], Made], faces: int, rows: int) -> Made:
    """Choose the number of surface triangles for which `make` gives a mesh of about `rows` vertices, starting with
    `faces`.

    `faces` fits the scan of the recipe. For another scan, the number is scaled after each attempt until it fits.
    """
    for _ in range(PASSES):
        mesh = make(faces)
        if abs(len(mesh.vertices) - rows) <= CLOSE * rows:
            break
        faces = round(faces * rows / len(mesh.vertices))
    return mesh


TETRAHEDRON = 4  # Gmsh's number of the element type
HXT = 10  # Gmsh's number of its newest 3D algorithm

# One thread and fixed pseudo-random perturbations, for a reproducible mesh
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


def make_from_scan(
    scan: tuple[Surface, tuple[str, ...]],
    fill: Callable[[Surface], tuple[Floats, NDArray[np.int64]]],
    mesher: str,
    *,
    faces: int,
    rows: int,
    aggressiveness: float,
) -> Made:
    """Simplify a scanned surface to about `faces` triangles and fill it, such that about `rows` vertices result."""
    surface, notes = scan

    def filled_mesh(count: int) -> Made:
        return Made(*fill(repair(simplify(surface, count, aggressiveness))), notes)

    mesh = fit_vertices(filled_mesh, faces, rows)
    return mesh._replace(notes=(*notes, f"made with {versions('pymeshfix', 'fast-simplification', mesher)}"))


def fill_by_tetgen(surface: Surface, *, ratio: float, dihedral: float, flattest: float) -> Tetrahedra:
    """Fill a closed surface with tetrahedra by TetGen (Si 2015) and keep the surface's triangles.

    Parameters
    ----------
    ratio
        Maximum ratio of circumradius to shortest edge; tetrahedra with a larger ratio are refined.
    dihedral
        Minimum dihedral angle in degrees; tetrahedra with a smaller angle are refined.
    flattest
        Dihedral angle in degrees; tetrahedra with a larger angle are improved by flips and smoothing.
    """
    tetgen = load_package("tetgen")
    with failing_as("filling the surface by TetGen"):
        # with a string of switches the package would print to standard output
        mesher = tetgen.TetGen(surface.vertices, surface.faces.astype(np.int32))
        vertices, tets, *_ = mesher.tetrahedralize(
            nobisect=True, minratio=ratio, mindihedral=dihedral, optmaxdihedral=flattest
        )
    return vertices, tets.astype(np.int64)


def fill_by_gmsh(surface: Surface, options: Mapping[str, float]) -> Tetrahedra:
    """Fill a closed surface with tetrahedra by Gmsh and keep the surface's triangles; `options` are Gmsh's numerical
    options.
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
    """Mesh a solid by Gmsh; `draw` defines it with `gmsh.model.occ`, and `options` are Gmsh's numerical options.

    `size_at` returns the edge length at a corner of the solid from its position `(3,)`; elsewhere it is interpolated.
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
    # Copy the arrays, since Gmsh frees its memory.
    vertices = np.array(coordinates, dtype=np.float64).reshape(-1, 3)[order]
    return vertices, np.searchsorted(tags[order], corners).reshape(-1, 4).astype(np.int64)


import_all(__name__, __path__)
