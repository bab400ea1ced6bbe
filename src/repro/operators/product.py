"""Products of a matrix by one variant: the matrix, on the host or where it lies, and its packing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import cache, cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.codegen.targets import DTYPES
from repro.devices.base import Buffer, Call, Device, OutOfDeviceMemory, Program
from repro.entries import get_entry
from repro.errors import ReproErrorOfValue, Unsupported, argument_errors
from repro.exact_casts import cast, expectation
from repro.operators.arrays import VectorType, as_tensor, host_array, without_gradient
from repro.operators.device_exchange import CUPYS_MATRICES, check_cupys, is_from_module, sorted_cupys
from repro.operators.device_matrices import (
    COMPLEX_DTYPES,
    INDEX_DTYPES,
    REAL_DTYPES,
    damage_of_tensor,
    device_matrix,
    ordinal_of,
)
from repro.operators.runtime import KERNELS, Runtime, open_runtime
from repro.operators.scipy_matrices import SCALE, as_problem, check_extent, check_words, precision_of_values
from repro.operators.vectors import Vectors
from repro.problems.matrix import MAX_DIMENSION, MAX_ENTRIES, Matrix
from repro.sparse.compound.defaults import Rows
from repro.sparse.compound.device_csr import CheckWord, DeviceCsr, FlawedCsr, render_check
from repro.sparse.compound.device_packing import PAIRS, DevicePacker, PackedOnDevice, packing_name, render_packing
from repro.sparse.compound.device_pairs import PairPacker
from repro.sparse.compound.kernels import TEMPLATES, columns_schedule, render_module, split_columns
from repro.sparse.compound.packing import PackedFacts
from repro.sparse.compound.product import (
    CompoundProduct,
    Steps,
    pack_layout,
    padding,
    require_suitable,
    vector_entry_bytes,
)
from repro.sparse.compound.variants import ROUTINES, STORED_ORDERS, Layout, RoutineId, VariantId
from repro.sparse.device_primitives import keep
from repro.sparse.ordering import long_rows, permutation, reorder
from repro.sparse.spgemm.csr_arrays import CsrArrays
from repro.sparse.symmetry import symmetry_of

if TYPE_CHECKING:
    from repro.sparse.library.cusparse_csr import CsrProduct  # which few operators need

#: Arrays of a CSR matrix: row pointers, columns, and values `(nnz, members)`.
HostCsr = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.floating]]


class MatrixSource:
    """A checked matrix of which products are made: on the host, on the device, or on both.

    It is brought from one to the other once, and only if that is asked for. `entry`, `shape` (counted in entries),
    `nnz` and `square` are as for `Matrix`.
    """

    def __init__(self, problem: Matrix) -> None:
        self._problem: Matrix | None = problem
        self._set(problem.entry, problem.shape, problem.nnz)

    @classmethod
    def on_device(cls, csr: DeviceCsr, entry: str, runtime: Runtime) -> Self:
        """Return one that is on the device only; it owns `csr`."""
        self = cls.__new__(cls)
        self._problem = None
        self._set(entry, csr.shape, csr.nnz)
        self._csr = csr
        members = len(get_entry(entry).members)

        def download() -> HostCsr:
            with runtime.after():
                return csr.download(runtime.device, members)

        def download_pointers() -> NDArray[np.int32]:
            pointers = np.empty(csr.shape[0] + 1, np.int32)
            with runtime.after():
                runtime.device.download(csr.pointers.buffer, pointers)
            return pointers

        self.read, self.read_pointers = download, download_pointers
        return self

    def _set(self, entry: str, shape: tuple[int, int], nnz: int) -> None:
        self.entry, self.shape, self.nnz, self.square = entry, shape, nnz, shape[0] == shape[1]
        self._csr: DeviceCsr | None = None
        self._padding: dict[str, float] = {}
        #: The matrix before its values were replaced.
        self._outdated: Matrix | None = None
        #: Reads the matrix from the device, where it is: from CSR, and later from a product.
        self.read: Callable[[], HostCsr] | None = None
        #: Reads the row pointers alone, as long as the matrix is on the device as CSR.
        self.read_pointers: Callable[[], NDArray[np.int32]] | None = None

    @property
    def is_on_host(self) -> bool:
        return self._problem is not None

    @cached_property
    def row_lengths(self) -> NDArray[np.int32]:
        """Number of entries of each row, `(rows,)`; of a matrix on the device, the row pointers alone are read."""
        if self._problem is not None:
            return self._problem.row_lengths
        assert self.read is not None
        return np.diff(self.read_pointers() if self.read_pointers else self.read()[0])

    @cached_property
    def rows(self) -> Rows:
        """Statistics of the rows; nothing is read from the device if they were measured there."""
        return (self._csr.rows if self._csr is not None else None) or Rows.of(self.row_lengths)

    def padding(self, outer: str, warp: int) -> float:
        """Return the number of slots per entry in an outer format; there are entries."""
        if outer not in self._padding:
            self._padding[outer] = padding(self.row_lengths, outer, warp)
        return self._padding[outer]

    @property
    def problem(self) -> Matrix:
        """The matrix on the host."""
        if self._problem is None:
            assert self.read is not None
            pointers, indices, values = self.read()
            n, columns = self.shape
            wide = values.astype(np.float64, copy=False)
            if self._outdated is not None:
                self._problem, self._outdated = replace(self._outdated, values=wide, statistics={}), None
                return self._problem
            self._problem = Matrix("matrix", self.entry, n, pointers, indices, wide, None if self.square else columns)
        return self._problem

    def values_changed(self, read: Callable[[], HostCsr]) -> None:
        """Note that the values on the device have changed, and how to read the matrix."""
        if self._problem is not None:
            self._outdated, self._problem = self._problem, None
        self.read = read

    def csr(self, runtime: Runtime) -> DeviceCsr:
        """Return the matrix on the device, valid until `release`; the caller holds the device's lock."""
        if self._csr is None:
            self._csr = DeviceCsr.upload(runtime.device, self.problem, self.problem.values)
        return self._csr

    @cached_property
    def clusters(self) -> tuple[NDArray[np.int64], int]:
        """The row order of clustered layouts, `(n,)`, and the number of long rows at its end."""
        return permutation(self.problem, STORED_ORDERS["clustered"]), int(long_rows(self.problem).sum())

    def row_order(self, order: str) -> NDArray[np.int64]:
        """Return a row order of `STORED_ORDERS`, `(n,)`."""
        return self.clusters[0] if order == STORED_ORDERS["clustered"] else permutation(self.problem, order)

    def leave_device(self) -> None:
        """Have the matrix on the host only."""
        self._problem = self.problem
        self.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Free the copy on the device, unless a product shares it."""
        self.read_pointers = None
        if self._csr is not None:
            self._csr.release()
            self._csr = None


def take_matrix(
    matrix: Any, entry: str | None, precision: str | None, device: str, *, on_host: bool = False
) -> tuple[MatrixSource, str, Runtime]:
    """Return a user's matrix, the precision of its products, and the device; arguments are those of `repro.operator`.

    CSR of CuPy or PyTorch on a GPU is checked and read there if its entries are to be real or complex, and so is CSR of
    SciPy, after a copy to the GPU, unless it is needed `on_host`. All other matrices are checked and converted on the
    host.

    Raises
    ------
    ReproError
        As for `as_problem`; or the matrix lies on another device.
    """
    check_words(entry, precision)
    if as_tensor(matrix) is not None:
        matrix = without_gradient(matrix, "matrix")
    ordinal = ordinal_of(matrix)
    if ordinal >= 0:
        place = f"cuda:{ordinal}"
        if device not in ("auto", place):
            raise ReproErrorOfValue(
                "the matrix is on a different device",
                where="matrix",
                expected=f"device={device!r}",
                actual=place,
                todo="omit `device`, or copy the matrix there first; it is not copied automatically",
            )
        device = place
    runtime = open_runtime(device)
    if ordinal >= 0 or not on_host:
        taken = (_take_where_it_lies if ordinal >= 0 else _take_copied)(matrix, entry, precision, runtime)
        if taken is not None:
            return taken
    problem, working_precision = as_problem(_on_host(matrix), entry, precision)
    return MatrixSource(problem), working_precision, runtime


def _take_where_it_lies(
    matrix: Any, entry: str | None, precision: str | None, runtime: Runtime
) -> tuple[MatrixSource, str, Runtime] | None:
    """Return what `take_matrix` does for CSR on a GPU, or None for a matrix that has to be converted."""
    given = device_matrix(matrix, complex_too=True)
    if given is None or entry not in (None, _entry_of(given.dtype)):
        return None
    check_extent(given.shape, "matrix")
    library = runtime.libraries[type(given.arrays[0])]
    arrays = given.csr_arrays(runtime)
    if library is None or arrays is None or arrays.length > MAX_ENTRIES:
        return None
    working_precision = precision or precision_of_values(given.dtype)
    flaw = None
    try:
        with runtime.after(library.stream(runtime.ordinal), reads="repro.operator"):
            csr = _checked(arrays, given.dtype, working_precision, runtime, borrowed=True)
    except OutOfDeviceMemory as error:
        raise runtime.out_of_memory_error(error) from None
    except FlawedCsr as error:
        flaw = error.flaw
    if flaw == CheckWord.UNORDERED:
        ordered = sorted_cupys(matrix) if is_from_module(matrix, CUPYS_MATRICES) else given.library.sort(matrix)
        return _take_where_it_lies(ordered, entry, precision, runtime)
    if flaw is not None:
        _refuse(flaw, matrix)
    if not csr.nnz:
        csr.release()
        return None  # refused as any other
    return MatrixSource.on_device(csr, _entry_of(given.dtype), runtime), working_precision, runtime


def _take_copied(
    matrix: Any, entry: str | None, precision: str | None, runtime: Runtime
) -> tuple[MatrixSource, str, Runtime] | None:
    """Take a SciPy CSR matrix as `take_matrix` does, but check it on the GPU; None to convert or refuse it."""
    if runtime.device.backend != "cuda" or type(matrix) not in (sp.csr_array, sp.csr_matrix):
        return None
    arrays, dtype = (matrix.indptr, matrix.indices, matrix.data), matrix.dtype
    index, length = matrix.indptr.dtype, min(len(matrix.indices), len(matrix.data))
    if (
        dtype not in REAL_DTYPES + COMPLEX_DTYPES
        or entry not in (None, _entry_of(dtype))
        or index not in INDEX_DTYPES
        or matrix.indices.dtype != index
        or len(matrix.indptr) != matrix.shape[0] + 1
        or max(matrix.shape) > MAX_DIMENSION
        or not 0 < length <= MAX_ENTRIES
    ):
        return None
    working_precision, long = precision or precision_of_values(dtype), index == np.int64
    with suppress(FlawedCsr, OutOfDeviceMemory), runtime.after(), ExitStack() as undo, ExitStack() as temporaries:
        offsets = keep(temporaries, runtime.device.upload(arrays[0]))
        columns = keep(temporaries if long else undo, runtime.device.upload(arrays[1]))
        values = keep(undo, runtime.device.upload(arrays[2]))
        copied = CsrArrays(matrix.shape, length, offsets, columns, values, long)
        csr = _checked(copied, dtype, working_precision, runtime, borrowed=False)
        undo.pop_all()
        if csr.nnz:
            return MatrixSource.on_device(csr, _entry_of(dtype), runtime), working_precision, runtime
        csr.release()
    return None


def _checked(arrays: CsrArrays, dtype: np.dtype[Any], precision: str, runtime: Runtime, *, borrowed: bool) -> DeviceCsr:
    """Return CSR of values of `dtype` for products in a precision; see `DeviceCsr.checked`."""
    real, members = np.empty(0, dtype).real.dtype, len(get_entry(_entry_of(dtype)).members)
    narrow = real == np.float64 and precision == "single"
    program = runtime.program(*check_source(runtime))
    return DeviceCsr.checked(runtime.device, program, "matrix", arrays, members, real, narrow=narrow, borrowed=borrowed)


def _entry_of(dtype: np.dtype[Any]) -> str:
    return "complex" if dtype in COMPLEX_DTYPES else "real"


def _refuse(flaw: CheckWord, matrix: Any) -> None:
    if flaw == CheckWord.INFINITE:
        raise ReproErrorOfValue("the matrix has NaN or infinite values", where="matrix", expected="finite values")
    if flaw == CheckWord.LOST:
        dtype = DTYPES["single"]
        raise ReproErrorOfValue(
            f"numbers cannot be represented in {np.dtype(dtype)}",
            where="matrix: values",
            expected=expectation(dtype),
            todo=SCALE,
        )
    if is_from_module(matrix, CUPYS_MATRICES):
        check_cupys(matrix, "matrix")  # says what is wrong
    raise damage_of_tensor("matrix")


def _on_host(matrix: Any) -> Any:
    """Return a matrix of CuPy as SciPy's, and all else as it is; `as_problem` converts and checks it."""
    if is_from_module(matrix, CUPYS_MATRICES):
        check_cupys(matrix, "matrix")
        return matrix.get()
    return matrix


