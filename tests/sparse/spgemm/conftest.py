"""The modules of products of sparse matrices, compiled for the CPU once."""

from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp

from emulated_cuda import EmulatedCuda, compile_kernels, needs_compiler
from repro.codegen.compile import compile_module
from repro.codegen.precisions import DTYPES
from repro.codegen.targets import CPU
from repro.devices.base import Program
from repro.devices.opencl import OpenClDevice
from repro.sparse.dynamic.layout import lay_out
from repro.sparse.dynamic.render import render_module
from repro.sparse.dynamic.storage import Storage
from repro.sparse.spgemm.product import Multiplication
from repro.sparse.spgemm.render import MODULES, render_spgemm


@pytest.fixture(scope="session", params=["opencl", pytest.param("cuda", marks=needs_compiler)])
def device(request, cpu_device: OpenClDevice) -> OpenClDevice | EmulatedCuda:
    """The CPU through OpenCL, and as a GPU's emulator, whose warps share tables."""
    return cpu_device if request.param == "opencl" else EmulatedCuda()


@pytest.fixture(scope="session")
def load(tmp_path_factory, templates, device) -> Callable[[str], Callable[[str], Program]]:
    """Give what loads the modules of a precision, each compiled at first use."""
    folder, programs = tmp_path_factory.mktemp("spgemm"), {}

    def load_one(key: str) -> Program:
        if key not in programs:
            render = render_spgemm if key.partition("/")[2] in MODULES else render_module
            source = render(templates, key, device.target, "tests")
            if isinstance(device, EmulatedCuda):
                programs[key] = compile_kernels(source, folder)
            else:
                module = compile_module(source, CPU, folder / f"{key}.json")
                assert module.binary, module.message
                programs[key] = device.load((folder / f"{key}.json").parent / module.binary)
        return programs[key]

    return lambda precision: lambda module: load_one(f"{precision}/{module}")


@pytest.fixture
def multiplication(device, load) -> Callable[..., Multiplication]:
    """Return products in a precision, by a plan."""
    return lambda precision="double", plan=None: Multiplication(device, load(precision), DTYPES[precision], plan)


@pytest.fixture
def on_device(device) -> Callable[..., Storage]:
    """Bring a matrix to the device, with one segment a row."""
    held = []

    def bring(matrix: sp.csr_array, dtype: type = np.float64) -> Storage:
        held.append(Storage.upload(device, lay_out(sp.csr_array(matrix, dtype=dtype), 4)))
        return held[-1]

    yield bring
    for storage in held:
        storage.release()
