"""Low-level parts of the CUDA backend: checked driver calls, versions, memory, launches and streams.

Device memory comes from the driver or from PyCUDA's pool. Besides its main stream, a GPU has side streams for
concurrent kernels, and queues that are not synchronised with other streams.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache, partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.devices.base import Argument, Buffer, LaunchError
from repro.devices.locks import exclusive_use


def check_cuda(answer: tuple[Any, ...], failure: Callable[[str], Exception]) -> Any:
    """Return the results of a driver call without its error code; on an error, raise `failure(name of the error)`."""
    error, *values = answer
    if int(error):
        raise failure(str(error.name))
    return values[0] if values else None


def dotted(number: int) -> str:
    """Format a CUDA version number: 12080 becomes 12.8."""
    return f"{number // 1000}.{number % 1000 // 10}"


def package_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def runtime_version() -> str | None:
    from cuda.bindings import runtime

    _, number = runtime.cudaRuntimeGetVersion()
    return None if number is None else dotted(number)


def cusparse_version() -> str | None:
    """Return the version of cuSPARSE that nvmath-python loads; None if nvmath-python is missing."""
    with suppress(Exception):  # not installed or not loadable: the baselines report it
        from nvmath.bindings import cusparse

        return ".".join(str(cusparse.get_property(part)) for part in range(3))
    return None


class CudaBuffer:
    """Device memory at the address `pointer`.

    An allocation of PyCUDA out of `memory`, or part of another buffer, which must outlive it.
    """

    def __init__(self, allocation: Any, nbytes: int, memory: Memory | None = None) -> None:
        self._allocation = None if isinstance(allocation, int) else allocation
        self._nbytes, self._memory = nbytes, memory
        self.pointer = int(allocation)

    @property
    def nbytes(self) -> int:
        return self._nbytes

    def release(self) -> None:
        allocation, self._allocation = self._allocation, None
        if allocation is None:
            return
        # The context of a closed device cannot be made current; freeing is then up to PyCUDA alone.
        with self._memory.activated() if self._memory and self._memory.is_open else nullcontext():
            allocation.free()

    def __del__(self) -> None:
        if self._allocation is None:
            return
        # If another context is current in this thread, PyCUDA silently does not free the memory.
        with suppress(Exception):  # a lost context has freed its memory
            self.release()


class Memory:
    """Allocates buffers on a GPU; the context of the GPU must be current.

    Allocating from the driver may take longer than a kernel, and freeing waits for all kernels. PyCUDA's pool avoids
    both, but reuses a freed block at once, so all users of the pool must be on one stream.
    """

    def __init__(self, cuda: Any, activated: Callable[[], AbstractContextManager[object]]) -> None:
        self._cuda, self.activated = cuda, activated
        self.is_open = True
        self._pool: Any = None
        self._pooling = False

    @contextmanager
    def pooling(self) -> Iterator[None]:
        previous_pooling, self._pooling = self._pooling, True
        try:
            yield
        finally:
            self._pooling = previous_pooling

    def growth(self, run: Callable[[], object]) -> int:
        """Empty the pool, run a function, and return by how many bytes the pool has grown."""
        with self.pooling():
            self._take(1).free()
            self._pool.free_held()
            before = int(self._pool.managed_bytes)
            run()
            return int(self._pool.managed_bytes) - before

    def allocate(self, nbytes: int) -> CudaBuffer:
        """Allocate memory aligned to 256 bytes. If too little is free, release unused blocks of the pool and
        try again.
        """
        return CudaBuffer(self._take(max(nbytes, 1)), nbytes, self)

    def _take(self, nbytes: int) -> Any:
        if self._pooling:
            if self._pool is None:
                tools = self._cuda if hasattr(self._cuda, "DeviceMemoryPool") else import_module("pycuda.tools")
                self._pool = tools.DeviceMemoryPool()
            return self._pool.allocate(nbytes)
        try:
            return self._cuda.mem_alloc(nbytes)
        except self._cuda.MemoryError:
            if not self.pooled_bytes():
                raise
            self._pool.free_held()
            return self._cuda.mem_alloc(nbytes)

    def trim(self) -> None:
        """Return the unused blocks of the pool to the driver."""
        if self._pool is not None:
            self._pool.free_held()

    def free_bytes(self) -> int:
        """Return the free bytes of the driver plus the unused bytes of the pool."""
        return int(self._cuda.mem_get_info()[0]) + self.pooled_bytes()

    def pooled_bytes(self) -> int:
        """Return the unused bytes of the pool."""
        return 0 if self._pool is None else int(self._pool.managed_bytes - self._pool.active_bytes)

    def close(self) -> None:
        self.is_open = False
        if self._pool is not None:
            self._pool.stop_holding()


#: From this size on, a copy to page-locked memory saves more time than such memory costs to find.
MIN_PINNED_BYTES = 1 << 15
#: Largest total size of page-locked memory for users' results.
MAX_PINNED_BYTES = 1 << 29


class PinnedPool:
    """Page-locked host memory for results; a block comes back when the last array that lies in it is dropped.

    `allocate` returns a page-locked array of so many bytes, which takes the driver milliseconds.
    """

    def __init__(self, allocate: Callable[[int], NDArray[np.uint8]]) -> None:
        self._allocate, self._lock = allocate, Lock()
        self._free: dict[int, list[NDArray[np.uint8]]] = {}
        self._total = 0

    def take(self, nbytes: int) -> NDArray[np.uint8]:
        """Return at least `nbytes` bytes; ordinary memory once the pool's limit is reached."""
        size = 1 << (nbytes - 1).bit_length()
        with self._lock:
            if free_blocks := self._free.get(size):
                return np.asarray(_PinnedBlock(self, free_blocks.pop()))
            if self._total + size > MAX_PINNED_BYTES:
                return np.empty(nbytes, np.uint8)
            self._total += size
        try:
            block = self._allocate(size)
        except Exception:  # as much page-locked memory is not to be had
            with self._lock:
                self._total -= size
            return np.empty(nbytes, np.uint8)
        return np.asarray(_PinnedBlock(self, block))

    def give_back(self, block: NDArray[np.uint8]) -> None:
        # without the lock, as the garbage collector may call this within `take`; a list's `append` needs none
        self._free.setdefault(block.nbytes, []).append(block)