@cache
def check_source(runtime: Runtime) -> tuple[str, str]:
    """Return the source of the module that checks matrices, and its name in the cache."""
    return render_check(KERNELS, runtime.device.target, "operator"), f"{TEMPLATES}/checks"


@cache
def packing_source(runtime: Runtime, entry: str, precision: str, name: str) -> tuple[str, str]:
    """Return the source of the module that packs matrices, and its name in the cache; `name` is from `packing_name`."""
    source = render_packing(KERNELS, entry, precision, name, runtime.device.target, "operator")
    return source, f"{TEMPLATES}/{entry}-{precision}/packing-{name}"


@cache
def device_packer(runtime: Runtime, entry: str, precision: str, inner: str) -> DevicePacker:
    """Return what packs matrices of an entry and precision in an inner order; its kernels are compiled if needed."""
    program = runtime.program(*packing_source(runtime, entry, precision, inner))
    return DevicePacker(runtime.device, program, entry, precision)


@cache
def pair_packer(runtime: Runtime, entry: str, precision: str, inner: str) -> PairPacker:
    """Return what packs pairs of an entry and precision in an inner order; its kernels are compiled if needed."""
    program = runtime.program(*packing_source(runtime, entry, precision, f"{PAIRS}{inner}"))
    return PairPacker(runtime.device, program, entry, precision)


