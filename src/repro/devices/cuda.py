"""An NVIDIA GPU, driven by PyCUDA on the primary context, which cuSPARSE and CUDA graphs share."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar, ParamSpec, TypeVar
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from repro.codegen.targets import get_target
from repro.devices.base import Argument, Buffer, Captured, Launch, LaunchError, OutOfDeviceMemory, Program
from repro.devices.cuda_blocker import Blocker, may_block
from repro.devices.cuda_buffer import CudaBuffer
from repro.devices.cuda_driver import value
from repro.devices.cuda_launch import bind_launch, pointer_of, share
from repro.devices.cuda_memory import Memory
from repro.devices.cuda_queue import CudaQueue
from repro.devices.cuda_streams import SideStreams
from repro.devices.cuda_timing import Timer
from repro.devices.cuda_versions import cusparse_version, dotted, package_version, runtime_version
from repro.devices.exclusive import exclusive_use
from repro.devices.host_clock import time_host
from repro.devices.nvml import Monitor

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

    Made by `repro.devices.cuda_open.open_cuda`. The context of the resident, the first device that the main thread
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

    def beside(self) -> CudaQueue:
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
                value(driver.cuCtxResetPersistingL2Cache(), self.failure)

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
