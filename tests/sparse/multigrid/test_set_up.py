"""The set-up of multigrid on the CPU and by a GPU's emulator, held against its model on the host."""

import numpy as np
import pytest
import scipy.sparse as sp

from grids import PROBLEMS, poisson
from repro.errors import ReproError
from repro.sparse.multigrid import model
from repro.sparse.multigrid.hierarchy import set_up_on
from repro.sparse.multigrid.settings import Settings
from sparse_factors import to_csr


@pytest.fixture
def levels_of(device, load, on_device):
    """Set a hierarchy up on the device."""
    held = []

    def make(matrix, near_null=None, unknowns=1, settings=None, precision="double"):
        dtype = np.float32 if precision == "single" else np.float64
        stored = on_device(matrix, dtype)
        held.append(set_up_on(device, load(precision), stored, near_null, unknowns, settings))
        return held[-1]

    yield make
    for levels in held:
        for level in levels:
            level.release()


def assert_levels(device, levels, expected, tolerance):
    assert [level.a.shape for level in levels] == [level.a.shape for level in expected]
    for ours, theirs in zip(levels, expected, strict=True):
        scale = abs(theirs.a).max()
        assert abs(to_csr(ours.a) - theirs.a).max() <= tolerance * scale
        assert ours.nnz == ours.a.download().nnz
        if theirs.p is None:
            assert ours.p is None
            continue
        assert abs(to_csr(ours.p) - theirs.p).max() <= tolerance * abs(theirs.p).max()
        assert abs(to_csr(ours.r) - to_csr(ours.p).T).max() == 0
        aggregates = np.empty(len(theirs.aggregates), np.int32)
        device.download(ours.aggregates, aggregates)
        np.testing.assert_array_equal(aggregates, theirs.aggregates)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("precision", ["single", "double"])
def test_the_levels_are_those_of_the_model(device, levels_of, name, precision):
    matrix, settings = poisson(*PROBLEMS[name]), Settings(coarsest=20)
    expected = model.set_up(matrix, settings=settings)
    levels = levels_of(matrix, settings=settings, precision=precision)
    assert len(levels) > 1
    assert_levels(device, levels, expected, 1e-10 if precision == "double" else 5e-4)
    radius = model.spectral_radius(matrix, settings.ritz_steps)
    assert levels[0].radius == pytest.approx(radius, rel=1e-10 if precision == "double" else 1e-4)


def test_the_coarse_matrix_is_the_product_of_the_three(levels_of):
    fine, *_ = levels = levels_of(poisson((40, 40), 9))
    a, p, r = (to_csr(matrix) for matrix in (fine.a, fine.p, fine.r))
    expected = r @ (a @ p)
    assert abs(to_csr(levels[1].a) - expected).max() <= 1e-12 * abs(expected).max()


@pytest.mark.parametrize(("unknowns", "k"), [(1, 2), (2, 3)])
def test_several_vectors_and_unknowns(device, levels_of, unknowns, k):
    matrix = sp.csr_array(sp.kron(poisson((24, 24), 5), np.eye(unknowns) + 0.1))
    near = np.random.default_rng(1).random((matrix.shape[0], k))
    expected = model.set_up(matrix, near, unknowns, Settings(coarsest=60))
    assert_levels(device, levels_of(matrix, near, unknowns, Settings(coarsest=60)), expected, 1e-10)


def test_strong_connections_alone(device, levels_of):
    matrix = sp.csr_array(sp.kron(sp.eye_array(30), poisson((10, 10), 5)[:10, :10]) + 0.01 * poisson((30, 10), 5))
    settings = Settings(theta=0.08, coarsest=20)
    assert_levels(device, levels_of(matrix, settings=settings), model.set_up(matrix, settings=settings), 1e-10)


def test_parts_that_do_not_touch_and_rows_alone(device, levels_of):
    matrix = sp.csr_array(sp.block_diag([poisson((14, 14), 5), sp.eye_array(3), poisson((9, 9), 9)]))
    assert_levels(device, levels_of(matrix), model.set_up(matrix), 1e-10)


