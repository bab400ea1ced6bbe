"""Baselines: updates of other formats by our kernels and by cuSPARSE, and the prefix sums and sorts of an update.

CSR is rebuilt with every batch: entries per row are counted, row sizes are summed up, old rows are copied, and new
entries are appended to them; the memory of the old matrix is the target of the next batch. Alternatively cuSPARSE adds
matrix and batch (csrgeam2). Coordinates and HYB append a batch and sort. CUB's sums and sort come from a shared library
that nvcc compiles at first use.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.bench.rows import ClockName
from repro.bench.runnable import Workspace
from repro.codegen import nvcc
from repro.codegen.build_cache import MODULES
from repro.codegen.targets import Target
from repro.devices.base import Buffer, LaunchError
from repro.devices.cuda import CudaDevice
from repro.devices.cuda_driver import CudaBuffer
from repro.errors import IncorrectError, ModuleError, Unsupported
from repro.filesystem import replacing
from repro.programs import run_program
from repro.sparse.device_primitives import ModuleFile, RadixSort, RunnableContext, Scan, bit_count
from repro.sparse.elementwise import in_order
from repro.sparse.library.cusparse_bindings import Handle, address, version
from repro.sparse.operands import BoundProduct, x_on, y_on
from repro.studies.dynamic_csr import STUDY_NAME
from repro.studies.dynamic_csr.facts import hybrid_width
from repro.studies.dynamic_csr.operands import (
    CsrMemory,
    DeviceEntries,
    Entries,
    GraphOperands,
    Hybrid,
    HybridArrays,
    SortedCoordinates,
    operands_of,
    overflow,
)
from repro.studies.dynamic_csr.runnables_updates import (
    BASELINE_KIND,
    SHUFFLE_SEED,
    BatchUpdate,
    MatrixOperation,
    UpdateName,
    UpdatePlan,
    plan_on,
)

#: Rows with more entries are copied by a whole block; other rows by threads with at least this mean number of entries.
MAX_ROW_OF_THREADS, MIN_COPIES_PER_THREAD = 1024, 2


class Rebuild(BatchUpdate):
    """Inserting batches into CSR by a rebuild for each batch; the entries of a batch come in any order."""

    format = "csr"
    modules = ("rebuild", "sort")
    clocks: tuple[ClockName, ...] = ("event", "graph")  # the initial matrix is not modified

    def bind_updates(self, work: RunnableContext, plan: UpdatePlan) -> None:
        shape, dtype = plan.start.shape, plan.start.dtype
        current, entries = CsrMemory.upload(work, plan.start), int(plan.start.nnz)
        targets = [
            CsrMemory.allocate(work, shape[0], plan.after, dtype.itemsize) for _ in range(min(len(plan.batches), 2))
        ]
        step = _RebuildStep(work, shape[0])
        updates: list[Callable[[], None]] = []
        for i, batch in enumerate(plan.batches):
            target = targets[i % 2]
            updates.append(in_order(step.bind(current, entries, batch, target)))
            current, entries = target, entries + len(batch.rows)
        self._read = lambda: current.read(work, shape, dtype)
        mean = plan.after / max(shape[0], 1)
        self.launch = in_order(
            self.with_products(work, updates, lambda i, x, y: targets[i % 2].bind_product(work, shape[0], mean, x, y))
        )


class _RebuildStep:
    """One step of a rebuild: memory and kernels, apart from the two matrices."""

    def __init__(self, work: RunnableContext, n_rows: int) -> None:
        self._work, self._rows = work, n_rows
        self._scan = work.keep(Scan(work.device, work.load("sort"), n_rows, work.guards))
        self._counts = work.upload_writable(
            np.zeros(n_rows, np.int32), "the counts of rows"
        )  # the last kernel counts back down to zero
        self._long_count: Buffer = work.allocate(4, "the number of long rows")
        self._long_rows = work.upload_writable(np.zeros(max(n_rows, 1), np.int32), "long rows")

    def bind(self, source: CsrMemory, entries: int, batch: Entries, target: CsrMemory) -> list[Callable[[], None]]:
        """Return the launches that make the new matrix from a batch and from the old matrix with `entries` entries."""
        work, rows, count = self._work, self._rows, len(batch.rows)
        device_batch = DeviceEntries.upload(work, batch)
        warp = work.device.target.warp
        width = min(1 << (entries // max(rows, 1) // MIN_COPIES_PER_THREAD).bit_length(), warp)
        long_rows = self._long_count, self._long_rows
        arrays = *source, *target

        def bind(kernel: str, size: int, *arguments: Buffer | int) -> Callable[[], None]:
            return work.bind("rebuild", kernel, size, *arguments)

        return [
            lambda: work.device.fill(self._long_count, 0),
            bind("rebuild_count", count, count, device_batch.rows, self._counts),
            bind(
                "rebuild_sizes",
                rows,
                rows,
                MAX_ROW_OF_THREADS,
                source.offsets,
                self._counts,
                target.offsets,
                *long_rows,
            ),
            self._scan.bind(target.offsets, target.offsets, rows),
            bind("rebuild_copy", rows * width, rows, width, MAX_ROW_OF_THREADS, *arrays),
            bind("rebuild_copy_long", entries, *long_rows, *arrays),
            bind("rebuild_scatter", count, count, *device_batch, self._counts, *target),
        ]


class _SortedUpdate(BatchUpdate):
    """An update that ends with a sort."""

    stages_of_stream = ("update", "sort")


class CoordinateUpdate(_SortedUpdate):
    """Inserting batches into row-sorted coordinates: append the batch, then sort everything with a stable sort."""

    format = "coo"
    modules = ("hybrid", "sort")

    def bind_updates(self, work: RunnableContext, plan: UpdatePlan) -> None:
        shape, dtype, end = plan.start.shape, plan.start.dtype, int(plan.start.nnz)
        coordinates = SortedCoordinates(work, plan.after, shape[0], dtype)
        self._restore = coordinates.bind_copy(DeviceEntries.upload(work, Entries.of(plan.start)), end)
        launches: list[Callable[[], None]] = []
        for i, batch in enumerate(plan.batches):
            count = len(batch.rows)
            launches.append(coordinates.bind_append(DeviceEntries.upload(work, batch), count, i % 2, end))
            end += count
            launches.append(coordinates.bind_sort(i % 2, end))
        self._read = lambda: coordinates.read(len(plan.batches) % 2, plan.after).to_csr(shape)
        self.launch = in_order(launches)
        if self.stages:
            self.stages = dict(zip(self.stages, launches, strict=True))

    def before(self) -> None:
        self._restore()


HYBRID_FORMAT = "hyb"
HYBRID_MODULES = ("hybrid", "rebuild", "sort")


class HybridProduct(BoundProduct):
    """The product y = A x with the grown matrix in HYB format."""

    kind = BASELINE_KIND
    name = f"{HYBRID_FORMAT}/product"

    def __init__(self, modules: Mapping[str, ModuleFile]) -> None:
        super().__init__()
        self._built = modules
        self._stack = ExitStack()

    @property
    def identity(self) -> str:
        return " ".join(self._built[name].module.hash for name in HYBRID_MODULES)

    @property
    def columns(self) -> Mapping[str, Any]:
        return {"what": "product", "format": HYBRID_FORMAT, "matrix_bytes": self.matrix_bytes or None}

    def prepare(self, workspace: Workspace) -> None:
        self.release()
        matrix = operands_of(workspace).grown
        width = hybrid_width(matrix.shape[0], matrix.nnz)
        overflow_count = overflow(np.diff(matrix.indptr), width)
        with ExitStack() as stack:
            work = RunnableContext(workspace, self._built, stack)
            hybrid = Hybrid(work, matrix, width, overflow_count)
            hybrid.bind_restore()()
            x, self._y = x_on(workspace, "AoS"), y_on(workspace)
            self.launch = hybrid.bind_product(0, overflow_count, x, self._y)
            self._stack = stack.pop_all()
        self._bind = lambda x, y: hybrid.bind_product(0, overflow_count, x, y)
        number = matrix.dtype.itemsize
        rows = matrix.shape[0]
        self.matrix_bytes = hybrid.pitch * width * (4 + number) + 4 * rows + overflow_count * (8 + number)
        self.bytes_moved = matrix.nnz * (4 + number) + 4 * (rows + overflow_count) + x.nbytes + self._y.nbytes

    def release(self) -> None:
        self._stack, stack = ExitStack(), self._stack
        stack.close()
        super().release()


class HybridUpdate(_SortedUpdate):
    """Inserting batches into HYB: an entry goes to ELLPACK if its row has space, else to the coordinates; then a sort.

    The number of coordinates after a batch is computed beforehand, so that the timed update need not read it back.
    After each batch the coordinates are sorted, as the next product requires.
    """

    format = HYBRID_FORMAT
    modules = HYBRID_MODULES

    def bind_updates(self, work: RunnableContext, plan: UpdatePlan) -> None:
        rows = plan.start.shape[0]
        sizes = np.diff(plan.start.indptr).astype(np.int64)
        final_steps = []
        for batch in plan.batches:
            sizes += np.bincount(batch.rows, minlength=rows)
            final_steps.append(sizes.copy())
        width = hybrid_width(rows, plan.start.nnz or plan.after)
        hybrid = Hybrid(work, plan.start, width, overflow(sizes, width))
        stages: list[tuple[Callable[[], None], Callable[[], None]]] = []
        for i, batch in enumerate(plan.batches):
            append = hybrid.bind_append(DeviceEntries.upload(work, batch), len(batch.rows), i % 2)
            stages.append((append, hybrid.coordinates.bind_sort(i % 2, overflow(final_steps[i], width))))
        self._read = lambda: hybrid.read(len(plan.batches) % 2, overflow(sizes, width))
        self._restore = hybrid.bind_restore()
        updates = [in_order(stage) for stage in stages]
        self.launch = in_order(
            self.with_products(
                work, updates, lambda i, x, y: hybrid.bind_product((i + 1) % 2, overflow(final_steps[i], width), x, y)
            )
        )
        if self.stages:
            self.stages = dict(zip(self.stages, stages[0], strict=True))

    def before(self) -> None:
        self._restore()


class HybridSort(MatrixOperation):
    """Only the sort of HYB's coordinates, after the whole matrix was inserted in any order."""

    modules = HYBRID_MODULES
    name = f"{HYBRID_FORMAT}/sort"

    def __init__(self, modules: Mapping[str, ModuleFile]) -> None:
        super().__init__(modules)
        self._over: int | None = None

    @property
    def columns(self) -> Mapping[str, Any]:
        return {"what": "sort", "format": HYBRID_FORMAT, "order": "any", "batch": self._over}

    def bind(self, work: RunnableContext, operands: GraphOperands) -> None:
        matrix = operands.grown
        width = hybrid_width(matrix.shape[0], matrix.nnz)
        self._over = overflow_count = overflow(np.diff(matrix.indptr), width)
        hybrid = Hybrid(work, matrix, width, overflow_count)
        hybrid.bind_restore()()
        shuffled_entries = HybridArrays.of(matrix, width).over.take(
            np.random.default_rng(SHUFFLE_SEED).permutation(overflow_count)
        )
        hybrid.coordinates.bind_copy(DeviceEntries.upload(work, shuffled_entries), overflow_count)()
        self.launch = hybrid.coordinates.bind_sort(0, overflow_count)
        self._read = lambda: hybrid.read(1, overflow_count)


