"""An NVIDIA GPU, driven by PyCUDA on the primary context, which cuSPARSE and CUDA graphs share.

It has two clocks: events around single launches, and replays of a graph. A blocker holds the stream back while the
host fills its queue, so that events measure no gaps between launches.
"""

from __future__ import annotations

import atexit
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

from repro.codegen.targets import get_target
from repro.devices.base import Argument, Buffer, Captured, Launch, LaunchError, OutOfDeviceMemory, Program, time_host
from repro.devices.cuda_driver import (
    CudaBuffer,
    CudaQueue,
    Memory,
    SideStreams,
    bind_launch,
    check_cuda,
    cusparse_version,
    dotted,
    package_version,
    pointer_of,
    runtime_version,
    share,
)
from repro.devices.locks import exclusive_use
from repro.devices.nvml import Monitor
from repro.errors import ReproError
from repro.package_data import install

#: A blocked stream is a deadlock under tools that wait for each launch: Nsight Compute and Systems, compute-sanitizer.
_TOOLS = ("CUDA_INJECTION64_PATH", "NV_COMPUTE_PROFILER_", "NV_NSIGHT_", "NV_SANITIZER_", "NV_TPS_", "NSYS_")
_TOOL_LIBRARIES = ("TreeLauncher", "sanitizer", "ToolsInjection")


def may_block(environment: Mapping[str, str]) -> bool:
    """Say whether a stream may be blocked in a process with these environment variables.

    Not with `REPRO_BLOCKING=0`, not with `CUDA_LAUNCH_BLOCKING=1`, not under a profiler or a sanitizer.
    """
    if environment.get("REPRO_BLOCKING") == "0" or environment.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"):
        return False
    preloaded = environment.get("LD_PRELOAD", "")
    return not any(name.startswith(_TOOLS) for name in environment) and not any(
        library in preloaded for library in _TOOL_LIBRARIES
    )


class Blocker:
    """A kernel that waits for a word in the host's memory to be set.

    Parameters
    ----------
    cuda
        `pycuda.driver`.
    kernel
        `block_stream` of the common module.
    stream
        The stream to block.
    timeout, short
        Seconds after which the kernel gives up, and where it is held for a short time only. It then sets a second word,
        and what was timed behind it counts for nothing.
    """

    def __init__(self, cuda: Any, kernel: Any, stream: Any, timeout: float, short: float) -> None:
        self._words = cuda.pagelocked_zeros(2, np.int32, mem_flags=cuda.host_alloc_flags.DEVICEMAP)
        address = np.uintp(self._words.base.get_device_pointer())
        self._launch, self._launch_short = (
            bind_launch(kernel, 1, 1, stream, [address, np.int64(seconds * 1e9)]) for seconds in (timeout, short)
        )

    @contextmanager
    def block(self, short: bool = False) -> Iterator[None]:
        """Block the stream for as long as the body runs; the stream must be idle before."""
        self._words[:] = 0
        (self._launch_short if short else self._launch)()
        try:
            yield
        finally:
            self._words[0] = 1

    @property
    def expired(self) -> bool:
        """Whether the kernel gave up waiting; to be asked once the stream is idle again."""
        return bool(self._words[1])


#: Timed launches that are queued at a time. A group is two events, a launch of at most a few operations, and a flush. A
#: GPU fetches only the first few dozen operations of its queue ahead; the next ones it fetches while they are timed. On
#: an H200 an empty kernel reads 2.69 µs by events with up to 8 groups, as by NVBench, which queues one at a time, but
#: 3.17 µs with 30 and 3.39 µs with 100, and scatters more. Eight or four take the host no longer than a hundred do.
GROUPS = 4
#: Launches of all graphs that are queued at a time, for the same reason; a launch is a node or, with a counter to
#: reset, two.
GRAPH_NODES = 100


