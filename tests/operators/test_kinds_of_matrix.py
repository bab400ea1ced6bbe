"""`operator`, `solve`, `amg`, `spgemm` and `DynamicCSR` take the same kinds of matrix."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import repro
from repro.errors import ReproError
from repro.operators.arrays import DeviceArray
from repro.operators.runtime import open_runtime
from support import stand_in_cupy

pytestmark = [pytest.mark.medium, pytest.mark.filterwarnings("ignore::repro.operators.SlowOnCpuWarning")]
DEVICE = "opencl:0"
LINE = sp.diags_array([-1.0, 2.1, -1.0], offsets=[-1, 0, 1], shape=(30, 30)).tocsr()
X = np.linspace(0, 1, 30)


class Arrays:
    """Another library's matrix, with the arrays of CSR and no methods."""

    def __init__(self, matrix: Any, **more: Any) -> None:
        self.indptr, self.indices, self.data, self.shape = matrix.indptr, matrix.indices, matrix.data, matrix.shape
        vars(self).update(more)


class Tensor:
    """What is asked of a sparse tensor of PyTorch on the host."""

    is_cuda = requires_grad = False

    def __init__(self, matrix: Any, layout: str) -> None:
        self.matrix, self.layout, self.shape = matrix, f"torch.{layout}", matrix.shape

    def dim(self) -> int:
        return 2

    def detach(self) -> Tensor:
        return self

    cpu = coalesce = detach

    def _array(self, array: Any) -> Any:
        return SimpleNamespace(cpu=lambda: self._array(array), numpy=lambda: array)

    def values(self) -> Any:
        return self._array(self.matrix.data)

    def indices(self) -> Any:
        return self._array(np.stack(self.matrix.coords))

    def crow_indices(self) -> Any:
        return self._array(self.matrix.indptr)

    def col_indices(self) -> Any:
        return self._array(self.matrix.indices)

    ccol_indices, row_indices = crow_indices, col_indices


def bcsr(matrix: Any) -> Any:
    sparse = pytest.importorskip("jax.experimental.sparse")
    return sparse.BCSR.from_scipy_sparse(matrix)


def sparse_csr(matrix: Any) -> Any:
    torch = pytest.importorskip("torch")
    arrays = (torch.from_numpy(array) for array in (matrix.indptr, matrix.indices, matrix.data))
    return torch.sparse_csr_tensor(*arrays, size=matrix.shape)


FORMATS = ("csr", "csc", "coo", "dia", "lil", "dok")
KINDS: dict[str, Callable[[Any], Any]] = {
    **{f"scipy {format}": (lambda m, format=format: m.asformat(format)) for format in FORMATS},
    "scipy bsr": lambda m: m.tobsr(blocksize=(1, 1)),
    "scipy matrix": sp.csr_matrix,
    "arrays": Arrays,
    "lists": lambda m: Arrays(SimpleNamespace(
        indptr=m.indptr.tolist(), indices=m.indices.tolist(), data=m.data.tolist(), shape=list(m.shape))),
    "arrays of csc": lambda m: Arrays(m.tocsc(), format="csc"),
    "arrays of gcxs": lambda m: Arrays(m.tocsc(), compressed_axes=(1,)),
    "single": lambda m: Arrays(m.astype(np.float32)),
    "wide indices": lambda m: Arrays(SimpleNamespace(
        indptr=m.indptr.astype(np.int64), indices=m.indices.astype(np.int64), data=m.data, shape=m.shape)),
    "tensor csr": lambda m: Tensor(m, "sparse_csr"),
    "tensor csc": lambda m: Tensor(m.tocsc(), "sparse_csc"),
    "tensor coo": lambda m: Tensor(m.tocoo(), "sparse_coo"),
    "jax bcsr": bcsr,
    "torch csr": sparse_csr,
    "operator": lambda m: repro.operator(m, device=DEVICE),
    "growing matrix": lambda m: repro.DynamicCSR.from_csr(m, device=DEVICE),
}  # fmt: skip


