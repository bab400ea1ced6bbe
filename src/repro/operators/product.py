"""y = A x on a device, with the matrix packed and its kernel compiled."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import numpy as np

from repro.bench.runnable import Unsupported
from repro.bench.workspace import Workspace
from repro.devices.base import Buffer, OutOfDeviceMemory
from repro.errors import ReproError
from repro.operators.arrays import Kind
from repro.operators.runtime import KERNELS, Runtime
from repro.operators.vectors import Vectors
from repro.problems.matrix import Matrix
from repro.sparse.operands import ProductOperands
from repro.studies.compound_spmv.paper import STUDY
from repro.studies.compound_spmv.render import render_module
from repro.studies.compound_spmv.variant import Variant
from repro.studies.compound_spmv.variant_id import VariantId

#: Pairs of vectors whose launches are kept: those of an iterative solver are always the same.
KEPT = 64


class Product:
    """A matrix on the device and the one kernel that multiplies with it.

    Parameters
    ----------
    runtime
        The device.
    matrix, precision
        The matrix, rounded to the precision.
    id
        The variant.

    Attributes
    ----------
    vectors
        Vectors in the layout's order.
    direct
        Whether these are a user's vectors as they are: AoS, unknowns not renumbered.
    nbytes
        Bytes of the packed matrix.

    Raises
    ------
    ReproError
        The kernel cannot be compiled, or the matrix is too large for the device or for 32-bit indices.
    """

    def __init__(self, runtime: Runtime, matrix: Matrix, precision: str, id: VariantId) -> None:
        self.runtime, self.id, layout = runtime, id, id.layout
        kind = Kind(matrix.entry, precision)
        source = render_module(KERNELS, matrix.entry, precision, layout, [id.schedule], runtime.device.target)
        name = f"{STUDY}/{matrix.entry}-{precision}/{layout.stored}-{id.schedule}"
        self._variant = Variant(id, *runtime.compiled(source, name))
        # x and y are a user's, and nothing is verified here
        none = np.empty((0, kind.algebra.size))
        operands = ProductOperands(matrix, precision, none.astype(kind.scalar), none, none)
        self._workspace = Workspace(runtime.devices, operands)
        try:
            with runtime.after():
                self._variant.bind(self._workspace)
        except OutOfDeviceMemory as error:
            raise runtime.no_room(error) from None
        except Unsupported as error:
            raise ReproError(
                "the variant cannot hold the matrix", where=id, actual=error, todo="choose another variant"
            ) from None
        self.nbytes = self._variant.matrix_bytes
        self.direct = layout.unknowns == "natural" and layout.vector == "AoS"
        rows = None if layout.unknowns == "natural" else operands.permutation(layout.unknowns)
        self.vectors = Vectors(runtime, matrix.n, kind, layout.vector, rows)
        self._bound: OrderedDict[tuple[int, int], Callable[[], None]] = OrderedDict()

    def bind(self, x: Buffer, y: Buffer) -> Callable[[], None]:
        """Return what queues one product of vectors in the layout's order."""
        return self._variant.product(x, y)

    def multiply(self, x: Buffer, y: Buffer) -> None:
        """Queue one product of vectors in the layout's order."""
        if not hasattr(x, "pointer") or not hasattr(y, "pointer"):
            self.bind(x, y)()  # OpenCL's launches would keep their buffers alive
            return
        key = x.pointer, y.pointer
        if key not in self._bound:
            while len(self._bound) >= KEPT:
                self._bound.popitem(last=False)
            self._bound[key] = self.bind(x, y)
        self._bound[key]()

    def release(self) -> None:
        """Wait for the device and give the matrix's memory back; nothing can be multiplied then."""
        self.runtime.device.synchronize()
        self._bound.clear()
        self._variant.release()
        self._workspace.release()