GEAM = "csrgeam2"


class Geam(BatchUpdate):
    """The sum of a matrix and a batch in matrix form, for each batch in turn, by cuSPARSE.

    The routine requires rows with sorted columns and without duplicates. The host sorts the batches and sums up
    duplicates before the clock starts. The number of entries is read back between counting and adding, as the library
    requires; memory for the sum is allocated before.
    """

    format = "csr"
    clocks = ("host",)
    sums = True

    def __init__(
        self, modules: Mapping[str, ModuleFile], operation: UpdateName = "insert", batch_index: int | None = None
    ) -> None:
        super().__init__(modules, operation, "sorted", batch_index)
        self.name = f"cusparse/{GEAM}/{operation}{'' if batch_index is None else f'-{batch_index}'}"

    @property
    def columns(self) -> Mapping[str, Any]:
        return {**super().columns, "routine": GEAM}

    @property
    def identity(self) -> str:
        return " ".join([version(), super().identity])

    def bind_updates(self, work: RunnableContext, plan: UpdatePlan) -> None:
        """Upload the matrices and add them up once, to allocate the working memory."""
        handle = Handle(work.device, work.stack, label="")
        shape = plan.start.shape
        start, *batches = (_summed(matrix) for matrix in (plan.start, *(b.to_csr(shape) for b in plan.batches)))
        max_entries = int(start.nnz + sum(batch.nnz for batch in batches))
        targets = [
            CsrMemory.allocate(work, shape[0], max_entries, start.dtype.itemsize) for _ in range(min(len(batches), 2))
        ]
        addition = _Addition(work, handle, shape, start.dtype)
        first = CsrMemory.upload(work, start)
        steps = [(CsrMemory.upload(work, batch), int(batch.nnz), targets[i % 2]) for i, batch in enumerate(batches)]

        sources = [first, *(target for _, _, target in steps)]
        counts = [int(start.nnz)] * (len(steps) + 1)

        def bind(i: int) -> Callable[[], None]:
            batch, count, target = steps[i]

            def update() -> None:
                with handle.refusals():
                    counts[i + 1] = addition(sources[i], counts[i], batch, count, target)

            return update

        mean = max_entries / max(shape[0], 1)
        launches = self.with_products(
            work, [*map(bind, range(len(steps)))], lambda i, x, y: steps[i][2].bind_product(work, shape[0], mean, x, y)
        )
        self.launch = in_order(launches)
        self.launch()
        work.device.synchronize()
        self._read = lambda: steps[-1][2].read(work, shape, start.dtype)


