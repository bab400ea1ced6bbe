"""The modules of a dynamic matrix, compiled for the CPU once, and matrices on its device."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from emulated_cuda import EmulatedCuda, compile_kernels, needs_compiler
from repro.codegen.compile import compile_module
from repro.codegen.precisions import DTYPES
from repro.codegen.targets import CPU
from repro.devices.base import Program
from repro.devices.opencl import OpenClDevice
from repro.sparse.dynamic.batch import Batch
from repro.sparse.dynamic.layout import Arrays
from repro.sparse.dynamic.matrix import DynamicMatrix
from repro.sparse.dynamic.render import render_module


@pytest.fixture(scope="session", params=["opencl", pytest.param("cuda", marks=needs_compiler)])
def device(request, cpu_device: OpenClDevice) -> OpenClDevice | EmulatedCuda:
    """The CPU through OpenCL, and as a GPU's emulator: warps do by other words what OpenCL's work-items do."""
    return cpu_device if request.param == "opencl" else EmulatedCuda()


@pytest.fixture(scope="session")
def loaded(tmp_path_factory) -> tuple[Path, dict[tuple[str, str], Program]]:
    """A folder of modules, and those that are loaded, by target and key."""
    return tmp_path_factory.mktemp("dynamic"), {}


@pytest.fixture
def load_module(templates, device, loaded) -> Callable[[str], Program]:
    """Load the module of a key, compiled at first use."""
    folder, programs = loaded

    def load(key: str) -> Program:
        name = device.target.name, key
        if name not in programs:
            source = render_module(templates, key, device.target, "tests")
            if isinstance(device, EmulatedCuda):
                programs[name] = compile_kernels(source, folder)
            else:
                module = compile_module(source, CPU, folder / f"{key}.json")
                assert module.binary, module.message
                programs[name] = device.load((folder / f"{key}.json").parent / module.binary)
        return programs[name]

    return load


@pytest.fixture
def on_cpu(load_module, device) -> Callable[..., DynamicMatrix]:
    """Bring a matrix to the CPU's device or the emulator, in the precision of its values."""
    held = []

    def bring(arrays: Arrays, slack: int = 2) -> DynamicMatrix:
        precision = next(name for name, dtype in DTYPES.items() if dtype == arrays.values.dtype)
        modules = (load_module(f"{precision}/{module}") for module in ("matrix", "sort"))
        held.append(DynamicMatrix(device, *modules, arrays, slack))
        return held[-1]

    yield bring
    for matrix in held:
        matrix.release()


@pytest.fixture
def make_batch(device) -> Callable[..., Batch]:
    """Bring entries to where matrices are."""

    def make(rows, columns, values=None, grouped: bool = False, dtype: type = np.float64) -> Batch:
        def upload(numbers, kind):
            array = np.asarray(numbers, kind)
            return device.upload(array if array.size else np.zeros(1, kind))  # there is no buffer of nothing

        of_values = None if values is None else upload(values, dtype)
        return Batch(len(rows), upload(rows, np.int32), upload(columns, np.int32), of_values, grouped)

    return make
