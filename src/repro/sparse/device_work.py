"""Modules, memory, launches and parallel primitives of runnables that have several kernels.

`Work` is for what is timed, `Launches` for kernels that are launched at once, one after the other. Both own the
memory that their kernels pass results on in. The primitives are exclusive sums, which make of row sizes the
offsets of rows, and a stable radix sort that yields the order, which sorts coordinates by column and then by row.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import ModuleError, Unsupported
from repro.bench.workspace import Guards, Workspace
from repro.codegen.build_cache import Module, manifest_path
from repro.codegen.targets import Target
from repro.devices.base import PART_ALIGNMENT, Argument, Buffer, CaptureError, Device, Program
from repro.errors import ReproError
from repro.sparse.elementwise import BLOCK_SIZE, Kernels


@dataclass(frozen=True)
class ModuleFile:
    """A module's manifest, and where it lies.

    Attributes
    ----------
    module
        The manifest.
    folder
        Its folder; binaries are relative to it.
    """

    module: Module
    folder: Path

    @classmethod
    def read(cls, manifest: Path) -> ModuleFile:
        """Read a manifest.

        Raises
        ------
        ReproError
            It is missing or damaged.
        """
        return cls(Module.load(manifest), manifest.parent)

    def program(self, workspace: Workspace, at: int = 0) -> Program:
        """Return the module, loaded on the device of that number.

        Raises
        ------
        ModuleError
            It did not compile, or its binary is not what was compiled.
        """
        if self.module.binary is None:
            raise ModuleError(self.module.message)
        return workspace.program(self.folder / self.module.binary, at)


def read_modules(target: Target, study: str, group: str, names: Iterable[str]) -> dict[str, ModuleFile]:
    """Return a study's compiled modules of a group by name.

    Raises
    ------
    ReproError
        One is not compiled yet.
    """
    return {name: ModuleFile.read(manifest_path(target.name, study, f"{group}/{name}")) for name in names}


#: Blocks for each multiprocessor at most: kernels go through their numbers in steps of the grid.
BLOCKS_PER_SM = {"cuda": 16, "opencl": 2}


class Releases(Protocol):
    """What holds memory of a device."""

    def release(self) -> None:
        """Give it back."""


R = TypeVar("R", bound=Releases)
T = TypeVar("T")


def keep(held: ExitStack, thing: R) -> R:
    """Return what holds memory, which is given back when the stack is closed."""
    held.callback(thing.release)
    return thing


def reserve(held: ExitStack, device: Device, guards: Guards | None, nbytes: int, name: str) -> Buffer:
    """Return memory that is given back when the stack is closed, between guard zones where somebody looks after them.

    Raises
    ------
    OutOfDeviceMemory
    """
    return keep(held, guards.allocate(nbytes, name)).memory if guards else keep(held, device.allocate(nbytes))


class Work:
    """The programs and the memory of a runnable.

    Parameters
    ----------
    workspace
        Where it works.
    built
        The modules by name, those that it needs among them.
    held
        What gives everything back once it is closed.
    """

    def __init__(self, workspace: Workspace, built: Mapping[str, ModuleFile], held: ExitStack) -> None:
        self.device, self.guards = workspace.device, workspace.guards
        self.workspace, self._built, self._held = workspace, built, held
        self._programs: dict[str, Program] = {}

    def program(self, module: str) -> Program:
        """Return a module, loaded.

        Raises
        ------
        ModuleError
            It did not compile, or is damaged.
        """
        if module not in self._programs:
            self._programs[module] = self._built[module].program(self.workspace)
        return self._programs[module]

    def keep(self, thing: R) -> R:
        """Return what holds memory, which is given back at the end."""
        return keep(self._held, thing)

    def fact(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return what runnables of a problem share on the host, computed at first use."""
        return self.workspace.fact(key, compute)

    def at_end(self, call: Callable[[], object]) -> None:
        """Have something done when all is given back."""
        self._held.callback(call)

    def upload(self, array: NDArray[Any]) -> Buffer:
        """Copy an array to the device; of an empty one there is memory for a number."""
        return self.keep(self.device.upload(array if array.size else np.zeros(1, array.dtype)))

    def allocate(self, nbytes: int, name: str) -> Buffer:
        """Return memory to write to, between guard zones."""
        return self.keep(self.guards.allocate(nbytes, name)).memory

    def load(self, array: NDArray[Any], name: str, count: int | None = None) -> Buffer:
        """Copy an array, or its first numbers, to memory to write to for all of it, between guard zones."""
        buffer, first = self.allocate(array.nbytes, name), array[:count]
        if first.size:
            self.device.write(buffer, first)
        return buffer

    def download(self, buffer: Buffer, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Wait for what is queued and return the first numbers of a buffer."""
        array = np.empty(count, dtype)
        if count:
            self.device.download(buffer, array)
        return array

    def captured(self, launch: Callable[[], None]) -> Callable[[], None]:
        """Launch once, and return what queues the same as one operation.

        Raises
        ------
        Unsupported
            The device cannot.
        """
        launch()
        self.device.synchronize()
        try:
            captured = self.device.capture(launch)
        except CaptureError as error:
            raise Unsupported(f"the launch cannot be captured into a graph: {error}") from None
        self.at_end(captured.release)
        return captured.replay

    def bind(self, module: str, kernel: str, count: int, *arguments: Argument) -> Callable[[], None]:
        """Return what queues a kernel that goes through so many numbers."""
        n_t = BLOCK_SIZE[self.device.backend]
        blocks = min(-(-count // n_t), self.device.n_s * BLOCKS_PER_SM[self.device.backend])
        return self.device.bind(self.program(module).kernel(kernel), max(blocks, 1), n_t, arguments)


#: Numbers that a thread takes at once.
SCAN_ITEMS = 8
#: Blocks that a multiprocessor holds, each of which has a run of tiles.
SCAN_BLOCKS_PER_SM = {"cuda": 8, "opencl": 2}
#: So many tiles are one run, which needs one launch.
FEW_TILES = 4


class Scan:
    """Exclusive sums of int32 numbers, with the memory that they need on the way.

    Parameters
    ----------
    device
        Where the numbers are.
    program
        The module `sort`.
    capacity
        The most numbers that are ever added up.
    guards
        What looks after the memory that is written; None: nobody.

    Raises
    ------
    OutOfDeviceMemory
    """

    def __init__(self, device: Device, program: Program, capacity: int, guards: Guards | None = None) -> None:
        self._device, self._program, self._capacity = device, program, capacity
        self._n_t = BLOCK_SIZE[device.backend]
        self._most = device.n_s * SCAN_BLOCKS_PER_SM[device.backend]
        self._held = ExitStack()
        self._partial = reserve(self._held, device, guards, 4 * self._most, "the sums of runs")

    def bind(self, counts: Buffer, sums: Buffer, n: int) -> Callable[[], None]:
        """Return what queues sums[i] = counts[0] + … + counts[i - 1] for i from 0 to n.

        Parameters
        ----------
        counts
            int32 `(n,)`; they and their sum fit into 31 bits.
        sums
            int32 `(n + 1,)`; may be `counts`, where that has room for one number more.

        Raises
        ------
        ReproError
            n is more than the capacity.
        """
        check_size(n, self._capacity, "numbers to add up")
        run, blocks = runs_of(n, self._n_t * SCAN_ITEMS, self._most, FEW_TILES)
        size = [np.int32(n), np.int32(run)]
        partial = self._partial

        def bind(kernel: str, *buffers: Buffer) -> Callable[[], None]:
            return self._device.bind(self._program.kernel(kernel), blocks, self._n_t, [*size, *buffers])

        write = bind("scan_write", counts, partial, sums)
        if blocks == 1:
            return write
        count = bind("scan_count", counts, partial)

        def launch() -> None:
            count()
            write()

        return launch

    def release(self) -> None:
        """Give the memory back; harmless a second time."""
        self._held.close()


def read_total(device: Device, sums: Buffer, n: int) -> int:
    """Wait for what is queued, and return the sum of all n numbers: the last of their n + 1 sums."""
    first = 4 * n // PART_ALIGNMENT * PART_ALIGNMENT
    end = device.part(sums, first, 4 * (n + 1) - first)
    numbers = np.empty(n + 1 - first // 4, np.int32)
    device.download(end, numbers)
    end.release()
    return int(numbers[-1])


def check_size(n: int, capacity: int, what: str) -> None:
    """Refuse more than there is memory for.

    Raises
    ------
    ReproError
    """
    if not 0 <= n <= capacity:
        raise ReproError(f"more {what} than there is memory for", expected=f"0 to {capacity:,}", actual=f"{n:,}")


def runs_of(n: int, tile: int, most: int, few: int = 1) -> tuple[int, int]:
    """Return the numbers of a run, a multiple of the tile, and how many runs there are: 1 at least, `most` at most.

    Parameters
    ----------
    few
        So many tiles are one run.
    """
    tiles = -(-n // tile)
    per_run = few if tiles <= few else -(-tiles // most)
    return per_run * tile, max(1, -(-tiles // per_run))


#: Threads of a block that counts or scatters, and the keys of each in a tile: as in `sort.j2`.
SORT_BLOCK_SIZE = {"cuda": 256, "opencl": 16}
SORT_ITEMS = {"cuda": 12, "opencl": 256}
#: Digits of a pass at most, and their bits.
RADIX, DIGIT_BITS = 256, 8
SORT_KEY_BITS = 32
#: Blocks that a multiprocessor holds, each of which has a run of tiles.
SORT_BLOCKS_PER_SM = {"cuda": 4, "opencl": 2}


class BoundSort(NamedTuple):
    """A sort that is bound to its keys.

    Attributes
    ----------
    launch
        Queues it.
    keys
        uint32 `(n,)`: the keys in order, until the next sort with the same memory.
    order
        int32 `(n,)`: where the i-th key of these is in the input, until then.
    """

    launch: Callable[[], None]
    keys: Buffer
    order: Buffer


class RadixSort:
    """A stable sort of keys that are not negative, with the memory that it needs on the way.

    Parameters
    ----------
    device
        Where the keys are.
    program
        The module `sort`.
    capacity
        The most keys that are ever sorted; it takes a little more than 16 bytes for each.
    guards
        What looks after the memory that is written; None: nobody.

    Raises
    ------
    OutOfDeviceMemory
    """

    def __init__(self, device: Device, program: Program, capacity: int, guards: Guards | None = None) -> None:
        self._device, self._program, self._capacity = device, program, capacity
        self._tile = SORT_BLOCK_SIZE[device.backend] * SORT_ITEMS[device.backend]
        self._most = device.n_s * SORT_BLOCKS_PER_SM[device.backend]
        runs = max(1, min(-(-capacity // self._tile), self._most))  # fewer keys can have more runs, but not above these
        with ExitStack() as held:

            def allocate(name: str, count: int) -> Buffer:
                return reserve(held, device, guards, 4 * count, f"the sort's {name}")

            self._keys = allocate("keys", capacity), allocate("keys", capacity)
            self._orders = allocate("order", capacity), allocate("order", capacity)
            self._counters, self._totals = allocate("counters", RADIX * runs), allocate("counters", RADIX)
            self._held = held.pop_all()

    def bind(self, keys: Buffer, n: int, bits: int, order: Buffer | None = None) -> BoundSort:
        """Return the sort of n keys; they stay as they are.

        Parameters
        ----------
        keys
            uint32 or int32 `(n,)`, none of them negative.
        bits
            Those that the keys have, from the lowest on; higher ones are not looked at.
        order
            int32 `(n,)`: the keys are taken in this order, and the order that comes out is of the same input: sorted
            first by column, then in that order by row, coordinates are sorted by row and column. It may be one that
            this sort left, which is overwritten then.

        Raises
        ------
        ReproError
            More keys than there is memory for, or more bits than keys have.
        """
        check_size(n, self._capacity, "keys to sort")
        if not 0 <= bits <= SORT_KEY_BITS:
            raise ReproError("keys have no such number of bits", expected=f"0 to {SORT_KEY_BITS}", actual=bits)
        passes = max(1, -(-bits // DIGIT_BITS))
        width = max(1, -(-bits // passes))  # digits of equal width: fewer of them lie side by side for longer
        if n <= self._tile:
            return self._bind_tile(keys, n, bits, width, order)
        run, runs = runs_of(n, self._tile, self._most)
        launches: list[Callable[[], None]] = []
        for shift in range(0, passes * width, width):
            digit = min(width, bits - shift)
            size: list[Argument] = [np.int32(n), np.int32(run), np.int32(shift), np.int32(digit)]
            if shift == 0 and order is not None:
                gathered = _other(self._keys, keys)
                launches.append(self._bind("sort_count_ordered", runs, [*size, keys, self._counters, order, gathered]))
                keys = gathered
            else:
                launches.append(self._bind("sort_count", runs, [*size, keys, self._counters]))
            launches.append(
                self._device.bind(
                    self._program.kernel("sort_offsets"),
                    1 << digit,
                    BLOCK_SIZE[self._device.backend],
                    [np.int32(runs), self._counters, self._totals],
                )
            )
            to, behind = _other(self._keys, keys), _other(self._orders, order)
            arguments = [*size, self._counters, self._totals, keys, to, behind]
            if order is None:
                launches.append(self._bind("sort_scatter_first", runs, arguments))
            else:
                launches.append(self._bind("sort_scatter", runs, [*arguments, order]))
            keys, order = to, behind
        assert order is not None

        def launch() -> None:
            for part in launches:
                part()

        return BoundSort(launch, keys, order)

    def _bind_tile(self, keys: Buffer, n: int, bits: int, width: int, order: Buffer | None) -> BoundSort:
        """Return the sort of a tile, all passes in one launch."""
        to, behind = _other(self._keys, keys), _other(self._orders, order)
        arguments: list[Argument] = [np.int32(n), np.int32(width), np.int32(bits), keys, to, behind]
        if order is None:
            return BoundSort(self._bind("sort_tile", 1, arguments), to, behind)
        return BoundSort(self._bind("sort_tile_ordered", 1, [*arguments, order]), to, behind)

    def _bind(self, kernel: str, runs: int, arguments: list[Argument]) -> Callable[[], None]:
        return self._device.bind(self._program.kernel(kernel), runs, SORT_BLOCK_SIZE[self._device.backend], arguments)

    def release(self) -> None:
        """Give the memory back; harmless a second time."""
        self._held.close()


def _other(pair: tuple[Buffer, Buffer], buffer: Buffer | None) -> Buffer:
    """Return the buffer of a pair that is not this one."""
    return pair[1] if buffer is pair[0] else pair[0]


def bits_of(count: int) -> int:
    """Return the bits of the numbers from 0 to count - 1."""
    return max(count - 1, 0).bit_length()


#: Gives a module of a precision by its name.
Load = Callable[[str], Program]


class Launches:
    """Launches on a device.

    Parameters
    ----------
    device, load
        The device, and what gives a module of it, `sort` among others.
    held
        What gives memory back once it is closed.
    guards
        What looks after memory that kernels write; None: nobody does.
    """

    def __init__(self, device: Device, load: Load, held: ExitStack, guards: Guards | None = None) -> None:
        self.device, self.load, self.held, self.guards = device, load, held, guards

    def within(self, held: ExitStack) -> Launches:
        """Return launches of the same modules whose memory another stack gives back."""
        return Launches(self.device, self.load, held, self.guards)

    def keep(self, thing: R) -> R:
        """Return what holds memory, which is given back at the end."""
        return keep(self.held, thing)

    def numbers(self, count: int, dtype: Any) -> Buffer:
        """Return memory for so many numbers of a type, until the end."""
        nbytes = max(count, 1) * np.dtype(dtype).itemsize
        if self.guards is None:
            return self.keep(self.device.allocate(nbytes))
        return self.keep(self.guards.allocate(nbytes, "what is passed on", self.device)).memory

    def zeros(self, count: int, dtype: Any) -> Buffer:
        """Return zeros, until the end."""
        buffer = self.numbers(count, dtype)
        self.device.fill(buffer, 0)
        return buffer

    def upload(self, array: NDArray[Any]) -> Buffer:
        """Return an array's numbers, until the end."""
        return self.keep(self.device.upload(array))

    def download(self, buffer: Buffer, count: int, dtype: Any) -> NDArray[Any]:
        """Wait, and return the first numbers of a buffer."""
        array = np.empty(count, dtype)
        if count:
            self.device.download(buffer, array)
        return array

    def over(self, module: str, kernel: str, count: int, *arguments: Argument, lanes: int = 1) -> None:
        """Launch a kernel of a module with so many lanes for each of so many things."""
        Kernels(self.device, self.load(module)).over(kernel, count * lanes, arguments)()

    def blocks(self, module: str, kernel: str, count: int, *arguments: Argument) -> None:
        """Launch so many blocks of a kernel of a module."""
        Kernels(self.device, self.load(module)).blocks(kernel, count, arguments)()

    def offsets(self, sizes: Buffer, sums: Buffer, count: int) -> int:
        """Put the sums of the sizes before each of so many, and of all, where they belong; return that of all.

        Parameters
        ----------
        sums
            int32 `(count + 1,)`; may be `sizes`, where that has room for one number more.
        """
        self.keep(Scan(self.device, self.load("sort"), max(count, 1))).bind(sizes, sums, count)()
        return read_total(self.device, sums, count)

    def sort(self, keys: Buffer, count: int, below: int) -> BoundSort:
        """Sort keys that are all below a number, those that are equal in the order that they have."""
        memory = self.keep(RadixSort(self.device, self.load("sort"), max(count, 1)))
        sorted_by = memory.bind(keys, count, bits_of(below))
        sorted_by.launch()
        return sorted_by
