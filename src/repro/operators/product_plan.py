"""A product of two sparse matrices whose patterns stay: new values by stored destinations."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, NoReturn
from weakref import finalize

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.casts import cast
from repro.devices.base import Buffer, OutOfDeviceMemory
from repro.errors import ReproError
from repro.operators.arrays import View, not_copied, on_device, refuse_mask
from repro.operators.interchange import to_cupy
from repro.operators.runtime import Runtime
from repro.sparse.device_work import Load, keep
from repro.sparse.dynamic.storage import Storage
from repro.sparse.spgemm.destinations import Destinations
from repro.sparse.spgemm.rows import Factors


class ProductPlan:
    """A kept product C = A B, made by `repro.spgemm(A, B, plan=True)`; threads that use one device take turns.

    For each product of an entry of A and one of B the device keeps where in C's row it is added: a byte, two for rows
    of C with more than 256 entries; besides 8 bytes for each entry of A. Rows of C with more than 2,048 entries, or
    that are the sum of 2²⁰ products or more, are computed as without a plan.

    Attributes
    ----------
    shape : tuple[int, int]
        Rows and columns of C.
    nnz : int
        Entries of C.
    nbytes : int
        Bytes of the plan on the device, without the three matrices.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> import repro
    >>> A = sp.csr_array(np.array([[1.0, 2.0], [0.0, 3.0]]))
    >>> C, plan = repro.spgemm(A, A, "opencl:0", plan=True)
    >>> plan.refill([1.0, 1.0, 1.0], A.data).toarray().tolist()
    [[1.0, 5.0], [0.0, 3.0]]
    """

    def __init__(self, runtime: Runtime, load: Load, factors: Factors, c: Storage, rows: Any) -> None:
        self._runtime, self._load, self._factors, self._c = runtime, load, factors, c
        # copies: a user may sort the columns of what was returned
        self._rows = (rows.indices.astype(np.int32), rows.indptr.copy()) if isinstance(rows, sp.csr_array) else None
        self.shape: tuple[int, int] = c.shape
        self.nnz = int(rows.nnz)
        self._destinations = Destinations(runtime.device, load, factors, c)
        self._held = held = ExitStack()
        keep(held, self._destinations)
        for matrix in (factors.a, factors.b, c):
            matrix.retain()
            keep(held, matrix)
        self._own: Callable[[], None] | None = None
        self._release = finalize(self, _give_back, runtime, held)

    @property
    def nbytes(self) -> int:
        return self._destinations.nbytes

    def refill(self, a_values: Any = None, b_values: Any = None, *, out: Any = None) -> Any:
        """Return the product of matrices with the same patterns and other values.

        Parameters
        ----------
        a_values, b_values
            The values, in the order of the operand in CSR with ascending columns and entries of one place added up: a
            host array, or an array on the device in the product's dtype. None: those of the refill before, at first
            those of the operand. Values on the device are read there and not kept.
        out
            None, or an array on the device in the product's dtype, `(nnz,)`, for the values of C, which the host then
            has no part in.

        Returns
        -------
        csr_array, cupyx.scipy.sparse.csr_matrix or array
            What `repro.spgemm` would return, or `out`. Columns are in the order of the first product, but for rows
            without destinations.

        Raises
        ------
        ReproError
            The values are not as many as the entries, or the plan was released.
        """
        if not self._release.alive:
            raise ReproError("the plan was released", todo="make another by repro.spgemm(A, B, plan=True)")
        if out is not None and self._destinations.unplanned:
            raise ReproError(
                "some rows have no destinations, and may change the order of their columns",
                where="out",
                expected="rows of C with up to 2,048 entries, each of a row of A and rows of B within a plan's limits",
                actual=f"{self._destinations.unplanned:,} longer rows",
                todo="leave `out` out",
            )
        dtype = self._c.dtype
        factors = {"a_values": (self._factors.a, a_values), "b_values": (self._factors.b, b_values)}
        given = {name: self._values(of, values, name) for name, (of, values) in factors.items()}
        into = None if out is None else self._runtime.view(out, "out", dtype, self.nnz, dtype.itemsize, write=True)
        streams = [view.stream for view in (*given.values(), into) if isinstance(view, View)]
        try:
            with self._runtime.after(*streams):
                a, b = (self._given(of, given[name]) for name, (of, _) in factors.items())
                self._launch(a, b, self._c.values if into is None else into.buffer)
                return self._read() if out is None else out
        except OutOfDeviceMemory as error:
            raise self._runtime.no_room(error) from None

    def _values(self, storage: Storage, values: Any, what: str) -> NDArray[np.floating] | View | None:
        """Return checked values: a host array in the product's dtype, or a view of an array on the device."""
        count = int(storage.capacity)
        if values is None:
            return None
        if on_device(values):
            return self._runtime.view(values, what, storage.dtype, count, storage.dtype.itemsize)
        refuse_mask(values, what)
        array = np.asarray(values)
        if array.shape != (count,) or array.dtype.kind not in "fiub":
            raise ReproError(
                "these are no values of the matrix",
                where=what,
                expected=f"{count:,} real numbers, as it has entries",
                actual=f"{array.dtype} of shape {array.shape}",
            )
        todo = "scale them, or make a plan for matrices in float64"
        return np.ascontiguousarray(cast(array, storage.dtype, what, todo, as_vector=True))

    def _given(self, storage: Storage, values: NDArray[np.floating] | View | None) -> Buffer:
        """Return the memory of an operand's values, after values of the host were written there."""
        if isinstance(values, View):
            return values.buffer
        if values is not None and values.size:
            self._runtime.device.write(storage.values, values)
        return storage.values

    def _launch(self, a_values: Buffer, b_values: Buffer, c_values: Buffer) -> None:
        a, b, c = self._factors.a, self._factors.b, self._c
        if a_values is a.values and b_values is b.values and c_values is c.values:
            if self._own is None:
                self._own = self._destinations.bind(self._factors, c, self._held)
            self._own()
            return
        with ExitStack() as held:
            factors = Factors(replace(a, values=a_values), replace(b, values=b_values))
            self._destinations.bind(factors, replace(c, values=c_values), held)()
            if self._destinations.unplanned:
                self._runtime.device.synchronize()  # memory of theirs is released here

    def _read(self) -> Any:
        if self._rows is None:
            return to_cupy(self._runtime, self._load, self._c)
        indices, indptr = (array.copy() for array in self._rows)
        values = np.empty(self.nnz, self._c.dtype)
        if self.nnz:
            self._runtime.device.download(self._c.values, values)
            if self._destinations.unplanned:
                self._runtime.device.download(self._c.columns, indices)
        rows = sp.csr_array((values, indices, indptr), shape=self.shape)
        rows.has_sorted_indices = rows.has_canonical_format = False
        return rows

    def release(self) -> None:
        """Release the memory on the device; a second call has no effect."""
        self._release()

    def __reduce__(self) -> NoReturn:
        raise not_copied(self, "make another by repro.spgemm(A, B, plan=True)")

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"<ProductPlan: {rows} x {columns} with {self.nnz:,} entries, {self._c.dtype}, {self.nbytes:,} bytes>"


def _give_back(runtime: Runtime, held: ExitStack) -> None:
    with runtime.after():
        held.close()
