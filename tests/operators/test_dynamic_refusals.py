"""What cannot be done with a matrix that grows is one message by name, and leaves it as it was."""

import re

import numpy as np
import pytest
import scipy.sparse as sp

import repro
from repro.devices.base import OutOfDeviceMemory
from repro.errors import ReproError
from repro.operators import device_exchange
from repro.operators.arrays import INTERFACE
from repro.operators.runtime import open_runtime
from repro.sparse.dynamic.host_layout import MAX_ENTRIES
from repro.sparse.dynamic.matrix import NoRoom
from support.device_memory import fill_after
from support.grown_matrices import DEVICE, assert_same, batch, drawn, plus


class Foreign:
    """An array of a GPU."""

    def __init__(self, typestr="<i4"):
        setattr(self, INTERFACE, {"shape": (2,), "typestr": typestr, "data": (4096, False), "version": 3})


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (([0, 1], [0], [1.0, 2.0]), "differ in length[\\s\\S]*rows: 2, columns: 1"),
        (([0, 1], [0, 1], [1.0]), "differ in length"),
        (([0, -1], [0, 1], 1.0), "outside the matrix[\\s\\S]*rows\\[1\\][\\s\\S]*-1"),
        (([0, 1], [0, 30], 1.0), "outside the matrix[\\s\\S]*columns\\[1\\][\\s\\S]*from 0 to 29"),
        (([0, 40], [0, 1], 1.0), "outside"),
        (([0, 1 << 31], [0, 1], 1.0), r"outside[\s\S]*actual: 2147483648$"),
        (([50, 60, 70], 0, 1.0), "actual: 50, and 2 more$"),
        (([0, 1 << 33], [0, 1], 1.0), "outside"),
        ((np.array([1 << 63], np.uint64), 0, 1.0), "outside"),
        ((np.array([-1], np.int8), 0, 1.0), "outside"),
        (([0, 1 << 70], [0, 1], 1.0), "not an integer"),
        (([0.0, np.nan], [0, 1], 1.0), "NaN"),
        (([0.0, 1.0], [0, 1], 1.0), "not an integer"),
        (([True, False], [0, 1], 1.0), "not an integer"),
        (([0, "a"], [0, 1], 1.0), "not an integer"),
        (([[0, 1]], [0, 1], 1.0), "more than one dimension"),
        (([[0], [0, 1]], [0, 1], 1.0), "not an array"),
        (([0, 1], [0, 1], [1j, 2]), "not real numbers"),
        (([0, 1], [0, 1], ["a", "b"]), "not real numbers"),
        (([0, 1], [0, 1], None), "not real numbers"),
        (([0, 1], [0, 1], np.ma.masked_array([1.0, 2], [0, 1])), "mask"),
        (([0, 1], np.ma.masked_array([0, 1], [0, 1]), 1.0), "mask"),
        ((Foreign(), [0, 1], 1.0), "a different device"),
        ((Foreign("<f8"), [0, 1], 1.0), "the wrong dtype"),
        ((Foreign(">i4"), [0, 1], 1.0), "the wrong dtype"),
        (([0, 1], [0, 1], Foreign("<c16")), "the wrong dtype"),
    ],
)
def test_a_batch_that_cannot_be_is_one_message_and_changes_nothing(entries, message):
    A = repro.DynamicCSR.from_csr(drawn(), device=DEVICE)
    with pytest.raises(ReproError, match=message):
        A.insert(*entries)
    if message != "not real numbers":
        with pytest.raises(ReproError, match=message):
            A.update(*entries)
    assert_same(A, drawn())


@pytest.mark.parametrize("wrong", [-1, 40, 1 << 40])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_indices_on_the_device_are_looked_at_there(put, dtype, wrong):
    A = repro.DynamicCSR.from_csr(drawn(), device=DEVICE)
    rows = put(np.array([0, wrong]).astype(dtype if wrong < 1 << 31 else np.int64))
    for change in (lambda: A.insert(rows, [0, 1], 1.0), lambda: A.delete(rows, [0, 1])):
        with pytest.raises(ReproError, match="outside the matrix; nothing was changed"):
            change()
    with pytest.raises(ReproError, match="more than one dimension"):
        A.delete(put(np.zeros((2, 2), dtype)), 0)
    assert_same(A, drawn())


