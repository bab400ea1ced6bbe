"""Modules, memory, launches and parallel primitives for operations that need several kernels.

A stage is one launch of a kernel that runs several phases with a grid-wide barrier between them (a cooperative launch);
where the device cannot do this, each phase is a launch of its own. Sequences of launches that are repeated are captured
into a graph.

The primitives are exclusive sums, which turn row sizes into offsets, and a stable radix sort, which also returns the
permutation. Coordinates are sorted by two such sorts, first by column and then by row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from repro.bench.guards import Guards
from repro.bench.runnable import Workspace
from repro.codegen.build_cache import Module, ModuleOnDemand, manifest_path
from repro.codegen.targets import Target
from repro.devices.base import PART_ALIGNMENT, Argument, Buffer, Captured, CaptureError, Device, Program
from repro.errors import ModuleError, ReproError, ReproErrorOfValue, Unsupported
from repro.sparse.elementwise import BLOCK_SIZE, Kernels, Launch, in_order


@dataclass(frozen=True)
class ModuleFile:
    """Manifest of a module, compiled at the latest when it is read, and its folder, to which binaries are relative."""

    _module: Module | ModuleOnDemand
    folder: Path

    @property
    def module(self) -> Module:
        return self._module.built

    @classmethod
    def read(cls, manifest: Path) -> ModuleFile:
        return cls(Module.load(manifest), manifest.parent)

    def program(self, workspace: Workspace, index: int = 0) -> Program:
        """Load the module on device number `index`; raise `ModuleError` if it has no valid binary."""
        if self.module.binary is None:
            raise ModuleError(self.module.message)
        return workspace.program(self.folder / self.module.binary, index)


def read_module(target: Target, study_name: str, key: str) -> ModuleFile:
    """Read the manifest of a study's module; raise `MissingModule` if it is not compiled yet."""
    return ModuleFile.read(manifest_path(target.name, study_name, key))


def read_modules(target: Target, study_name: str, group: str, names: Iterable[str]) -> dict[str, ModuleFile]:
    return {name: read_module(target, study_name, f"{group}/{name}") for name in names}


class Factor(Protocol):
    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...


def check_factors(a: Factor, b: Factor) -> None:
    """Refuse sparse matrices whose shapes or precisions do not allow a product."""
    if a.shape[1] != b.shape[0]:
        raise ReproErrorOfValue(
            "the matrices cannot be multiplied",
            expected=f"{a.shape[1]} rows in the second matrix, as many as the first has columns",
            actual=f"{b.shape[0]} rows",
        )
    if a.dtype != b.dtype:
        raise ReproError("the matrices have different precisions", expected=f"both of {a.dtype}", actual=b.dtype)


#: Largest number of blocks per multiprocessor for kernels with grid-stride loops.
LOOP_BLOCKS_PER_SM = {"cuda": 16, "opencl": 2}


class Releasable(Protocol):
    """An object that owns device memory until `release`."""

    def release(self) -> None: ...


R = TypeVar("R", bound=Releasable)


def keep(stack: ExitStack, resource: R) -> R:
    """Register `resource` for release when the stack is closed, and return it."""
    stack.callback(resource.release)
    return resource


def reserve(stack: ExitStack, device: Device, guards: Guards | None, nbytes: int, name: str) -> Buffer:
    """Allocate memory that is freed when the stack is closed; with `guards`, it lies between guard zones."""
    if guards is None:
        return keep(stack, device.allocate(nbytes))
    return keep(stack, guards.allocate(nbytes, name, device)).memory


class Owner:
    """Holds memory and other objects of a device in `_stack` until `release`; a second release has no effect."""

    _stack: ExitStack

    def release(self) -> None:
        self._stack.close()


#: Largest number of elements of a sum or a sort: the last step of a block goes past them by less than a tile.
MOST_ELEMENTS = 2**31 - 2**16
#: Number of elements per thread in a scan tile.
SCAN_ITEMS = 8
#: Number of resident blocks per multiprocessor for a scan; each block works on a run of successive tiles.
SCAN_BLOCKS_PER_SM = {"cuda": 8, "opencl": 2}
#: Up to this number of tiles, a scan uses a single block and thus one launch.
FEW_TILES = 4


