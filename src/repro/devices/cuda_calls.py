"""Calls on a stream of the caller: launches whose addresses change with each call, and stream-ordered memory.

Users' products go through here. A call writes its addresses into arguments that were packed once, and is one call of
the driver: it records no event, waits for no stream, and can be captured into a CUDA graph.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

from cuda.bindings import driver

from repro.devices.base import ADDRESS, Argument, LaunchError, OutOfDeviceMemory
from repro.devices.cuda_driver import check_cuda, pack_arguments

#: Bytes of an address.
_WORD = 8
_SUCCESS = driver.CUresult.CUDA_SUCCESS
#: Bytes of free memory that the driver's pool keeps at a synchronization: all of them.
_ALL_BYTES = (1 << 64) - 1


class StreamLaunch:
    """A launch of one kernel on any stream of its GPU; implements `Call`.

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
        packed, offsets = pack_arguments(arguments)
        values = ctypes.create_string_buffer(packed, -(-len(packed) // _WORD) * _WORD)
        begin = ctypes.addressof(values)
        pointers = (ctypes.c_void_p * len(offsets))(*[begin + offset for offset in offsets])
        self._words = (ctypes.c_uint64 * (len(values) // _WORD)).from_buffer(values)
        self._places = [
            offset // _WORD for offset, argument in zip(offsets, arguments, strict=True) if argument is ADDRESS
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
                raise LaunchError("the memory of the kernel's arguments was released")
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
