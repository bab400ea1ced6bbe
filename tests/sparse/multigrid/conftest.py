"""The modules of multigrid and of products, compiled for the CPU once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.devices.base import Device, Program
from repro.sparse.dynamic.host_layout import lay_out
from repro.sparse.dynamic.storage import Storage
from repro.sparse.multigrid.hierarchy import DeviceLevel, set_up_hierarchy
from repro.sparse.multigrid.reference import MultigridSettings, Smoother
from repro.sparse.multigrid.solver import Solver
from support.sparse_modules import by_precision, loader


@pytest.fixture(scope="session")
def load(built_folder: Path, templates: Path, device: Device) -> Callable[[str], Callable[[str], Program]]:
    """Give what loads the modules of a precision, each compiled at first use."""
    return by_precision(loader(device, templates, built_folder / "sparse"))


@pytest.fixture
def on_device(device: Device) -> Callable[..., Storage]:
    """Bring a matrix to the device, with one segment a row; who is given it releases it."""
    return lambda matrix, dtype=np.float64: Storage.upload(device, lay_out(sp.csr_array(matrix, dtype=dtype), 1))


@pytest.fixture
def levels_of(
    device: Device, load: Callable[[str], Callable[[str], Program]], on_device: Callable[..., Storage]
) -> Iterator[Callable[..., list[DeviceLevel]]]:
    """Set a hierarchy up on the device."""
    held = []

    def make(
        matrix: sp.csr_array,
        near_null: NDArray[np.float64] | None = None,
        unknowns: int = 1,
        settings: MultigridSettings | None = None,
        precision: str = "double",
        refreshable: bool = False,
    ) -> list[DeviceLevel]:
        dtype = np.float32 if precision == "single" else np.float64
        stored = on_device(matrix, dtype)
        held.append(set_up_hierarchy(device, load(precision), stored, near_null, unknowns, settings, refreshable))
        return held[-1]

    yield make
    for levels in held:
        for level in levels:
            level.release()


@pytest.fixture
def solver_of(
    device: Device, load: Callable[[str], Callable[[str], Program]], on_device: Callable[..., Storage]
) -> Iterator[Callable[..., Solver]]:
    """Set a hierarchy up on the device, and give what solves with it."""
    held = []

    def make(
        matrix: sp.csr_array,
        settings: MultigridSettings | None = None,
        precision: str = "double",
        smoother: Smoother | None = None,
    ) -> Solver:
        dtype = np.float32 if precision == "single" else np.float64
        levels = set_up_hierarchy(device, load(precision), on_device(matrix, dtype), settings=settings)
        held.extend(levels)
        held.append(Solver(device, load(precision), levels, smoother))
        return held[-1]

    yield make
    for thing in held:
        thing.release()