class _PinnedBlock:
    """The owner of an array's memory, by NumPy's array interface."""

    def __init__(self, pool: PinnedPool, block: NDArray[np.uint8]) -> None:
        self._pool, self._block = pool, block
        self.__array_interface__ = block.__array_interface__

    def __del__(self) -> None:
        self._pool.give_back(self._block)


#: Arrays from this size on are copied to a GPU by way of page-locked memory: in pieces of PIECE_BYTES, which
#: FILLING_THREADS fill while the piece before is under way.
MIN_STAGED_BYTES, PIECE_BYTES, FILLING_THREADS = 8 << 20, 4 << 20, 4


def write_staged(cuda: Any, stream: Any, pool: PinnedPool, pointer: int, array: NDArray[Any]) -> None:
    """Copy a contiguous array to device memory, in the order of a stream, and wait for it."""
    source = array.reshape(-1).view(np.uint8)
    pieces = [(pool.take(PIECE_BYTES), cuda.Event()) for _ in range(2)]
    share = PIECE_BYTES // FILLING_THREADS
    with ThreadPoolExecutor(FILLING_THREADS) as threads:
        for number, start in enumerate(range(0, source.size, PIECE_BYTES)):
            piece, is_copied = pieces[number % 2]
            part = source[start : start + PIECE_BYTES]
            if number > 1:
                is_copied.synchronize()
            filled = [
                threads.submit(np.copyto, piece[at : at + share][: len(part) - at], part[at : at + share])
                for at in range(0, len(part), share)
            ]
            for each in filled:
                each.result()
            cuda.memcpy_htod_async(pointer + start, piece[: len(part)], stream)
            is_copied.record(stream)
    stream.synchronize()


class MappedWords:
    """int32 numbers in host memory that kernels write; `synchronize` waits for all queued work."""

    def __init__(self, cuda: Any, count: int, synchronize: Callable[[], None]) -> None:
        flags = cuda.host_alloc_flags.DEVICEMAP
        self._array: Any = cuda.pagelocked_zeros(count, np.int32, mem_flags=flags)
        self.buffer = CudaBuffer(int(self._array.base.get_device_pointer()), 4 * count)
        self._synchronize = synchronize

    def read(self) -> list[int]:
        self._synchronize()
        numbers: list[int] = self._array.tolist()
        return numbers

    def release(self) -> None:
        self._array = None


_TYPES = (np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64)
#: Format characters of numeric argument types for packing; arguments of other types are passed as addresses.
_CHARS: dict[type, str] = {int: "i", float: "d", **{kind: np.dtype(kind).char for kind in _TYPES}}
#: Name of the attribute that stores a kernel's dynamic shared memory per block in bytes.
_SHARED = "given_shared_bytes"


def with_shared_memory(cuda: Any, kernel: Any, nbytes: int) -> Any:
    """Return a kernel whose launches use `nbytes` of dynamic shared memory per block."""
    # More than 48 KiB must be enabled for each kernel. All users share the driver's kernel object, so the limit may
    # only be raised.
    allowance = cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
    if nbytes > kernel.get_attribute(allowance):
        kernel.set_attribute(allowance, nbytes)
    setattr(kernel, _SHARED, nbytes)
    return kernel


@cache
def _packing(kinds: tuple[type, ...]) -> tuple[Callable[..., bytes], tuple[int, ...], tuple[int, ...]]:
    """Return how to pack arguments of these types into a C struct.

    The results are a function that packs them, the indices of the arguments that are buffers, and their offsets in
    bytes.
    """
    chars = [_CHARS.get(kind, "P") for kind in kinds]
    addresses = tuple(place for place, kind in enumerate(kinds) if kind not in _CHARS)
    # the format "0i" pads to the place where an int would begin
    offsets = tuple(struct.calcsize("".join(chars[:place]) + "0" + char) for place, char in enumerate(chars))
    return struct.Struct("".join(chars)).pack, addresses, offsets