#: Values that a type does not hold, and such as it does: infinity and NaN are real numbers of any type.
LOST = {
    "float32": [
        np.float64([1e300]), np.float64([-1e39]), np.float64([1e-60]), np.float64([1.0, 1e-45]),
        np.int32([2**24 + 1]), np.int32([2**31 - 1]), np.int64([2**24 + 1]), np.int64([2**63 - 1]),
        np.int64([-(2**63) + 1]), np.int64([2**62 + 1]),
    ],
    "float64": [np.int64([2**53 + 1]), np.int64([2**63 - 1]), np.int64([0, -(2**53) - 1]), np.int64([-(2**63) + 1])],
}  # fmt: skip
HELD = {
    "float32": [
        np.float64([0.1, -0.0, np.inf, -np.inf, np.nan, 2.0**-149, 1.5e-38, 3.4e38]), np.float32([1e-45, np.nan]),
        np.int32([2**24, -(2**31), 2**30]), np.int64([2**24, -(2**63), 2**62]),
    ],
    "float64": [np.int64([2**53, -(2**63), 2**62]), np.int32([2**31 - 1]), np.float32([0.1, 1e-45])],
}  # fmt: skip


@pytest.mark.parametrize("where", ["host", "device"])
@pytest.mark.parametrize("dtype", LOST)
def test_values_that_the_matrix_does_not_hold_are_refused(put, where, dtype):
    start = drawn().astype(dtype)
    A = repro.DynamicCSR.from_csr(start, device=DEVICE)
    bring = put if where == "device" else np.asarray
    for values in LOST[dtype]:
        places = np.arange(len(values))
        for change in (A.insert, A.update):
            with pytest.raises(ReproError, match=rf"cannot be represented in {dtype}[\s\S]*where: values[\s\S]*to do"):
                change(places, places, bring(values))
    assert_same(A, start)
    if where == "host":
        for value in (LOST[dtype][0][0], int(LOST[dtype][-1][0])):
            with pytest.raises(ReproError, match="cannot be represented in"):
                A.insert(0, 0, value)
    else:
        indices, offsets = put(np.int32([0])), put(np.int32([0, 1]))
        for values in LOST[dtype]:
            with pytest.raises(ReproError, match="cannot be represented in"):
                repro.DynamicCSR.from_csr((put(values[-1:]), indices, offsets), (1, 1), dtype, device=DEVICE)


@pytest.mark.parametrize("where", ["host", "device"])
@pytest.mark.parametrize("dtype", HELD)
def test_values_that_it_holds_are_rounded_at_the_most(put, where, dtype):
    for values in HELD[dtype]:
        A = repro.DynamicCSR((1, len(values)), dtype, device=DEVICE)
        A.insert(0, np.arange(len(values)), put(values) if where == "device" else values)
        stored = A.to_scipy()
        assert stored.dtype == dtype
        np.testing.assert_array_equal(stored.data, values.astype(dtype))


def test_a_batch_in_parts_is_refused_before_the_first(put, monkeypatch):
    monkeypatch.setattr(device_exchange, "MAX_BATCH", 64)
    A = repro.DynamicCSR((10, 10), np.float32, device=DEVICE)
    values = np.ones(300)
    values[299] = 1e300
    rows = np.arange(300) % 10
    for bring in (put, np.asarray):
        with pytest.raises(ReproError, match="cannot be represented in float32"):
            A.insert(bring(rows), bring(rows), bring(values))
    assert A.nnz == 0


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((5,), {}, "not the shape"),
        (((1, 2, 3),), {}, "not the shape"),
        (((1.5, 2),), {}, "shape\\[0\\]"),
        (((-1, 2),), {}, "shape\\[0\\]"),
        (((1, -2),), {}, "shape\\[1\\]"),
        (((1, 1 << 31),), {}, "shape\\[1\\]"),
        (((MAX_ENTRIES, 2),), {}, "shape\\[0\\]"),
        (((1, True),), {}, "shape\\[1\\]"),
        (((3, 3), complex), {}, "dtype"),
        (((3, 3), int), {}, "dtype"),
        (((3, 3), "no dtype"), {}, "dtype"),
        (((3, 3),), {"segments": 0}, "segments"),
        (((3, 3),), {"segments": 65}, "segments"),
        (((3, 3),), {"slack": -1}, "slack"),
        (((3, 3),), {"width": 1.0}, "width"),
        (((3, 3),), {"capacity": MAX_ENTRIES + 1}, "capacity"),
        (((3, 3),), {"capacity": 5, "width": 2}, "does not fit"),
        (((3, 3),), {"device": "opencl:77"}, "opencl"),
    ],
)
def test_a_matrix_that_cannot_be_is_one_message(arguments, options, message):
    with pytest.raises(ReproError, match=message):
        repro.DynamicCSR(*arguments, **{"device": DEVICE, **options})