class Timer:
    """Times launches on one stream.

    Parameters
    ----------
    cuda
        `pycuda.driver`.
    stream
        What is timed on.
    synchronize
        Waits for the stream; raises `LaunchError`.
    failure
        Makes an error of what the driver calls it.
    """

    def __init__(
        self, cuda: Any, stream: Any, synchronize: Callable[[], None], failure: Callable[[str], Exception]
    ) -> None:
        self._cuda = cuda
        self._stream = stream
        self._synchronize = synchronize
        self._failure = failure
        self._events: list[tuple[Any, Any]] = []
        # how many of a launch fit into the queue of a blocked stream: to find out takes until the blocker gives up
        self._fitting: WeakKeyDictionary[Callable[[], None], int] = WeakKeyDictionary()
        self.blocker: Blocker | None = None

    def events(
        self, launch: Callable[[], None], count: int, before: Callable[[], None] | None = None
    ) -> NDArray[np.float64]:
        """Time single launches, each between two events; `before` runs ahead of the first of them. Seconds."""
        stream = self._stream

        def group(start: Any, end: Any) -> None:
            if before is not None:
                before()
            start.record(stream)
            launch()
            end.record(stream)

        if before is not None:
            before()
        launch()  # unblocked: whatever a library sets up at its first call may wait for the device
        self._synchronize()
        same = unwrap(launch)
        times, self._fitting[same] = self._time(group, count, self._fitting.get(same, GROUPS))
        return times

    def graph(self, launch: Callable[[], None], launches: int, replays: int) -> NDArray[np.float64]:
        """Time replays of a graph of launches; seconds per launch.

        Raises
        ------
        CaptureError
            What is launched cannot be captured.
        """
        from repro.devices.cuda_graph import Graph  # NVIDIA's bindings are an extra

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

    def stages(
        self, stages: Sequence[Callable[[], None]], count: int, before: Callable[[], None] | None = None
    ) -> NDArray[np.float64]:
        """Time stages of launches, each between two events; seconds, `(count, len(stages))`.

        The stream is not blocked: a stage may wait for it, to read a size back, which would never end.
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

    def _time(self, group: Callable[[Any, Any], None], count: int, batch: int) -> tuple[NDArray[np.float64], int]:
        """Time groups, up to `batch` of them queued while the stream is blocked; fewer if the blocker gives up.

        Returns the times, and how many were queued in the end.
        """
        times = np.empty(count)
        done = 0
        while done < count:
            events = self._some_events(min(batch, count - done))
            # several may be more than the queue holds; then the host waits for the stream, and the stream for the host
            with self.blocker.block(short=batch > 1) if self.blocker else nullcontext():
                for start, end in events:
                    group(start, end)
            self._synchronize()
            if self.blocker and self.blocker.expired:
                if batch == 1:
                    raise LaunchError(
                        "a launch waits for the device, so that the device cannot be kept from starting it; "
                        "under a profiler or debugger set REPRO_BLOCKING=0"
                    )
                batch = max(1, batch // 4)
                continue
            times[done : done + len(events)] = [end.time_since(start) for start, end in events]
            done += len(events)
        return times * 1e-3, batch

    def _some_events(self, count: int) -> list[tuple[Any, Any]]:
        while len(self._events) < count:
            self._events.append((self._cuda.Event(), self._cuda.Event()))
        return self._events[:count]

    def close(self) -> None:
        """Give events and blocker back."""
        self._events.clear()
        self.blocker = None


#: Seconds that a blocked stream waits for the host to queue launches, which takes milliseconds: for one, for several.
BLOCKED_SECONDS = 1.0, 0.1
#: The first compute capability, times ten, whose L2 keeps what loads ask it to.
FIRST_TO_KEEP = 80
P = ParamSpec("P")
T = TypeVar("T")


class CudaProgram:
    """A loaded module.

    Parameters
    ----------
    get
        Returns the module's kernel of a name, for launches with so many bytes of shared memory.
    failure
        What that raises.
    """

    def __init__(self, get: Callable[[str, int], Any], failure: type[Exception]) -> None:
        self._get = get
        self._failure = failure

    def kernel(self, name: str, shared: int = 0) -> Any:
        """Return the kernel of that name."""
        try:
            return self._get(name, shared)
        except self._failure as error:
            raise LaunchError(f"no kernel {name} in the module: {error}") from None


class CudaDevice:
    """One GPU as a `Device`: one stream of its own, on which everything is queued.

    Made by `repro.devices.cuda.open_cuda`. The context of the resident, the first device that the main thread
    opens, is current there between calls; in another thread its launches are for the body of `current()`. Any other
    device, a guest, makes its own current for each call, where a launch of the resident would find the wrong one: of
    several, time by the first. No other thread keeps one current: PyCUDA aborts the process when such a thread ends.

    Parameters
    ----------
    cuda
        `pycuda.driver`, initialised.
    ordinal
        Which GPU.

    Attributes
    ----------
    ordinal
        Which GPU, as the driver counts them.
    monitor
        The GPU as NVML sees it.
    """

    backend = "cuda"
    _resident: ClassVar[CudaDevice | None] = None
    _current: ClassVar[threading.local] = threading.local()  # its `device`: whose context is the thread's own

    def __init__(self, cuda: Any, ordinal: int) -> None:
        self._cuda, self.ordinal = cuda, ordinal
        gpu = cuda.Device(ordinal)
        attribute = cuda.device_attribute
        major, minor = gpu.compute_capability()
        self.target = get_target(f"sm_{major}{minor}")
        self.name: str = gpu.name()
        self.uuid = _uuid(ordinal)
        self.n_s: int = gpu.get_attribute(attribute.MULTIPROCESSOR_COUNT)
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
        atexit.register(self.close)  # PyCUDA aborts a process that ends with a context in use
        with self.current():
            self._stream = cuda.Stream()
        self._memory = Memory(cuda, self._activated)
        self._scratch: CudaBuffer | None = None
        self._side_streams = SideStreams(cuda, self._stream)
        self._memset = self.within(cuda.memset_d8_async)
        self._timer = Timer(cuda, self._stream, self.synchronize, self.failure)

    @property
    def stream(self) -> int:
        """The handle of the stream, for a library that queues its own kernels."""
        return int(self._stream.handle)

    def current(self) -> AbstractContextManager[object]:
        """Keep other threads from the device, and make its context the thread's current one."""
        return self.exclusive if self._is_current() else self._taken()

    def _is_current(self) -> bool:
        return getattr(self._current, "device", None) is self

    @contextmanager
    def _taken(self) -> Iterator[None]:
        with self.exclusive, self._activated():
            yield

    @contextmanager
    def _activated(self) -> Iterator[None]:
        """Make the context the thread's current one, whoever works with the device: for what need not wait."""
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
        """Return the function, to run with this device's context current: as it is where that always is so."""
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

    def new_queue(self) -> CudaQueue:
        """Return a stream of its own."""
        return CudaQueue(self.name, self._cuda, self._context, self.failure)

    def environment(self) -> dict[str, Any]:
        """Describe GPU, driver, its settings, and the libraries between it and Python."""
        api = dotted(self._cuda.get_driver_version())
        settings = self.monitor.settings()
        return {
            "device": self.name,
            "backend": self.backend,
            "target": self.target.name,
            "multiprocessors": self.n_s,
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
        """Return the other processes that compute on the GPU, a line each, but for those that do nothing there."""
        return self.monitor.other_processes(idle)

    def free_bytes(self) -> int:
        """Return the free memory."""
        with self._mapped():
            return self._memory.free_bytes()

    def load(self, binary: Path) -> Program:
        """Load a compiled module."""
        with self._mapped():
            module = self._cuda.module_from_file(str(binary))

        def get(name: str, shared: int) -> Any:
            kernel = module.get_function(name)
            return share(self._cuda, kernel, shared) if shared else kernel

        return CudaProgram(self.within(get), self._cuda.Error)

    def upload(self, array: NDArray[Any]) -> CudaBuffer:
        """Copy a host array to new memory."""
        buffer = self.allocate(array.nbytes)
        if array.nbytes:
            with self._mapped():
                self._cuda.memcpy_htod(buffer.pointer, np.ascontiguousarray(array))
        return buffer

    def write(self, buffer: Buffer, array: NDArray[Any]) -> None:
        """Wait for the stream, then copy a host array to the start of a buffer."""
        self.synchronize()
        with self._mapped():
            self._cuda.memcpy_htod(pointer_of(buffer), np.ascontiguousarray(array))

    def allocate(self, nbytes: int) -> CudaBuffer:
        """Return new memory, aligned to 256 bytes."""
        with self._mapped():
            return self._memory.allocate(int(nbytes))

    def pooling(self) -> AbstractContextManager[None]:
        """Take memory in the body from a pool, which keeps what is given back."""
        return self._memory.pooling()

    def pool_growth(self, run: Callable[[], object]) -> int:
        """Return the most memory that something takes from the pool at once."""
        return self._memory.growth(run)

    def part(self, buffer: Buffer, offset: int, nbytes: int) -> CudaBuffer:
        """Return some bytes of a buffer as one of their own."""
        return CudaBuffer(pointer_of(buffer) + offset, nbytes)

    def download(self, buffer: Buffer, array: NDArray[Any]) -> None:
        """Wait for the stream, then copy the first bytes of a buffer into a host array."""
        self.synchronize()
        with self._mapped():
            self._cuda.memcpy_dtoh(array, pointer_of(buffer))

    def fill(self, buffer: Buffer, byte: int) -> None:
        """Set every byte."""
        try:
            self._memset(pointer_of(buffer), byte, buffer.nbytes, self._stream)
        except self._cuda.Error as error:
            raise self.failure(error) from None

    def bind(self, kernel: Any, grid: int, block: int, arguments: Sequence[Argument]) -> Callable[[], None]:
        """Return what queues one launch."""
        return self._guarded(bind_launch(kernel, grid, block, self._stream, arguments))

    def bind_concurrent(self, launches: Sequence[Launch]) -> Callable[[], None]:
        """Return what queues several launches, each on a stream of its own."""
        with self._mapped():
            streams = self._side_streams.take(len(launches))
        runs = [
            bind_launch(kernel, grid, block, stream, arguments)
            for stream, (kernel, grid, block, arguments) in zip(streams, launches, strict=True)
        ]
        return self._guarded(self._side_streams.side_by_side(runs))

    def capture(self, launch: Callable[[], None]) -> Captured:
        """Return what a launch queues as a graph."""
        from repro.devices.cuda_graph import Graph  # NVIDIA's bindings are an extra

        with self._mapped():
            graph = Graph(int(self._stream.handle), launch, 1, self.failure)

        def release() -> None:
            with self._activated():
                graph.close()

        return Captured(self.within(graph.replay), release)

    def _guarded(self, queue: Callable[[], None]) -> Callable[[], None]:
        """Return what queues with this device's context current, errors of the driver turned into ours."""
        run, error = self.within(queue), self._cuda.Error

        def launch() -> None:
            try:
                run()
            except error as problem:
                raise self.failure(problem) from None

        return launch

    def synchronize(self) -> None:
        """Wait for the stream."""
        with self._mapped():
            self._stream.synchronize()

    def reset_kept(self) -> None:
        """Give all lines of L2 the usual priority; before the first GPUs that can keep some there is nothing to do."""
        from cuda.bindings import driver

        if int(self.target.name.removeprefix("sm_")) >= FIRST_TO_KEEP:
            with self._mapped():
                check_cuda(driver.cuCtxResetPersistingL2Cache(), self.failure)

    def flush(self) -> None:
        """Overwrite twice the L2 cache."""
        if self._scratch is None:
            self._scratch = self.allocate(2 * self.l2_bytes)
        self.fill(self._scratch, 0)

    def time_events(
        self, launch: Callable[[], None], count: int, before: Callable[[], None] | None = None
    ) -> NDArray[np.float64]:
        """Time single launches, queued while the stream is blocked, each between two events; seconds, `(count,)`."""
        with self._mapped():
            return self._timer.events(launch, count, before)

    def time_graph(self, launch: Callable[[], None], launches: int, replays: int) -> NDArray[np.float64]:
        """Time replays of a graph of launches; seconds per launch, `(replays,)`."""
        with self._mapped():
            return self._timer.graph(launch, launches, replays)

    def time_host(
        self, launch: Callable[[], None], count: int, before: Callable[[], None] | None = None
    ) -> NDArray[np.float64]:
        """Time launches by the host's clock, from an idle stream to an idle stream; seconds, `(count,)`."""
        return time_host(launch, count, self.synchronize, before)

    def time_stages(
        self, stages: Sequence[Callable[[], None]], count: int, before: Callable[[], None] | None = None
    ) -> NDArray[np.float64]:
        """Time stages by events between them, the stream not blocked; seconds, `(count, len(stages))`."""
        with self._mapped():
            return self._timer.stages(stages, count, before)

    def clocks(self) -> tuple[float | None, str | None]:
        """Return the SM clock in MHz, and why it is held down."""
        return self.monitor.clocks()

    def use_common(self, program: Program) -> None:
        """Take the kernel that blocks the stream while launches are queued to be timed."""
        if may_block(os.environ):
            kernel = program.kernel("block_stream")
            with self.current():
                self._timer.blocker = Blocker(self._cuda, kernel, self._stream, *BLOCKED_SECONDS)

    def close(self) -> None:
        """Give everything back; a second time does nothing."""
        if not self._open:
            return
        self._open = False
        atexit.unregister(self.close)
        if self._guest:
            self._context.push()  # PyCUDA leaves a context on the driver's stack if it is not current when detached
        if self._scratch is not None:
            self._scratch.release()
        self._memory.close()
        self._timer.close()
        self._side_streams.close()
        self._context.detach()  # not left to its destructor, which would detach what is no primary context
        if not self._guest:
            CudaDevice._resident = None
            self._current.device = None

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        """Run the body with this device's context; turn an error of PyCUDA that leaves it into ours."""
        try:
            with self.current():
                yield
        except self._cuda.MemoryError as error:
            raise OutOfDeviceMemory(str(error)) from None
        except self._cuda.Error as error:
            raise self.failure(error) from None

    def failure(self, error: object) -> LaunchError:
        """Return an error of the driver as ours, which says whether the context is lost with it."""
        return LaunchError(str(error), sticky=self._lost())

    def _lost(self) -> bool:
        """Say whether the context is beyond use: after an illegal address, every call fails with the same error."""
        try:
            with self.current():
                self._stream.is_done()
        except self._cuda.Error:
            return True
        return False


def _uuid(ordinal: int) -> str:
    """Return the UUID as `nvidia-smi` spells it."""
    from cuda.bindings import driver

    _, gpu = driver.cuDeviceGet(ordinal)
    _, uuid = driver.cuDeviceGetUuid(gpu)
    return f"GPU-{UUID(bytes=bytes(uuid.bytes))}"


def open_cuda(ordinal: int) -> CudaDevice:
    """Open a GPU, numbered in the order of the PCI addresses.

    Raises
    ------
    ReproError
        PyCUDA, the driver or the GPU is not there, or its generation is not in the table of targets.
    """
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # NVML's order, so that `find_gpus` means the same
    # a kernel that is loaded at its first launch waits for the device, which a blocked stream never lets finish
    os.environ.setdefault("CUDA_MODULE_LOADING", "EAGER")
    where = f"device: cuda:{ordinal}"
    try:
        import_module("cuda.bindings.driver")
        cuda: Any = import_module("pycuda.driver")
    except ModuleNotFoundError as error:
        raise ReproError(
            "the packages for NVIDIA GPUs are not installed", where=where, actual=error, todo=install("cuda")
        ) from None
    except ImportError as error:
        raise ReproError(
            "PyCUDA cannot be loaded",
            where=where,
            actual=error,
            todo="install NVIDIA's driver (`nvidia-smi` must work); `device: opencl` runs on the CPU",
        ) from None
    try:
        cuda.init()
        count = cuda.Device.count()
    except cuda.Error as error:
        raise ReproError(
            "no NVIDIA GPU can be used",
            where=where,
            actual=error,
            todo="`nvidia-smi` must list it, CUDA_VISIBLE_DEVICES must not hide it; `device: opencl` runs on the CPU",
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
            todo="see with `nvidia-smi` whether another process has it to itself or has filled its memory",
        ) from None
