"""Multigrid for a SciPy matrix, as a user asks for it."""

import gc

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import cg

import repro
from repro.devices.base import OutOfDeviceMemory
from repro.errors import ReproError
from repro.operators import products_in_place
from repro.operators.products_in_place import product_tools
from repro.operators.runtime import open_runtime
from support.device_memory import fill_after
from support.matrices import poisson

DEVICE = "opencl:0"


@pytest.fixture(scope="module")
def hierarchy():
    matrix = poisson((40, 40), 9)
    return matrix, repro.amg(matrix, max_coarse=20, device=DEVICE)


def test_the_levels_are_matrices_of_scipy(hierarchy):
    matrix, ml = hierarchy
    assert len(ml.levels) == 3 and abs(ml.levels[0].A - matrix).max() == 0
    for level, coarser in zip(ml.levels[:-1], ml.levels[1:], strict=True):
        assert level.P.shape == (level.shape[0], coarser.shape[0])
        assert abs(level.R - level.P.T).max() == 0
        expected = level.R @ level.A @ level.P
        assert abs(coarser.A - expected).max() <= 1e-12 * abs(expected).max()
        assert level.aggregates.max() + 1 == coarser.shape[0]
    with pytest.raises(AttributeError, match="coarsest"):
        _ = ml.levels[-1].P
    nnz = [level.A.nnz for level in ml.levels]
    assert ml.operator_complexity() == pytest.approx(sum(nnz) / nnz[0])
    assert 1 < ml.grid_complexity() < 1.3
    assert "1600 > " in repr(ml)


def test_a_level_outlives_its_hierarchy(hierarchy):
    coarse = repro.amg(hierarchy[0], max_coarse=20, device=DEVICE).levels[1]
    gc.collect()
    assert abs(coarse.A - hierarchy[1].levels[1].A).max() == 0


@pytest.mark.parametrize("accel", ["cg", None])
def test_a_system_is_solved(hierarchy, accel):
    matrix, ml = hierarchy
    b, residuals = np.random.default_rng(1).random(1600), []
    x = ml.solve(b, rtol=1e-8, accel=accel, residuals=residuals)
    assert np.linalg.norm(b - matrix @ x) <= 1.1e-8 * np.linalg.norm(b)
    assert residuals[0] == pytest.approx(np.linalg.norm(b)) and residuals[-1] <= 1e-8 * residuals[0]
    again = []
    ml.solve(b, x0=x, rtol=1e-7, accel=accel, residuals=again)
    assert len(again) == 1


def test_multigrid_preconditions_scipys_solvers(hierarchy):
    matrix, ml = hierarchy
    b = np.random.default_rng(2).random(1600)
    steps = []
    _, failed = cg(matrix, b, rtol=1e-8, M=ml.aspreconditioner(), callback=steps.append)
    assert not failed and len(steps) < 20
    plain = []
    cg(matrix, b, rtol=1e-8, callback=plain.append)
    assert len(plain) > 2 * len(steps)


def test_single_precision():
    matrix = sp.csr_array(poisson((12, 12, 12), 7), dtype=np.float32)
    ml = repro.amg(matrix, device=DEVICE)
    b = np.ones(1728)
    x = ml.solve(b, rtol=1e-4)
    assert x.dtype == np.float32 and ml.levels[1].A.dtype == np.float32
    assert np.linalg.norm(b - matrix @ x) < 2e-4 * np.linalg.norm(b)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"A": np.eye(3)}, "not a sparse matrix"),
        ({"A": sp.csr_array((3, 4))}, "square"),
        ({"A": sp.csr_array((3, 3))}, "row 0, the first of 3"),
        ({"B": np.ones((5, 1))}, "not vectors for this matrix"),
        ({"unknowns": 7}, "unknowns per node"),
        ({"smoother": "sor"}, "smoother"),
        ({"B": np.zeros(36)}, "where: B"),
        ({"B": np.full(36, np.nan)}, r"where: B\[0, 0\]"),
        ({"B": np.zeros((36, 0))}, "where: B"),
        ({"B": np.ones(36, complex)}, "where: B"),
        ({"B": [[1], [1, 2]]}, "where: B"),
        ({"B": np.ma.array(np.ones(36), mask=np.arange(36) < 3)}, "where: B"),
    ],
)
def test_what_makes_no_sense_is_refused(change, message):
    given = {"A": poisson((6, 6), 5), **change}
    with pytest.raises(ReproError, match=message):
        repro.amg(**given, device=DEVICE)


