"""What is read on the host is refused while a stream is captured, before anything is queued; the rest is captured."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from repro.errors import ReproError
from repro.operators.arrays import VectorType
from repro.operators.dynamic_csr import Capacity, DynamicCSR
from repro.operators.product import MatrixSource, Product
from repro.operators.scipy_matrices import as_problem
from repro.operators.spmv import SpmvOperator
from repro.operators.variant_choice import find_variant
from repro.operators.vectors import Vectors
from support import emulated_runtime
from support.emulated_cuda import needs_compiler
from support.emulated_runtime import CAPTURED_STREAM, EmulatedRuntime, install_cupy
from support.matrices import draw, random

pytestmark = [pytest.mark.medium, needs_compiler]


@pytest.fixture
def runtime(monkeypatch, built_folder):
    return EmulatedRuntime(monkeypatch, built_folder / "emulated")


@pytest.fixture
def bring(monkeypatch, runtime):
    return install_cupy(monkeypatch, runtime)


@pytest.fixture
def begin_capture(monkeypatch):
    """Have what CuPy's work goes to be captured from now on."""
    return lambda: monkeypatch.setattr(emulated_runtime, "CURRENT_STREAM", CAPTURED_STREAM)


@pytest.fixture
def A(runtime):  # noqa: N802
    operator = DynamicCSR.__new__(DynamicCSR)
    operator._init_from_csr(runtime, "double", sp.csr_array(random(50, 40, 0.15)), Capacity(capacity=4000))
    return operator


CHANGES = {
    "insert": lambda A: A.insert([1], [2], [3.0]),
    "update": lambda A: A.update([1], [2], [3.0]),
    "delete": lambda A: A.delete([1], [2]),
    "defragment": lambda A: A.defragment(),
    "tidy": lambda A: A.tidy(),
    "nnz": lambda A: A.nnz,
    "to_scipy": lambda A: A.to_scipy(),
    "product of a host array": lambda A: A @ np.ones(40),
    "products of a host array": lambda A: A @ np.ones((40, 3)),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_refused_and_the_matrix_is_as_before(A, bring, runtime, begin_capture, monkeypatch, change):
    x = bring(draw(40, float))
    y, noted = (A @ x).get(), []
    begin_capture()
    with monkeypatch.context() as patch:
        for name in ("bind", "write", "download", "fill", "synchronize"):
            patch.setattr(runtime.device, name, lambda *_, name=name: noted.append(name))
        with pytest.raises(ReproError, match="CUDA graph cannot contain"):
            change(A)
    assert not noted
    np.testing.assert_array_equal((A @ x).get(), y)
    assert runtime.device.streams[-1] == CAPTURED_STREAM


def test_a_vector_is_combined_and_not_read_in_a_capture(runtime, bring, begin_capture):
    vectors = Vectors(runtime, 30, VectorType("real", "double"))
    x, y = bring(np.ones(30)), bring(np.full(30, 2.0))
    vectors.axpby(1.0, x, 1.0, y)
    begin_capture()
    vectors.axpby(2.0, x, 1.0, y)
    np.testing.assert_array_equal(y.get(), np.full(30, 5.0))
    for read in (lambda: vectors.dot(x, y), lambda: vectors.norm(x), lambda: vectors.get(x)):
        with pytest.raises(ReproError, match="CUDA graph cannot contain"):
            read()


def test_a_product_of_a_host_array_is_refused_in_a_capture(runtime, bring, begin_capture):
    matrix = sp.csr_array(random(50, 40, 0.15))
    problem, precision = as_problem(matrix, None, None)
    source = MatrixSource(problem)
    id = find_variant("default", source, precision, runtime.device.target)
    A = SpmvOperator(source, Product(runtime, source, precision, id))
    x, several = draw(40, float), random(40, 3, 1).toarray()
    on_device = bring(x)
    begin_capture()
    for product in (lambda: A @ x, lambda: A @ several, lambda: A.matvec(x, out=np.empty(50))):
        with pytest.raises(ReproError, match="product of an array on the host"):
            product()
    np.testing.assert_allclose((A @ on_device).get(), matrix @ x, rtol=1e-12)


def test_a_pytorch_without_cuda_has_no_stream_that_could_be_captured(runtime, monkeypatch):
    """Its tensors on the host are taken; to ask for its current stream would be an error."""

    def refuse(*_):
        raise AssertionError("Torch not compiled with CUDA enabled")

    torch = ModuleType("torch")
    torch.Tensor, torch.strided, torch._C = type("Tensor", (), {}), object(), SimpleNamespace()
    torch.nn = SimpleNamespace(Parameter=type("Parameter", (), {}))
    for name in ("float32", "float64", "complex64", "complex128", "int32", "int64"):
        setattr(torch, name, object())
    torch.empty_like = torch.from_numpy = refuse
    torch.autograd = SimpleNamespace(graph=SimpleNamespace(increment_version=refuse))
    torch.cuda = SimpleNamespace(is_initialized=bool, is_available=bool, current_stream=refuse)
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert runtime.libraries[torch.Tensor] is not None
    vectors = Vectors(runtime, 30, VectorType("real", "double"))
    assert vectors.norm(vectors.zeros()) == 0