class _Addition:
    """The cuSPARSE routine with its handle, matrix description and working memory."""

    def __init__(
        self, work: RunnableContext, handle: Handle, shape: tuple[int, int], dtype: np.dtype[np.floating]
    ) -> None:
        library = handle.library
        self._work, self._handle, self._shape = work, handle, shape
        self._matrix = handle.make(work.stack, "create_mat_descr", "destroy_mat_descr")  # type general, indices from 0
        letter = {4: "s", 8: "d"}[dtype.itemsize]
        self._size = getattr(library, f"{letter}csrgeam2_buffer_size_ext")
        self._add = getattr(library, f"{letter}csrgeam2")
        self._one, self._nnz = np.ones(1, dtype), np.zeros(1, np.int32)
        self._memory: Buffer = work.allocate(0, "csrgeam2's working memory")

    def __call__(self, a: CsrMemory, a_nnz: int, b: CsrMemory, b_nnz: int, c: CsrMemory) -> int:
        """Queue C = A + B, wait for the number of entries of C and return it."""
        library, start = self._handle.library, (self._handle.value, *self._shape)
        unit_pointer = self._one.ctypes.data
        arrays = {name: [address(buffer) for buffer in memory] for name, memory in (("a", a), ("b", b), ("c", c))}
        (a_offsets, a_columns, a_values), (b_offsets, b_columns, b_values), (offsets, columns, values) = arrays.values()
        matrix = self._matrix
        arguments = (
            *start,
            unit_pointer, matrix, a_nnz, a_values, a_offsets, a_columns,
            unit_pointer, matrix, b_nnz, b_values, b_offsets, b_columns,
            matrix, values, offsets, columns,
        )  # fmt: skip
        size = int(self._size(*arguments))
        if size > self._memory.nbytes:
            self._work.device.synchronize()
            self._memory = self._work.allocate(size, "csrgeam2's working memory")
        memory = address(self._memory)
        library.xcsrgeam2nnz(
            *start, matrix, a_nnz, a_offsets, a_columns, matrix, b_nnz, b_offsets, b_columns,
            matrix, offsets, self._nnz.ctypes.data, memory,
        )  # fmt: skip
        self._add(*arguments, memory)
        return int(self._nnz[0])