NO_NUMBERS = (np.nan, True, None, "1", -1, np.array([1]), 1j)
SETTINGS = {"max_levels": (0, 2.5), "max_coarse": (0, 2.5), "unknowns": (0, 2.5, 5), "degree": (0, 2.5, 11)}
REAL_SETTINGS = {"theta": (1, np.inf), "omega": (2, np.inf)}
NO_SETTINGS = [
    (name, value)
    for settings in (SETTINGS, REAL_SETTINGS)
    for name in settings
    for value in (*NO_NUMBERS, *settings[name])
]
NO_ARGUMENTS = [
    *(("rtol", value) for value in (*NO_NUMBERS, np.inf, 10**400)),
    *(("maxiter", value) for value in (*NO_NUMBERS, 2.5, 10**30) if value is not None),
    *(("accel", value) for value in ("gmres", 3, np.array(["cg", "cg"]))),
    *(("residuals", value) for value in ((), np.zeros(3), 3)),
]


@pytest.mark.parametrize(("name", "value"), NO_SETTINGS)
def test_a_setting_that_makes_no_sense_is_refused_by_name(name, value):
    with pytest.raises(ReproError, match=f"where: {name}\n"):
        repro.amg(poisson((6, 6), 5), **{"smoother": "chebyshev", name: value}, device=DEVICE)


@pytest.mark.parametrize(("name", "value"), NO_ARGUMENTS)
def test_an_argument_that_makes_no_sense_is_refused_by_name(hierarchy, name, value):
    with pytest.raises(ReproError, match=f"where: {name}\n"):
        hierarchy[1].solve(np.ones(1600), **{name: value})


NEAR_NULL = {
    "whole numbers": (np.ones(1600, int), 1),
    "huge": (np.full(1600, 1e300), 1),
    "tiny": (np.full(1600, 1e-310), 1),
    "two alike": (np.column_stack([np.ones(1600), 2 * np.ones(1600)]), 2),
    "one of zeros": (np.column_stack([np.ones(1600), np.zeros(1600)]), 2),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", NEAR_NULL)
def test_vectors_of_any_size_are_as_good_as_the_constant_one(hierarchy, name, dtype):
    matrix, (vectors, count) = hierarchy[0].astype(dtype), NEAR_NULL[name]
    ml = repro.amg(matrix, vectors, max_coarse=20, device=DEVICE)
    assert ml.levels[1].shape[0] == count * hierarchy[1].levels[1].shape[0]
    residuals = []
    ml.solve(np.ones(1600), rtol=1e-4, residuals=residuals)
    assert len(residuals) < 15


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"b": np.ones(3)}, "not a vector"),
        ({"b": 1j * np.ones(1600)}, "not a vector"),
        ({"b": np.ones((1600, 2, 2))}, "not a vector"),
        ({"b": np.ones((3, 2))}, "the wrong shape"),
        ({"b": np.ones(1600, object)}, "not a vector"),
        ({"b": None}, "not a vector"),
        ({"b": [[1], [1, 2]]}, "not an array"),
        ({"b": np.ma.array(np.ones(1600), mask=np.arange(1600) < 3)}, "mask"),
        ({"x0": np.ones(3)}, "x0"),
        ({"x0": np.full(1600, 1e200)}, "x0"),
    ],
)
def test_a_system_that_makes_no_sense_is_refused(hierarchy, change, message):
    with pytest.raises(ReproError, match=message):
        hierarchy[1].solve(**{"b": np.ones(1600), **change})
    if message == "mask":
        with pytest.raises(ReproError, match=message):
            hierarchy[1].aspreconditioner().matvec(change["b"])


