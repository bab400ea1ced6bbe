"""cuSPARSE's products of one matrix in CSR on a GPU with a vector, and with several that lie side by side."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from repro.bench.guards import Guards
from repro.bench.runnable import Unsupported
from repro.devices.base import Buffer, LaunchError
from repro.sparse.library.cusparse_library import TYPES, address, destroy, gpu, load, refusals, scalars
from repro.sparse.library.gpu_csr import GpuCsr


@dataclass(frozen=True)
class CsrRoutine:
    """A routine of the library.

    Attributes
    ----------
    name
        `spmv-csr-alg1`, …
    function
        `sp_mv`, of one vector, or `sp_mm`, of several.
    algorithm
        The name in `SpMVAlg` or `SpMMAlg`.
    """

    name: str
    function: str
    algorithm: str


#: For one vector, and for several.
OF_VECTOR = tuple(CsrRoutine(f"spmv-csr-alg{n}", "sp_mv", f"CSR_ALG{n}") for n in (1, 2))
OF_SEVERAL = tuple(CsrRoutine(f"spmm-csr-alg{n}", "sp_mm", f"CSR_ALG{n}") for n in (1, 2, 3))
_ALGORITHMS = {"sp_mv": "SpMVAlg", "sp_mm": "SpMMAlg"}


def csr_routines(fields: int) -> tuple[CsrRoutine, ...]:
    """Return the routines for so many vectors at once."""
    return OF_VECTOR if fields == 1 else OF_SEVERAL


def bind_csr_product(
    matrix: GpuCsr, routine: CsrRoutine, x: Buffer, y: Buffer, fields: int, guards: Guards, held: ExitStack
) -> Callable[[], None]:
    """Let the library analyse a product, run it once, and return what queues it: Y = A X.

    Parameters
    ----------
    matrix
        A, `(n, m)`; columns of a row in any order.
    routine
        One of `csr_routines(fields)`.
    x, y
        X `(m, fields)` and Y `(n, fields)`, the vectors side by side (row by row), of the matrix's type.
    fields
        How many vectors there are.
    guards
        What looks after the library's working memory.
    held
        Gives back all that the library makes, and its working memory.

    Raises
    ------
    Unsupported, OutOfDeviceMemory, LaunchError
        There is no GPU or no cuSPARSE, or the library refuses; the message is its own.
    """
    library, device = load(), gpu(matrix.device)
    algorithms = getattr(library, _ALGORITHMS[routine.function], None)
    algorithm = getattr(algorithms, routine.algorithm, None)
    if algorithm is None:
        raise Unsupported(f"nvmath-python does not know {_ALGORITHMS[routine.function]}.{routine.algorithm}")
    with refusals(library, device, routine.name):
        handle = library.create()
        held.callback(destroy, library, library.destroy, handle)
        library.set_stream(handle, device.stream)
        kind, index = TYPES[matrix.dtype], library.IndexType.INDEX_32I
        arrays = map(address, (matrix.offsets, matrix.columns, matrix.values))
        described = library.create_csr(*matrix.shape, matrix.nnz, *arrays, index, index, library.IndexBase.ZERO, kind)
        held.callback(destroy, library, library.destroy_sp_mat, described)
        dense = [
            _describe(library, buffer, length, fields, kind, held)
            for buffer, length in ((x, matrix.shape[1]), (y, matrix.shape[0]))
        ]
        one, zero = scalars(matrix.dtype)
        plain = [library.Operation.NON_TRANSPOSE] * (1 if fields == 1 else 2)
        arguments = handle, *plain, one, described, dense[0], zero, dense[1], kind, algorithm
        nbytes = getattr(library, f"{routine.function}_buffer_size")(*arguments)
        working = guards.allocate(nbytes, "the library's working memory")
        held.callback(working.release)
        buffer = address(working.memory)
        try:
            getattr(library, f"{routine.function}_preprocess")(*arguments, buffer)
        except (library.cuSPARSEError, RuntimeError, AttributeError) as error:  # optional, and not in every version
            if getattr(error, "status", library.Status.NOT_SUPPORTED) != library.Status.NOT_SUPPORTED:
                raise
        run = partial(getattr(library, routine.function), *arguments, buffer)
        run()
        device.synchronize()

    def launch() -> None:
        try:
            run()
        except library.cuSPARSEError as error:
            raise LaunchError(f"cuSPARSE: {error}") from None

    return launch


def _describe(library: Any, buffer: Buffer, length: int, fields: int, kind: int, held: ExitStack) -> int:
    """Return the library's description of a vector, or of several side by side."""
    if fields == 1:
        described = library.create_dn_vec(length, address(buffer), kind)
        held.callback(destroy, library, library.destroy_dn_vec, described)
    else:
        described = library.create_dn_mat(length, fields, fields, address(buffer), kind, library.Order.ROW)
        held.callback(destroy, library, library.destroy_dn_mat, described)
    return int(described)
