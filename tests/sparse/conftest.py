"""The CPU's device and a GPU's emulator."""

from __future__ import annotations

import pytest

from repro.devices.opencl import OpenClDevice
from support.emulated_cuda import EmulatedCuda, needs_compiler


@pytest.fixture(scope="session", params=["opencl", pytest.param("cuda", marks=needs_compiler)])
def device(request: pytest.FixtureRequest, cpu_device: OpenClDevice) -> OpenClDevice | EmulatedCuda:
    """The CPU through OpenCL, and as a GPU's emulator: warps do by other words what OpenCL's work-items do."""
    return cpu_device if request.param == "opencl" else EmulatedCuda()
