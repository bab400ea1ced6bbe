"""Operators that run a library's routine, on an emulated GPU and a library that multiplies on the host."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import repro
from repro.codegen.targets import get_target
from repro.errors import ReproError, Unsupported
from repro.export.campaign_choice import exported_variant
from repro.operators import product, spmv, variant_choice
from repro.operators.variant_choice import find_variant
from repro.sparse.compound.variants import ROUTINES
from repro.sparse.library import cusparse_bindings
from support import emulated_runtime
from support.emulated_cuda import needs_compiler
from support.emulated_runtime import CAPTURED_STREAM, CURRENT_STREAM, EmulatedRuntime, install_cupy
from support.host_cusparse import HostLibrary, Status
from support.matrices import draw, random

pytestmark = [pytest.mark.medium, needs_compiler]
NAME = "cuSPARSE CSR ALG1"


@pytest.fixture
def runtime(monkeypatch, built_folder):
    made = EmulatedRuntime(monkeypatch, built_folder / "emulated")
    for module in (product, spmv):
        if hasattr(module, "open_runtime"):
            monkeypatch.setattr(module, "open_runtime", lambda device: made)
    return made


@pytest.fixture
def library(monkeypatch, runtime):
    library = HostLibrary(runtime.device)
    monkeypatch.setattr(cusparse_bindings, "gpu", lambda device: device)
    monkeypatch.setattr(cusparse_bindings, "load", lambda: library)
    return library


@pytest.fixture
def bring(monkeypatch, runtime):
    return install_cupy(monkeypatch, runtime)


def matrix_of(dtype, rows=50, columns=40):
    real = sp.csr_array(random(rows, columns, 0.2))
    return (real * (1 + 2j) if np.dtype(dtype).kind == "c" else real).astype(dtype)


DTYPES = (np.float32, np.float64, np.complex64, np.complex128)


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_are_those_of_the_routine(library, bring, runtime, dtype):
    matrix, near = matrix_of(dtype), {"rtol": 1e-4 if np.dtype(dtype).itemsize in (4, 8) else 1e-12}
    with repro.operator(matrix, NAME) as A:
        assert A.name == NAME and NAME in repr(A) and A.nbytes >= matrix.data.nbytes
        x = draw(40, dtype)
        np.testing.assert_allclose(A @ x, matrix @ x, **near)
        before = library.calls.count("CSR_ALG1")
        y = A @ bring(x)
        out = A.matvec(bring(x), out=bring(np.zeros(50, dtype)))
        np.testing.assert_array_equal(out.get(), y.get())
        np.testing.assert_allclose(y.get(), matrix @ x, **near)
        assert library.calls.count("CSR_ALG1") == before + 2
        assert not runtime.device.streams, "its working memory is for one stream: there is no short path"
        assert {CURRENT_STREAM} in runtime._streams.waited
        X = np.column_stack([x, 2 * x, -x])
        np.testing.assert_allclose(A @ X, matrix @ X, **near)
        np.testing.assert_allclose((A @ bring(X)).get(), matrix @ X, **near)
        u = draw(50, dtype)
        assert A.H.name == NAME, "it was named, so that the transpose has it too"
        np.testing.assert_allclose(A.rmatvec(u), matrix.conj().T @ u, **near)
        np.testing.assert_allclose(A.T @ u, matrix.T @ u, **near)
        assert (abs(A.to_scipy() - matrix)).max() == 0
        A.update(3 * matrix.data)
        np.testing.assert_allclose(A @ x, 3 * (matrix @ x), **near)
        np.testing.assert_allclose(A.T @ u, 3 * (matrix.T @ u), **near)
        again = pickle.loads(pickle.dumps(A))
        assert again.name == NAME
        np.testing.assert_array_equal(again @ x, A @ x)
        again.close()
    assert not any(library.made.values()), "descriptors and handles are gone"
    with pytest.raises(ReproError, match="the operator is closed"):
        A @ x


def test_a_symmetric_matrix_shares_the_routine_with_its_transpose(library):
    half = matrix_of(float, 40)
    matrix = sp.csr_array(half + half.T)
    with repro.operator(matrix, NAME) as A:
        assert A.T._product is A._product
        np.testing.assert_allclose(A.T @ np.ones(40), matrix @ np.ones(40))
    assert not any(library.made.values())


def test_a_product_is_captured_and_what_is_read_is_not(library, bring, monkeypatch):
    matrix = matrix_of(float)
    x = draw(40, float)
    with repro.operator(matrix, NAME) as A:
        on_device = bring(x)
        monkeypatch.setattr(emulated_runtime, "CURRENT_STREAM", CAPTURED_STREAM)
        np.testing.assert_allclose((A @ on_device).get(), matrix @ x)
        with pytest.raises(ReproError, match="product of an array on the host"):
            A @ x


class Timed:
    """Seconds that a product is said to take, by its name."""

    def __init__(self, monkeypatch, seconds):
        self.names = []
        monkeypatch.setattr(variant_choice, "_seconds", lambda product, _: self.time(str(product.id), seconds))

    def time(self, name, seconds):
        self.names.append(name)
        return seconds.get(name, 1.0)


@pytest.fixture
def few(monkeypatch):
    """Few candidates, as each is compiled."""
    monkeypatch.setattr(variant_choice, "MOST_TRIED", 0)


@pytest.mark.parametrize(("seconds", "chosen"), [(0.5, NAME), (2.0, "CSR-AoSoA-AoS/direct-128-8-w8-u2")])
def test_now_times_the_library_beside_the_variants_and_runs_the_fastest(library, monkeypatch, few, seconds, chosen):
    Timed(monkeypatch, {NAME: seconds})
    matrix = matrix_of(float)
    with repro.operator(matrix, "now", budget=600) as A:
        assert A.name == chosen and {*ROUTINES} < {*A.timed} and A.timed[NAME] == seconds
        assert f"{A.name}, fastest of 3 timed" in repr(A)
        np.testing.assert_allclose(A @ np.ones(40), matrix @ np.ones(40))
        assert A.T.name not in ROUTINES, "its rows may need another one"
    assert not any(library.made.values())


def test_without_the_library_now_is_as_it_was_and_its_name_is_one_message(runtime, monkeypatch, few):
    def load():
        raise Unsupported("cuSPARSE is not there (no module); install '.[cuda]'")

    monkeypatch.setattr(cusparse_bindings, "load", load)
    monkeypatch.setattr(cusparse_bindings, "gpu", lambda device: device)
    Timed(monkeypatch, {})
    with repro.operator(matrix_of(float), "now", budget=600) as A:
        assert not {*ROUTINES} & {*A.timed} and len(A.timed) == 1
    with pytest.raises(ReproError, match=r"routine cannot be used(.|\n)*cuSPARSE CSR ALG1(.|\n)*is not there"):
        repro.operator(matrix_of(float), NAME)


@pytest.mark.parametrize("status", ["NOT_SUPPORTED", "ALLOC_FAILED", "EXECUTION_FAILED"])
def test_a_library_that_refuses_is_left_out(library, monkeypatch, few, status):
    Timed(monkeypatch, {})
    library.failing.update(CSR_ALG1=Status[status], CSR_ALG2=Status[status])
    with repro.operator(matrix_of(float), "now", budget=600) as A:
        assert not {*ROUTINES} & {*A.timed} and len(A.timed) == 1
    assert not any(library.made.values())


def test_other_entries_and_devices_are_refused():
    block = sp.bsr_array(np.ones((3, 3)))
    for matrix, words in ((block, "real and complex entries"), (sp.eye_array(3, format="csr"), "runs on NVIDIA GPUs")):
        with pytest.raises(ReproError, match=words):
            repro.operator(matrix, NAME, device="opencl:0")


def test_a_routine_is_not_exported():
    with pytest.raises(ReproError, match="routine has no source"):
        exported_variant(NAME, get_target("sm_90"))


def test_the_names_are_read_back():
    assert [str(find_variant(name, None, "double", get_target("sm_90"))) for name in ROUTINES] == [*ROUTINES]