class Scan(Owner):
    """Exclusive sums of up to `capacity` int32 numbers, with the temporary memory that they need.

    `program` is the loaded module `sort`; with `guards`, the memory has guard zones.
    """

    def __init__(self, device: Device, program: Program, capacity: int, guards: Guards | None = None) -> None:
        self._device, self._program, self._capacity = device, program, capacity
        self._block_size = BLOCK_SIZE[device.backend]
        self._most = device.sm_count * SCAN_BLOCKS_PER_SM[device.backend]
        self._stack = ExitStack()
        self._partial = reserve(self._stack, device, guards, 4 * self._most, "the sums of runs")

    def bind(self, counts: Buffer, sums: Buffer, n: int) -> Callable[[], None]:
        """Return a launch of sums[i] = counts[0] + … + counts[i - 1] for i from 0 to n.

        `counts` is int32 `(n,)` with a sum below 2³¹. `sums` is int32 `(n + 1,)`; it may be the buffer `counts` if this
        has n + 1 elements. If n exceeds the capacity, it raises `ReproError`.
        """
        check_size(n, self._capacity, "numbers to add up")
        run, blocks = runs_of(n, self._block_size * SCAN_ITEMS, self._most, FEW_TILES)
        size = [np.int32(n), np.int32(run)]
        partial = self._partial

        def bind(kernel: str, *buffers: Buffer) -> Callable[[], None]:
            return self._device.bind(self._program.kernel(kernel), blocks, self._block_size, [*size, *buffers])

        write = bind("scan_write", counts, partial, sums)
        if blocks == 1:
            return write
        return in_order([bind("scan_count", counts, partial), write])


