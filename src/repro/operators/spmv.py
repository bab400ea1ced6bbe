"""A tuned kernel for y = A x as a SciPy `LinearOperator` that also takes arrays on the GPU, and `repro.solve`.

The kernel variant is named by the user, chosen by a measurement campaign, a default, or the fastest of a few variants
that are timed on the matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import cache, cached_property, partial
from itertools import count
from pathlib import Path
from typing import Any, Literal
from weakref import WeakValueDictionary, ref

import numpy as np
from numpy.typing import NDArray

from repro.bench.campaign_folder import RESULTS
from repro.codegen.targets import DTYPES, Target
from repro.config.validation_errors import nearest
from repro.devices.base import Buffer, OutOfDeviceMemory
from repro.entries import get_entry
from repro.errors import ReproError, ReproErrorOfType, ReproErrorOfValue, Unsupported, argument_errors
from repro.export.campaign_choice import EXPORTED_STUDY, exported_variant, find_campaign_choice
from repro.operators.arrays import DeviceArray, VectorType, View, is_on_device, is_row_major, needs_gradient, shape_of
from repro.operators.base import (
    Closeable,
    DeviceOperator,
    LengthError,
    one_of,
    public,
    public_methods,
    text,
    warn_caller,
)
from repro.operators.calls import DirectCall
from repro.operators.device_exchange import CUPYS_MATRICES, cupy_device, cupys_rows, is_from_module
from repro.operators.persistent_solver import ChipSolver
from repro.operators.runtime import KERNELS, Runtime, open_runtime
from repro.operators.scipy_matrices import as_problem
from repro.operators.vectors import Vectors
from repro.problems.matrix import Matrix
from repro.sparse.compound.kernels import TEMPLATES, columns_schedule, render_module, split_columns
from repro.sparse.compound.product import CompoundProduct, Steps, pack_layout, require_suitable, vector_entry_bytes
from repro.sparse.compound.variants import DEFAULT, DEFAULTS, VariantId
from repro.sparse.device_primitives import keep
from repro.sparse.ordering import permutation, reorder
from repro.sparse.pairs import MAX_INDEX
from repro.sparse.solvers.kernels import METHODS
from repro.sparse.symmetry import symmetry_of, transposed
from repro.sparse.tuning_features import OPERATOR, WINNERS


class Product:
    """A matrix on the device, and the compiled kernel of one variant.

    `x_vectors` and `y_vectors` make vectors in the order that the layout requires. `is_direct`: whether users' vectors
    already have this order (AoS, unknowns not renumbered). `nbytes`: bytes of the matrix in the layout. `call` is the
    product on any stream, or None (`CompoundProduct.bind_call`). It raises `ReproError` if the kernel cannot be
    compiled, or if the matrix does not suit the variant.
    """

    def __init__(self, runtime: Runtime, matrix: Matrix, precision: str, id: VariantId) -> None:
        self.runtime, self.id, layout = runtime, id, id.layout
        kind, device = VectorType(matrix.entry, precision), runtime.device
        with argument_errors():
            source = render_module(KERNELS, matrix.entry, precision, layout, [id.schedule], device.target, "operator")
        self._entry, self._precision = matrix.entry, precision
        name = f"{TEMPLATES}/{matrix.entry}-{precision}/{layout.stored}-{id.schedule}"
        program = runtime.program(source, name)
        with ExitStack() as stack:
            try:
                require_suitable(matrix, layout)
                rows = None if layout.unknowns == "natural" else permutation(matrix, layout.unknowns)
                ordered = matrix if rows is None else reorder(matrix, rows)
                values = ordered.values.astype(kind.scalar, copy=False)
                packed = pack_layout(
                    ordered, values, layout, device.target.warp,
                    lambda: symmetry_of(ordered, values), lambda: permutation(matrix, "bisected"),
                )  # fmt: skip
                with runtime.after():
                    arrays = {name: keep(stack, device.upload(array)) for name, array in packed.arrays.items()}
                    self._compound_product = partial(
                        CompoundProduct, facts=packed.facts, arrays=arrays, n=matrix.n,
                        entry_bytes=vector_entry_bytes(layout, kind.algebra.size, kind.scalar.itemsize),
                        counter=keep(stack, device.allocate(4)),
                    )  # fmt: skip
                    self._product = self._compound_product(device, program, id)
            except OutOfDeviceMemory as error:
                raise runtime.out_of_memory_error(error) from None
            except Unsupported as error:
                raise ReproErrorOfValue(
                    "the variant cannot hold the matrix", where=id, actual=error, todo="choose another variant"
                ) from None
            self._memory = stack.pop_all()
        #: Whether several columns are multiplied in one launch.
        self.takes_columns = rows is None and not layout.stores_pairs
        self._products_of_columns: dict[int, CompoundProduct] = {}
        self.nbytes = self._product.nbytes
        self.is_direct = rows is None and layout.vector == "AoS"
        self.call = self._product.bind_call() if self.is_direct else None
        self.y_vectors = Vectors(runtime, matrix.n, kind, layout.vector, rows)
        self.x_vectors = (
            self.y_vectors if matrix.square else Vectors(runtime, matrix.shape[1], kind, layout.vector, rows)
        )

    def bind(self, x: Buffer, y: Buffer) -> Callable[[], None]:
        """Return a launch of y = A x on the device's own queue."""
        return self._product.bind(x, y)

    def multiply_columns(self, x: Buffer, y: Buffer, count: int, x_steps: Steps, y_steps: Steps) -> None:
        """Queue Y = A X for `count` ≥ 2 columns, if `takes_columns`; the first such product of a width compiles."""
        width, starts = split_columns(count, self.x_vectors.kind.algebra.size)
        product = self._products_of_columns.get(width)
        if product is None:
            target = self.runtime.device.target
            id = replace(self.id, schedule=columns_schedule(self.id.schedule, target))
            with argument_errors():
                source = render_module(
                    KERNELS, self._entry, self._precision, id.layout, [id.schedule], target, "operator", columns=width
                )
            name = f"{TEMPLATES}/{self._entry}-{self._precision}/{id.layout.stored}-{id.schedule}-{width}-columns"
            product = self._compound_product(self.runtime.device, self.runtime.program(source, name), id)
            self._products_of_columns[width] = product
        for first in starts:
            product.bind_columns(x, y, first, x_steps, y_steps)()

    def release(self) -> None:
        """Wait for the device and release the matrix's memory."""
        if self.call is not None:
            self.call.close()
        self.runtime.device.synchronize()
        self._memory.close()


