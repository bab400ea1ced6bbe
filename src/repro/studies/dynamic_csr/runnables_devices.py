"""Products over several devices of one host, and the exchange of their results.

Rows are sorted by their sizes and dealt modulo the number of devices, as in the paper, whose product leaves its
result distributed. For a next product all devices need the whole vector. Then the unknowns are renumbered, once
and before any clock starts: each device's part of a vector is contiguous, in the order of its rows. Results are
brought back to be verified. Parts are exchanged by copies of the driver, by kernels that store into the memory
of other devices, or by NCCL's all-gather.
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

from repro.bench.runnable import IncorrectError, Runnable, Unsupported, not_prepared
from repro.bench.workspace import Guarded, Workspace
from repro.bench.yardsticks import WORD
from repro.devices.base import Argument, Buffer, Copy, Device, Kernel, LaunchError
from repro.devices.cuda_driver import package_version
from repro.devices.device_group import Devices, numbers_of
from repro.sparse.device_work import ModuleFile
from repro.sparse.dynamic.kernels import PEERS
from repro.sparse.dynamic.matrix import Run, bind_bins
from repro.sparse.dynamic.schedules import (
    RowBins,
    Schedule,
    at_least_one,
    bin_rows,
    our_min_lengths,
    parts_of,
    spans_of,
)
from repro.sparse.elementwise import BLOCK_SIZE, in_order
from repro.sparse.operands import NAN_BYTE
from repro.studies.dynamic_csr.operands import DistributedRunnable, GraphOperands, operands_of

if TYPE_CHECKING:
    from repro.devices.cuda import CudaDevice


#: What times depend on: the packages that may have it, and those that may bring the library.
NCCL_PACKAGES = ("nccl4py", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "cupy", "cupy-cuda12x", "cupy-cuda13x")


def nccl_versions() -> str:
    """Return the versions of the packages that are there."""
    return " ".join(f"{name} {version}" for name in NCCL_PACKAGES if (version := package_version(name)))


class ArrayView:
    """Numbers in the memory of a GPU, as other libraries take them."""

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
    """One package's way to NCCL."""

    def open(self, ordinals: Sequence[int]) -> list[Any]:
        """Return a communicator for each GPU."""

    def gather(
        self, communicators: Sequence[Any], sent: Sequence[ArrayView], whole: Sequence[ArrayView], at: list[int]
    ) -> None:
        """Queue the part of each GPU on its stream, all in one group."""

    def close(self, communicator: Any) -> None:
        """Give a communicator back."""


class Nccl4py:
    """NVIDIA's own package."""

    def __init__(self) -> None:
        self._core: Any = import_module("nccl.core")

    def open(self, ordinals: Sequence[int]) -> list[Any]:
        """Return a communicator for each GPU."""
        return cast(list[Any], self._core.Communicator.init_all(list(ordinals)))

    def gather(
        self, communicators: Sequence[Any], sent: Sequence[ArrayView], whole: Sequence[ArrayView], at: list[int]
    ) -> None:
        """Queue the part of each GPU on its stream, all in one group."""
        with self._core.group():
            for communicator, own, vector, stream in zip(communicators, sent, whole, at, strict=True):
                communicator.allgather(own, vector, stream=stream)

    def close(self, communicator: Any) -> None:
        """Give a communicator back."""
        communicator.destroy()


class Cupy:
    """CuPy's own bindings."""

    def __init__(self) -> None:
        self._nccl: Any = import_module("cupy.cuda.nccl")
        if not self._nccl.available:
            raise ImportError("CuPy was built without NCCL")

    def open(self, ordinals: Sequence[int]) -> list[Any]:
        """Return a communicator for each GPU."""
        return cast(list[Any], self._nccl.NcclCommunicator.initAll(list(ordinals)))

    def gather(
        self, communicators: Sequence[Any], sent: Sequence[ArrayView], whole: Sequence[ArrayView], at: list[int]
    ) -> None:
        """Queue the part of each GPU on its stream, all in one group."""
        nccl = self._nccl
        nccl.groupStart()
        try:
            for communicator, own, vector, stream in zip(communicators, sent, whole, at, strict=True):
                kind = nccl.NCCL_FLOAT64 if own.dtype.itemsize == 8 else nccl.NCCL_FLOAT32
                communicator.allGather(own.pointer, vector.pointer, own.count, kind, stream)
        finally:
            nccl.groupEnd()

    def close(self, communicator: Any) -> None:
        """Give a communicator back."""
        communicator.destroy()


