"""The modules of products of sparse matrices, compiled for the CPU once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from repro.codegen.targets import DTYPES
from repro.devices.base import Device, Program
from repro.sparse.dynamic.host_layout import lay_out
from repro.sparse.dynamic.storage import Storage
from repro.sparse.spgemm.multiplication import Multiplication
from support.sparse_modules import by_precision, loader


@pytest.fixture(scope="session")
def load(built_folder: Path, templates: Path, device: Device) -> Callable[[str], Callable[[str], Program]]:
    """Give what loads the modules of a precision, each compiled at first use."""
    return by_precision(loader(device, templates, built_folder / "sparse"))


@pytest.fixture
def multiplication(device: Device, load: Callable[[str], Callable[[str], Program]]) -> Callable[..., Multiplication]:
    """Return products in a precision, by given shapes."""
    return lambda precision="double", shapes=None: Multiplication(device, load(precision), DTYPES[precision], shapes)


@pytest.fixture
def on_device(device: Device) -> Callable[..., Storage]:
    """Bring a matrix to the device, with one segment a row."""
    held = []

    def bring(matrix: sp.csr_array, dtype: type = np.float64) -> Storage:
        held.append(Storage.upload(device, lay_out(sp.csr_array(matrix, dtype=dtype), 4)))
        return held[-1]

    yield bring
    for storage in held:
        storage.release()
