"""Products over two GPUs of one host, by every way to bring their results to both, by events and in graphs."""

from __future__ import annotations

import numpy as np
import pytest

from repro.bench.timing import SamplingPlan
from repro.codegen.build_cache import compile_module
from repro.devices.base import Copy
from repro.sparse.device_primitives import ModuleFile
from repro.studies.dynamic_csr.kernels import render_key
from repro.studies.dynamic_csr.runnables_devices import DistributedProduct, device_runnables
from support.benches import graph_benches
from support.growing_matrices import around_limits, growing

pytestmark = pytest.mark.gpu

EFFORT = SamplingPlan(5, 5, 5)
ROWS = 200_000


@pytest.fixture(scope="module")
def built(gpus, templates, tmp_path_factory):
    """The modules of each precision."""
    folder, target, made = tmp_path_factory.mktemp("several"), gpus.first.target, {}
    for precision in ("single", "double"):
        for module in ("product", "exchange"):
            manifest = folder / precision / f"{module}.json"
            compile_module(render_key(templates, f"{precision}/{module}", target), target, manifest)
            made.setdefault(precision, {})[module] = ModuleFile.read(manifest)
    return made


@pytest.fixture
def make_bench(gpus, modules_of_gpus):
    """Open a bench on all GPUs for a growing matrix."""
    few = {"launches": 20, "graph_launches": 5}
    yield from graph_benches(gpus, modules_of_gpus, kept_packings=1, **few)


def banded(rows):
    """Rows of 1 to 40 entries and one of 30,000."""
    lengths = np.random.default_rng(1).integers(1, 40, rows)
    lengths[rows // 2] = 30_000
    return growing(lengths.tolist(), rows, rows // 10, name="banded")


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize(
    "problem",
    [
        around_limits(628, name="limits"),
        growing([20_000, *[3] * 29_999], 30_000, 90, name="one long row"),
        growing([1], 1, 0, name="one row"),
    ],
    ids=lambda problem: problem.name,
)
def test_everything_is_right_by_all_clocks(gpus, built, make_bench, problem, precision):
    bench = make_bench(problem, precision)
    peers = all(link["peer_access"] for link in gpus.topology())
    for runnable in device_runnables(built[precision], len(gpus)):
        row = bench.try_once(runnable, "report", EFFORT)
        allowed = {"ok"} | ({"unsupported"} if row["exchange"] == "nccl" or not peers else set())
        assert row.status in allowed, (row.name, row.message)
        if row.status == "ok":
            assert row.error <= 1 and row.event_median > 0, row.name
            # without peer access a copy goes through the host's memory, which no graph captures
            assert row.graph_median or not peers or row["exchange"] == "nccl", (row.name, row.message)


def test_a_launch_begins_anew_in_a_graph(gpus, built, make_bench):
    bench = make_bench(banded(50_000), "double")
    for way in ("copies", "overlapped", "fused"):
        runnable = DistributedProduct(built["double"], "product", way, 2, 4)
        bench.prepare(runnable)
        runnable.launch()
        first = [runnable.over.read(at, 3)[at * runnable.over.dealing.part :][:1000] for at in range(2)]
        gpus.leading(2).time_graph(runnable.launch, 3, 3)
        again = [runnable.over.read(at, 3)[at * runnable.over.dealing.part :][:1000] for at in range(2)]
        np.testing.assert_array_equal(again, first)
        bench.check(runnable)
        runnable.release()


@pytest.mark.alone
def test_launches_run_while_copies_are_under_way(gpus, built, make_bench):
    bench = make_bench(banded(ROWS), "double")
    product = DistributedProduct(built["double"], "product", "none", 2, 10)
    bench.prepare(product)
    two = gpus.leading(2)
    nbytes = 64 << 20
    source, target = two[0].allocate(nbytes), two[1].allocate(nbytes)
    copy = [Copy(source, 0, target, 1, nbytes)]

    def median(launch):
        return float(np.median(two.time_events(launch, 10)))

    alone = median(product.launch), median(lambda: two.exchange(copy))
    both = median(lambda: two.exchange(copy, product.launch))
    print(f"product {alone[0]:.2e} s, copy {alone[1]:.2e} s, both {both:.2e} s")
    if two.topology()[0]["peer_access"]:
        assert both < 0.9 * sum(alone)
    product.release()
    source.release()
    target.release()
