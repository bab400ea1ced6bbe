"""Launching kernels through PyCUDA, with the arguments packed once."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from repro.devices.base import Argument

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
