"""What a GPU's backend takes from the driver: checked answers, versions, memory, launches, and streams.

A buffer is an allocation or a part of one; memory comes from the driver, or from a pool that keeps what is freed. A
launch packs its arguments once. Beside its own stream a GPU has side streams, for kernels that run at the same time,
and queues that wait for no other stream.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.devices.base import Argument, Buffer, LaunchError
from repro.devices.locks import exclusive_use


def check_cuda(answer: tuple[Any, ...], failure: Callable[[str], Exception]) -> Any:
    """Return what a call of the driver gives beside its error code; None where that is all.

    Raises
    ------
    Exception
        The code is not that of success: what `failure` makes of its name.
    """
    error, *values = answer
    if int(error):
        raise failure(str(error.name))
    return values[0] if values else None


def dotted(number: int) -> str:
    """Write a version as CUDA counts it: 12080 is 12.8."""
    return f"{number // 1000}.{number % 1000 // 10}"


def package_version(name: str) -> str | None:
    """Return the version of an installed package."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def runtime_version() -> str | None:
    """Return the version of CUDA's runtime."""
    from cuda.bindings import runtime

    _, number = runtime.cudaRuntimeGetVersion()
    return None if number is None else dotted(number)


def cusparse_version() -> str | None:
    """Return the version of the library that nvmath-python finds; None without it."""
    with suppress(Exception):  # not installed, or a library that does not load: the baselines say which
        from nvmath.bindings import cusparse

        return ".".join(str(cusparse.get_property(part)) for part in range(3))
    return None


class CudaBuffer:
    """Memory on the GPU.

    Parameters
    ----------
    allocation
        PyCUDA's own, or the address of what belongs to another buffer.
    nbytes
        Its size.
    activated
        Makes the context that it belongs to the thread's current one.

    Attributes
    ----------
    pointer
        Its address.
    """

    def __init__(
        self, allocation: Any, nbytes: int, activated: Callable[[], AbstractContextManager[object]] = nullcontext
    ) -> None:
        self._allocation = None if isinstance(allocation, int) else allocation
        self._nbytes, self._activated = nbytes, activated
        self.pointer = int(allocation)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self._nbytes

    def release(self) -> None:
        """Give the memory back; what belongs to another buffer stays that one's."""
        allocation, self._allocation = self._allocation, None
        if allocation is not None:
            with self._activated():
                allocation.free()

    def __del__(self) -> None:
        # PyCUDA itself gives nothing back, without a word, in a thread that has another context than the memory's
        with suppress(Exception):  # of a context that is gone the memory is as well
            self.release()


class Memory:
    """Where a GPU's buffers come from. The GPU's context has to be the current one.

    The driver may take longer to find new memory than a kernel to use it, and waits for all kernels before it takes any
    back; the pool, PyCUDA's, does neither. Its blocks are for one stream: one that is given back is used anew by what
    is queued later.

    Parameters
    ----------
    cuda
        `pycuda.driver`.
    activated
        Makes the GPU's context the thread's current one.
    """

    def __init__(self, cuda: Any, activated: Callable[[], AbstractContextManager[object]]) -> None:
        self._cuda, self._activated = cuda, activated
        self._pool: Any = None
        self._pooling = False

    @contextmanager
    def pooling(self) -> Iterator[None]:
        """Take memory from the pool in the body."""
        earlier, self._pooling = self._pooling, True
        try:
            yield
        finally:
            self._pooling = earlier

    def growth(self, run: Callable[[], object]) -> int:
        """Return by how many bytes the pool grows when something is run, with nothing that it kept from before."""
        with self.pooling():
            self._take(1).free()
            self._pool.free_held()
            before = int(self._pool.managed_bytes)
            run()
            return int(self._pool.managed_bytes) - before

    def allocate(self, nbytes: int) -> CudaBuffer:
        """Return new memory, aligned to 256 bytes; what the pool keeps is given up where it does not suffice."""
        return CudaBuffer(self._take(max(nbytes, 1)), nbytes, self._activated)

    def _take(self, nbytes: int) -> Any:
        if self._pooling:
            if self._pool is None:
                from pycuda.tools import DeviceMemoryPool

                self._pool = DeviceMemoryPool()
            return self._pool.allocate(nbytes)
        try:
            return self._cuda.mem_alloc(nbytes)
        except self._cuda.MemoryError:
            if not self._kept_bytes():
                raise
            self._pool.free_held()
            return self._cuda.mem_alloc(nbytes)

    def free_bytes(self) -> int:
        """Return the memory that can be allocated: what the driver has, and what the pool keeps."""
        return int(self._cuda.mem_get_info()[0]) + self._kept_bytes()

    def _kept_bytes(self) -> int:
        return 0 if self._pool is None else int(self._pool.managed_bytes - self._pool.active_bytes)

    def close(self) -> None:
        """Give up what the pool keeps."""
        if self._pool is not None:
            self._pool.stop_holding()


_TYPES = (np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64)
#: How numbers are packed; all else is an address.
_CHARS: dict[type, str] = {int: "i", float: "d", **{kind: np.dtype(kind).char for kind in _TYPES}}
#: The attribute of a kernel that says how much shared memory its launches give to a block.
_SHARED = "given_shared_bytes"


