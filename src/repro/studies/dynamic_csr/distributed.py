"""The grown matrix over several devices: each has rows of its own as a matrix of their own, and whole vectors."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.bench.guards import Guarded
from repro.bench.workspace import Workspace
from repro.devices.base import Argument, Buffer, Device, Kernel
from repro.devices.several import Devices
from repro.sparse.built import Built
from repro.sparse.dynamic.bins import Bins, at_least_one, bin_rows, our_least, parts_of, spans_of
from repro.sparse.dynamic.product import Run, bind_bins
from repro.sparse.dynamic.render import PEERS
from repro.sparse.dynamic.schedules import Schedule
from repro.studies.dynamic_csr.dealing import Dealing, split_columns_of
from repro.studies.dynamic_csr.nccl import Nccl
from repro.studies.dynamic_csr.operands import operands_of

#: Columns as they are; in the dealt order; and of these those in the device's own part of x, and the others.
Columns = Literal["natural", "dealt", "own", "other"]
#: All bins in one launch: rows of any size are dealt to as many threads as suit them.
SCHEDULE = Schedule("adaptive", 0, 4, 2, "ca", True)


@dataclass(frozen=True)
class Part:
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
    bins: Bins
    parts: int
    buffers: Mapping[str, Buffer]


class Distributed:
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

    def __init__(self, workspace: Workspace, built: Mapping[str, Built], count: int) -> None:
        self._workspace, self._built = workspace, built
        self._operands = operands_of(workspace)
        self.devices: Devices = workspace.devices.leading(count)
        sizes = np.diff(self._operands.grown.indptr)
        self.dealing: Dealing = workspace.fact(("dealing", count), lambda: Dealing.of(sizes, count))
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

    def product(self, at: int, columns: Columns, x: Buffer, y: Buffer, peers: Sequence[Buffer] = ()) -> Run | None:
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
        name = f"bins_exact{'_fused' if peers else ''}_u{SCHEDULE.unroll}_{SCHEDULE.load}"
        kernel = self.kernel(at, "product", name)
        held = part.buffers
        for_parts = [held["parts"], held["sums"], held["done"]]
        rest: list[Argument] = [held["order"], held["table"], held["columns"], held["values"], x, y]
        if peers:
            rest += [np.int32(len(peers)), *peers, *[y] * (PEERS - len(peers))]
        return bind_bins(self.devices[at], kernel, part.bins, (part.parts, for_parts), rest)

    def _part(self, at: int, columns: Columns) -> Part:
        """Return the rows of a device, brought there now unless they are there; own and other columns together."""
        together: tuple[Columns, ...] = ("own", "other") if columns in ("own", "other") else (columns,)
        key = "rows of a device", len(self.devices), at, together
        parts = self._workspace.fact(key, lambda: self._upload_all(key, at, together))
        return parts[together.index(columns)]

    def _upload_all(self, key: Hashable, at: int, together: Sequence[Columns]) -> list[Part]:
        matrices = [rows := self._operands.grown[self.dealing.rows(at)]]
        if together != ("natural",):
            columns = self.dealing.places[rows.indices]
            dealt = sp.csr_array((rows.data, columns, rows.indptr), shape=rows.shape, copy=False)
            matrices = [dealt] if len(together) == 1 else [*split_columns_of(dealt, at, self.dealing.part)]
        return [self._upload((key, which), at, matrix) for which, matrix in enumerate(matrices)]

    def _upload(self, key: tuple[Hashable, ...], at: int, matrix: sp.csr_array) -> Part:
        """Bring rows to a device, the longest first as they are dealt."""
        device: Device = self.devices[at]
        sizes = np.diff(matrix.indptr).astype(np.int32)
        bins = bin_rows(sizes, our_least(device.target, SCHEDULE.per_thread))
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
        return Part(len(sizes), bins, len(parts), buffers)
