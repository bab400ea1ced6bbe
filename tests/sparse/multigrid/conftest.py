"""The modules of multigrid and of products, compiled for the CPU once."""

from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp

from repro.devices.base import Program
from repro.sparse.dynamic.layout import lay_out
from repro.sparse.dynamic.storage import Storage
from sparse_modules import by_precision, loader


@pytest.fixture(scope="session")
def load(tmp_path_factory, templates, device) -> Callable[[str], Callable[[str], Program]]:
    """Give what loads the modules of a precision, each compiled at first use."""
    return by_precision(loader(device, templates, tmp_path_factory.mktemp("multigrid")))


@pytest.fixture
def on_device(device) -> Callable[..., Storage]:
    """Bring a matrix to the device, with one segment a row; who is given it releases it."""
    return lambda matrix, dtype=np.float64: Storage.upload(device, lay_out(sp.csr_array(matrix, dtype=dtype), 1))
