"""Interfaces of devices for all backends: memory, programs, launches, queues and clocks; timing by the host's clock."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, ExitStack
from itertools import accumulate
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from repro.codegen.targets import Target
from repro.containment import State
from repro.errors import ReproError


def time_host(
    launch: Callable[[], None],
    count: int,
    synchronize: Callable[[], None],
    before: Callable[[], None] | None = None,
) -> NDArray[np.float64]:
    """Time each launch and the wait for its end by the host's clock; return seconds, `(count,)`.

    `before` runs before each launch. Neither `before` nor the wait for its queued work is timed.
    """
    return time_stages([launch], count, synchronize, before)[:, 0]


def time_stages(
    stages: Sequence[Callable[[], None]],
    count: int,
    synchronize: Callable[[], None],
    before: Callable[[], None] | None = None,
) -> NDArray[np.float64]:
    """Time each stage of a launch and the wait for its end by the host's clock; seconds, `(count, len(stages))`."""
    readings = np.empty((count, len(stages) + 1))
    for sample in readings:
        if before is not None:
            before()
        synchronize()
        sample[0] = perf_counter()
        for number, stage in enumerate(stages, 1):
            stage()
            synchronize()
            sample[number] = perf_counter()
    return np.diff(readings, axis=1)


def keep_busy(
    launch: Callable[[], None],
    launches: int,
    goes_on: Callable[[], bool],
    synchronize: Callable[[], None],
    clock: Callable[[], float] = perf_counter,
) -> tuple[int, float]:
    """Queue batches of launches as `Clock.keep_busy` does, waiting for each."""
    count, going, start = 0, True, clock()
    while going:
        for _ in range(launches):
            launch()
        count += launches
        going = goes_on()  # while the device works
        synchronize()
    return count, clock() - start


class Buffer(Protocol):
    """Memory on a device."""

    @property
    def nbytes(self) -> int:
        """Size in bytes."""

    def release(self) -> None:
        """Free the memory; the buffer must not be used afterwards."""


#: Alignment in bytes for parts of a buffer; enough for every device and for the widest loads in kernels.
PART_ALIGNMENT = 256
Kernel = Any  # handle of a loaded kernel, whose type depends on the backend


class _Address:
    """The type of `ADDRESS`."""

    pointer = nbytes = 0

    def release(self) -> None: ...


#: Argument in place of a buffer whose address each call gives; see `Device.bind_call`.
ADDRESS = _Address()
#: Argument of a kernel. A Python int is passed as int32, and a Python float as float64.
Argument = Buffer | int | float | np.integer[Any] | np.floating[Any]
#: Handle of the default stream of the calling thread: each thread has another one.
PER_THREAD_DEFAULT_STREAM = 2


class LaunchSpec(NamedTuple):
    """A kernel, its launch configuration (number of blocks, threads per block) and its arguments."""

    kernel: Kernel
    grid: int
    block: int
    arguments: Sequence[Argument]


class Program(Protocol):
    """A loaded module."""

    def kernel(self, name: str, shared: int = 0) -> Kernel:
        """Return the kernel with the given name, ready to launch.

        `shared` is the dynamic shared memory per block in bytes. OpenCL ignores it, since kernels declare their local
        memory.

        Raises
        ------
        LaunchError
            The module has no kernel with this name, or the device has too little shared memory.
        """


class LaunchError(Exception):
    """A launch failed. With `sticky`, the device's context is lost, and only a new process can use the device."""

    def __init__(self, message: str, *, sticky: bool = False) -> None:
        self.sticky = sticky
        super().__init__(message)


class DeviceError(ReproError):
    """A device that cannot be used, although another one can.

    Its advice is a `remedy`, and the `fallback`: the setting of the other device, and what that does. The configuration
    and Python spell a setting differently, so `in_python` returns the error as a caller in Python reads it.
    """

    def __init__(
        self,
        what: str,
        *,
        where: object = None,
        expected: object = None,
        actual: object = None,
        remedy: str,
        fallback: tuple[str, str],
        spelling: str = "`device: {}`",
    ) -> None:
        self.remedy, self.fallback = remedy, fallback
        setting, effect = fallback
        todo = f"{remedy}; {spelling.format(setting)} {effect}"
        super().__init__(what, where=where, expected=expected, actual=actual, todo=todo)

    def in_python(self) -> DeviceError:
        return DeviceError(
            self.what,
            where=self.where,
            expected=self.expected,
            actual=self.actual,
            remedy=self.remedy,
            fallback=self.fallback,
            spelling='device="{}"',
        )