#: Default on the CPU, which runs the threads of a block in sequence, so a block's rows are contiguous for caching.
CPU_DEFAULT = "CSR-AoS-AoS/direct-64-3"
#: Variants that `tuned="now"` times in addition to the default. They were chosen greedily to reduce the mean slowdown
#: in the campaign `h200`, among variants that run on every GPU. On the campaign's problems, the fastest of these
#: variants and the default is on average 3 %, at most 12 %, slower than the fastest of all variants.
QUICK = (
    "Sl-8-AoSoA-AoS@clustered/chunk-512-2-w4",
    "Sl-8-AoSoA-AoS@clustered/chunk-512-2-w4-u2-cs",
    "CSR-AoSoA-AoS/direct-64-8-w32-u4",
    "Sl-8-AoSoA-AoS@clustered/direct-256-4-w4",
    "CSR-AoSoA-AoS@clustered/direct-64-16-w8-u2-cs",
    "CSR-AoSoA-AoS/direct-256-4-w32",
    "Sl-8-AoSoA-AoS/direct-128-8-w4",
    "Sl-8-AoSoA-AoS@clustered/chunk-512-2-w2",
)
#: Further variants that `tuned="now"` times for symmetric matrices; they were not chosen by a campaign. They store
#: pairs in tiles of middle size, with one or two threads per row, and with or without the cache hint for data read
#: once.
QUICK_PAIRS = (
    "Pairs-128-AoSoA-AoS@clustered/direct-128-8-u2-cs",
    "Pairs-128-AoSoA-AoS@clustered/direct-256-4-w2-u2",
)
CPU_QUICK = ("Sl-16-AoS-AoS/static-64-3", "Sl-16-SoA-AoS/direct-64-3", "ELL-SoA-AoS/static-64-3")
CPU_QUICK_PAIRS: tuple[str, ...] = ()
#: Launches per graph and replays of the graph, by which `find_fastest` times a variant.
LAUNCHES, REPLAYS = 20, 5


#: What `tuned` may be.
CHOICES = "default, now, CAMPAIGN:PROBLEM, or a variant such as Sl-32-SoA-AoS/static-256-4"


