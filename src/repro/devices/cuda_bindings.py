"""Launches through NVIDIA's own Python bindings, which are optional.

They provide what PyCUDA lacks: CUDA graphs, cooperative launches, launches that start before the previous one has
ended, launches on a stream of the caller, and stream-ordered memory. The bindings do not accept PyCUDA's handles, so
they load modules a second time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from cuda.bindings import driver

from repro.devices.base import ADDRESS, Argument, CaptureError, LaunchError, OutOfDeviceMemory
from repro.devices.cuda_driver import check_cuda, pack_arguments

#: Bytes of an address.
_WORD = 8
_SUCCESS = driver.CUresult.CUDA_SUCCESS
#: Bytes of free memory that the driver's pool keeps at a synchronization: all of them.
_ALL_BYTES = (1 << 64) - 1
#: Function that wraps a launch.
Within = Callable[[Callable[[], None]], Callable[[], None]]


class BindingsModule:
    """A module loaded by the bindings, in addition to PyCUDA's copy; its context must be current.

    Launches are queued on a stream. `within` wraps a launch so that it runs with the GPU's context current. In methods,
    `block` is the number of threads per block, and `shared` the bytes of dynamic shared memory per block.
    """

    def __init__(self, binary: Path, stream: int, within: Within, failure: Callable[[str], Exception]) -> None:
        self._stream, self._within, self._failure = stream, within, failure
        self._module = check_cuda(driver.cuModuleLoad(str(binary).encode()), failure)

    def cooperative(self, name: str, block: int, shared: int, sm_count: int) -> CudaCooperativeKernel:
        """Return a cooperative kernel, whose blocks wait for each other, for a GPU with `sm_count` multiprocessors."""
        function = self._function(name, shared)
        occupancy = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, block, shared)
        resident = int(check_cuda(occupancy, self._failure)) * sm_count
        return CudaCooperativeKernel(function, block, shared, resident, self._stream, self._within, self._failure)

    def bind_dependent(
        self, name: str, grid: int, block: int, shared: int, arguments: Sequence[Argument]
    ) -> Callable[[], None]:
        """Return a function that queues a dependent launch (CUDA's programmatic stream serialization).

        The driver starts it when every block of the stream's previous launch has either ended or permitted the start.

        A chain y = A x, z = A y, y = A z, … in two buffers is safe, although launch i + 1 may start while launch i
        runs. A launch reads its x and writes its y only after it has waited for the end of the previous launch. The
        previous launch has waited for its own predecessor, so all earlier launches have ended too, and their writes are
        visible. Hence no earlier launch still reads the buffer that is overwritten, even if a launch permits the next
        start before its own wait.
        """
        function, failure = self._function(name, shared), self._failure
        values, pointers = _pack(arguments)
        address = ctypes.addressof(pointers)
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attribute.value.programmaticStreamSerializationAllowed = 1
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = grid, 1, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = block, 1, 1
        config.sharedMemBytes, config.hStream = shared, driver.CUstream(self._stream)
        config.attrs, config.numAttrs = [attribute], 1

        # the default argument keeps the buffers, the argument values and the pointers to them alive
        def launch(held: tuple[Any, ...] = (arguments, values, pointers)) -> None:
            check_cuda(driver.cuLaunchKernelEx(config, function, address, 0), failure)

        return self._within(launch)

    def bind_call(self, name: str, grid: int, block: int, shared: int, arguments: Sequence[Argument]) -> StreamLaunch:
        """Return a launch on any stream; the addresses of its `ADDRESS` arguments are given with each call."""
        context = check_cuda(driver.cuCtxGetCurrent(), self._failure)
        return StreamLaunch(self._function(name, shared), grid, block, shared, arguments, context, self._failure, self)

    def _function(self, name: str, shared: int) -> Any:
        function = check_cuda(driver.cuModuleGetFunction(self._module, name.encode()), self._failure)
        allowance = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        if shared > check_cuda(driver.cuFuncGetAttribute(allowance, function), self._failure):
            check_cuda(driver.cuFuncSetAttribute(function, allowance, shared), self._failure)
        return function


class StreamLaunch:
    """A launch of one kernel on any stream of its GPU; implements `Call`.

    A call writes its addresses into arguments that were packed once, and is one call of the driver: it records no
    event, waits for no stream, and can be captured into a CUDA graph.


    `arguments` contain `ADDRESS` once for each address that a call gives, in the same order. The kernel is `function`
    of a module that the bindings loaded into `context`; `owner` keeps that module alive.
    """

    __slots__ = ("_block", "_closed", "_context", "_failure", "_function", "_grid", "_held", "_lock", "_places",
                 "_pointers", "_shared", "_words")  # fmt: skip

    def __init__(
        self,
        function: Any,
        grid: int,
        block: int,
        shared: int,
        arguments: Sequence[Argument],
        context: Any,
        failure: Callable[[str], Exception],
        owner: object = None,
    ) -> None:
        values, pointers = _pack(arguments)
        begin = ctypes.addressof(values)
        self._words = (ctypes.c_uint64 * (len(values) // _WORD)).from_buffer(values)
        self._places = [
            (int(pointer) - begin) // _WORD
            for pointer, argument in zip(pointers, arguments, strict=True)
            if argument is ADDRESS
        ]
        self._pointers = ctypes.addressof(pointers)
        self._held: tuple[object, ...] = (arguments, pointers, owner)
        self._function, self._grid, self._block, self._shared = function, int(grid), int(block), int(shared)
        self._context, self._failure = context, failure
        self._lock, self._closed = Lock(), False

    def __call__(self, stream: int, *addresses: int) -> None:
        with self._lock:  # the driver copies the arguments within the call
            for place, address in zip(self._places, addresses, strict=True):
                self._words[place] = address
            if self._closed:
                raise LaunchError("the memory of the kernel's arguments was freed")
            status = driver.cuLaunchKernel(
                self._function, self._grid, 1, 1, self._block, 1, 1, self._shared, stream, self._pointers, 0
            )[0]
            if status is not _SUCCESS:
                self._launch_in_context(stream)

    def _launch_in_context(self, stream: int) -> None:
        """Launch again with the GPU's own context, as a thread may have none, or that of another GPU."""
        check_cuda(driver.cuCtxPushCurrent(self._context), self._failure)
        try:
            launched = driver.cuLaunchKernel(
                self._function, self._grid, 1, 1, self._block, 1, 1, self._shared, stream, self._pointers, 0
            )
        finally:
            driver.cuCtxPopCurrent()
        check_cuda(launched, self._failure)

    def close(self) -> None:
        """Refuse further calls; no call of another thread is under way when this returns."""
        with self._lock:
            self._closed, self._held = True, ()


class CudaCooperativeKernel:
    """Implements `CooperativeKernel` on one stream."""

    def __init__(
        self, function: Any, block: int, shared: int, resident: int, stream: int, within: Within,
        failure: Callable[[str], Exception],
    ) -> None:  # fmt: skip
        self._function, self._block, self._shared = function, block, shared
        self._resident, self._within = resident, within
        self._stream, self._failure = driver.CUstream(stream), failure

    @property
    def resident(self) -> int:
        return self._resident

    def bind(self, grid: int, arguments: Sequence[Argument]) -> Callable[[], None]:
        values, pointers = _pack(arguments)
        function, block, shared = self._function, self._block, self._shared
        stream, failure = self._stream, self._failure
        address = ctypes.addressof(pointers)

        # the default argument keeps the buffers, the argument values and the pointers to them alive
        def launch(referenced: tuple[Any, ...] = (arguments, values, pointers)) -> None:
            check_cuda(
                driver.cuLaunchCooperativeKernel(function, grid, 1, 1, block, 1, 1, shared, stream, address), failure
            )

        return self._within(launch)


def let_wait(waiting_stream: int, awaited_stream: int, failure: Callable[[str], Exception]) -> None:
    """Make one stream wait for all work queued so far on another."""
    event = check_cuda(driver.cuEventCreate(driver.CUevent_flags.CU_EVENT_DISABLE_TIMING), failure)
    check_cuda(driver.cuEventRecord(event, awaited_stream), failure)
    check_cuda(driver.cuStreamWaitEvent(waiting_stream, event, 0), failure)
    check_cuda(driver.cuEventDestroy(event), failure)


def _pack(arguments: Sequence[Argument]) -> tuple[Any, Any]:
    """Return the argument values in C types, and the array of pointers to them that the driver expects."""
    packed, offsets = pack_arguments(arguments)
    values = ctypes.create_string_buffer(packed, -(-len(packed) // _WORD) * _WORD)
    begin = ctypes.addressof(values)
    return values, (ctypes.c_void_p * len(offsets))(*[begin + offset for offset in offsets])


class OrderedBuffer:
    """Memory of the driver's stream-ordered pool, taken and given back in the order of one stream."""

    def __init__(self, pointer: int, nbytes: int, pool: OrderedPool) -> None:
        self.pointer, self.nbytes, self._pool = pointer, nbytes, pool

    def release(self) -> None:
        pool, self._pool = self._pool, None  # type: ignore[assignment]
        if pool is not None:
            pool.give_back(self.pointer)

    def __del__(self) -> None:
        self.release()


class OrderedPool:
    """Stream-ordered memory of one GPU (`cuMemAllocAsync`), for users' arrays; its context must be current.

    Such memory costs a microsecond, where `cuMemAlloc` and `cuMemFree` cost 60 µs each. It is valid for work on
    `stream` and for all work that is ordered after it.
    """

    def __init__(self, stream: int, failure: Callable[[str], Exception]) -> None:
        self._stream, self._failure = driver.CUstream(stream), failure
        self._context = check_cuda(driver.cuCtxGetCurrent(), failure)
        gpu = check_cuda(driver.cuCtxGetDevice(), failure)
        self._pool = check_cuda(driver.cuDeviceGetDefaultMemPool(gpu), failure)
        threshold = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        check_cuda(driver.cuMemPoolSetAttribute(self._pool, threshold, driver.cuuint64_t(_ALL_BYTES)), failure)
        self._open = True

    def allocate(self, nbytes: int) -> OrderedBuffer:
        """Allocate memory; raise `OutOfDeviceMemory` if too little is free."""
        status, pointer = driver.cuMemAllocAsync(max(nbytes, 1), self._stream)
        if status is not _SUCCESS:
            if status.name == "CUDA_ERROR_OUT_OF_MEMORY":
                raise OutOfDeviceMemory(f"{nbytes:,} bytes were asked for")
            raise self._failure(str(status.name))
        return OrderedBuffer(int(pointer), nbytes, self)

    def give_back(self, pointer: int) -> None:
        """Free memory behind the queued work of the stream; any thread may call this."""
        if not self._open:
            return
        driver.cuCtxPushCurrent(self._context)
        driver.cuMemFreeAsync(pointer, self._stream)
        driver.cuCtxPopCurrent()

    def unused_bytes(self) -> int:
        """Return the bytes that the pool holds and nobody uses."""
        attribute = driver.CUmemPool_attribute
        reserved, used = (
            int(check_cuda(driver.cuMemPoolGetAttribute(self._pool, name), self._failure))
            for name in (attribute.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, attribute.CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
        )
        return reserved - used

    def trim(self) -> None:
        """Return all unused memory to the driver."""
        check_cuda(driver.cuMemPoolTrimTo(self._pool, 0), self._failure)

    def close(self) -> None:
        """Free nothing any more: the context takes all memory with it."""
        self._open = False


def has_cooperative_launches(ordinal: int, failure: Callable[[str], Exception]) -> bool:
    attribute = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH
    gpu = check_cuda(driver.cuDeviceGet(ordinal), failure)
    return bool(check_cuda(driver.cuDeviceGetAttribute(attribute, gpu), failure))


class Graph:
    """An executable graph of `count` launches, captured from a stream other than the default stream.

    Raises `CaptureError`: something in `launch` cannot be captured, or the device has no memory for the graph.
    """

    def __init__(
        self, stream: int, launch: Callable[[], None], count: int, failure: Callable[[str], Exception]
    ) -> None:
        self._stream = driver.CUstream(stream)
        self._failure = failure
        graph = _capture(self._stream, launch, count)
        try:
            self._executable = check_cuda(driver.cuGraphInstantiate(graph, 0), CaptureError)
        finally:
            driver.cuGraphDestroy(graph)
        try:
            # Upload the graph now: if a full device has no memory for it, only the graph fails, not the single
            # launches.
            check_cuda(
                driver.cuGraphUpload(self._executable, self._stream),
                lambda name: CaptureError(name) if name == "CUDA_ERROR_OUT_OF_MEMORY" else failure(name),
            )
        except BaseException:
            self.close()
            raise

    def replay(self) -> None:
        check_cuda(driver.cuGraphLaunch(self._executable, self._stream), self._failure)

    def close(self) -> None:
        """Free the graph; no queued replay may use it."""
        driver.cuGraphExecDestroy(self._executable)


def _capture(stream: Any, launch: Callable[[], None], count: int) -> Any:
    # Capture only calls of this thread; calls that a graph cannot contain are errors.
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    check_cuda(driver.cuStreamBeginCapture(stream, mode), CaptureError)
    try:
        for _ in range(count):
            launch()
    except BaseException as error:
        _, graph = driver.cuStreamEndCapture(stream)
        if graph is not None and int(graph):
            driver.cuGraphDestroy(graph)
        if isinstance(error, Exception):
            raise CaptureError(str(error)) from error
        raise
    return check_cuda(driver.cuStreamEndCapture(stream), CaptureError)