class OutOfDeviceMemory(Exception):
    """The device has too little free memory for a buffer."""


class CaptureError(Exception):
    """A launch cannot be captured into a CUDA graph."""


class Captured(NamedTuple):
    """Captured launches, which are queued as one operation. Call `release` only when no replay is queued."""

    replay: Callable[[], None]
    release: Callable[[], None]


class Copy(NamedTuple):
    """A copy of `nbytes` bytes from the start of one buffer to the start of another."""

    #: Source buffer, followed by the index of the device that owns it.
    source: Buffer
    source_device: int
    #: Target buffer, followed by the index of the device that owns it.
    target: Buffer
    target_device: int
    nbytes: int


class Clock(Protocol):
    """Times launches on one device, or on several devices used as one. `backend` is `cuda` or `opencl`."""

    backend: str

    def synchronize(self) -> None:
        """Wait for all queued work; raise `LaunchError` if any launch failed."""

    def flush(self) -> None:
        """Overwrite the last-level cache; returns without waiting."""

    def reset_persisting_l2(self) -> None:
        """Reset persisting lines of the last-level cache, which would otherwise remain after the kernel that requested
        them.
        """

    def time_events(
        self, launch: Callable[[], None], count: int, before: Callable[[], None] | None = None
    ) -> NDArray[np.float64]:
        """Time each launch between two events; return seconds, `(count,)`.

        `before` (for example `flush`) runs before each launch and is not timed. On a CPU, the host's clock is read
        before a launch and after its end instead.
        """

    def time_graph(self, launch: Callable[[], None], launches: int, replays: int) -> NDArray[np.float64]:
        """Time replays of a graph of launches (on a CPU: batches of launches); return seconds per launch, `(replays,)`.

        Raises
        ------
        CaptureError
        """

    def time_host(
        self, launch: Callable[[], None], count: int, before: Callable[[], None] | None = None
    ) -> NDArray[np.float64]:
        """Time each launch by the host's clock while the device is idle before and after; return seconds, `(count,)`.

        This clock is for launches that need the host, for example to allocate memory or to read a size back.
        """

    def time_stages(
        self, stages: Sequence[Callable[[], None]], count: int, before: Callable[[], None] | None = None
    ) -> NDArray[np.float64]:
        """Time each stage of a launch; return seconds, `(count, len(stages))`.

        A GPU records events between stages. The stream is not blocked, because a stage may wait for the device. A stage
        of a few microseconds therefore appears as long as the host needs to queue it. On a CPU, the host's clock is
        read and each stage is waited for.
        """

    def keep_busy(self, launch: Callable[[], None], launches: int, goes_on: Callable[[], bool]) -> tuple[int, float]:
        """Replay a graph of launches (on a CPU: run batches of launches) again and again, without gaps.

        `goes_on` is called often while the device works; once it returns False, no more are queued. Return the number
        of launches and the seconds that they took.

        Raises
        ------
        CaptureError
        """

    def joules(self) -> float | None:
        """Return the energy used so far by a counter that only grows; None without such a counter."""

    def clocks(self) -> tuple[float | None, str | None]:
        """Return the SM clock in MHz and the reasons for throttling; None if not throttled or unknown."""


class Queue(Protocol):
    """An in-order queue of launches and copies. Any thread may use it, but only one at a time."""

    def current(self) -> AbstractContextManager[object]:
        """Lock the queue and its device for the calling thread (re-entrant), and make the device current.

        Hold the lock to call bound launches, and for sequences of calls that other threads must not interrupt.

        Raises
        ------
        ReproError
            The device was opened before this process was forked.
        """

    def write(self, buffer: Buffer, array: NDArray[Any]) -> None:
        """After all queued work, copy a host array to the start of a buffer; wait until the copy is done."""

    def download(self, buffer: Buffer, array: NDArray[Any]) -> None:
        """Wait for all queued work, then copy bytes from the start of a buffer until the host array is full."""

    def bind(self, kernel: Kernel, grid: int, block: int, arguments: Sequence[Argument]) -> Callable[[], None]:
        """Return a function that queues a launch of `grid` blocks with `block` threads each; it may raise
        `LaunchError`.

        Arguments are packed once here, so that each launch takes little host time.
        """

    def synchronize(self) -> None:
        """Wait for all queued work; raise `LaunchError` if any launch failed."""


