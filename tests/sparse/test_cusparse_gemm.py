"""cuSPARSE's products of sparse matrices, made on a library that multiplies on the host and minds memory."""

from contextlib import ExitStack

import numpy as np
import pytest
import scipy.sparse as sp

from repro.devices.base import LaunchError, OutOfDeviceMemory
from repro.errors import ReproError, Unsupported
from repro.sparse.library import cusparse_bindings
from repro.sparse.library.cusparse_bindings import PARAMETERS, Handle, shared_library
from repro.sparse.library.cusparse_csr import SPGEMM_ALGORITHMS, Gemm, GemmReuse, GpuCsr
from support.host_cusparse import HostDevice, HostError, HostLibrary, HostShared, Status
from support.matrices import random

FUNCTIONS = [name for name in PARAMETERS if "SpGEMM" in name and not name.endswith("destroyDescr")]


@pytest.fixture
def device(monkeypatch):
    monkeypatch.setattr(cusparse_bindings, "gpu", lambda device: device)
    return HostDevice()


@pytest.fixture
def library(monkeypatch, device):
    library = HostLibrary(device)
    monkeypatch.setattr(cusparse_bindings, "load", lambda: library)
    monkeypatch.setattr(cusparse_bindings, "shared_library", HostShared)
    return library


def factors(device, dtype=np.float64, shapes=((30, 20), (20, 40))):
    pair = [random(*shape, 0.1, seed).astype(dtype) for seed, shape in enumerate(shapes)]
    return [*pair, *(GpuCsr.upload(device, matrix) for matrix in pair)]


def release(library, *things):
    """Release all, after which nothing is left."""
    for thing in things:
        thing.release()
    assert not library.device.live
    assert not any(library.made.values())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("algorithm", SPGEMM_ALGORITHMS)
def test_a_product_takes_the_memory_that_is_asked_for(device, library, algorithm, dtype):
    a, b, *operands = factors(device, dtype)
    gemm = Gemm(device, *operands, algorithm)
    for _ in range(2):
        c = gemm.multiply()
        assert abs(c.download() - a @ b).max() == 0
        assert (c.shape, c.nnz, c.dtype) == ((30, 40), (a @ b).nnz, dtype)
        # estimating is over before the library computes, but takes more
        assert gemm.workspace_bytes == (100 + 2000 if algorithm == "ALG1" else 100 + 5000)
        assert len(device.live) == 9  # three matrices
        assert library.algorithm == library.SpGEMMAlg[algorithm]
        c.release()
    release(library, gemm, *operands)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_pattern_serves_other_values(device, library, dtype):
    a, b, *operands = factors(device, dtype)
    reuse = GemmReuse(device, *operands)
    c = reuse.multiply()
    assert abs(c.download() - a @ b).max() == 0
    assert reuse.workspace_bytes == 300 + 40 + 5 + 600
    launch, before = reuse.bind(), len(library.calls)
    for matrix, operand, factor in ((a, operands[0], 3), (b, operands[1], -2)):
        matrix.data *= dtype(factor)
        device.write(operand.values, matrix.data)
        launch()
        assert abs(c.download() - a @ b).max() == 0
    assert library.calls[before:] == ["cusparseSpGEMMreuse_compute"] * 2
    # what an earlier product kept goes with the next
    live = len(device.live)
    again = reuse.multiply()
    assert len(device.live) == live + 3
    release(library, reuse, c, again, *operands)
    with pytest.raises(AssertionError, match="a product comes first"):
        reuse.bind()


@pytest.mark.parametrize("shapes", [((5, 0), (0, 4)), ((0, 5), (5, 4)), ((3, 3), (3, 3))])
@pytest.mark.parametrize("make", [lambda *given: Gemm(*given, "ALG1"), GemmReuse])
def test_a_product_without_entries_has_offsets(device, library, make, shapes):
    operands = [GpuCsr.upload(device, sp.csr_array(shape)) for shape in shapes]
    product = make(device, *operands)
    c = product.multiply()
    np.testing.assert_array_equal(c.download().indptr, np.zeros(shapes[0][0] + 1))
    release(library, product, c, *operands)


@pytest.mark.parametrize(
    ("status", "failure"),
    [
        ("INSUFFICIENT_RESOURCES", OutOfDeviceMemory),
        ("ALLOC_FAILED", OutOfDeviceMemory),
        ("EXECUTION_FAILED", LaunchError),
        ("INTERNAL_ERROR", LaunchError),
        ("NOT_SUPPORTED", Unsupported),
    ],
)
@pytest.mark.parametrize("time", [1, 2])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_refusal_names_its_function_and_leaves_nothing(device, library, name, time, status, failure):
    _, _, *operands = factors(device)
    if "reuse" in name:
        product = GemmReuse(device, *operands)
    else:
        product = Gemm(device, *operands, "ALG2" if "estimate" in name else "ALG1")
    library.failing[name, time] = Status[status]
    done = []
    with pytest.raises(failure, match=f"{name}: {status}"):
        for _ in range(2):  # some are called once in a product
            done.append(product.multiply())
    release(library, product, *done, *operands)