@lru_cache(maxsize=256)
def variant_source(runtime: Runtime, entry: str, precision: str, id: VariantId, columns: int) -> tuple[str, str]:
    """Return the source of a variant's module, and its name in the cache; `columns` is as in `render_module`."""
    layout, schedule, target = id.layout, id.schedule, runtime.device.target
    source = render_module(KERNELS, entry, precision, layout, [schedule], target, "operator", columns=columns)
    suffix = f"-{columns}-columns" if columns else ""
    return source, f"{TEMPLATES}/{entry}-{precision}/{layout.stored}-{schedule}{suffix}"


def compiled(runtime: Runtime, entry: str, precision: str, id: VariantId, columns: int = 0) -> Program:
    """Return the program of a variant; the first use compiles it, and with it what packs matrices in its layout."""
    layout = id.layout
    with argument_errors():
        source, name = variant_source(runtime, entry, precision, id, columns)
    if not columns and (packed_by := packing_name(layout)):
        packing, name_of_packing = packing_source(runtime, entry, precision, packed_by)
        runtime.compile_together({name: source, name_of_packing: packing})
    return runtime.program(source, name)


def load_routine(runtime: Runtime, entry: str, precision: str, id: VariantId) -> None:
    """Load the library of a routine, and compile what packs matrices for it; raise `Unsupported` if it is missing."""
    from repro.sparse.library.cusparse_bindings import gpu, load

    gpu(runtime.device)
    load()
    device_packer(runtime, entry, precision, id.layout.inner)