def test_chebyshevs_smoother_takes_fewer_steps(hierarchy):
    matrix, ml = hierarchy
    other, b, jacobi, chebyshev = (
        repro.amg(matrix, smoother="chebyshev", degree=2, device=DEVICE),
        np.ones(1600),
        [],
        [],
    )
    ml.solve(b, rtol=1e-8, residuals=jacobi)
    x = other.solve(b, rtol=1e-8, residuals=chebyshev)
    assert np.linalg.norm(b - matrix @ x) <= 1.1e-8 * np.linalg.norm(b)
    assert len(chebyshev) < len(jacobi)


def test_entries_of_one_place_are_added_up():
    matrix = poisson((20, 20), 5).tocoo()
    halves = sp.coo_array((np.tile(matrix.data / 2, 2), (np.tile(matrix.row, 2), np.tile(matrix.col, 2))), matrix.shape)
    rows = sp.csr_array(
        (np.repeat(matrix.data / 2, 2), np.repeat(matrix.col, 2), 2 * matrix.tocsr().indptr), matrix.shape
    )
    expected = repro.amg(matrix, device=DEVICE).levels[1].A
    for twice in (halves, rows):
        assert twice.nnz == 2 * matrix.nnz
        assert abs(repro.amg(twice, device=DEVICE).levels[1].A - expected).max() == 0


@pytest.mark.wording
def test_an_indefinite_matrix_is_refused_by_conjugate_gradients_and_not_solved_silently_by_cycles():
    matrix = sp.csr_array(poisson((20, 20), 5) - 0.5 * sp.eye_array(400))
    ml = repro.amg(matrix, device=DEVICE)
    with pytest.raises(ReproError, match="symmetric and positive definite"):
        ml.solve(np.ones(400), rtol=1e-10)
    with pytest.warns(RuntimeWarning, match="did not converge to 1e-10 in 3 steps"):
        ml.solve(np.ones(400), rtol=1e-10, maxiter=3, accel=None)


def with_one(bad):
    return np.where(np.arange(1600) == 5, bad, 1.0)


@pytest.mark.parametrize("accel", ["cg", None])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("what", ["b", "x0"])
def test_a_vector_that_is_not_finite_is_refused(hierarchy, accel, bad, what):
    vectors = {"b": np.ones(1600), what: with_one(bad)}
    for given in (vectors, {name: open_runtime(DEVICE).put(vector) for name, vector in vectors.items()}):
        with pytest.raises(ReproError, match=rf"finite numbers\n  where: {what}\[5\]"):
            hierarchy[1].solve(**given, accel=accel)


@pytest.mark.parametrize("accel", ["cg", None])
@pytest.mark.parametrize(("dtype", "tol"), [(np.float32, 1e-6), (np.float64, 1e-14), (np.float32, 0), (np.float64, 0)])
def test_what_is_said_of_a_residual_is_true(dtype, tol, accel):
    n = 500
    matrix = sp.csr_array(sp.diags_array([2 * np.ones(n), -np.ones(n - 1), -np.ones(n - 1)], offsets=[0, 1, -1]))
    b, residuals = np.random.default_rng(3).random(n).astype(dtype), []
    with pytest.warns(
        RuntimeWarning, match=rf"did not converge to {tol:g} in \d+ steps: the residual is .* of b; rounding"
    ):
        x = repro.amg(matrix.astype(dtype), device=DEVICE).solve(
            b, rtol=tol, maxiter=1000, accel=accel, residuals=residuals
        )
    true = np.linalg.norm(b.astype(float) - matrix @ x.astype(float))
    assert residuals[-1] == pytest.approx(true, rel=0.3) and len(residuals) < 400


