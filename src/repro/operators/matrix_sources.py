"""The matrix that products are made of: on the host, on the device, or on both."""

from __future__ import annotations

from functools import cache, cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from repro.operators.runtime import KERNELS, Runtime
from repro.problems.matrix import Matrix
from repro.sparse.compound.device_packing import DeviceCsr, DevicePacker, render_packing
from repro.sparse.compound.kernels import TEMPLATES
from repro.sparse.ordering import long_rows, permutation


class MatrixSource:
    """A checked matrix on the host, which is copied to the device once for all products that are made of it."""

    def __init__(self, problem: Matrix) -> None:
        self.problem = problem
        self.entry, self.shape, self.square = problem.entry, problem.shape, problem.square
        self._csr: DeviceCsr | None = None

    def csr(self, runtime: Runtime) -> DeviceCsr:
        """Return the matrix on the device, valid until `release`; the caller holds the device's lock."""
        if self._csr is None:
            self._csr = DeviceCsr.upload(runtime.device, self.problem, self.problem.values)
        return self._csr

    @cached_property
    def clusters(self) -> tuple[NDArray[np.int64], int]:
        """The row order of clustered layouts, `(n,)`, and the number of long rows at its end."""
        return permutation(self.problem, "bisected"), int(long_rows(self.problem).sum())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Free the copy on the device, unless a product shares it."""
        if self._csr is not None:
            self._csr.release()
            self._csr = None


def packing_source(runtime: Runtime, entry: str, precision: str, inner: str) -> tuple[str, str]:
    """Return the source of the module that packs matrices, and its name in the cache."""
    source = render_packing(KERNELS, entry, precision, inner, runtime.device.target, "operator")
    return source, f"{TEMPLATES}/{entry}-{precision}/packing-{inner}"


@cache
def device_packer(runtime: Runtime, entry: str, precision: str, inner: str) -> DevicePacker:
    """Return what packs matrices of an entry and precision in an inner order; its kernels are compiled if needed."""
    program = runtime.program(*packing_source(runtime, entry, precision, inner))
    return DevicePacker(runtime.device, program, entry, precision)
