"""A workspace on an emulated GPU, and products on it by kernels of compound entries as CUDA."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np

from repro.bench.runnable import Workspace
from repro.codegen.build_cache import Module
from repro.codegen.targets import get_target
from repro.devices.device_group import Devices
from repro.problems.matrix import Matrix
from repro.sparse.compound.kernels import render_module
from repro.sparse.compound.runnables import Variant
from repro.sparse.compound.variants import VariantId
from repro.sparse.operands import make_operands
from support.emulated_cuda import EmulatedCuda, compile_kernels


class One(list):
    """One device where several could be."""

    @property
    def first(self) -> Any:
        """Return it."""
        return self[0]


class EmulatedWorkspace(Workspace):
    """A workspace of a GPU that is none; `source` is what its programs are compiled from."""

    def __init__(self, operands: Any, source: str, folder: Path) -> None:
        super().__init__(cast(Devices, One([EmulatedCuda()])), operands)
        self._source, self._folder = source, folder

    def program(self, binary: Path, at: int = 0) -> Any:
        """Return the program compiled for the CPU."""
        return compile_kernels(self._source, self._folder)


SM_90 = get_target("sm_90")


def emulated(problem: Matrix, precision: str, variant: VariantId, templates: Path, folder: Path) -> np.ndarray:
    """Return the error of y by its bound, `(n, size)`, of a kernel's CUDA text; NaN where it wrote nothing."""
    operands = make_operands(problem, precision, 1)
    source = render_module(templates, problem.entry, precision, variant.layout, [variant.schedule], SM_90, "tests")
    workspace = EmulatedWorkspace(operands, source, folder)
    runnable = Variant(variant, Module("ok", "", "g++", (), "none"), folder)
    runnable.prepare(workspace)
    y = runnable.result()
    workspace.device.fill(y, 0xFF)
    runnable.launch()
    numbers = np.empty(y.nbytes // operands.dtype.itemsize, operands.dtype)
    workspace.device.download(y, numbers)
    n, size = operands.x.shape
    members = numbers.reshape(size, n).T if variant.layout.vector == "SoA" else numbers.reshape(n, -1)[:, :size]
    return np.abs(members - operands.reference) / np.maximum(operands.bound, 1e-300)
