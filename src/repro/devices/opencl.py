"""The CPU through OpenCL: the same kernels, real barriers and atomics, on any machine.

Parts of one CPU are linked through the host, which waits for them and copies between their memories.
"""

from __future__ import annotations

import platform
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from repro.codegen import opencl_runtime
from repro.codegen.opencl_runtime import FLAGS, environment
from repro.codegen.targets import CPU
from repro.devices.base import (
    Argument,
    Buffer,
    Captured,
    Copy,
    Launch,
    LaunchError,
    OutOfDeviceMemory,
    Program,
    time_host,
    time_stages,
)
from repro.devices.locks import exclusive_use

_FALLBACK_CACHE = 64 << 20
#: Modules that stay loaded, those of the cases of a batch: building one takes 10 ms, and a kernel object some.
LOADED = 32


class OpenClBuffer:
    """Memory that OpenCL manages."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self._held = True

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return int(self.handle.size)

    def release(self) -> None:
        """Give the memory back; harmless a second time, as a GPU's."""
        if self._held:
            self._held = False
            self.handle.release()


class OpenClKernel:
    """A kernel object, whose arguments are part of it: nobody else's, until it is dropped.

    Parameters
    ----------
    handle
        OpenCL's own.
    dropped
        Gets it back then, to be used again: PyOpenCL generates code for each new one.
    """

    def __init__(self, handle: Any, dropped: list[Any]) -> None:
        self.handle, self._dropped = handle, dropped

    def __del__(self) -> None:
        self._dropped.append(self.handle)


