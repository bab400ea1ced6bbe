"""A workspace on a GPU that is none, for one runnable."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from emulated_cuda import EmulatedCuda, compile_kernels
from repro.bench.workspace import Workspace
from repro.devices.device_group import Devices


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
