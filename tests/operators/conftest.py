"""Kernels of these tests are compiled once, into a folder of their own; a matrix of each entry as SciPy has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from repro.operators.arrays import DeviceArray
from repro.operators.runtime import open_runtime
from repro.problems.matrix import Matrix
from repro.sparse.operands import expand

DEVICE = "opencl:0"


@pytest.fixture(scope="session", autouse=True)
def kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache for these tests alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPRO_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def as_scipy() -> Callable[[Matrix], Any]:
    """Write a problem as a user would have it: blocks in BSR, numbers in CSR."""

    def convert(problem: Matrix) -> Any:
        if problem.entry == "complex":
            values = problem.values[:, 0] + 1j * problem.values[:, 1]
            return sp.csr_array((values, problem.indices, problem.indptr), shape=(problem.n, problem.n))
        matrix = expand(problem, problem.values)
        return matrix.tocsr() if problem.entry in ("real", "pattern") else matrix

    return convert


@pytest.fixture
def put() -> Callable[[Any], DeviceArray]:
    """Bring an array to the device."""
    return lambda array: open_runtime(DEVICE).put(np.asarray(array))
