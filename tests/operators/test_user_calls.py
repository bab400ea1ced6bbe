"""Calls of public functions as the harness times them: each library's, what is verified, and what fails."""

import sys
from functools import partial
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse import linalg

from repro.devices.base import LaunchError
from repro.errors import Unsupported
from repro.operators import user_calls
from repro.operators.arrays import DeviceArray
from repro.operators.dynamic_csr import DynamicCSR
from repro.operators.runtime import open_runtime
from repro.operators.spmv import SpmvOperator
from repro.operators.user_calls import GROUPS, ITERATIONS, MOST_ENTRIES, Library, libraries
from support.matrices import poisson, real_problem
from support.stand_in_cupy import csr_matrix, install, ndarray

pytestmark = pytest.mark.medium

DEVICE = "opencl:0"
FUNCTIONS = tuple(GROUPS)
PROBLEM = real_problem(poisson((24, 24), 5))


def names(arrays, whose=()):
    """Return the names of the calls with one library's arrays: ours, and those of the library."""
    refills = {"NumPy": ["new"], "CuPy": ["new", "out"], "PyTorch": ["out"]}[arrays]
    searched = [] if arrays == "PyTorch" else ["set-up-now/new"]
    ours = ["set-up/new", *searched, "product/new", "product/out", "product-now/new",
            "product-now/out", "spmm/new", "spgemm/new",
            *(f"refill/{result}" for result in refills), "insert/new", "dynamic-product/new", "dynamic-product/out",
            "cg/new"]  # fmt: skip
    both = [*(("repro", call) for call in ours), *((library, call) for library, calls in whose for call in calls)]
    return {f"{call.split('/')[0]}/{library}/{arrays}/{call.split('/')[1]}" for library, call in both}


NUMPY = names(
    "NumPy", [("SciPy", ["product/new", "product-now/new", "spmm/new", "spgemm/new", "dynamic-product/new", "cg/new"])]
)


def made(precision="double", problem=PROBLEM, functions=FUNCTIONS, say=pytest.fail):
    return user_calls.user_calls(problem, precision, functions, 1, DEVICE, say)


def errors(groups):
    """Prepare and verify each call as a bench does, each result erased before; return its error and columns by name."""
    found = {}
    for group in groups:
        for call in group:
            with call.contained():
                call.prepare(None)
                call.launch()
                call.erase_result(None)
                found[call.name] = call.error(), call.columns
                call.release()
    return found


@pytest.mark.parametrize("function", ["product", "spmm", "insert", "dynamic-product", "cg"])
def test_the_operator_of_a_group_is_closed_when_the_next_group_is_requested(monkeypatch, function):
    closed = []
    for kind in (SpmvOperator, DynamicCSR):
        close = kind.close
        monkeypatch.setattr(kind, "close", lambda self, close=close: (closed.append(self), close(self)))
    groups = made(functions=(function,))
    assert next(groups) and not closed
    assert next(groups, None) is None and closed


@pytest.mark.parametrize("precision", ["single", "double"])
def test_on_a_cpu_there_are_numpys_calls_and_all_are_right(precision):
    found = errors(made(precision))
    assert found.keys() == NUMPY
    for name, (error, columns) in found.items():
        function, library, arrays, result = name.split("/")
        about = {"function": function, "library": library, "arrays": arrays, "result": result}
        assert error <= 1 and about.items() <= columns.items(), name
        has_kernel = library == "repro" and function in ("product", "product-now", "refill", "dynamic-product")
        assert (columns["kernel_seconds"] is not None) == has_kernel
        assert not has_kernel or columns["kernel_seconds"] > 0


def test_functions_that_take_long_are_left_out_of_large_matrices(monkeypatch):
    monkeypatch.setitem(MOST_ENTRIES, "opencl", PROBLEM.nnz - 1)
    assert {name.split("/")[0] for name in errors(made())} == {
        "set-up", "set-up-now", "product", "product-now", "spmm", "insert", "dynamic-product"
    }  # fmt: skip
    assert errors(made(functions=("spgemm",))) == {}


@pytest.fixture
def on_device(monkeypatch):
    """Have CuPy's and PyTorch's arrays lie on the CPU's device, so that each call of a GPU is made."""
    runtime = open_runtime(DEVICE)
    bring = install(monkeypatch, runtime)

    def write(array, at, value):
        array.device.write(array.buffer, np.full(array.shape, value, array.dtype))

    def matmul(matrix, other):
        return bring(sp.csr_array(matrix.get()) @ other.get())

    monkeypatch.setattr(ndarray, "__setitem__", write, raising=False)
    monkeypatch.setattr(csr_matrix, "__matmul__", matmul, raising=False)

    def into(matrix, x, y):
        y.device.write(y.buffer, matrix.get() @ x.get())

    def cg(matrix, b):
        return bring(linalg.cg(matrix.get(), b.get(), rtol=0, atol=0, maxiter=ITERATIONS)[0])

    rest = bring, DeviceArray.get, runtime.device.synchronize, bring, lambda matrix: sp.csr_array(matrix.get()), into
    three = [libraries(-1, pytest.fail)[0], Library("CuPy", "CuPy", *rest, cg), Library("PyTorch", "PyTorch", *rest)]
    monkeypatch.setattr(user_calls, "libraries", lambda ordinal, say: three)
    return three


