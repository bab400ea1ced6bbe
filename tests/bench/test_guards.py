"""Guard zones: a write just outside of what a kernel may write is incorrect, whatever the result."""

from __future__ import annotations

import numpy as np
import pytest

from repro.bench.guards import BYTE, ZONE, Guards
from repro.bench.runnable import Runnable
from repro.bench.store import Store
from repro.bench.timing import SamplingPlan
from repro.bench.yardsticks import DeviceCopy, Floor
from repro.codegen.build_cache import compile_module
from repro.codegen.targets import CPU
from repro.codegen.templates import StreamConfig
from repro.devices.opencl import OpenClDevice
from repro.errors import IncorrectError
from repro.sparse.elementwise import pack_vector
from repro.sparse.operands import ProductRunnable, operands_of, y_on
from repro.tuning.final_timing import shuffled_rounds

EFFORT = SamplingPlan(5)
#: A right product, and one more number at `stray`, by the launches after the first `calm` ones.
SOURCE = """
__kernel __attribute__((reqd_work_group_size(16, 1, 1)))
void right(int n, __global const double* product, __global double* y, __global int* launches, int stray, int calm)
{
    for (int i = get_global_id(0); i < n; i += get_global_size(0))
        y[i] = product[i];
    // another thread of the group may own y[stray], and would write it last
    barrier(CLK_GLOBAL_MEM_FENCE);
    if (get_global_id(0) == 0 && launches[0]++ >= calm)
        y[stray] = 1.5;
}
"""


@pytest.fixture
def binary(tmp_path):
    module = compile_module(SOURCE, CPU, tmp_path / "right.json")
    return tmp_path / module.binary


@pytest.fixture
def bench(make_bench, small_problem):
    bench = make_bench(small_problem("real"), rounds=2, launches=10, cold_launches=6)
    yield bench
    bench.release()


class Straying(ProductRunnable):
    """Leaves the right product, and writes one more number."""

    kind, bytes_moved = "variant", 8

    def __init__(self, name, binary, stray, calm=0, order="AoS"):
        self.name, self._binary, self._stray, self._calm, self.arrangement = name, binary, stray, calm, order

    def prepare(self, workspace):
        operands, device = operands_of(workspace), workspace.device
        product = self.arrange(operands.reference)
        self._y = y_on(workspace, self.arrangement)
        stray = self._stray(product.size)
        self.launch = device.bind(
            workspace.program(self._binary).kernel("right"),
            1,
            16,
            [np.int32(product.size), device.upload(product), self._y, device.upload(np.zeros(1, np.int32)),
             np.int32(stray), np.int32(self._calm)],
        )  # fmt: skip

    def result(self):
        return self._y

    def arrange(self, values):
        return pack_vector(values, self.arrangement)


WHERE = {
    "past the end": (lambda n: n, "writes outside of its result: 8 bytes past the end"),
    "before the start": (lambda n: -1, "writes outside of its result: 8 bytes before the start"),
    "farther": (lambda n: n + 9, "writes outside of its result: 8 bytes past the end, within 80 of it"),
    "the last that is seen": (
        lambda n: -ZONE // 8,
        f"writes outside of its result: 8 bytes before the start, within {ZONE} of it",
    ),
}


@pytest.mark.parametrize("where", WHERE)
def test_a_write_outside_of_the_result_is_incorrect(bench, binary, where):
    stray, message = WHERE[where]
    row = bench.try_once(Straying("stray", binary, stray), "search", EFFORT)
    assert (row.status, row.message, row.event_median) == ("incorrect", message, None)


def test_the_next_one_is_not_blamed(bench, binary):
    assert bench.try_once(Straying("stray", binary, lambda n: n), "search", EFFORT).status == "incorrect"
    row = bench.try_once(Straying("right", binary, lambda n: n - 1, calm=10**6), "search", EFFORT)
    assert (row.status, row.message) == ("ok", None)


def test_a_result_that_is_wrong_as_well_is_told_of_both(bench, binary):
    fake = Straying("stray", binary, lambda n: n)
    fake.arrange = lambda values: Straying.arrange(fake, values) + 1
    prepare = fake.prepare

    def wrong(workspace):
        prepare(workspace)
        del fake.arrange

    fake.prepare = wrong
    row = bench.try_once(fake, "search", EFFORT)
    assert row.status == "incorrect"
    assert "numbers are wrong" in row.message
    assert row.message.endswith("; writes outside of its result: 8 bytes past the end")
    assert row.error > 1


def test_a_write_that_only_a_timed_launch_does_is_seen(bench, binary):
    row = bench.try_once(Straying("late", binary, lambda n: n, calm=3), "search", EFFORT)
    assert (row.status, row.event_median) == ("incorrect", None)


def test_plain_vectors_do_not_reach_into_the_room_of_padded_ones(make_bench, small_problem, binary):
    """Of block3 a padded y takes a third more: what a plain kernel writes there is outside of its result."""
    bench = make_bench(small_problem("block3"))
    padded = bench.try_once(Straying("padded", binary, lambda n: 0, 10**6, "Padded"), "search", EFFORT)
    plain = bench.try_once(Straying("plain", binary, lambda n: n), "search", EFFORT)
    beyond = bench.try_once(Straying("beyond", binary, lambda n: n, order="Padded"), "search", EFFORT)
    bench.release()
    assert (padded.status, plain.status, beyond.status) == ("ok", "incorrect", "incorrect")
    assert plain.message == beyond.message == "writes outside of its result: 8 bytes past the end"