class Call(Protocol):
    """Work whose addresses and stream are given with each call; any thread may call it."""

    def __call__(self, stream: int, *addresses: int) -> None:
        """Queue the work on a stream of the device's GPU, by its handle, with these addresses of GPU memory.

        It neither waits nor orders the stream with another, and can be captured into a graph. It raises `LaunchError`.
        """

    def close(self) -> None:
        """Refuse further calls, before the memory that the work uses is released."""


class CooperativeKernel(Protocol):
    """A cooperative kernel, whose blocks wait for each other in barriers, with a fixed number of threads per block."""

    @property
    def resident(self) -> int:
        """Largest number of blocks per launch: those that the device holds at once."""

    def bind(self, grid: int, arguments: Sequence[Argument]) -> Callable[[], None]:
        """Return a function that queues one cooperative launch with these arguments; see `Queue.bind`.

        All blocks must be resident at once, so `grid` is at most `resident`.
        """


class HostWords(Protocol):
    """int32 numbers that kernels write and the host reads after a single wait."""

    @property
    def buffer(self) -> Buffer:
        """Buffer of the numbers, for use as a kernel argument."""

    def read(self) -> list[int]:
        """Wait for all queued work, and return the numbers."""

    def release(self) -> None:
        """Free the memory."""


class CopiedWords:
    """`HostWords` in device memory; `read` copies them to the host."""

    def __init__(self, device: Device, count: int) -> None:
        self.buffer, self._array = device.allocate(4 * count), np.empty(count, np.int32)
        self._download = device.download

    def read(self) -> list[int]:
        self._download(self.buffer, self._array)
        numbers: list[int] = self._array.tolist()
        return numbers

    def release(self) -> None:
        self.buffer.release()


