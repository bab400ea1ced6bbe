"""Operands of y = A x in a working precision, the reference product, and verification on the device.

It also has the base classes of verified products: of any product, of a product by kernels of a compiled module, and of
a product by one kernel.
"""

from __future__ import annotations

import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.bench.rows import RecordedRow
from repro.bench.runnable import Candidate, Runnable, Workspace, not_prepared
from repro.codegen.build_cache import Module, ModuleOnDemand
from repro.codegen.targets import DTYPES, INDEX_BYTES
from repro.codegen.templates import VERIFY_BLOCK_SIZE
from repro.devices.base import Argument, Buffer, Device, Program
from repro.entries import Entry, get_entry
from repro.errors import IncorrectError, ReproError
from repro.problems.matrix import Matrix
from repro.sparse.device_primitives import ModuleFile
from repro.sparse.elementwise import in_order, pack_vector, padded_size
from repro.sparse.ordering import permutation, reorder
from repro.sparse.symmetry import Symmetry, symmetry_of

NAN_BYTE = 0xFF


class ExpectedProduct(Protocol):
    @property
    def precision(self) -> str: ...

    @property
    def reference(self) -> NDArray[np.float64]: ...

    @property
    def bound(self) -> NDArray[np.float64]:
        """Largest allowed absolute error of each number, in the shape of `reference`."""


