"""Launches by NVIDIA's bindings: refused graphs leave nothing behind; dependent launches."""

from __future__ import annotations

import ctypes
import importlib
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from repro.devices.base import CaptureError, LaunchError
from support.fake_cuda import CUresult


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

    driver.CUresult, driver.CUstream = CUresult, int
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


def test_a_dependent_launch_is_one_that_the_driver_may_start_early(machine):
    driver, launched = sys.modules["cuda.bindings.driver"], []
    machine.shared = 48 << 10

    def set_attribute(function, attribute, value):
        machine.shared = value
        return (CUresult.CUDA_SUCCESS,)

    def launch(config, function, arguments, extra):
        addresses = (ctypes.c_void_p * 2).from_address(arguments)
        number, pointer = ctypes.c_int.from_address(addresses[0]), ctypes.c_void_p.from_address(addresses[1])
        launched.append((config, function, number.value, pointer.value))
        return (machine.answers.get("kernel", CUresult.CUDA_SUCCESS),)

    driver.__dict__.update(
        CUlaunchAttribute=lambda: SimpleNamespace(value=SimpleNamespace()),
        CUlaunchAttributeID=SimpleNamespace(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION=6),
        CUlaunchConfig=SimpleNamespace,
        CUfunction_attribute=SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8),
        cuModuleLoad=lambda path: (CUresult.CUDA_SUCCESS, path),
        cuModuleGetFunction=lambda module, name: (CUresult.CUDA_SUCCESS, (module, name)),
        cuFuncGetAttribute=lambda attribute, function: (CUresult.CUDA_SUCCESS, machine.shared),
        cuFuncSetAttribute=set_attribute,
        cuLaunchKernelEx=launch,
    )
    bindings = importlib.import_module("repro.devices.cuda_bindings")
    module = bindings.BindingsModule(Path("m.cubin"), 5, lambda launch: launch, LaunchError)
    run = module.bind_dependent("product", 7, 64, 50 << 10, [np.int32(9), SimpleNamespace(pointer=1 << 40)])
    run()
    ((config, function, number, pointer),) = launched
    assert (function, number, pointer) == ((b"m.cubin", b"product"), 9, 1 << 40)
    assert (config.gridDimX, config.blockDimX, config.sharedMemBytes, config.hStream) == (7, 64, 50 << 10, 5)
    assert machine.shared == 50 << 10
    (attribute,) = config.attrs
    assert (config.numAttrs, attribute.id, attribute.value.programmaticStreamSerializationAllowed) == (1, 6, 1)
    machine.answers["kernel"] = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(LaunchError, match="ILLEGAL_ADDRESS"):
        run()