def _summed(matrix: sp.csr_array) -> sp.csr_array:
    """Return a matrix without duplicates and with ascending columns in each row."""
    sum_matrix = matrix.copy()
    sum_matrix.sum_duplicates()
    return sum_matrix


class Sums(MatrixOperation):
    """Exclusive prefix sums of all row sizes, which are CSR's offsets."""

    kind = "primitive"
    modules: tuple[str, ...] = ("sort",)
    routine = "ours"

    def __init__(self, modules: Mapping[str, ModuleFile]) -> None:
        super().__init__(modules)
        self.name = f"scan/{self.routine}"
        self._count: int | None = None

    @property
    def columns(self) -> Mapping[str, Any]:
        return {"what": "scan", "routine": self.routine, "batch": self._count}

    def bind(self, work: RunnableContext, operands: GraphOperands) -> None:
        """Upload the sizes with a zero behind them, so that the last prefix sum is the total."""
        grown_matrix = operands.grown
        sizes = np.append(np.diff(grown_matrix.indptr), 0).astype(np.int32)
        self._count = n = len(sizes) - 1
        self.bytes_moved = 8 * n
        sums = work.allocate(4 * (n + 1), "its sums")
        self.launch = self.bind_sums(work, work.upload(sizes), sums, n)

        def read() -> sp.csr_array:
            offsets = work.download(sums, n + 1, np.dtype(np.int32))
            if (offsets != grown_matrix.indptr).any():
                raise IncorrectError(f"{np.count_nonzero(offsets != grown_matrix.indptr)} sums are wrong")
            return grown_matrix

        self._read = read

    def bind_sums(self, work: RunnableContext, sizes: Buffer, sums: Buffer, n: int) -> Callable[[], None]:
        scan = work.keep(Scan(work.device, work.load("sort"), n, work.guards))
        return scan.bind(sizes, sums, n)