@pytest.fixture(autouse=True)
def tensors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the stand-in for a tensor known as one."""
    if "tensor" in request.node.name:
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(Tensor=Tensor, is_grad_enabled=lambda: False))


@pytest.mark.parametrize("kind", KINDS)
def test_each_function_takes_each_kind(kind: str) -> None:
    upwind = sp.csr_array(LINE + sp.diags_array([0.5], offsets=[1], shape=(30, 30)))  # not its own transpose
    given, symmetric = KINDS[kind](upwind), KINDS[kind](LINE)
    tolerance = 1e-4 if kind in ("single", "jax bcsr") else 1e-7
    with repro.operator(given, device=DEVICE) as A:
        assert A.shape == upwind.shape
        np.testing.assert_allclose(A @ X, upwind @ X, rtol=tolerance, atol=tolerance)
        assert abs(A.to_scipy() - upwind).max() < tolerance
    x = repro.solve(symmetric, X, rtol=tolerance, device=DEVICE)
    np.testing.assert_allclose(LINE @ x, X, atol=10 * tolerance)
    ml = repro.amg(symmetric, max_coarse=10, refreshable=True, device=DEVICE)
    np.testing.assert_allclose(LINE @ ml.solve(X, rtol=tolerance), X, atol=10 * tolerance)
    ml.refresh(KINDS[kind](3 * LINE))
    np.testing.assert_allclose(ml.diagonal(), 3 * LINE.diagonal(), rtol=1e-6)
    for factors in ((given, given), (given, upwind), (upwind, given)):
        product = repro.spgemm(*factors, DEVICE)
        assert isinstance(product, sp.csr_array)
        assert abs(product - upwind @ upwind).max() < 1e-6
    grown = repro.DynamicCSR.from_csr(given, device=DEVICE)
    assert abs(grown.to_scipy() - upwind).max() < tolerance


def test_blocks_and_complex_numbers_of_another_library() -> None:
    blocks = sp.bsr_array(np.kron(np.eye(4), np.arange(9.0).reshape(3, 3) + 1), blocksize=(3, 3))
    for given in (Arrays(blocks), Arrays(blocks, format="bsr")):
        with repro.operator(given, device=DEVICE) as A:
            assert A.entry == "block3"
            np.testing.assert_allclose(A @ np.ones(12), blocks @ np.ones(12))
    turned = (1 + 2j) * LINE
    with repro.operator(Arrays(turned), device=DEVICE) as A:
        np.testing.assert_allclose(A @ X, turned @ X)


def test_a_copy_is_taken() -> None:
    mine = LINE.copy()
    with repro.operator(Arrays(mine), device=DEVICE) as A:
        mine.data[:] = 0
        np.testing.assert_allclose(A @ X, LINE @ X)


@pytest.mark.parametrize(
    "change",
    [
        {"indices": LINE.indices + 30}, {"indptr": LINE.indptr[:-1]}, {"indptr": LINE.indptr[::-1]},
        {"data": LINE.data[:-1]}, {"data": LINE.data.astype(object)}, {"data": None}, {"shape": (30,)},
        {"shape": (-1, 30)}, {"shape": 3}, {"shape": ("a", "b")}, {"data": np.ones((5, 4, 4))}, {"format": "coo"},
        {"indices": LINE.indices.astype(float)}, {"data": LINE.data.reshape(2, -1)}, {"format": ["csr"]},
    ],
)  # fmt: skip
def test_damaged_arrays_are_refused_by_name(change: dict[str, Any]) -> None:
    damaged = Arrays(LINE, **change)
    for function in (
        repro.operator, lambda m, **words: repro.solve(m, X, **words), repro.amg,
        lambda m, **words: repro.spgemm(m, LINE, **words), repro.DynamicCSR.from_csr,
    ):  # fmt: skip
        with pytest.raises(ReproError):
            function(damaged, device=DEVICE)


def test_each_function_takes_cupys_matrix_and_gives_back_the_library_of_its_vectors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By stand-ins for CuPy, `DeviceArray`s of the CPU; what is given on the host comes back there."""
    bring = stand_in_cupy.install(monkeypatch, open_runtime(DEVICE))
    given, there = bring(LINE), bring(X)
    with repro.operator(given, device=DEVICE) as A:
        products = {"@": A @ there, "solve": A.solve(there)}
        on_host = {"@": A @ X, "solve": A.solve(X), "solver": A.solver().solve(X)}
    products["repro.solve"] = repro.solve(given, there, device=DEVICE)
    on_host["repro.solve"] = repro.solve(given, X, device=DEVICE)
    ml = repro.amg(given, max_coarse=10, device=DEVICE)
    products["amg"], on_host["amg"] = ml.solve(there), ml.solve(X)
    products["preconditioned"] = repro.solve(given, there, M=ml, device=DEVICE)
    assert {name for name, vector in products.items() if not isinstance(vector, DeviceArray)} == set()
    assert {name for name, vector in on_host.items() if type(vector) is not np.ndarray} == set()
    for name, vector in (*on_host.items(), *((name, vector.get()) for name, vector in products.items())):
        expected = (LINE @ X, vector) if name == "@" else (X, LINE @ vector)
        np.testing.assert_allclose(*expected, atol=1e-5, err_msg=name)
    c = repro.spgemm(given, given, DEVICE)
    assert type(c) is stand_in_cupy.csr_matrix
    assert abs(c.get() - LINE @ LINE).max() < 1e-12
