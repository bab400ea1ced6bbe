"""CUDA graphs where the driver refuses one: nothing of it stays, and the error says whose fault it is."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType, SimpleNamespace

import pytest
from fake_cuda import CUresult

from repro.devices.base import CaptureError, LaunchError


@pytest.fixture
def machine(monkeypatch):
    """A driver whose answers a test can set; `there` has the graphs that were made and not given back."""
    driver = ModuleType("cuda.bindings.driver")
    machine = SimpleNamespace(answers={}, there=set(), launched=0)

    def answer(name, *values):
        code = machine.answers.get(name, CUresult.CUDA_SUCCESS)
        made = () if code else values
        machine.there.update(made)
        return (code, *made)

    driver.CUstream = int
    driver.CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL=1)
    driver.cuStreamBeginCapture = lambda stream, mode: answer("begin")
    driver.cuStreamEndCapture = lambda stream: answer("end", 11)
    driver.cuGraphInstantiate = lambda graph, flags: answer("instantiate", 12)
    driver.cuGraphUpload = lambda executable, stream: answer("upload")
    driver.cuGraphLaunch = lambda executable, stream: answer("launch")
    driver.cuGraphDestroy = driver.cuGraphExecDestroy = machine.there.remove
    for name in ("cuda", "cuda.bindings"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", driver)
    sys.modules["cuda.bindings"].driver = driver
    monkeypatch.delitem(sys.modules, "repro.devices.cuda_bindings", raising=False)
    yield machine
    sys.modules.pop("repro.devices.cuda_bindings", None)


def made(machine):
    """Capture three launches."""

    def launch():
        machine.launched += 1

    return importlib.import_module("repro.devices.cuda_bindings").Graph(5, launch, 3, LaunchError)


def test_a_graph_is_there_until_it_is_closed(machine):
    graph = made(machine)
    assert (machine.launched, machine.there) == (3, {12})
    graph.replay()
    graph.close()
    assert not machine.there


@pytest.mark.parametrize("step", ["begin", "end", "instantiate", "upload"])
def test_where_there_is_no_memory_for_a_graph_the_launches_go_without(machine, step):
    machine.answers[step] = CUresult.CUDA_ERROR_OUT_OF_MEMORY
    with pytest.raises(CaptureError, match="OUT_OF_MEMORY"):
        made(machine)
    assert not machine.there


def test_what_launches_did_before_is_no_fault_of_the_graph(machine):
    machine.answers["upload"] = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(LaunchError, match="ILLEGAL_ADDRESS"):
        made(machine)
    assert not machine.there
