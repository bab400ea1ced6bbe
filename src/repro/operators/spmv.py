"""A tuned kernel for y = A x as a SciPy `LinearOperator` that also takes arrays on the GPU.

The kernel variant is named by the user, chosen by a measurement campaign, a default, or the fastest of a few variants
that are timed on the matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import cache, cached_property, partial
from itertools import count
from pathlib import Path
from typing import Any, Literal
from weakref import ref

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.bench.campaign_folder import RESULTS
from repro.devices.base import Buffer, OutOfDeviceMemory
from repro.errors import ReproError, ReproErrorOfType, ReproErrorOfValue
from repro.operators.arrays import DeviceArray, View, is_on_device, is_row_major, needs_gradient, shape_of
from repro.operators.base import (
    HOST_PRODUCT,
    OPERATORS,
    Closeable,
    DeviceOperator,
    DirectCall,
    LengthError,
    public,
    public_methods,
    real_number,
    require_choice,
    require_text,
    warn_caller,
)
from repro.operators.iterative_solver import Callback, ChipSolver, PreconditionedSolver
from repro.operators.product import MatrixSource, Product, take_matrix, values_on_host
from repro.operators.runtime import Runtime
from repro.operators.variant_choice import BUDGET, find_fastest, find_variant
from repro.operators.vectors import Vectors
from repro.problems.matrix import Matrix
from repro.sparse.compound.product import Steps
from repro.sparse.device_primitives import keep
from repro.sparse.elementwise import in_order
from repro.sparse.operands import expand
from repro.sparse.pairs import MAX_INDEX
from repro.sparse.solvers.kernels import METHODS
from repro.sparse.symmetry import transposed, transposed_order


class SlowOnCpuWarning(UserWarning):
    """Warns that an operator runs on the CPU, where it is meant to try out code for a GPU."""


_handles = count()


@public_methods
class SpmvOperator(DeviceOperator, Closeable):
    """y = A x by a tuned kernel; made by `repro.operator`.

    Shape and dtype are those of SciPy's matrix: n×m blocks of 3×3 have shape 3n×3m, n×m quaternions 4n×4m, and n×m
    complex numbers n×m with a complex dtype.

    `A.T` and the conjugate transpose `A.H` are operators, made at first use and kept: with the variant that was named,
    or else with the default for their rows. Each takes about as much device memory as the matrix; for real entries,
    `A.T` and `A.H` are one operator. A matrix that equals its transpose bit for bit shares the memory with `A.T` or
    `A.H`. `close`, or the end of a `with` block, frees the memory of the operator and of its transposes. `update`
    replaces the values of all.

    Any thread may use an operator; threads of one device take turns. A copy or pickle contains the matrix and the name
    of the variant, and opens the device with the same name (`cuda:N` or `opencl:N`).

    Attributes
    ----------
    name
        Name of the variant, such as `Sl-32-SoA-AoS/static-256-4`, or of a library's routine, `cuSPARSE CSR ALG1`.
    entry, precision
        Type of the non-zeros, and precision of the product.
    n
        Number of rows, counted in entries (blocks, quaternions or numbers).
    device_name
        Name of the device.
    nbytes
        Bytes of the matrix on the device; 0 after `close`.
    timed
        Seconds of one product by each variant and routine that `tuned="now"` timed on this matrix; empty otherwise.
    """

    def __init__(
        self,
        matrix: MatrixSource,
        product: Product,
        *,
        owns_product: bool = True,
        named: bool = True,
        timed: Mapping[str, float] | None = None,
    ) -> None:
        kind = product.x_vectors.kind
        rows, columns = (count * kind.numbers for count in matrix.shape)
        super().__init__(product.runtime, kind, (rows, columns))
        self._named, self.timed = named, dict(timed or {})
        # transposes, by whether they are conjugated: this operator owns those in `_own_transposes`; `_transposes` also
        # has the one that owns this operator
        self._own_transposes: dict[bool, SpmvOperator] = {}
        self._transposes: dict[bool, ref[SpmvOperator]] = {}
        self._solvers: dict[str, ChipSolver] = {}
        self._form = ""  # how the matrix was turned
        self._handle = next(_handles)
        OPERATORS[self._handle] = self
        # the entry of each entry of the transpose, on the device
        self._transposed_order: Buffer | None = None
        self.name = str(product.id)
        self.entry, self.precision, self.n = matrix.entry, kind.precision, matrix.shape[0]
        self._adopt(matrix, product, owns_product)

    def _adopt(self, matrix: MatrixSource, product: Product, owns_product: bool) -> None:
        """Multiply by a product from now on, which `close` releases if this operator owns it."""
        self._matrix, self._owns_product, self.nbytes = matrix, owns_product, product.nbytes
        #: The short path of A X by the number of columns; None if there is none.
        self._direct_matmat: dict[int, DirectCall | None] = {}
        self._product: Product | None = product
        if not matrix.is_on_host:
            matrix.read = product.read_back
        if product.call is not None:
            kind = self._kind
            entry_bytes = kind.algebra.size * kind.scalar.itemsize
            alignment = min(entry_bytes & -entry_bytes, 16)
            self._direct = DirectCall(product.runtime, product.call, kind.dtype, self.shape, alignment)

    @property
    def _problem(self) -> Matrix:
        return self._matrix.problem

    @cached_property
    def vectors(self) -> Vectors:
        """Vectors on the operator's device, in the user's order: natural order, members of an entry side by side.

        They are as long as x; those of `y_vectors` are as long as y.
        """
        product = self._open()
        return product.x_vectors if product.is_direct else Vectors(self._runtime, self._matrix.shape[1], self._kind)

    @cached_property
    def y_vectors(self) -> Vectors:
        """Vectors as long as y; the same as `vectors` if the matrix is square."""
        product = self._open()
        if self._matrix.square:
            return self.vectors
        return product.y_vectors if product.is_direct else Vectors(self._runtime, self.n, self._kind)

    def _with_gradient(self, x: Any) -> Any:
        import torch

        from repro.torch import spmv

        if self._is_matrix_of_vectors(x):
            return torch.stack([spmv(self, column) for column in x.unbind(1)], 1)
        return spmv(self, x)

    def _is_matrix_of_vectors(self, x: Any) -> bool:
        """Return whether an array is a matrix of vectors, other than one vector of any shape."""
        shape = shape_of(x)
        return len(shape) == 2 and shape[0] == self.shape[1] and shape[1] != 1

    def rmatvec(self, x: Any, out: Any = None, *, stream: int | None = None) -> Any:
        """Return the product with the conjugate transpose, `A.H @ x`; arguments and errors as in `matvec`."""
        return self.H.matvec(x, out, stream=stream)

    def __matmul__(self, x: Any) -> Any:
        if self._direct is not None and (y := self._direct(x)) is not None:
            return y
        return Y if (Y := self._directly(x)) is not None else self.dot(x)

    def dot(self, x: Any) -> Any:
        """Return A x as `matvec` does, or A X as `matmat` does; SciPy handles numbers and operators."""
        if is_on_device(x) and not needs_gradient(x) and self._is_matrix_of_vectors(x):
            return self.matmat(x)
        return super().dot(x)

    def matmat(self, X: Any, out: Any = None, *, stream: int | None = None) -> Any:
        """Return A X.

        One launch multiplies up to 8 columns, so that the matrix is read once for all of them; the kernel for a number
        of columns is compiled at its first use. Layouts that store pairs or renumber unknowns multiply one column after
        the other, and only on the host.

        Parameters
        ----------
        X
            An array `(columns, vectors)`, on the host, or on the device and contiguous, row-major or column-major.
        out, stream
            For X on the device as in `matvec`; `out` is `(rows, vectors)`, and a new one is row-major.

        Raises
        ------
        LengthError
            X or `out` has another shape.
        ReproError
            As in `matvec`; or X is on the device, and the layout cannot multiply several columns.
        """
        if (Y := self._directly(X, out, stream)) is not None:
            return Y
        if needs_gradient(X) and out is None and stream is None and self._is_matrix_of_vectors(X):
            return self._with_gradient(X)
        if is_on_device(X):
            return self._matmat_on_device(X, out, stream)
        if out is not None:
            raise ReproErrorOfType(
                "the product of several vectors on the host is always a new array", where="out", todo="omit `out`"
            )
        return super().matmat(X)

    def rmatmat(self, X: Any, out: Any = None, *, stream: int | None = None) -> Any:
        """Return the product with the conjugate transpose, `A.H @ X`; see `matmat`."""
        return self.H.matmat(X, out, stream=stream)

    def _matmat(self, X: NDArray[Any]) -> NDArray[Any]:
        if X.shape[1] < 2 or not self._open().takes_columns:
            return super()._matmat(X)
        if X.dtype.kind == "c" and self.dtype.kind != "c":
            parts = self._matmat(np.concatenate([X.real, X.imag], axis=1))
            real, imaginary = np.split(parts, 2, axis=1)
            return real + 1j * imaginary
        # each column by itself, as a conversion may lose what is small beside the largest number
        if X.dtype != self.dtype:
            X = np.stack([self._kind.vector(self._kind.members(column, "X")) for column in X.T], axis=1)
        shape = (self.shape[0], X.shape[1])
        row_major = not X.flags.f_contiguous or X.size > MAX_INDEX
        x_host = np.ascontiguousarray(X if row_major else X.T)
        y_host = np.empty(shape, self.dtype)
        x, y = self._runtime.empty(X.shape, self.dtype), self._runtime.empty(shape, self.dtype)
        with self._ordered(reads=HOST_PRODUCT):
            self._queue.write(x.buffer, x_host)
            self._multiply_columns(x.buffer, y.buffer, shape[1], row_major, True)
            self._queue.download(y.buffer, y_host)
        return y_host

    def _matmat_on_device(self, X: Any, out: Any, stream: int | None) -> Any:
        rows, columns = self.shape
        shape = shape_of(X)
        if len(shape) != 2 or shape[0] != columns:
            raise LengthError("X has the wrong shape", where="X", expected=f"({columns}, vectors)", actual=shape)
        y_shape = (rows, shape[1])
        if out is not None and (not is_on_device(out) or shape_of(out) != y_shape):
            actual = shape_of(out) if is_on_device(out) else "an array on the host"
            raise LengthError(
                "out has the wrong shape", where="out", expected=f"{y_shape} on the device", actual=actual
            )
        if shape[1] == 1:
            return self.matvec(X, out, stream=stream)
        if not self._open().takes_columns:
            raise ReproErrorOfValue(
                "this variant cannot multiply several vectors on the device",
                where=self.name,
                todo="multiply each with `matvec`, copy them to the host, or name a variant in natural order without "
                'pairs, such as "default"',
            )
        library = self._runtime.libraries[type(X)]
        if out is not None:
            y = out
        else:
            y = self._runtime.empty(y_shape, self.dtype) if library is None else library.empty(X, y_shape, self.dtype)
        (x_view, x_rows), (y_view, y_rows) = self._matrix_view(X, "X", stream), self._matrix_view(y, "out", stream)

        def multiply() -> None:
            if shape[1]:
                self._multiply_columns(x_view.buffer, y_view.buffer, shape[1], x_rows, y_rows)

        product = self._queued(x_view, y_view, library, y, out, stream, multiply)
        if shape[1] not in self._direct_matmat:
            self._make_direct(shape[1])
        return product

    def _directly(self, X: Any, out: Any = None, stream: int | None = None) -> Any:
        """Return A X by the short path; None if the arrays do not fit, or a width is multiplied for the first time."""
        shape: Any = getattr(X, "shape", ()) if self._direct_matmat else ()
        if len(shape) != 2 or shape[0] != self.shape[1]:
            return None
        direct = self._direct_matmat.get(shape[1])
        if direct is None or (out is not None and getattr(out, "shape", None) != (self.shape[0], shape[1])):
            return None
        return direct(X, out, stream)

    def _make_direct(self, vectors: int) -> None:
        """Prepare the short path for X of as many columns, once they were multiplied."""
        if vectors < 2 or self._runtime.captures():  # a graph that is being captured cannot load a kernel
            return
        with self._ordered():
            call = None
            with suppress(OutOfDeviceMemory):  # the general way needs no memory for further streams
                call = self._open().columns_call(vectors, *self._steps(vectors, True, True))
            self._direct_matmat[vectors] = (
                DirectCall(self._runtime, call, self.dtype, self.shape, self.dtype.itemsize, vectors) if call else None
            )

    def _matrix_view(self, X: Any, subject: str, stream: int | None) -> tuple[View, bool]:
        """Return the memory of a matrix on the device, and whether it is row-major; else it is column-major."""
        row_major = is_row_major(X, subject)
        write = subject == "out"
        size = math.prod(shape_of(X))
        if not row_major and size > MAX_INDEX:
            raise ReproErrorOfValue(
                "a column-major matrix is too large for 32-bit strides",
                where=subject,
                expected=f"at most {MAX_INDEX:,} numbers",
                actual=f"{size:,}",
                todo="pass a row-major matrix",
            )
        rows = X if row_major else X.T
        view = self._runtime.view(rows, subject, self.dtype, size, self.dtype.itemsize, write, stream)
        return view, row_major

    def _multiply_columns(self, x: Buffer, y: Buffer, count: int, x_row_major: bool, y_row_major: bool) -> None:
        self._open().multiply_columns(x, y, count, *self._steps(count, x_row_major, y_row_major))

    def _steps(self, count: int, x_row_major: bool, y_row_major: bool) -> tuple[Steps, Steps]:
        parts = self.dtype.itemsize // self._kind.scalar.itemsize
        rows, columns = self.shape
        return (
            Steps.of((columns, count), parts, row_major=x_row_major),
            Steps.of((rows, count), parts, row_major=y_row_major),
        )

    def solver(self, method: Literal["cg", "bicgstab"] = "cg") -> ChipSolver:
        """Return a persistent solver with a copy of the matrix; it is made at first use and kept until it is closed."""
        require_choice(method, "method", METHODS)
        with self._runtime.after():  # the lock lets only one thread make the solver
            self._open()
            solver = self._solvers.get(method)
            if solver is None or solver.closed:
                solver = chip_solver(self._runtime, self._problem, self.precision, method)
                self._solvers[method] = solver
            return solver

    def solve(
        self,
        b: Any,
        x0: Any = None,
        *,
        rtol: float = 1e-8,
        atol: float = 0.0,
        maxiter: int | None = None,
        M: Any = None,
        callback: Callback | None = None,
        method: Literal["cg", "bicgstab"] = "cg",
        return_info: bool = False,
    ) -> Any:
        """Return the solution of A x = b; arguments, errors and warnings as for `repro.solve`."""
        with self._runtime.after():  # no other thread can update the matrix, and so close the solver, in between
            if M is None:
                return self.solver(method)._solve(b, x0, rtol, atol, maxiter, callback, return_info)
            with self._preconditioned_solver(M, method) as preconditioned:
                return preconditioned.solve(b, x0, rtol, atol, maxiter, callback, return_info)

    def _require_idle(self) -> None:
        """Raise `ReproError` in the callback of a solve with this operator, or with a transpose that it owns."""
        self._runtime.require_idle(self, *self._solvers.values())
        for transpose in self._own_transposes.values():
            transpose._require_idle()

    def _preconditioned_solver(self, M: Any, method: str) -> PreconditionedSolver:
        self._open()
        return PreconditionedSolver(self, self._problem, self.vectors, M, method)

    @property
    def nnz(self) -> int:
        """Number of stored numbers, as of `to_scipy()`: of a 3×3 block 9, of a quaternion 16."""
        self._open()
        return self._matrix.nnz * self._kind.numbers**2

    def to_scipy(self) -> sp.csr_array | sp.bsr_array:
        """Return a copy of the matrix on the host: CSR, or BSR for blocks and quaternions, with sorted columns."""
        self._open()
        problem = self._problem
        values = problem.values.astype(self._kind.scalar)
        if self.entry == "complex":
            numbers = np.ascontiguousarray(values).view(self.dtype)[:, 0]
            return sp.csr_array((numbers, problem.indices.copy(), problem.indptr.copy()), shape=problem.shape)
        expanded = expand(problem, values).astype(self.dtype).copy()
        return expanded if self._kind.numbers > 1 else expanded.tocsr()

    def diagonal(self, k: int = 0) -> NDArray[Any]:
        """Return the k-th diagonal as a NumPy array, as SciPy's matrices do."""
        diagonal: NDArray[Any] = self.to_scipy().diagonal(k)
        return diagonal

    def close(self) -> None:
        """Free the memory of the matrix, of its transposes and solvers; the operator cannot be used afterwards."""
        with self._runtime.after():  # holds the lock, so no other thread is in the middle of a product
            self._require_idle()
            product, self._product, self._direct = self._product, None, None
            self._direct_matmat = {}
            self.closed, self.nbytes = True, 0
            for transpose in self._own_transposes.values():
                transpose.close()
            self._own_transposes.clear()
            self._close_solvers()
            if product is not None:
                if self._owns_product:
                    product.release()
                self._runtime.device.synchronize()  # the staging arrays are freed next
                if self._transposed_order is not None:
                    self._transposed_order.release()
                    self._transposed_order = None
                for name in ("_staging", "_ordered_vectors"):
                    self.__dict__.pop(name, None)

    def _close_solvers(self) -> None:
        for solver in self._solvers.values():
            solver.close()
        self._solvers.clear()

    def update(self, values: Any, *, stream: int | None = None) -> None:
        """Replace the values of the matrix, whose pattern stays.

        Transposes that were taken before change too. Solvers of the operator are closed; `solver` makes new ones. On a
        GPU, the update is ordered with the work of the current streams of CuPy and PyTorch, or of `stream`; products on
        other streams have to be finished before, and started after it. Variants that store pairs or renumber unknowns
        are packed anew on the host.

        Parameters
        ----------
        values
            The values of all entries in CSR order, with ascending columns and duplicates added: `(nnz,)`, for 3×3
            blocks `(nnz, 3, 3)`, for quaternions w, x, y, z `(nnz, 4)`, or as many in another shape. An array on the
            host, finite, whose numbers fit into the operator's dtype; or a contiguous array on the device, of this
            dtype, whose numbers are not checked.
        stream
            Handle of the CUDA stream that computed `values`; None as in `matvec`.

        Raises
        ------
        ReproError
            The array has another size or dtype; a number on the host is NaN or infinite; the matrix stores no values;
            or the variant stores pairs, and the matrix would not be symmetric. The matrix is unchanged then.
        """
        runtime, scalar = self._runtime, self._kind.scalar
        members = len(self._kind.algebra.members)
        if not members:
            raise ReproErrorOfValue("the matrix stores no values", where=repr(self), actual="the entry `pattern`")
        count = self._matrix.nnz * members * scalar.itemsize // self.dtype.itemsize
        given: NDArray[Any] | View
        if is_on_device(values):
            given = runtime.view(values, "values", self.dtype, count, scalar.itemsize, stream=stream)
        else:
            given = values_on_host(values, count, self.dtype)
        streams = runtime.libraries.streams(runtime.ordinal) if stream is None else {stream}
        if isinstance(given, View) and given.stream is not None:
            streams.add(given.stream)
        reads = not isinstance(given, View) or not self._open().can_fill or bool(self._living_transposes())
        try:
            with runtime.after(*streams, reads="an update" if reads else None), ExitStack() as temporaries:
                self._open()
                if isinstance(given, View):
                    buffer = given.buffer
                else:
                    buffer = keep(temporaries, runtime.device.allocate_ordered(given.nbytes))
                    runtime.device.write(buffer, given)
                changes: dict[SpmvOperator, Callable[[], None]] = {}
                self._plan_update(buffer, temporaries, changes)
                for operator in changes:
                    operator._require_idle()
                former = {operator._open() for operator in changes}
                for change in changes.values():
                    change()
                retired = former - {operator._open() for operator in changes}
                if retired or runtime.device.backend != "cuda":
                    runtime.device.synchronize()
                for product in retired:
                    product.release()
        except OutOfDeviceMemory as error:
            raise runtime.out_of_memory_error(error) from None

    def _living_transposes(self) -> list[tuple[bool, SpmvOperator]]:
        """Return whether each transpose that was taken is conjugated, and the transpose."""
        transposes = ((conjugate, reference()) for conjugate, reference in self._transposes.items())
        return [(conjugate, each) for conjugate, each in transposes if each is not None and not each.closed]

    def _plan_update(
        self,
        values: Buffer,
        temporaries: ExitStack,
        changes: dict[SpmvOperator, Callable[[], None]],
        shared: tuple[MatrixSource, Product] | None = None,
        separate: bool = False,
    ) -> None:
        """Prepare new values on the device for this operator and its transposes, as functions in `changes`.

        `temporaries` releases memory that they use. `shared` is what the operator goes on to share with its transpose;
        `separate`: it shared a product, and has to have one of its own.
        """
        product, own = self._open(), shared
        if own is None and product.can_fill and not separate:
            product.prepare_filling(self._matrix)

            def fill() -> None:
                product.fill(values)
                self._matrix.values_changed(product.read_back)
                self._close_solvers()

            changes[self] = fill
        else:
            if own is None:
                source = MatrixSource(self._with_values(values))
                with source:
                    own = source, Product(self._runtime, source, self.precision, product.id)

            def exchange(new: tuple[MatrixSource, Product] = own) -> None:
                self._adopt(*new, self._owns_product or separate)
                self._close_solvers()

            changes[self] = exchange
        for conjugate, transpose in self._living_transposes():
            if transpose in changes:
                continue
            if self._transposed_order is None:
                self._transposed_order = self._runtime.device.upload(transposed_order(self._problem)[2])
            adjoint = conjugate or self.entry != "complex"
            transposed_values = product.transposed_values(self._transposed_order, values, temporaries, adjoint=adjoint)
            if transpose._product is not product:
                transpose._plan_update(transposed_values, temporaries, changes)
            elif product.are_equal(values, transposed_values):
                transpose._plan_update(transposed_values, temporaries, changes, shared=own or (self._matrix, product))
            else:  # this operator keeps what both shared
                changes[self] = in_order([changes[self], partial(setattr, self, "_owns_product", True)])
                transpose._plan_update(transposed_values, temporaries, changes, separate=True)

    def _with_values(self, values: Buffer) -> Matrix:
        """Return the matrix on the host with other values, which lie on the device."""
        problem = self._problem
        array = np.empty(problem.values.shape, self._kind.scalar)
        self._runtime.device.download(values, array)
        return replace(problem, values=array.astype(np.float64, copy=False), statistics={})

    def __rmul__(self, x: Any) -> Any:
        """Return `x A`, which is `A.T x`, for a device array x; SciPy handles other arguments."""
        return self.T.matvec(x) if is_on_device(x) else super().__rmul__(x)

    def _transpose(self) -> SpmvOperator:
        return self._transposed(self.dtype.kind != "c")

    def _adjoint(self) -> SpmvOperator:
        return self._transposed(True)

    def _transposed(self, conjugate: bool) -> SpmvOperator:
        """Return the transpose, conjugated or not; for real entries callers always pass True, so only one is made."""
        with self._runtime.after():  # the lock lets only one thread make the transpose
            product, reference = self._open(), self._transposes.get(conjugate)
            transpose = None if reference is None else reference()
            if transpose is None or transpose.closed:
                matrix = transposed(self._problem, conjugate=conjugate)
                if matrix is self._problem:
                    transpose = SpmvOperator(self._matrix, product, owns_product=False, named=self._named)
                else:
                    with MatrixSource(matrix) as source:
                        id = product.id
                        if not self._named:  # its rows may need another one
                            id = find_variant("default", source, self.precision, self._runtime.device.target)
                        operands = Product(self._runtime, source, self.precision, id)
                        transpose = SpmvOperator(source, operands, named=self._named)
                transpose._form = "adjoint" if conjugate and self.dtype.kind == "c" else "transposed"
                transpose._transposes[conjugate] = ref(self)  # weak: the last reference to `self` frees both
                self._own_transposes[conjugate] = transpose
                self._transposes[conjugate] = ref(transpose)
            return transpose

    def _open(self) -> Product:
        if self._product is None:
            raise ReproError("the operator is closed", where=repr(self), todo="create a new one")
        return self._product

    def _require_open(self) -> None:
        self._open()

    def __reduce__(self) -> tuple[Any, ...]:
        words = str(self._open().id), self.precision, self._runtime.words
        return _unpickle, (self._problem, *words, self._named, self._form)

    def _multiply(self, x: Any, y: Any) -> None:
        product = self._open()
        if product.call is not None:
            product.call(self._runtime.stream, x.buffer.pointer, y.buffer.pointer)
            return
        if product.is_direct:
            product.bind(x.buffer, y.buffer)()
            return
        ordered_x, ordered_y = self._ordered_vectors
        product.x_vectors.arrange(x.buffer, ordered_x.buffer)
        product.bind(ordered_x.buffer, ordered_y.buffer)()
        product.y_vectors.restore(ordered_y.buffer, y.buffer)

    @cached_property
    def _ordered_vectors(self) -> tuple[DeviceArray, DeviceArray]:
        """Temporary x and y in the order of the layout, used if this differs from the user's order."""
        product = self._open()
        return product.x_vectors.empty(), product.y_vectors.empty()

    def __repr__(self) -> str:
        size = "x".join(map(str, self.shape))
        place = ", closed" if self.closed else f" on {self.device_name}"
        choice = f", fastest of {len(self.timed)} timed" if self.timed else ""
        form = f"{self._form} " if self._form else ""
        return f"<{size} {form}{type(self).__name__}: {self.entry}, {self.name}{choice}{place}>"