def test_a_bound_product_fails_as_a_launch_does(device, library):
    _, _, *operands = factors(device)
    reuse = GemmReuse(device, *operands)
    c = reuse.multiply()
    library.failing["cusparseSpGEMMreuse_compute", 2] = Status.NOT_SUPPORTED
    with pytest.raises(LaunchError, match="reuse_compute: NOT_SUPPORTED"):
        reuse.bind()()
    release(library, reuse, c, *operands)


@pytest.mark.parametrize(
    ("algorithm", "allocations"), [("ALG1", 2 + 3), ("ALG2", 3 + 3), ("ALG3", 3 + 3), (None, 5 + 3)]
)
def test_a_full_device_gets_all_back(device, library, algorithm, allocations):
    _, _, *operands = factors(device)
    product = Gemm(device, *operands, algorithm) if algorithm else GemmReuse(device, *operands)
    before = dict(device.live)
    for room in range(allocations):
        device.room = room
        with pytest.raises(OutOfDeviceMemory):
            product.multiply()
        assert device.live == before
    device.room = allocations
    release(library, product.multiply(), product, *operands)


def test_a_refused_matrix_leaves_no_handle(device, library, monkeypatch):
    _, _, *operands = factors(device)
    create = library.create_csr
    refused = iter([False, True])

    def create_csr(*given):
        if next(refused):
            raise HostError(Status.INVALID_VALUE)
        return create(*given)

    monkeypatch.setattr(library, "create_csr", create_csr)
    with pytest.raises(Unsupported, match="create_csr: INVALID_VALUE"):
        Gemm(device, *operands, "ALG1")
    release(library, *operands)


def test_a_product_that_offsets_cannot_count_is_refused(device, library):
    _, _, *operands = factors(device)
    gemm = Gemm(device, *operands, "ALG3")
    library.extra_entries = 2**31
    with pytest.raises(Unsupported, match=r"2,147,48\d,\d{3} entries"):
        gemm.multiply()
    release(library, gemm, *operands)


def test_a_version_without_the_function_says_so(device, library):
    _, _, *operands = factors(device)
    library.missing.add("cusparseSpGEMM_estimateMemory")
    gemm = Gemm(device, *operands, "ALG2")
    with pytest.raises(Unsupported, match="has no cusparseSpGEMM_estimateMemory"):
        gemm.multiply()
    release(library, gemm, *operands)


@pytest.mark.wording
def test_what_is_not_loaded_is_not_called(device, library):
    library.get_property = lambda part: 9999
    with pytest.raises(Unsupported, match=r"libcusparse\.so\.9999 cannot be called directly"):
        shared_library(library)


@pytest.mark.wording
def test_another_device_is_refused(cpu_device):
    with pytest.raises(Unsupported, match="cuSPARSE runs on NVIDIA GPUs"):
        Handle(cpu_device, ExitStack())


def test_factors_that_do_not_fit_are_refused(device, library):
    _, _, a, b = factors(device)
    _, _, single, _ = factors(device, np.float32, ((40, 30), (1, 1)))
    with pytest.raises(ReproError, match="40 rows in the second matrix"):
        Gemm(device, b, a, "ALG1")
    with pytest.raises(ReproError, match="different precisions"):
        GemmReuse(device, b, single)
    with pytest.raises(ReproError, match="one of ALG1, ALG2, ALG3"):
        Gemm(device, a, b, "ALG4")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("density", [0, 0.1])
def test_a_matrix_goes_to_a_device_and_back(cpu_device, dtype, density):
    matrix = random(30, 20, density).astype(dtype)
    csr = GpuCsr.upload(cpu_device, matrix)
    back = csr.download()
    assert (back.dtype, back.shape, csr.nnz) == (dtype, (30, 20), matrix.nnz)
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(back, name), getattr(matrix, name))
    csr.release()


def test_a_matrix_of_whole_numbers_is_refused(device):
    with pytest.raises(ReproError, match="float32 or float64"):
        GpuCsr.upload(device, sp.csr_array(np.eye(3, dtype=np.int64)))


@pytest.mark.parametrize("room", [0, 1, 2])
def test_a_matrix_that_finds_no_room_leaves_nothing(device, room):
    device.room = room
    with pytest.raises(OutOfDeviceMemory):
        GpuCsr.upload(device, random(30, 20, 0.1))
    assert not device.live