@argument_errors()
def find_variant(tuned: str, problem: Matrix, precision: str, target: Target, results: Path = RESULTS) -> VariantId:
    """Return the variant that a user's argument `tuned` selects.

    `tuned` is the name of a variant such as `Sl-32-SoA-AoS/static-256-4`, or `default`, or `campaign:problem`. The
    latter is the variant that a campaign in the folder `results` chose for a problem among those that use vectors in a
    user's order; if its records lack this choice, the fastest of all variants.

    Raises
    ------
    ReproError
        The name or the campaign's choice is unknown, the campaign's problem has another entry type, or the target
        cannot run the schedule.
    """
    if tuned == "default":
        on_gpu = target.dialect == "cuda"
        tuned = DEFAULTS.get((problem.entry, precision), DEFAULT) if on_gpu else CPU_DEFAULT
    elif near := nearest(tuned, ("default", "now")):
        raise ReproErrorOfValue(
            "unknown choice of a kernel",
            expected=CHOICES,
            actual=f"{tuned}; did you mean {near}?",
        )
    elif ":" in tuned:
        campaign, _, name = tuned.partition(":")
        choice = find_campaign_choice(
            results, campaign, EXPORTED_STUDY, name, precision, preferred=(OPERATOR, *WINNERS)
        )
        if choice.entry != problem.entry:
            raise ReproErrorOfValue(
                "the campaign's problem has another entry",
                where=tuned,
                expected=problem.entry,
                actual=choice.entry,
                todo="name a problem like this matrix",
            )
        tuned = choice.name
    elif "-" not in tuned:  # no layout has such a name
        raise ReproErrorOfValue("unknown choice of a kernel", expected=CHOICES, actual=tuned)
    return exported_variant(tuned, target)


def find_fastest(runtime: Runtime, problem: Matrix, precision: str) -> VariantId:
    """Time the default and a few other variants on this matrix, which takes seconds, and return the fastest.

    Variants that do not fit the matrix or the device are skipped. If no variant fits, the default is returned; its use
    then raises an error with the reason. Pair formats are tried only for symmetric matrices.
    """
    target = runtime.device.target
    seconds: dict[VariantId, float] = {}
    for name in ("default", *_quick(problem, precision, target)):
        with suppress(ReproError, Unsupported, MemoryError):
            id = find_variant(name, problem, precision, target)
            seconds[id] = _seconds(Product(runtime, problem, precision, id))
    return min(seconds, key=seconds.__getitem__) if seconds else find_variant("default", problem, precision, target)


def _quick(problem: Matrix, precision: str, target: Target) -> tuple[str, ...]:
    quick, pairs = (QUICK, QUICK_PAIRS) if target.dialect == "cuda" else (CPU_QUICK, CPU_QUICK_PAIRS)
    if not pairs or not get_entry(problem.entry).members:
        return quick
    symmetric = symmetry_of(problem, problem.values.astype(DTYPES[precision], copy=False)).kind
    return quick + pairs if symmetric else quick


def _seconds(product: Product) -> float:
    device = product.runtime.device
    x, y = product.x_vectors.zeros(), product.y_vectors.zeros()
    with product.runtime.after():
        launch = product.bind(x.buffer, y.buffer)
        launch()
        return float(np.median(device.time_graph(launch, LAUNCHES, REPLAYS)))


class SlowOnCpuWarning(UserWarning):
    """Warns that an operator runs on the CPU, where it is meant to try out code for a GPU."""


#: Operators by the number that stands for one in PyTorch's graphs, which hold no Python objects.
OPERATORS: WeakValueDictionary[int, SpmvOperator] = WeakValueDictionary()
_handles = count()


