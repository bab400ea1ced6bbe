"""cuSPARSE's products of a matrix with vectors, made on a library that multiplies on the host."""

from contextlib import ExitStack

import numpy as np
import pytest

from repro.bench.guards import Guards
from repro.devices.base import LaunchError, OutOfDeviceMemory
from repro.errors import Unsupported
from repro.sparse.library import cusparse_bindings
from repro.sparse.library.cusparse_csr import OF_SEVERAL, OF_VECTOR, CsrProduct, CsrRoutine, GpuCsr, csr_routines
from support.emulated_cuda import EmulatedCuda
from support.host_cusparse import HostDevice, HostLibrary, Status
from support.matrices import random


@pytest.fixture
def device(monkeypatch):
    monkeypatch.setattr(cusparse_bindings, "gpu", lambda device: device)
    return HostDevice()


@pytest.fixture
def library(monkeypatch, device):
    library = HostLibrary(device)
    monkeypatch.setattr(cusparse_bindings, "load", lambda: library)
    return library


def bound(device, held, fields, routine):
    """Return a matrix, X, Y on the device, and what queues the product."""
    matrix = random(30, 20, 0.2, 1)
    x = np.random.default_rng(2).standard_normal((20, fields))
    csr = GpuCsr.upload(device, matrix)
    held.callback(csr.release)
    buffers = []
    for array in (x, np.full((30, fields), np.nan)):
        buffers.append(device.allocate(array.nbytes))
        held.callback(buffers[-1].release)
        device.write(buffers[-1], np.ascontiguousarray(array))
    launch = CsrProduct(csr, routine, *buffers, fields, Guards(device), held).launch
    return matrix @ x, buffers[1], launch


@pytest.mark.parametrize(("fields", "routine"), [(n, routine) for n in (1, 4) for routine in csr_routines(n)], ids=str)
def test_products_are_those_of_scipy_and_memory_comes_back(device, library, fields, routine):
    with ExitStack() as held:
        expected, y, launch = bound(device, held, fields, routine)
        device.fill(y, 0xFF)
        launch()
        result = np.empty((30, fields))
        device.download(y, result)
        np.testing.assert_allclose(result, expected, atol=1e-14)
        assert library.calls[-1] == routine.algorithm
    assert not device.live and not any(library.made.values())


def test_routines_are_for_one_vector_or_for_several():
    assert [routine.name for routine in (*OF_VECTOR, *OF_SEVERAL)] == [
        "spmv-csr-alg1", "spmv-csr-alg2", "spmm-csr-alg1", "spmm-csr-alg2", "spmm-csr-alg3"
    ]  # fmt: skip
    assert csr_routines(1) == OF_VECTOR and csr_routines(16) == OF_SEVERAL


def test_what_the_library_does_not_know_is_unsupported(device, library):
    with ExitStack() as held, pytest.raises(Unsupported, match=r"SpMVAlg\.CSR_ALG9"):
        bound(device, held, 1, CsrRoutine("spmv-csr-alg9", "sp_mv", "CSR_ALG9"))


@pytest.mark.parametrize(
    ("status", "error"),
    [("NOT_SUPPORTED", Unsupported), ("ALLOC_FAILED", OutOfDeviceMemory), ("EXECUTION_FAILED", LaunchError)],
)
def test_refusals_are_told_apart_and_memory_comes_back(device, library, status, error):
    library.failing["CSR_ALG3"] = Status[status]
    with ExitStack() as held, pytest.raises(error, match="spmm-csr-alg3"):
        bound(device, held, 4, OF_SEVERAL[2])
    assert not device.live and not any(library.made.values())


def test_a_device_that_is_no_gpu_is_refused(monkeypatch):
    monkeypatch.setattr(cusparse_bindings, "load", lambda: None)
    device = EmulatedCuda()
    with ExitStack() as held, pytest.raises(Unsupported, match="not on emulated"):
        csr = GpuCsr.upload(device, random(5, 5, 0.5, 1))
        CsrProduct(csr, OF_VECTOR[0], csr.values, csr.values, 1, Guards(device), held)
