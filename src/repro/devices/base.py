"""What a device can do, whatever its backend: memory, programs, launches, queues, and clocks of a host."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from repro.codegen.targets import Target


def time_host(
    launch: Callable[[], None],
    count: int,
    synchronize: Callable[[], None],
    before: Callable[[], None] | None = None,
) -> NDArray[np.float64]:
    """Time launches, each with the wait for its end; seconds, `(count,)`.

    Parameters
    ----------
    synchronize
        Waits until nothing is queued any more.
    before
        Runs ahead of each launch, outside the timed region, as does the wait for what it queued.
    """
    return time_stages([launch], count, synchronize, before)[:, 0]


def time_stages(
    stages: Sequence[Callable[[], None]],
    count: int,
    synchronize: Callable[[], None],
    before: Callable[[], None] | None = None,
) -> NDArray[np.float64]:
    """Time launches stage by stage, each stage with the wait for its end; seconds, `(count, len(stages))`."""
    readings = np.empty((count, len(stages) + 1))
    for sample in readings:
        if before is not None:
            before()
        synchronize()
        sample[0] = time.perf_counter()
        for number, stage in enumerate(stages, 1):
            stage()
            synchronize()
            sample[number] = time.perf_counter()
    return np.diff(readings, axis=1)


class Buffer(Protocol):
    """Memory on a device."""

    @property
    def nbytes(self) -> int:
        """Size in bytes."""

    def release(self) -> None:
        """Give the memory back; the buffer is of no use afterwards."""


#: Bytes that parts of a buffer are aligned to: as much as any device and any load of a kernel asks for.
PART_ALIGNMENT = 256
Kernel = Any  # a backend's own handle of a loaded kernel
#: Of a kernel; whole numbers of Python's own are int32, others float64.
Argument = Buffer | int | float | np.integer[Any] | np.floating[Any]


class Launch(NamedTuple):
    """A kernel with all that it takes to launch it: blocks, threads of a block, arguments."""

    kernel: Kernel
    grid: int
    block: int
    arguments: Sequence[Argument]


class Program(Protocol):
    """A loaded module."""

    def kernel(self, name: str, shared: int = 0) -> Kernel:
        """Return the kernel of that name, ready to launch.

        Parameters
        ----------
        shared
            Bytes of shared memory that each launch gives to a block, beside what the kernel's text declares; OpenCL's
            declare all.

        Raises
        ------
        LaunchError
            There is no such kernel, or not so much memory.
        """


class LaunchError(Exception):
    """A kernel could not be launched or failed while it ran.

    Attributes
    ----------
    sticky
        The device's context is lost with it; only a new process can go on.
    """

    def __init__(self, message: str, *, sticky: bool = False) -> None:
        self.sticky = sticky
        super().__init__(message)


class OutOfDeviceMemory(Exception):
    """The device has no room for a buffer."""


class CaptureError(Exception):
    """What was launched cannot be captured into a graph."""


class Captured(NamedTuple):
    """Launches that are queued as one.

    Attributes
    ----------
    replay
        Queues them all.
    release
        Gives back what that takes; nothing of it may be queued any more.
    """

    replay: Callable[[], None]
    release: Callable[[], None]


class Copy(NamedTuple):
    """Bytes to copy from the start of one buffer to that of another.

    Attributes
    ----------
    source, at
        Where they are, and the index of the device whose memory that is.
    target, to
        Where they go, and the index of that device.
    nbytes
        How many.
    """

    source: Buffer
    at: int
    target: Buffer
    to: int
    nbytes: int


class Clock(Protocol):
    """What launches are timed on: a device, or several as one.

    Attributes
    ----------
    backend
        `cuda` or `opencl`.
    """

    backend: str

    def synchronize(self) -> None:
        """Wait for all that is queued.

        Raises
        ------
        LaunchError
            Something that was queued failed.
        """

    def flush(self) -> None:
        """Overwrite the last-level cache, asynchronously."""

    def reset_kept(self) -> None:
        """Take back what loads asked the last-level cache to keep: else it keeps that from whoever comes next."""

    def time_events(
        self, launch: Callable[[], None], count: int, before: Callable[[], None] | None = None
    ) -> NDArray[np.float64]:
        """Time single launches, each between two events; seconds, `(count,)`.

        What `before` does or queues, such as `flush`, comes ahead of each launch, outside the timed region. On the
        CPU the events are readings of the host's clock around a launch and the wait for its end, for kernels and SciPy
        alike.
        """

    def time_graph(self, launch: Callable[[], None], launches: int, replays: int) -> NDArray[np.float64]:
        """Time replays of a graph of launches; seconds per launch, `(replays,)`. On the CPU: of a batch.

        Raises
        ------
        CaptureError
            What is launched does not support it.
        """

    def time_host(
        self, launch: Callable[[], None], count: int, before: Callable[[], None] | None = None
    ) -> NDArray[np.float64]:
        """Time launches by the host's clock, each from an idle device to an idle device; seconds, `(count,)`.

        For launches that need the host inside: that allocate, or read a size back. `before` and the wait for what it
        queued come ahead of each, outside the timed region.
        """

    def time_stages(
        self, stages: Sequence[Callable[[], None]], count: int, before: Callable[[], None] | None = None
    ) -> NDArray[np.float64]:
        """Time launches stage by stage, each launch all stages in their order; seconds, `(count, len(stages))`.

        On a GPU by events between the stages. A stage may wait for the device, so that nothing keeps the device from
        starting a stage before the host has queued it: a stage of a few microseconds reads what the host takes to
        queue it. On the CPU by the host's clock, with a wait after each stage.
        """

    def clocks(self) -> tuple[float | None, str | None]:
        """Return the current SM clock in MHz and the reasons for throttling (None: not throttled or unknown)."""


class Queue(Protocol):
    """What launches and copies are queued on, one after the other; for any thread, one at a time."""

    def current(self) -> AbstractContextManager[object]:
        """Have the queue and its device to oneself in the body: other threads wait, and the device is this thread's.

        Whoever launches what was bound, from whichever thread, does it in such a body; so does who makes several calls
        that must not be interleaved with another thread's. A thread may take it again while it has it.

        Raises
        ------
        ReproError
            The device was opened before this process was forked from another.
        """

    def write(self, buffer: Buffer, array: NDArray[Any]) -> None:
        """Copy a host array to the start of a buffer, behind what is queued; wait for it."""

    def download(self, buffer: Buffer, array: NDArray[Any]) -> None:
        """Wait for the queue, then copy the first bytes of a buffer into a host array."""

    def bind(self, kernel: Kernel, grid: int, block: int, arguments: Sequence[Argument]) -> Callable[[], None]:
        """Return what puts one launch of `grid` blocks of `block` threads into the queue.

        The arguments are packed once, so that a launch costs the host as little as can be. The launch raises
        `LaunchError`.
        """

    def synchronize(self) -> None:
        """Wait for all that is queued.

        Raises
        ------
        LaunchError
            Something that was queued failed.
        """


class Device(Clock, Queue, Protocol):
    """One GPU, or the CPU through OpenCL. One in-order queue; launches are asynchronous.

    Attributes
    ----------
    name, uuid
        The model, and which one of its kind.
    target
        The limits of its generation.
    n_s
        Multiprocessors (on the CPU: cores).
    l2_bytes
        Size of the last-level cache, which `flush` overwrites.
    """

    name: str
    uuid: str
    target: Target
    n_s: int
    l2_bytes: int

    def environment(self) -> dict[str, Any]:
        """Describe device, driver and runtime: what of the surroundings a time depends on."""

    def free_bytes(self) -> int:
        """Return the memory that can be allocated."""

    def other_processes(self, idle: Collection[int] = ()) -> list[str]:
        """Return who else uses the device, a line each, but for the processes that are there and do nothing."""

    def load(self, binary: Path) -> Program:
        """Load a compiled module, eagerly."""

    def upload(self, array: NDArray[Any]) -> Buffer:
        """Copy a host array to new device memory.

        Raises
        ------
        OutOfDeviceMemory
        """

    def allocate(self, nbytes: int) -> Buffer:
        """Return new, uninitialised device memory.

        Raises
        ------
        OutOfDeviceMemory
        """

    def pooling(self) -> AbstractContextManager[None]:
        """Take memory in the body from a pool that keeps what is given back, for work that allocates on the way.

        Buffers stay valid behind the body. One that was given back is used anew at once: it may be used by what is
        queued on the device's own queue, and by nothing else.
        """

    def pool_growth(self, run: Callable[[], object]) -> int | None:
        """Run something and return the most bytes that it takes from the pool at once; None where there is no pool."""

    def part(self, buffer: Buffer, offset: int, nbytes: int) -> Buffer:
        """Return some bytes of a buffer as a buffer of their own, which is of use as long as the whole is.

        Parameters
        ----------
        offset
            A multiple of `PART_ALIGNMENT`.

        Raises
        ------
        OutOfDeviceMemory
            The device does not take it for a buffer.
        """

    def fill(self, buffer: Buffer, byte: int) -> None:
        """Set every byte, asynchronously; 0xFF makes every floating-point number NaN."""

    def bind_concurrent(self, launches: Sequence[Launch]) -> Callable[[], None]:
        """Return what queues several launches with no order among themselves: as one, behind what is queued before.

        On a GPU each is queued on a stream of its own, which a graph captures as well; on the CPU they run one after
        the other.
        """

    def capture(self, launch: Callable[[], None]) -> Captured:
        """Return what a launch queues, all as one operation: a graph on a GPU, on the CPU the launch itself.

        It must have been launched before, so that nothing is left to be set up.

        Raises
        ------
        CaptureError
            It queues what no graph can hold, or waits for the device.
        """

    def new_queue(self) -> Queue:
        """Return another queue of the device, with no order between it and the device's own, for a thread beside."""

    def use_common(self, program: Program) -> None:
        """Take what the device itself needs from the common module (the kernel that blocks a stream)."""

    def close(self) -> None:
        """Release everything."""
