"""Libraries' products with the filter's matrix: cuSPARSE's wiring on a library of the host, SciPy's on the CPU."""

import pytest

from repro.errors import IncorrectError, Unsupported
from repro.filtering.matrix import MatrixRows
from repro.sparse.library import cusparse_bindings, cusparse_csr
from repro.studies.dg_postprocessing import runnables_plane as library_module
from repro.studies.dg_postprocessing.runnables_plane import (
    FIELD_COUNTS,
    ApplyMatrix,
    BlockMatrix,
    library_products,
    matrix_runnables,
    routine_names,
)
from support.dg_products import ready, small_operands
from support.emulated_cuda import EmulatedCuda, needs_compiler
from support.host_cusparse import STREAM, HostLibrary
from support.siac_on_devices import siac_loader

pytestmark = pytest.mark.medium

DEGREE = 2


class Gpu(EmulatedCuda):
    """With room, and a stream."""

    stream, room = STREAM, 10**9

    def free_bytes(self):
        return self.room


@pytest.fixture(scope="module")
def operands():
    return small_operands(DEGREE)


@pytest.fixture(scope="module")
def load(templates, built_folder):
    return siac_loader(EmulatedCuda(), templates, built_folder / "siac")


@pytest.fixture
def host_library(monkeypatch):
    """Cusparse on the host, for an emulated GPU whose memory is the host's."""
    library = HostLibrary(None)
    for module in (cusparse_bindings, library_module):
        monkeypatch.setattr(module, "gpu", lambda device: device)
        monkeypatch.setattr(module, "load", lambda: library)
    for module in (cusparse_csr, cusparse_bindings):
        monkeypatch.setattr(module, "address", lambda buffer: buffer.pointer)
    return library


@pytest.fixture
def makings(monkeypatch):
    """How often a matrix was made."""
    made, make = [], MatrixRows.make
    monkeypatch.setattr(MatrixRows, "make", lambda self, *given: made.append(1) or make(self, *given))
    return made


def matrix_bytes(operands, load):
    """Return the bytes of the matrix as blocks."""
    shared = BlockMatrix()
    with ready(ApplyMatrix({}, shared, 1), Gpu(), load, operands):
        return shared.size.nbytes


@needs_compiler
def test_every_routine_of_the_gpus_library_multiplies_with_one_matrix(operands, load, host_library, makings):
    device = Gpu()
    products = library_products({}, routine_names("cuda"), "cuda")
    assert [product.name for product in products[:3]] == [
        "cusparse/spmv-csr-alg1-1", "cusparse/spmv-csr-alg2-1", "cusparse/spmm-csr-alg1-4"
    ]  # fmt: skip
    assert len(products) == 2 + 2 * 3
    with ready(products[0], device, load, operands) as first:
        for product in products[1:]:
            with ready(product, device, load, operands) as guards:
                assert operands.check(product, None) <= 1
                assert guards.out_of_bounds_writes() == [] and product.columns["fields"] == product.fields
        assert operands.check(products[0], None) <= 1 and first.out_of_bounds_writes() == []
        assert len(makings) == 1, "all share the matrix"
    size = products[0].columns
    assert products[0].bytes_moved > 12 * 6 * size["matrix_pairs"]
    assert not any(host_library.made.values())
    with ready(products[0], device, load, operands):
        assert len(makings) == 2, "the last one gave it back"


@needs_compiler
def test_a_wrong_product_is_seen(operands, load, host_library):
    [product, *_] = library_products({}, ["spmv-csr-alg1"], "cuda")
    with ready(product, Gpu(), load, operands):
        launch = product.launch

        def wrong():
            launch()
            values = next(dense for dense in reversed(host_library.dense.values()))
            values[3] += 1e-6

        product.launch = wrong
        with pytest.raises(IncorrectError):
            operands.check(product, None)


@needs_compiler
@pytest.mark.parametrize(
    ("most", "room", "message"),
    [
        (1000, 100, "entries, and 32-bit offsets count 1,000"),
        (10**9, 1.6, "with its blocks, and 0.0 are free"),
        (10**9, 0.5, "the matrix has 0.0 GB"),
    ],
)
def test_a_matrix_that_does_not_fit_is_refused_and_not_counted_again(
    operands, load, host_library, monkeypatch, makings, most, room, message
):
    monkeypatch.setattr(library_module, "MAX_CSR_ENTRIES", most)
    device = Gpu()
    device.room = int(room * matrix_bytes(operands, load))
    makings.clear()
    counted, count = [], MatrixRows.count
    monkeypatch.setattr(MatrixRows, "count", lambda self: counted.append(1) or count(self))
    for product in library_products({}, routine_names("cuda"), "cuda"):
        with pytest.raises(Unsupported, match=message), ready(product, device, load, operands):
            pass
    assert (len(counted), makings) == (1, [])


def test_without_the_library_nothing_is_made(operands, load, makings, monkeypatch):
    def missing():
        raise Unsupported("cuSPARSE is not there")

    monkeypatch.setattr(library_module, "load", missing)
    for product in library_products({}, routine_names("cuda"), "cuda"):
        with pytest.raises(Unsupported, match="not there"), ready(product, Gpu(), load, operands):
            pass
    assert not makings


@pytest.mark.exhaustive
@needs_compiler
def test_products_and_streams_of_ours_share_a_matrix(operands, load, makings):
    device = Gpu()
    [_], shared = matrix_runnables({})
    assert {runnable.operation for runnable in shared} == {"apply", "stream"}
    with ready(shared[0], device, load, operands):
        for runnable in shared[1:]:
            with ready(runnable, device, load, operands) as guards:
                runnable.launch()
                assert guards.out_of_bounds_writes() == []
                if runnable.operation == "apply":
                    assert operands.check(runnable, None) <= 1
                else:
                    assert operands.check(runnable, None) is None
    assert len(makings) == 1


@needs_compiler
def test_scipys_product_on_the_host(operands, load, monkeypatch):
    products = library_products({}, routine_names("opencl"), "opencl")
    assert [product.name for product in products] == [f"scipy/csr-{fields}" for fields in FIELD_COUNTS]
    for product in products:
        with ready(product, Gpu(), load, operands):
            assert operands.check(product, None) <= 1
    monkeypatch.setattr(library_module, "MAX_HOST_BYTES", 1000)
    [product, *_] = library_products({}, routine_names("opencl"), "opencl")
    with pytest.raises(Unsupported, match="SciPy's matrix has"), ready(product, Gpu(), load, operands):
        pass
    assert library_products({}, [], "opencl") == []


@needs_compiler
def test_what_nobody_uses_is_given_back(operands, load):
    device, shared = Gpu(), BlockMatrix()
    first, second = (ApplyMatrix({}, shared, fields) for fields in (1, 4))
    with ready(first, device, load, operands):
        with ready(second, device, load, operands):
            matrix = shared._made
            assert matrix is not None
        assert shared._made is matrix
    assert shared._made is None
