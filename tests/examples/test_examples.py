"""The examples run on inputs that take a second each, and find the expected results."""

import sys
from importlib import import_module
from pathlib import Path

import meshio
import numpy as np
import pytest
from matplotlib.image import imread
from scipy.sparse.linalg import spsolve

pytestmark = pytest.mark.medium

EXAMPLES = Path(__file__).parents[2] / "examples"
DEVICE = ["--device", "opencl:0"]
#: Tiles are smaller than the examples' matrices, so that there are pairs within tiles and entries across them.
PAIRS = ["Pairs-64-AoSoA-AoS@clustered/direct-64-1-u2", "Pairs-64-AoSoA-AoS/direct-64-1"]


@pytest.fixture(autouse=True)
def beside_the_examples(monkeypatch, tmp_path):
    """They import each other, as scripts of one folder do; and nothing of theirs stays."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setenv("REPRO_CACHE", str(tmp_path / "cache"))
    yield
    for path in EXAMPLES.glob("*.py"):
        sys.modules.pop(path.stem, None)


def test_conjugate_gradients_give_the_same_displacements_three_times(capsys):
    example = import_module("conjugate_gradients")
    solutions = example.main(["--cells", "2", "3", "6", "--tolerance", "1e-9", *DEVICE])
    assert len(solutions) == 3
    first, *others = (solution.x for solution in solutions.values())
    for x in others:
        np.testing.assert_allclose(x, first, rtol=1e-6, atol=1e-6 * np.abs(first).max())
    stiffness, load = example.clamped_bar((2, 3, 6))
    assert np.linalg.norm(load - stiffness @ first) < 1e-8 * np.linalg.norm(load)
    assert np.linalg.eigvalsh(stiffness.toarray())[0] > 0
    assert all(0 < solution.iterations < 400 for solution in solutions.values())
    assert "all on the device" in capsys.readouterr().out


@pytest.mark.parametrize("tuned", PAIRS)
def test_conjugate_gradients_by_a_format_of_pairs(tuned, capsys):
    example = import_module("conjugate_gradients")
    solutions = example.main(["--cells", "2", "3", "9", "--tolerance", "1e-9", "--tuned", tuned, *DEVICE])
    stiffness, load = example.clamped_bar((2, 3, 9))
    assert stiffness.shape[0] // 3 > 64
    expected = np.linalg.solve(stiffness.toarray(), load)
    for solution in solutions.values():
        np.testing.assert_allclose(solution.x, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
    assert f"{tuned} on " in capsys.readouterr().out


def angles(vertices, faces):
    """The angles of all faces, `(f, 3)`."""
    corners = vertices[faces]
    a, b = np.roll(corners, -1, axis=1) - corners, np.roll(corners, 1, axis=1) - corners
    return np.arctan2(np.linalg.norm(np.cross(a, b), axis=2), (a * b).sum(axis=2))


def test_a_spin_transformation_bends_and_keeps_angles(tmp_path):
    example = import_module("spin_transformation")
    arguments = ["--surface", "blob", "--vertices", "800", "--strength", "8", "--potential", "slope"]
    (before, faces), (after, _) = example.main([*arguments, "--to", str(tmp_path), *DEVICE])
    size = np.ptp(before, axis=0).max()
    assert np.abs(after - before).max() > 0.1 * size
    assert np.median(np.abs(angles(after, faces) - angles(before, faces))) < np.radians(2)
    # a displacement of that size that has no regard to angles
    stretched = before * [1, 1.5, 1]
    assert np.median(np.abs(angles(stretched, faces) - angles(before, faces))) > np.radians(4)
    areas = [example.vertex_areas(points, faces).sum() for points in (before, after)]
    np.testing.assert_allclose(*areas)
    written = meshio.read(tmp_path / "after.ply")
    np.testing.assert_allclose(written.points, after)
    np.testing.assert_array_equal(written.cells_dict["triangle"], faces)
    picture = imread(tmp_path / "picture.png")
    drawn = (picture[:, :, :3] < 1).any(axis=2).mean(axis=0) > 0.05
    assert drawn[: len(drawn) // 2].mean() > 0.5
    assert drawn[len(drawn) // 2 :].mean() > 0.5


@pytest.mark.parametrize("tuned", PAIRS)
def test_a_format_of_pairs_bends_a_surface_as_the_default_does(tmp_path, capsys, tuned):
    example = import_module("spin_transformation")
    arguments = ["--surface", "blob", "--vertices", "300", "--potential", "slope", "--to", str(tmp_path), *DEVICE]
    _, (bent, _) = example.main(arguments)
    capsys.readouterr()
    (before, _), (after, _) = example.main([*arguments, "--tuned", tuned])
    assert f"{tuned} on " in capsys.readouterr().out
    size = np.ptp(before, axis=0).max()
    assert np.abs(bent - before).max() > 0.1 * size
    np.testing.assert_allclose(after, bent, atol=1e-3 * size)


def test_without_a_change_of_curvature_the_surface_stays(tmp_path):
    example = import_module("spin_transformation")
    arguments = ["--surface", "blob", "--vertices", "200", "--strength", "0", "--to", str(tmp_path), *DEVICE]
    (before, _), (after, _) = example.main(arguments)
    np.testing.assert_allclose(after, before, atol=1e-6)


def test_the_eigenvector_is_one(tmp_path):
    example = import_module("spin_transformation")
    vertices, faces = example.blob(150)
    dirac = example.assemble_dirac(vertices, faces, vertices[faces].mean(axis=1)[:, 1])
    area = example.vertex_areas(vertices, faces)
    squared, turn = example.smallest_eigenvector(dirac, area, device="opencl:0", tolerance=1e-9)
    rows = np.repeat(np.arange(dirac.n), np.diff(dirac.indptr))
    product = np.zeros((dirac.n, 4))
    np.add.at(product, rows, example.multiply(dirac.values, turn[dirac.indices]))
    np.testing.assert_allclose(product, squared * area[:, None] * turn, atol=1e-4 * np.abs(product).max())
    assert np.isclose((area[:, None] * turn**2).sum() / area.sum(), 1)


def test_the_closure_is_that_of_a_search(capsys):
    example = import_module("transitive_closure")
    closures = example.main(["--functions", "8", "--blocks", "5", "--columns", "9", *DEVICE])
    dynamic, rebuilt = closures.values()
    assert (dynamic.rounds, dynamic.insertions) == (rebuilt.rounds, rebuilt.insertions)
    assert dynamic.rounds > 1
    np.testing.assert_array_equal(dynamic.matrix.toarray() > 0, rebuilt.matrix.toarray() > 0)
    edges = example.program_graph(8, 5, 1).toarray() > 0
    reached = edges
    for _ in range(len(edges)):
        reached = reached | (reached.astype(int) @ edges > 0)
    np.testing.assert_array_equal(dynamic.matrix.toarray() > 0, reached)
    assert dynamic.matrix.nnz == reached.sum() > edges.sum()
    assert "times as long" in capsys.readouterr().out


def test_a_wrong_closure_is_told(monkeypatch):
    example = import_module("transitive_closure")
    monkeypatch.setattr(example, "expected", lambda edges: edges.toarray() > 0)
    with pytest.raises(SystemExit, match="not the closure"):
        example.main(["--functions", "3", "--blocks", "3", *DEVICE])


def test_a_device_that_there_is_not_is_one_message():
    with pytest.raises(SystemExit, match="error: "):
        import_module("transitive_closure").main(["--functions", "2", "--device", "opencl:77"])


def test_a_wish_that_cannot_be_is_one_message(tmp_path):
    for name in ("conjugate_gradients", "spin_transformation"):
        with pytest.raises(SystemExit, match="error: unknown choice of a kernel"):
            import_module(name).main(["--tuned", "best", *DEVICE] + ["--surface", "blob"] * (name[0] == "s"))


@pytest.mark.exhaustive
@pytest.mark.sampled(1)
@pytest.mark.parametrize(("degree", "cells"), [(1, (8, 16)), (2, (6, 12))])
def test_the_filter_raises_the_order_of_advection(tmp_path, capsys, degree, cells):
    example = import_module("advection_siac")
    to = tmp_path / "new" / "picture.png"
    coarse, fine = example.main(
        ["--degree", str(degree), "--cells", *map(str, cells), "--time", "0.1", "--to", str(to), *DEVICE]
    )
    assert degree + 0.8 < example.order(coarse, fine, "galerkin") < degree + 1.3
    assert example.order(coarse, fine, "filtered") > 2 * degree + 0.7
    assert fine.filtered < fine.galerkin / 3
    assert f"{fine.filtered:.3e}" in capsys.readouterr().out
    picture = imread(to)[:, :, :3]
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 100


def test_the_discretized_advection_keeps_what_it_has_to():
    """Constants and the integral stay, nothing grows; values are those of the triangle that a point lies in."""
    example = import_module("advection_siac")
    vertices, triangles = example.triangles_of(4)
    corners = vertices[triangles]
    advection = example.semidiscrete(corners, 4, 2)
    constant = np.zeros((32, 6))
    constant[:, 0] = np.sqrt(0.5)
    assert np.abs(advection @ constant.ravel()).max() < 1e-12
    assert np.abs(constant.ravel() @ advection).max() < 1e-12
    assert np.linalg.eigvals(advection.toarray()).real.max() < 1e-10
    modes = example.projected(corners, 2, 0.0)
    there = np.random.default_rng(1).random((200, 2))
    before = example.values(modes, 4, 2, there)
    assert np.abs(before - example.exact(there, 0.0)).max() < 0.12


@pytest.mark.mirror
@pytest.mark.slow
@pytest.mark.parametrize("tuned", ["default", PAIRS[0], pytest.param(PAIRS[1], marks=pytest.mark.exhaustive)])
def test_the_bunny_is_transformed(tmp_path, tuned):
    example = import_module("spin_transformation")
    (before, faces), (after, _) = example.main(["--to", str(tmp_path), "--tuned", tuned, *DEVICE])
    assert len(before) == 11010
    assert np.median(np.abs(angles(after, faces) - angles(before, faces))) < np.radians(5)


def test_heat_spreads_as_scipy_says_and_as_the_disc_s_modes_do(capsys):
    example = import_module("heat")
    cooled = example.main(["--points", "1500", "--steps", "20", "--seconds", "0.3", "--tolerance", "1e-10", *DEVICE])
    scipys, ours = cooled.values()
    np.testing.assert_allclose(ours.temperature, scipys.temperature, rtol=1e-6, atol=1e-8)
    assert 0 < ours.iterations < 1.2 * scipys.iterations
    # the slowest mode alone is left: 1.602 J0(2.405 r) exp(-2.405² t); implicit steps of 0.015 decay more slowly, and a
    # rim as wide as a triangle faster
    decay = (1 + 0.015 * 2.405**2) ** -20
    assert ours.temperature.max() == pytest.approx(1.602 * decay, rel=0.08)
    assert "on the chip" in capsys.readouterr().out


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("theta", "more"), [(0.0, 0), (0.08, 3)])
def test_a_plate_heats_up_as_a_direct_solver_says(tmp_path, capsys, theta, more):
    example = import_module("nonlinear_heat")
    to = tmp_path / "new" / "picture.png"
    small = ["--cells", "20", "--steps", "5", "--tolerance", "1e-11", "--to", str(to), *DEVICE]
    temperatures, steps = example.main([*small, "--theta", str(theta)])
    plate = example.Plate(20, 100.0)
    patterns = set()
    for before, u, step in zip(temperatures, temperatures[1:], steps, strict=False):
        matrix, right = plate.system(before, 0.2)
        patterns.add((matrix.indptr.tobytes(), matrix.indices.tobytes()))
        np.testing.assert_allclose(u, spsolve(matrix.tocsc(), right), rtol=1e-8, atol=1e-10)
        # what came in through the sides is in the plate; no place is hotter or colder than the sides
        assert step.heat - before.mean() == pytest.approx(step.gain, rel=1e-8)
        assert 0 <= u.min() < u.max() <= 1
        # aggregates of the first step serve as those of a hierarchy that is set up anew
        assert 0 < step.iterations <= step.iterations_anew + more
    assert len(patterns) == 1
    assert [step.heat for step in steps] == sorted(step.heat for step in steps)
    assert f"{steps[-1].heat:.4f}" in capsys.readouterr().out
    assert len(np.unique(imread(to)[:, :, :3].reshape(-1, 3), axis=0)) > 100


def test_a_homogeneous_plate_comes_to_rest_where_its_conductivity_says(tmp_path):
    example = import_module("nonlinear_heat")
    to = ["--to", str(tmp_path / "picture.png")]
    temperatures, steps = example.main(
        ["--cells", "24", "--steps", "12", "--time", "60", "--contrast", "1", *to, *DEVICE]
    )
    rest = temperatures[-1].reshape(24, 24)
    assert np.ptp(rest, axis=0).max() < 1e-6
    # the integral of the conductivity, (0.2 + u)³ / 3, falls evenly from the hot side to the cold one
    x = (np.arange(24) + 0.5) / 24
    expected = np.cbrt(0.2**3 + (1 - x) * (1.2**3 - 0.2**3)) - 0.2
    np.testing.assert_allclose(rest[0], expected, atol=4e-3)
    assert abs(steps[-1].gain) < 1e-3 * steps[0].gain
