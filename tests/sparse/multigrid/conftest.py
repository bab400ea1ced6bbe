"""The modules of multigrid and of products, compiled for the CPU once."""

from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp

from emulated_cuda import EmulatedCuda, compile_kernels, needs_compiler
from repro.codegen.compile import compile_module
from repro.codegen.targets import CPU
from repro.devices.base import Program
from repro.devices.opencl import OpenClDevice
from repro.sparse.dynamic.layout import lay_out
from repro.sparse.dynamic.render import render_module
from repro.sparse.dynamic.storage import Storage
from repro.sparse.multigrid import render as multigrid
from repro.sparse.spgemm import render as spgemm


@pytest.fixture(scope="session", params=["opencl", pytest.param("cuda", marks=needs_compiler)])
def device(request, cpu_device: OpenClDevice) -> OpenClDevice | EmulatedCuda:
    """The CPU through OpenCL, and as a GPU's emulator, whose lanes share rows."""
    return cpu_device if request.param == "opencl" else EmulatedCuda()


@pytest.fixture(scope="session")
def load(tmp_path_factory, templates, device) -> Callable[[str], Callable[[str], Program]]:
    """Give what loads the modules of a precision, each compiled at first use."""
    folder, programs = tmp_path_factory.mktemp("multigrid"), {}

    def load_one(key: str) -> Program:
        if key not in programs:
            module = key.partition("/")[2]
            render = {
                **dict.fromkeys(multigrid.MODULES, multigrid.render_multigrid),
                **dict.fromkeys(spgemm.MODULES, spgemm.render_spgemm),
            }.get(module, render_module)
            source = render(templates, key, device.target, "tests")
            if isinstance(device, EmulatedCuda):
                programs[key] = compile_kernels(source, folder)
            else:
                made = compile_module(source, CPU, folder / f"{key}.json")
                assert made.binary, made.message
                programs[key] = device.load((folder / f"{key}.json").parent / made.binary)
        return programs[key]

    return lambda precision: lambda module: load_one(f"{precision}/{module}")


@pytest.fixture
def on_device(device) -> Callable[..., Storage]:
    """Bring a matrix to the device, with one segment a row; who is given it releases it."""
    return lambda matrix, dtype=np.float64: Storage.upload(device, lay_out(sp.csr_array(matrix, dtype=dtype), 1))