@pytest.mark.parametrize("place", [0, -1])
def test_all_numbers_of_a_padded_vector_are_verified(make_bench, small_problem, binary, place):
    bench = make_bench(small_problem("block3"))
    entries = bench.operands.reference.shape[0]
    wrong = 4 * (entries - 1) if place else 0  # the first member of the last entry, or of the first
    row = bench.try_once(Straying("wrong", binary, lambda n: wrong, order="Padded"), "search", EFFORT)
    bench.release()
    assert row.status == "incorrect"
    assert row.message.startswith(f"1 of {4 * entries} numbers are wrong")


def test_one_of_the_rounds_fails_alone(bench, binary, tmp_path):
    runnables = [
        Straying("stray", binary, lambda n: -1, calm=3),
        Straying("right", binary, lambda n: 0, calm=10**6),
    ]
    with Store(tmp_path / "rows.jsonl") as store:
        rows = shuffled_rounds(bench, runnables, store, seed=1)
    assert [(row.name, row.status) for row in rows] == [("stray", "incorrect"), ("right", "ok"), ("right", "ok")]


class Counting(Runnable):
    """Writes a number before or behind a counter of 4 bytes."""

    kind, name = "variant", "counting"

    def __init__(self, binary, at):
        self._binary, self._at = binary, at

    def prepare(self, workspace):
        device = workspace.device
        counter = workspace.written("counter", 8, "its counter")
        self.launch = device.bind(
            workspace.program(self._binary).kernel("right"),
            1,
            16,
            [np.int32(0), device.upload(np.zeros(1)), counter, device.upload(np.zeros(1, np.int32)),
             np.int32(self._at), np.int32(0)],
        )  # fmt: skip


@pytest.mark.parametrize(("at", "status"), [(0, "ok"), (1, "incorrect"), (-1, "incorrect")])
def test_whatever_is_written_has_guards_though_nothing_of_it_is_verified(bench, binary, at, status):
    row = bench.try_once(Counting(binary, at), "search", EFFORT)
    assert row.status == status
    assert (row.message is None) == (status == "ok")


@pytest.mark.parametrize("yardstick", [Floor, DeviceCopy])
def test_what_yardsticks_write_has_guards(bench, yardstick, monkeypatch):
    stray = bench.device.upload(np.zeros(1))
    allocate, held = bench.workspace.guards.allocate, []
    monkeypatch.setattr(bench.workspace.guards, "allocate", lambda *size: held.append(allocate(*size)) or held[-1])
    runnable = yardstick(StreamConfig(64, 4))
    prepare = runnable.prepare

    def over_the_edge(workspace):
        prepare(workspace)
        behind = bench.device.part(held[0]._whole, ZONE // 2 // 256 * 256, 8)
        launch = runnable.launch
        runnable.launch = lambda: (launch(), bench.device.fill(behind, 0))

    runnable.prepare = over_the_edge
    row = bench.try_once(runnable, "search", EFFORT)
    stray.release()
    assert row.status == "incorrect"
    assert row.message.startswith(
        f"writes outside of {'its copy' if yardstick is DeviceCopy else 'its output'}: 8 bytes"
    )


@pytest.mark.parametrize("nbytes", [0, 1, 4, 255, 256, 257, 4001])
def test_memory_of_any_size_is_guarded_to_the_byte(cpu_device, nbytes):
    guards = Guards(cpu_device)
    guarded = guards.allocate(nbytes, "it")
    whole = np.full(ZONE + nbytes + ZONE, BYTE, np.uint8)

    def out_of_bounds_writes():
        cpu_device.write(guarded._whole, whole)
        return guards.out_of_bounds_writes()

    whole[ZONE : ZONE + nbytes] = 7
    assert out_of_bounds_writes() == []
    back = np.zeros(nbytes, np.uint8)
    if nbytes:
        cpu_device.download(guarded.memory, back)
    assert (back == 7).all()
    whole[ZONE + nbytes] = 1
    assert out_of_bounds_writes() == ["writes outside of it: 1 byte past the end"]
    assert guards.out_of_bounds_writes() == []  # each is told of once
    whole[ZONE - 1] = 1
    assert len(out_of_bounds_writes()) == 2
    cpu_device.write(guarded._whole, whole)
    with pytest.raises(IncorrectError, match="1 byte before the start"):
        guards.check()
    guarded.release()
    guarded.release()
    assert guards.out_of_bounds_writes() == []


def test_a_part_of_what_is_guarded_begins_where_it_should(cpu_device):
    guarded = Guards(cpu_device).allocate(2048, "it", cpu_device)
    cpu_device.write(guarded.memory, np.arange(512, dtype=np.int32))
    part = guarded.part(512, 256)
    numbers = np.empty(64, np.int32)
    cpu_device.download(part, numbers)
    np.testing.assert_array_equal(numbers, np.arange(128, 192))
    assert part.nbytes == 256
    guarded.release()


@pytest.mark.wording
def test_memory_of_another_device_is_looked_after_too(cpu_device):
    other = OpenClDevice()  # with a context of its own
    guards = Guards(cpu_device)
    guarded = guards.allocate(512, "its part", other)
    other.write(guarded._whole, np.zeros(8, np.uint8))
    assert guards.out_of_bounds_writes() == [
        f"writes outside of its part: 8 bytes before the start, within {ZONE} of it"
    ]
    guarded.release()


def test_what_is_no_buffer_to_the_device_is_given_back(cpu_device, monkeypatch):
    made, allocate = [], cpu_device.allocate

    def refuse(*_):
        raise MemoryError

    monkeypatch.setattr(cpu_device, "allocate", lambda nbytes: made.append(allocate(nbytes)) or made[-1])
    monkeypatch.setattr(cpu_device, "part", refuse)
    with pytest.raises(MemoryError):
        Guards(cpu_device).allocate(8, "it")
    with pytest.raises(Exception, match="released"):
        made[0].handle.release()
