"""Persistent solvers: a launch a phase on the CPU, and all phases in one launch on an emulated GPU, against SciPy."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse import linalg

from repro.codegen.build_cache import compile_module
from repro.codegen.targets import CPU
from repro.sparse.operands import expand
from repro.sparse.solvers import persistent
from repro.sparse.solvers.kernels import METHODS, render_persistent
from support.emulated_cuda import EmulatedCuda, compile_kernels, needs_compiler
from support.persistent_solves import PersistentSolve, as_matrix, dominant, laplacian, uneven

methods = pytest.mark.parametrize("method", METHODS)
TOLERANCES = {"single": 1e-5, "double": 1e-10}
CONVECTION = sp.diags_array([-1.6, 2.4, -0.6], offsets=[-1, 0, 1], shape=(700, 700))
ROTATION = sp.kron(sp.eye_array(50), np.array([[0, 1], [-1, 0]]))


def draw(n):
    return np.random.default_rng(3).uniform(-1, 1, n)


@pytest.fixture(scope="module")
def make(cpu_device, templates, built_folder):
    """Make a solver on the CPU."""

    def load(method, entry, precision):
        manifest = built_folder / "persistent" / f"{method}-{entry}-{precision}.json"
        module = compile_module(render_persistent(templates, method, entry, precision, CPU), CPU, manifest)
        return cpu_device.load(manifest.parent / str(module.binary))

    return lambda *arguments, **keys: PersistentSolve(cpu_device, load, *arguments, **keys)


@pytest.fixture(scope="module")
def emulate(templates, built_folder):
    """Make a solver on an emulated GPU."""
    device = EmulatedCuda()

    def load(method, entry, precision):
        return compile_kernels(render_persistent(templates, method, entry, precision, device.target), built_folder)

    return lambda *arguments, **keys: PersistentSolve(device, load, *arguments, **keys)


@pytest.mark.sampled(4)
@methods
@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("matrix", [laplacian(24), uneven(), as_matrix([[2.0]])], ids=["grid", "uneven", "one"])
def test_the_solution_is_that_of_scipy(make, method, precision, matrix):
    tolerance = TOLERANCES[precision]
    solve, b = make(matrix, method, precision), draw(matrix.n)
    solution, x = solve(b, tolerance)
    b = b.astype(solve.dtype).astype(float)
    exact = expand(matrix, matrix.values)
    assert solution.status == "converged"
    assert np.linalg.norm(b - exact @ x) <= 1.3 * tolerance * np.linalg.norm(b)
    assert solution.residual == pytest.approx(np.linalg.norm(b - exact @ x), rel=0.3, abs=1e-6 * np.linalg.norm(b))
    expected = linalg.spsolve(sp.csc_array(exact), b)
    np.testing.assert_allclose(x, expected, rtol=0, atol=50 * tolerance * np.abs(expected).max())


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("entry", "kind"), [("complex", "hermitian"), ("quaternion", "hermitian"), ("block3", "symmetric")]
)
@methods
def test_entries_are_those_of_their_real_expansion(make, method, entry, kind):
    matrix = dominant(entry, kind)
    exact = expand(matrix, matrix.values)
    b = draw(exact.shape[0])
    solution, x = make(matrix, method)(b)
    assert solution.status == "converged"
    np.testing.assert_allclose(exact @ x, b, rtol=0, atol=1e-9)


def test_a_matrix_that_is_not_symmetric(make):
    b = draw(700)
    solution, x = make(as_matrix(CONVECTION), "bicgstab")(b)
    assert solution.status == "converged"
    np.testing.assert_allclose(CONVECTION @ x, b, atol=1e-8)


@methods
def test_the_same_solve_gives_the_same_bits_however_often_the_host_looks(make, method):
    solve, b = make(laplacian(30), method), draw(900)
    solved = [solve(b, check_every=interval) for interval in (1, 7, None)]
    assert len({(solution, x.tobytes()) for solution, x in solved}) == 1
    again, x = solve(b, x0=solved[0][1])
    assert (again.status, again.iterations) == ("converged", 0)
    assert np.array_equal(x, solved[0][1])
    assert solve(b, max_iterations=3, check_every=2)[0].iterations == 3


#: Matrix, b, and what comes of it by each method.
HARD = {
    "indefinite": (np.array([[1.0, 2], [2, 1]]), np.array([1.0, -1]), ("breakdown", "converged")),
    "negative": (-np.eye(40), np.ones(40), ("breakdown", "converged")),
    "skew": (ROTATION, np.ones(100), ("breakdown", "breakdown")),
    "singular": (np.ones((3, 3)), np.array([1.0, 2, 3]), ("breakdown or rounding",) * 2),
    "singular but consistent": (np.ones((3, 3)), np.ones(3), ("converged", "converged")),
    "zero row": (np.diag([1.0, 0, 2]), np.ones(3), ("breakdown", "breakdown")),
    "zero row, zero in b": (np.diag([1.0, 0, 2]), np.array([1.0, 0, 1]), ("converged", "converged")),
    "b is zero": (np.eye(3), np.zeros(3), ("converged", "converged")),
    "NaN in b": (np.eye(3), np.array([1, np.nan, 1]), ("not finite", "not finite")),
    "overflow": (1e300 * np.eye(3), np.full(3, 1e200), ("not finite", "not finite")),
}


@methods
@pytest.mark.parametrize("case", HARD)
def test_what_has_no_solution_ends_with_a_word(make, method, case):
    matrix, b, statuses = HARD[case]
    solution, x = make(as_matrix(matrix), method)(b, max_iterations=200)
    assert solution.status in statuses[METHODS.index(method)]
    if solution.status == "converged":
        np.testing.assert_allclose(matrix @ x, b, atol=1e-9)
    assert solution.iterations <= 200


@methods
def test_a_tolerance_below_what_rounding_leaves(make, method):
    solution, _ = make(laplacian(24), method, "single")(draw(576), tolerance=1e-12)
    assert solution.status == "rounding"
    assert solution.residual < 1e-5 * solution.norm_of_b


@pytest.mark.sampled(1)
@needs_compiler
@pytest.mark.medium
@methods
def test_all_phases_in_one_launch_give_the_bits_of_a_launch_a_phase(emulate, monkeypatch, method):
    """Two slices a warp in registers; all, some and none of the matrix in shared memory; vectors in memory."""
    matrix, b = laplacian(34), draw(34 * 34)
    whole = emulate(matrix, method)
    assert whole.solver.runs_together
    assert whole.slices.max_slices_per_warp(16) == 2
    assert whole.solver.kept_bytes == whole.slices.nbytes
    expected = whole(b, 1e-3)
    assert expected[0].status == "converged"
    np.testing.assert_allclose(expand(matrix, matrix.values) @ expected[1], b, atol=3e-2)
    some = emulate(matrix, method, capacity=10_000)
    assert 0 < some.solver.kept_bytes < whole.solver.kept_bytes
    others = [whole, some, emulate(matrix, method, capacity=0)]
    monkeypatch.setattr(persistent, "held_rows", lambda *_: 0)
    others.append(emulate(matrix, method, capacity=10_000))
    for interval, other in zip((5, None, None, None), others, strict=True):
        solution, x = other(b, 1e-3, check_every=interval)
        assert solution == expected[0]
        assert x.tobytes() == expected[1].tobytes()
    phases = emulate(matrix, method, together=False)
    few = [solver(b, tolerance=0, max_iterations=3)[1].tobytes() for solver in (phases, whole)]
    assert few[0] == few[1]


@pytest.mark.sampled(2)
@needs_compiler
@pytest.mark.medium
@pytest.mark.parametrize(
    ("method", "entry", "kind"),
    [("cg", "real", ""), ("bicgstab", "complex", "hermitian"), ("cg", "quaternion", "hermitian"),
     ("cg", "block3", "symmetric")],
)  # fmt: skip
def test_a_table_of_values_gives_the_bits_of_the_slices(emulate, method, entry, kind):
    matrix = dominant(entry, kind, 400) if kind else uneven(500)
    whole, none = emulate(matrix, method), emulate(matrix, method, capacity=0)
    some = emulate(matrix, method, capacity=whole.slices.nbytes // 6)
    assert (whole.kept.form, some.kept.form) == ("slices", "table")
    assert some.solver.kept_bytes > whole.solver.kept_bytes // 6
    b = draw(none.slices.scale.size)
    solved = [solve(b, 1e-8) for solve in (none, some, some, whole)]
    assert solved[0][0].status == "converged"
    assert len({(solution, x.tobytes()) for solution, x in solved}) == 1


@needs_compiler
@pytest.mark.medium
@pytest.mark.parametrize("resident", [None, 1])
def test_a_gpu_whose_blocks_cannot_all_wait_for_each_other_has_a_launch_a_phase(emulate, monkeypatch, resident):
    matrix, b = laplacian(9), draw(81)
    expected, x = emulate(matrix, "cg", together=False)(b, max_iterations=3)
    cooperative = EmulatedCuda.cooperative

    def find(*arguments):
        return resident and replace(cooperative(*arguments), resident=resident)

    monkeypatch.setattr(EmulatedCuda, "cooperative", find)
    solve = emulate(matrix, "cg")
    assert solve.slices.blocks == 2
    assert (solve.solver.runs_together, solve.solver.kept_bytes) == (False, 0)
    solution, y = solve(b, max_iterations=3)
    assert solution == expected
    assert (solution.status, solution.iterations) == ("limit", 3)
    np.testing.assert_array_equal(x, y)


@needs_compiler
@pytest.mark.medium
@methods
def test_rows_of_many_lanes_and_what_has_no_solution_in_one_launch(emulate, method):
    matrix, b = uneven(700), draw(700)
    solve = emulate(matrix, method)
    assert set(solve.slices.slices["rows_and_lanes"] // 64) >= {1, 32}
    solution, x = solve(b)
    assert solution.status == "converged"
    np.testing.assert_allclose(expand(matrix, matrix.values) @ x, b, atol=1e-8)
    for case in ("indefinite", "skew", "zero row", "NaN in b", "b is zero"):
        hard, right, statuses = HARD[case]
        assert emulate(as_matrix(hard), method)(right, max_iterations=50)[0].status == statuses[METHODS.index(method)]
