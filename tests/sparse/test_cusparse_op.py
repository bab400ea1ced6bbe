"""cuSPARSE's products of a matrix with a vector in CSR, SpMVOp among them, made on a library that works on the host."""

import numpy as np
import pytest

from repro.bench.runnable import Workspace
from repro.devices.base import LaunchError, OutOfDeviceMemory
from repro.errors import Unsupported
from repro.sparse.library import cusparse, cusparse_bindings, for_problem
from repro.sparse.library.cusparse import lacks_spmvop
from repro.sparse.operands import expand, make_operands
from support.host_cusparse import HostDevice, HostDevices, HostLibrary, HostShared, Status

PLANNED = [
    (entry, f"cusparse/spmvop-csr-alg{n}/{what}")
    for entry, what in (("pattern", "real"), ("real", "real"), ("quaternion", "real4"), ("block3", "real3"))
    for n in (1, 2)
]
COMPLEX = [("complex", "cusparse/spmvop-csr-alg1/complex"), ("quaternion", "cusparse/spmvop-csr-alg2/complex2")]
FUNCTIONS = ["cusparseSpMVOp_bufferSize", "cusparseSpMVOp_createDescr", "cusparseSpMVOp_createPlan", "cusparseSpMVOp"]


@pytest.fixture
def device():
    return HostDevice()


@pytest.fixture
def library(monkeypatch, device):
    """The library, of the newest version."""
    library = HostLibrary(device)
    monkeypatch.setattr(cusparse_bindings, "gpu", lambda device: device)
    monkeypatch.setattr(cusparse_bindings, "load", lambda: library)
    monkeypatch.setattr(cusparse_bindings, "shared_library", HostShared)
    monkeypatch.setattr(cusparse, "version", lambda: "12.9.4")
    return library


@pytest.fixture
def workspace(device, small_problem, tmp_path):
    made = []  # memory goes with the last reference to it

    def make(entry, precision="double"):
        made.append(Workspace(HostDevices([device]), make_operands(small_problem(entry), precision, 1), tmp_path))
        return made[-1]

    return make


def routine(entry, name, ordering="natural"):
    [found] = [runnable for runnable in for_problem(entry, "cuda", ordering) if runnable.name == name]
    return found


def read(device, buffer, dtype):
    array = np.empty(buffer.nbytes // np.dtype(dtype).itemsize, dtype)
    device.download(buffer, array)
    return array


def nothing_is_left(library, before=0):
    return len(library.device.live) == before and not any(library.made.values())


@pytest.mark.parametrize("ordering", ["natural", "rcm"])
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize(("entry", "name"), [*PLANNED, ("complex", "cusparse/spmv-csr-alg2/complex")])
def test_products_are_those_of_the_reference_and_memory_comes_back(
    device, library, workspace, entry, name, precision, ordering
):
    work = workspace(entry, precision)
    operands = work.operands
    runnable = routine(entry, name if ordering == "natural" else f"{name}@{ordering}", ordering)
    runnable.prepare(work)
    device.fill(runnable.result(), 0xFF)  # NaN
    runnable.launch()
    result = read(device, runnable.result(), operands.dtype)
    assert np.all(abs(result - runnable.arrange(operands.reference)) <= runnable.arrange(operands.bound))
    assert runnable.columns["preprocess"] >= 0 and runnable.columns["format"] == "csr"
    if "spmvop" in name:
        assert library.calls == [*FUNCTIONS, "cusparseSpMVOp"]
        assert library.algorithm == int(name.split("/")[1][-1])
    runnable.release()
    runnable.release()
    assert nothing_is_left(library, before=1)  # y, which is the workspace's


@pytest.mark.parametrize(("entry", "name"), PLANNED)
def test_a_plan_serves_other_vectors(device, library, workspace, entry, name):
    work, runnable = workspace(entry), routine(entry, name)
    operands = work.operands
    runnable.prepare(work)
    made = library.calls.count("cusparseSpMVOp_createPlan")
    for seed in (1, 2):
        given = np.random.default_rng(seed).standard_normal(operands.x.shape)
        x = device.upload(runnable.arrange(given))
        y = device.upload(np.full(operands.reference.size, np.nan))
        runnable.product(x, y)()
        expected = expand(operands.problem, operands.values) @ given.ravel()
        np.testing.assert_allclose(read(device, y, np.float64), expected, atol=1e-12)
    assert library.calls.count("cusparseSpMVOp_createPlan") == made == 1
    runnable.release()
    assert not any(library.made.values())


@pytest.mark.parametrize(("entry", "name"), COMPLEX)
def test_what_the_library_has_no_plan_for_is_unsupported(library, workspace, entry, name):
    with pytest.raises(Unsupported, match="cusparseSpMVOp_bufferSize: NOT_SUPPORTED"):
        routine(entry, name).prepare(workspace(entry))
    assert nothing_is_left(library, before=1)


@pytest.mark.parametrize("before", ["12.6.3", "12.7.10", "12.8.0"])
def test_no_function_of_an_older_library_is_called(monkeypatch, library, workspace, before):
    monkeypatch.setattr(cusparse, "version", lambda: before)
    with pytest.raises(Unsupported, match=rf"cuSPARSE {before}: SpMVOp needs 12\.8\.1"):
        routine(*PLANNED[0]).prepare(workspace("pattern"))
    assert not library.calls
    assert nothing_is_left(library, before=1)


def test_versions_are_compared_by_their_numbers():
    assert not any(lacks_spmvop(version) for version in ("12.8.1", "12.8.6", "12.10.0", "13.0.0"))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_library_without_the_function_is_unsupported(library, workspace, name):
    library.missing.add(name)
    with pytest.raises(Unsupported, match=f"has no {name}$"):
        routine(*PLANNED[0]).prepare(workspace("pattern"))
    assert nothing_is_left(library, before=1)


@pytest.mark.parametrize(
    ("status", "failure"),
    [
        ("INSUFFICIENT_RESOURCES", OutOfDeviceMemory),
        ("ALLOC_FAILED", OutOfDeviceMemory),
        ("INTERNAL_ERROR", LaunchError),
        ("NOT_SUPPORTED", Unsupported),
    ],
)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_refusal_leaves_nothing(library, workspace, name, status, failure):
    library.failing[name, 1] = Status[status]
    with pytest.raises(failure, match=status if name == "cusparseSpMVOp" else f"{name}: {status}"):
        routine(*PLANNED[0]).prepare(workspace("pattern"))
    assert nothing_is_left(library, before=1)


def test_a_launch_that_is_refused_says_so(library, workspace):
    runnable = routine(*PLANNED[0])
    runnable.prepare(workspace("pattern"))
    library.failing["cusparseSpMVOp", 2] = Status.EXECUTION_FAILED
    with pytest.raises(LaunchError, match="cuSPARSE: EXECUTION_FAILED"):
        runnable.launch()
    runnable.release()
    assert nothing_is_left(library, before=1)


def test_a_full_device_gets_all_back(device, library, workspace):
    work, runnable = workspace("block3"), routine("block3", PLANNED[-1][1])
    for room in range(7):  # the matrix's three arrays, x, y, zeros, working memory
        device.room = room
        with pytest.raises(OutOfDeviceMemory):
            runnable.prepare(work)
        assert nothing_is_left(library, before=len(work._written))
        work._written.clear()
        device.live.clear()
    device.room = 7
    runnable.prepare(work)
    runnable.release()
    assert nothing_is_left(library, before=1)