def read_total(device: Device, sums: Buffer, n: int) -> int:
    """Wait for queued work, and return the last of the n + 1 numbers in `sums`."""
    first = 4 * n // PART_ALIGNMENT * PART_ALIGNMENT
    end = device.part(sums, first, 4 * (n + 1) - first)
    numbers = np.empty(n + 1 - first // 4, np.int32)
    device.download(end, numbers)
    end.release()
    return int(numbers[-1])


def check_size(n: int, capacity: int, subject: str) -> None:
    if not 0 <= n <= capacity:
        raise ReproError(f"too many {subject} for the allocated memory", expected=f"0 to {capacity:,}", actual=f"{n:,}")


def runs_of(n: int, tile: int, max_runs: int, min_tiles: int = 1) -> tuple[int, int]:
    """Split n elements into runs of whole tiles; return the elements per run and the number of runs, 1 to `max_runs`.

    If there are at most `min_tiles` tiles, they are one run.
    """
    tiles = -(-n // tile)
    tiles_per_run = min_tiles if tiles <= min_tiles else -(-tiles // max_runs)
    return tiles_per_run * tile, max(1, -(-tiles // tiles_per_run))


#: Threads per block of the counting and scattering kernels, and keys per thread of a tile.
SORT_BLOCK_SIZE = {"cuda": 256, "opencl": 16}
SORT_ITEMS = {"cuda": 12, "opencl": 256}
#: Largest number of different digit values in a pass, and number of bits of a digit.
RADIX, DIGIT_BITS = 256, 8
SORT_KEY_BITS = 32
#: Number of resident blocks per multiprocessor for a sort; each block works on a run of successive tiles.
SORT_BLOCKS_PER_SM = {"cuda": 4, "opencl": 2}


class BoundSort(NamedTuple):
    """A sort bound to its keys; the results are valid until the next sort of the same `RadixSort`."""

    launch: Callable[[], None]
    #: Sorted keys, uint32 `(n,)`.
    keys: Buffer
    #: Index of each sorted key in the input, int32 `(n,)`.
    order: Buffer


class RadixSort(Owner):
    """A stable sort of up to `capacity` non-negative keys, with a little more than 16 bytes of memory per key.

    `program` is the loaded module `sort`; with `guards`, the memory has guard zones.
    """

    def __init__(self, device: Device, program: Program, capacity: int, guards: Guards | None = None) -> None:
        self._device, self._program, self._capacity = device, program, capacity
        self._tile = SORT_BLOCK_SIZE[device.backend] * SORT_ITEMS[device.backend]
        self._most = device.sm_count * SORT_BLOCKS_PER_SM[device.backend]
        runs = max(1, min(-(-capacity // self._tile), self._most))  # a sort of few keys needs fewer runs
        with ExitStack() as stack:

            def allocate(name: str, count: int) -> Buffer:
                return reserve(stack, device, guards, 4 * count, f"the sort's {name}")

            self._keys = allocate("keys", capacity), allocate("keys", capacity)
            self._orders = allocate("order", capacity), allocate("order", capacity)
            self._counters, self._totals = allocate("counters", RADIX * runs), allocate("counters", RADIX)
            self._stack = stack.pop_all()

    def bind(self, keys: Buffer, n: int, bits: int, order: Buffer | None = None) -> BoundSort:
        """Return a sort of n uint32 or non-negative int32 keys with `bits` significant bits; `keys` is not changed.

        `order`, int32 `(n,)`, is a permutation in which the keys are read, such as the result of an earlier sort. If
        the earlier sort used this object, its result is overwritten. To sort coordinates, sort by column, then by row
        with the `order` of the first sort.
        """
        check_size(n, self._capacity, "keys to sort")
        if not 0 <= bits <= SORT_KEY_BITS:
            raise ReproError("the number of key bits is out of range", expected=f"0 to {SORT_KEY_BITS}", actual=bits)
        passes = max(1, -(-bits // DIGIT_BITS))
        width = max(1, -(-bits // passes))  # equal widths: narrower digits have longer contiguous runs
        if n <= self._tile:
            return self._bind_tile(keys, n, bits, width, order)
        run, runs = runs_of(n, self._tile, self._most)
        launches: list[Callable[[], None]] = []
        for shift in range(0, passes * width, width):
            digit = min(width, bits - shift)
            size: list[Argument] = [np.int32(n), np.int32(run), np.int32(shift), np.int32(digit)]
            if shift == 0 and order is not None:
                gathered_keys = _other_buffer(self._keys, keys)
                launches.append(
                    self._bind("sort_count_ordered", runs, [*size, keys, self._counters, order, gathered_keys])
                )
                keys = gathered_keys
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
            target_keys, target_order = _other_buffer(self._keys, keys), _other_buffer(self._orders, order)
            arguments = [*size, self._counters, self._totals, keys, target_keys, target_order]
            if order is None:
                launches.append(self._bind("sort_scatter_first", runs, arguments))
            else:
                launches.append(self._bind("sort_scatter", runs, [*arguments, order]))
            keys, order = target_keys, target_order
        assert order is not None
        return BoundSort(in_order(launches), keys, order)

    def _bind_tile(self, keys: Buffer, n: int, bits: int, width: int, order: Buffer | None) -> BoundSort:
        """Return a sort of keys that fit into one tile; all passes run in one launch."""
        target_keys, target_order = _other_buffer(self._keys, keys), _other_buffer(self._orders, order)
        arguments: list[Argument] = [np.int32(n), np.int32(width), np.int32(bits), keys, target_keys, target_order]
        if order is None:
            return BoundSort(self._bind("sort_tile", 1, arguments), target_keys, target_order)
        return BoundSort(self._bind("sort_tile_ordered", 1, [*arguments, order]), target_keys, target_order)

    def _bind(self, kernel: str, runs: int, arguments: list[Argument]) -> Callable[[], None]:
        return self._device.bind(self._program.kernel(kernel), runs, SORT_BLOCK_SIZE[self._device.backend], arguments)


def _other_buffer(pair: tuple[Buffer, Buffer], buffer: Buffer | None) -> Buffer:
    return pair[1] if buffer is pair[0] else pair[0]


def bit_count(count: int) -> int:
    return max(count - 1, 0).bit_length()


#: Function that loads a kernel module by name; the precision is fixed.
Load = Callable[[str], Program]


class LaunchContext:
    """Memory and launches on a device; `stack` releases all memory when it is closed.

    `load` loads a kernel module by name, such as `sort`. With `guards`, memory that kernels write has guard zones.
    """

    def __init__(self, device: Device, load: Load, stack: ExitStack, guards: Guards | None = None) -> None:
        self.device, self.load, self.stack, self.guards = device, load, stack, guards

    def within(self, stack: ExitStack) -> LaunchContext:
        """Return a copy whose memory is released by another stack; device and modules stay the same."""
        return LaunchContext(self.device, self.load, stack, self.guards)

    def keep(self, resource: R) -> R:
        """Register `resource` for release when `stack` is closed, and return it."""
        return keep(self.stack, resource)

    def allocate(self, nbytes: int, name: str = "what is passed on") -> Buffer:
        return reserve(self.stack, self.device, self.guards, nbytes, name)

    def numbers(self, count: int, dtype: Any) -> Buffer:
        """Allocate memory for `count` numbers of a dtype, at least one."""
        return self.allocate(max(count, 1) * np.dtype(dtype).itemsize)

    def zeros(self, count: int, dtype: Any) -> Buffer:
        buffer = self.numbers(count, dtype)
        self.device.fill(buffer, 0)
        return buffer

    def upload(self, array: NDArray[Any]) -> Buffer:
        """Copy an array to read-only device memory; for an empty array, allocate one number."""
        return self.keep(self.device.upload(array if array.size else np.zeros(1, array.dtype)))

    def upload_writable(self, array: NDArray[Any], name: str, count: int | None = None) -> Buffer:
        """Allocate writable memory of the array's size, and copy the array, or only its first `count` numbers."""
        buffer, first = self.allocate(array.nbytes, name), array[:count]
        if first.size:
            self.device.write(buffer, first)
        return buffer

    def download(self, buffer: Buffer, count: int, dtype: Any) -> NDArray[Any]:
        array = np.empty(count, dtype)
        if count:
            self.device.download(buffer, array)
        return array

    def kernels(self, module: str) -> Kernels:
        return Kernels(self.device, self.load(module))

    def bind(self, module: str, kernel: str, count: int, *arguments: Argument) -> Launch:
        """Return a launch of a kernel with a grid-stride loop over `count` elements."""
        backend = self.device.backend
        blocks = min(-(-count // BLOCK_SIZE[backend]), self.device.sm_count * LOOP_BLOCKS_PER_SM[backend])
        return self.kernels(module).blocks(kernel, blocks, arguments)

    def over(self, module: str, kernel: str, count: int, *arguments: Argument, lanes: int = 1) -> None:
        """Launch a kernel with `lanes` threads for each of `count` elements."""
        self.kernels(module).over(kernel, count * lanes, arguments)()

    def blocks(self, module: str, kernel: str, count: int, *arguments: Argument) -> None:
        self.kernels(module).blocks(kernel, count, arguments)()

    def offsets(self, sizes: Buffer, sums: Buffer, count: int) -> int:
        """Write exclusive sums of `sizes`, int32 `(count,)`, to `sums`, int32 `(count + 1,)`; return the total."""
        self.keep(Scan(self.device, self.load("sort"), max(count, 1))).bind(sizes, sums, count)()
        return read_total(self.device, sums, count)

    def sort(self, keys: Buffer, count: int, key_limit: int) -> BoundSort:
        """Return the sorted int32 `keys` `(count,)`, whose values are from 0 to `key_limit` - 1; the sort is stable."""
        memory = self.keep(RadixSort(self.device, self.load("sort"), max(count, 1)))
        bound_sort = memory.bind(keys, count, bit_count(key_limit))
        bound_sort.launch()
        return bound_sort


class RunnableContext(LaunchContext):
    """Memory and launches for one measured runnable on device `index` of a workspace.

    `built` are its modules by name.
    """

    guards: Guards

    def __init__(
        self, workspace: Workspace, module_files: Mapping[str, ModuleFile], stack: ExitStack, index: int = 0
    ) -> None:
        load = cache(lambda module: module_files[module].program(workspace, index))
        super().__init__(workspace.devices[index], load, stack, workspace.guards)
        self.workspace, self._built = workspace, module_files

    def on(self, index: int) -> RunnableContext:
        """Return a `RunnableContext` for device number `index`; its memory is released with that of this object."""
        return RunnableContext(self.workspace, self._built, self.stack, index)

    def captured(self, launch: Launch) -> Launch:
        """Launch once, then return the launch as a captured graph; raise `Unsupported` if it cannot be captured."""
        launch()
        self.device.synchronize()
        try:
            captured = self.device.capture(launch)
        except CaptureError as error:
            raise Unsupported(f"the launch cannot be captured into a graph: {error}") from None
        self.stack.callback(captured.release)
        return captured.replay


#: Blocks per multiprocessor if each phase of a stage is a launch of its own.
PARTS = 4
#: Function that launches the phase with a given name; further arguments are the number of the step.
Phase = Callable[..., None]


class Stage:
    """A kernel `name` with several phases, which runs as one cooperative launch, or as one launch per phase.

    `phases` are the names of the phases, by number. Each block processes part of the elements, with `lanes` threads for
    each of `count` elements. `parts` is the number of blocks, limited to those that can be resident at once.
    """

    def __init__(
        self, run: LaunchContext, module: str, name: str, phases: Sequence[str], count: int, lanes: int = 1
    ) -> None:
        device, program, block_size = run.device, run.load(module), BLOCK_SIZE[run.device.backend]
        self._name, self._phases, self._kernels = name, phases, Kernels(device, program)
        self._whole = device.cooperative(program, name, block_size)
        max_parts = device.sm_count * PARTS if self._whole is None else self._whole.resident
        self.parts = max(1, min(max_parts, -(-count * lanes // block_size)))

    def bind(self, arguments: Sequence[Argument], script: Callable[[Phase], None]) -> Launch:
        """Return a launch of the stage.

        `script` is used if each phase is a launch of its own: it calls its argument with the name of each phase in
        turn, in the order in which the cooperative kernel runs them.
        """
        if self._whole is not None:
            return self._whole.bind(self.parts, [*arguments, -1, 0])

        def launch_phase(name: str, step: int = 0) -> None:
            number = self._phases.index(name)
            self._kernels.blocks(self._name, self.parts, [*arguments, number, step])()

        return lambda: script(launch_phase)


class Repeated:
    """A sequence of launches that is captured into a graph if the device supports it, and replayed as one launch.

    It is captured at its second call, or with `behind_first` directly after its first. A multigrid cycle has dozens of
    kernels of a few microseconds, for which queueing takes longer than execution.
    """

    def __init__(self, device: Device, launch: Launch, behind_first: bool = False) -> None:
        self._device, self._launch, self._behind_first = device, launch, behind_first
        self._called = self._capture_tried = False
        self._captured: Captured | None = None

    @property
    def is_captured(self) -> bool:
        return self._captured is not None

    def __call__(self) -> None:
        if self._called and not self._capture_tried:
            self._capture()
        (self._captured.replay if self._captured else self._launch)()
        self._called = True
        if self._behind_first and not self._capture_tried:
            self._capture()

    def _capture(self) -> None:
        self._capture_tried = True
        with suppress(CaptureError):  # without a graph, kernels are launched one by one
            self._captured = self._device.capture(self._launch)

    def release(self) -> None:
        if self._captured:
            self._captured.release()


def phases_in_order(phases: Sequence[str]) -> Callable[[Phase], None]:
    """Return a script for `Stage.bind` that runs the given phases once each, in order."""

    def script(phase: Phase) -> None:
        for name in phases:
            phase(name)

    return script
