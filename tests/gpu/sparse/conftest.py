"""Modules of products and of multigrid, compiled for the GPU once."""

from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp

from repro.devices.base import Program
from repro.sparse.dynamic.host_layout import lay_out
from repro.sparse.dynamic.storage import Storage
from repro.sparse.multigrid.hierarchy import set_up_hierarchy
from support.sparse_modules import by_precision, loader


@pytest.fixture(scope="session")
def load(gpu, templates, tmp_path_factory) -> Callable[[str], Callable[[str], Program]]:
    """Give what loads the modules of a precision, each compiled at first use."""
    return by_precision(loader(gpu, templates, tmp_path_factory.mktemp("sparse")))


@pytest.fixture
def levels_of(gpu, load):
    held = []

    def make(matrix, near_null=None, unknowns=1, settings=None, precision="double", refreshable=False):
        dtype = np.float32 if precision == "single" else np.float64
        stored = Storage.upload(gpu, lay_out(sp.csr_array(matrix, dtype=dtype), 1))
        held.append(set_up_hierarchy(gpu, load(precision), stored, near_null, unknowns, settings, refreshable))
        return held[-1]

    yield make
    for levels in held:
        for level in levels:
            level.release()
