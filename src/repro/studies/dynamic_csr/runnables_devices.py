"""Products over several devices of one host, and the exchange of their results between devices.

Rows are sorted by their sizes and dealt to the devices round-robin, as in the paper, whose product leaves its result
distributed. A next product needs the whole vector on all devices. For this exchange the unknowns are renumbered once,
before any clock starts: each device's part of a vector is contiguous, in the order of its rows. Parts are exchanged by
copies of the driver, by kernels that store into the memory of other devices, or by NCCL's all-gather.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.bench.guards import Guarded
from repro.bench.runnable import Runnable, Workspace, not_prepared
from repro.bench.yardsticks import STREAM_WORD_BYTES
from repro.devices.base import Argument, Buffer, Copy, Device, Kernel, LaunchError
from repro.devices.cuda_driver import package_version
from repro.devices.device_group import Devices, device_counts
from repro.errors import IncorrectError, Unsupported
from repro.sparse.device_primitives import ModuleFile
from repro.sparse.dynamic import schedules
from repro.sparse.dynamic.kernels import PEERS
from repro.sparse.dynamic.matrix import Run, bind_bins
from repro.sparse.elementwise import BLOCK_SIZE, in_order
from repro.sparse.operands import NAN_BYTE
from repro.studies.dynamic_csr.operands import DistributedRunnable, GraphOperands, operands_of

if TYPE_CHECKING:
    from repro.devices.cuda import CudaDevice


#: Packages that can influence times: those that offer NCCL, and those that may contain its library.
NCCL_PACKAGES = ("nccl4py", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "cupy", "cupy-cuda12x", "cupy-cuda13x")


def nccl_versions() -> str:
    return " ".join(f"{name} {version}" for name in NCCL_PACKAGES if (version := package_version(name)))


class ArrayView:
    """A view of an array in GPU memory, in the form that other libraries accept."""

    def __init__(self, pointer: int, count: int, dtype: np.dtype[Any]) -> None:
        self.pointer, self.count, self.dtype = pointer, count, dtype

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": (self.count,),
            "typestr": self.dtype.str,
            "data": (self.pointer, False),
            "strides": None,
            "stream": None,
            "version": 3,
        }


class NcclPackage(Protocol):
    """Interface of a Python package that offers NCCL."""

    def open(self, ordinals: Sequence[int]) -> list[Any]:
        """Return one communicator for each GPU."""

    def gather(
        self, communicators: Sequence[Any], sent: Sequence[ArrayView], gathered: Sequence[ArrayView], streams: list[int]
    ) -> None:
        """Queue one all-gather as a group: each GPU sends its part on its own stream."""

    def close(self, communicator: Any) -> None: ...


class Nccl4py:
    """NCCL from NVIDIA's package nccl4py."""

    def __init__(self) -> None:
        self._core: Any = import_module("nccl.core")

    def open(self, ordinals: Sequence[int]) -> list[Any]:
        return cast(list[Any], self._core.Communicator.init_all(list(ordinals)))

    def gather(
        self, communicators: Sequence[Any], sent: Sequence[ArrayView], gathered: Sequence[ArrayView], streams: list[int]
    ) -> None:
        with self._core.group():
            for communicator, own_part, vector, stream in zip(communicators, sent, gathered, streams, strict=True):
                communicator.allgather(own_part, vector, stream=stream)

    def close(self, communicator: Any) -> None:
        communicator.destroy()


class Cupy:
    """NCCL from CuPy's bindings."""

    def __init__(self) -> None:
        self._nccl: Any = import_module("cupy.cuda.nccl")
        if not self._nccl.available:
            raise ImportError("CuPy was built without NCCL")

    def open(self, ordinals: Sequence[int]) -> list[Any]:
        return cast(list[Any], self._nccl.NcclCommunicator.initAll(list(ordinals)))

    def gather(
        self, communicators: Sequence[Any], sent: Sequence[ArrayView], gathered: Sequence[ArrayView], streams: list[int]
    ) -> None:
        nccl = self._nccl
        nccl.groupStart()
        try:
            for communicator, own_part, vector, stream in zip(communicators, sent, gathered, streams, strict=True):
                kind = nccl.NCCL_FLOAT64 if own_part.dtype.itemsize == 8 else nccl.NCCL_FLOAT32
                communicator.allGather(own_part.pointer, vector.pointer, own_part.count, kind, stream)
        finally:
            nccl.groupEnd()

    def close(self, communicator: Any) -> None:
        communicator.destroy()