def _routine_product(
    device: Device, id: VariantId, matrix: MatrixSource, arrays: Mapping[str, Buffer], dtype: np.dtype[Any],
    stack: ExitStack,
) -> CsrProduct:  # fmt: skip
    from repro.bench.guards import Guards
    from repro.sparse.library.cusparse_csr import OF_VECTOR, CsrProduct, GpuCsr

    if matrix.entry not in ("real", "complex"):
        raise Unsupported("a routine for real and complex entries")
    csr = GpuCsr(device, matrix.shape, matrix.nnz, arrays["index"], arrays["columns"], arrays["values"], dtype)
    with ExitStack() as temporaries:
        y, x = (keep(temporaries, device.allocate(length * dtype.itemsize)) for length in matrix.shape)
        return CsrProduct(csr, OF_VECTOR[ROUTINES.index(str(id))], x, y, 1, Guards(device), stack)


class Product:
    """A matrix on the device, and the compiled kernel of one variant or a library's routine.

    `x_vectors` and `y_vectors` make vectors in the order that the layout requires. `is_direct`: whether users' vectors
    already have this order (AoS, unknowns not renumbered). `nbytes`: bytes of the matrix in the layout. `call` is the
    product on any stream, or None (`CompoundProduct.bind_call`). It raises `ReproError` if the kernel cannot be
    compiled, or if the matrix does not suit the variant.
    """

    def __init__(self, runtime: Runtime, matrix: MatrixSource, precision: str, id: VariantId) -> None:
        self.runtime, self.id, layout = runtime, id, id.layout
        kind, device = VectorType(matrix.entry, precision), runtime.device
        program = None if isinstance(id, RoutineId) else compiled(runtime, matrix.entry, precision, id)
        self._entry, self._precision, self._shape, self._nnz = matrix.entry, precision, matrix.shape, matrix.nnz
        self._packed_on_device: PackedOnDevice | None = None
        self._pointers: Buffer | None = None
        with ExitStack() as stack, ExitStack() as temporaries:
            try:
                require_suitable(matrix.shape, matrix.entry, layout)
                rows = None if layout.unknowns == "natural" else permutation(matrix.problem, layout.unknowns)
                ordered = matrix if rows is None else keep(temporaries, MatrixSource(reorder(matrix.problem, rows)))
                facts, arrays = self._packed(ordered, layout, stack)
                with runtime.after():
                    scratch = stack.enter_context(ExitStack())
                    self._compound_product = partial(
                        CompoundProduct, facts=facts, arrays=arrays, n=matrix.shape[0],
                        entry_bytes=vector_entry_bytes(layout, kind.algebra.size, kind.scalar.itemsize),
                        scratch=lambda nbytes: keep(scratch, device.allocate(nbytes)),
                    )  # fmt: skip
                    self._product = (
                        self._compound_product(device, program, id)
                        if program is not None
                        else _routine_product(device, id, matrix, arrays, kind.dtype, stack)
                    )
                    self.is_direct = rows is None and layout.vector == "AoS"
                    # a routine has working memory, which two streams cannot share
                    self.call: Call | None = None
                    if self.is_direct and isinstance(self._product, CompoundProduct):
                        self.call = self._product.bind_call()
            except OutOfDeviceMemory as error:
                raise runtime.out_of_memory_error(error) from None
            except Unsupported as error:
                what = "the routine cannot be used" if program is None else "the variant cannot hold the matrix"
                raise ReproErrorOfValue(what, where=id, actual=error, todo="choose another variant") from None
            self._memory = stack.pop_all()
        #: Whether several columns are multiplied in one launch.
        self.takes_columns = rows is None and not layout.stores_pairs
        self._products_of_columns: dict[int, CompoundProduct] = {}
        self._columns_calls: list[Call] = []
        self.nbytes = facts.nbytes
        self.y_vectors = Vectors(runtime, matrix.shape[0], kind, layout.vector, rows)
        self.x_vectors = (
            self.y_vectors if matrix.square else Vectors(runtime, matrix.shape[1], kind, layout.vector, rows)
        )

    def _packed(
        self, matrix: MatrixSource, layout: Layout, stack: ExitStack
    ) -> tuple[PackedFacts, Mapping[str, Buffer]]:
        """Return the matrix in a layout on the device: its sizes, and its arrays, which `stack` releases."""
        runtime, is_clustered = self.runtime, layout.ordering == "clustered"
        if layout.stores_pairs:
            problem = matrix.problem  # kept on the host, as it cannot be read back from pairs
            row_order = partial(permutation, problem, STORED_ORDERS["clustered"]) if is_clustered else None
            packer = pair_packer(runtime, self._entry, self._precision, layout.inner)
            with suppress(OutOfDeviceMemory), runtime.after(), ExitStack() as undo:
                packed_pairs = packer.pack(matrix.csr(runtime), layout, undo, row_order)
                stack.push(undo.pop_all())
                return packed_pairs
        elif packing_name(layout) is not None:
            rows, long_rows = matrix.clusters if is_clustered else (None, 0)
            with suppress(OutOfDeviceMemory), runtime.after(), ExitStack() as undo:
                csr = matrix.csr(runtime)
                packed_on_device = self._packer.pack(csr, layout, undo, rows, long_rows)
                if not matrix.is_on_host:  # to read it back
                    self._pointers = keep(undo, csr.pointers.retain()).buffer
                self._packed_on_device = packed_on_device
                stack.push(undo.pop_all())
                return packed_on_device.facts, packed_on_device.arrays
        matrix.leave_device()  # where CSR and layout do not fit together, the host packs
        problem = matrix.problem
        values = problem.values.astype(DTYPES[self._precision], copy=False)
        packed = pack_layout(
            problem, values, layout, runtime.device.target.warp,
            lambda: symmetry_of(problem, values), matrix.row_order,
        )  # fmt: skip
        with runtime.after():
            arrays = {name: keep(stack, runtime.device.upload(array)) for name, array in packed.arrays.items()}
            return packed.facts, arrays

    @property
    def _packer(self) -> DevicePacker:
        return device_packer(self.runtime, self._entry, self._precision, self.id.layout.inner)

    def read_back(self) -> HostCsr:
        """Return a matrix that was packed from CSR on the device: row pointers, columns and values `(nnz, members)`."""
        assert self._packed_on_device is not None and self._pointers is not None
        device, members = self.runtime.device, len(get_entry(self._entry).members)
        arrays = (
            np.empty(self._shape[0] + 1, np.int32), np.empty(self._nnz, np.int32),
            np.empty((self._nnz, members), DTYPES[self._precision]),
        )  # fmt: skip
        with self.runtime.after(), ExitStack() as stack:
            indices, values = (keep(stack, device.allocate(array.nbytes)) for array in arrays[1:])
            self._packer.unpack(self._packed_on_device, self._pointers, indices, values)
            for buffer, array in zip((self._pointers, indices, values), arrays, strict=True):
                device.download(buffer, array)
        return arrays

    @property
    def can_fill(self) -> bool:
        """Whether `fill` can replace the values; else the product has to be made anew."""
        return self._packed_on_device is not None and self.id.layout.unknowns == "natural"

    def prepare_filling(self, matrix: MatrixSource) -> None:
        """Keep the row pointers of the matrix on the device, for `fill` and `read_back`."""
        if self._pointers is None:
            assert self._packed_on_device is not None
            placing = self._packed_on_device.placing
            if placing.is_in_csr_order:
                self._pointers = placing.index
            else:
                self._pointers = keep(self._memory, self.runtime.device.upload(matrix.problem.indptr))

    def fill(self, values: Buffer) -> None:
        """Queue the replacement of all values by others, in CSR order; `prepare_filling` comes before."""
        assert self._packed_on_device is not None and self._pointers is not None
        self._packer.fill(self._packed_on_device, self._pointers, values, np.dtype(DTYPES[self._precision]))

    def transposed_values(self, order: Buffer, values: Buffer, stack: ExitStack, *, adjoint: bool) -> Buffer:
        """Queue the transposition of values in CSR order; `order` has the entry of each entry of the transpose."""
        transposed_values = keep(stack, self.runtime.device.allocate_ordered(values.nbytes))
        self._packer.transpose_values(self._nnz, order, values, transposed_values, adjoint=adjoint)
        return transposed_values

    def are_equal(self, values: Buffer, others: Buffer) -> bool:
        """Wait for the device, and return whether two arrays have the same values."""
        return self._packer.are_equal(self._nnz, values, others)

    def bind(self, x: Buffer, y: Buffer) -> Callable[[], None]:
        """Return a launch of y = A x on the device's own queue."""
        return self._product.bind(x, y)

    def multiply_columns(self, x: Buffer, y: Buffer, count: int, x_steps: Steps, y_steps: Steps) -> None:
        """Queue Y = A X for `count` ≥ 2 columns, if `takes_columns`; the first such product of a width compiles."""
        product, starts = self._product_of_columns(count)
        for first in starts:
            product.bind_columns(x, y, first, x_steps, y_steps)()

    def columns_call(self, count: int, x_steps: Steps, y_steps: Steps) -> Call | None:
        """Return such a product on any stream, called with the addresses of X and Y; None if there is none."""
        product, starts = self._product_of_columns(count)
        call = product.bind_columns_call(starts, x_steps, y_steps)
        if call is not None:
            self._columns_calls.append(call)
        return call

    def _product_of_columns(self, count: int) -> tuple[CompoundProduct, Sequence[int]]:
        """Return the product of as many columns as one launch takes, and the first column of each launch."""
        kind = self.x_vectors.kind
        size = kind.algebra.size
        width, starts = split_columns(count, size)
        product = self._products_of_columns.get(width)
        if product is None:
            target = self.runtime.device.target
            id = replace(self.id, schedule=columns_schedule(self.id.schedule, target, size))
            entry_bytes = width * size * kind.scalar.itemsize
            program = compiled(self.runtime, self._entry, self._precision, id, width)
            product = self._compound_product(self.runtime.device, program, id, entry_bytes=entry_bytes)
            self._products_of_columns[width] = product
        return product, starts

    def release(self) -> None:
        """Wait for the device and release the matrix's memory."""
        for call in (self.call, *self._columns_calls):
            if call is not None:
                call.close()
        self.runtime.device.synchronize()
        self._memory.close()


def values_on_host(values: Any, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return new values of a matrix, `(count,)` in a dtype, from a user's array on the host."""
    given = host_array(values, "values")
    if given.size != count:
        raise ReproErrorOfValue(
            "the number of values is wrong",
            where="values",
            expected=f"{count:,}, in CSR order with ascending columns and duplicates added",
            actual=f"{given.size:,}",
            todo="create a new operator for a different pattern",
        )
    host = np.ascontiguousarray(cast(given, dtype, "values", SCALE)).reshape(-1)
    wrong = np.flatnonzero(~np.isfinite(host))
    if len(wrong):
        raise ReproErrorOfValue(
            "NaN or infinite values", where=f"values[{wrong[0]}]", expected="finite values", actual=host[wrong[0]]
        )
    return host