@public_methods
class SpmvOperator(DeviceOperator, Closeable):
    """y = A x by a tuned kernel; made by `repro.operator`.

    Shape and dtype are those of SciPy's matrix: n×m blocks of 3×3 have shape 3n×3m, n×m quaternions 4n×4m, and n×m
    complex numbers n×m with a complex dtype.

    `A.T` and the conjugate transpose `A.H` are operators with the same variant, made at first use and kept. Each takes
    as much device memory as the matrix; for real entries, `A.T` and `A.H` are one operator. A matrix that equals its
    transpose bit for bit is its own `A.T` or `A.H`. `close`, or the end of a `with` block, frees the memory of the
    operator and of its transposes.

    Any thread may use an operator; threads of one device take turns. A copy or pickle contains the matrix and the name
    of the variant, and opens the device with the same name (`cuda:N` or `opencl:N`).

    Attributes
    ----------
    name
        Name of the variant, such as `Sl-32-SoA-AoS/static-256-4`.
    entry, precision
        Type of the non-zeros, and precision of the product.
    n
        Number of rows, counted in entries (blocks, quaternions or numbers).
    device_name
        Name of the device.
    nbytes
        Bytes of the matrix on the device; 0 after `close`.
    """

    def __init__(self, problem: Matrix, product: Product) -> None:
        kind = product.x_vectors.kind
        rows, columns = (count * kind.numbers for count in problem.shape)
        super().__init__(product.runtime, kind, (rows, columns))
        self._problem = problem
        self._product: Product | None = product
        # transposes, by whether they are conjugated: this operator owns those in `_own_transposes`; `_transposes` also
        # has the one that owns this operator
        self._own_transposes: dict[bool, SpmvOperator] = {}
        self._transposes: dict[bool, ref[SpmvOperator]] = {}
        self._solvers: dict[str, ChipSolver] = {}
        self._handle = next(_handles)
        OPERATORS[self._handle] = self
        if product.call is not None:
            entry_bytes = kind.algebra.size * kind.scalar.itemsize
            alignment = min(entry_bytes & -entry_bytes, 16)
            self._direct = DirectCall(product.runtime, product.call, kind.dtype, (rows, columns), alignment)
        self.name = str(product.id)
        self.entry, self.precision, self.n, self.nbytes = problem.entry, kind.precision, problem.n, product.nbytes

    @cached_property
    def vectors(self) -> Vectors:
        """Vectors on the operator's device, in the user's order: natural order, members of an entry side by side.

        They are as long as x; those of `y_vectors` are as long as y.
        """
        product = self._open()
        return product.x_vectors if product.is_direct else Vectors(self._runtime, self._problem.shape[1], self._kind)

    @cached_property
    def y_vectors(self) -> Vectors:
        """Vectors as long as y; the same as `vectors` if the matrix is square."""
        product = self._open()
        if self._problem.square:
            return self.vectors
        return product.y_vectors if product.is_direct else Vectors(self._runtime, self.n, self._kind)

    def _with_gradient(self, x: Any) -> Any:
        import torch

        from repro.torch import spmv

        if self._is_several(x):
            return torch.stack([spmv(self, column) for column in x.unbind(1)], 1)
        return spmv(self, x)

    def _is_several(self, x: Any) -> bool:
        """Return whether an array is a matrix of vectors, other than one vector of any shape."""
        shape = shape_of(x)
        return len(shape) == 2 and shape[0] == self.shape[1] and shape[1] != 1

    def rmatvec(self, x: Any, out: Any = None, *, stream: int | None = None) -> Any:
        """Return the product with the conjugate transpose, `A.H @ x`; arguments and errors as in `matvec`."""
        return self.H.matvec(x, out, stream=stream)

    def dot(self, x: Any) -> Any:
        """Return A x as `matvec` does, or A X as `matmat` does; SciPy handles numbers and operators."""
        if is_on_device(x) and not needs_gradient(x) and self._is_several(x):
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
        if needs_gradient(X) and out is None and stream is None and self._is_several(X):
            return self._with_gradient(X)
        if is_on_device(X):
            return self._matmat_on_device(X, out, stream)
        if out is not None:
            raise ReproErrorOfType(
                "the product of several vectors on the host is a new array", where="out", todo="leave `out` out"
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
        with self._ordered():
            self._queue.write(x.buffer, x_host)
            self._multiply_columns(x.buffer, y.buffer, shape[1], row_major, True)
            self._queue.download(y.buffer, y_host)
        return y_host

    def _matmat_on_device(self, X: Any, out: Any, stream: int | None) -> Any:
        rows, columns = self.shape
        shape = shape_of(X)
        if len(shape) != 2 or shape[0] != columns:
            raise LengthError("X has another shape", where="X", expected=f"({columns}, vectors)", actual=shape)
        y_shape = (rows, shape[1])
        if out is not None and (not is_on_device(out) or shape_of(out) != y_shape):
            actual = shape_of(out) if is_on_device(out) else "an array on the host"
            raise LengthError("out has another shape", where="out", expected=f"{y_shape}, on the device", actual=actual)
        if shape[1] == 1:
            return self.matvec(X, out, stream=stream)
        if not self._open().takes_columns:
            raise ReproErrorOfValue(
                "this variant multiplies several vectors on the device one after the other only",
                where=self.name,
                todo="multiply each by `matvec`, bring them to the host, or name a variant in natural order without "
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

        return self._queued(x_view, y_view, library, y, out, stream, multiply)

    def _matrix_view(self, X: Any, subject: str, stream: int | None) -> tuple[View, bool]:
        """Return the memory of a matrix on the device, and whether it is row-major; else it is column-major."""
        row_major = is_row_major(X, subject)
        write = subject == "out"
        size = math.prod(shape_of(X))
        if not row_major and size > MAX_INDEX:
            raise ReproErrorOfValue(
                "a column-major matrix is too large for 32-bit distances",
                where=subject,
                expected=f"at most {MAX_INDEX:,} numbers",
                actual=f"{size:,}",
                todo="give a row-major one",
            )
        rows = X if row_major else X.T
        view = self._runtime.view(rows, subject, self.dtype, size, self.dtype.itemsize, write, stream)
        return view, row_major

    def _multiply_columns(self, x: Buffer, y: Buffer, count: int, x_row_major: bool, y_row_major: bool) -> None:
        parts = self.dtype.itemsize // self._kind.scalar.itemsize
        rows, columns = self.shape
        x_steps = Steps.of((columns, count), parts, row_major=x_row_major)
        y_steps = Steps.of((rows, count), parts, row_major=y_row_major)
        self._open().multiply_columns(x, y, count, x_steps, y_steps)

    def solver(self, method: Literal["cg", "bicgstab"] = "cg") -> ChipSolver:
        """Return a persistent solver with a copy of the matrix; it is made at first use and kept until it is closed."""
        one_of(method, "method", METHODS)
        with self._runtime.after():  # the lock lets only one thread make the solver
            self._open()
            solver = self._solvers.get(method)
            if solver is None or solver.closed:
                solver = ChipSolver(self._runtime, self._problem, self.precision, method)
                self._solvers[method] = solver
            return solver

    def solve(
        self,
        b: Any,
        method: Literal["cg", "bicgstab"] = "cg",
        tol: float = 1e-8,
        maxiter: int | None = None,
        *,
        x0: Any = None,
    ) -> Any:
        """Return the solution of A x = b; arguments, errors and warnings as for `repro.solve`."""
        return self.solver(method).solve(b, x0, tol, maxiter)

    def close(self) -> None:
        """Free the memory of the matrix, of its transposes and solvers; the operator cannot be used afterwards."""
        with self._runtime.after():  # holds the lock, so no other thread is in the middle of a product
            product, self._product, self._direct = self._product, None, None
            self.closed, self.nbytes = True, 0
            for transpose in self._own_transposes.values():
                transpose.close()
            self._own_transposes.clear()
            for solver in self._solvers.values():
                solver.close()
            self._solvers.clear()
            if product is not None:
                product.release()  # waits for the device, so the staging arrays can be freed next
                for name in ("_staging", "_ordered_vectors"):
                    self.__dict__.pop(name, None)

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
                    transpose = self
                else:
                    transpose = SpmvOperator(matrix, Product(self._runtime, matrix, self.precision, product.id))
                    transpose._transposes[conjugate] = ref(self)  # weak: the last reference to `self` frees both
                    self._own_transposes[conjugate] = transpose
                self._transposes[conjugate] = ref(transpose)
            return transpose

    def _open(self) -> Product:
        if self._product is None:
            raise ReproError("the operator is closed", where=repr(self), todo="make a new one")
        return self._product

    def _require_open(self) -> None:
        self._open()

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (self._problem, str(self._open().id), self.precision, self._runtime.words)

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
        return f"<{size} {type(self).__name__}: {self.entry}, {self.name}{place}>"


@public
def operator(
    matrix: Any,
    tuned: str = "default",
    *,
    entry: str | None = None,
    precision: str | None = None,
    device: str = "auto",
    results: Path | str = str(RESULTS),
) -> SpmvOperator:
    """Return a matrix as a SciPy `LinearOperator` with a tuned kernel.

    Parameters
    ----------
    matrix
        A SciPy sparse matrix or array, square or rectangular, or a `repro.problems.matrix.Matrix`. The entry type of
        real BSR with 3×3 blocks is `block3`; with 4×4 blocks it is `quaternion`, and each block must be the matrix of a
        quaternion. The entry type of other matrices is `real` or `complex`. Rectangular matrices are refused by
        variants that store pairs, that renumber the unknowns, or whose vectors are in SoA order, unless an entry of a
        vector is one number.
    tuned
        `default`: a variant that is good for many matrices. The name of a variant, such as
        `Sl-32-SoA-AoS/static-256-4`. `campaign:problem`, such as `h200:fem/nut_37k`: what a campaign chose for a
        similar problem, among layouts that take a user's vectors as they are. `now`: time a few variants on this matrix
        and take the fastest.
    entry
        `real`, `complex`, `quaternion`, `block3` or `pattern`; None: found from the matrix. For example, `block3` for a
        3n×3n matrix in CSR, or `pattern` for a matrix of ones, whose values are then not stored.
    precision
        `single` or `double`; None: the precision of the values.
    device
        `auto` (a GPU if there is one, else the CPU through OpenCL), `cuda:N` or `opencl:N`.
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
    text(tuned, "tuned")
    text(results, "results")
    problem, precision = as_problem(matrix, entry, precision)
    runtime: Runtime = open_runtime(device)
    if runtime.device.backend == "opencl":
        _warn_of_slow_cpu()
    if tuned == "now":
        id = find_fastest(runtime, problem, precision)
    else:
        id = find_variant(tuned, problem, precision, runtime.device.target, Path(results))
    return SpmvOperator(problem, Product(runtime, problem, precision, id))


@public
def solve(
    A: Any,
    b: Any,
    method: Literal["cg", "bicgstab"] = "cg",
    tol: float = 1e-8,
    maxiter: int | None = None,
    *,
    x0: Any = None,
    entry: str | None = None,
    precision: str | None = None,
    device: str = "auto",
) -> Any:
    """Return the solution of A x = b by a persistent iterative solver.

    On a GPU, many iterations are one launch, in which each multiprocessor keeps its part of the matrix in shared memory
    as far as it fits. For several right-hand sides, use `SpmvOperator.solver`, which packs the matrix once.

    Parameters
    ----------
    A
        A square matrix, as in `repro.operator`; an operator, of which `entry`, `precision` and `device` are taken; or a
        sparse matrix of CuPy, which is packed on the host.
    b
        `(n,)` or `(n, 1)`, finite; b = 0 gives the solution 0. An array of NumPy or PyTorch on the host, converted to
        the matrix's precision; or a contiguous array on the GPU, of the matrix's dtype: CuPy's, PyTorch's or a
        `DeviceArray`. The solution is of the same library.
    method
        `cg`: conjugate gradients, for a symmetric (complex: Hermitian) positive definite matrix. `bicgstab`: BiCGSTAB,
        for any matrix; complex numbers are taken as pairs of real ones. Both with the diagonal as preconditioner.
    tol
        Converged if norm of b - A x / norm of b is at most `tol`, which is at least 0, with the residual computed from
        x.
    maxiter
        Largest number of iterations; None: 10 times the number of unknowns.
    x0
        Initial guess, on the host or on the device; None: 0.
    entry, precision, device
        As in `repro.operator`.

    Raises
    ------
    ReproError
        The arguments are invalid; the matrix is not positive definite (`cg`); a divisor is 0 (`bicgstab`); or the
        residual is not finite.

    Warns
    -----
    RuntimeWarning
        The residual is above the tolerance, after `maxiter` iterations or at the limit of rounding; the last x is
        returned.
    """
    if isinstance(A, SpmvOperator):
        return A.solve(b, method, tol, maxiter, x0=x0)
    one_of(method, "method", METHODS)
    if is_from_module(A, CUPYS_MATRICES):
        rows, _ = cupys_rows(A, "A")
        device = cupy_device(rows) if device == "auto" else device
        A = rows.get()
    problem, working_precision = as_problem(A, entry, precision)
    with ChipSolver(open_runtime(device), problem, working_precision, method) as solver:
        return solver.solve(b, x0, tol, maxiter)


def _unpickle(problem: Matrix, name: str, precision: str, device: str) -> SpmvOperator:
    return operator(problem, name, precision=precision, device=device)


@cache
def _warn_of_slow_cpu() -> None:
    """Warn that the CPU is slow, once per process, since the cached function runs only once."""
    warn_caller(
        "the operator runs on the CPU, where it is for trying out what will run on a GPU: docs/operator.md has times "
        "of it and of SciPy's product that were measured on one CPU, `repro best` those of a campaign",
        SlowOnCpuWarning,
    )