class Nccl:
    """All-gathers over several GPUs, each on the GPUs' own streams.

    It takes a second to open and memory of each GPU, so that a workspace keeps it as it keeps buffers.

    Parameters
    ----------
    devices
        What to gather over.

    Raises
    ------
    Unsupported
        They are no GPUs, or no package has NCCL, or it cannot be used.
    """

    def __init__(self, devices: Devices) -> None:
        if devices.backend != "cuda":
            raise Unsupported("NCCL is for NVIDIA GPUs")
        # multicast by the switch between the GPUs is not for every process of a host to use
        os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
        self._gpus = cast("list[CudaDevice]", [*devices])
        self._library = _nccl_package()
        try:
            self._communicators = self._library.open([gpu.ordinal for gpu in self._gpus])
        except Exception as error:  # of whatever kind the package's are
            raise Unsupported(f"NCCL cannot be used: {error}") from error

    def bind_all_gather(self, vectors: Sequence[Buffer], part: int, dtype: np.dtype[Any]) -> Callable[[], None]:
        """Return what brings the part of each GPU to all others.

        Parameters
        ----------
        vectors
            The whole vector in the memory of each GPU.
        part
            Numbers of one part.
        dtype
            Of the numbers.
        """
        pointers = [int(cast(Any, vector).pointer) for vector in vectors]
        sent = [ArrayView(pointer + at * part * dtype.itemsize, part, dtype) for at, pointer in enumerate(pointers)]
        whole = [ArrayView(pointer, part * len(pointers), dtype) for pointer in pointers]
        streams = [gpu.stream for gpu in self._gpus]

        def gather() -> None:
            try:
                self._library.gather(self._communicators, sent, whole, streams)
            except Exception as error:
                raise LaunchError(f"NCCL: {error}") from error

        return gather

    @property
    def nbytes(self) -> int:
        """Bytes that can be read or written: none."""
        return 0

    def release(self) -> None:
        """Give the communicators back."""
        while self._communicators:
            with suppress(Exception):  # after a fault on a GPU the library refuses
                self._library.close(self._communicators.pop(0))


def _nccl_package() -> NcclPackage:
    missing: list[str] = []
    for package in (Nccl4py, Cupy):
        try:
            return package()
        except Exception as error:  # not installed, or its own libraries are not
            missing.append(f"{package.__name__}: {error}")
    raise Unsupported(f"no package has NCCL, nccl4py or CuPy: {'; '.join(missing)}")


#: Numbers that the parts of a vector are aligned to, so that each starts where a buffer of its own may start.
VECTOR_ALIGNMENT = 64


