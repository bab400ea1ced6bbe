"""An NVIDIA GPU, driven through PyCUDA on the primary context, which cuSPARSE and CUDA graphs use too.

Without PyCUDA, which has no wheel, `repro.devices.bindings_driver` takes its place.

Launches are timed by events around each launch and by replays of a graph. While the host fills the queue, a kernel
blocks the stream. The measured work then runs without gaps that would come from the host.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from inspect import unwrap
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, ParamSpec, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from repro.codegen import nvrtc
from repro.codegen.targets import get_target
from repro.containment import State
from repro.devices.base import (
    Argument,
    Buffer,
    Call,
    Captured,
    CooperativeKernel,
    DeviceError,
    LaunchError,
    LaunchSpec,
    OutOfDeviceMemory,
    Program,
    time_host,
)
from repro.devices.cuda_driver import (
    MIN_PINNED_BYTES,
    MIN_STAGED_BYTES,
    CudaBuffer,
    CudaQueue,
    MappedWords,
    Memory,
    PinnedPool,
    SideStreams,
    bind_launch,
    check_cuda,
    cusparse_version,
    dotted,
    package_version,
    pointer_of,
    runtime_version,
    with_shared_memory,
    write_staged,
)
from repro.devices.locks import exclusive_use
from repro.devices.nvml import Monitor
from repro.errors import ReproError
from repro.package_data import install

#: Environment variables of profilers and debuggers (Nsight Compute, Nsight Systems, compute-sanitizer). Such a tool
#: waits for each launch to finish, so a blocked stream would deadlock.
_TOOLS = ("CUDA_INJECTION64_PATH", "NV_COMPUTE_PROFILER_", "NV_NSIGHT_", "NV_SANITIZER_", "NV_TPS_", "NSYS_")
_TOOL_LIBRARIES = ("TreeLauncher", "sanitizer", "ToolsInjection")


def may_block(environment: Mapping[str, str]) -> bool:
    """Return whether the environment variables permit blocking the stream (see `REPRO_BLOCKING`)."""
    if environment.get("REPRO_BLOCKING") == "0" or environment.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"):
        return False
    preload_list = environment.get("LD_PRELOAD", "")
    return not any(name.startswith(_TOOLS) for name in environment) and not any(
        library in preload_list for library in _TOOL_LIBRARIES
    )


class Blocker:
    """A kernel that blocks a stream until the host sets a word in host memory.

    If the host does not set the word within `timeout` seconds (`short` seconds for a short block), the kernel ends and
    sets a second word, which marks the measured times as invalid.
    """

    def __init__(self, cuda: Any, kernel: Any, stream: Any, timeout: float, short: float) -> None:
        self._words = cuda.pagelocked_zeros(2, np.int32, mem_flags=cuda.host_alloc_flags.DEVICEMAP)
        address = np.uintp(self._words.base.get_device_pointer())
        self._launch, self._launch_short = (
            bind_launch(kernel, 1, 1, stream, [address, np.int64(seconds * 1e9)]) for seconds in (timeout, short)
        )

    @contextmanager
    def block(self, short: bool = False) -> Iterator[None]:
        """Block the stream while the body runs; the stream must be idle before."""
        self._words[:] = 0
        (self._launch_short if short else self._launch)()
        try:
            yield
        finally:
            self._words[0] = 1

    @property
    def has_expired(self) -> bool:
        """Whether the kernel timed out, which makes the times invalid; read this only when the stream is idle."""
        return bool(self._words[1])


#: Maximum number of timed groups in the queue. A group consists of two events, a launch of a few operations, and a
#: cache flush. A GPU prefetches only a few dozen operations of its queue; fetching more while a kernel runs disturbs
#: the timing. Event time of an empty kernel on an H200: 2.69 µs with up to 8 groups, equal to NVBench, which queues one
#: group at a time; 3.17 µs with 30 groups and 3.39 µs with 100, both with more scatter. Small batches cost no more host
#: time.
GROUPS = 4
#: Maximum total number of launches in all queued graphs, since the GPU's prefetch is limited. A launch is 1 or 2 nodes.
GRAPH_NODES = 100


class Timer:
    """Times launches on one stream. `failure` creates the exception to raise from the name of a driver error."""

    def __init__(
        self, cuda: Any, stream: Any, synchronize: Callable[[], None], failure: Callable[[str], Exception]
    ) -> None:
        self._cuda = cuda
        self._stream = stream
        self._synchronize = synchronize
        self._failure = failure
        self._events: list[tuple[Any, Any]] = []
        # Batch size found for each launch function. Finding it is slow, since it needs a timeout of the blocker.
        self._fitting: WeakKeyDictionary[Callable[[], None], int] = WeakKeyDictionary()
        self.blocker: Blocker | None = None

    def events(
        self, launch: Callable[[], None], count: int, before: Callable[[], None] | None = None
    ) -> NDArray[np.float64]:
        """Time single launches between two events, in seconds. `before` runs before each launch and is not timed."""
        stream = self._stream

        def group(start: Any, end: Any) -> None:
            start.record(stream)
            launch()
            end.record(stream)

        if before is not None:
            before()
        launch()  # not blocked, since a library may wait for the device in its first call
        self._synchronize()
        unwrapped = unwrap(launch)
        times, self._fitting[unwrapped] = self._time(group, count, self._fitting.get(unwrapped, GROUPS), before)
        return times

    def graph(self, launch: Callable[[], None], launches: int, replays: int) -> NDArray[np.float64]:
        """Time replays of a graph that contains `launches` launches; return seconds per launch. Raises
        `CaptureError`.
        """
        from repro.devices.cuda_bindings import Graph  # NVIDIA's Python bindings are optional

        launch()
        self._synchronize()
        graph = Graph(int(self._stream.handle), launch, launches, self._failure)
        stream = self._stream

        def group(start: Any, end: Any) -> None:
            start.record(stream)
            graph.replay()
            end.record(stream)

        try:
            graph.replay()
            self._synchronize()
            times, _ = self._time(group, replays, max(1, GRAPH_NODES // launches))
            return times / launches
        finally:
            graph.close()

    def keep_busy(self, launch: Callable[[], None], launches: int, goes_on: Callable[[], bool]) -> tuple[int, float]:
        """Replay a graph of launches as long as `goes_on` says, each replay queued while the one before it runs."""
        from repro.devices.cuda_bindings import Graph  # NVIDIA's Python bindings are optional

        launch()
        self._synchronize()
        graph = Graph(int(self._stream.handle), launch, launches, self._failure)
        start, *ends = (self._cuda.Event() for _ in range(3))
        try:
            graph.replay()
            self._synchronize()
            start.record(self._stream)
            replays, going = 0, True
            while going:
                graph.replay()
                last, replays = ends[replays % 2], replays + 1
                last.record(self._stream)
                previous = ends[replays % 2]
                going = goes_on()
                while going and replays > 1 and not previous.query():
                    going = goes_on()
        finally:
            self._synchronize()
            graph.close()
        return replays * launches, last.time_since(start) * 1e-3

    def stages(
        self, stages: Sequence[Callable[[], None]], count: int, before: Callable[[], None] | None = None
    ) -> NDArray[np.float64]:
        """Time each stage between two events. The stream is not blocked, because a stage that waits for the device
        would hang.
        """
        samples = [[self._cuda.Event() for _ in range(len(stages) + 1)] for _ in range(count)]
        for start, *ends in samples:
            if before is not None:
                before()
            start.record(self._stream)
            for stage, end in zip(stages, ends, strict=True):
                stage()
                end.record(self._stream)
        self._synchronize()
        times = [[end.time_since(start) for start, end in pairwise(events)] for events in samples]
        return np.array(times, np.float64).reshape(count, len(stages)) * 1e-3

    def _time(
        self,
        group: Callable[[Any, Any], None],
        count: int,
        batch: int,
        before: Callable[[], None] | None = None,
    ) -> tuple[NDArray[np.float64], int]:
        """Time groups in batches behind the blocker; return times and batch size, which is reduced when the blocker
        times out. `before` runs before each group; before a batch of one it may wait for the device.
        """
        times = np.empty(count)
        n_timed = n_expired = 0
        while len(self._events) < min(batch, count):
            self._events.append((self._cuda.Event(), self._cuda.Event()))
        while n_timed < count:
            events = self._events[: min(batch, count - n_timed)]
            # A batch larger than the GPU's queue would make host and stream wait for each other.
            if before is not None and batch == 1:
                before()
            with self.blocker.block(short=batch > 1) if self.blocker else nullcontext():
                for start, end in events:
                    if before is not None and batch > 1:
                        before()
                    group(start, end)
            self._synchronize()
            if self.blocker and self.blocker.has_expired:
                n_expired += batch == 1
                if n_expired > MOST_EXPIRED:
                    reason = "a launch waits for the device, so that the device cannot be kept from starting it"
                    raise LaunchError(f"{reason}; under a profiler or debugger set REPRO_BLOCKING=0")
                batch = max(1, batch // 4)
                continue
            times[n_timed : n_timed + len(events)] = [end.time_since(start) for start, end in events]
            n_timed += len(events)
        return times * 1e-3, batch

    def close(self) -> None:
        self._events.clear()
        self.blocker = None


#: Timeouts in seconds of a blocked stream, for one launch and for several. The host normally needs milliseconds.
BLOCKED_SECONDS = 1.0, 0.1
#: How often a single launch may outlast the first timeout, as it does on a host that stalls, before it is an error.
MOST_EXPIRED = 3
#: First compute capability, times ten, whose L2 cache supports persisting lines.
FIRST_PERSISTING_L2 = 80
P = ParamSpec("P")
T = TypeVar("T")


class CudaProgram:
    """A module of a binary. `get` returns the kernel with the given name and bytes of dynamic shared memory."""

    def __init__(self, get: Callable[[str, int], Any], failure: type[Exception], binary: Path) -> None:
        self._get = get
        self._failure = failure
        self.binary = binary

    def kernel(self, name: str, shared: int = 0) -> Any:
        try:
            return self._get(name, shared)
        except self._failure as error:
            raise LaunchError(f"no kernel {name} in the module: {error}") from None

    def having(self, name: str) -> CudaProgram:
        """Return the program of one binary that has a kernel: this one."""
        return self


class CudaDevice:
    """One GPU with one stream, created by `open_cuda`; implements `Device`.

    The first device that the main thread opens is the resident device. Its context stays current in the main thread
    between calls; other threads must call it within `current()`. Every other device makes its context current during
    each call. To time work on several devices, use the clocks of the first one. Only the main thread keeps a context
    current, since PyCUDA aborts the process if a thread with a current context ends.

    `ordinal` is the GPU's number in the driver; `monitor` is its NVML interface.
    """

    backend = "cuda"
    _resident: ClassVar[CudaDevice | None] = None
    _current: ClassVar[threading.local] = threading.local()  # `device`: owner of this thread's current context

    def __init__(self, cuda: Any, ordinal: int) -> None:
        self._cuda, self.ordinal = cuda, ordinal
        gpu = cuda.Device(ordinal)
        attribute = cuda.device_attribute
        major, minor = gpu.compute_capability()
        self.target = get_target(f"sm_{major}{minor}")
        self.name: str = gpu.name()
        self.uuid = _uuid(ordinal)
        self.sm_count: int = gpu.get_attribute(attribute.MULTIPROCESSOR_COUNT)
        self.l2_bytes: int = gpu.get_attribute(attribute.L2_CACHE_SIZE)
        self._memory_bytes: int = gpu.total_memory()
        self.monitor = Monitor(gpu.pci_bus_id())
        self._context = gpu.retain_primary_context()
        self._guest = CudaDevice._resident is not None or threading.current_thread() is not threading.main_thread()
        if not self._guest:
            CudaDevice._resident = self
            self._context.push()
            self._current.device = self
        self.exclusive = exclusive_use(self)
        self._open = True
        atexit.register(self.close)  # PyCUDA aborts if a context is in use at exit
        with self.current():
            self._stream = cuda.Stream()
        self._memory = Memory(cuda, self._activated)
        self._pinned = PinnedPool(lambda nbytes: cuda.pagelocked_empty(nbytes, np.uint8))
        self._ordered: Any = None  # the pool of `allocate_ordered`, once it is used
        self._scratch: CudaBuffer | None = None
        self._at_close: list[Callable[[], None]] = []
        self._cooperative: dict[tuple[Program, str, int, int], CooperativeKernel | None] = {}
        self._bindings_modules: dict[Program, Any] = {}
        self._side_streams = SideStreams(cuda, self._stream)
        self._memset = self.within(cuda.memset_d8_async)
        self._timer = Timer(cuda, self._stream, self.synchronize, self.failure)

    @property
    def stream(self) -> int:
        """Handle of the stream; libraries queue their kernels on it."""
        return int(self._stream.handle)

    def current(self) -> AbstractContextManager[object]:
        return self.exclusive if self._is_current() else self._taken()

    def _is_current(self) -> bool:
        return getattr(self._current, "device", None) is self

    @contextmanager
    def _taken(self) -> Iterator[None]:
        with self.exclusive, self._activated():
            yield

    @contextmanager
    def _activated(self) -> Iterator[None]:
        """Make this device's context current in this thread, without locking the device."""
        if self._is_current():
            yield
            return
        before = getattr(self._current, "device", None)
        self._context.push()
        self._current.device = self
        try:
            yield
        finally:
            self._current.device = before
            self._cuda.Context.pop()

    def within(self, function: Callable[P, T]) -> Callable[P, T]:
        """Wrap a function so that it runs with this device's context current; unchanged if the context is always
        current.
        """
        if not self._guest:
            return function
        push, pop = self._context.push, self._cuda.Context.pop

        def inside(*arguments: P.args, **named: P.kwargs) -> T:
            push()
            try:
                return function(*arguments, **named)
            finally:
                pop()

        return inside

    @property
    def states(self) -> tuple[State, ...]:
        driver = ctypes.CDLL("libcuda.so.1")

        def current() -> int:
            context = ctypes.c_void_p()
            driver.cuCtxGetCurrent(ctypes.byref(context))
            return context.value or 0

        def put(context: int) -> None:
            """Remove what lies above a context on the stack of this thread, and push it if it is not there."""
            top = ctypes.c_void_p()
            while current() not in (0, context) and not driver.cuCtxPopCurrent_v2(ctypes.byref(top)):
                pass
            if context and current() != context and driver.cuCtxSetCurrent(ctypes.c_void_p(context)):
                raise OSError("the CUDA context is gone")

        return (State("changes the current CUDA context", current, put),)

    def new_queue(self) -> CudaQueue:
        return CudaQueue(self.name, self._cuda, self._context, self.failure)

    def environment(self) -> dict[str, Any]:
        api = dotted(self._cuda.get_driver_version())
        settings = self.monitor.settings()
        return {
            "device": self.name,
            "backend": self.backend,
            "target": self.target.name,
            "multiprocessors": self.sm_count,
            "memory_bytes": self._memory_bytes,
            "cache_bytes": self.l2_bytes,
            **settings,
            "driver": settings["driver"] or f"for CUDA {api}",
            "cuda_driver_api": api,
            "cuda_runtime": runtime_version(),
            "cuda_of_pycuda": ".".join(map(str, self._cuda.get_version())),
            "pycuda": package_version("pycuda"),
            "nvmath": package_version("nvmath-python"),
            "cusparse": cusparse_version(),
            "module_loading": os.environ.get("CUDA_MODULE_LOADING"),
            "blocking": may_block(os.environ),
        }

    def other_processes(self, idle: Collection[int] = ()) -> list[str]:
        return self.monitor.other_processes(idle)

    def free_bytes(self) -> int:
        with self._mapped():
            return self._memory.free_bytes() + (self._ordered.unused_bytes() if self._ordered else 0)

    def pooled_bytes(self) -> int:
        return self._memory.pooled_bytes()

    def load(self, binary: Path) -> Program:
        with self._mapped():
            try:
                module = self._cuda.module_from_file(str(binary))
            except self._cuda.Error as error:
                self._refuse_newer_compiler(error)
                raise

        def get(name: str, shared: int) -> Any:
            kernel = module.get_function(name)
            return with_shared_memory(self._cuda, kernel, shared) if shared else kernel

        return CudaProgram(self.within(get), self._cuda.Error, binary)

    def _refuse_newer_compiler(self, error: Exception) -> None:
        """Raise `ReproError` if the driver is for an older major release of CUDA than the compiler."""
        api = self._cuda.get_driver_version()
        if nvrtc.is_installed() and int(nvrtc.version().split()[-1].split(".")[0]) > api // 1000:
            raise ReproError(
                "the driver cannot load this compiler's kernels",
                where=self.name,
                expected=f"a driver that supports {nvrtc.version()}",
                actual=f"one for CUDA {dotted(api)}: {error}",
                todo="install a newer driver, or a compiler that matches the driver: for CUDA 12 pip install "
                "'cuda-bindings<13' nvidia-cuda-nvrtc-cu12 nvidia-cuda-runtime-cu12 nvidia-cuda-cccl-cu12",
            ) from None

    def upload(self, array: NDArray[Any]) -> CudaBuffer:
        buffer = self.allocate(array.nbytes)
        contiguous = np.ascontiguousarray(array)
        if array.nbytes >= MIN_STAGED_BYTES:
            with self._mapped():
                write_staged(self._cuda, self._stream, self._pinned, buffer.pointer, contiguous)
        elif array.nbytes:
            self.write(buffer, contiguous)
        return buffer

    def write(self, buffer: Buffer, array: NDArray[Any]) -> None:
        with self._mapped():  # not on the default stream, for which other blocking streams would have to wait
            self._cuda.memcpy_htod_async(pointer_of(buffer), np.ascontiguousarray(array), self._stream)
            self._stream.synchronize()

    def allocate(self, nbytes: int) -> CudaBuffer:
        with self._mapped():
            try:
                return self._memory.allocate(int(nbytes))
            except self._cuda.MemoryError:
                if not self._ordered:
                    raise
                self._ordered.trim()
                return self._memory.allocate(int(nbytes))

    def allocate_ordered(self, nbytes: int) -> Buffer:
        from repro.devices.cuda_bindings import OrderedPool

        with self._mapped():
            if self._ordered is None:
                self._ordered = OrderedPool(self.stream, self.failure)
            try:
                buffer: Buffer = self._ordered.allocate(int(nbytes))
            except OutOfDeviceMemory:
                self._memory.trim()
                buffer = self._ordered.allocate(int(nbytes))
            return buffer

    def host_array(self, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        nbytes = count * dtype.itemsize
        if nbytes < MIN_PINNED_BYTES:
            return np.empty(count, dtype)
        with self._mapped():
            return self._pinned.take(nbytes)[:nbytes].view(dtype)

    def pooling(self) -> AbstractContextManager[None]:
        return self._memory.pooling()

    def pool_growth(self, run: Callable[[], object]) -> int:
        return self._memory.growth(run)

    def part(self, buffer: Buffer, offset: int, nbytes: int) -> CudaBuffer:
        return CudaBuffer(pointer_of(buffer) + offset, nbytes)

    def download(self, buffer: Buffer, array: NDArray[Any]) -> None:
        with self._mapped():
            self._cuda.memcpy_dtoh_async(array, pointer_of(buffer), self._stream)
            self._stream.synchronize()

    def host_words(self, count: int) -> MappedWords:
        with self._mapped():
            return MappedWords(self._cuda, count, self.synchronize)

    def at_close(self, release: Callable[[], None]) -> None:
        self._at_close.append(release)

    def fill(self, buffer: Buffer, byte: int) -> None:
        try:
            self._memset(pointer_of(buffer), byte, buffer.nbytes, self._stream)
        except self._cuda.Error as error:
            raise self.failure(error) from None

    def bind(self, kernel: Any, grid: int, block: int, arguments: Sequence[Argument]) -> Callable[[], None]:
        return self._guarded(bind_launch(kernel, grid, block, self._stream, arguments))

    def bind_concurrent(self, launches: Sequence[LaunchSpec]) -> Callable[[], None]:
        with self._mapped():
            streams = self._side_streams.take(len(launches))
        runs = [
            bind_launch(kernel, grid, block, stream, arguments)
            for stream, (kernel, grid, block, arguments) in zip(streams, launches, strict=True)
        ]
        return self._guarded(self._side_streams.side_by_side(runs))

    def cooperative(self, program: Program, name: str, block: int, shared: int = 0) -> CooperativeKernel | None:
        key = program, name, block, shared
        if key not in self._cooperative:
            self._cooperative[key] = self._find_cooperative(*key)
        return self._cooperative[key]

    def _find_cooperative(self, program: Any, name: str, block: int, shared: int) -> CooperativeKernel | None:
        from repro.devices.cuda_bindings import has_cooperative_launches

        with self._mapped():
            if not has_cooperative_launches(self.ordinal, self.failure):
                return None
            cooperative: CooperativeKernel = self._bindings_module(program, name).cooperative(
                name, block, shared, self.sm_count
            )
            return cooperative

    def bind_dependent(
        self, program: Any, name: str, grid: int, block: int, arguments: Sequence[Argument], shared: int = 0
    ) -> Callable[[], None]:
        if not self.target.has_dependent_launches:
            return self.bind(program.kernel(name, shared), grid, block, arguments)
        with self._mapped():
            launch: Callable[[], None] = self._bindings_module(program, name).bind_dependent(
                name, grid, block, shared, arguments
            )
            return launch

    def bind_call(
        self, program: Any, name: str, grid: int, block: int, arguments: Sequence[Argument], shared: int = 0
    ) -> Call:
        with self._mapped():
            launch: Call = self._bindings_module(program, name).bind_call(name, grid, block, shared, arguments)
            return launch

    def let_wait(self, stream: int) -> None:
        """Make later work of another stream wait for what is queued on this device's."""
        from repro.devices.cuda_bindings import let_wait

        with self._activated():
            let_wait(stream, self.stream, self.failure)

    def _bindings_module(self, program: Any, name: str) -> Any:
        """Return the module with a program's kernel as loaded by NVIDIA's bindings; the context must be current."""
        from repro.devices.cuda_bindings import BindingsModule

        program = program.having(name)
        if program not in self._bindings_modules:
            self._bindings_modules[program] = BindingsModule(program.binary, self.stream, self.within, self.failure)
        return self._bindings_modules[program]

    def capture(self, launch: Callable[[], None]) -> Captured:
        from repro.devices.cuda_bindings import Graph  # NVIDIA's Python bindings are optional

        with self._mapped():
            graph = Graph(int(self._stream.handle), launch, 1, self.failure)

        def release() -> None:
            with self._activated():
                graph.close()

        return Captured(self.within(graph.replay), release)

    def _guarded(self, queue: Callable[[], None]) -> Callable[[], None]:
        """Wrap a launch so that it runs in this device's context and driver errors become `LaunchError`."""
        run, error = self.within(queue), self._cuda.Error

        def launch() -> None:
            try:
                run()
            except error as failure:
                raise self.failure(failure) from None

        return launch

    def synchronize(self) -> None:
        with self._mapped():
            self._stream.synchronize()

    def reset_persisting_l2(self) -> None:
        """Reset all persisting L2 lines to normal; a GPU before `FIRST_PERSISTING_L2` has no persisting lines."""
        from cuda.bindings import driver

        if int(self.target.name.removeprefix("sm_")) >= FIRST_PERSISTING_L2:
            with self._mapped():
                check_cuda(driver.cuCtxResetPersistingL2Cache(), self.failure)

    def flush(self) -> None:
        if self._scratch is None:
            self._scratch = self.allocate(2 * self.l2_bytes)
        self.fill(self._scratch, 0)

    def time_events(
        self, launch: Callable[[], None], count: int, before: Callable[[], None] | None = None
    ) -> NDArray[np.float64]:
        with self._mapped():
            return self._timer.events(launch, count, before)

    def time_graph(self, launch: Callable[[], None], launches: int, replays: int) -> NDArray[np.float64]:
        with self._mapped():
            return self._timer.graph(launch, launches, replays)

    def time_host(
        self, launch: Callable[[], None], count: int, before: Callable[[], None] | None = None
    ) -> NDArray[np.float64]:
        return time_host(launch, count, self.synchronize, before)

    def time_stages(
        self, stages: Sequence[Callable[[], None]], count: int, before: Callable[[], None] | None = None
    ) -> NDArray[np.float64]:
        with self._mapped():
            return self._timer.stages(stages, count, before)

    def keep_busy(self, launch: Callable[[], None], launches: int, goes_on: Callable[[], bool]) -> tuple[int, float]:
        with self._mapped():
            return self._timer.keep_busy(launch, launches, goes_on)

    def joules(self) -> float | None:
        return self.monitor.joules()

    def clocks(self) -> tuple[float | None, str | None]:
        return self.monitor.clocks()

    def use_common(self, program: Program) -> None:
        if may_block(os.environ):
            kernel = program.kernel("block_stream")
            with self.current():
                self._timer.blocker = Blocker(self._cuda, kernel, self._stream, *BLOCKED_SECONDS)

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        atexit.unregister(self.close)
        if self._guest:
            self._context.push()  # PyCUDA detaches a context correctly only if it is current
        while self._at_close:
            self._at_close.pop()()
        if self._scratch is not None:
            self._scratch.release()
        self._memory.close()
        if self._ordered is not None:
            self._ordered.close()
        self._timer.close()
        self._side_streams.close()
        self._context.detach()  # PyCUDA's destructor does not release a primary context
        if not self._guest:
            CudaDevice._resident = None
            self._current.device = None

    def _mapped(self) -> AbstractContextManager[None]:
        """Run the body with this device's context current and convert the driver's errors."""
        return _DriverCall(self, self._cuda)

    def failure(self, error: object) -> LaunchError:
        return LaunchError(str(error), sticky=self._is_lost())

    def _is_lost(self) -> bool:
        """Return whether the context is lost: after an illegal memory access, every CUDA call fails."""
        try:
            with self.current():
                self._stream.is_done()
        except self._cuda.Error:
            return True
        return False


class _DriverCall(AbstractContextManager[None]):
    """The context manager of `CudaDevice._mapped`; a generator would cost a microsecond more, in each of many calls."""

    __slots__ = ("_cuda", "_current", "_device")

    def __init__(self, device: CudaDevice, cuda: Any) -> None:
        self._device, self._cuda, self._current = device, cuda, device.current()

    def __enter__(self) -> None:
        self._current.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        self._current.__exit__(kind, error, trace)
        if isinstance(error, self._cuda.MemoryError):
            raise OutOfDeviceMemory(str(error)) from None
        if isinstance(error, self._cuda.Error):
            raise self._device.failure(error) from None


def _uuid(ordinal: int) -> str:
    from cuda.bindings import driver

    _, gpu = driver.cuDeviceGet(ordinal)
    _, uuid = driver.cuDeviceGetUuid(gpu)
    return f"GPU-{UUID(bytes=bytes(uuid.bytes))}"


def open_cuda(ordinal: int) -> CudaDevice:
    """Open a GPU by its number in PCI order. Raise `ReproError` if packages, the driver, the GPU or its target are
    missing.
    """
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # number GPUs as NVML and `find_gpus` do
    # With lazy loading, the first launch of a kernel waits for the device and would deadlock behind a blocked stream.
    os.environ.setdefault("CUDA_MODULE_LOADING", "EAGER")
    where = f"device: cuda:{ordinal}"
    try:
        import_module("cuda.bindings.driver")
        try:
            cuda: Any = import_module("pycuda.driver")
        except ModuleNotFoundError:
            cuda = import_module("repro.devices.bindings_driver")
    except ModuleNotFoundError as error:
        raise ReproError(
            "the packages for NVIDIA GPUs are not installed", where=where, actual=error, todo=install("cuda")
        ) from None
    except ImportError as error:
        raise DeviceError(
            "PyCUDA cannot be loaded",
            where=where,
            actual=error,
            remedy="install NVIDIA's driver (`nvidia-smi` must work)",
            fallback=("opencl", "runs on the CPU"),
        ) from None
    try:
        cuda.init()
        count = cuda.Device.count()
    except cuda.Error as error:
        raise DeviceError(
            "no usable NVIDIA GPU",
            where=where,
            actual=error,
            remedy="check that `nvidia-smi` lists it and that CUDA_VISIBLE_DEVICES does not hide it",
            fallback=("opencl", "runs on the CPU"),
        ) from None
    if not 0 <= ordinal < count:
        raise ReproError("no such GPU", where=where, expected=f"cuda:0 to cuda:{count - 1}", actual=f"cuda:{ordinal}")
    try:
        return CudaDevice(cuda, ordinal)
    except cuda.Error as error:
        raise ReproError(
            "the GPU cannot be opened",
            where=where,
            actual=error,
            todo="check with `nvidia-smi` whether another process uses it exclusively or fills its memory",
        ) from None