@public
def operator(
    matrix: Any,
    tuned: str = "default",
    *,
    budget: float = BUDGET,
    entry: str | None = None,
    precision: str | None = None,
    device: str = "auto",
    results: Path | str = str(RESULTS),
) -> SpmvOperator:
    """Return a matrix as a SciPy `LinearOperator` with a tuned kernel.

    Parameters
    ----------
    matrix
        A SciPy sparse matrix or array, square or rectangular, a sparse matrix of CuPy, a sparse tensor of PyTorch,
        another with `indptr`, `indices`, `data` and `shape`, such as JAX's BCSR, or a `repro.problems.matrix.Matrix`.
        The entry type of real BSR with 3×3 blocks is `block3`; with 4×4 blocks it is `quaternion`, and each block must
        be the matrix of a quaternion. The entry type of other matrices is `real` or `complex`. Rectangular matrices are
        refused by variants that store pairs, that renumber the unknowns, or whose vectors are in SoA order, unless an
        entry of a vector is one number. CSR of CuPy or PyTorch on a GPU is read there, if entries are `real` or
        `complex`, and never passes the host unless the variant clusters or renumbers rows, or stores pairs; other
        matrices of theirs are converted on the host. The operator has a copy: later changes of the matrix do not change
        it.
    tuned
        `default`: a variant chosen by row lengths; set-up only packs the matrix. The name of a variant, as
        `Sl-32-SoA-AoS/static-256-4`. `campaign:problem`, such as `h200:fem/nut_37k`: what a campaign chose for a
        similar problem, among layouts that take a user's vectors as they are. `now`: time cuSPARSE's routines and a few
        variants on this matrix, and take the fastest. `cuSPARSE CSR ALG1` or `cuSPARSE CSR ALG2`: that routine.
    budget
        Seconds that `now` takes besides compiling. The default variant is always timed; another one only if it is
        expected to end in time.
    entry
        `real`, `complex`, `quaternion`, `block3` or `pattern`; None: found from the matrix. For example, `block3` for a
        3n×3n matrix in CSR, or `pattern` for a matrix of ones, whose values are then not stored.
    precision
        `single` or `double`; None: the precision of the values.
    device
        `auto` (the GPU on which the matrix lies, else a GPU if there is one, else the CPU through OpenCL), `cuda:N` or
        `opencl:N`.
    results
        Folder of the campaigns.

    Raises
    ------
    ReproError
        The matrix, variant or device cannot be used, there is no compiler, or there is not enough memory.

    Warns
    -----
    SlowOnCpuWarning
        The device is the CPU; given once per process.
    """
    require_text(tuned, "tuned")
    require_text(results, "results")
    budget = real_number(budget, "budget", 0.0)
    source, precision, runtime = take_matrix(matrix, entry, precision, device)
    with source:
        if runtime.device.backend == "opencl":
            _warn_of_slow_cpu()
        if tuned == "now":
            product, timed = find_fastest(runtime, source, precision, budget)
            return SpmvOperator(source, product, named=False, timed=timed)
        id = find_variant(tuned, source, precision, runtime.device.target, Path(results))
        return SpmvOperator(source, Product(runtime, source, precision, id), named=tuned != "default")


