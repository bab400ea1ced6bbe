"""cuSPARSE's SpMVOp, z = α A x + β y, by a plan that is made for A once; an experimental function of the library.

The order of the calls is that of NVIDIA's sample `spmv_op`, without code for an epilogue.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from ctypes import byref, c_size_t
from typing import Any

import numpy as np

from repro.bench.guards import Guards
from repro.bench.runnable import Unsupported
from repro.sparse.library.cusparse_calls import Calls
from repro.sparse.library.cusparse_library import TYPES, address, scalars, version

#: The first version whose functions have the parameters of today, and float32; that of CUDA 13.3.
SINCE = (12, 8, 1)
#: Values of `cusparseSpMVOpAlg_t`. By NVIDIA's notes on CUDA 13.3 the first prepares less and takes values that change.
ALGORITHMS = {"ALG1": 1, "ALG2": 2}


def lacks_spmvop(library_version: str) -> str | None:
    """Return why a version of the library is too old, or None."""
    if tuple(int(part) for part in library_version.split(".")) >= SINCE:
        return None
    return f"SpMVOp needs {'.'.join(map(str, SINCE))}, which came with CUDA 13.3, or newer"


class PlannedProduct:
    """A product that the library has planned.

    Parameters
    ----------
    calls
        The library's calls, on the device where all lies.
    handle, matrix, vectors
        The library's handle, and its descriptions of A and of some x, y and z; other vectors can be multiplied later.
    dtype
        The type of all numbers.
    algorithm
        One of `ALGORITHMS`.
    guards
        What looks after the library's working memory.
    held
        Gives back all that the library makes, and its working memory; what it was given has to be there till then.

    Raises
    ------
    Unsupported
        The library is too old, or refuses the matrix.
    OutOfDeviceMemory, LaunchError
    """

    def __init__(
        self,
        calls: Calls,
        handle: int,
        matrix: int,
        vectors: tuple[int, int, int],
        dtype: np.dtype[Any],
        algorithm: str,
        guards: Guards,
        held: ExitStack,
    ) -> None:
        if why := lacks_spmvop(version()):
            raise Unsupported(f"cuSPARSE {version()}: {why}")
        self._calls, self._handle, self._scalars = calls, handle, scalars(dtype)
        plain = calls.library.Operation.NON_TRANSPOSE
        what = plain, matrix, *vectors, TYPES[dtype], ALGORITHMS[algorithm]
        size = c_size_t()
        calls.run("cusparseSpMVOp_bufferSize", handle, *what, byref(size))
        working = guards.allocate(size.value, "the library's working memory")
        held.callback(working.release)
        given = *what, address(working.memory)
        described = calls.make_directly(
            held, "cusparseSpMVOp_createDescr", "cusparseSpMVOp_destroyDescr", (handle,), given
        )
        no_code = None, 0
        self._plan = calls.make_directly(
            held, "cusparseSpMVOp_createPlan", "cusparseSpMVOp_destroyPlan", (handle, described), no_code
        )

    def bind(self, x: int, y: int, z: int) -> Callable[[], None]:
        """Return what queues z = A x + 0 y and raises the library's error where it refuses.

        Parameters
        ----------
        x, y, z
            The library's descriptions of vectors.
        """
        compute, failure = self._calls.function("cusparseSpMVOp"), self._calls.library.cuSPARSEError
        arguments = self._handle, self._plan, *self._scalars, x, y, z

        def run() -> None:
            if status := compute(*arguments):
                raise failure(status)

        return run
