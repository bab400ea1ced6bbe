"""Memory of a GPU: taken from the driver, or from a pool that keeps what is given back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from repro.devices.cuda_buffer import CudaBuffer


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
