"""Objects that own device memory are closed by one word, and operators tell SciPy's facts about their matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import repro
from repro.errors import ReproError
from support.persistent_solves import dominant
from support.triangulations import hexagonal

pytestmark = pytest.mark.medium
DEVICE = "opencl:0"
LINE = sp.diags_array([-1.0, 2.1, -1.0], offsets=[-1, 0, 1], shape=(30, 30)).tocsr()
X = np.linspace(0, 1, 30)
MESH = hexagonal(3)


def plan_of_product() -> Any:
    return repro.spgemm(LINE, LINE, DEVICE, plan=True)[1]


def two_levels() -> Any:
    return repro.amg(LINE, max_coarse=5, device=DEVICE)


#: How each is made, and a use of it.
CLOSED = {
    "operator": (lambda: repro.operator(LINE, device=DEVICE), lambda A: A @ X),
    "solver": (lambda: repro.operator(LINE, device=DEVICE).solver(), lambda solver: solver.solve(X)),
    "preconditioned": (lambda: repro.operator(LINE, device=DEVICE), lambda A: A.solve(X, M=sp.eye_array(30))),
    "to_scipy": (lambda: repro.operator(LINE, device=DEVICE), lambda A: A.to_scipy()),
    "hierarchy": (lambda: repro.amg(LINE, device=DEVICE), lambda ml: ml.solve(X)),
    "cycle": (lambda: repro.amg(LINE, device=DEVICE), lambda ml: ml.aspreconditioner() @ X),
    "level": (two_levels, lambda ml: ml.levels[0].R if ml.closed else ml.levels[0].P),
    "aggregates": (two_levels, lambda ml: ml.closed and ml.levels[0].aggregates),
    "refresh": (lambda: repro.amg(LINE, refreshable=True, device=DEVICE), lambda ml: ml.refresh(LINE)),
    "plan": (plan_of_product, lambda plan: plan.refill(LINE.data)),
    "filter": (
        lambda: repro.siac((MESH.vertices, MESH.triangles), 1, [[0.5, 0.5]], device=DEVICE),
        lambda smooth: smooth @ np.ones(smooth.shape[1]),
    ),
    "grown": (lambda: repro.DynamicCSR.from_csr(LINE, device=DEVICE), lambda grown: grown @ X),
    "insert": (lambda: repro.DynamicCSR.from_csr(LINE, device=DEVICE), lambda grown: grown.insert([0], [9], [1.0])),
    "nnz of an operator": (lambda: repro.operator(LINE, device=DEVICE), lambda A: A.nnz),
    "nnz": (lambda: repro.DynamicCSR.from_csr(LINE, device=DEVICE), lambda grown: grown.nnz),
    "factor": (lambda: repro.DynamicCSR.from_csr(LINE, device=DEVICE), lambda grown: repro.spgemm(grown, LINE)),
    "reader": (lambda: repro.DynamicCSR.from_csr(LINE, device=DEVICE).reader(), lambda reader: reader @ X),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::repro.operators.SlowOnCpuWarning")
@pytest.mark.parametrize("name", CLOSED)
def test_a_with_block_closes_and_later_uses_say_so(name: str) -> None:
    make, use = CLOSED[name]
    with make() as thing:
        assert not thing.closed
        use(thing)
    assert thing.closed
    thing.close()
    with pytest.raises(ReproError, match="closed"):
        use(thing)
    assert "closed" in repr(thing)


@pytest.mark.filterwarnings("ignore::repro.operators.SlowOnCpuWarning")
@pytest.mark.parametrize(
    "matrix",
    [
        LINE, LINE.astype(np.float32), LINE[:20], (1 + 2j) * LINE, (LINE * (1 - 1j)).astype(np.complex64)[:, :7],
        sp.bsr_array(np.kron(np.eye(4), np.arange(9.0).reshape(3, 3) + 1), blocksize=(3, 3)),
    ],
)  # fmt: skip
def test_operators_have_the_facts_of_scipys_matrix(matrix: Any) -> None:
    with repro.operator(matrix, device=DEVICE) as A:
        back = A.to_scipy()
        assert (A.shape, A.dtype, A.nnz) == (matrix.shape, matrix.dtype, matrix.nnz)
        assert (back.shape, back.dtype, back.nnz, back.format) == (
            matrix.shape,
            matrix.dtype,
            matrix.nnz,
            matrix.format,
        )
        assert abs(back - matrix).max() == 0
        for k in (0, 1, -2):
            np.testing.assert_array_equal(A.diagonal(k), matrix.diagonal(k))
        back.data[:] = 0
        back.indices[:] = 0
        assert abs(A.to_scipy() - matrix).max() == 0
        np.testing.assert_allclose(A.T.to_scipy().toarray(), matrix.T.toarray())


@pytest.mark.filterwarnings("ignore::repro.operators.SlowOnCpuWarning")
def test_facts_of_quaternions_and_patterns(as_scipy: Any) -> None:
    matrix = as_scipy(dominant("quaternion", "symmetric", 8))
    with repro.operator(matrix, device=DEVICE) as A:
        assert (A.shape, A.nnz, A.to_scipy().format) == (matrix.shape, matrix.nnz, "bsr")
        np.testing.assert_allclose(A.diagonal(), matrix.diagonal())
    ones = sp.csr_array((LINE != 0).astype(float))
    with repro.operator(ones, entry="pattern", device=DEVICE) as A:
        assert A.nnz == ones.nnz
        assert abs(A.to_scipy() - ones).max() == 0


@pytest.mark.filterwarnings("ignore::repro.operators.SlowOnCpuWarning")
def test_facts_follow_an_update() -> None:
    with repro.operator(LINE, device=DEVICE) as A:
        A.update(3 * LINE.data)
        np.testing.assert_array_equal(A.diagonal(), 3 * LINE.diagonal())


def test_facts_of_hierarchies_plans_and_matrices_that_grow() -> None:
    ml, plan = repro.amg(LINE, device=DEVICE), plan_of_product()
    assert (ml.shape, ml.dtype, ml.nnz) == (LINE.shape, LINE.dtype, LINE.nnz)
    np.testing.assert_array_equal(ml.diagonal(), LINE.diagonal())
    assert abs(ml.to_scipy() - LINE).max() == 0
    square = LINE @ LINE
    assert (plan.shape, plan.dtype, plan.nnz) == (square.shape, square.dtype, square.nnz)
    grown = repro.DynamicCSR.from_csr(LINE, device=DEVICE)
    grown.insert([0], [9], [5.0])
    assert (grown.shape, grown.dtype, grown.nnz) == (LINE.shape, LINE.dtype, LINE.nnz + 1)
    np.testing.assert_array_equal(grown.diagonal(9)[:1], [5.0])


def test_a_reader_ends_with_its_matrix_and_not_the_other_way_round() -> None:
    grown = repro.DynamicCSR.from_csr(LINE, device=DEVICE)
    other = grown.reader()
    grown.reader().close()
    np.testing.assert_allclose(grown @ X, LINE @ X)
    np.testing.assert_allclose(other @ X, LINE @ X)
    grown.close()
    assert grown.nbytes == 0
    with pytest.raises(ReproError, match="closed"):
        other @ X
