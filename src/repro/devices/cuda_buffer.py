"""Memory on a GPU: allocations, and parts of them."""

from __future__ import annotations

from typing import Any


class CudaBuffer:
    """Memory on the GPU.

    Parameters
    ----------
    allocation
        PyCUDA's own, or the address of what belongs to another buffer.
    nbytes
        Its size.

    Attributes
    ----------
    pointer
        Its address.
    """

    def __init__(self, allocation: Any, nbytes: int) -> None:
        self._allocation = None if isinstance(allocation, int) else allocation
        self._nbytes = nbytes
        self.pointer = int(allocation)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self._nbytes

    def release(self) -> None:
        """Give the memory back; what belongs to another buffer stays that one's."""
        if self._allocation is not None:
            self._allocation.free()
            self._allocation = None
