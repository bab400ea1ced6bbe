"""Generated fields: meshes that fill the unit square or cube, their ratios, and the projected functions."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from repro.bench.campaign_folder import CampaignFolder
from repro.campaign import plan as planning
from repro.campaign.configuration import resolve
from repro.campaign.estimate import find_size
from repro.campaign.problem_files import build_problem, record_of
from repro.config.models import Config, Limits
from repro.errors import ReproError
from repro.galerkin import evaluate, exact_for
from repro.problems.builder import build
from repro.problems.field import FUNCTIONS, Field, delaunay_square, kuhn_cube, ordered_triangles, structured_square
from repro.problems.files import mesh_checksum
from repro.problems.generated_fields import FIELD_KINDS, generate_field, size_of
from repro.problems.own_problems import planned
from repro.problems.problem import load_problem
from repro.problems.registry import GeneratedField, load_registry
from repro.results.campaign_data import read_problem_records

REGISTRY = Path(__file__).parents[2] / "config/problems.yaml"


def areas(vertices: np.ndarray, cells: np.ndarray) -> np.ndarray:
    corners = vertices[cells]
    return np.linalg.det(corners[:, 1:] - corners[:, :1])


def edges(vertices: np.ndarray, cells: np.ndarray) -> np.ndarray:
    corners = vertices[cells]
    return np.linalg.norm(corners - np.roll(corners, -1, axis=1), axis=2)


# Meshes ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variance", ["low", "high"])
@pytest.mark.parametrize("triangles", [8, 50, 300, 4096, 16384])
def test_a_triangulation_fills_the_square(variance: str, triangles: int) -> None:
    vertices, cells = delaunay_square(triangles, variance)
    assert 0.9 * triangles - 2 <= len(cells) <= 1.1 * triangles + 2
    assert (vertices.min(axis=0).tolist(), vertices.max(axis=0).tolist()) == ([0, 0], [1, 1])
    doubled = areas(vertices, cells)
    assert doubled.sum() / 2 == pytest.approx(1, abs=1e-14)
    # by Euler's formula: every vertex is in a triangle, none hangs on an edge, and no border is left out
    border = ((vertices == 0) | (vertices == 1)).any(axis=1)
    assert len(cells) == 2 * len(vertices) - 2 - border.sum()
    assert len(np.unique(cells)) == len(vertices)
    # no sliver anywhere, the hull included: an equilateral triangle has 0.866
    assert (doubled / edges(vertices, cells).max(axis=1) ** 2).min() > 0.15
    for axis in (0, 1):
        for side in (0, 1):
            assert (vertices[:, axis] == side).sum() >= 2


@pytest.mark.parametrize("variance", ["low", "high"])
def test_opposite_sides_do_not_match(variance: str) -> None:
    vertices, _ = delaunay_square(4096, variance)
    left, right = (np.sort(vertices[vertices[:, 0] == side, 1])[1:-1] for side in (0, 1))
    assert not np.isin(left, right).any()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_variances_are_what_they_are_called(seed: int) -> None:
    for triangles in (4096, 16384):
        vertices, cells = delaunay_square(triangles, "low", seed)
        equilateral = np.sqrt(4 / (np.sqrt(3) * len(cells)))
        assert edges(vertices, cells).max() / equilateral == pytest.approx(1.55, abs=0.06)
        lengths = edges(*delaunay_square(triangles, "high", seed))
        assert lengths.max() / lengths.mean() == pytest.approx(2.9, abs=0.35)


def test_delaunays_criterion_holds() -> None:
    vertices, cells = delaunay_square(300, "high")
    a, b, c = (vertices[cells[:, i]][:, None] - vertices for i in range(3))
    lifted = [np.stack([*d.transpose(2, 0, 1), (d**2).sum(axis=2)], axis=-1) for d in (a, b, c)]
    inside = np.linalg.det(np.stack(lifted, axis=-2))
    assert inside.max() < 1e-15, "no vertex lies in the circle through the three of a triangle"


def test_triangles_are_turned_ordered_and_flat_ones_left_out() -> None:
    vertices = np.array([[0.0, 0], [1, 0], [0, 0.5], [0, 1], [1, 1]])
    flat, clockwise, other = [0, 2, 3], [4, 2, 3], [1, 2, 0]
    assert ordered_triangles(vertices, np.array([flat, clockwise, other], np.int32)).tolist() == [[0, 1, 2], [2, 4, 3]]


def test_the_same_again_and_another_by_another_seed() -> None:
    first, again, other = (delaunay_square(300, "low", seed) for seed in (1, 1, 2))
    assert first[0].tobytes() == again[0].tobytes() and first[1].tobytes() == again[1].tobytes()
    assert not np.array_equal(first[0], other[0])
    assert (np.diff(first[1][:, 0]) >= 0).all() and (first[1].argmin(axis=1) == 0).all(), "in one order"


@pytest.mark.parametrize(("mesh", "factor"), [(structured_square, 2), (kuhn_cube, 6)])
@pytest.mark.parametrize("count", [1, 3])
def test_lattices_are_cut_into_equal_simplices(mesh: Any, factor: int, count: int) -> None:
    vertices, cells = mesh(count)
    d = vertices.shape[1]
    assert (len(vertices), len(cells)) == ((count + 1) ** d, factor * count**d)
    np.testing.assert_allclose(areas(vertices, cells) * count**d, 1, rtol=1e-12)
    ordered = np.sort(cells, axis=1)
    assert len(np.unique(ordered, axis=0)) == len(cells)
    faces = np.concatenate([np.delete(ordered, i, axis=1) for i in range(d + 1)])
    counts = np.unique(faces, axis=0, return_counts=True)[1]
    assert (counts.max(), (counts == 1).sum()) == (min(2, count + 1), 2 * d * (factor // d) * count ** (d - 1))


def test_kuhns_tetrahedra_share_the_diagonal_of_their_cube() -> None:
    vertices, cells = kuhn_cube(2)
    spread = np.ptp(vertices[cells], axis=1)
    np.testing.assert_allclose(spread, 0.5)
    assert (np.sort(cells, axis=1)[:6][:, [0, 3]] == [0, 13]).all()


# Fields ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FIELD_KINDS)
def test_a_generated_field_is_sound_and_the_same_again(kind: str) -> None:
    small = {"delaunay": {"triangles": 40}, "structured": {"squares": 4}, "cubes": {"cubes": 2}}[kind]
    field, again = generate_field(kind, **small), generate_field(kind, **small)
    assert field.complete().statistics["total_volume"] == pytest.approx(1, abs=1e-14)
    assert (field.degree, field.basis, field.periodic) == (1, "dubiner", True)
    assert field.checksum() == again.checksum()


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(("kind", "coarse", "fine"), [("structured", 6, 12), ("cubes", 3, 6)])
@pytest.mark.parametrize("degree", [1, 2])
def test_the_error_of_the_projection_falls_as_it_has_to(
    kind: str, coarse: int, fine: int, degree: int, function: str
) -> None:
    errors = []
    for count in (coarse, fine):
        field = generate_field(
            kind, **{f"{'squares' if kind == 'structured' else 'cubes'}": count}, degree=degree, field=function
        )
        rule = exact_for(8, field.dimension)
        corners = field.vertices[field.cells]
        points = corners[:, :1] + rule.points @ (corners[:, 1:] - corners[:, :1])
        exact = FUNCTIONS[function](points.reshape(-1, field.dimension)).reshape(len(corners), -1)
        errors.append(np.sqrt(np.mean((field.modes @ evaluate("dubiner", rule.points, degree).T - exact) ** 2)))
    if function == "constant":
        assert max(errors) < 1e-14
    else:
        assert np.log2(errors[0] / errors[1]) == pytest.approx(degree + 1, abs=0.45)


def test_the_functions_are_periodic() -> None:
    points = np.random.default_rng(1).random((9, 2))
    for function in FUNCTIONS.values():
        np.testing.assert_allclose(function(points + np.array([1, -2])), function(points), atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [
        ("tetrahedra", {}, "expected: one of cubes, delaunay, structured"),
        ("delaunay", {"squares": 3}, "squares: unknown parameter"),
        ("delaunay", {"variance": "middle"}, "variance: Input should be 'low' or 'high'"),
        ("delaunay", {"triangles": 7}, "triangles: Input should be greater than or equal to 8 (is 7)"),
        ("structured", {"degree": 8}, "degree: Input should be less than or equal to 7 (is 8)"),
        ("structured", {"degree": -1}, "degree: Input should be greater than or equal to 0"),
        ("cubes", {"field": "cosine"}, "field: Input should be 'sine', 'waves' or 'constant'"),
    ],
)
def test_bad_parameters_are_named(kind: str, parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ReproError, match=re.escape(message)):
        generate_field(kind, **parameters)


# The registry, the plan and the build ---------------------------------------------------------------------------------


def test_the_sets_are_the_papers_meshes() -> None:
    registry = load_registry(REGISTRY)
    items = registry.expand("dg")
    sizes = [f"{4**i * 4}k" for i in range(5)]
    names = {f"siac/{variance}_{size}_p{p}" for variance in ("low", "high") for size in sizes for p in (1, 2, 3)}
    assert {item.name for item in items} == names and len(items) == 30
    for item in (*items, *registry.expand(["dg_3d", "dg_3d_more", "dg_small"])):
        assert isinstance(item, GeneratedField)
        assert item.checksum and item.kind_of_problem == "field"
        assert item.name.endswith(f"_p{item.parameters['degree']}")
    sums = {item.checksum for item in items}
    assert len(sums) == 10, "degrees share a mesh"
    assert [item.name for item in registry.expand("dg_3d")] == ["siac/cubes_10_p1", "siac/cubes_10_p2"]


@pytest.mark.parametrize(
    "name",
    [item.name for item in load_registry(REGISTRY).expand("dg_small")]
    + ["siac/low_4k_p3", "siac/high_16k_p1", "siac/cubes_10_p2"],
)
def test_registered_meshes_are_the_pinned_ones(name: str, make_config: Any) -> None:
    field = build(name, make_config(seed=7))
    assert isinstance(field, Field) and field.name == name
    assert field.origin["checksum"] == {"sha256": mesh_checksum(field.vertices, field.cells), "state": "pinned"}
    kind = "cubes" if "cubes" in name else "delaunay"
    assert field.origin["address"] == f"generated: {kind}"
    assert (field.origin["kind"], field.origin["function"]) == (kind, "sine")
    assert f"p{field.degree}" == name[-2:]
    if "k_" not in name and "cubes_10" not in name:
        assert len(field.cells) < 1000, "the default campaign's are small"
    record = record_of(field)
    assert (record["kind"], record["cells"]) == ("field", field.statistics["cells"])


def registered(make_config: Any, tmp_path: Path, item: str) -> Config:
    path = tmp_path / "problems.yaml"
    path.write_text(f"problems:\n  - {item}\n")
    return make_config(registry=str(path), seed=5)


@pytest.mark.wording
def test_another_mesh_than_the_pinned_one_is_refused(make_config: Any, tmp_path: Path) -> None:
    item = f"{{name: toy, source: field, kind: delaunay, parameters: {{triangles: 9}}, checksum: {'f' * 64}}}"
    with pytest.raises(ReproError, match=r"differs from the registry's[\s\S]*toy\n  expected: ffff"):
        build("toy", registered(make_config, tmp_path, item))


def test_the_campaigns_seed_is_the_meshs(make_config: Any, tmp_path: Path) -> None:
    item = "{name: toy, source: field, kind: delaunay, parameters: {triangles: 30}}"
    field = build("toy", registered(make_config, tmp_path, item))
    assert isinstance(field, Field)
    assert field.origin["parameters"] == {"triangles": 30, "seed": 5}
    assert field.origin["checksum"]["state"] == "unpinned"
    np.testing.assert_array_equal(field.vertices, delaunay_square(30, "low", 5)[0])
    lattice = build("toy", registered(make_config, tmp_path, "{name: toy, source: field, kind: structured}"))
    assert lattice.origin["parameters"] == {}


@pytest.mark.parametrize("more", ["entry: real", "published: {rows: 3, nonzeros: 3}", "updates: {sizes: [1]}"])
def test_a_field_has_nothing_of_a_matrix(more: str, make_config: Any, tmp_path: Path) -> None:
    key = more.partition(":")[0]
    with pytest.raises(ReproError, match=key):
        build("toy", registered(make_config, tmp_path, f"{{name: toy, source: field, kind: cubes, {more}}}"))


def test_a_plan_knows_about_how_large_a_field_will_be() -> None:
    registry = load_registry(REGISTRY)
    for name, size in (("siac/low_4k_p2", (4096, 6 * 4096)), ("siac/cubes_10_p2", (6000, 60000))):
        outline = planned(registry.find(name), registry, Limits())
        assert (outline.name, outline.kind, outline.entry, outline.size) == (name, "field", None, size)
        assert not outline.files and "sets" not in outline.definition
    assert size_of("structured", {}) == (2048, 3 * 2048)
    assert size_of("structured", {"squares": "many"}) is None
    assert size_of("spheres", {}) is None


def test_what_was_built_is_recorded_and_read_again(make_config: Any, tmp_path: Path) -> None:
    folder, name = CampaignFolder(tmp_path), "siac/cubes_3_p1"
    build_problem(name, make_config(), tmp_path / "a.npz", folder.record(name))
    record = read_problem_records(folder, [name])[name]
    assert (record.kind, record.dimension, record.cells, record.degree, record.entry) == ("field", 3, 162, 1, None)
    assert isinstance(load_problem(tmp_path / "a.npz", name), Field)
    registry = load_registry(REGISTRY)
    outline = planned(registry.find(name), registry, Limits())
    plan = SimpleNamespace(folder=folder)
    assert find_size(plan, outline) == ((162, 4 * 162), "built")
    assert find_size(SimpleNamespace(folder=CampaignFolder(tmp_path / "none")), outline) == ((162, 4 * 162), "stated")


@pytest.mark.wording
def test_studies_of_matrices_refuse_fields() -> None:
    for study in ("compound_spmv", "dynamic_csr"):
        with pytest.raises(ReproError, match=r"siac/low_400_p1\n  expected: a problem of kind \w+\n  actual: field"):
            planning.make_plan(resolve({"device": "opencl", "studies": {study: {"problems": ["siac/low_400_p1"]}}}))