class SortOfRows(MatrixOperation):
    """A stable sort of all entries by row; the entries come in any order, with their original positions."""

    kind = "primitive"
    modules: tuple[str, ...] = ("sort",)
    routine = "ours"

    def __init__(self, modules: Mapping[str, ModuleFile]) -> None:
        super().__init__(modules)
        self.name = f"sort/{self.routine}"
        self._count: int | None = None

    @property
    def columns(self) -> Mapping[str, Any]:
        return {"what": "sort", "format": "coo", "order": "any", "routine": self.routine, "batch": self._count}

    def bind(self, work: RunnableContext, operands: GraphOperands) -> None:
        plan = plan_on(work.workspace, "stream", "any")
        entries = plan.batches[0]
        self._count = n = len(entries.rows)
        launch, keys, order = self.bind_sort(work, work.upload(entries.rows), n, bit_count(operands.grown.shape[0]))
        self.launch = launch

        def read() -> sp.csr_array:
            check_sort(entries.rows, *(work.download(buffer, n, np.dtype(np.int32)) for buffer in (keys, order)))
            return operands.grown

        self._read = read

    def bind_sort(
        self, work: RunnableContext, keys: Buffer, n: int, bits: int
    ) -> tuple[Callable[[], None], Buffer, Buffer]:
        """Return a launch that sorts n keys of `bits` bits, with its outputs: sorted keys and original positions."""
        return work.keep(RadixSort(work.device, work.load("sort"), n, work.guards)).bind(keys, n, bits)


def check_sort(source: NDArray[np.int32], keys: NDArray[np.int32], order: NDArray[np.int32]) -> None:
    """Check the result of a stable sort without sorting on the host, which would take seconds.

    Original positions of equal keys must ascend, and those of different keys differ, so they form a permutation.
    """
    if not len(source):
        return
    outside_count = np.count_nonzero((order < 0) | (order >= len(source)))
    wrong_count = np.count_nonzero(keys != source.take(order, mode="clip"))
    disorder_count = np.count_nonzero((keys[1:] < keys[:-1]) | ((keys[1:] == keys[:-1]) & (order[1:] <= order[:-1])))
    if outside_count or wrong_count or disorder_count:
        raise IncorrectError(f"{outside_count + wrong_count + disorder_count} keys or places are wrong")


