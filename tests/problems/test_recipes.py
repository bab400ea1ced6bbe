"""The rebuilt meshes: of the published sizes, sound, the same every time; and what happens without the packages."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import yaml
from scipy.sparse.csgraph import connected_components

from repro.config.models import Fetch
from repro.errors import ReproError
from repro.problems import generators, recipes, repositories
from repro.problems import recipes as base
from repro.problems import recipes as packages
from repro.problems.assembly import Pattern
from repro.problems.meshes import tetrahedron_volumes
from repro.problems.recipes import (
    Made,
    Surface,
    boundary,
    fill_by_gmsh,
    fill_by_tetgen,
    first_of,
    fit_vertices,
    mesh_solid,
    repair,
    simplify,
)
from repro.problems.registry import Recipe, load_registry
from repro.problems.repositories import MeshFile, row_lengths

pytestmark = pytest.mark.medium

REGISTRY = Path(__file__).parents[2] / "config/problems.yaml"
PUBLISHED = {
    item.recipe: (item.published.rows, item.published.nonzeros)
    for item in load_registry(REGISTRY).problems
    if isinstance(item, Recipe) and item.published
}
LONGEST = {"bunny2.4M": (70, 86)}
# Vertices on the boundary, in percent: what tells a surface with little in it from a solid
ON_BOUNDARY = {
    "armadillo_1000.1": (80, 95),
    "bunny2.4M": (85, 100),
    "dragon_100K": (65, 80),
    "nut_37k": (60, 75),
    "NX_MotorH67k": (40, 55),
}
FROM_NOTHING = ["nut_37k", "NX_MotorH67k"]
FROM_A_SURFACE = ["armadillo_1000.1", "bunny2.4M", "dragon_100K"]
EVERY = [*FROM_NOTHING, *(pytest.param(name, marks=pytest.mark.mirror) for name in FROM_A_SURFACE)]


def _missing(*modules: str) -> str | None:
    for module in modules:
        try:
            packages.load_package(module)
        except ReproError as error:
            return f"{error.what}: {error.actual}"
    return None


_reason = _missing("gmsh", "tetgen", "pymeshfix", "fast_simplification")
needs_packages = pytest.mark.skipif(_reason is not None, reason=_reason or "")


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """Build a recipe from the mirror alone, without asking the network for what the mirror lacks."""
    folder = tmp_path_factory.mktemp("recipes")
    content = yaml.safe_load(REGISTRY.read_text())
    for item in content["problems"]:
        item.pop("urls", None)
    offline = folder / "problems.yaml"
    offline.write_text(yaml.safe_dump(content))
    copytree(REGISTRY.parent / "collections", folder / "collections")  # which sets of the registry name
    return lambda name: repositories.build_recipe(name, Fetch(cache=str(folder / "cache")), offline)


@pytest.fixture(scope="module")
def made(make: Callable[[str], Any]) -> Callable[[str], Any]:
    """Build a recipe once for all tests."""
    return cache(make)


def test_the_registry_and_the_recipes_name_each_other() -> None:
    items = [item for item in load_registry(REGISTRY).problems if isinstance(item, Recipe)]
    assert recipes.names() == sorted(item.recipe for item in items)
    assert all(item.checksum and item.made for item in items)


@pytest.mark.sampled(3)
@pytest.mark.slow
@needs_packages
@pytest.mark.parametrize("name", EVERY)
def test_size(made: Callable[[str], Any], name: str) -> None:
    lengths = row_lengths(made(name)[1])
    rows, nonzeros = PUBLISHED[name]
    assert len(lengths) == pytest.approx(rows, rel=0.01)
    assert lengths.sum() == pytest.approx(nonzeros, rel=0.05)
    low, high = LONGEST.get(name, (20, 40))
    assert low <= lengths.max() <= high


@pytest.mark.exhaustive
@needs_packages
@pytest.mark.slow
def test_the_large_mesh_is_larger_than_the_cache(made: Callable[[str], Any]) -> None:
    lengths = row_lengths(made("motor_257k")[1])
    assert len(lengths) >= 250_000
    assert lengths.sum() * 9 * 4 > 60e6


@pytest.mark.sampled(3)
@needs_packages
@pytest.mark.parametrize("name", EVERY)
def test_soundness(made: Callable[[str], Any], name: str) -> None:
    vertices, tets, _ = made(name)
    assert (vertices.dtype, tets.dtype) == (np.float64, np.int64)
    assert np.array_equal(np.unique(tets), np.arange(len(vertices)))
    volumes = tetrahedron_volumes(vertices, tets)
    assert volumes.min() > 0
    skin = boundary(vertices, tets)
    assert _enclosed(skin) == pytest.approx(volumes.sum())
    low, high = ON_BOUNDARY[name]
    assert low <= 100 * len(skin.vertices) / len(vertices) <= high
    assert _components(tets) == 1


@pytest.mark.sampled(3)
@needs_packages
@pytest.mark.parametrize(
    "name",
    ["nut_37k", pytest.param("NX_MotorH67k", marks=pytest.mark.slow)]
    + [pytest.param(name, marks=[pytest.mark.mirror, pytest.mark.slow]) for name in FROM_A_SURFACE],
)
def test_the_same_every_time(made: Callable[[str], Any], make: Callable[[str], Any], name: str) -> None:
    first, again = made(name), make(name)
    assert np.array_equal(first[0], again[0])
    assert np.array_equal(first[1], again[1])
    assert first[2] == again[2]


@pytest.mark.wording
@pytest.mark.mirror
@needs_packages
def test_the_note_names_what_stands_in(made: Callable[[str], Any]) -> None:
    if any((Path(os.environ["REPRO_MIRROR"]) / "stanford").glob("Armadillo.*")):
        pytest.skip("the mirror has the full armadillo")
    assert (
        "made from the boundary of armadillo_13k, which stands in for surfaces/armadillo" in made("armadillo_1000.1")[2]
    )


def test_unused_vertices_and_inverted_tetrahedra_are_tidied(
    make: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    vertices, tets = generators.lattice_box((1, 1, 1))
    messy = tets + 1
    messy[::2, [0, 1]] = messy[::2, [1, 0]]
    mess = Made(np.vstack([[9, 9, 9], vertices + 1 + 1e-9]), messy[::-1], ())
    monkeypatch.setitem(base._RECIPES, "toy", base.MeshRecipe("toy", lambda _: mess))
    tidy, turned, _ = make("toy")
    assert np.array_equal(tidy, vertices + 1), "rounded to single precision"
    assert tetrahedron_volumes(tidy, turned) == pytest.approx(np.full(6, 1 / 6))
    assert np.array_equal(np.sort(turned, axis=1), np.unique(np.sort(tets, axis=1), axis=0)), "in order"


@pytest.mark.wording
def test_flat_tetrahedra_are_refused(make: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    vertices, tets = generators.lattice_box((1, 1, 1))
    flat = Made(vertices * [1, 1, 0], tets, ())
    monkeypatch.setitem(base._RECIPES, "toy", base.MeshRecipe("toy", lambda _: flat))
    with pytest.raises(ReproError, match=r"flat tetrahedra[\s\S]*recipe toy[\s\S]*6 of 6"):
        make("toy")


@pytest.mark.wording
def test_unknown_recipe(make: Callable[[str], Any]) -> None:
    with pytest.raises(ReproError, match=r"unknown recipe\n  expected: one of NX_MotorH67k, .*nut_37k\n  actual: bolt"):
        make("bolt")


@pytest.mark.wording
@pytest.mark.parametrize("module", ["gmsh", "tetgen", "pymeshfix", "fast_simplification"])
def test_a_missing_package(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ReproError, match=rf"needs {module}[\s\S]*pip install -e '\.\[mesh\]'"):
        packages.load_package(module)


@pytest.mark.wording
@pytest.mark.parametrize("recipe", ["nut_37k", "NX_MotorH67k"])
def test_a_recipe_without_its_packages(
    recipe: str, make: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(package: str) -> str:
        raise packages.PackageNotFoundError(package)

    monkeypatch.setattr(packages, "version", absent)
    monkeypatch.setitem(sys.modules, "gmsh", None)
    with pytest.raises(ReproError, match=r"needs gmsh[\s\S]*pip install -e '\.\[mesh\]'"):
        make(recipe)


@pytest.mark.wording
def test_a_missing_system_library(make: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def unloadable(_: str) -> None:
        raise OSError("libGLU.so.1: cannot open shared object file: No such file or directory")

    monkeypatch.setattr(packages, "version", lambda _: "1.0")
    monkeypatch.setattr(packages, "import_module", unloadable)
    with pytest.raises(ReproError, match=r"actual: libGLU\.so\.1[\s\S]*apt-get install libglu1-mesa .*libxrender1"):
        make("nut_37k")


def test_row_lengths_are_those_of_the_assembled_pattern() -> None:
    vertices, tets = generators.lattice_box((3, 4, 5))
    assert np.array_equal(row_lengths(tets), np.diff(Pattern.of(tets, len(vertices)).indptr))


def test_the_boundary_is_closed_and_faces_outwards() -> None:
    vertices, tets = generators.lattice_box((3, 4, 5))
    skin = boundary(vertices, tets)
    assert len(skin.faces) == 4 * (3 * 4 + 4 * 5 + 5 * 3)
    assert len(skin.vertices) == len(vertices) - 2 * 3 * 4
    assert _enclosed(skin) == pytest.approx(3 * 4 * 5)


def test_the_first_surface_that_is_there_is_taken() -> None:
    vertices, tets = generators.lattice_box((1, 1, 1))
    there = {"solid": MeshFile(vertices, tets, (), {}), "skin": MeshFile(*boundary(vertices, tets), (), {})}

    def source(name: str) -> MeshFile:
        if name not in there:
            raise ReproError(f"{name} could not be fetched")
        return there[name]

    assert first_of(source, "skin", "solid")[1] == ("made from skin",)
    surface, notes = first_of(source, "best", "solid", "skin")
    assert len(surface.faces) == 12
    assert notes == ("made from the boundary of solid, which stands in for best",)
    with pytest.raises(ReproError, match="best could not be fetched"):
        first_of(source, "best", "second best")


@pytest.mark.parametrize(("start", "passes"), [(2000, 1), (3100, 2)])
def test_fitting_corrects_in_proportion(start: int, passes: int) -> None:
    asked = []

    def make(faces: int) -> Made:
        asked.append(faces)
        return Made(np.zeros((faces // 2 + 2, 3)), np.zeros((1, 4), np.int64), ())

    assert len(fit_vertices(make, start, 1000).vertices) == pytest.approx(1000, rel=0.005)
    assert len(asked) == passes


def test_fitting_ends() -> None:
    assert len(fit_vertices(lambda _: Made(np.zeros((7, 3)), np.zeros((1, 4), np.int64), ()), 100, 1000).vertices) == 7


@needs_packages
def test_repair_closes_a_hole_that_a_mesher_refuses() -> None:
    skin = boundary(*generators.lattice_box((4, 4, 4)))
    torn = Surface(skin.vertices, skin.faces[5:])
    with pytest.raises(ReproError, match="filling the surface by TetGen failed"):
        fill_by_tetgen(torn, ratio=2, dihedral=3, flattest=150)
    with pytest.raises(ReproError, match="meshing by Gmsh failed"):
        fill_by_gmsh(torn, {})
    whole = repair(torn)
    assert _enclosed(whole) == pytest.approx(64, rel=0.02)
    for vertices, tets in (fill_by_tetgen(whole, ratio=2, dihedral=3, flattest=150), fill_by_gmsh(whole, {})):
        assert np.abs(tetrahedron_volumes(vertices, tets)).sum() == pytest.approx(_enclosed(whole))


@needs_packages
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_simplifying_does_not_depend_on_the_unit_of_length(scale: float) -> None:
    skin = boundary(*generators.lattice_box((6, 6, 6)))
    coarse = simplify(Surface(skin.vertices * scale, skin.faces), 100, aggressiveness=4)
    assert len(coarse.faces) == pytest.approx(100, abs=2)
    assert _enclosed(coarse) == pytest.approx(216 * scale**3, rel=0.02)


@pytest.mark.wording
@needs_packages
def test_a_solid_that_cannot_be_drawn() -> None:
    with pytest.raises(ReproError, match=r"meshing by Gmsh failed[\s\S]*Degenerate box"):
        mesh_solid(lambda occ: occ.addBox(0, 0, 0, 1, 1, 0), {})


@needs_packages
def test_mesh_sizes_at_corners() -> None:
    def draw(occ: Any) -> None:
        occ.addBox(0, 0, 0, 1, 1, 1)

    vertices, _ = mesh_solid(draw, {}, lambda corner: 0.05 if corner[0] < 0.5 else 0.3)
    assert np.count_nonzero(vertices[:, 0] == 0) > 10 * np.count_nonzero(vertices[:, 0] == 1)


def _enclosed(surface: Surface) -> float:
    """The volume inside a closed surface, by the divergence theorem; negative when it faces inwards."""
    corners = surface.vertices[surface.faces]
    return float(np.linalg.det(corners).sum() / 6)


def _components(tets: np.ndarray[Any, Any]) -> int:
    pattern = Pattern.of(tets, int(tets.max()) + 1)
    graph = sp.csr_array((np.ones(len(pattern.indices)), pattern.indices, pattern.indptr), shape=(pattern.n, pattern.n))
    return int(connected_components(graph, directed=False)[0])
