"""Products of a matrix while others change it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from repro.codegen.targets import Target
from repro.devices.base import Program, Queue
from repro.operators.arrays import Kind
from repro.operators.base import StrictOperator
from repro.operators.runtime import Runtime
from repro.sparse.dynamic.bins import widths_of
from repro.sparse.dynamic.matrix import DynamicMatrix
from repro.sparse.dynamic.reading import Reading


class Reader(StrictOperator):
    """A matrix as others see it who multiply while it is changed; made by `DynamicCSR.reader`.

    Each row of a product is that of the matrix before a change of the row or after it, never of half a change; which
    of them may differ from row to row. A product sees all changes that were done when it began. A reader has a queue of
    its own, on which threads take turns; a matrix can have several. Its products wait for their end.

    Parameters
    ----------
    runtime
        The device.
    kind
        What the numbers of x and y are.
    matrix
        What is read.
    load
        Loads the module `reader` in the matrix's precision.
    mean
        Entries of a row, about.
    """

    def __init__(
        self, runtime: Runtime, kind: Kind, matrix: DynamicMatrix, load: Callable[[], Program], mean: float
    ) -> None:
        super().__init__(runtime, kind, matrix.storage.shape)
        self._side = runtime.device.beside()
        self._reading = Reading(self._side, load(), _width(runtime.device.target, mean), matrix)
        _ = self._staging  # now, while nobody else has the device

    @property
    def _queue(self) -> Queue:
        return self._side

    @contextmanager
    def _ordered(self, *streams: int | None) -> Iterator[None]:
        """Wait for what the arrays come from; nobody has to wait for a product that is waited for."""
        with self._side.current():
            if streams:
                self._runtime.finish(*streams)
            yield

    def _multiply(self, x: Any, y: Any) -> None:
        self._reading.multiply(x.buffer, y.buffer)

    def __repr__(self) -> str:
        return f"<{'x'.join(map(str, self.shape))} {type(self).__name__} on {self.device_name}>"


def _width(target: Target, mean: float) -> int:
    """Return threads of a row: each has about four entries of one of the mean size."""
    widths = widths_of(target)
    return next((width for width in widths if 4 * width >= mean), widths[-1])