class Nccl:
    """NCCL all-gathers over several GPUs, each on the GPUs' own streams.

    Opening NCCL takes a second and uses memory on each GPU, so a workspace keeps it like a buffer.
    """

    def __init__(self, devices: Devices) -> None:
        if devices.backend != "cuda":
            raise Unsupported("NCCL is for NVIDIA GPUs")
        # not every process may use NVLink multicast (NVLS)
        os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
        self._gpus = cast("list[CudaDevice]", [*devices])
        self._library = _nccl_package()
        try:
            self._communicators = self._library.open([gpu.ordinal for gpu in self._gpus])
        except Exception as error:  # each package raises its own exception types
            raise Unsupported(f"NCCL cannot be used: {error}") from error

    def bind_all_gather(self, vectors: Sequence[Buffer], part: int, dtype: np.dtype[Any]) -> Callable[[], None]:
        """Return a launch that sends `part` numbers of each GPU's vector to all other GPUs."""
        pointers = [int(cast(Any, vector).pointer) for vector in vectors]
        sources = [
            ArrayView(pointer + index * part * dtype.itemsize, part, dtype) for index, pointer in enumerate(pointers)
        ]
        targets = [ArrayView(pointer, part * len(pointers), dtype) for pointer in pointers]
        streams = [gpu.stream for gpu in self._gpus]

        def gather() -> None:
            try:
                self._library.gather(self._communicators, sources, targets, streams)
            except Exception as error:
                raise LaunchError(f"NCCL: {error}") from error

        return gather

    @property
    def nbytes(self) -> int:
        return 0

    def release(self) -> None:
        while self._communicators:
            with suppress(Exception):  # NCCL refuses further calls after a GPU fault
                self._library.close(self._communicators.pop(0))


def _nccl_package() -> NcclPackage:
    missing_packages: list[str] = []
    for package in (Nccl4py, Cupy):
        try:
            return package()
        except Exception as error:  # the package, or a library that it needs, is not installed
            missing_packages.append(f"{package.__name__}: {error}")
    raise Unsupported(f"no package has NCCL, nccl4py or CuPy: {'; '.join(missing_packages)}")


#: Parts of a vector are aligned to this many numbers, because a buffer's start needs such an alignment.
VECTOR_ALIGNMENT = 64


