"""The devices that kernels of matrices are tested on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from repro.devices.base import Device
from repro.devices.cuda import open_cuda
from repro.devices.selection import find_gpus
from support.emulated_cuda import EmulatedCuda, needs_compiler

GPU = [pytest.param("gpu", marks=pytest.mark.gpu)] if find_gpus() else []


@pytest.fixture(scope="session", params=["opencl", pytest.param("emulated", marks=needs_compiler), *GPU])
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    """The CPU through OpenCL, a GPU's emulator, and a GPU if there is one.

    In the emulator warps do by other words what OpenCL's work-items do.
    """
    if request.param == "gpu":
        device = open_cuda(0)
        yield device
        device.close()
    else:
        yield request.getfixturevalue("cpu_device") if request.param == "opencl" else EmulatedCuda()