@dataclass(frozen=True)
class RowDistribution:
    """Which device has which rows, and where their results are in a vector in the dealt order.

    That vector has a part for each device, one after the other and all equally long; where a part is longer than its
    device has rows, the numbers behind them mean nothing.

    Attributes
    ----------
    order
        The rows by their sizes, the longest first, int64 `(rows,)`: the first is the first device's, the second the
        second's, and so on, then again the first's.
    devices
        How many.
    """

    order: NDArray[np.int64]
    devices: int

    @classmethod
    def of(cls, sizes: NDArray[np.integer], devices: int) -> RowDistribution:
        """Deal rows of these sizes, `(rows,)`, to so many devices."""
        return cls(np.argsort(-sizes.astype(np.int64), kind="stable"), devices)

    def rows(self, at: int) -> NDArray[np.int64]:
        """Return the rows of a device, the longest first."""
        return self.order[at :: self.devices]

    @property
    def part(self) -> int:
        """Numbers of one device's part of a vector."""
        most = -(-len(self.order) // self.devices)
        return max(1, -(-most // VECTOR_ALIGNMENT)) * VECTOR_ALIGNMENT

    @property
    def length(self) -> int:
        """Numbers of a vector in the dealt order."""
        return self.part * self.devices

    @cached_property
    def places(self) -> NDArray[np.int32]:
        """Where each row's number is in the dealt order, int32 `(rows,)`."""
        places = np.empty(len(self.order), np.int32)
        ranks = np.arange(len(self.order))
        places[self.order] = ranks % self.devices * self.part + ranks // self.devices
        return places

    def spread(self, vector: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return a vector `(rows,)` in the dealt order, with zeros behind each part."""
        dealt = np.zeros(self.length, vector.dtype)
        dealt[self.places] = vector
        return dealt

    def gather(self, dealt: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return a vector of the dealt order in that of the rows; the inverse of `spread`."""
        return dealt[self.places]


def split_columns(matrix: sp.csr_array, at: int, part: int) -> tuple[sp.csr_array, sp.csr_array]:
    """Return the entries of a matrix whose columns are in a device's own part of x, and the others.

    Parameters
    ----------
    matrix
        Its columns are in the dealt order.
    at, part
        Which device, and how long a part is.
    """
    own = matrix.indices // part == at
    return _masked_entries(matrix, own), _masked_entries(matrix, ~own)


def _masked_entries(matrix: sp.csr_array, which: NDArray[np.bool_]) -> sp.csr_array:
    before = np.concatenate([[0], np.cumsum(which)])
    return sp.csr_array(
        (matrix.data[which], matrix.indices[which], before[matrix.indptr]), shape=matrix.shape, copy=False
    )


#: Columns as they are; in the dealt order; and of these those in the device's own part of x, and the others.
ColumnOrder = Literal["natural", "dealt", "own", "other"]
#: All bins in one launch: rows of any size are dealt to as many threads as suit them.
DEVICE_SCHEDULE = Schedule("adaptive", 0, 4, 2, "ca", True)


@dataclass(frozen=True)
class DeviceRows:
    """The rows of one device, in its memory, one exact segment a row.

    Attributes
    ----------
    rows
        How many.
    bins
        Those of the schedule.
    parts
        How many parts the longest rows have.
    buffers
        `columns`, `values`, `order` and `table` as the kernel takes them; `parts`, `sums` and `done` for long rows.
    """

    rows: int
    bins: RowBins
    parts: int
    buffers: Mapping[str, Buffer]


class DistributedMatrix:
    """The grown matrix over the first devices of a workspace, which keeps all memory, and vectors for its products.

    Parameters
    ----------
    workspace
        Whose operands are a growing matrix.
    built
        The modules `product` and `exchange`.
    count
        How many devices.

    Attributes
    ----------
    devices
        So many.
    dealing
        Which has which rows.
    """

    def __init__(self, workspace: Workspace, built: Mapping[str, ModuleFile], count: int) -> None:
        self._workspace, self._built = workspace, built
        self._operands = operands_of(workspace)
        self.devices: Devices = workspace.devices.leading(count)
        sizes = np.diff(self._operands.grown.indptr)
        self.dealing: RowDistribution = workspace.fact(("dealing", count), lambda: RowDistribution.of(sizes, count))
        self._parts: dict[tuple[int, int, int], Buffer] = {}

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The working precision."""
        return self._operands.x.dtype

    def kernel(self, at: int, module: str, name: str) -> Kernel:
        """Return a kernel, ready to launch on a device.

        Raises
        ------
        ModuleError
        """
        return self._built[module].program(self._workspace, at).kernel(name)

    def x(self, at: int) -> Buffer:
        """Return x on a device, as it is."""
        device, x = self.devices[at], self._operands.x
        return self._workspace.buffer(("whole x", at), lambda: device.upload(x))

    def vector(self, at: int, which: int) -> Guarded:
        """Return memory for a vector in the dealt order on a device; all runnables use it one after the other."""
        count, nbytes = len(self.devices), self.dealing.length * self.dtype.itemsize
        return self._workspace.guarded(("dealt vector", count, at, which), nbytes, f"vector {which} of device {at}", at)

    def part(self, at: int, which: int, of: int) -> Buffer:
        """Return the part of a vector that belongs to the rows of a device, `of`, in the memory of another, `at`."""
        key = at, which, of
        if key not in self._parts:
            offset, rows = self.dealing.part * of, len(self.dealing.rows(of))
            self._parts[key] = self.vector(at, which).part(offset * self.dtype.itemsize, rows * self.dtype.itemsize)
        return self._parts[key]

    def write(self, at: int, which: int, dealt: NDArray[np.floating]) -> None:
        """Bring a vector in the dealt order to a device."""
        self.devices[at].write(self.vector(at, which).memory, dealt)

    def read(self, at: int, which: int) -> NDArray[np.floating]:
        """Return a vector in the dealt order from a device, once all that is queued is done."""
        dealt = np.empty(self.dealing.length, self.dtype)
        self.devices[at].download(self.vector(at, which).memory, dealt)
        return dealt

    def nccl(self) -> Nccl:
        """Return NCCL over the devices, opened at first use.

        Raises
        ------
        Unsupported
            It is not there, or cannot be used.
        """
        return cast(Nccl, self._workspace.buffer(("nccl", len(self.devices)), lambda: Nccl(self.devices)))

    def product(self, at: int, columns: ColumnOrder, x: Buffer, y: Buffer, peers: Sequence[Buffer] = ()) -> Run | None:
        """Return what queues the product of a device's rows; None where it has no rows.

        Parameters
        ----------
        columns
            Which of the columns, and how x is ordered.
        x, y
            The whole x, and the device's part of y.
        peers
            That part in the memory of other devices, which it is stored to as well.
        """
        part = self._part(at, columns)
        if not part.rows:
            return None
        name = f"bins_exact{'_fused' if peers else ''}_u{DEVICE_SCHEDULE.unroll}_{DEVICE_SCHEDULE.load}"
        kernel = self.kernel(at, "product", name)
        held = part.buffers
        for_parts = [held["parts"], held["sums"], held["done"]]
        rest: list[Argument] = [held["order"], held["table"], held["columns"], held["values"], x, y]
        if peers:
            rest += [np.int32(len(peers)), *peers, *[y] * (PEERS - len(peers))]
        return bind_bins(self.devices[at], kernel, part.bins, (part.parts, for_parts), rest)

    def _part(self, at: int, columns: ColumnOrder) -> DeviceRows:
        """Return the rows of a device, brought there now unless they are there; own and other columns together."""
        together: tuple[ColumnOrder, ...] = ("own", "other") if columns in ("own", "other") else (columns,)
        key = "rows of a device", len(self.devices), at, together
        parts = self._workspace.fact(key, lambda: self._upload_all(key, at, together))
        return parts[together.index(columns)]

    def _upload_all(self, key: Hashable, at: int, together: Sequence[ColumnOrder]) -> list[DeviceRows]:
        matrices = [rows := self._operands.grown[self.dealing.rows(at)]]
        if together != ("natural",):
            columns = self.dealing.places[rows.indices]
            dealt = sp.csr_array((rows.data, columns, rows.indptr), shape=rows.shape, copy=False)
            matrices = [dealt] if len(together) == 1 else [*split_columns(dealt, at, self.dealing.part)]
        return [self._upload((key, which), at, matrix) for which, matrix in enumerate(matrices)]

    def _upload(self, key: tuple[Hashable, ...], at: int, matrix: sp.csr_array) -> DeviceRows:
        """Bring rows to a device, the longest first as they are dealt."""
        device: Device = self.devices[at]
        sizes = np.diff(matrix.indptr).astype(np.int32)
        bins = bin_rows(sizes, our_min_lengths(device.target, DEVICE_SCHEDULE.per_thread))
        parts = parts_of(bins, sizes, device.target, by_place=True)
        arrays: dict[str, NDArray[Any]] = {
            "columns": matrix.indices.astype(np.int32, copy=False),
            "values": matrix.data,
            "order": bins.order,
            "table": spans_of(sizes)[bins.order],
            "parts": at_least_one(parts),
            "sums": np.zeros(max(len(parts), 1), self.dtype),
            "done": np.zeros(max(len(parts), 1), np.int32),
        }
        buffers: dict[str, Buffer] = {}
        for name, array in arrays.items():
            buffers[name] = self._workspace.buffer((*key, name), partial(device.upload, array))
        return DeviceRows(len(sizes), bins, len(parts), buffers)


StepName = Literal["product", "exchange"]
Exchange = Literal["none", "copies", "stores", "nccl", "overlapped", "fused"]
#: How a result gets to all devices: copies by the driver, kernels that store into the others' memory, NCCL.
EXCHANGES: tuple[Exchange, ...] = ("copies", "stores", "nccl")
#: How it does so while rows are still multiplied.
OVERLAPPED_EXCHANGES: tuple[Exchange, ...] = ("overlapped", "fused")
SEVERAL_KIND = "several"
#: Steps of a launch: one, and as many as hide what it takes to start all devices and to wait for them.
STEP_COUNTS = (1, 10)
#: The vector that overlapped products leave the share of their own columns in.
SCRATCH_VECTOR = 4


class DistributedProduct(DistributedRunnable):
    """Steps over several devices: a product, an exchange, or a product and then an exchange.

    Step s reads vector s - 1 and writes vector s. The given x is vector 0 and y of the first step is vector 1; later
    steps write 2 and 3 in turns. So each launch begins anew, and leaves the first step's y.

    Parameters
    ----------
    built
        The modules `product` and `exchange`.
    what
        `product`, with or without an exchange, or `exchange` alone.
    exchange
        `none`: y stays distributed, and each step multiplies the same x, which each device has from the beginning.
        `copies`, `stores`, `nccl`: y is brought to all devices, one way or another. `overlapped`: copies, and
        meanwhile the product with the columns that the device has itself; each step brings its x, not its y. `fused`:
        the product stores each number of y to all devices.
    count
        So many devices, the first ones.
    steps
        Of one launch.
    """

    kind = SEVERAL_KIND
    cold = False

    def __init__(
        self, built: Mapping[str, ModuleFile], what: StepName, exchange: Exchange, count: int, steps: int
    ) -> None:
        self._built, self.what, self.exchange, self.devices, self.steps = built, what, exchange, count, steps
        words = [what, str(count), *([exchange] if exchange != "none" else []), *([f"x{steps}"] if steps > 1 else [])]
        self.name = "-".join(words)
        self._over: DistributedMatrix | None = None
        self.launch = not_prepared

    @property
    def identity(self) -> str:
        """The hashes of the modules, and what NCCL is."""
        hashes = [self._built[name].module.hash for name in ("product", "exchange")]
        return " ".join([*hashes, nccl_versions()] if self.exchange == "nccl" else hashes)

    @property
    def columns(self) -> Mapping[str, Any]:
        """What is done over how many devices; no format, so that no table of one device takes it for a product."""
        schedule = DEVICE_SCHEDULE.kind if self.what == "product" else None
        return {
            "what": self.what,
            "devices": self.devices,
            "exchange": self.exchange,
            "steps": self.steps,
            "schedule": schedule,
        }

    @property
    def over(self) -> DistributedMatrix:
        """Matrix and vectors, once prepared."""
        assert self._over is not None, "prepared first"
        return self._over

    def prepare(self, workspace: Workspace) -> None:
        """Deal the rows, bring them to the devices, and bind all that a launch queues.

        Raises
        ------
        Unsupported, ModuleError, OutOfDeviceMemory
        """
        operands = operands_of(workspace)
        rows, columns = operands.grown.shape
        if len(workspace.devices) < self.devices:
            raise Unsupported(f"there are {len(workspace.devices)} devices, not {self.devices}")
        if self.exchange != "none" and rows != columns:
            raise Unsupported(f"y is no next x: the matrix is {rows} x {columns}")
        if self.exchange in ("stores", "fused"):
            _require_peers(workspace.devices.leading(self.devices))
        over = self._over = DistributedMatrix(workspace, self._built, self.devices)
        if self.exchange != "none":
            given = over.dealing.spread(operands.x)
            for at in range(self.devices):
                over.write(at, 0, given)
        runs = [run for step in range(1, self.steps + 1) for run in self._step(step)]
        self.launch = in_order(runs)
        self.moved = self.steps * self._bytes(operands)

    def _bytes(self, operands: GraphOperands) -> int:
        """Return what one step moves at the least: matrix and vectors, or of an exchange what devices send."""
        rows, number = len(operands.reference), operands.x.itemsize
        if self.what == "exchange":
            return (self.devices - 1) * rows * number
        matrix = int(operands.grown.nnz) * (4 + number) + 12 * rows
        return matrix + self.devices * operands.x.nbytes + rows * number

    def _step(self, step: int) -> list[Run]:
        before, after = _step_vector(step - 1), _step_vector(step)
        if self.exchange == "overlapped":
            return self._overlapped(before, after)
        if self.what == "exchange":
            return [self._bring(1)]
        products = self._products("natural" if self.exchange == "none" else "dealt", before, after)
        if self.exchange == "none":
            return products
        return [*products, self.over.devices.meet if self.exchange == "fused" else self._bring(after)]

    def _products(self, columns: Literal["natural", "dealt"], before: int, after: int) -> list[Run]:
        over = self.over
        runs = []
        for at in range(self.devices):
            x = over.x(at) if columns == "natural" else over.vector(at, before).memory
            y = over.part(at, 1 if columns == "natural" else after, at)
            runs.append(over.product(at, columns, x, y, self._of_others(at, after) if self.exchange == "fused" else ()))
        return [run for run in runs if run is not None]

    def _overlapped(self, before: int, after: int) -> list[Run]:
        """Return a step that brings its x to all devices, and meanwhile multiplies what each has of it."""
        over, own, rest = self.over, [], []
        for at, device in enumerate(over.devices):
            rows = len(over.dealing.rows(at))
            x, y, scratch = over.vector(at, before).memory, over.part(at, after, at), over.part(at, SCRATCH_VECTOR, at)
            first, then = over.product(at, "own", x, scratch), over.product(at, "other", x, y)
            if first is None or then is None:
                continue
            own.append(first)
            n_t = BLOCK_SIZE[device.backend]
            kernel = over.kernel(at, "exchange", "add_vectors")
            rest += [then, device.bind(kernel, -(-rows // n_t), n_t, [np.int32(rows), y, scratch, y])]
        copies, meanwhile = self._copies(before), in_order(own)
        return [lambda: over.devices.exchange(copies, meanwhile), *rest]

    def _bring(self, which: int) -> Run:
        """Return what brings each device's part of a vector to all others."""
        over = self.over
        if self.exchange == "copies":
            copies = self._copies(which)
            return lambda: over.devices.exchange(copies)
        if self.exchange == "nccl":
            vectors = [over.vector(at, which).memory for at in range(self.devices)]
            return over.nccl().bind_all_gather(vectors, over.dealing.part, over.dtype)
        return in_order([*self._stores(which), over.devices.meet])

    def _copies(self, which: int) -> list[Copy]:
        over = self.over
        return [
            Copy(over.part(at, which, at), at, over.part(to, which, at), to, over.part(at, which, at).nbytes)
            for at in range(self.devices)
            if len(over.dealing.rows(at))
            for to in range(self.devices)
            if to != at
        ]

    def _of_others(self, at: int, which: int) -> list[Buffer]:
        """Return a device's part of a vector in the memory of each other one."""
        return [self.over.part(to, which, at) for to in range(self.devices) if to != at]

    def _stores(self, which: int) -> list[Run]:
        over, runs = self.over, []
        for at, device in enumerate(over.devices):
            own = over.part(at, which, at)
            others = self._of_others(at, which)
            if not len(over.dealing.rows(at)) or not others:
                continue
            n_t = BLOCK_SIZE[device.backend]
            words = -(-own.nbytes // WORD[device.backend])  # a part has room for whole words
            kernel = over.kernel(at, "exchange", "store_to_peers")
            unused = [own] * (PEERS - len(others))
            arguments: list[Argument] = [np.int32(words), np.int32(len(others)), own, *others, *unused]
            runs.append(device.bind(kernel, min(-(-words // n_t), 4 * device.n_s), n_t, arguments))
        return runs

    def check(self, operands: GraphOperands) -> float:
        """Launch once into vectors of NaN, compare the first step's y, and what was brought to all with each other."""
        self._poison()
        if self.exchange == "none":
            return self._compare(operands)
        given = self.over.dealing.spread(operands.x)
        try:
            if self.what == "exchange":
                self._hide(given, 1)
                self.launch()
                self._same_everywhere(1, given)
                return 0.0
            if self.exchange == "overlapped":
                self._hide(given, 0)
            error = self._compare(operands)
            for which in self._brought():
                self._same_everywhere(which, self._assembled(which))
            return error
        finally:  # the others' launches begin with it
            for at in range(self.devices):
                self.over.write(at, 0, given)

    def _compare(self, operands: GraphOperands) -> float:
        self.launch()
        self.over.devices.synchronize()
        return operands.error_of(self.over.dealing.gather(self._assembled(1)))

    def _poison(self) -> None:
        """Make NaN of all that a launch writes."""
        written = {_step_vector(step) for step in range(1, self.steps + 1)}
        if self.exchange == "overlapped":
            written.add(SCRATCH_VECTOR)
        for at, device in enumerate(self.over.devices):
            for which in written:
                device.fill(self.over.vector(at, which).memory, NAN_BYTE)
        self.over.devices.meet()  # others store into this memory as well

    def _hide(self, given: NDArray[np.floating], which: int) -> None:
        """Leave each device of a vector its own part alone, NaN in the others', which are still to be brought."""
        over, part = self.over, self.over.dealing.part
        for at in range(self.devices):
            own = np.full_like(given, np.nan)
            own[at * part : (at + 1) * part] = given[at * part : (at + 1) * part]
            over.write(at, which, own)

    def _brought(self) -> set[int]:
        """Return the vectors that all devices have after a launch: the first and the last that were brought."""
        if self.exchange == "none":
            return set()
        return {0, _step_vector(self.steps - 1)} if self.exchange == "overlapped" else {1, _step_vector(self.steps)}

    def _assembled(self, which: int) -> NDArray[np.floating]:
        """Return a vector in the dealt order of the part that each device has itself."""
        over, part = self.over, self.over.dealing.part
        return np.concatenate([over.read(at, which)[at * part : (at + 1) * part] for at in range(self.devices)])

    def _same_everywhere(self, which: int, wanted: NDArray[np.floating]) -> None:
        """Raise an error unless all devices have these bits."""
        self.over.devices.synchronize()
        places = self.over.dealing.places
        bits = np.dtype(f"u{wanted.itemsize}")
        for at in range(self.devices):
            other = np.count_nonzero(self.over.read(at, which)[places].view(bits) != wanted[places].view(bits))
            if other:
                raise IncorrectError(f"{other} of {len(places)} numbers on device {at} are not what they are elsewhere")

    def release(self) -> None:
        """Let go of matrix and vectors, which belong to the workspace."""
        self._over = None
        self.launch = not_prepared


def device_runnables(built: Mapping[str, ModuleFile], count: int) -> list[Runnable]:
    """Return all that is measured over 1, 2, 4, ... and all devices; nothing where there is one.

    Parameters
    ----------
    built
        The modules `product` and `exchange`.
    count
        How many devices there are.
    """
    if count < 2:
        return []
    made: list[Runnable] = [DistributedProduct(built, "product", "none", 1, steps) for steps in STEP_COUNTS]
    for devices in numbers_of(count):
        for steps in STEP_COUNTS:
            made += [
                DistributedProduct(built, "product", way, devices, steps)
                for way in ("none", *EXCHANGES, *OVERLAPPED_EXCHANGES)
            ]
            made += [DistributedProduct(built, "exchange", way, devices, steps) for way in EXCHANGES]
    return made


def _step_vector(step: int) -> int:
    """Return which vector a step writes; step 0 is the given x."""
    return step if step < 2 else 2 + step % 2


def _require_peers(devices: Devices) -> None:
    """Raise `Unsupported` unless each device reaches the memory of all others."""
    if len(devices) > PEERS + 1:
        raise Unsupported(f"the kernel stores to {PEERS} other devices at the most, not to {len(devices) - 1}")
    if devices.backend == "opencl":
        raise Unsupported("each part of a CPU has a context of its own: no kernel reaches the memory of another part")
    reached = {tuple(link["devices"]) for link in devices.topology() if link["peer_access"]}
    apart = [pair for pair in combinations(range(len(devices)), 2) if pair not in reached]
    if apart:
        raise Unsupported(f"devices {apart[0][0]} and {apart[0][1]} do not reach each other's memory")