@pytest.mark.parametrize("size", [1e300, 1e-300])
def test_right_sides_at_both_ends_of_the_range(hierarchy, size):
    matrix, ml = hierarchy
    b, residuals = np.random.default_rng(1).random(1600), []
    x = ml.solve(size * b, rtol=1e-8, residuals=residuals)
    assert np.linalg.norm(b - matrix @ (x / size)) <= 1.1e-8 * np.linalg.norm(b)
    assert residuals[0] == pytest.approx(size * np.linalg.norm(b))
    np.testing.assert_allclose(ml.aspreconditioner() @ (size * b) / size, ml.aspreconditioner() @ b, rtol=1e-12)


def test_a_preconditioner_offers_no_adjoint_since_that_of_a_matrix_that_is_not_symmetric_is_another():
    n = 20
    line = sp.diags_array([-np.ones(n - 1), 2 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1])
    flow = sp.diags_array([-np.ones(n - 1), np.ones(n)], offsets=[-1, 0])
    matrix = sp.csr_array(sp.kron(sp.eye_array(n), line + 1.5 * flow) + sp.kron(line, sp.eye_array(n)))
    cycle = repro.amg(matrix, device=DEVICE).aspreconditioner()
    x, y = np.random.default_rng(1).normal(size=(2, n * n))
    assert abs(y @ (cycle @ x) - x @ (cycle @ y)) > 1e-3 * abs(y @ (cycle @ x))
    with pytest.raises(NotImplementedError):
        cycle.rmatvec(y)


def test_of_zeros_the_solution_is_zero_wherever_it_starts(hierarchy):
    matrix, ml = hierarchy
    start, residuals = np.random.default_rng(1).random(1600), []
    assert not ml.solve(np.zeros(1600), x0=start, residuals=residuals).any()
    assert residuals == [pytest.approx(np.linalg.norm(matrix @ start)), 0]


def test_a_cycle_in_single_precision_preconditions_a_solver_in_double(hierarchy):
    matrix = hierarchy[0]
    cycle = repro.amg(matrix.astype(np.float32), device=DEVICE).aspreconditioner()
    b = np.random.default_rng(1).random(1600)
    b[3] = 1e-60  # no number of single precision
    x, failed = cg(matrix, b, rtol=1e-12, M=cycle)
    assert not failed and np.linalg.norm(b - matrix @ x) <= 2e-12 * np.linalg.norm(b)
    with pytest.raises(ReproError, match="finite numbers"):
        cycle @ np.full(1600, 1e45)
    with pytest.raises(ReproError, match=r"b\[5\]"):
        cycle @ with_one(np.nan)


def test_a_right_side_that_single_precision_rounds_beyond_the_tolerance_is_a_warning():
    ml = repro.amg(sp.csr_array(sp.eye_array(50), dtype=np.float32), device=DEVICE)
    b = np.random.default_rng(1).random(50)
    assert ml.solve(b, rtol=1e-7).tobytes() == b.astype(np.float32).tobytes()
    with pytest.warns(RuntimeWarning, match="cannot converge to 1e-10: the residual is that of b in float32"):
        ml.solve(b, rtol=1e-10)


def test_no_steps_are_done_where_none_may_be_or_none_is_needed(hierarchy):
    matrix, ml = hierarchy
    residuals = []
    x = ml.solve(matrix @ np.ones(1600), x0=np.ones(1600), maxiter=0, residuals=residuals)
    assert (x == 1).all() and len(residuals) == 1
    with pytest.warns(RuntimeWarning, match="in 0 steps: the residual is 1 times the norm of b$"):
        assert not ml.solve(np.ones(1600), maxiter=0).any()


def test_few_steps_are_a_warning(hierarchy):
    residuals = []
    with pytest.warns(RuntimeWarning, match="did not converge to 1e-10 in 2 steps"):
        hierarchy[1].solve(np.ones(1600), rtol=1e-10, maxiter=2, residuals=residuals)
    assert len(residuals) == 3