def pack_arguments(arguments: Sequence[Argument]) -> tuple[bytes, tuple[int, ...]]:
    """Return the arguments of a kernel packed like a C struct, and the offset of each argument in bytes."""
    pack, addresses, offsets = _packing(tuple(map(type, arguments)))
    values: list[Any] = list(arguments)
    for place in addresses:
        values[place] = pointer_of(values[place])
    return pack(*values), offsets


def prepare_launch(kernel: Any, grid: int, block: int, arguments: Sequence[Argument]) -> Callable[[Any], None]:
    """Return a function that queues one launch on a stream and keeps its buffers alive.

    PyCUDA's `prepared_async_call` needs twice the host time: it packs arguments at each launch and calls a driver
    function deprecated since CUDA 4.
    """
    packed, _ = pack_arguments(arguments)
    shared = kernel.__dict__.get(_SHARED, 0)  # PyCUDA's kernels look for other names in the driver, which takes longer
    queue = partial(kernel._launch_kernel, (int(grid), 1, 1), (int(block), 1, 1), packed, shared)

    def launch(stream: Any, referenced: Sequence[Argument] = arguments) -> None:  # default: keeps buffers alive
        queue(stream)

    return launch


def bind_launch(kernel: Any, grid: int, block: int, stream: Any, arguments: Sequence[Argument]) -> Callable[[], None]:
    """Return a function that queues one launch on this stream; see `prepare_launch`."""
    return partial(prepare_launch(kernel, grid, block, arguments), stream)


def pointer_of(buffer: Any) -> int:
    return int(buffer.pointer)


class SideStreams:
    """Side streams that start after work on the main stream and end before later work on it; a graph can
    capture them.
    """

    def __init__(self, cuda: Any, main: Any) -> None:
        self._cuda = cuda
        self._main = main
        self._sides: list[Any] = []
        self._events: list[Any] = []

    def take(self, count: int) -> list[Any]:
        """Return `count` streams, starting with the main stream; missing streams are created."""
        while len(self._events) < max(count, 1):
            self._events.append(self._cuda.Event(self._cuda.event_flags.DISABLE_TIMING))
        while len(self._sides) < count - 1:
            self._sides.append(self._cuda.Stream())
        return [self._main, *self._sides[: count - 1]][:count]

    def side_by_side(self, runs: Sequence[Callable[[], None]]) -> Callable[[], None]:
        """Return a function that queues all runs, each on one of the streams that `take(len(runs))` returned."""
        main, (first, *side_runs), sides = self._main, runs, self._sides[: len(runs) - 1]
        begin, *ends = self._events[: len(runs)]

        def queue() -> None:
            begin.record(main)
            first()  # queued first: behind the others, its blocks would have to wait until those leave multiprocessors
            for side, run, end in zip(sides, side_runs, ends, strict=True):
                side.wait_for_event(begin)
                run()
                end.record(side)
            for end in ends:
                main.wait_for_event(end)

        return queue

    def close(self) -> None:
        self._sides.clear()
        self._events.clear()


#: CU_STREAM_NON_BLOCKING: the stream is not synchronised with the legacy default stream.
NON_BLOCKING = 1


class CudaQueue:
    """A `Queue` on a GPU; the calling thread need not make the GPU's context current."""

    def __init__(self, name: str, cuda: Any, context: Any, failure: Callable[[object], LaunchError]) -> None:
        self.name, self._cuda, self._context, self._failure = name, cuda, context, failure
        self.exclusive = exclusive_use(self)
        with self._mapped():
            self._stream = cuda.Stream(NON_BLOCKING)

    def __del__(self) -> None:
        # PyCUDA destroys a stream only if its context is current, and any thread may drop the last reference to a queue
        with suppress(Exception), self.current():  # a closed context has destroyed its streams
            del self._stream

    @contextmanager
    def current(self) -> Iterator[None]:
        with self.exclusive:
            self._context.push()
            try:
                yield
            finally:
                self._cuda.Context.pop()

    def write(self, buffer: Buffer, array: NDArray[Any]) -> None:
        with self._mapped():
            self._cuda.memcpy_htod_async(pointer_of(buffer), np.ascontiguousarray(array), self._stream)
            self._stream.synchronize()

    def download(self, buffer: Buffer, array: NDArray[Any]) -> None:
        with self._mapped():
            self._cuda.memcpy_dtoh_async(array, pointer_of(buffer), self._stream)
            self._stream.synchronize()

    def bind(self, kernel: Any, grid: int, block: int, arguments: Sequence[Argument]) -> Callable[[], None]:
        run = prepare_launch(kernel, grid, block, arguments)

        def launch() -> None:
            with self._mapped():
                run(self._stream)

        return launch

    def synchronize(self) -> None:
        with self._mapped():
            self._stream.synchronize()

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        with self.current():
            try:
                yield
            except self._cuda.Error as error:
                raise self._failure(error) from None
