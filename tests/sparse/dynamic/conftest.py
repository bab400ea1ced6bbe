"""The modules of a dynamic matrix, compiled for the CPU once, and matrices on its device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import ArrayLike, DTypeLike

from repro.codegen.targets import DTYPES
from repro.devices.base import Buffer, Device, Program
from repro.sparse.dynamic.host_layout import Arrays
from repro.sparse.dynamic.matrix import DynamicMatrix
from repro.sparse.dynamic.storage import EntryBatch
from support.sparse_modules import loader


@pytest.fixture(scope="session")
def loaders(built_folder: Path) -> tuple[Path, dict[str, Callable[[str], Program]]]:
    """A folder of modules, and what loads them, by target: a file of tests may have another device."""
    return built_folder / "sparse", {}


@pytest.fixture
def load_module(
    templates: Path, device: Device, loaders: tuple[Path, dict[str, Callable[[str], Program]]]
) -> Callable[[str], Program]:
    """Load the module of a key, compiled at first use."""
    folder, by_target = loaders
    return by_target.setdefault(device.target.name, loader(device, templates, folder))


@pytest.fixture
def on_cpu(load_module: Callable[[str], Program], device: Device) -> Callable[..., DynamicMatrix]:
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
def make_batch(device: Device) -> Callable[..., EntryBatch]:
    """Bring entries to where matrices are."""

    def make(
        rows: ArrayLike,
        columns: ArrayLike,
        values: ArrayLike | None = None,
        grouped: bool = False,
        dtype: type = np.float64,
    ) -> EntryBatch:
        def upload(numbers: ArrayLike, kind: DTypeLike) -> Buffer:
            array = np.asarray(numbers, kind)
            return device.upload(array if array.size else np.zeros(1, kind))  # there is no buffer of nothing

        of_values = None if values is None else upload(values, dtype)
        return EntryBatch(len(rows), upload(rows, np.int32), upload(columns, np.int32), of_values, grouped)

    return make