def test_a_hierarchy_is_refreshed_by_other_values():
    matrix = poisson((40, 40), 9)
    scale = sp.diags_array(np.random.default_rng(1).uniform(0.5, 2, 1600))
    other = sp.csr_array(scale @ matrix @ scale)
    ml, fresh = (repro.amg(a, max_coarse=20, refreshable=True, device=DEVICE) for a in (matrix, other))
    before = ml.levels[1].A
    ml.refresh(other.tocoo())
    for ours, theirs in zip(ml.levels, fresh.levels, strict=True):
        assert abs(ours.A - theirs.A).max() <= 1e-12 * abs(theirs.A).max()
    assert abs(ml.levels[1].A - before).max() > 0.1
    b, one, two = np.random.default_rng(2).random(1600), [], []
    x = ml.solve(b, rtol=1e-8, residuals=one)
    fresh.solve(b, rtol=1e-8, residuals=two)
    assert np.linalg.norm(b - other @ x) <= 1.1e-8 * np.linalg.norm(b)
    np.testing.assert_allclose(one, two, rtol=1e-5)
    np.testing.assert_allclose(ml.aspreconditioner() @ b, fresh.aspreconditioner() @ b, rtol=1e-9)


def shuffled(matrix):
    """Return the matrix with the columns of each row the other way round."""
    order = np.concatenate([np.arange(*matrix.indptr[i : i + 2])[::-1] for i in range(matrix.shape[0])])
    return sp.csr_array((matrix.data[order], matrix.indices[order], matrix.indptr), matrix.shape)


def with_wide_indices(matrix):
    return sp.csr_array((matrix.data, matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)), matrix.shape)


def with_spare_room(matrix):
    spare = sp.csr_array(matrix.shape)
    spare.indptr, spare.indices = matrix.indptr, np.append(matrix.indices, [0, 0])
    spare.data = np.append(matrix.data, [np.nan, np.inf])
    return spare


@pytest.mark.parametrize("form", [sp.csr_matrix, sp.coo_array, shuffled, with_wide_indices, with_spare_room])
def test_a_matrix_in_any_form_refreshes_a_hierarchy(form):
    matrix = poisson((20, 20), 9)
    ml = repro.amg(matrix, max_coarse=20, refreshable=True, device=DEVICE)
    ml.refresh(form(2 * matrix))
    assert abs(ml.levels[0].A - 2 * matrix).max() == 0


def with_values(matrix, values):
    return sp.csr_array((values, matrix.indices, matrix.indptr), matrix.shape)


