import time
from collections.abc import Callable
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest

from repro.bench import timing
from repro.bench.runnable import Candidate
from repro.bench.timing import SamplingPlan, fit_to_budget, initial_launches, time_quantiles
from repro.bench.yardsticks import COPY_BYTES, STREAM_WORD_BYTES, DeviceCopy, Empty, Floor
from repro.codegen.targets import CPU
from repro.codegen.templates import StreamConfig, streams
from repro.devices.base import LaunchError, OutOfDeviceMemory
from repro.devices.device_group import Devices
from repro.errors import ModuleError, Unsupported
from repro.sparse.elementwise import pack_vector
from repro.sparse.operands import ProductRunnable, expand, make_operands, y_on

FULL = SamplingPlan(20, 5, 5)


class Fake(ProductRunnable):
    """A runnable that copies a given result into y; it fails where it is told to."""

    kind, identity, arrangement, columns, bytes_moved = "variant", "v1", "AoS", {"matrix_bytes": 4}, 8

    def __init__(self, name: str, fail: Exception | None = None, wrong: Callable | None = None, at: str = "launch"):
        self.name, self._fail, self._wrong, self._at = name, fail, wrong, at
        self.released = 0

    def prepare(self, workspace):
        if self._fail and self._at == "prepare":
            raise self._fail
        self._device, self._result = workspace.device, y_on(workspace)
        y = workspace.operands.reference.copy()
        if self._wrong:
            self._wrong(y)
        self._y = y.astype(workspace.operands.dtype)

    def launch(self):
        if self._fail:
            raise self._fail
        device = self._device
        device._cl.enqueue_copy(device._queue, self._result.handle, self._y)

    def result(self):
        return self._result

    def arrange(self, values):
        return pack_vector(values, "AoS")

    def release(self):
        self.released += 1


@pytest.fixture
def bench(make_bench, small_problem):
    bench = make_bench(small_problem("complex"), timeout=0.5)
    yield bench
    bench.release()


def test_the_reference_is_the_dense_product(small_problem):
    problem = small_problem("quaternion")
    operands = make_operands(problem, "single", 3)
    assert operands.values.dtype == operands.x.dtype == np.float32
    dense = expand(problem, operands.values).toarray()
    x = operands.x.astype(np.float64).ravel()
    np.testing.assert_allclose(operands.reference.ravel(), dense @ x, rtol=1e-13, atol=1e-12)
    m = np.repeat(problem.row_lengths, 4)
    bound = (m + 2) * 4 * np.finfo(np.float32).eps * (np.abs(dense) @ np.abs(x))
    np.testing.assert_allclose(operands.bound.ravel(), bound)


def test_a_right_result_is_timed_by_both_clocks(bench):
    row = bench.try_once(Fake("right"), "search", FULL)
    assert (row.status, row.protocol, row.event_launches, row.graph_launches) == ("ok", "full", 20, 5)
    assert row.event_min <= row.event_q1 <= row.event_median <= row.event_q3 <= row.event_max
    assert row.graph_median > 0
    assert row.error <= 1
    assert (row.bytes, row["matrix_bytes"]) == (8, 4)
    assert row.problem == "small/complex"


def test_the_row_of_a_candidate_has_the_seconds_of_its_packing(bench):
    class Packed(Fake, Candidate):
        packing = "slices"

        def prepare(self, workspace):
            workspace.upload_packed(self.packing, lambda: (time.sleep(0.02), {}))
            super().prepare(workspace)

    first, second = (bench.try_once(Packed(name), "search", FULL) for name in ("first", "second"))
    assert first.packing == second.packing >= 0.02  # it was packed once, for the first
    assert bench.try_once(Fake("unpacked"), "search", FULL).packing is None


def set_one(value):
    def wrong(y):
        y[3, 1] = value

    return wrong


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e9])
def test_one_wrong_number_is_incorrect(bench, value):
    row = bench.try_once(Fake("wrong", wrong=set_one(value)), "search", FULL)
    assert row.status == "incorrect"
    assert row.event_median is None
    assert "1 of 150 numbers are wrong" in row.message


def test_an_error_just_over_the_bound_is_incorrect_and_just_under_is_ok(bench):
    bound = bench.operands.bound
    at = np.unravel_index(np.argmax(bound), bound.shape)

    def off(factor):
        def wrong(y):
            y[at] += factor * bound[at]

        return wrong

    assert bench.try_once(Fake("under", wrong=off(0.9)), "search", FULL).status == "ok"
    over = bench.try_once(Fake("over", wrong=off(1.2)), "search", FULL)
    assert over.status == "incorrect"
    assert over.error == pytest.approx(1.2, rel=0.05)


