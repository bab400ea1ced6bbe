"""Arrays of another device than the operator's are refused in one message, which names both devices."""

from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

import repro
from repro.devices.base import OutOfDeviceMemory
from repro.errors import ReproError
from repro.operators.arrays import INTERFACE
from repro.operators.product import MatrixSource, Product
from repro.operators.runtime import Runtime
from repro.operators.scipy_matrices import as_problem
from repro.operators.spmv import SpmvOperator
from repro.sparse.compound.variants import VariantId


@pytest.fixture
def sides(halves):
    """A runtime of each half of the CPU."""
    return [Runtime(device) for device in halves]


@pytest.fixture
def on_first(sides):
    """An operator on the first half, its matrix not symmetric."""
    problem, precision = as_problem(sp.csr_array(np.triu(np.ones((6, 6)))), None, None)
    with MatrixSource(problem) as source:
        id = VariantId.parse("CSR-AoS-AoS/direct-64-3")
        return SpmvOperator(source, Product(sides[0], source, precision, id))


def refusal(what, here, there):
    return rf"a different device\n  where: {what}\n  expected: .*{here}.*\n  actual: .*{there}.*\n  what to do: copy it"


def test_arrays_of_the_same_device_are_multiplied(on_first, sides):
    x = np.arange(6.0)
    np.testing.assert_allclose((on_first @ sides[0].put(x)).get(), np.triu(np.ones((6, 6))) @ x)
    np.testing.assert_allclose((on_first.T @ sides[0].put(x)).get(), np.triu(np.ones((6, 6))).T @ x)


def test_all_products_refuse_those_of_another(on_first, sides):
    ours, theirs = (side.put(np.ones(6)) for side in sides)
    here, there = (side.device.uuid for side in sides)
    assert here != there
    for product in (
        on_first.matvec,
        on_first.rmatvec,
        on_first.dot,
        on_first.T.matvec,
        on_first.H.matvec,
        on_first.T.dot,
    ):
        with pytest.raises(ReproError, match=refusal("x", here, there)):
            product(theirs)
    for product in (on_first.matvec, on_first.rmatvec, on_first.T.matvec):
        with pytest.raises(ReproError, match=refusal("out", here, there)):
            product(ours, out=theirs)
    with pytest.raises(ReproError, match=refusal("x", here, there)):
        theirs @ on_first
    with pytest.raises(ReproError, match=refusal("y", here, there)):
        on_first.vectors.dot(ours, theirs)
    np.testing.assert_array_equal(theirs.get(), np.ones(6))


def test_which_device_it_is_comes_before_what_is_wrong_with_the_array(on_first, sides):
    with pytest.raises(ReproError, match="a different device"):
        on_first.matvec(sides[1].put(np.ones(5, np.float32)))


def test_an_array_of_a_gpu_is_refused_on_the_cpu(on_first, sides):
    interface = {"shape": (6,), "typestr": "<f8", "data": (4096, False), "version": 3}
    with pytest.raises(ReproError, match=refusal("x", sides[0].device.uuid, "an address that is not in its memory")):
        on_first.matvec(SimpleNamespace(**{INTERFACE: interface}))


def test_an_array_of_the_operator_is_one_of_another_operator_on_the_device():
    matrix = sp.csr_array(np.triu(np.ones((6, 6))))
    first, second = (repro.operator(matrix, device="opencl:0") for _ in range(2))
    np.testing.assert_allclose((second @ (first @ first.vectors.put(np.ones(6)))).get(), matrix @ (matrix @ np.ones(6)))


def test_what_is_free_on_a_full_device_is_asked_while_it_is_the_current_one(sides, monkeypatch):
    current = []

    @contextmanager
    def ordered(streams):
        current.append(streams)
        yield
        current.pop()

    monkeypatch.setattr(sides[0], "_streams", SimpleNamespace(ordered=ordered))
    monkeypatch.setattr(sides[0].device, "free_bytes", lambda: 7 if current == [set()] else None)
    assert "; 7 bytes are free" in str(sides[0].out_of_memory_error(OutOfDeviceMemory("full")))


def test_a_gpu_that_is_not_there_is_advised_on_in_the_words_of_python(monkeypatch):
    monkeypatch.setattr("repro.devices.selection.node", lambda: SimpleNamespace(gpus=()))
    with pytest.raises(ReproError, match=r'no such GPU(.|\n)*; device="auto" uses the CPU if there is no GPU'):
        repro.operator(sp.csr_array(np.eye(3)), device="cuda")
