"""Launching kernels through PyCUDA, with the arguments packed once."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from repro.devices.base import Argument


def bind_launch(kernel: Any, grid: int, block: int, stream: Any, arguments: Sequence[np.generic]) -> Callable[[], None]:
    """Return what queues one launch; a pointer is an argument of type `np.uintp`.

    PyCUDA's public `prepared_async_call` packs the arguments at every launch, and calls a function of the driver that
    has been deprecated since CUDA 4, so that a launch takes the host about twice as long.
    """
    packed = struct.pack("".join(argument.dtype.char for argument in arguments), *arguments)
    return partial(kernel._launch_kernel, (int(grid), 1, 1), (int(block), 1, 1), packed, 0, stream)


def values_of(arguments: Sequence[Argument]) -> list[np.generic]:
    """Return arguments as they are packed, a buffer as its address."""
    return [a if isinstance(a, np.generic) else np.uintp(pointer_of(a)) for a in arguments]


def pointer_of(buffer: Any) -> int:
    """Return the address of a buffer."""
    return int(buffer.pointer)