def compare(operands: ExpectedProduct, runnable: ProductRunnable, workspace: Workspace) -> float | None:
    """Run a product once and compare its result with the reference; return the largest ratio of error to bound.

    It returns None if the runnable has no result. It raises the errors of `require_correct`.
    """
    y = runnable.result()
    if y is None:
        return None
    device = workspace.device
    runnable.before()
    runnable.launch()
    # `result` is called again, because a library on the host uploads its result only then
    y = runnable.result() or y
    reference_buffer, bound_buffer = _expected_buffers(operands, runnable, workspace)
    count = reference_buffer.nbytes // operands.reference.itemsize  # number of elements, including padding
    report = workspace.buffer("report", lambda: device.allocate(8))
    block_size = VERIFY_BLOCK_SIZE[device.backend]
    device.fill(report, 0)
    device.bind(
        workspace.common.program.kernel(f"verify_{operands.precision}"),
        min(device.sm_count * 8, -(-count // block_size)),
        block_size,
        [np.int32(count), y, reference_buffer, bound_buffer, report],
    )()
    numbers = np.empty(2, np.int32)
    device.download(report, numbers)
    try:
        return require_correct(
            int(numbers[0]), count, "numbers", float(numbers.view(np.float32)[1]), runnable.unwritten
        )
    except IncorrectError as wrong:
        result, exact, bound = np.empty(count, DTYPES[operands.precision]), np.empty(count), np.empty(count)
        for buffer, array in ((y, result), (reference_buffer, exact), (bound_buffer, bound)):
            device.download(buffer, array)
        raise IncorrectError(f"{wrong}: {worst_number('y', result, exact, bound)}", wrong.error) from None


def largest_error(error: NDArray[np.float64], bound: NDArray[np.float64], items: str) -> float:
    """Return the largest ratio of absolute errors on the host to their bounds, two arrays of one shape.

    It raises the errors of `require_correct`; `items` names the compared things in the message.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        # NaN stays NaN; an error of 0 is accepted even if the bound is 0
        ratio = np.where(error > 0, error / bound, error)
    wrong = int(np.count_nonzero(~(error <= bound)))
    return require_correct(wrong, error.size, items, float(np.max(ratio, initial=0.0)))


def worst_number(
    name: str, result: NDArray[np.floating], exact: NDArray[np.float64], bound: NDArray[np.float64]
) -> str:
    """Return where the ratio of error to bound is largest, or a NaN: `y[3] is 1.5 and not 2`. Arrays have one shape."""
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.abs(result - exact)
        worst = np.unravel_index(np.argmax(np.where(error == 0, 0.0, error / bound)), error.shape)
    digits = "g" if f"{result[worst]:g}" != f"{exact[worst]:g}" else ".17g"
    return f"{name}[{', '.join(map(str, worst))}] is {result[worst]:{digits}} and not {exact[worst]:{digits}}"


def require_correct(wrong: int, count: int, items: str, largest: float, nan_note: str = "") -> float:
    """Return `largest`, the largest ratio of an error to its bound, if no item is wrong.

    `wrong` of `count` items are wrong. NaN in a result makes `largest` NaN; the message then ends with `nan_note`.

    Raises
    ------
    IncorrectError
        Some items are wrong: an error is above its bound, or NaN.
    """
    if not wrong:
        return largest
    comparable = not np.isnan(largest)
    worst = f"the largest error is {largest:.3g} of its bound" if comparable else f"some are NaN{nan_note}"
    raise IncorrectError(f"{wrong} of {count} {items} are wrong; {worst}", largest if comparable else None)


def _expected_buffers(
    operands: ExpectedProduct, runnable: ProductRunnable, workspace: Workspace
) -> tuple[Buffer, Buffer]:
    """Return reference and bound on the device, in the order of the runnable's result."""
    order, upload = runnable.arrangement, workspace.device.upload
    return (
        workspace.buffer(("reference", order), lambda: upload(runnable.arrange(operands.reference))),
        workspace.buffer(("bound", order), lambda: upload(np.abs(runnable.arrange(operands.bound)))),
    )


class ProductRunnable(Runnable):
    """A measured product y = A x; iterative solvers can also bind it to other vectors.

    Attributes
    ----------
    arrangement
        Name of the order of numbers in `result`; runnables with the same name have the same order.
    matrix_bytes
        Bytes of the matrix in the layout of the runnable.
    unwritten
        End of the error message if a result has NaN. It explains NaN in numbers that a kernel did not write: y is
        filled with NaN before the launch that is checked.
    """

    arrangement: str
    matrix_bytes: int = 0
    unwritten: str = ", with which y is filled before it is checked"

    def erase_result(self, workspace: Workspace) -> None:
        """Fill y with NaN."""
        if (y := self.result()) is not None:
            workspace.device.fill(y, NAN_BYTE)

    def result(self) -> Buffer | None:
        """Return y in device memory in the working precision."""
        raise NotImplementedError

    def arrange(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the members of a vector, `(n, k)`, as a flat array with the order and signs of `result`."""
        raise NotImplementedError

    def product(self, x: Buffer, y: Buffer) -> Callable[[], None]:
        """Return a launch of y = A x for the given vectors; valid from `prepare` to `release`.

        Parameters
        ----------
        x, y
            x has an entry for each column and y one for each row, in the working precision and the order of `result`,
            aligned to 16 bytes.
        """
        raise NotImplementedError


#: Function that, given x and y, returns a launch of y = A x.
Bind = Callable[[Buffer, Buffer], Callable[[], None]]


class BoundProduct(ProductRunnable):
    """A product y = A x that can be bound to other vectors.

    Each row of y has one number unless a subclass says otherwise.

    `prepare` of a subclass sets `_bind` and `_y`, which `product` and `result` use.
    """

    arrangement = "AoS@natural"

    def __init__(self) -> None:
        self._bind: Bind | None = None
        self._y: Buffer | None = None

    def product(self, x: Buffer, y: Buffer) -> Callable[[], None]:
        assert self._bind is not None, "prepared first"
        return self._bind(x, y)

    def result(self) -> Buffer | None:
        return self._y

    def arrange(self, values: NDArray[Any]) -> NDArray[Any]:
        return values.ravel()

    def release(self) -> None:
        """Drop the references to matrix and vectors; the workspace owns both."""
        self._y = self._bind = None
        self.launch = not_prepared


class CompiledProduct(BoundProduct, Candidate):
    """A variant: a product by kernels of a compiled module.

    Parameters
    ----------
    module
        The compiled module.
    folder
        Folder of its manifest; paths of binaries are relative to this folder.
    """

    kind = "variant"

    def __init__(self, module: Module | ModuleOnDemand, folder: Path) -> None:
        super().__init__()
        self._module, self._folder = module, folder

    @property
    def module(self) -> Module:
        """Manifest of the module; a module that is compiled on demand is compiled first."""
        return self._module.built

    @property
    def identity(self) -> str:
        return self.module.hash

    @property
    def on_demand(self) -> bool:
        return isinstance(self._module, ModuleOnDemand)

    def compile(self) -> None:
        _ = self.module

    def program(self, workspace: Workspace) -> Program:
        """Load the module; raise `ModuleError` if it has no valid binary."""
        return ModuleFile(self.module, self._folder).program(workspace)

    def resources(self, kernel: str) -> dict[str, int | None]:
        """Return registers and spilled bytes per thread of a kernel, which are columns of its result row.

        Both are None on the CPU.
        """
        reported_resources = (self.module.resources or {}).get(kernel, {})
        return {name: reported_resources.get(name) for name in ("registers", "spills")}


class KernelProduct(CompiledProduct):
    """A product by one kernel, whose parameters are `sizes`, the arrays of the matrix, x and y.

    A subclass implements `arrays`. Products with the same `packing` share one upload of their arrays; by default,
    `packing` is the name of the variant.

    Parameters
    ----------
    name
        Name of the variant and of its kernel.
    built
        The module with the kernel.
    block_size
        Threads per block.
    adds
        Whether the kernel adds to y, so that a launch fills y with zeros first.
    """

    space = "paper"
    group = None

    def __init__(self, name: str, built: ModuleFile, block_size: int, *, adds: bool = False) -> None:
        super().__init__(built.module, built.folder)
        self.name = self.packing = name
        self.block_size, self.adds = block_size, adds
        if not adds:
            self.unwritten += "; a kernel that adds to y needs `adds=True`"

    @property
    def columns(self) -> Mapping[str, Any]:
        return {"matrix_bytes": self.matrix_bytes or None, **self.resources(self.name)}

    def arrays(self, operands: ProductOperands) -> Mapping[str, NDArray[Any]]:
        """Return the arrays of the matrix in the order of the kernel's parameters.

        It is called once for all products with the same `packing`.

        Raises
        ------
        Unsupported
            The layout does not suit the matrix.
        """
        raise NotImplementedError

    def sizes(self, operands: ProductOperands) -> Sequence[int]:
        """Return the kernel's first arguments, which are int32: by default the number of rows."""
        return (operands.problem.n,)

    def blocks(self, operands: ProductOperands, device: Device) -> int:
        """Return the number of blocks of a launch; by default each row has one thread."""
        return -(-operands.problem.n // self.block_size)

    def prepare(self, workspace: Workspace) -> None:
        """Upload the arrays and bind the kernel.

        Raises
        ------
        ModuleError, Unsupported
        """
        program, operands, device = self.program(workspace), operands_of(workspace), workspace.device

        def pack() -> tuple[int, Mapping[str, NDArray[Any]]]:
            arrays = self.arrays(operands)
            return sum(array.nbytes for array in arrays.values()), arrays

        self.matrix_bytes, buffers = workspace.upload_packed(self.packing, pack)

        def bind(x: Buffer, y: Buffer) -> Callable[[], None]:
            arguments: list[Argument] = [*map(np.int32, self.sizes(operands)), *buffers.values(), x, y]
            kernel = program.kernel(self.name)  # one object per binding: an OpenCL kernel holds its arguments
            run = device.bind(kernel, self.blocks(operands, device), self.block_size, arguments)
            return in_order([lambda: device.fill(y, 0), run]) if self.adds else run

        self._bind, self._y, x = bind, y_on(workspace), x_on(workspace, "AoS")
        self.bytes_moved = self.matrix_bytes + x.nbytes + self._y.nbytes
        self.launch = self.product(x, self._y)


class ProductRow(RecordedRow):
    """Result row of a measured product: columns of `ProductOperands`, `KernelProduct` and the library's baselines."""

    entry: str | None
    matrix_bytes: int | None
    ordering: str | None
    routine: str | None
    representation: str | None
    format: str | None
    papers_choice: bool | None


@dataclass(frozen=True)
class ProductOperands:
    """A and x in the working precision, and the reference product.

    Attributes
    ----------
    problem
        The matrix; its `values` are not rounded to the working precision.
    precision
        `single` or `double`.
    x
        `(columns, k)` in the working precision.
    reference, bound
        float64 `(n, k)`. `reference` is the product of the rounded A and x in double precision. `bound` is the largest
        allowed error, (m_i + 2) k ε (|A||x|)_i for row i with m_i entries of size k.
    checksum
        Checksum of the matrix and the seed of x.
    """

    problem: Matrix
    precision: str
    x: NDArray[np.floating]
    reference: NDArray[np.float64]
    bound: NDArray[np.float64]
    checksum: str = ""
    _permutations: dict[str, NDArray[np.int64]] = field(default_factory=dict, repr=False, compare=False)
    _reordered: dict[str, Matrix] = field(default_factory=dict, repr=False, compare=False)

    @property
    def entry(self) -> Entry:
        return get_entry(self.problem.entry)

    @property
    def dtype(self) -> np.dtype[np.floating]:
        return self.x.dtype

    @cached_property
    def values(self) -> NDArray[np.floating]:
        """Values of the matrix, `(nnz, members)`, rounded to the working precision."""
        return self.problem.values.astype(self.dtype, copy=False)

    @property
    def min_bytes(self) -> tuple[int, int]:
        """Fewest bytes that a product moves: reads (A in CSR, and x), and writes (y)."""
        matrix = csr_bytes(self.problem, self.dtype.itemsize)
        return matrix + self.x.nbytes, self.reference.size * self.dtype.itemsize

    @property
    def operations(self) -> int:
        """Number of floating-point operations of a product: multiplications and additions for all entries."""
        return self.problem.nnz * self.entry.operations

    @property
    def columns(self) -> Mapping[str, Any]:
        return {"entry": self.problem.entry}

    def permutation(self, ordering: str) -> NDArray[np.int64]:
        """Return the original row of each reordered row, int64 `(n,)`."""
        if ordering not in self._permutations:
            self._permutations[ordering] = permutation(self.problem, ordering)
        return self._permutations[ordering]

    def x_in(self, ordering: str) -> NDArray[np.floating]:
        """Return x reordered for an ordering of the unknowns."""
        return self.x if ordering == "natural" else self.x[self.permutation(ordering)]

    def reordered(self, ordering: str) -> Matrix:
        """Return the matrix with rows and columns renumbered by an ordering."""
        if ordering == "natural":
            return self.problem
        if ordering not in self._reordered:
            self._reordered[ordering] = reorder(self.problem, self.permutation(ordering))
        return self._reordered[ordering]

    def check(self, runnable: Runnable, workspace: Workspace) -> float | None:
        """Verify a runnable on the device if it is a product; see `compare`."""
        return compare(self, runnable, workspace) if isinstance(runnable, ProductRunnable) else None


class WithProduct(ABC):
    """Operands of a study that does not only measure products; `product` has the operands of y = A x."""

    @property
    @abstractmethod
    def product(self) -> ProductOperands: ...


def csr_bytes(matrix: Matrix, number_bytes: int) -> int:
    """Return the bytes of a matrix stored as CSR with 4-byte indices."""
    members = len(get_entry(matrix.entry).members)
    return matrix.nnz * (INDEX_BYTES + members * number_bytes) + (matrix.n + 1) * INDEX_BYTES


def expand(matrix: Matrix, values: NDArray[np.floating]) -> sp.bsr_array:
    """Return the matrix as a real float64 BSR matrix, with one k×k block for each entry of size k."""
    entry = get_entry(matrix.entry)
    blocks = entry.expand(values.astype(np.float64, copy=False))
    rows, columns = matrix.shape
    return sp.bsr_array((blocks, matrix.indices, matrix.indptr), shape=(rows * entry.size, columns * entry.size))


def make_operands(matrix: Matrix, precision: str, seed: int, *, rectangular: bool = False) -> ProductOperands:
    """Draw x, round A and x to the working precision, and compute the float64 reference with SciPy.

    It raises `ReproError` if the matrix is empty, if it is not square and `rectangular` is not set, or if its values or
    products would overflow.
    """
    if rectangular:
        matrix.require_entries()
    else:
        matrix.require_product()
    entry = get_entry(matrix.entry)
    dtype = DTYPES[precision]
    x = np.random.default_rng(seed).uniform(-1.0, 1.0, (matrix.shape[1], entry.size)).astype(dtype)
    exact = x.astype(np.float64).ravel()
    values = rounded_values(matrix.name, matrix.values, lambda: entry_rows(matrix), precision)
    matrix_in_reals = expand(matrix, values)
    reference = matrix_in_reals @ exact
    matrix_in_reals.data = np.abs(matrix_in_reals.data)
    size = matrix_in_reals @ np.abs(exact)
    _require_products(matrix, size, precision)
    terms = np.repeat((matrix.row_lengths + 2) * entry.size, entry.size)
    bound = terms * float(np.finfo(dtype).eps) * size
    checksum = hashlib.sha256(f"{matrix.checksum()} {seed}".encode()).hexdigest()
    shape = matrix.n, entry.size
    return ProductOperands(matrix, precision, x, reference.reshape(shape), bound.reshape(shape), checksum)


def rounded_values(
    name: str, values: NDArray[np.float64], rows: Callable[[], NDArray[np.integer[Any]]], precision: str
) -> NDArray[np.floating]:
    """Round entries `(nnz, members)` to a precision; refuse overflow, and rows whose values would all underflow.

    If only some values of a row underflow, the loss is below the rounding error of the product. `rows` returns the row
    of each entry, `(nnz,)`.
    """
    with np.errstate(over="ignore"):
        rounded_array = values.astype(DTYPES[precision], copy=False)
    limits = np.finfo(rounded_array.dtype)
    infinite = (np.isfinite(values) & ~np.isfinite(rounded_array)).any(axis=1)
    if infinite.any():
        raise _beyond(
            f"values are too large for {precision} precision",
            name,
            f"at most {limits.max:.3g} in magnitude",
            f"{np.count_nonzero(infinite)} of {len(values)} entries are larger, up to {np.abs(values).max():.3g}",
            precision,
        )
    if values.shape[1] and ((values != 0) & (np.abs(rounded_array) < limits.tiny)).any():
        largest, row = np.abs(values).max(axis=1), rows()
        rounded_maxima, exact_maxima = (np.zeros(int(row.max()) + 1) for _ in range(2))
        np.maximum.at(exact_maxima, row, largest)
        np.maximum.at(rounded_maxima, row, np.abs(rounded_array).max(axis=1))
        lost = (rounded_maxima < limits.tiny) & (exact_maxima > 0)
        if lost.any():
            raise _beyond(
                f"values are too small for {precision} precision",
                name,
                f"at least {limits.tiny:.3g} in magnitude, once in each row that is not zero",
                f"{np.count_nonzero(lost)} rows have smaller ones alone",
                precision,
            )
    return rounded_array


def entry_rows(matrix: Matrix) -> NDArray[np.int64]:
    """Return the row of each entry, `(nnz,)`."""
    return np.repeat(np.arange(matrix.n), matrix.row_lengths)


def _require_products(matrix: Matrix, size: NDArray[np.float64], precision: str) -> None:
    """Raise `ReproError` if the product of the matrix and x may overflow in the working precision."""
    largest = np.finfo(DTYPES[precision]).max
    too_large = (size > largest) & np.isfinite(matrix.values).all()
    if too_large.any():
        raise _beyond(
            f"products are too large for {precision} precision",
            matrix.name,
            f"|A||x| of at most {largest:.3g}",
            f"{np.count_nonzero(too_large)} of {len(size)} rows' are larger",
            precision,
        )


def _beyond(failure: str, name: str, expected: str, actual: str, precision: str) -> ReproError:
    other = "leave single out of the study's `precisions`, or scale" if precision == "single" else "scale"
    return ReproError(failure, where=name, expected=expected, actual=actual, todo=f"{other} the matrix")


def operands_of(workspace: Workspace) -> ProductOperands:
    """Return the product operands of a workspace."""
    operands = workspace.operands
    if isinstance(operands, WithProduct):
        return operands.product
    assert isinstance(operands, ProductOperands), "a runnable of another study"
    return operands


def x_on(workspace: Workspace, order: str, ordering: str = "natural") -> Buffer:
    """Return x on the device; members are in AoS, SoA or Padded order, entries in the ordering of the unknowns."""
    operands = operands_of(workspace)

    def upload() -> Buffer:
        return workspace.device.upload(pack_vector(operands.x_in(ordering), order))

    return workspace.buffer(("x", order, ordering), upload)


def y_on(workspace: Workspace, order: str = "AoS") -> Buffer:
    """Return device memory for y between guard zones; all runnables with a y of the same size share the memory.

    A guard zone starts directly behind y, so the Padded order, whose y is longer, needs a separate buffer.
    """
    operands = operands_of(workspace)
    n, size = operands.reference.shape
    nbytes = n * (padded_size(size) if order == "Padded" else size) * operands.dtype.itemsize
    return workspace.written(("y", nbytes), nbytes, "its result")


def row_order_on(workspace: Workspace, order: str, *, lend_device: bool = False) -> NDArray[np.int64]:
    """Return the rows in an order of `permutation`, int64 `(n,)`; computed once per workspace (`Workspace.cached`).

    The order is computed again even if the operands have it, so that its time counts as packing time.
    """

    def ordered() -> NDArray[np.int64]:
        begin = time.perf_counter()
        rows = permutation(operands_of(workspace).problem, order)
        workspace.say(f"found the order {order} of {len(rows):,} rows in {time.perf_counter() - begin:.1f} s")
        return rows

    return workspace.cached(("row order", order), ordered, lend_device=lend_device)


def symmetry_on(workspace: Workspace, ordering: str = "natural") -> Symmetry:
    """Return the symmetry of the reordered matrix in the working precision; computed once per workspace."""
    operands = operands_of(workspace)

    def symmetry() -> Symmetry:
        matrix = operands.reordered(ordering)
        return symmetry_of(matrix, matrix.values.astype(operands.dtype, copy=False))

    return workspace.cached(("symmetry", ordering), symmetry)
