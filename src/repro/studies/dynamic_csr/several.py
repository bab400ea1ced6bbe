"""Products over several devices of one host, and bringing the parts of their result to all of them.

Rows are sorted by their sizes and dealt modulo the number of devices, as in the paper, whose product ends with its
result distributed. For a next product all devices need all of it. Then the unknowns are renumbered, once and before any
clock: each device's part of a vector is contiguous, in the order of its rows. Results are brought back for verifying.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import IncorrectError, Runnable, Unsupported, not_prepared
from repro.bench.workspace import Workspace
from repro.bench.yardsticks import WORD
from repro.devices.base import Argument, Buffer, Copy
from repro.devices.several import Devices, numbers_of
from repro.sparse.built import Built
from repro.sparse.dynamic.product import Run
from repro.sparse.dynamic.render import PEERS
from repro.sparse.kernels import N_T, in_order
from repro.sparse.verify import NAN_BYTE
from repro.studies.dynamic_csr.distributed import SCHEDULE, Distributed
from repro.studies.dynamic_csr.nccl import versions
from repro.studies.dynamic_csr.operands import GraphOperands, OverDevices, operands_of

What = Literal["product", "exchange"]
Exchange = Literal["none", "copies", "stores", "nccl", "overlapped", "fused"]
#: How a result gets to all devices: copies by the driver, kernels that store into the others' memory, NCCL.
WAYS: tuple[Exchange, ...] = ("copies", "stores", "nccl")
#: How it does so while rows are still multiplied.
OVERLAPPED: tuple[Exchange, ...] = ("overlapped", "fused")
KIND = "several"
#: Steps of a launch: one, and as many as hide what it takes to start all devices and to wait for them.
STEPS = (1, 10)
#: The vector that overlapped products leave the share of their own columns in.
SCRATCH = 4


class Several(OverDevices):
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

    kind = KIND
    cold = False

    def __init__(self, built: Mapping[str, Built], what: What, exchange: Exchange, count: int, steps: int) -> None:
        self._built, self.what, self.exchange, self.devices, self.steps = built, what, exchange, count, steps
        words = [what, str(count), *([exchange] if exchange != "none" else []), *([f"x{steps}"] if steps > 1 else [])]
        self.name = "-".join(words)
        self._over: Distributed | None = None
        self.launch = not_prepared

    @property
    def identity(self) -> str:
        """The hashes of the modules, and what NCCL is."""
        hashes = [self._built[name].module.hash for name in ("product", "exchange")]
        return " ".join([*hashes, versions()] if self.exchange == "nccl" else hashes)

    @property
    def columns(self) -> Mapping[str, Any]:
        """What is done over how many devices; no format, so that no table of one device takes it for a product."""
        schedule = SCHEDULE.kind if self.what == "product" else None
        return {
            "what": self.what,
            "devices": self.devices,
            "exchange": self.exchange,
            "steps": self.steps,
            "schedule": schedule,
        }

    @property
    def over(self) -> Distributed:
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
        over = self._over = Distributed(workspace, self._built, self.devices)
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
        before, after = _vector(step - 1), _vector(step)
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
            x, y, scratch = over.vector(at, before).memory, over.part(at, after, at), over.part(at, SCRATCH, at)
            first, then = over.product(at, "own", x, scratch), over.product(at, "other", x, y)
            if first is None or then is None:
                continue
            own.append(first)
            n_t = N_T[device.backend]
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
            n_t = N_T[device.backend]
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
        written = {_vector(step) for step in range(1, self.steps + 1)}
        if self.exchange == "overlapped":
            written.add(SCRATCH)
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
        return {0, _vector(self.steps - 1)} if self.exchange == "overlapped" else {1, _vector(self.steps)}

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


def runnables(built: Mapping[str, Built], count: int) -> list[Runnable]:
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
    made: list[Runnable] = [Several(built, "product", "none", 1, steps) for steps in STEPS]
    for devices in numbers_of(count):
        for steps in STEPS:
            made += [Several(built, "product", way, devices, steps) for way in ("none", *WAYS, *OVERLAPPED)]
            made += [Several(built, "exchange", way, devices, steps) for way in WAYS]
    return made


def _vector(step: int) -> int:
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
