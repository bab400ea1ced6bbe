"""Runs the kernels on a CPU through OpenCL, with real barriers and atomics, so that no GPU is needed.

A CPU can be split into sub-devices. Each has its own context, and the host copies data between contexts.
"""

from __future__ import annotations

import platform
import re
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
from numpy.typing import NDArray

from repro.codegen import opencl_runtime
from repro.codegen.opencl_runtime import FLAGS, environment
from repro.codegen.targets import CPU
from repro.containment import State
from repro.devices.base import (
    Argument,
    Buffer,
    Captured,
    CopiedWords,
    Copy,
    LaunchError,
    LaunchSpec,
    OutOfDeviceMemory,
    Program,
    keep_busy,
    time_host,
    time_stages,
)
from repro.devices.locks import exclusive_use
from repro.errors import ReproError

_FALLBACK_CACHE = 64 << 20
#: Maximum number of loaded modules to keep for later cases of a batch; building a module takes 10 ms.
LOADED = 32


class OpenClBuffer:
    """A memory buffer managed by OpenCL."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.nbytes = int(handle.size)

    def release(self) -> None:
        if "handle" in self.__dict__:
            self.__dict__.pop("handle").release()

    def __getattr__(self, name: str) -> Any:
        if name == "handle":  # OpenCL would read freed memory
            raise ReproError("the device memory was released", todo="create the object that held it again")
        raise AttributeError(f"{type(self).__name__} has no attribute {name}")


class OpenClKernel:
    """A kernel object with a single user, since the object stores the arguments. Unused ones are recycled to
    save time.
    """

    def __init__(self, handle: Any, free_handles: list[Any]) -> None:
        self.handle, self._dropped = handle, free_handles

    def __del__(self) -> None:
        self._dropped.append(self.handle)


class OpenClProgram:
    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._dropped: defaultdict[str, list[Any]] = defaultdict(list)

    def kernel(self, name: str, shared: int = 0) -> OpenClKernel:
        """Return a kernel object with no other user. `shared` is ignored, because OpenCL kernels declare their local
        memory.
        """
        free_handles, cl = self._dropped[name], opencl_runtime.load()
        try:
            handle = free_handles.pop() if free_handles else cl.Kernel(self._handle, name)
        except cl.Error as error:
            raise LaunchError(f"no kernel {name} in the module: {error}") from None
        return OpenClKernel(handle, free_handles)


@dataclass(frozen=True)
class SubDevice:
    """One of `count` equal parts of a CPU, and its OpenCL handle."""

    handle: Any
    index: int
    count: int


class OpenClDevice:
    """A CPU or part of a CPU as a `Device`. All its clocks read the host's clock, for kernels and for SciPy."""

    backend = "opencl"
    target = CPU
    states: tuple[State, ...] = ()  # an OpenCL call names its context, so foreign code cannot change it

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
        self.sm_count = int(self._device.max_compute_units)
        self.extensions = frozenset(self._device.extensions.split())
        self.l2_bytes = _last_level_cache() or _FALLBACK_CACHE
        self.exclusive = exclusive_use(self)

    def new_queue(self) -> OpenClDevice:
        other = copy(self)
        other.exclusive = exclusive_use(other)
        with self._mapped():
            other._queue = self._cl.CommandQueue(self._context)
        return other

    def current(self) -> AbstractContextManager[object]:
        """Lock the queue. OpenCL calls name their context, so no context has to be made current."""
        return self.exclusive

    def environment(self) -> dict[str, Any]:
        return {
            "device": self.name,
            "backend": self.backend,
            "target": self.target.name,
            "multiprocessors": self.sm_count,
            "memory_bytes": _memory_bytes("MemTotal"),
            "cache_bytes": self.l2_bytes,
            "opencl": self._device.version,
            # Record the runtime's environment variables now, since they may have changed since kernels were compiled.
            "driver": " ".join([self._device.platform.name, self._device.driver_version, *environment()]),
            "pyopencl": version("pyopencl"),
            "system": platform.platform(),
        }

    def other_processes(self, idle: Collection[int] = ()) -> list[str]:
        """Return an empty list: a CPU is always shared with other processes."""
        return []

    def free_bytes(self) -> int:
        return _memory_bytes("MemAvailable")

    def pooled_bytes(self) -> int:
        return 0  # a CPU's memory has no pool

    def load(self, binary: Path) -> Program:
        """Load a compiled module, or return it from a cache of recently used modules."""
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
        if not array.nbytes:
            return self.allocate(0)
        flags = self._cl.mem_flags.READ_WRITE | self._cl.mem_flags.COPY_HOST_PTR
        return self._allocate(lambda: self._cl.Buffer(self._context, flags, hostbuf=np.ascontiguousarray(array)))

    def write(self, buffer: Buffer, array: NDArray[Any]) -> None:
        with self._mapped():
            self._cl.enqueue_copy(self._queue, _handle(buffer), np.ascontiguousarray(array), is_blocking=True)

    def allocate(self, nbytes: int) -> Buffer:
        return self._allocate(
            lambda: self._cl.Buffer(self._context, self._cl.mem_flags.READ_WRITE, size=max(nbytes, 1))
        )

    def _allocate(self, make: Callable[[], Any]) -> Buffer:
        try:
            return OpenClBuffer(make())
        except self._cl.Error as error:
            raise OutOfDeviceMemory(str(error)) from None

    def allocate_ordered(self, nbytes: int) -> Buffer:
        return self.allocate(nbytes)

    def host_array(self, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        return np.empty(count, dtype)

    def pooling(self) -> AbstractContextManager[None]:
        """Do nothing: allocating host memory is fast enough without a pool."""
        return nullcontext()

    def pool_growth(self, run: Callable[[], object]) -> None:
        run()

    def part(self, buffer: Buffer, offset: int, nbytes: int) -> Buffer:
        return self._allocate(lambda: _handle(buffer).get_sub_region(offset, max(nbytes, 1)))

    def host_words(self, count: int) -> CopiedWords:
        return CopiedWords(self, count)

    def at_close(self, release: Callable[[], None]) -> None:
        """Do nothing: OpenCL buffers can be released after the device is closed."""

    def download(self, buffer: Buffer, array: NDArray[Any]) -> None:
        with self._mapped():
            self._cl.enqueue_copy(self._queue, array, _handle(buffer), is_blocking=True)

    def receive(self, target: Buffer, sender: OpenClDevice, source: Buffer, nbytes: int) -> None:
        """Copy bytes from the start of another device's buffer. Waits for both devices before, and for the copy."""
        with self._mapped():
            mapped_memory, _ = self._cl.enqueue_map_buffer(
                sender._queue, _handle(source), self._cl.map_flags.READ, 0, (nbytes,), np.uint8
            )
            try:
                self._cl.enqueue_copy(self._queue, _handle(target), mapped_memory, is_blocking=True)
            finally:
                mapped_memory.base.release(sender._queue)

    def fill(self, buffer: Buffer, byte: int) -> None:
        try:  # not a context manager, which is slower; this code is timed
            self._cl.enqueue_fill_buffer(self._queue, _handle(buffer), np.uint8(byte), 0, buffer.nbytes)
        except self._cl.Error as error:
            raise LaunchError(str(error)) from None

    def bind(self, kernel: OpenClKernel, grid: int, block: int, arguments: Sequence[Argument]) -> Callable[[], None]:
        enqueue, queue, error, handle = self._cl.enqueue_nd_range_kernel, self._queue, self._cl.Error, kernel.handle
        try:
            handle.set_args(*map(_kernel_argument, arguments))
        except (error, TypeError) as failure:  # TypeError: wrong number of arguments
            raise LaunchError(str(failure)) from None
        size, group = (grid * block,), (block,)

        # The default argument keeps the kernel and the buffers alive.
        def launch(referenced: tuple[OpenClKernel, Sequence[Argument]] = (kernel, arguments)) -> None:
            try:
                enqueue(queue, handle, size, group)
            except error as failure:
                raise LaunchError(str(failure)) from None

        return launch

    def bind_concurrent(self, launches: Sequence[LaunchSpec]) -> Callable[[], None]:
        bound = [self.bind(*launch) for launch in launches]

        def launch_all() -> None:
            for launch in bound:
                launch()

        return launch_all

    def cooperative(self, program: Program, name: str, block: int, shared: int = 0) -> None:
        """Return None: a block that waits for a later block of the same core would wait for ever."""

    def bind_dependent(
        self, program: Program, name: str, grid: int, block: int, arguments: Sequence[Argument], shared: int = 0
    ) -> Callable[[], None]:
        return self.bind(program.kernel(name, shared), grid, block, arguments)

    def bind_call(
        self, program: Any, name: str, grid: int, block: int, arguments: Sequence[Argument], shared: int = 0
    ) -> None:
        """Return None: buffers have no addresses that a call could give."""

    def capture(self, launch: Callable[[], None]) -> Captured:
        return Captured(launch, lambda: None)

    def synchronize(self) -> None:
        try:
            self._queue.finish()
        except self._cl.Error as error:
            raise LaunchError(str(error)) from None

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        try:
            with self.exclusive:
                yield
        except self._cl.Error as error:
            raise LaunchError(str(error)) from None

    def reset_persisting_l2(self) -> None:
        """Do nothing: CPU caches have no persisting lines."""

    def flush(self) -> None:
        if self._scratch is None:
            self._scratch = np.zeros(self.l2_bytes, np.uint8)
        self._scratch += np.uint8(1)

    def time_events(
        self, launch: Callable[[], None], count: int, before: Callable[[], None] | None = None
    ) -> NDArray[np.float64]:
        return time_host(launch, count, self.synchronize, before)

    def time_graph(self, launch: Callable[[], None], launches: int, replays: int) -> NDArray[np.float64]:
        def batch() -> None:
            for _ in range(launches):
                launch()

        return time_host(batch, replays, self.synchronize) / launches

    time_host = time_events

    def time_stages(
        self, stages: Sequence[Callable[[], None]], count: int, before: Callable[[], None] | None = None
    ) -> NDArray[np.float64]:
        return time_stages(stages, count, self.synchronize, before)

    def keep_busy(self, launch: Callable[[], None], launches: int, goes_on: Callable[[], bool]) -> tuple[int, float]:
        return keep_busy(launch, launches, goes_on, self.synchronize)

    def joules(self) -> None:
        """Return None: OpenCL has no energy counter."""

    def clocks(self) -> tuple[float | None, str | None]:
        try:
            import psutil
        except ImportError:  # it belongs to campaigns, which record the clock
            return None, None
        frequency = psutil.cpu_freq()
        return (float(frequency.current) if frequency else None), None

    def use_common(self, program: Program) -> None:
        """Do nothing: timing on a CPU does not block a queue."""

    def close(self) -> None:
        self._queue.finish()
        self._loaded.clear()


def open_sub_devices(ordinal: int, count: int) -> list[OpenClDevice]:
    """Split a CPU into equal sub-devices, each with its own context; raise `ReproError` if this is impossible."""
    handles = opencl_runtime.split_device(ordinal, count)
    return [OpenClDevice(ordinal, SubDevice(handle, index, count)) for index, handle in enumerate(handles)]


def _handle(buffer: Any) -> Any:
    return buffer.handle


def _kernel_argument(argument: Argument) -> Any:
    if isinstance(argument, np.generic):
        return argument
    if isinstance(argument, int):
        return np.int32(argument)
    return np.float64(argument) if isinstance(argument, float) else _handle(argument)


def _last_level_cache() -> int | None:
    """Return the bytes of the largest cache that Linux reports for the first core; None if unknown."""
    units = {"K": 1 << 10, "M": 1 << 20}
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = path.read_text().strip()
        sizes.append(int(text[:-1]) * units.get(text[-1], 1))
    return max(sizes, default=None)


class OpenClLink:
    """A `Link` between OpenCL devices with separate contexts and separate memories, which imitates several GPUs."""

    def __init__(self, devices: Sequence[OpenClDevice]) -> None:
        self._devices = devices

    def fork(self) -> None:
        self._devices[0].synchronize()

    def join(self) -> None:
        for device in self._devices[1:]:
            device.synchronize()

    def meet(self) -> None:
        for device in self._devices:
            device.synchronize()

    def exchange(self, copies: Sequence[Copy], meanwhile: Callable[[], None] | None = None) -> None:
        """Copy the buffers one after the other, waiting for each copy; then queue the launches of `meanwhile`."""
        for each in copies:
            self._devices[each.target_device].receive(
                each.target, self._devices[each.source_device], each.source, each.nbytes
            )
        if meanwhile is not None:
            meanwhile()

    def topology(self) -> list[dict[str, Any]]:
        return [{"devices": list(pair), "peer_access": False} for pair in combinations(range(len(self._devices)), 2)]

    def close(self) -> None:
        """Do nothing: the link has no resources."""


def _memory_bytes(name: str) -> int:
    """Return a number of bytes that Linux reports of the machine's memory: `MemTotal` or `MemAvailable`."""
    found = re.search(rf"^{name}: *(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    if found is None:
        raise ReproError("the amount of memory is unknown", where="/proc/meminfo", expected=name)
    return int(found[1]) << 10
