"""Times on a GPU that another process uses at random are right or marked as disturbed; alone, few are discarded."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from repro.bench.store import Store
from repro.bench.timing import full
from repro.bench.yardsticks import DeviceCopy, Empty, Floor
from repro.codegen.build_cache import compile_module
from repro.codegen.templates import StreamConfig
from repro.config.models import Timing
from repro.tuning.final_timing import Probe, shuffled_rounds

pytestmark = [pytest.mark.gpu, pytest.mark.alone]

SPIN = """
extern "C" __global__ void spin(long long ns)
{
    long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - start < ns);
}
"""
#: Keeps the GPU busy for 3 to 10 ms and then leaves it alone for up to 20, until its input ends.
STALLER = """
import random, select, sys
from pathlib import Path
import numpy as np
from repro.devices.cuda import open_cuda
device = open_cuda(0)
kernel = device.load(Path(sys.argv[1])).kernel("spin")
print("ready", flush=True)
while not select.select([sys.stdin], [], [], random.uniform(0, 0.02))[0]:
    device.bind(kernel, 2 * device.sm_count, 256, [np.int64(random.uniform(3e6, 10e6))])()
    device.synchronize()
"""
TIMING = {
    name: field.default
    for name, field in Timing.model_fields.items()
    if name in ("launches", "graph_launches", "graph_replays", "rounds", "gpu_disturbed")
}
YARDSTICKS = [Floor(StreamConfig(256, 4)), Floor(StreamConfig(1024, 8)), DeviceCopy(StreamConfig(256, 4)), Empty()]


@contextmanager
def stalled(binary: Path) -> Iterator[None]:
    """Let another process stall the GPU as long as the body runs."""
    other = subprocess.Popen(
        [sys.executable, "-c", STALLER, str(binary)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdin is not None
    assert other.stdout is not None
    try:
        assert other.stdout.readline() == "ready\n"
        yield
    finally:
        other.stdin.close()
        other.wait(30)
        other.stdout.close()


@pytest.fixture
def binary(gpu, tmp_path):
    module = compile_module(SPIN, gpu.target, tmp_path / "spin.json")
    return tmp_path / module.binary


@pytest.fixture
def bench(make_gpu_bench, small_problem):
    return make_gpu_bench(small_problem("real", 3000), "double", **TIMING)


def share_discarded(rows) -> float:
    """Return the share of discarded launches and replays; kept replays are few and not counted."""
    discarded = sum(row.discarded for row in rows)
    return discarded / (discarded + sum(row.event_launches for row in rows))


def compare(disturbed, alone) -> None:
    """Compare rows of a disturbed GPU with those of the same GPU alone."""
    assert {row.status for row in alone} <= {"ok", "noisy"}, [row.message for row in alone]
    assert share_discarded(alone) <= 0.02
    for row, right in zip(disturbed, alone, strict=True):
        off = {
            clock: row.median(clock) / right.median(clock) - 1
            for clock in ("event", "graph")
            if right.median(clock) is not None
        }
        print(row.name, row.cache, row.status, off, row.discarded, row.message)
        assert row.status == "disturbed" or all(
            share < 0.05 or row.median(clock) - right.median(clock) < 0.5e-6 for clock, share in off.items()
        )


def test_the_search_is_right_or_disturbed(bench, binary):
    def measured():
        return [bench.try_once(yardstick, "search", full(bench.timing)) for yardstick in YARDSTICKS]

    alone = measured()
    with stalled(binary):
        disturbed = measured()
    compare(disturbed, alone)


def test_shuffled_rounds_are_right_or_disturbed(bench, binary, tmp_path):
    def measured(name):
        with Store(tmp_path / f"{name}.jsonl") as store:
            probe = Probe(bench, [Empty(), DeviceCopy(StreamConfig(256, 4))])
            return shuffled_rounds(bench, YARDSTICKS, store, seed=1, probe=probe)

    alone = measured("alone")
    with stalled(binary):
        disturbed = measured("disturbed")
    compare(disturbed, alone)


def test_another_process_is_told_of(bench, binary, capsys):
    with stalled(binary):
        seen = bench.neighbours.list_other_processes()
    if not seen:
        pytest.skip("the management library does not tell of other processes here")
    assert "the device is shared with process" in capsys.readouterr().out
