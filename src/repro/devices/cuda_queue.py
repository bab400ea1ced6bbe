"""A stream beside a GPU's own, which waits for no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.devices.base import Argument, Buffer, LaunchError
from repro.devices.cuda_launch import bind_launch, pointer_of
from repro.devices.exclusive import exclusive_use

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
