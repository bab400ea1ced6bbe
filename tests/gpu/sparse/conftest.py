"""Modules of products and of multigrid, compiled for the GPU once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.devices.base import Program
from repro.devices.cuda import CudaDevice
from repro.sparse.dynamic.host_layout import lay_out
from repro.sparse.dynamic.storage import Storage
from repro.sparse.multigrid.hierarchy import DeviceLevel, set_up_hierarchy
from repro.sparse.multigrid.reference import MultigridSettings
from support.sparse_modules import by_precision, loader


@pytest.fixture(scope="session")
def load(
    gpu: CudaDevice, templates: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Callable[[str], Program]]:
    """Give what loads the modules of a precision, each compiled at first use."""
    return by_precision(loader(gpu, templates, tmp_path_factory.mktemp("sparse")))


@pytest.fixture
def levels_of(
    gpu: CudaDevice, load: Callable[[str], Callable[[str], Program]]
) -> Iterator[Callable[..., list[DeviceLevel]]]:
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
        stored = Storage.upload(gpu, lay_out(sp.csr_array(matrix, dtype=dtype), 1))
        held.append(set_up_hierarchy(gpu, load(precision), stored, near_null, unknowns, settings, refreshable))
        return held[-1]

    yield make
    for levels in held:
        for level in levels:
            level.release()