class OpenClProgram:
    """A loaded module."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._dropped: defaultdict[str, list[Any]] = defaultdict(list)

    def kernel(self, name: str, shared: int = 0) -> OpenClKernel:
        """Return a kernel object that nobody else has; what it shares is in its text."""
        dropped = self._dropped[name]
        handle = dropped.pop() if dropped else opencl_runtime.load().Kernel(self._handle, name)
        return OpenClKernel(handle, dropped)


@dataclass(frozen=True)
class SubDevice:
    """One of the equal parts of a CPU.

    Attributes
    ----------
    handle
        OpenCL's own.
    index, count
        Which, of how many.
    """

    handle: Any
    index: int
    count: int


class OpenClDevice:
    """The CPU as a `Device`; all clocks are readings of the host's, for kernels and SciPy alike.

    Parameters
    ----------
    ordinal
        Which of the CPU devices.
    part
        The part of it, where it is split; see `open_parts`.
    """

    backend = "opencl"
    target = CPU

    def __init__(self, ordinal: int = 0, part: SubDevice | None = None) -> None:
        self._cl = opencl_runtime.load()
        self._device = opencl_runtime.open_device(ordinal) if part is None else part.handle
        self._context = self._cl.Context([self._device])
        self._queue = self._cl.CommandQueue(self._context)
        self._scratch: NDArray[np.uint8] | None = None
        self._loaded: OrderedDict[bytes, OpenClProgram] = OrderedDict()
        self.name = opencl_runtime.processor() or self._device.name.strip()
        self.uuid = f"{platform.node()}/{ordinal}"
        if part is not None:
            self.uuid += f"/{part.index}of{part.count}"
        self.n_s = int(self._device.max_compute_units)
        self.extensions = frozenset(self._device.extensions.split())
        self.l2_bytes = _last_level_cache() or _FALLBACK_CACHE
        self.exclusive = exclusive_use(self)

    def new_queue(self) -> OpenClDevice:
        """Return the same device with another queue."""
        other = copy(self)
        other.exclusive = exclusive_use(other)
        with self._mapped():
            other._queue = self._cl.CommandQueue(self._context)
        return other

    def current(self) -> AbstractContextManager[object]:
        """Keep other threads from the queue; OpenCL's calls name their context, so that nothing is made current."""
        return self.exclusive

    def environment(self) -> dict[str, Any]:
        """Describe processor, runtime and Python."""
        return {
            "device": self.name,
            "backend": self.backend,
            "target": self.target.name,
            "multiprocessors": self.n_s,
            "memory_bytes": psutil.virtual_memory().total,
            "cache_bytes": self.l2_bytes,
            "opencl": self._device.version,
            # with what it reads from the environment now, which may be other than when the modules were compiled
            "driver": " ".join([self._device.platform.name, self._device.driver_version, *environment()]),
            "pyopencl": version("pyopencl"),
            "system": platform.platform(),
        }

    def other_processes(self, idle: Collection[int] = ()) -> list[str]:
        """Return nothing: on a CPU there always are others."""
        return []

    def free_bytes(self) -> int:
        """Return the memory that the system could give."""
        return int(psutil.virtual_memory().available)

    def load(self, binary: Path) -> Program:
        """Load a compiled module; one of the last few is there already."""
        content = binary.read_bytes()
        if content not in self._loaded:
            while len(self._loaded) >= LOADED:
                self._loaded.popitem(last=False)
            try:
                program = self._cl.Program(self._context, [self._device], [content])
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    self._loaded[content] = OpenClProgram(program.build(list(FLAGS)))
            except self._cl.Error as error:
                raise LaunchError(f"the module cannot be loaded: {error}") from None
        self._loaded.move_to_end(content)
        return self._loaded[content]

    def upload(self, array: NDArray[Any]) -> Buffer:
        """Copy a host array to a new buffer."""
        if not array.nbytes:
            return self.allocate(0)
        flags = self._cl.mem_flags.READ_WRITE | self._cl.mem_flags.COPY_HOST_PTR
        return self._allocate(lambda: self._cl.Buffer(self._context, flags, hostbuf=np.ascontiguousarray(array)))

    def write(self, buffer: Buffer, array: NDArray[Any]) -> None:
        """Copy a host array to the start of a buffer."""
        with self._mapped():
            self._cl.enqueue_copy(self._queue, _handle(buffer), np.ascontiguousarray(array), is_blocking=True)

    def allocate(self, nbytes: int) -> Buffer:
        """Return a new buffer."""
        return self._allocate(
            lambda: self._cl.Buffer(self._context, self._cl.mem_flags.READ_WRITE, size=max(nbytes, 1))
        )

    def _allocate(self, make: Callable[[], Any]) -> Buffer:
        try:
            return OpenClBuffer(make())
        except self._cl.Error as error:
            raise OutOfDeviceMemory(str(error)) from None

    def pooling(self) -> AbstractContextManager[None]:
        """Do nothing: memory of the host is had and given back without delay."""
        return nullcontext()

    def pool_growth(self, run: Callable[[], object]) -> None:
        """Run it: there is no pool that would grow."""
        run()

    def part(self, buffer: Buffer, offset: int, nbytes: int) -> Buffer:
        """Return some bytes of a buffer as one of their own."""
        return self._allocate(lambda: _handle(buffer).get_sub_region(offset, max(nbytes, 1)))

    def download(self, buffer: Buffer, array: NDArray[Any]) -> None:
        """Copy the first bytes of a buffer into a host array."""
        with self._mapped():
            self._cl.enqueue_copy(self._queue, array, _handle(buffer), is_blocking=True)

    def receive(self, target: Buffer, sender: OpenClDevice, source: Buffer, nbytes: int) -> None:
        """Copy the first bytes of another device's buffer, behind what is queued on both; wait for it."""
        with self._mapped():
            seen, _ = self._cl.enqueue_map_buffer(
                sender._queue, _handle(source), self._cl.map_flags.READ, 0, (nbytes,), np.uint8
            )
            try:
                self._cl.enqueue_copy(self._queue, _handle(target), seen, is_blocking=True)
            finally:
                seen.base.release(sender._queue)

    def fill(self, buffer: Buffer, byte: int) -> None:
        """Set every byte."""
        try:  # part of what is timed, as the wait is: a context manager would take longer
            self._cl.enqueue_fill_buffer(self._queue, _handle(buffer), np.uint8(byte), 0, buffer.nbytes)
        except self._cl.Error as error:
            raise LaunchError(str(error)) from None

    def bind(self, kernel: OpenClKernel, grid: int, block: int, arguments: Sequence[Argument]) -> Callable[[], None]:
        """Return what queues one launch."""
        enqueue, queue, error, handle = self._cl.enqueue_nd_range_kernel, self._queue, self._cl.Error, kernel.handle
        try:
            handle.set_args(*map(_given, arguments))
        except (error, TypeError) as problem:  # a TypeError says that there are too few or too many
            raise LaunchError(str(problem)) from None
        size, group = (grid * block,), (block,)

        # neither arguments nor the handle keep alive what they belong to
        def launch(held: tuple[OpenClKernel, Sequence[Argument]] = (kernel, arguments)) -> None:
            try:
                enqueue(queue, handle, size, group)
            except error as problem:
                raise LaunchError(str(problem)) from None

        return launch

    def bind_concurrent(self, launches: Sequence[Launch]) -> Callable[[], None]:
        """Return what queues several launches one after the other."""
        bound = [self.bind(*launch) for launch in launches]

        def launch_all() -> None:
            for launch in bound:
                launch()

        return launch_all

    def capture(self, launch: Callable[[], None]) -> Captured:
        """Return the launch: the CPU has no graphs, and its queue no limit."""
        return Captured(launch, lambda: None)

    def synchronize(self) -> None:
        """Wait for the queue."""
        try:
            self._queue.finish()
        except self._cl.Error as error:
            raise LaunchError(str(error)) from None

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        """Keep other threads from the queue, and turn an error of OpenCL that leaves the body into ours."""
        try:
            with self.exclusive:
                yield
        except self._cl.Error as error:
            raise LaunchError(str(error)) from None

    def reset_kept(self) -> None:
        """Do nothing: there are no such loads."""

    def flush(self) -> None:
        """Overwrite twice the last-level cache."""
        if self._scratch is None:
            self._scratch = np.zeros(2 * self.l2_bytes, np.uint8)
        self._scratch += np.uint8(1)

    def time_events(
        self, launch: Callable[[], None], count: int, before: Callable[[], None] | None = None
    ) -> NDArray[np.float64]:
        """Time single launches and the wait for their end by the host's clock."""
        return time_host(launch, count, self.synchronize, before)

    def time_graph(self, launch: Callable[[], None], launches: int, replays: int) -> NDArray[np.float64]:
        """Time batches of launches, queued back to back, by the host's clock."""

        def batch() -> None:
            for _ in range(launches):
                launch()

        return time_host(batch, replays, self.synchronize) / launches

    def time_host(
        self, launch: Callable[[], None], count: int, before: Callable[[], None] | None = None
    ) -> NDArray[np.float64]:
        """Time single launches by the host's clock: what `time_events` does on this device."""
        return time_host(launch, count, self.synchronize, before)

    def time_stages(
        self, stages: Sequence[Callable[[], None]], count: int, before: Callable[[], None] | None = None
    ) -> NDArray[np.float64]:
        """Time stages and the wait for the end of each by the host's clock."""
        return time_stages(stages, count, self.synchronize, before)

    def clocks(self) -> tuple[float | None, str | None]:
        """Return the processor's clock in MHz, where the system tells it."""
        frequency = psutil.cpu_freq()
        return (float(frequency.current) if frequency else None), None

    def use_common(self, program: Program) -> None:
        """Need nothing: there is no stream to block."""

    def close(self) -> None:
        """Wait for what is queued, and give the modules back."""
        self._queue.finish()
        self._loaded.clear()