class Device(Clock, Queue, Protocol):
    """One GPU, or a CPU through OpenCL, with one in-order queue. Launches are asynchronous."""

    #: Model name of the device.
    name: str
    uuid: str
    #: Hardware limits of the device's generation.
    target: Target
    #: Number of streaming multiprocessors of a GPU, or number of cores of a CPU.
    sm_count: int
    #: Bytes of the last-level cache; `flush` overwrites this cache.
    l2_bytes: int

    @property
    def states(self) -> tuple[State, ...]:
        """Parts of the process that belong to the device and that foreign code can change."""

    def environment(self) -> dict[str, Any]:
        """Return properties of device, driver and runtime that affect times."""

    def free_bytes(self) -> int:
        """Return the number of bytes that can still be allocated."""

    def pooled_bytes(self) -> int:
        """Return the number of unused bytes of the memory pool (`pooling`), without asking the driver."""

    def other_processes(self, idle: Collection[int] = ()) -> list[str]:
        """Return one line for each other process that uses the device, except processes in `idle`."""

    def load(self, binary: Path) -> Program:
        """Load a compiled module at once, not at its first launch."""

    def upload(self, array: NDArray[Any]) -> Buffer:
        """Allocate device memory and copy a host array to it; raise `OutOfDeviceMemory` if too little is free."""

    def allocate(self, nbytes: int) -> Buffer:
        """Allocate uninitialised device memory; raise `OutOfDeviceMemory` if too little is free."""

    def allocate_ordered(self, nbytes: int) -> Buffer:
        """Allocate device memory that is valid in the order of the device's own queue, which takes a microsecond.

        Work on another stream that uses the memory has to be ordered with the device's queue.
        """

    def host_array(self, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return a new host array `(count,)` to download into: page-locked memory where copies are faster then."""

    def pooling(self) -> AbstractContextManager[None]:
        """Allocate from a memory pool inside the body; meant for operations that allocate temporary memory.

        Buffers stay valid after the body. The pool reuses a freed buffer at once, so only the device's own queue may
        use buffers of the pool.
        """

    def pool_growth(self, run: Callable[[], object]) -> int | None:
        """Run a function and return the peak bytes it takes from the memory pool; None if the device has no pool."""

    def part(self, buffer: Buffer, offset: int, nbytes: int) -> Buffer:
        """Return a range of a buffer as a buffer. `offset` is a multiple of `PART_ALIGNMENT`. The whole buffer must
        stay alive.
        """

    def host_words(self, count: int) -> HostWords:
        """Allocate `count` int32 numbers that kernels write and the host reads after one wait.

        On a GPU they are in host memory.
        """

    def at_close(self, release: Callable[[], None]) -> None:
        """Register a function that is called before the device is closed, to release memory kept between operations."""

    def fill(self, buffer: Buffer, byte: int) -> None:
        """Set every byte of a buffer asynchronously. 0xFF bytes make every floating-point number NaN."""

    def bind_concurrent(self, launches: Sequence[LaunchSpec]) -> Callable[[], None]:
        """Return a function that queues several launches, which may run in any order but after earlier queued work.

        On a GPU, each launch gets its own stream, in a way that a graph can capture. On a CPU, they run one after the
        other.
        """

    def cooperative(self, program: Program, name: str, block: int, shared: int = 0) -> CooperativeKernel | None:
        """Return a kernel whose blocks may wait for each other; None if the device cannot launch such kernels.

        `block` is the number of threads and `shared` the bytes of dynamic shared memory, each per block.
        """

    def bind_dependent(
        self, program: Program, name: str, grid: int, block: int, arguments: Sequence[Argument], shared: int = 0
    ) -> Callable[[], None]:
        """Return a function that queues a launch which may start before the previous launch of the queue has ended.

        The kernel itself waits for the previous launch. Before this wait, it uses only memory that no launch of the
        chain writes; to be sure that this memory is complete, wait for the device before the first launch of a chain. A
        captured graph keeps the property. It is an ordinary launch if `Target.has_dependent_launches` is false, or if
        the previous work in the queue is not a launch. `shared` is as in `Program.kernel`.
        """

    def bind_call(
        self, program: Program, name: str, grid: int, block: int, arguments: Sequence[Argument], shared: int = 0
    ) -> Call | None:
        """Return a launch on any stream; the arguments that are `ADDRESS` are given with each call.

        It is None on a device whose memory has no addresses (OpenCL).
        """

    def capture(self, launch: Callable[[], None]) -> Captured:
        """Return a launch as a single queued operation: a graph on a GPU, the launch itself on a CPU.

        The launch must have run once before, so that its one-time set-up is done.

        Raises
        ------
        CaptureError
        """

    def new_queue(self) -> Queue:
        """Return an additional queue for another thread, not synchronised with the device's own queue."""

    def use_common(self, program: Program) -> None:
        """Load the kernel that blocks the stream from the common module."""

    def close(self) -> None:
        """Release all resources of the device."""


class Block:
    """Memory from a single allocation, and the buffers that are parts of it; `release` frees all of them."""

    def __init__(self, whole: Buffer, parts: Sequence[Buffer]) -> None:
        self._whole, self._parts = whole, parts
        self.nbytes = whole.nbytes

    def release(self) -> None:
        for part in (*self._parts, self._whole):
            part.release()


def allocate_parts(device: Device, sizes: Sequence[int]) -> tuple[Block, list[Buffer]]:
    """Allocate several arrays of the given bytes at once; return the block, which must outlive them, and the arrays.

    With OpenCL, the arrays cannot be divided into parts again.
    """
    padded_sizes = (-(-nbytes // PART_ALIGNMENT) * PART_ALIGNMENT for nbytes in sizes)
    begins = list(accumulate(padded_sizes, initial=0))
    with ExitStack() as allocations:
        whole = device.allocate(begins[-1])
        allocations.callback(whole.release)
        parts: list[Buffer] = []
        for begin, nbytes in zip(begins, sizes, strict=False):
            parts.append(device.part(whole, begin, nbytes))
            allocations.callback(parts[-1].release)
        allocations.pop_all()
    return Block(whole, parts), parts