def default_operator(runtime: Runtime, problem: Matrix, precision: str) -> SpmvOperator:
    """Return an operator of a matrix by the default variant, without a warning that the CPU is slow."""
    with MatrixSource(problem) as source:
        id = find_variant("default", source, precision, runtime.device.target)
        return SpmvOperator(source, Product(runtime, source, precision, id), named=False)


def chip_solver(runtime: Runtime, problem: Matrix, precision: str, method: Literal["cg", "bicgstab"]) -> ChipSolver:
    @contextmanager
    def preconditioned(M: Any) -> Iterator[PreconditionedSolver]:
        with default_operator(runtime, problem, precision) as A, A._preconditioned_solver(M, method) as solver:
            yield solver

    return ChipSolver(runtime, problem, precision, method, preconditioned)


def _unpickle(problem: Matrix, name: str, precision: str, device: str, named: bool, form: str = "") -> SpmvOperator:
    unpickled = operator(problem, name, precision=precision, device=device)
    unpickled._named, unpickled._form = named, form
    return unpickled


@cache
def _warn_of_slow_cpu() -> None:
    """Warn that the CPU is slow, once per process, since the cached function runs only once."""
    warn_caller(
        "the operator runs on the CPU, which is only for trying out code for a GPU: docs/operator.md compares times "
        "with SciPy's on one CPU, `repro best` prints those of a campaign",
        SlowOnCpuWarning,
    )
