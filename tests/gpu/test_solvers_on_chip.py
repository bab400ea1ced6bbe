"""Solvers that stay on the chip, on a GPU: their solutions, the same bits each time, and what does not fit."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse import linalg

import repro
from repro.codegen.build_cache import compile_module
from repro.errors import ReproError
from repro.operators.arrays import INTERFACE
from repro.sparse.operands import expand
from repro.sparse.solvers.kernels import METHODS, render_persistent
from support.persistent_solves import PersistentSolve, as_matrix, dominant, laplacian, uneven, weighted

methods = pytest.mark.parametrize("method", METHODS)


@pytest.fixture(scope="module")
def make(gpu, templates, tmp_path_factory):
    """Make a solver on the GPU."""
    folder = tmp_path_factory.mktemp("persistent")

    def load(method, entry, precision):
        manifest = folder / f"{method}-{entry}-{precision}.json"
        source = render_persistent(templates, method, entry, precision, gpu.target)
        module = compile_module(source, gpu.target, manifest)
        return gpu.load(manifest.parent / str(module.binary))

    return lambda *arguments, **keys: PersistentSolve(gpu, load, *arguments, **keys)


def draw(n):
    return np.random.default_rng(3).uniform(-1, 1, n)


@methods
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("points", [5, 20, 48])
def test_the_solution_is_the_same_each_time_and_that_of_the_phases_and_of_scipy(make, method, precision, points):
    matrix, b = laplacian(points, 3), draw(points**3)
    tolerance = {"single": 1e-5, "double": 1e-10}[precision]
    together, phases = (make(matrix, method, precision, together=every) for every in (True, False))
    assert together.solver.runs_together
    assert together.solver.kept_bytes == together.slices.nbytes
    assert not phases.solver.runs_together
    solved = [together(b, tolerance, check_every=interval) for interval in (None, 7, 7)]
    assert len({(solution, x.tobytes()) for solution, x in solved}) == 1
    solution, x = solved[0]
    # the compiler rounds products and sums at once in one kernel, where in another it may not
    by_phases, y = phases(b, tolerance)
    assert by_phases.status == "converged"
    np.testing.assert_allclose(y, x, rtol=0, atol=100 * tolerance * np.abs(x).max())
    assert solution.status == "converged"
    exact = expand(matrix, matrix.values)
    assert np.linalg.norm(b - exact @ x) <= 1.3 * tolerance * np.linalg.norm(b)
    if points <= 20:
        expected = linalg.spsolve(sp.csc_array(exact), b)
        np.testing.assert_allclose(x, expected, rtol=0, atol=100 * tolerance * np.abs(expected).max())


@methods
def test_what_is_kept_in_part_or_has_too_many_rows_for_registers_gives_the_same_solution(make, gpu, method):
    matrix, b = laplacian(40, 3), draw(40**3)
    solved = [make(matrix, method, capacity=capacity) for capacity in (None, 8000, 0)]
    kept = [solve.solver.kept_bytes for solve in solved]
    assert kept[0] == solved[0].slices.nbytes > kept[1] > kept[2] == 0
    assert (
        len(
            {
                solve(b, check_every=interval)[1].tobytes()
                for solve, interval in zip(solved, (3, 100, None), strict=True)
            }
        )
        == 1
    )
    many = weighted(90)
    large = make(many, method)
    assert large.slices.max_slices_per_warp(16) > 8
    assert large.kept.form == "table"
    assert large.kept.max_bytes <= gpu.target.shared_bytes
    assert gpu.sm_count * gpu.target.shared_bytes < large.solver.kept_bytes < large.slices.nbytes
    b = draw(90**3)
    bits = set()
    for _ in range(3):
        solution, x = large(b)
        assert solution.status == "converged"
        bits.add(x.tobytes())
    assert len(bits) == 1
    assert np.linalg.norm(b - expand(many, many.values) @ x) <= 1.3e-10 * np.linalg.norm(b)


@methods
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize(
    ("entry", "kind"),
    [("real", "symmetric"), ("complex", "hermitian"), ("quaternion", "hermitian"), ("block3", "symmetric")],
)
def test_every_entry(make, method, precision, entry, kind):
    matrix = dominant(entry, kind, 3000)
    exact = expand(matrix, matrix.values)
    b = draw(exact.shape[0])
    tolerance = {"single": 1e-5, "double": 1e-10}[precision]
    solution, x = make(matrix, method, precision)(b, tolerance)
    assert solution.status == "converged"
    assert np.linalg.norm(b - exact @ x) <= 1.5 * tolerance * np.linalg.norm(b)


@methods
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize(
    ("entry", "kind"), [("complex", "hermitian"), ("quaternion", "hermitian"), ("block3", "symmetric")]
)
def test_a_table_of_values_keeps_more_and_gives_the_same_bits(make, method, precision, entry, kind):
    matrix = dominant(entry, kind, 20_000)
    b = draw(matrix.n * {"complex": 2, "quaternion": 4, "block3": 3}[entry])
    none = make(matrix, method, precision, capacity=0)
    capacity = none.slices.nbytes // (2 * none.slices.blocks)
    table = make(matrix, method, precision, capacity=capacity)
    slices = make(matrix, method, precision, capacity=capacity, forms=("slices",))
    assert [solve.kept.form for solve in (table, slices)] == ["table", "slices"]
    assert table.solver.kept_bytes > slices.solver.kept_bytes > none.solver.kept_bytes == 0
    solved = [solve(b, {"single": 1e-5, "double": 1e-10}[precision]) for solve in (none, slices, table, table)]
    assert solved[0][0].status == "converged"
    assert len({(solution, x.tobytes()) for solution, x in solved}) == 1


@methods
def test_a_matrix_that_fits_as_a_table_only_stays_on_the_chip(make, gpu, method):
    matrix, b = weighted(75), draw(75**3)
    table, slices = make(matrix, method), make(matrix, method, forms=("slices",))
    assert slices.solver.kept_bytes < table.solver.kept_bytes
    assert table.kept.max_bytes <= gpu.target.shared_bytes
    solved = [solve(b) for solve in (slices, table, table)]
    assert solved[0][0].status == "converged"
    assert len({(solution, x.tobytes()) for solution, x in solved}) == 1
    exact = expand(matrix, matrix.values).tocsr()
    with repro.operator(exact, device="cuda:0") as A:
        x = A.solve(b, method=method, rtol=1e-10)
        assert A.solver(method).kept == table.solver.kept_bytes
    assert np.linalg.norm(b - exact @ x) <= 1.3e-10 * np.linalg.norm(b)


@methods
def test_rows_of_any_length(make, method):
    matrix = uneven(20_000)
    b = draw(matrix.n)
    solution, x = make(matrix, method)(b)
    assert solution.status == "converged"
    assert np.linalg.norm(b - expand(matrix, matrix.values) @ x) <= 1.3e-10 * np.linalg.norm(b)


HARD = {
    "indefinite": np.kron(np.eye(500), [[1.0, 2], [2, 1]]),
    "skew": np.kron(np.eye(500), [[0.0, 1], [-1, 0]]),
    "zero row": np.diag(np.append(np.ones(999), 0.0)),
    "one": np.array([[2.0]]),
}


@methods
@pytest.mark.parametrize("case", HARD)
def test_nothing_hangs(make, method, case):
    matrix = as_matrix(HARD[case])
    for b in (draw(matrix.n), np.full(matrix.n, np.nan), np.zeros(matrix.n)):
        solution, x = make(matrix, method)(b, max_iterations=300)
        if solution.status == "converged":
            np.testing.assert_allclose(expand(matrix, matrix.values) @ x, b, atol=1e-8)
        assert solution.iterations <= 300
    assert solution.status == "converged"


class Foreign:
    """An array as another library gives it."""

    def __init__(self, array):
        setattr(self, INTERFACE, getattr(array, INTERFACE))
        self.array = array


@methods
def test_arrays_of_host_and_gpu(gpu, method):
    matrix = expand(laplacian(30), laplacian(30).values).tocsr()
    b = draw(900)
    with repro.operator(matrix, device="cuda:0") as A:
        x = A.solve(b, method=method)
        on_gpu = A.vectors.put(b)
        np.testing.assert_array_equal(
            A.solve(on_gpu, method=method).get(), A.solve(Foreign(on_gpu), method=method).get()
        )
        np.testing.assert_allclose(A.solve(on_gpu, method=method).get(), x, rtol=1e-6)
        assert A.solver(method).kept == A.solver(method).nbytes
        with pytest.raises(ReproError, match="broke down"):
            A.solve(A.vectors.put(np.full(900, np.nan)), method=method)


def test_a_launch_takes_milliseconds(make):
    """The watchdog, and who interrupts, wait for one launch."""
    for matrix in (laplacian(10), laplacian(90, 3)):
        solve = make(matrix, "cg")
        b = draw(matrix.n)
        solve(b, max_iterations=1)
        count = solve.solver.iterations_of_launch()
        solve.solver.begin()
        seconds = solve.device.time_host(lambda: solve.solver.iterate(count), 3)  # noqa: B023
        assert seconds.max() < 0.1