def share(cuda: Any, kernel: Any, nbytes: int) -> Any:
    """Return a kernel whose launches give so many bytes of shared memory to a block, beside what its text declares."""
    # beyond 48 KiB it has to be allowed for each kernel; that is the driver's, which has one of a name in a module, and
    # others who asked for more still launch it
    allowance = cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
    if nbytes > kernel.get_attribute(allowance):
        kernel.set_attribute(allowance, nbytes)
    setattr(kernel, _SHARED, nbytes)
    return kernel


def bind_launch(kernel: Any, grid: int, block: int, stream: Any, arguments: Sequence[Argument]) -> Callable[[], None]:
    """Return what queues one launch, and keeps its buffers until it is dropped.

    PyCUDA's public `prepared_async_call` packs the arguments at every launch, and calls a function of the driver that
    has been deprecated since CUDA 4, so that a launch takes the host about twice as long.
    """
    format, values = "", []
    for argument in arguments:
        char = _CHARS.get(type(argument))
        format += char or "P"
        values.append(argument if char else pointer_of(argument))
    packed = struct.pack(format, *values)
    shared = getattr(kernel, _SHARED, 0)
    queue = partial(kernel._launch_kernel, (int(grid), 1, 1), (int(block), 1, 1), packed, shared, stream)

    def launch(held: Sequence[Argument] = arguments) -> None:  # an address does not keep a buffer alive
        queue()

    return launch


def pointer_of(buffer: Any) -> int:
    """Return the address of a buffer."""
    return int(buffer.pointer)


class SideStreams:
    """Streams that wait for the main one and that the main one waits for, so that a graph captures what is on them.

    Parameters
    ----------
    cuda
        `pycuda.driver`.
    main
        The stream that all else is queued on.
    """

    def __init__(self, cuda: Any, main: Any) -> None:
        self._cuda = cuda
        self._main = main
        self._sides: list[Any] = []
        self._events: list[Any] = []

    def take(self, count: int) -> list[Any]:
        """Return so many streams, the main one first; they are made when they are first asked for."""
        while len(self._events) < max(count, 1):
            self._events.append(self._cuda.Event(self._cuda.event_flags.DISABLE_TIMING))
        while len(self._sides) < count - 1:
            self._sides.append(self._cuda.Stream())
        return [self._main, *self._sides[: count - 1]][:count]

    def side_by_side(self, runs: Sequence[Callable[[], None]]) -> Callable[[], None]:
        """Return what queues runs that were bound to the streams of `take(len(runs))`, each to its own."""
        main, (first, *own), sides = self._main, runs, self._sides[: len(runs) - 1]
        begin, *ends = self._events[: len(runs)]

        def queue() -> None:
            begin.record(main)
            for side, run, end in zip(sides, own, ends, strict=True):
                side.wait_for_event(begin)
                run()
                end.record(side)
            first()
            for end in ends:
                main.wait_for_event(end)

        return queue

    def close(self) -> None:
        """Let go of streams and events."""
        self._sides.clear()
        self._events.clear()


#: CU_STREAM_NON_BLOCKING: the stream and the legacy default one do not wait for each other.
NON_BLOCKING = 1


class CudaQueue:
    """A `Queue` on a GPU whose context need not be current in the thread that uses it.

    Parameters
    ----------
    name
        Of the GPU.
    cuda
        `pycuda.driver`.
    context
        The GPU's.
    failure
        Makes an error of the driver ours.
    """

    def __init__(self, name: str, cuda: Any, context: Any, failure: Callable[[object], LaunchError]) -> None:
        self.name, self._cuda, self._context, self._failure = name, cuda, context, failure
        self.exclusive = exclusive_use(self)
        with self._mapped():
            self._stream = cuda.Stream(NON_BLOCKING)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Keep other threads from the queue, and make the context the thread's current one."""
        with self.exclusive:
            self._context.push()
            try:
                yield
            finally:
                self._cuda.Context.pop()

    def write(self, buffer: Buffer, array: NDArray[Any]) -> None:
        """Copy a host array to the start of a buffer, on this stream: others wait for none of it, nor it for them."""
        with self._mapped():
            self._cuda.memcpy_htod_async(pointer_of(buffer), np.ascontiguousarray(array), self._stream)
            self._stream.synchronize()

    def download(self, buffer: Buffer, array: NDArray[Any]) -> None:
        """Copy the first bytes of a buffer into a host array, on this stream."""
        with self._mapped():
            self._cuda.memcpy_dtoh_async(array, pointer_of(buffer), self._stream)
            self._stream.synchronize()

    def bind(self, kernel: Any, grid: int, block: int, arguments: Sequence[Argument]) -> Callable[[], None]:
        """Return what queues one launch."""
        run = bind_launch(kernel, grid, block, self._stream, arguments)

        def launch() -> None:
            with self._mapped():
                run()

        return launch

    def synchronize(self) -> None:
        """Wait for the stream."""
        with self._mapped():
            self._stream.synchronize()

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        with self.current():
            try:
                yield
            except self._cuda.Error as error:
                raise self._failure(error) from None
