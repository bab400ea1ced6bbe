"""Our times beside those of NVIDIA's own benchmarking library, NVBench (package `cuda-bench`), kernel by kernel.

Both keep the stream blocked until a launch and its two events are queued, and NVBench's isolated ("cold") measurement
overwrites the L2 cache before each launch, as our event clock does when it is asked for a cold cache: so that is what
is compared. Its batched ("hot") measurement leaves the cache alone, but has no more than a mean over launches that
Python queues while they run, which for short kernels is the host's time: neither of our clocks measures that.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from repro.bench.runnable import Workspace
from repro.codegen.build_cache import compile_module
from repro.devices.cuda import may_block
from repro.devices.device_group import Devices
from repro.entries import get_entry
from repro.problems.matrix import Matrix
from repro.sparse.compound.kernels import render_module
from repro.sparse.compound.runnables import Variant
from repro.sparse.compound.variants import VariantId
from repro.sparse.operands import make_operands

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.alone,
    pytest.mark.skipif(not may_block(os.environ), reason="a stream may not be blocked here"),
]

SAMPLES = 1000
MIB = 1 << 20
#: Name to bytes copied.
COPIES = {"copy-2": 2 * MIB, "copy-32": 32 * MIB, "copy-256": 256 * MIB}
#: Name to entry, rows and variant.
PRODUCTS = {
    "quaternion": ("quaternion", 60_000, VariantId.parse("CSR-AoS-AoS/static-128-8")),
    "block3": ("block3", 120_000, VariantId.parse("ELL-SoA-AoS/static-256-4")),
}
KERNELS = [*COPIES, *PRODUCTS]


@dataclass(frozen=True)
class Medians:
    """Seconds by both libraries."""

    ours: float
    theirs: float


@dataclass(frozen=True)
class Stream:
    """A stream as the CUDA Python packages hand them around."""

    handle: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


@pytest.fixture(scope="module")
def nvbench():
    """NVBench's Python package; without it the tests are skipped with the reason."""
    bench = pytest.importorskip("cuda.bench", reason="cuda-bench (NVBench's Python package) is not installed")
    try:
        assert callable(bench.run_all_benchmarks)  # the extension is loaded when it is first asked for
    except ImportError as error:
        pytest.skip(f"cuda-bench cannot be loaded: {error}")
    return bench


def banded(entry: str, n: int) -> Matrix:
    """Make a problem of 14 entries in a row, on diagonals that lie apart."""
    offsets = np.array([-700, -333, -90, -41, -12, -2, -1, 0, 1, 5, 23, 77, 215, 640])
    columns = np.sort((np.arange(n)[:, None] + offsets) % n, axis=1)
    values = np.random.default_rng(3).normal(size=(columns.size, len(get_entry(entry).members)))
    starts = np.arange(0, columns.size + 1, len(offsets), dtype=np.int32)
    return Matrix(f"banded/{entry}", entry, n, starts, columns.ravel().astype(np.int32), values)


@pytest.fixture(scope="module")
def launches(gpu, gpu_module, gpu_modules, templates, tmp_path_factory):
    """What queues one launch of each kernel."""
    queue: dict[str, Callable[[], None]] = {}
    held: list[Any] = []
    for name, size in COPIES.items():
        source, target = gpu.upload(np.ones(size // 8, np.int32)), gpu.allocate(size // 2)
        held += [source, target]
        arguments = [np.int32(size // 32), source, target]
        queue[name] = gpu.bind(gpu_module.kernel("copy_256_4"), 8 * gpu.sm_count, 256, arguments)
    for name, (entry, n, id) in PRODUCTS.items():
        folder = tmp_path_factory.mktemp(name)
        source = render_module(templates, entry, "double", id.layout, [id.schedule], gpu.target, "tests")
        module = compile_module(source, gpu.target, folder / f"{id.layout}.json")
        variant = Variant(id, module, folder)
        operands = make_operands(banded(entry, n), "double", 1)
        workspace = Workspace(Devices([gpu]), operands, gpu_modules)
        variant.prepare(workspace)
        held += [variant, workspace]
        assert operands.check(variant, workspace) <= 1
        queue[name] = variant.launch
    yield queue
    for resource in held:
        resource.release()


@pytest.fixture(scope="module")
def medians(gpu, nvbench, launches, tmp_path_factory) -> dict[str, Medians]:
    """Medians of every kernel by both; ours from samples before and after theirs."""

    def ours() -> dict[str, np.ndarray]:
        return {name: gpu.time_events(launch, SAMPLES // 2, gpu.flush) for name, launch in launches.items()}

    def measured(state) -> None:
        state.set_stream(Stream(gpu.stream))
        launch = launches[state.get_string("kernel")]
        state.exec(lambda _: launch(), batched=False)

    nvbench.register(measured).add_string_axis("kernel", KERNELS)
    path = tmp_path_factory.mktemp("nvbench") / "result.json"
    before = ours()
    criterion = ["--stopping-criterion", "sample-count", "--target-samples", str(SAMPLES)]
    nvbench.run_all_benchmarks(
        ["cuda-bench", "--quiet", "--devices", "0", "--jsonbin", str(path), "--cold-warmup-runs", "10", *criterion]
    )
    after = ours()
    return {
        name: Medians(float(np.median(np.concatenate([before[name], after[name]]))), float(np.median(samples)))
        for name, samples in _samples(path).items()
    }


def _samples(path: Path) -> dict[str, list[float]]:
    """Return NVBench's samples of each kernel in seconds."""
    from cuda.bench.results import BenchmarkResult

    [result] = BenchmarkResult.from_json(path).values()
    skipped = {state.point["kernel"]: state.skip_reason for state in result if state.is_skipped}
    assert not skipped
    return {state.point["kernel"]: list(state.samples) for state in result}


@pytest.mark.parametrize("kernel", KERNELS)
def test_cold_medians_agree_with_nvbench(medians, kernel):
    times = medians[kernel]
    print(f"{kernel}: ours {times.ours * 1e6:.2f} µs, NVBench {times.theirs * 1e6:.2f} µs, cold")
    assert abs(times.ours - times.theirs) <= max(0.03 * times.theirs, 0.2e-6)


def test_the_kernels_span_short_and_long_ones(gpu, medians):
    ours = sorted(times.ours for times in medians.values())
    assert len(ours) == 5
    assert ours[-1] > 5 * ours[0]
    if "H200" in gpu.name:
        assert 3e-6 <= ours[0] <= 6e-6
        assert 50e-6 <= ours[-1] <= 100e-6
