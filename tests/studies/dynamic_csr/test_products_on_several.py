"""Products over a CPU that is split in two, and bringing their results to both parts."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from repro.bench.store import Store
from repro.bench.timing import SamplingPlan
from repro.codegen.build_cache import compile_module
from repro.codegen.targets import CPU
from repro.devices.base import LaunchError
from repro.devices.device_group import Devices
from repro.devices.opencl import OpenClDevice
from repro.errors import IncorrectError, Unsupported
from repro.sparse.device_primitives import ModuleFile
from repro.studies.dynamic_csr import runnables_devices
from repro.studies.dynamic_csr.kernels import render_key
from repro.studies.dynamic_csr.operands import make_operands
from repro.studies.dynamic_csr.runnables_devices import (
    SEVERAL_KIND,
    VECTOR_ALIGNMENT,
    DistributedProduct,
    RowDistribution,
    device_runnables,
    split_columns,
)
from repro.tuning.final_timing import shuffled_rounds
from support.benches import graph_benches
from support.growing_matrices import around_limits, growing

pytestmark = pytest.mark.medium

EFFORT = SamplingPlan(2, 2, 5)
#: What runs on a CPU: without peers and NCCL.
HERE = ("none", "copies", "overlapped")


@pytest.fixture(scope="module")
def modules(tmp_path_factory, templates):
    """The modules of a precision, compiled at first use."""
    folder, built = tmp_path_factory.mktemp("several"), {}

    def of(precision):
        if precision not in built:
            built[precision] = {}
            for module in ("product", "exchange"):
                manifest = folder / precision / f"{module}.json"
                compile_module(render_key(templates, f"{precision}/{module}", CPU), CPU, manifest)
                built[precision][module] = ModuleFile.read(manifest)
        return built[precision]

    return of


@pytest.fixture
def make_bench(halves, modules_folder):
    """Open a bench on both halves for a growing matrix."""
    yield from graph_benches(halves, modules_folder, kept_packings=1)


def square(lengths, added=60, **keys):
    return growing(lengths, len(lengths), added, **keys)


def test_nothing_is_measured_over_one_device_and_baselines_over_more(modules):
    built = modules("double")
    assert device_runnables(built, 1) == []
    baselines = [runnable.name for runnable in device_runnables(built, 2) if runnable.devices == 1]
    assert baselines == ["product-1", "product-1-x10"]
    eight = device_runnables(built, 8)
    assert len({runnable.name for runnable in eight}) == len(eight) == 2 + 3 * 18
    assert {runnable.devices for runnable in eight} == {1, 2, 4, 8}
    assert {runnable.devices for runnable in device_runnables(built, 6)} == {1, 2, 4, 6}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("precision", ["single", "double"])
def test_everything_is_right_and_timed_or_says_why_not(modules, make_bench, precision):
    bench = make_bench(around_limits(628, name="limits"), precision)
    assert bench.operands.grown.shape == (628, 628)
    rows = [bench.try_once(runnable, "report", EFFORT) for runnable in device_runnables(modules(precision), 2)]
    for row in rows:
        expected = "unsupported" if row["exchange"] in ("stores", "fused", "nccl") else "ok"
        assert (row.name, row.status, row.message) == (row.name, expected, row.message)
    right = [row for row in rows if row.status == "ok"]
    assert len(right) == 2 + 6 + 2
    assert all(
        row.kind == SEVERAL_KIND and row["format"] is None and row.error <= 1 and row.graph_median > 0 for row in right
    )
    assert {(row["what"], row["devices"], row["exchange"], row["steps"]) for row in right} >= {
        ("product", 1, "none", 1), ("product", 2, "overlapped", 10), ("exchange", 2, "copies", 10),
    }  # fmt: skip
    (exchange,) = (row for row in right if row.name == "exchange-2-copies")
    assert exchange.bytes == 628 * bench.operands.x.itemsize
    said = {row["exchange"]: row.message for row in rows if row.status == "unsupported"}
    assert "context of its own" in said["stores"] == said["fused"] and "NVIDIA" in said["nccl"]


@pytest.mark.sampled(5)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("lengths", "added"),
    [
        ([1], 2),  # one row: the second device has none
        ([0], 0),  # and nothing in it
        ([0] * 70, 0),  # nothing at all
        ([1, *[0] * 199], 0),  # one entry
        ([2600, *[1] * 2700], 90),  # a row that holds most of the entries, in parts
        ([3, 0, 7] * 50, 60),
    ],
)
@pytest.mark.parametrize("exchange", HERE)
def test_shapes(modules, make_bench, lengths, added, exchange):
    bench = make_bench(square(lengths, added))
    for steps in (1, 4):
        row = bench.try_once(
            DistributedProduct(modules("double"), "product", exchange, 2, steps), "report", SamplingPlan(2)
        )
        assert (row.status, row.message) == ("ok", None)


def test_all_are_timed_side_by_side_and_their_memory_is_given_back(modules, make_bench, tmp_path):
    bench = make_bench(square([5, 0, 700, *[2] * 900]))
    every = device_runnables(modules("double"), 2)
    bench.workspace.kept_packings = len(every)
    with Store(tmp_path / "rows.jsonl") as store:
        rows = {row.name: row for row in shuffled_rounds(bench, every, store, 1)}
    assert len(rows) == len(every)
    assert {name for name, row in rows.items() if row.status == "unsupported"} == {
        runnable.name for runnable in every if runnable.exchange in ("stores", "fused", "nccl")
    }
    assert {row.status for row in rows.values()} == {"ok", "unsupported"}, [row.message for row in rows.values()]
    with pytest.raises(RuntimeError, match="before it was prepared"):
        every[0].launch()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("count", [3, 5])
@pytest.mark.parametrize("exchange", HERE)
def test_any_number_of_devices(modules, make_bench, count, exchange):
    devices = Devices([OpenClDevice() for _ in range(count)])  # a context each on one CPU: as apart as its parts are
    bench = make_bench(square([2, *[1] * 6, 40, *[3] * 60]), "double", devices)
    for steps in (1, 3):
        row = bench.try_once(DistributedProduct(modules("double"), "product", exchange, count, steps), "report", EFFORT)
        assert (row.status, row.message) == ("ok", None)
    row = bench.try_once(DistributedProduct(modules("double"), "exchange", "copies", count, 1), "report", EFFORT)
    assert (row.status, row.bytes) == ("ok", (count - 1) * 68 * 8)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("count", [2, 3, 8])
def test_kernels_store_to_others_that_they_reach(modules, make_bench, cpu_device, monkeypatch, precision, count):
    # one device in the place of each: its kernels reach all memory, as those of a GPU with peer access do
    monkeypatch.setattr(runnables_devices, "_require_peers", lambda devices: None)
    every_bin = around_limits(628)  # and rows in parts
    for problem in (square([2, *[1] * 6, 40, *[3] * 60]), every_bin):
        bench = make_bench(problem, precision, Devices([cpu_device] * count))
        for what, way in (("product", "stores"), ("product", "fused"), ("exchange", "stores")):
            for steps in (1, 4):
                row = bench.try_once(DistributedProduct(modules(precision), what, way, count, steps), "report", EFFORT)
                assert (row.status, row.message) == ("ok", None)


@pytest.mark.wording
def test_more_devices_than_a_kernel_stores_to_are_unsupported():
    with pytest.raises(Unsupported, match="7 other devices at the most, not to 8"):
        runnables_devices._require_peers(range(9))


def test_what_runs_on_one_of_two_is_timed_on_that_one_alone(modules, make_bench, halves, monkeypatch):
    calls, clock = [], halves.leading(1)
    for name, devices in (("one", clock), ("both", halves)):
        time_events = devices.time_events
        monkeypatch.setattr(devices, "time_events", lambda *a, n=name, t=time_events: calls.append(n) or t(*a))
    bench = make_bench(square([3, 1, 2]))
    for count in (1, 2):
        assert (
            bench.try_once(DistributedProduct(modules("double"), "product", "none", count, 1), "report", EFFORT).status
            == "ok"
        )
    assert [*dict.fromkeys(calls)] == ["one", "both"]


def test_a_rectangular_matrix_is_multiplied_but_has_no_next_x(modules, make_bench):
    bench = make_bench(growing([4, 0, 7, 3] * 20, 900, 60))
    built = modules("double")
    assert bench.try_once(DistributedProduct(built, "product", "none", 2, 10), "report", SamplingPlan(2)).status == "ok"
    row = bench.try_once(DistributedProduct(built, "product", "copies", 2, 1), "report", SamplingPlan(2))
    assert (row.status, row.message) == ("unsupported", "y is no next x: the matrix is 80 x 900")


def test_fewer_devices_than_asked_for_are_unsupported(modules, make_bench, cpu_device):
    bench = make_bench(square([1, 2]), devices=Devices([cpu_device]))
    row = bench.try_once(DistributedProduct(modules("double"), "product", "none", 2, 1), "report", SamplingPlan(2))
    assert (row.status, row.message) == ("unsupported", "there are 1 devices, not 2")


@pytest.mark.parametrize("exchange", ["copies", "overlapped"])
def test_steps_are_powers_of_the_matrix(modules, make_bench, exchange):
    bench = make_bench(square([3, 0, 7, 1] * 30))
    operands = bench.operands
    runnable = DistributedProduct(modules("double"), "product", exchange, 2, 3)
    bench.prepare(runnable)
    for _ in range(2):  # a launch begins anew
        runnable.launch()
    over = runnable.over
    wanted = operands.grown @ (operands.grown @ (operands.grown @ operands.x))
    parts = [over.read(at, 3) for at in range(2)]
    own = np.concatenate([parts[0][: over.dealing.part], parts[1][over.dealing.part :]])
    np.testing.assert_allclose(over.dealing.gather(own), wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max())
    runnable.release()


@pytest.mark.wording
@pytest.mark.parametrize("exchange", ["copies", "overlapped"])
def test_a_part_that_does_not_arrive_is_found(modules, make_bench, monkeypatch, exchange):
    bench = make_bench(square([3, 0, 7, 1] * 30))
    runnable = DistributedProduct(modules("double"), "product", exchange, 2, 1)
    monkeypatch.setattr(DistributedProduct, "_copies", lambda self, which: [])
    bench.prepare(runnable)
    with pytest.raises(IncorrectError, match=r"not what they are elsewhere|NaN"):
        bench.check(runnable)
    alone = DistributedProduct(modules("double"), "exchange", "copies", 2, 1)
    bench.prepare(alone)
    with pytest.raises(IncorrectError, match="60 of 120 numbers on device 0"):
        bench.check(alone)


@pytest.mark.wording
def test_a_wrong_product_is_found(modules, make_bench):
    bench = make_bench(square([3, 0, 7, 1] * 30))
    runnable = DistributedProduct(modules("double"), "product", "none", 2, 1)
    bench.operands.reference[5] += 1
    bench.prepare(runnable)
    with pytest.raises(IncorrectError, match="1 of 120 numbers are wrong"):
        bench.check(runnable)


def test_peers_that_do_not_reach_each_other_are_named():
    links = [{"devices": [0, 1], "peer_access": True}, {"devices": [0, 2], "peer_access": False}]
    links.append({"devices": [1, 2], "peer_access": True})

    class Three(SimpleNamespace):
        def __len__(self):
            return 3

    with pytest.raises(Unsupported, match="devices 0 and 2"):
        runnables_devices._require_peers(Three(backend="cuda", topology=lambda: links))
    links[1]["peer_access"] = True
    runnables_devices._require_peers(Three(backend="cuda", topology=lambda: links))


@pytest.mark.parametrize(("rows", "devices"), [(0, 2), (1, 2), (5, 8), (130, 2), (129, 4)])
def test_rows_are_dealt_by_their_sizes(rows, devices):
    sizes = np.random.default_rng(rows).integers(0, 9, rows)
    dealing = RowDistribution.of(sizes, devices)
    assert sorted(np.concatenate([dealing.rows(at) for at in range(devices)])) == list(range(rows))
    for at in range(devices):
        own = dealing.rows(at)
        assert len(own) <= dealing.part and (np.diff(sizes[own]) <= 0).all()
        np.testing.assert_array_equal(dealing.positions[own], at * dealing.part + np.arange(len(own)))
    assert dealing.part % VECTOR_ALIGNMENT == 0 and dealing.length == devices * dealing.part
    vector = np.arange(rows, dtype=np.float64)
    np.testing.assert_array_equal(dealing.gather(dealing.spread(vector)), vector)


def test_columns_are_split_into_own_and_others():
    grown = make_operands(square([3, 0, 7, 1] * 30), "double", 1).grown
    dealing = RowDistribution.of(np.diff(grown.indptr), 2)
    rows = grown[dealing.rows(1)]
    rows.indices = dealing.positions[rows.indices]
    rows = type(rows)((rows.data, rows.indices, rows.indptr), shape=(len(dealing.rows(1)), dealing.length))
    own, other = split_columns(rows, 1, dealing.part)
    assert own.nnz + other.nnz == rows.nnz and own.nnz and other.nnz
    assert (own.indices >= dealing.part).all() and (other.indices < dealing.part).all()
    np.testing.assert_array_equal((own + other).toarray(), rows.toarray())


class FakeDevices(list):
    backend = "cuda"


@pytest.fixture
def gpus():
    """Two GPUs as NCCL sees them."""
    return FakeDevices(SimpleNamespace(ordinal=at + 2, stream=100 + at) for at in range(2))


def put(monkeypatch, name, **content):
    module = ModuleType(name)
    module.__dict__.update(content)
    for parent in (name.rpartition(".")[0], name.partition(".")[0]):
        monkeypatch.setitem(sys.modules, parent, ModuleType(parent))
    monkeypatch.setitem(sys.modules, name, module)


def hide(monkeypatch, *names):
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)


class Communicators:
    """Stands for the communicators of one package."""

    def __init__(self, calls):
        self.calls = calls

    def of(self, ordinals):
        self.calls.append(("open", *ordinals))
        return [self.one(rank) for rank in range(len(ordinals))]

    def one(self, rank):
        def gather(own, whole, *, stream):
            sent, received = own.__cuda_array_interface__, whole.__cuda_array_interface__
            self.calls.append((rank, sent["data"][0], sent["shape"], received["data"][0], received["shape"], stream))

        def gather_pointers(own, whole, count, kind, stream):
            self.calls.append((rank, own, (count,), whole, kind, stream))

        return SimpleNamespace(
            allgather=gather, allGather=gather_pointers, destroy=lambda: self.calls.append(("close", rank))
        )


def test_nccl_by_its_own_package(monkeypatch, gpus):
    class Group:
        def __enter__(self):
            calls.append("begin")

        def __exit__(self, *error):
            calls.append("end")

    calls = []
    communicator = SimpleNamespace(init_all=Communicators(calls).of)
    put(monkeypatch, "nccl.core", Communicator=communicator, group=Group)
    opened = runnables_devices.Nccl(gpus)
    vectors = [SimpleNamespace(pointer=1000), SimpleNamespace(pointer=5000)]
    opened.bind_all_gather(vectors, 64, np.dtype(np.float64))()
    opened.release()
    assert calls == [
        ("open", 2, 3), "begin", (0, 1000, (64,), 1000, (128,), 100), (1, 5512, (64,), 5000, (128,), 101), "end",
        ("close", 0), ("close", 1),
    ]  # fmt: skip


def test_nccl_by_cupy_where_there_is_no_other(monkeypatch, gpus):
    calls = []
    hide(monkeypatch, "nccl", "nccl.core")
    communicator = SimpleNamespace(initAll=Communicators(calls).of)
    put(
        monkeypatch, "cupy.cuda.nccl", available=True, NcclCommunicator=communicator,
        groupStart=lambda: calls.append("begin"), groupEnd=lambda: calls.append("end"), NCCL_FLOAT32=7, NCCL_FLOAT64=8,
    )  # fmt: skip
    opened = runnables_devices.Nccl(gpus)
    vectors = [SimpleNamespace(pointer=1000), SimpleNamespace(pointer=5000)]
    opened.bind_all_gather(vectors, 64, np.dtype(np.float32))()
    assert calls[1:] == ["begin", (0, 1000, (64,), 1000, 7, 100), (1, 5256, (64,), 5000, 7, 101), "end"]


def test_nccl_that_is_not_there_or_refuses_says_so(monkeypatch, gpus):
    hide(monkeypatch, "nccl", "nccl.core", "cupy", "cupy.cuda.nccl")
    with pytest.raises(Unsupported, match="nccl4py or CuPy"):
        runnables_devices.Nccl(gpus)

    def fail(*arguments):
        raise RuntimeError("unhandled system error")

    put(monkeypatch, "cupy.cuda.nccl", available=True, NcclCommunicator=SimpleNamespace(initAll=fail))
    with pytest.raises(Unsupported, match="cannot be used: unhandled system error"):
        runnables_devices.Nccl(gpus)
    put(
        monkeypatch, "cupy.cuda.nccl", available=True, NcclCommunicator=SimpleNamespace(initAll=Communicators([]).of),
        groupStart=fail,
    )  # fmt: skip
    with pytest.raises(LaunchError, match="NCCL: unhandled"):
        runnables_devices.Nccl(gpus).bind_all_gather([SimpleNamespace(pointer=0)] * 2, 64, np.dtype(np.float32))()