REFUSED = {
    "fewer entries": (lambda a: sp.csr_array(sp.tril(a)), "a different pattern"),
    "as many entries elsewhere": (lambda a: sp.csr_array(a[:, np.roll(np.arange(36), 1)]), "a different pattern"),
    "the wrong shape": (lambda _: poisson((5, 5), 5), "a different pattern"),
    "a zero on the diagonal": (lambda a: with_values(a, np.where(a.data == 4, 0, a.data)), "diagonal without zeros"),
    "no finite number": (lambda a: with_values(a, np.where(a.data == 4, 4, np.nan)), "finite numbers"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_refresh_a_hierarchy_is_refused_and_changes_nothing(name):
    matrix = poisson((6, 6), 5)
    change, message = REFUSED[name]
    ml, b = repro.amg(matrix, max_coarse=5, refreshable=True, device=DEVICE), np.ones(36)
    expected = ml.solve(b, rtol=1e-8)
    with pytest.raises(ReproError, match=message):
        ml.refresh(change(matrix))
    assert ml.solve(b, rtol=1e-8).tobytes() == expected.tobytes()


@pytest.mark.parametrize("size", [1e-60, 1e60])
def test_values_beyond_single_precision_do_not_refresh_a_hierarchy(size):
    matrix = poisson((6, 6), 5)
    ml = repro.amg(matrix.astype(np.float32), max_coarse=5, refreshable=True, device=DEVICE)
    with pytest.raises(ReproError, match=r"cannot be represented in float32\n  where: A: data\[0\]"):
        ml.refresh(size * matrix)
    assert np.linalg.norm(1 - matrix @ ml.solve(np.ones(36), rtol=1e-4)) < 2e-4 * 6


def test_a_hierarchy_that_is_not_to_be_refreshed_says_so(hierarchy):
    with pytest.raises(ReproError, match="refreshable=True"):
        hierarchy[1].refresh(hierarchy[0])


def test_a_hierarchy_left_in_the_middle_of_a_refresh_is_of_no_use_until_the_next(monkeypatch):
    matrix = poisson((20, 20), 5)
    ml, b = repro.amg(matrix, refreshable=True, device=DEVICE), np.ones(400)

    def full(_):
        raise OutOfDeviceMemory("it is full")

    with monkeypatch.context() as patch:
        patch.setattr(open_runtime(DEVICE).device, "allocate", full)
        with pytest.raises(ReproError, match="the device is out of memory"):
            ml.refresh(2 * matrix)
    for use in (ml.solve, ml.aspreconditioner().matvec, lambda _: ml.levels[1].A):
        with pytest.raises(ReproError, match="refresh of the hierarchy was interrupted"):
            use(b)
    ml.refresh(2 * matrix)
    assert np.linalg.norm(b - 2 * matrix @ ml.solve(b, rtol=1e-8)) <= 1.1e-8 * np.linalg.norm(b)


@pytest.mark.parametrize("nth", [0, 1])
def test_a_device_too_full_for_what_products_share_is_one_message_and_gives_all_back(monkeypatch, nth):
    matrix = poisson((20, 20), 5)
    with monkeypatch.context() as patch:
        patch.setattr(products_in_place, "product_tools", product_tools.__wrapped__)
        held = fill_after(patch, open_runtime(DEVICE).device, nth)
        with pytest.raises(ReproError, match="the device is out of memory"):
            repro.spgemm(matrix, matrix, DEVICE)
        assert not held
    assert abs(repro.spgemm(matrix, matrix, DEVICE) - matrix @ matrix).max() < 1e-12


FULL = [("spgemm", 0), ("spgemm", 3), ("spgemm", 9), ("amg", 1), ("amg", 10), ("amg", 25), ("amg", 40)]


@pytest.mark.parametrize(("what", "nth"), FULL)
def test_a_full_device_is_one_message_and_gives_all_back(monkeypatch, what, nth):
    device, matrix = open_runtime(DEVICE).device, poisson((20, 20), 5)
    repro.spgemm(matrix, matrix, DEVICE)  # what all products share is kept
    held = fill_after(monkeypatch, device, nth)
    with pytest.raises(ReproError, match="the device is out of memory"):
        _ = repro.amg(matrix, device=DEVICE) if what == "amg" else repro.spgemm(matrix, matrix, DEVICE)
    assert not held


@pytest.mark.parametrize("accel", ["cg", None])
def test_a_solution_that_there_is_no_room_for_is_one_message_and_can_be_tried_again(monkeypatch, accel):
    matrix = poisson((20, 20), 5)
    ml, b = repro.amg(matrix, max_coarse=20, refreshable=True, device=DEVICE), np.ones(400)
    ml.refresh(matrix)
    for nth in (0, 1):
        with monkeypatch.context() as patch:
            fill_after(patch, open_runtime(DEVICE).device, nth)
            with pytest.raises(ReproError, match="the device is out of memory"):
                ml.solve(b, accel=accel)
    assert np.linalg.norm(b - matrix @ ml.solve(b, rtol=1e-8, accel=accel)) <= 1.1e-8 * np.linalg.norm(b)


@pytest.mark.parametrize(("value", "words"), [(0.0, "without zeros"), (np.nan, "without NaN"), (np.inf, "without NaN")])
def test_a_diagonal_that_cannot_be_divided_by_is_named(value, words):
    a = poisson((6, 6), 5)
    a.data[np.flatnonzero(a.data == 4)[7]] = value
    with pytest.raises(ReproError, match=rf"{words}[\s\S]*row 7, the first of 1[\s\S]*actual: {value}"):
        repro.amg(a, device=DEVICE)