@pytest.mark.parametrize(
    ("matrix", "options", "message"),
    [
        (np.eye(3), {}, "not a sparse matrix"),
        (sp.eye_array(3, dtype=complex), {}, "not real"),
        (sp.coo_array(np.ones(3)), {}, "not a matrix"),
        ((np.ones(1), np.zeros(1, int), np.array([0, 1])), {}, "and a shape"),
        (
            (np.ones(1), np.zeros(2, int), np.array([0, 2])),
            {"shape": (1, 3)},
            "as many data as indices",
        ),
        ((np.ones(1), np.array([3]), np.array([0, 1])), {"shape": (1, 3)}, "CSR|damaged"),
        (sp.eye_array(3, format="csr"), {"shape": (5, 5)}, "another shape"),
        (sp.eye_array(3, format="csr"), {"shape": 3}, "not the shape"),
        ((np.ma.masked_array([1.0], [1]), [0], [0, 1]), {"shape": (1, 3)}, "mask"),
        (sp.eye_array(30, format="csr"), {"capacity": 29}, "does not fit"),
        (sp.eye_array(3), {"dtype": np.int32}, "dtype"),
    ],
)
def test_what_is_no_such_matrix_is_one_message(matrix, options, message):
    with pytest.raises(ReproError, match=message):
        repro.DynamicCSR.from_csr(matrix, device=DEVICE, **options)


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        (([1.0, 2], [0, 1], [0, 1]), {}, "CSR arrays do not match"),
        (([1.0, 2], [0], [0, 1, 2]), {}, "CSR arrays do not match"),
        (([1.0, 2], [0, 1], [0, 1, 1]), {}, "invalid CSR offsets"),
        (([1.0, 2], [0, 1], [0, 3, 2]), {}, "invalid CSR offsets"),
        (([1.0, 2], [0, 3], [0, 1, 2]), {}, "outside"),
        (([1.0, 2], [0, -1], [0, 1, 2]), {}, "outside"),
        (([1.0, 2], [0, 1], [0, 1, 2]), {"width": 3}, "width"),
        (([1.0, 2], [0, 1], [0, 1, 2]), {"capacity": 1}, "does not fit"),
    ],
)
def test_arrays_of_csr_on_the_device_are_looked_at(put, arrays, options, message):
    with pytest.raises(ReproError, match=message):
        repro.DynamicCSR.from_csr(tuple(map(put, arrays)), (2, 3), device=DEVICE, **options)
    with pytest.raises(ReproError, match="same place"):
        repro.DynamicCSR.from_csr((put(arrays[0]), *arrays[1:]), (2, 3), device=DEVICE)


def test_vectors_that_cannot_be_multiplied(put):
    for A in (made := repro.DynamicCSR.from_csr(sp.eye_array(4), device=DEVICE), made.reader()):
        x = put(np.ones(4))
        for wrong in (np.ones(5), np.ones((5, 2)), np.ones((4, 1, 1)), []):
            with pytest.raises(ReproError, match="the wrong length"):
                A @ wrong
            with pytest.raises(ReproError, match="the wrong length"):
                A.matvec(wrong)
        with pytest.raises(ReproError, match="does not hold numbers"):
            A @ np.array(["a"] * 4)
        with pytest.raises(ReproError, match="the wrong size"):
            A @ put(np.ones(5))
        with pytest.raises(ReproError, match="the wrong dtype"):
            A @ put(np.ones(4, np.float32))
        with pytest.raises(ReproError, match="overlap"):
            A.matvec(x, out=x)
        with pytest.raises(ReproError, match="same place"):
            A.matvec(x, out=np.ones(4))
        with pytest.raises(ReproError, match="same place"):
            A.matvec(np.ones(4), out=x)
        with pytest.raises(ReproError, match="the wrong shape"):
            A.matvec(np.ones(4), out=np.ones((2, 4)))
        with pytest.raises(ReproError, match="a different device"):
            A @ type("", (), {INTERFACE: {"shape": (4,), "typestr": "<f8", "data": (4096, False)}})()


