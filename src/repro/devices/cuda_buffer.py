"""Memory on a GPU: allocations, and parts of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any


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
