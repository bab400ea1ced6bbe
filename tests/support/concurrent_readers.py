"""Readers beside a matrix that is changed, held to rows that are as before a change or as after it; on any device."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from repro.devices.base import Buffer, Device, Program, Queue
from repro.sparse.dynamic.matrix import ConcurrentReader, DynamicMatrix
from repro.sparse.dynamic.storage import EntryBatch

#: The line of the template that tells a row in the middle of a change, and one that tells none.
CHECK = "changed = (version & 1) || versions[row] != version;"
NO_CHECK = "changed = 0;"


def without_check(source: str) -> str:
    """Return the module `reader` without the look at versions: a reader that takes whatever it sees."""
    assert CHECK in source
    return source.replace(CHECK, NO_CHECK)


@dataclass
class Rows:
    """Rows that all have entries in the columns from 0 on, and the sums that a whole one can have.

    Attributes
    ----------
    rows, length
        How many, and the entries of each at first.
    """

    rows: int
    length: int

    @property
    def weights(self) -> np.ndarray:
        """A value for each column; the sum of some of them tells which these are, as good as always."""
        return np.random.default_rng(1).integers(1, 1 << 20, self.length).astype(np.float64)

    def matrix(self, values: np.ndarray) -> sp.csr_array:
        """Return the matrix at first, of twice as many columns."""
        columns = np.tile(np.arange(self.length), self.rows)
        offsets = np.arange(self.rows + 1) * self.length
        return sp.csr_array((np.tile(values, self.rows), columns, offsets), shape=(self.rows, 2 * self.length))

    def entries(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return rows and columns of an entry in each of these columns in each row."""
        return np.repeat(np.arange(self.rows), len(columns)), np.tile(columns, self.rows)


@dataclass
class Readers:
    """Threads that multiply with ones until they are stopped.

    Parameters
    ----------
    device, program, matrix
        The device, the module `reader`, and what is read.
    width
        Threads of a row.
    legal
        Says which sums can be those of a whole row.
    """

    device: Device
    program: Program
    matrix: DynamicMatrix
    width: int
    legal: Callable[[np.ndarray], np.ndarray]
    products: int = 0
    seen: set[float] = field(default_factory=set)
    torn: list[float] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)

    def run(self, change: Iterator[Any], seconds: float, count: int = 2) -> Readers:
        """Change the matrix in this thread for so long, or until a torn row was seen, while others read."""
        stop = threading.Event()
        rows, columns = self.matrix.storage.shape
        threads = []
        for _ in range(count):
            queue, x, y = self.device.new_queue(), self.device.allocate(8 * columns), self.device.allocate(8 * rows)
            queue.write(x, np.ones(columns))
            threads.append(threading.Thread(target=self._read, args=(stop, queue, x, y)))
        for thread in threads:
            thread.start()
        try:
            end = time.monotonic() + seconds
            while time.monotonic() < end and not self.torn and not self.errors:
                next(change)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        return self

    def _read(self, stop: threading.Event, queue: Queue, x: Buffer, y: Buffer) -> None:
        try:
            reading = ConcurrentReader(queue, self.program, self.width, self.matrix)
            sums = np.empty(y.nbytes // 8)
            while not stop.is_set():
                reading.multiply(x, y)
                queue.download(y, sums)
                self.products += 1
                self.seen.update(sums)
                self.torn += list(sums[~self.legal(sums)])
        except BaseException as error:  # told by the thread that waits
            self.errors.append(error)


MakeBatch = Callable[..., EntryBatch]


def replacing(matrix: DynamicMatrix, rows: Rows, make_batch: MakeBatch) -> Iterator[None]:
    """Give all entries of all rows the same new value, time and again."""
    value, places = 1.0, rows.entries(np.arange(rows.length))
    while True:
        value = value % 1000 + 1
        matrix.insert(make_batch(*places, np.full(len(places[0]), value)), "replace")
        yield


def swapping(matrix: DynamicMatrix, rows: Rows, make_batch: MakeBatch) -> Iterator[None]:
    """Take half of each row out and put it back, then the other half; bring the matrix together now and then."""
    weights = rows.weights
    halves = np.arange(0, rows.length, 2), np.arange(1, rows.length, 2)
    while True:
        for half in halves:
            places = rows.entries(half)
            matrix.delete(make_batch(*places))
            yield
            matrix.insert(make_batch(*places, np.tile(weights[half], rows.rows)))
            yield
        matrix.tidy(1)
        yield
        matrix.defragment()
        yield


def sums_of_swapping(rows: Rows) -> list[float]:
    """Return the sums of a whole row, and of a half."""
    weights = rows.weights
    return [weights.sum(), weights[::2].sum(), weights[1::2].sum()]


def appending(matrix: DynamicMatrix, rows: Rows, make_batch: MakeBatch) -> Iterator[None]:
    """Append as many ones to each row as it had, in two segments or one, and grow on the way; then begin again."""
    while True:
        for _ in range(5):
            places = rows.entries(np.arange(rows.length))
            matrix.insert(make_batch(*places, np.ones(len(places[0]))))
            yield
        matrix.delete(make_batch(*places))
        matrix.insert(make_batch(*places, np.ones(len(places[0]))))
        yield