def test_words_that_there_are_none_of():
    A = repro.DynamicCSR((3, 3), device=DEVICE)
    for call in (
        lambda: A.insert(0, 0, 1.0, mode="max"),
        lambda: A.insert(0, 0, 1.0, mode="unique", existing="keep"),
        lambda: A.update(0, 0, 1.0, existing=None),
    ):
        with pytest.raises(ReproError, match=r"unknown (mode|existing)"):
            call()
    with pytest.raises(ReproError, match="slack"):
        A.defragment(-1)


def test_entries_that_there_is_no_memory_for_are_named(monkeypatch):
    monkeypatch.setattr(device_exchange, "MAX_BATCH", 64)
    A = repro.DynamicCSR((10, 10), capacity=100, slack=0, device=DEVICE)
    runtime = open_runtime(DEVICE)
    allocate = runtime.device.allocate

    def full(nbytes):
        if nbytes >= 4 * 100:
            raise OutOfDeviceMemory("all is taken")
        return allocate(nbytes)

    rows = np.repeat(np.arange(10), 20)
    A.insert(rows[:64], 0, 0.0)  # memory for what passes between kernels is there
    A.update(rows, 0, 0.0)
    A.delete(rows, 0)
    with monkeypatch.context() as patch:
        patch.setattr(runtime.device, "allocate", full)
        with pytest.raises(NoRoom) as caught:
            A.insert(rows, np.tile(np.arange(10), 20), 1.0)
    left = caught.value.left
    assert 0 < len(left) < 200
    assert A.nnz == 200 - len(left)
    A.insert(rows[left], np.tile(np.arange(10), 20)[left], 1.0)
    assert A.nnz == 200


def test_a_batch_that_ends_in_the_middle_says_where(monkeypatch):
    monkeypatch.setattr(device_exchange, "MAX_BATCH", 64)
    device = open_runtime(DEVICE).device
    rows, columns, values = batch((30, 20), 300)
    said = set()
    for nth in range(0, 60, 3):
        A = repro.DynamicCSR((30, 20), capacity=100, slack=0, device=DEVICE)
        left = np.arange(0)
        with monkeypatch.context() as patch:
            fill_after(patch, device, nth)
            try:
                A.insert(rows, columns, values, "unique", "add")
            except NoRoom as error:
                left = error.left
                said.add("left")
            except ReproError as error:
                before = re.match(r"entries from (\d+) on, of 300; those before are done", str(error.where))
                left = np.arange(int(before[1]) if before else 0, 300)
                said.add("before" if before else "nothing")
        A.insert(rows[left], columns[left], values[left], "unique", "add")
        assert_same(A, plus(sp.csr_array((30, 20)), rows, columns, values))
    assert said == {"left", "before", "nothing"}


def test_a_batch_that_there_is_no_memory_to_sort_leaves_the_matrix_as_it_was(monkeypatch):
    A = repro.DynamicCSR.from_csr(drawn(), device=DEVICE)
    rows, columns, values = batch(A.shape, 100)
    A.insert([], [], [])
    device = open_runtime(DEVICE).device
    allocate, calls = device.allocate, []

    def full(nbytes):
        calls.append(nbytes)
        if len(calls) > 3:  # the batch itself has come there
            raise OutOfDeviceMemory("all is taken")
        return allocate(nbytes)

    for change in (lambda: A.insert(rows, columns, values, "unique"), lambda: A.delete(rows, columns)):
        calls.clear()
        with monkeypatch.context() as patch:
            patch.setattr(device, "allocate", full)
            with pytest.raises(ReproError, match=r"nothing was changed|out of memory"):
                change()
        assert_same(A, drawn())
    change()
    assert A.nnz < drawn().nnz


@pytest.mark.wording
def test_a_full_device_is_one_message(monkeypatch):
    runtime = open_runtime(DEVICE)

    def full(_):
        raise OutOfDeviceMemory("all is taken")

    monkeypatch.setattr(runtime.device, "upload", full)
    with pytest.raises(ReproError, match=r"out of memory[\s\S]*all is taken"):
        repro.DynamicCSR((3, 3), device=DEVICE)