def open_sub_devices(ordinal: int, count: int) -> list[OpenClDevice]:
    """Open a CPU as so many equal parts, each with a context of its own.

    Raises
    ------
    ReproError
        It cannot be split so.
    """
    handles = opencl_runtime.split_device(ordinal, count)
    return [OpenClDevice(ordinal, SubDevice(handle, index, count)) for index, handle in enumerate(handles)]


def _handle(buffer: Any) -> Any:
    return buffer.handle


def _given(argument: Argument) -> Any:
    """Return an argument as OpenCL takes it."""
    if isinstance(argument, np.generic):
        return argument
    if isinstance(argument, int):
        return np.int32(argument)
    return np.float64(argument) if isinstance(argument, float) else _handle(argument)


def _last_level_cache() -> int | None:
    """Return the bytes of the largest cache that Linux lists for the first core."""
    units = {"K": 1 << 10, "M": 1 << 20}
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = path.read_text().strip()
        sizes.append(int(text[:-1]) * units.get(text[-1], 1))
    return max(sizes, default=None)


class OpenClLink:
    """A `Link` of devices with a context each, so that memory of one is of no use to another, as between GPUs."""

    def __init__(self, devices: Sequence[OpenClDevice]) -> None:
        self._devices = devices

    def fork(self) -> None:
        """Wait for the first."""
        self._devices[0].synchronize()

    def join(self) -> None:
        """Wait for all others."""
        for device in self._devices[1:]:
            device.synchronize()

    def meet(self) -> None:
        """Wait for all."""
        for device in self._devices:
            device.synchronize()

    def exchange(self, copies: Sequence[Copy], meanwhile: Callable[[], None] | None = None) -> None:
        """Copy one after the other, and wait for each; then queue what may run meanwhile."""
        for each in copies:
            self._devices[each.to].receive(each.target, self._devices[each.at], each.source, each.nbytes)
        if meanwhile is not None:
            meanwhile()

    def topology(self) -> list[dict[str, Any]]:
        """Return for each pair that it is linked through the host."""
        return [{"devices": list(pair), "peer_access": False} for pair in combinations(range(len(self._devices)), 2)]

    def close(self) -> None:
        """Hold nothing."""