@dataclass(frozen=True)
class RowDistribution:
    """Distribution of rows to devices, and of vectors: the dealt order is the order of a vector's numbers by device.

    A vector in the dealt order consists of equally long parts, one for each device; numbers behind those of a device's
    rows are padding.
    """

    #: The rows by decreasing size, int64 `(rows,)`, dealt round-robin, starting with the first device.
    order: NDArray[np.int64]
    devices: int

    @classmethod
    def of(cls, sizes: NDArray[np.integer], devices: int) -> RowDistribution:
        """Deal rows of these sizes, `(rows,)`, to a number of devices."""
        return cls(np.argsort(-sizes.astype(np.int64), kind="stable"), devices)

    def rows(self, index: int) -> NDArray[np.int64]:
        """Return the rows of a device, the longest first."""
        return self.order[index :: self.devices]

    @property
    def part(self) -> int:
        """Length of one device's part of a vector."""
        part_size = -(-len(self.order) // self.devices)
        return max(1, -(-part_size // VECTOR_ALIGNMENT)) * VECTOR_ALIGNMENT

    @property
    def length(self) -> int:
        """Length of a vector in the dealt order."""
        return self.part * self.devices

    @cached_property
    def positions(self) -> NDArray[np.int32]:
        """Position of each row's number in the dealt order, int32 `(rows,)`."""
        positions = np.empty(len(self.order), np.int32)
        ranks = np.arange(len(self.order))
        positions[self.order] = ranks % self.devices * self.part + ranks // self.devices
        return positions

    def spread(self, vector: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return a vector `(rows,)` in the dealt order, with zeros as padding of each part."""
        distributed = np.zeros(self.length, vector.dtype)
        distributed[self.positions] = vector
        return distributed

    def gather(self, distributed: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return a vector that is in the dealt order in row order; the inverse of `spread`."""
        return distributed[self.positions]


def split_columns(matrix: sp.csr_array, index: int, part: int) -> tuple[sp.csr_array, sp.csr_array]:
    """Split entries in two: those with columns in a device's own part of x (in the dealt order), and all others."""
    is_own = matrix.indices // part == index
    return _masked_entries(matrix, is_own), _masked_entries(matrix, ~is_own)


def _masked_entries(matrix: sp.csr_array, mask: NDArray[np.bool_]) -> sp.csr_array:
    kept_counts = np.concatenate([[0], np.cumsum(mask)])
    return sp.csr_array(
        (matrix.data[mask], matrix.indices[mask], kept_counts[matrix.indptr]), shape=matrix.shape, copy=False
    )


#: Columns of a device's product: all in natural order, all in the dealt order, or of the latter only those of the
#: device's own part of x, or of the other parts.
ColumnOrder = Literal["natural", "dealt", "own", "other"]


@dataclass(frozen=True)
class DeviceRows:
    """The rows of one device in its memory; each row has one segment without free space."""

    rows: int
    bins: schedules.RowBins
    #: Parts into which the longest rows are cut.
    parts: int
    #: Kernel arguments: `columns`, `values`, `order`, `table`; and `parts`, `sums`, `done` for long rows.
    buffers: Mapping[str, Buffer]


class DistributedMatrix:
    """The grown matrix over a workspace's first devices, with vectors for products; the workspace keeps all memory."""

    def __init__(self, workspace: Workspace, modules: Mapping[str, ModuleFile], count: int) -> None:
        self._workspace, self._modules = workspace, modules
        self._operands = operands_of(workspace)
        self.devices: Devices = workspace.devices.leading(count)
        sizes = np.diff(self._operands.grown.indptr)
        self.dealing: RowDistribution = workspace.cached(("dealing", count), lambda: RowDistribution.of(sizes, count))
        self._parts: dict[tuple[int, int, int], Buffer] = {}

    @property
    def dtype(self) -> np.dtype[np.floating]:
        return self._operands.x.dtype

    def kernel(self, index: int, module: str, name: str) -> Kernel:
        return self._modules[module].program(self._workspace, index).kernel(name)

    def x(self, index: int) -> Buffer:
        """Return x on a device, in its natural order."""
        device, x = self.devices[index], self._operands.x
        return self._workspace.buffer(("whole x", index), lambda: device.upload(x))

    def vector(self, index: int, vector_index: int) -> Guarded:
        """Return memory for a vector in the dealt order on a device; all runnables use this memory in turn."""
        count, nbytes = len(self.devices), self.dealing.length * self.dtype.itemsize
        return self._workspace.guarded(
            ("dealt vector", count, index, vector_index), nbytes, f"vector {vector_index} of device {index}", index
        )

    def part(self, index: int, vector_index: int, owner: int) -> Buffer:
        """Return the part of a vector that holds the results of device `owner`, in the memory of device `index`."""
        key = index, vector_index, owner
        if key not in self._parts:
            offset, rows = self.dealing.part * owner, len(self.dealing.rows(owner))
            self._parts[key] = self.vector(index, vector_index).part(
                offset * self.dtype.itemsize, rows * self.dtype.itemsize
            )
        return self._parts[key]

    def write(self, index: int, vector_index: int, distributed: NDArray[np.floating]) -> None:
        self.devices[index].write(self.vector(index, vector_index).memory, distributed)

    def read(self, index: int, vector_index: int) -> NDArray[np.floating]:
        """Wait for the queue and return a vector in the dealt order."""
        distributed = np.empty(self.dealing.length, self.dtype)
        self.devices[index].download(self.vector(index, vector_index).memory, distributed)
        return distributed

    def nccl(self) -> Nccl:
        """Return NCCL over the devices, opened at first use."""
        return self._workspace.buffer(("nccl", len(self.devices)), lambda: Nccl(self.devices))

    def product(
        self, index: int, columns: ColumnOrder, x: Buffer, y: Buffer, peers: Sequence[Buffer] = ()
    ) -> Run | None:
        """Return a launch of the product of a device's rows; None if the device has no rows.

        Parameters
        ----------
        columns
            The columns to multiply, and the order of x.
        x, y
            The complete vector x, and the device's part of y.
        peers
            The device's part of y in other devices' memory, where the kernel also stores it.
        """
        part = self._part(index, columns)
        if not part.rows:
            return None
        schedule = schedules.DEVICE_SCHEDULE
        name = f"bins_exact{'_fused' if peers else ''}_u{schedule.in_flight}_{schedule.load}"
        kernel = self.kernel(index, "product", name)
        buffers = part.buffers
        part_arguments = [buffers["parts"], buffers["sums"], buffers["done"]]
        kernel_arguments: list[Argument] = [*(buffers[name] for name in ("order", "table", "columns", "values")), x, y]
        if peers:
            kernel_arguments += [np.int32(len(peers)), *peers, *[y] * (PEERS - len(peers))]
        return bind_bins(self.devices[index], kernel, part.bins, (part.parts, part_arguments), kernel_arguments)

    def _part(self, index: int, columns: ColumnOrder) -> DeviceRows:
        """Return the rows of a device, uploaded at first use; `own` and `other` columns are uploaded together."""
        column_orders: tuple[ColumnOrder, ...] = ("own", "other") if columns in ("own", "other") else (columns,)
        key = "rows of a device", len(self.devices), index, column_orders
        parts = self._workspace.cached(key, lambda: self._upload_all(key, index, column_orders))
        return parts[column_orders.index(columns)]

    def _upload_all(self, key: Hashable, index: int, column_orders: Sequence[ColumnOrder]) -> list[DeviceRows]:
        matrices = [rows := self._operands.grown[self.dealing.rows(index)]]
        if column_orders != ("natural",):
            columns = self.dealing.positions[rows.indices]
            distributed = sp.csr_array((rows.data, columns, rows.indptr), shape=rows.shape, copy=False)
            matrices = (
                [distributed] if len(column_orders) == 1 else [*split_columns(distributed, index, self.dealing.part)]
            )
        return [self._upload((key, matrix_index), index, matrix) for matrix_index, matrix in enumerate(matrices)]

    def _upload(self, key: tuple[Hashable, ...], index: int, matrix: sp.csr_array) -> DeviceRows:
        device: Device = self.devices[index]
        sizes = np.diff(matrix.indptr).astype(np.int32)
        bins = schedules.bin_rows(sizes, schedules.our_min_lengths(device.target, schedules.DEVICE_SCHEDULE.per_thread))
        parts = schedules.parts_of(bins, sizes, device.target, by_place=True)
        arrays: dict[str, NDArray[Any]] = {
            "columns": matrix.indices.astype(np.int32, copy=False),
            "values": matrix.data,
            "order": bins.order,
            "table": schedules.row_spans(sizes)[bins.order],
            "parts": schedules.nonempty_parts(parts),
            "sums": np.zeros(max(len(parts), 1), self.dtype),
            "done": np.zeros(max(len(parts), 1), np.int32),
        }
        buffers: dict[str, Buffer] = {}
        for name, array in arrays.items():
            buffers[name] = self._workspace.buffer((*key, name), partial(device.upload, array))
        return DeviceRows(len(sizes), bins, len(parts), buffers)


StepName = Literal["product", "exchange"]
Exchange = Literal["none", "copies", "stores", "nccl", "overlapped", "fused"]
#: How a result is sent to all devices: driver copies, kernels that store into other devices' memory, or NCCL.
EXCHANGES: tuple[Exchange, ...] = ("copies", "stores", "nccl")
#: How a result is sent to all devices while rows are still being multiplied.
OVERLAPPED_EXCHANGES: tuple[Exchange, ...] = ("overlapped", "fused")
SEVERAL_KIND = "several"
#: Numbers of steps in a launch: one, or enough steps to hide the time for starting all devices and waiting for them.
STEP_COUNTS = (1, 10)
#: Number of the vector that stores the product with a device's own columns in overlapped products.
SCRATCH_VECTOR = 4


class DistributedProduct(DistributedRunnable):
    """Steps over several devices: a product, an exchange, or a product and then an exchange.

    Step s reads vector s - 1 and writes vector s. The given x is vector 0 and y of the first step is vector 1; later
    steps write vectors 2 and 3 alternately. Thus x and the first step's y are not overwritten, and a launch can be
    repeated.

    Parameters
    ----------
    modules
        The modules `product` and `exchange`.
    operation
        `product`, with or without an exchange, or `exchange` alone.
    exchange
        `none`: y stays distributed, and each step multiplies the same x, which each device has from the beginning.
        `copies`, `stores`, `nccl`: how y is sent to all devices after the product. `overlapped`: copies during the
        product with the columns of the device's own part; each step sends its x instead of its y. `fused`: the product
        stores each number of y in the memory of all devices.
    count
        Number of devices.
    steps
        Number of steps in one launch.
    """

    kind = SEVERAL_KIND
    cold = False

    def __init__(
        self, modules: Mapping[str, ModuleFile], operation: StepName, exchange: Exchange, count: int, steps: int
    ) -> None:
        self._modules, self.operation, self.exchange, self.devices = modules, operation, exchange, count
        self.steps = steps
        suffixes = [exchange] * (exchange != "none") + [f"x{steps}"] * (steps > 1)
        self.name = "-".join([operation, str(count), *suffixes])
        self._over: DistributedMatrix | None = None
        self.launch = not_prepared

    @property
    def identity(self) -> str:
        hashes = [self._modules[name].module.hash for name in ("product", "exchange")]
        return " ".join([*hashes, nccl_versions()] if self.exchange == "nccl" else hashes)

    @property
    def columns(self) -> Mapping[str, Any]:
        """The exchange, the number of devices and steps; no `format`, so tables for one device skip these rows."""
        schedule = schedules.DEVICE_SCHEDULE.kind if self.operation == "product" else None
        return {
            "what": self.operation,
            "devices": self.devices,
            "exchange": self.exchange,
            "steps": self.steps,
            "schedule": schedule,
        }

    @property
    def over(self) -> DistributedMatrix:
        assert self._over is not None, "prepared first"
        return self._over

    def prepare(self, workspace: Workspace) -> None:
        """Assign the rows to devices, upload them, and bind all kernels and copies of a launch."""
        operands = operands_of(workspace)
        rows, columns = operands.grown.shape
        if len(workspace.devices) < self.devices:
            raise Unsupported(f"there are {len(workspace.devices)} devices, not {self.devices}")
        if self.exchange != "none" and rows != columns:
            raise Unsupported(f"y is no next x: the matrix is {rows} x {columns}")
        if self.exchange in ("stores", "fused"):
            _require_peers(workspace.devices.leading(self.devices))
        distribution = self._over = DistributedMatrix(workspace, self._modules, self.devices)
        if self.exchange != "none":
            distributed_x = distribution.dealing.spread(operands.x)
            for index in range(self.devices):
                distribution.write(index, 0, distributed_x)
        runs = [run for step in range(1, self.steps + 1) for run in self._step(step)]
        self.launch = in_order(runs)
        self.bytes_moved = self.steps * self._bytes(operands)

    def _bytes(self, operands: GraphOperands) -> int:
        """Return the minimum bytes of one step: matrix and vectors, or for an exchange the bytes that devices send."""
        rows, number = len(operands.reference), operands.x.itemsize
        if self.operation == "exchange":
            return (self.devices - 1) * rows * number
        matrix = int(operands.grown.nnz) * (4 + number) + 12 * rows
        return matrix + self.devices * operands.x.nbytes + rows * number

    def _step(self, step: int) -> list[Run]:
        source, target = _step_vector(step - 1), _step_vector(step)
        if self.exchange == "overlapped":
            return self._overlapped(source, target)
        if self.operation == "exchange":
            return [self._bring(1)]
        products = self._products("natural" if self.exchange == "none" else "dealt", source, target)
        if self.exchange == "none":
            return products
        return [*products, self.over.devices.meet if self.exchange == "fused" else self._bring(target)]

    def _products(self, columns: Literal["natural", "dealt"], source: int, target: int) -> list[Run]:
        distribution = self.over
        runs = []
        for index in range(self.devices):
            x = distribution.x(index) if columns == "natural" else distribution.vector(index, source).memory
            y = distribution.part(index, 1 if columns == "natural" else target, index)
            runs.append(
                distribution.product(
                    index, columns, x, y, self._parts_of_others(index, target) if self.exchange == "fused" else ()
                )
            )
        return [run for run in runs if run is not None]

    def _overlapped(self, source: int, target: int) -> list[Run]:
        """Return a step: multiply each device's own part of x while x is sent to all devices, then the other parts."""
        distribution, own_runs, other_runs = self.over, [], []
        for index, device in enumerate(distribution.devices):
            rows = len(distribution.dealing.rows(index))
            x, y, scratch = (
                distribution.vector(index, source).memory,
                distribution.part(index, target, index),
                distribution.part(index, SCRATCH_VECTOR, index),
            )
            first, then = distribution.product(index, "own", x, scratch), distribution.product(index, "other", x, y)
            if first is None or then is None:
                continue
            own_runs.append(first)
            n_t = BLOCK_SIZE[device.backend]
            kernel = distribution.kernel(index, "exchange", "add_vectors")
            other_runs += [then, device.bind(kernel, -(-rows // n_t), n_t, [np.int32(rows), y, scratch, y])]
        copies, own_products = self._copies(source), in_order(own_runs)
        return [lambda: distribution.devices.exchange(copies, own_products), *other_runs]

    def _bring(self, vector_index: int) -> Run:
        """Return a launch that sends each device's part of a vector to all other devices."""
        distribution = self.over
        if self.exchange == "copies":
            copies = self._copies(vector_index)
            return lambda: distribution.devices.exchange(copies)
        if self.exchange == "nccl":
            vectors = [distribution.vector(index, vector_index).memory for index in range(self.devices)]
            return distribution.nccl().bind_all_gather(vectors, distribution.dealing.part, distribution.dtype)
        return in_order([*self._stores(vector_index), distribution.devices.meet])

    def _copies(self, vector_index: int) -> list[Copy]:
        distribution = self.over
        return [
            Copy(
                distribution.part(index, vector_index, index),
                index,
                distribution.part(target_device, vector_index, index),
                target_device,
                distribution.part(index, vector_index, index).nbytes,
            )
            for index in range(self.devices)
            if len(distribution.dealing.rows(index))
            for target_device in range(self.devices)
            if target_device != index
        ]

    def _parts_of_others(self, index: int, vector_index: int) -> list[Buffer]:
        """Return a device's part of a vector in the memory of each other device."""
        return [
            self.over.part(target_device, vector_index, index)
            for target_device in range(self.devices)
            if target_device != index
        ]

    def _stores(self, vector_index: int) -> list[Run]:
        distribution, runs = self.over, []
        for index, device in enumerate(distribution.devices):
            own_part = distribution.part(index, vector_index, index)
            other_parts = self._parts_of_others(index, vector_index)
            if not len(distribution.dealing.rows(index)) or not other_parts:
                continue
            n_t = BLOCK_SIZE[device.backend]
            word_count = -(-own_part.nbytes // STREAM_WORD_BYTES[device.backend])  # a part is padded to whole words
            kernel = distribution.kernel(index, "exchange", "store_to_peers")
            unused = [own_part] * (PEERS - len(other_parts))
            arguments: list[Argument] = [
                np.int32(word_count),
                np.int32(len(other_parts)),
                own_part,
                *other_parts,
                *unused,
            ]
            runs.append(device.bind(kernel, min(-(-word_count // n_t), 4 * device.sm_count), n_t, arguments))
        return runs

    def check(self, operands: GraphOperands) -> float:
        """Launch once into NaN-filled vectors; check the first step's y, and that all devices hold equal vectors."""
        self._poison()
        if self.exchange == "none":
            return self._compare(operands)
        distributed_x = self.over.dealing.spread(operands.x)
        try:
            if self.operation == "exchange":
                self._hide(distributed_x, 1)
                self.launch()
                self._check_equality(1, distributed_x)
                return 0.0
            if self.exchange == "overlapped":
                self._hide(distributed_x, 0)
            error = self._compare(operands)
            first, last_step = (0, self.steps - 1) if self.exchange == "overlapped" else (1, self.steps)
            for vector_index in {first, _step_vector(last_step)}:
                self._check_equality(vector_index, self._assembled_vector(vector_index))
            return error
        finally:  # a later launch needs the given x on every device, not only on device 0
            for index in range(self.devices):
                self.over.write(index, 0, distributed_x)

    def _compare(self, operands: GraphOperands) -> float:
        self.launch()
        self.over.devices.synchronize()
        return operands.error_of(self.over.dealing.gather(self._assembled_vector(1)))

    def _poison(self) -> None:
        """Fill all memory that a launch writes with NaN."""
        vectors = {_step_vector(step) for step in range(1, self.steps + 1)}
        if self.exchange == "overlapped":
            vectors.add(SCRATCH_VECTOR)
        for index, device in enumerate(self.over.devices):
            for vector_index in vectors:
                device.fill(self.over.vector(index, vector_index).memory, NAN_BYTE)
        self.over.devices.meet()  # other devices store into this memory as well

    def _hide(self, values: NDArray[np.floating], vector_index: int) -> None:
        """Leave each device only its own part of a vector; fill all other parts with NaN."""
        distribution, part = self.over, self.over.dealing.part
        for index in range(self.devices):
            own_values = np.full_like(values, np.nan)
            own_values[index * part : (index + 1) * part] = values[index * part : (index + 1) * part]
            distribution.write(index, vector_index, own_values)

    def _assembled_vector(self, vector_index: int) -> NDArray[np.floating]:
        """Return a vector in the dealt order, assembled from each device's own part."""
        distribution, part = self.over, self.over.dealing.part
        return np.concatenate(
            [distribution.read(index, vector_index)[index * part : (index + 1) * part] for index in range(self.devices)]
        )

    def _check_equality(self, vector_index: int, expected_vector: NDArray[np.floating]) -> None:
        """Raise an error unless a vector has the wanted bits on all devices."""
        self.over.devices.synchronize()
        positions = self.over.dealing.positions
        bits = np.dtype(f"u{expected_vector.itemsize}")
        for index in range(self.devices):
            wrong_count = np.count_nonzero(
                self.over.read(index, vector_index)[positions].view(bits) != expected_vector[positions].view(bits)
            )
            if wrong_count:
                raise IncorrectError(
                    f"{wrong_count} of {len(positions)} numbers on device {index} are not what they are elsewhere"
                )

    def release(self) -> None:
        self._over = None
        self.launch = not_prepared


def device_runnables(modules: Mapping[str, ModuleFile], count: int) -> list[Runnable]:
    """Return all runnables for 1, 2, 4, ... and all of `count` devices; nothing for a single device."""
    if count < 2:
        return []
    runnables: list[Runnable] = [DistributedProduct(modules, "product", "none", 1, steps) for steps in STEP_COUNTS]
    for devices in device_counts(count):
        for steps in STEP_COUNTS:
            runnables += [
                DistributedProduct(modules, "product", way, devices, steps)
                for way in ("none", *EXCHANGES, *OVERLAPPED_EXCHANGES)
            ]
            runnables += [DistributedProduct(modules, "exchange", way, devices, steps) for way in EXCHANGES]
    return runnables


def _step_vector(step: int) -> int:
    """Return the index of the vector that a step writes; step 0 is the given x."""
    return step if step < 2 else 2 + step % 2


def _require_peers(devices: Devices) -> None:
    """Raise `Unsupported` unless each device can access the memory of all others."""
    if len(devices) > PEERS + 1:
        raise Unsupported(f"the kernel stores to {PEERS} other devices at the most, not to {len(devices) - 1}")
    if devices.backend == "opencl":
        raise Unsupported("each part of a CPU has a context of its own: no kernel reaches the memory of another part")
    peer_pairs = {tuple(link["devices"]) for link in devices.topology() if link["peer_access"]}
    missing_pairs = [pair for pair in combinations(range(len(devices)), 2) if pair not in peer_pairs]
    if missing_pairs:
        raise Unsupported(f"devices {missing_pairs[0][0]} and {missing_pairs[0][1]} do not reach each other's memory")