def test_a_result_that_is_not_written_is_incorrect(bench):
    class Lazy(Fake):
        def launch(self):
            pass

    row = bench.try_once(Lazy("lazy"), "search", FULL)
    assert row.status == "incorrect"
    assert "150 of 150" in row.message


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (Unsupported("no such entry"), "unsupported"),
        (ModuleError("error: x"), "compile_error"),
        (LaunchError("bad grid"), "launch_error"),
        (OutOfDeviceMemory("full"), "out_of_memory"),
        (MemoryError("full"), "out_of_memory"),
    ],
)
@pytest.mark.parametrize("at", ["prepare", "launch"])
def test_a_failure_is_a_row_with_its_status_and_no_time(bench, failure, status, at):
    fake = Fake("failing", fail=failure, at=at)
    row = bench.try_once(fake, "search", FULL)
    assert (row.status, row.message, row.event_median, row.graph_median) == (status, str(failure), None, None)
    assert fake.released == 1
    assert not bench.lost


@pytest.mark.parametrize("refusal", [Unsupported("mostly padding"), MemoryError("full"), OutOfDeviceMemory("full")])
def test_what_cannot_be_packed_is_said_when_it_is_prepared(bench, refusal):
    pack = Mock(side_effect=refusal)

    class Packing(Fake):
        def pack(self, workspace):
            workspace.upload_packed("matrix", pack)

        def prepare(self, workspace):
            self.pack(workspace)

    runnable = Packing("f")
    with pytest.raises(type(refusal)):
        runnable.pack(bench.workspace)
    row = bench.try_once(runnable, "search", FULL)
    assert row.message == str(refusal)
    assert pack.call_count == (1 if isinstance(refusal, Unsupported) else 2)


def test_a_sticky_failure_marks_the_context_as_lost(make_bench, small_problem):
    bench = make_bench(small_problem("real"))
    row = bench.try_once(Fake("fatal", fail=LaunchError("illegal address", sticky=True)), "search", FULL)
    assert row.status == "launch_error"
    assert bench.lost


def test_a_bug_is_not_taken_for_a_failure(bench):
    with pytest.raises(ZeroDivisionError):
        bench.try_once(Fake("bug", fail=ZeroDivisionError()), "search", FULL)


def test_a_launch_that_takes_too_long_is_a_timeout(bench):
    class Slow(Fake):
        def launch(self):
            super().launch()
            time.sleep(0.6)

    row = bench.try_once(Slow("slow"), "search", FULL)
    assert row.status == "timeout"
    assert row.event_median is None


def test_one_launch_that_took_too_long_because_the_process_was_stopped_is_timed_again(bench):
    class Stopped(Fake):
        launches = 0

        def launch(self):
            super().launch()
            self.launches += 1
            if self.launches == 2:  # the first after the result was checked
                time.sleep(0.6)

    row = bench.try_once(Stopped("stopped"), "search", FULL)
    assert (row.status, row.event_launches) == ("ok", 20)


def test_times_far_apart_are_noisy(make_bench, small_problem):
    bench = make_bench(small_problem("real"), noise=1e-9)
    row = bench.try_once(Fake("any"), "search", FULL)
    assert row.status == "noisy"
    assert row.event_median > 0


def test_cold_rows_have_no_graph_clock(make_bench, small_problem):
    bench = make_bench(small_problem("real"))
    row = bench.try_once(Fake("any"), "search", replace(FULL, cold=True))
    assert (row.cache, row.status, row.protocol, row.graph_median) == ("cold", "ok", "full", None)


def test_the_key_follows_everything_a_time_depends_on(make_bench, small_problem):
    def key(entry="real", name="a", identity="v1", effort=FULL, phase="search", **bench):
        fake = Fake(name)
        fake.identity = identity
        return make_bench(small_problem(entry), **bench).key(fake, phase, effort)

    keys = [
        key(),
        key(entry="complex"),
        key(name="b"),
        key(identity="v2"),
        key(effort=SamplingPlan(3)),
        key(phase="report"),
        key(precision="single"),
        key(effort=replace(FULL, cold=True)),
        key(cpu_budget=0.5),
        key(launches=21),
        key(noise=0.5),
        key(timeout=7.0),
    ]
    assert len(set(keys)) == len(keys)
    assert key() == key()


def test_the_key_follows_what_links_the_devices_and_the_code_of_a_runnable(make_bench, small_problem, monkeypatch):
    class Edited(Fake):
        __module__ = "another"

    bench = make_bench(small_problem("real"))
    monkeypatch.setattr(Devices, "topology", lambda devices: [{"devices": [0, 1], "nvlink": True}])
    linked = make_bench(small_problem("real"))
    keys = {bench.key(Fake("a"), "search", FULL), linked.key(Fake("a"), "search", FULL)}
    assert len({*keys, bench.key(Edited("a"), "search", FULL)}) == 3


def test_the_floor_moves_the_bytes_of_csr(make_bench, small_problem):
    problem = small_problem("quaternion")
    bench = make_bench(problem, "single")
    read, written = bench.operands.min_bytes
    assert read == problem.nnz * (4 + 16) + 4 * (problem.n + 1) + 16 * problem.n
    assert written == 16 * problem.n
    for stream in streams(CPU)[:4]:
        row = bench.try_once(Floor(stream), "search", FULL)
        assert row.status == "ok"
        assert read + written <= row.bytes < read + written + 32
        assert row.least_bytes == read + written
    bench.release()