def test_vectors_that_no_aggregate_can_tell_apart(device, levels_of):
    matrix = poisson((20, 20), 5)
    near = np.ones((400, 2))
    settings = Settings(coarsest=30)
    levels = levels_of(matrix, near, settings=settings)
    assert (to_csr(levels[1].a).diagonal() != 0).all()
    assert_levels(device, levels, model.set_up(matrix, near, settings=settings), 1e-10)


@pytest.mark.parametrize("n", [1, 300])
def test_what_cannot_be_made_coarser_has_one_level(levels_of, n):
    assert len(levels_of(sp.csr_array(3.0 * sp.eye_array(n)))) == 1


def test_levels_and_smoothing_as_asked_for(device, levels_of):
    matrix = poisson((30, 30), 5)
    assert len(levels_of(matrix, settings=Settings(levels=2))) == 2
    plain = Settings(omega=0.0, coarsest=50)
    assert_levels(device, levels_of(matrix, settings=plain), model.set_up(matrix, settings=plain), 1e-10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a[:, :-1], "square"),
        (lambda a: a - sp.diags_array(np.where(np.arange(a.shape[0]) == 5, a.diagonal(), 0)), "row 5, the first of 1"),
        (lambda a: a * np.nan, "row 0, the first of 400"),
    ],
)
def test_matrices_that_cannot_be_set_up_are_refused(levels_of, change, message):
    with pytest.raises(ReproError, match=message):
        levels_of(sp.csr_array(change(poisson((20, 20), 5))))


@pytest.mark.parametrize(("near", "unknowns", "message"), [((10, 1), 1, "near null"), (None, 3, "unknowns of a node")])
def test_vectors_that_do_not_fit_are_refused(levels_of, near, unknowns, message):
    with pytest.raises(ReproError, match=message):
        levels_of(poisson((20, 20), 5), None if near is None else np.ones(near), unknowns)


def test_a_negative_diagonal_is_taken_as_it_is(device, levels_of):
    matrix = -poisson((20, 20), 5)
    assert_levels(device, levels_of(matrix), model.set_up(matrix), 1e-10)


def test_a_strongly_anisotropic_matrix_is_made_coarser_along_what_is_strong(device, levels_of):
    line = sp.diags_array([2 * np.ones(30), -np.ones(29), -np.ones(29)], offsets=[0, 1, -1])
    matrix = sp.csr_array(sp.kron(line, sp.eye_array(30)) + 1e-3 * sp.kron(sp.eye_array(30), line))
    settings = Settings(theta=0.1, coarsest=40)
    levels, expected = levels_of(matrix, settings=settings), model.set_up(matrix, settings=settings)
    assert_levels(device, levels, expected, 1e-10)
    columns = expected[0].aggregates.reshape(30, 30)
    assert all(not set(columns[:, i]) & set(columns[:, i + 1]) for i in range(29))  # none across what is weak


def test_a_matrix_that_is_not_symmetric(device, levels_of):
    matrix = sp.csr_array(poisson((20, 20), 5) + 0.3 * sp.diags_array(np.ones(399), offsets=1, shape=(400, 400)))
    assert_levels(device, levels_of(matrix), model.set_up(matrix), 1e-9)


def test_it_is_the_same_each_time(device, levels_of):
    matrix = poisson((16, 16, 16), 7)
    first, second = levels_of(matrix), levels_of(matrix)
    for one, other in zip(first, second, strict=True):
        assert to_csr(one.a).data.tobytes() == to_csr(other.a).data.tobytes()


def test_no_coarser_level_where_it_would_hardly_be_smaller(levels_of):
    pairs = sp.csr_array(sp.kron(sp.eye_array(100), np.array([[2.0, -1.0], [-1.0, 2.0]])))
    assert len(levels_of(pairs, settings=Settings(stall=0.4))) == 1
    assert len(levels_of(pairs, settings=Settings(stall=0.9))) == 2
