"""Energy of a launch: a counter that is updated now and then gives the energy that is known."""

from types import SimpleNamespace

import pytest

from repro.bench.energy import STUCK, Energy, EnergyMeter, NoEnergy, energy_columns, is_repeatable
from repro.bench.runnable import CONTENDERS, Runnable
from repro.bench.yardsticks import DeviceCopy, Empty, Floor
from repro.codegen.templates import StreamConfig
from repro.devices.base import CaptureError
from support.metered_device import MeteredDevice


class Launch(Runnable):
    kind, name = "baseline", "library"

    def __init__(self, device, clocks=("event", "graph")):
        self.launch, self.clocks = device.launch, clocks


@pytest.mark.parametrize("update", [20, 50, 100])
@pytest.mark.parametrize("seconds", [0.01, 0.5])
def test_the_power_is_that_between_two_updates_of_the_counter(update, seconds):
    device = MeteredDevice(busy_watts=300, idle_watts=100, update=update)
    meter = device.meter(seconds)
    assert meter.idle_watts() == pytest.approx(100)
    watts, launch_seconds, launches = meter.measure(Launch(device), 1e-3)
    assert (watts, launch_seconds) == (pytest.approx(300), pytest.approx(1e-3))
    assert watts * launch_seconds == pytest.approx(0.3)  # joules
    assert launches == device.launched
    assert launches * launch_seconds >= seconds
    assert meter.idle_watts() == pytest.approx(100)


@pytest.mark.parametrize("clocks", [("host",), ("event",)])
def test_launches_that_no_graph_can_hold_are_repeated_one_by_one(clocks):
    device = MeteredDevice()
    watts, launch_seconds, launches = device.meter(0.2).measure(Launch(device, clocks), 1e-3)
    assert (watts, launch_seconds) == (pytest.approx(300), pytest.approx(1e-3))
    assert launches == device.launched
    assert not device.batches


def test_launches_that_cannot_be_captured_are_repeated_one_by_one():
    class Refusing(MeteredDevice):
        def keep_busy(self, launch, launches, goes_on):
            raise CaptureError("it waits for the device")

    device = Refusing()
    watts, launch_seconds, _ = device.meter(0.2).measure(Launch(device), 1e-3)
    assert watts * launch_seconds == pytest.approx(0.3)


@pytest.mark.parametrize(("launch_seconds", "launches"), [(1e-3, 25), (1.0, 1), (1e-9, 5000)])
def test_a_batch_takes_some_milliseconds(launch_seconds, launches):
    device = MeteredDevice()
    device.meter(0.01).measure(Launch(device), launch_seconds)
    assert device.batches == [launches]


def test_what_is_freed_before_each_launch_is_freed_here_as_well():
    device, freed = MeteredDevice(), []
    runnable = Launch(device, ("host",))
    runnable.before = lambda: freed.append(1)
    _, _, launches = device.meter(0.01).measure(runnable, 1e-3)
    assert len(freed) == launches


@pytest.mark.parametrize(
    ("device", "reason"),
    [
        (MeteredDevice(update=None), f"not updated for {STUCK:g} s"),
        (MeteredDevice(has_counter=False), "no counter"),
    ],
    ids=["stuck", "absent"],
)
def test_a_counter_that_is_absent_or_stands_still_is_a_reason(device, reason):
    with pytest.raises(NoEnergy, match=reason):
        device.meter(0.1).idle_watts()
    with pytest.raises(NoEnergy, match=reason):
        device.meter(0.1).measure(Launch(device), 1e-3)


def test_each_reason_is_printed_once(capsys):
    meter = EnergyMeter(MeteredDevice(), 0.1)
    for reason in ("no counter", "shared", "no counter"):
        meter.say(NoEnergy(reason))
    assert capsys.readouterr().out == "energy is not measured: no counter\nenergy is not measured: shared\n"


def test_a_row_has_medians_of_the_rounds_and_the_ends():
    rounds = [Energy(watts, idle, 1e-3, 10) for watts, idle in ((300, 90), (310, 100), (500, 95))]
    assert energy_columns(Launch(MeteredDevice()), rounds) == {
        "energy_task": "",
        "energy_of": "library",
        "energy_launches": 30,
        "energy_joules": pytest.approx(0.31),
        "energy_joules_min": pytest.approx(0.3),
        "energy_joules_max": pytest.approx(0.5),
        "energy_seconds": 1e-3,
        "energy_watts": 310,
        "energy_idle_watts": 95,
    }
    assert energy_columns(Launch(MeteredDevice()), []) == {}


def of_space(space):
    return type("OfSpace", (Runnable,), {"kind": "variant", "name": "v", "columns": {"space": space}})()


def test_contenders_are_known_by_their_space_and_kind():
    spaces = [of_space(space).contender for space in ("extended", "paper_tuned", "paper")]
    assert [*spaces, Launch(MeteredDevice()).contender] == [("", whose) for whose in CONTENDERS]
    rival = type("Rival", (Runnable,), {"kind": "outside", "name": "mine"})()
    assert rival.contender == ("", "mine")
    stream = StreamConfig(256, 1)
    assert Floor(stream).contender == ("", "floor")
    assert [runnable.contender for runnable in (DeviceCopy(stream), Empty(), of_space(None))] == [None] * 3


def test_only_what_needs_nothing_before_a_launch_is_repeated():
    class Resets(Launch):
        def before(self): ...

    class Frees(Resets):
        before_is_free = True

    device = MeteredDevice()
    assert is_repeatable(Launch(device))
    assert is_repeatable(Frees(device))
    assert not is_repeatable(Resets(device))
    assert not is_repeatable(of_space(None))
    for attribute, value in {"devices": 2, "device_only": True}.items():
        other = Launch(device)
        setattr(other, attribute, value)
        assert not is_repeatable(other), SimpleNamespace(**{attribute: value})