CUB_SOURCE = """\
#include <cub/cub.cuh>

extern "C" int scan(void* memory, size_t* bytes, const int* in, int* out, int n, void* stream)
{
    return cub::DeviceScan::ExclusiveSum(memory, *bytes, in, out, n, (cudaStream_t)stream);
}

extern "C" int sort(
    void* memory, size_t* bytes, const unsigned* keys, unsigned* keys_out, const int* values, int* values_out,
    int n, int bits, void* stream)
{
    return cub::DeviceRadixSort::SortPairs(
        memory, *bytes, keys, keys_out, values, values_out, n, 0, bits, (cudaStream_t)stream);
}
"""
CUB_FLAGS = ("-shared", "-Xcompiler", "-fPIC", "-O3", "-std=c++17")


def cub_library(target: Target) -> Path:
    """Return the path of the library for a GPU; compile the library if it does not exist yet."""
    compiler = nvcc.find()
    if compiler is None:
        raise Unsupported("there is no nvcc to compile CUB with")
    flags = (*CUB_FLAGS, f"-arch={target.name}")
    identity = "\0".join([CUB_SOURCE, *flags, nvcc.version(), *nvcc.environment()])
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    path = MODULES / target.name / STUDY_NAME / "objects" / f"cub-{digest}.so"
    if not path.exists():
        source = path.with_suffix(".cu")
        with replacing(source) as partial:
            partial.write_text(CUB_SOURCE)
        with replacing(path) as partial:
            compilation = run_program([compiler, *flags, "-o", partial, source], nvcc.COMPILING, "the compiler")
            if compilation.code:
                raise ModuleError(nvcc.first_error(compilation.said))
    return path


def compiler_version() -> str:
    return nvcc.version() if nvcc.find() else "no nvcc"


class _Cub:
    """A function of the CUB library, bound to a device and with working memory."""

    def __init__(self, work: RunnableContext, name: str, *arguments: Buffer | int) -> None:
        device = work.device
        if not isinstance(device, CudaDevice):
            raise Unsupported(f"CUB runs on NVIDIA GPUs, not on {device.name}")
        function = getattr(ctypes.CDLL(str(cub_library(device.target))), name)
        function.restype = ctypes.c_int
        self._name, self._call = name, device.within(function)
        self._given = [ctypes.c_int(a) if isinstance(a, int) else ctypes.c_void_p(_cuda_address(a)) for a in arguments]
        self._stream = ctypes.c_void_p(device.stream)
        self._bytes = ctypes.c_size_t(0)
        self._memory = ctypes.c_void_p(None)
        self()
        # called without memory, CUB only returns the needed bytes; a null pointer would mean the same again
        self._memory = ctypes.c_void_p(_cuda_address(work.allocate(max(self._bytes.value, 1), "CUB's memory")))

    def __call__(self) -> None:
        status = self._call(self._memory, ctypes.byref(self._bytes), *self._given, self._stream)
        if status:
            raise LaunchError(f"CUB's {self._name} returned error {status}")


class CubSums(Sums):
    """Exclusive prefix sums of the row sizes by cub::DeviceScan::ExclusiveSum."""

    kind = "baseline"
    modules = ()
    routine = "cub/DeviceScan"

    @property
    def identity(self) -> str:
        """The compiler's version, since CUB is installed with the compiler."""
        return compiler_version()

    def bind_sums(self, work: RunnableContext, sizes: Buffer, sums: Buffer, n: int) -> Callable[[], None]:
        return _Cub(work, "scan", sizes, sums, n + 1)


class CubSort(SortOfRows):
    """The sort of entries by row with cub::DeviceRadixSort::SortPairs, which reads original positions from memory."""

    kind = "baseline"
    modules = ()
    routine = "cub/DeviceRadixSort"

    @property
    def identity(self) -> str:
        """The compiler's version, since CUB is installed with the compiler."""
        return compiler_version()

    def bind_sort(
        self, work: RunnableContext, keys: Buffer, n: int, bits: int
    ) -> tuple[Callable[[], None], Buffer, Buffer]:
        row_numbers = work.upload(np.arange(n, dtype=np.int32))
        sorted_keys, order = (work.allocate(4 * n, f"the sort's {name}") for name in ("keys", "order"))
        return _Cub(work, "sort", keys, sorted_keys, row_numbers, order, n, max(bits, 1)), sorted_keys, order


def _cuda_address(buffer: Buffer) -> int:
    assert isinstance(buffer, CudaBuffer)
    return buffer.pointer