def test_on_a_gpu_there_are_cupys_and_pytorchs_calls_too_and_all_are_right(on_device):
    found = errors(made())
    products = [
        f"{name}/{result}" for name in ("product", "product-now", "dynamic-product") for result in ("new", "out")
    ]
    theirs = [*products, "spmm/new", "spgemm/new"]
    with_numpy = NUMPY - {"set-up-now/repro/NumPy/new"}
    assert found.keys() == with_numpy | names("CuPy", [("CuPy", [*theirs, "cg/new"])]) | names(
        "PyTorch", [("PyTorch", theirs)]
    )
    assert all(error <= 1 for error, _ in found.values()), found


def test_a_call_that_computes_nothing_is_found(on_device):
    groups = made(functions=("product",))
    for call in next(groups):
        call.prepare(None)
        call.launch()
        call.erase_result(None)
        right, zeros = call._call, np.zeros(PROBLEM.n)
        wrong = zeros if "NumPy" in call.name else on_device[1].put(zeros)
        for result in (call._out, wrong):  # an array as it was erased, and another one
            call._call = partial(lambda given: given, result)
            assert result is None or call.error() > 1, call.name
        call._call = right
        assert call.error() <= 1


def fail():
    raise IndexError("of a library")


def test_an_error_of_a_library_is_the_failure_of_its_call():
    groups, kinds = made(functions=("product",)), set()
    for call in next(groups):
        call.prepare(None)
        call._call = fail
        with pytest.raises((LaunchError, Unsupported), match="IndexError: of a library") as caught, call.contained():
            call.launch()
        kinds.add((call.columns["library"], caught.type))
    assert kinds == {("repro", LaunchError), ("SciPy", Unsupported)}


# the adapters of CuPy and PyTorch -------------------------------------------------------------------------------------


class Tensor:
    """A stand-in for PyTorch's tensors with the methods that an adapter calls: `to`, `cpu` and `numpy`."""

    def __init__(self, array, device="cpu"):
        self.array, self.device = array, device

    def to(self, device):
        return Tensor(self.array, device)

    def cpu(self):
        return Tensor(self.array)

    def numpy(self):
        assert self.device == "cpu"
        return self.array


class CsrTensor:
    def __init__(self, offsets, columns, values, *, size):
        self.parts, self.shape = (offsets, columns, values), size
        self.crow_indices, self.col_indices, self.values = ((lambda part=part: part) for part in self.parts)

    def get(self):
        values, columns, offsets = (part.array for part in reversed(self.parts))
        return sp.csr_array((values, columns, offsets), shape=self.shape)


def pytorch(waited):
    def mv(matrix, x, *, out):
        out.array[:] = matrix.get() @ x.array

    torch = ModuleType("torch")
    torch.device, torch.from_numpy, torch.sparse_csr_tensor, torch.mv = lambda *words: words, Tensor, CsrTensor, mv
    stream = SimpleNamespace(synchronize=lambda: waited.append("PyTorch"))
    torch.cuda = SimpleNamespace(current_stream=lambda device: stream if device == ("cuda", 3) else None)
    return {"torch": torch}


def cupy(waited):
    names = "cupy", "cupyx.scipy.sparse", "cupyx.scipy.sparse.linalg", "cupyx.cusparse"
    modules = {name: ModuleType(name) for name in names}
    array, sparse, solvers, cusparse = modules.values()
    stream = SimpleNamespace(synchronize=lambda: waited.append("CuPy"))
    use = SimpleNamespace(use=lambda: None)
    array.asarray = array.asnumpy = np.asarray
    array.cuda = SimpleNamespace(
        Device=lambda ordinal: use if ordinal == 3 else None, get_current_stream=lambda: stream
    )
    sparse.csr_matrix = lambda matrix: SimpleNamespace(get=lambda: matrix)  # of SciPy's `csr_matrix` alone
    cusparse.spmv = lambda matrix, x, y: np.copyto(y, matrix.get() @ x)
    solvers.cg = lambda matrix, b, *, tol, atol, maxiter: linalg.cg(
        matrix.get(), b, rtol=tol, atol=atol, maxiter=maxiter
    )
    return modules


@pytest.mark.parametrize(("name", "modules"), [("CuPy", cupy), ("PyTorch", pytorch)])
def test_a_library_takes_arrays_and_matrices_to_the_gpu_and_back(monkeypatch, name, modules):
    waited, said = [], []
    for other in ("cupy", "torch"):
        monkeypatch.setitem(sys.modules, other, None)
    for module, stand_in in modules(waited).items():
        monkeypatch.setitem(sys.modules, module, stand_in)
    numpy, library = libraries(3, said.append)
    assert (numpy.arrays, library.arrays, library.functions) == ("NumPy", name, name)
    assert len(said) == 1 and ("torch" if name == "CuPy" else "cupy") in said[0]
    library.wait()
    assert waited == [name]
    matrix, x = sp.csr_array(poisson((6, 6), 5)), np.linspace(0, 1, 36)
    np.testing.assert_array_equal(library.get(library.put(x)), x)
    theirs, y = library.csr(matrix), library.put(np.zeros(36))
    assert abs(library.scipy(theirs) - matrix).max() == 0
    library.product_into(theirs, library.put(x), y)
    np.testing.assert_array_equal(library.get(y), matrix @ x)
    if library.cg:
        np.testing.assert_allclose(matrix @ library.get(library.cg(theirs, library.put(x))), x, atol=1e-8)


def test_libraries_that_are_not_there_are_named(monkeypatch):
    for module in ("cupy", "torch"):
        monkeypatch.setitem(sys.modules, module, None)
    said = []
    assert [library.arrays for library in libraries(0, said.append)] == ["NumPy"]
    assert [line.split(":")[0] for line in said] == ["no calls of cupy", "no calls of torch"]
