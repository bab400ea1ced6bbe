"""Which packings stay on the device."""

import time
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

from repro.bench.campaign_folder import CampaignFolder
from repro.devices.base import OutOfDeviceMemory
from repro.errors import Unsupported
from repro.sparse.device_primitives import keep
from repro.tuning import session as tuning
from repro.tuning.session import Session


@pytest.fixture
def bench(make_bench, small_problem):
    bench = make_bench(small_problem("real"))
    yield bench
    bench.release()


@pytest.fixture
def workspace(bench):
    return bench.workspace


@pytest.fixture(params=["host", "device"])
def hold(request, workspace):
    """Return what holds a packing of so many bytes, in two arrays, and says whether it was packed for it, and there."""

    def hold(name, nbytes=32):
        packed = set()
        arrays = {"columns": np.zeros(nbytes // 16), "values": np.zeros(nbytes // 16)}

        def pack(stack):
            packed.add(name)
            workspace.make_room(nbytes)
            return None, {name: keep(stack, workspace.device.upload(array)) for name, array in arrays.items()}

        if request.param == "device":
            workspace.packed_on_device(name, pack)
        else:
            workspace.upload_packed(name, lambda: (packed.add(name), arrays))
        return packed == {name}

    return hold


@pytest.fixture
def session(bench):
    return Session(bench.operands.problem, bench, None, None, 1, CampaignFolder.of("c"), None)


class Small:
    """A device that has room for so many bytes."""

    def __init__(self, nbytes):
        self.free = nbytes

    def upload(self, array):
        if array.nbytes > self.free:
            raise OutOfDeviceMemory("it is full")
        self.free -= array.nbytes
        return SimpleNamespace(nbytes=array.nbytes, release=lambda: self._take_back(array.nbytes))

    def _take_back(self, nbytes):
        self.free += nbytes


@pytest.fixture
def small(workspace, monkeypatch):
    """A device with room for 100 bytes in place of the workspace's."""
    device = Small(100)
    monkeypatch.setattr(type(workspace), "device", property(lambda self: device))
    return device


def test_what_is_longest_out_of_use_gives_way(workspace, hold):
    workspace.kept_packings = 2
    assert [hold(name) for name in "abacab"] == [True, True, False, True, False, True]


def test_packings_give_way_by_their_bytes(workspace, hold):
    workspace.packing_bytes = 100
    assert [hold(name) for name in "abcabc"] == [True, True, True, False, False, False]
    assert hold("d", 64)  # with b and c it would be 128
    assert [hold(name, 32) for name in "dcab"] == [False, False, True, True]


def test_what_is_larger_than_all_of_them_may_be_is_held_alone(workspace, hold):
    workspace.packing_bytes = 100
    assert hold("a")
    assert hold("large", 400)
    assert not hold("large", 400)
    assert hold("a")
    assert hold("large", 400)


def test_what_fits_the_device_alone_is_tried_alone(workspace, hold, small):
    workspace.packing_bytes = 200
    assert hold("a")
    assert hold("b")
    assert hold("large", 96)
    assert small.free == 4
    assert hold("a")  # and gives way as others do
    assert small.free == 100 - 32


def test_what_does_not_fit_the_device_alone_is_out_of_memory(workspace, hold, small):
    workspace.packing_bytes = 200
    assert hold("a")
    with pytest.raises(OutOfDeviceMemory):
        hold("large", 128)
    assert small.free == 100
    assert hold("a")


def test_what_may_be_in_use_does_not_give_way_to_what_does_not_fit(workspace, hold, small):
    assert hold("a")
    with pytest.raises(OutOfDeviceMemory):
        hold("large", 96)
    assert small.free == 100 - 32
    assert not hold("a")


def test_a_refusal_is_remembered_and_nothing_gives_way_to_it(workspace, hold):
    tried = []

    def pack():
        tried.append("packed")
        raise Unsupported("mostly padding")

    workspace.kept_packings = 1
    assert hold("a")
    for _ in range(2):
        with pytest.raises(Unsupported, match="mostly padding"):
            workspace.upload_packed("refused", pack)
    assert tried == ["packed"]
    assert not hold("a")


@pytest.fixture
def steps(workspace, monkeypatch):
    """What happens of lending the device, of packing and of uploading, in turn."""
    steps = []

    @contextmanager
    def lend():
        steps.append("lent")
        yield
        steps.append("taken back")

    def upload(array):
        steps.append("uploaded")
        return SimpleNamespace(nbytes=array.nbytes, release=lambda: None)

    monkeypatch.setattr(workspace, "_lend", lend)
    monkeypatch.setattr(type(workspace), "device", property(lambda self: SimpleNamespace(upload=upload)))
    return steps


def packs(steps):
    def pack():
        steps.append("packed")
        return "facts", {"values": np.zeros(4)}

    return pack


def test_the_device_is_lent_while_the_host_packs_an_operand(workspace, steps):
    pack = packs(steps)
    for _ in range(2):  # the second time it is resident
        facts, _ = workspace.upload_packed("a", pack, lend_device=True)
        assert (facts, steps) == ("facts", ["lent", "packed", "taken back", "uploaded"])


def test_what_does_not_fit_beside_others_is_packed_once(workspace, hold, small):
    packed = []
    workspace.packing_bytes = 200
    for name, count in (("a", 4), ("large", 12)):
        workspace.upload_packed(name, lambda name=name, count=count: (packed.append(name), {"values": np.zeros(count)}))
    assert packed == ["a", "large"]


def test_a_fact_may_be_found_out_while_the_device_is_lent(workspace, steps):
    assert workspace.cached("slow", lambda: steps.append("computed"), lend_device=True) is None
    workspace.cached("slow", pytest.fail, lend_device=True)
    workspace.cached("quick", lambda: steps.append("at once"))
    assert steps == ["lent", "computed", "taken back", "at once"]


def test_what_the_device_packs_counts_the_seconds_of_packing_alone(workspace, monkeypatch):
    clock = [0]
    monkeypatch.setattr("repro.bench.runnable.perf_counter", lambda: clock[0])

    def pack(stack):
        clock[0] += 5  # as a copy to the device
        with workspace.packing_noted("a"):
            clock[0] += 2
        return "facts", {}

    assert workspace.packed_on_device("a", pack) == ("facts", {})
    assert workspace.packed_on_device("a", pytest.fail) == ("facts", {})
    assert workspace.packing_seconds == {"a": 2}


def test_what_the_device_refuses_to_pack_is_not_packed_again(workspace):
    def pack(stack):
        with workspace.packing_noted("a"):
            raise Unsupported("too many slots")

    for fails in (pack, pytest.fail):
        with pytest.raises(Unsupported, match="too many slots"):
            workspace.packed_on_device("a", fails)


def test_each_packing_counts_the_seconds_of_what_it_shares_with_others(workspace, steps):
    def shared():
        return workspace.cached("clusters", lambda: time.sleep(0.05))

    def cut():
        return workspace.cached("tiles", lambda: (time.sleep(0.02), shared()))

    for name, pack in {"first": shared, "second": shared, "third": cut, "fourth": cut, "alone": lambda: None}.items():
        workspace.upload_packed(name, lambda pack=pack: (pack(), {}))
    seconds = workspace.packing_seconds
    assert 0.05 <= seconds["second"] == pytest.approx(seconds["first"], abs=0.04)
    assert 0.07 <= seconds["third"] == pytest.approx(seconds["fourth"], abs=0.04)
    assert seconds["alone"] < seconds["first"]


def test_a_search_holds_as_much_as_half_of_the_device_takes(workspace, session, bench, monkeypatch):
    monkeypatch.setattr(bench.device, "free_bytes", lambda: 1000)
    session.keep_packed([SimpleNamespace(packing=name) for name in "abacab"])
    assert (workspace.kept_packings, workspace.packing_bytes) == (3, 500)


def test_processes_that_take_turns_share_that_half(workspace, session, bench, monkeypatch):
    monkeypatch.setattr(bench.device, "free_bytes", lambda: 1200)
    workspace.turns = 3
    session.keep_packed([SimpleNamespace(packing="a")])
    assert workspace.packing_bytes == 200


def test_rounds_start_without_what_a_search_held(workspace, session, monkeypatch):
    freed = []
    _, buffers = workspace.upload_packed("stale", lambda: (None, {"values": np.zeros(4)}))
    monkeypatch.setattr(buffers["values"], "release", lambda: freed.append("stale"))
    monkeypatch.setattr(tuning, "shuffled_rounds", lambda *_: list(freed))
    workspace.packing_bytes = 1
    assert session.time_in_rounds([]) == ["stale"]
    assert workspace.packing_bytes is None  # all of them are in use