def test_streams_read_every_word_and_write_every_word(make_bench, small_problem):
    """Replace the scratch memory by known words and follow them through the kernels."""
    bench = make_bench(small_problem("real"))
    device, common = bench.device, bench.workspace.common.program
    for stream in (StreamConfig(64, 4), StreamConfig(1024, 8)):
        words = np.random.default_rng(1).integers(0, 2**32, 5000, dtype=np.uint32)
        out = np.zeros(700, np.uint32)
        source, target = device.upload(words), device.upload(out)
        device.bind(
            common.kernel(stream.kernel), 1, stream.block_size, [np.int32(5000), np.int32(700), source, target]
        )()
        device.download(target, out)
        lanes = [np.bitwise_xor.reduce(words[i :: stream.block_size]) for i in range(stream.block_size)]
        np.testing.assert_array_equal(out, np.array(lanes)[np.arange(700) % stream.block_size])
        copied = np.zeros(5000, np.uint32)
        target = device.upload(copied)
        device.bind(
            common.kernel(stream.kernel.replace("stream", "copy")),
            2,
            stream.block_size,
            [np.int32(5000), source, target],
        )()
        device.download(target, copied)
        np.testing.assert_array_equal(copied, words)
    bench.release()


def test_an_empty_kernel_and_a_copy_are_timed(make_bench, small_problem):
    bench = make_bench(small_problem("real"))
    assert bench.try_once(Empty(), "search", FULL).event_median > 0
    copy = bench.try_once(DeviceCopy(StreamConfig(64, 4)), "search", SamplingPlan(3))
    assert copy.bytes == COPY_BYTES["opencl"]
    bench.release()


def test_an_effort_is_cut_to_its_budget_but_not_below_a_few_samples():
    effort = SamplingPlan(1000, 100, 20)
    assert fit_to_budget(effort, launch_seconds=1e-6, budget=1.0) == effort
    assert fit_to_budget(effort, launch_seconds=1e-3, budget=0.1) == SamplingPlan(100, 20, 5)
    assert fit_to_budget(effort, launch_seconds=1.0, budget=0.1) == SamplingPlan(5, 2, 5)
    assert fit_to_budget(SamplingPlan(20, cold=True), launch_seconds=1.0, budget=0.1) == SamplingPlan(5, cold=True)
    # launches longer than the budget: fewer, and at last a single one
    assert [initial_launches(once, budget=0.1) for once in (1e-9, 1e-3, 0.2, 0.5, 5.0)] == [5, 5, 5, 2, 1]
    assert fit_to_budget(effort, launch_seconds=5.0, budget=0.1, least=1) == SamplingPlan(1, 2, 1)


def test_the_budget_is_for_the_full_number_of_launches_and_fewer_have_their_share(
    make_bench, small_problem, monkeypatch
):
    monkeypatch.setattr(timing, "host_seconds", lambda devices, runnable: 0.01)
    bench = make_bench(small_problem("real"), launches=100, cpu_budget=0.5)
    alone, screened = (
        bench.try_once(Fake("slow"), "search", effort) for effort in (SamplingPlan(100), SamplingPlan(20))
    )
    assert (alone.event_launches, screened.event_launches) == (50, 10)


def test_the_budget_of_a_cold_launch_pays_for_the_flush_before_it(make_bench, small_problem, monkeypatch):
    monkeypatch.setattr(timing, "host_seconds", lambda devices, runnable: 0.01)
    bench = make_bench(small_problem("real"), launches=100, cpu_budget=0.5)
    monkeypatch.setattr(bench.devices, "flush_seconds", 0.04)
    warm, cold = (
        bench.try_once(Fake("slow"), "search", SamplingPlan(100, cold=with_flush)) for with_flush in (False, True)
    )
    assert (warm.event_launches, cold.event_launches) == (50, 10)


def test_quantiles_are_those_of_the_samples():
    got = time_quantiles(np.array([1.0, 2.0, 3.0, 4.0, 10.0]))
    assert got == {"min": 1.0, "q1": 2.0, "median": 3.0, "q3": 4.0, "max": 10.0, "mean": 4.0}
    samples = np.random.default_rng(1).normal(size=18)
    expected = [*np.quantile(samples, [0, 0.25, 0.5, 0.75, 1]), samples.mean()]
    np.testing.assert_allclose([*time_quantiles(samples).values()], expected, rtol=1e-13)


def test_floor_and_copy_can_be_resident_side_by_side(make_bench, small_problem):
    """A buffer that one of them uses must outlive the preparing of another."""
    bench = make_bench(small_problem("real"))
    floor, copy = Floor(StreamConfig(64, 1)), DeviceCopy(StreamConfig(64, 4))
    bench.prepare(floor)
    word = STREAM_WORD_BYTES[bench.device.backend]
    key = ("streamed", -(-floor.streamed(bench.workspace.operands)[0] // word))
    held = bench.workspace.buffer(key, pytest.fail)
    bench.prepare(copy)
    assert bench.workspace.buffer(key, pytest.fail) is held
    floor.launch()
    copy.launch()
    bench.device.synchronize()
    copy.release()
    bench.release()
