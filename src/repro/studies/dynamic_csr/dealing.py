"""Rows dealt to devices: sorted by their sizes and dealt modulo the number of devices, as in the paper."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

#: Numbers that the parts of a vector are aligned to, so that each starts where a buffer of its own may start.
ALIGNMENT = 64


@dataclass(frozen=True)
class Dealing:
    """Which device has which rows, and where their results are in a vector in the dealt order.

    That vector has a part for each device, one after the other and all equally long; where a part is longer than its
    device has rows, the numbers behind them mean nothing.

    Attributes
    ----------
    order
        The rows by their sizes, the longest first, int64 `(rows,)`: the first is the first device's, the second the
        second's, and so on, then again the first's.
    devices
        How many.
    """

    order: NDArray[np.int64]
    devices: int

    @classmethod
    def of(cls, sizes: NDArray[np.integer], devices: int) -> Dealing:
        """Deal rows of these sizes, `(rows,)`, to so many devices."""
        return cls(np.argsort(-sizes.astype(np.int64), kind="stable"), devices)

    def rows(self, at: int) -> NDArray[np.int64]:
        """Return the rows of a device, the longest first."""
        return self.order[at :: self.devices]

    @property
    def part(self) -> int:
        """Numbers of one device's part of a vector."""
        most = -(-len(self.order) // self.devices)
        return max(1, -(-most // ALIGNMENT)) * ALIGNMENT

    @property
    def length(self) -> int:
        """Numbers of a vector in the dealt order."""
        return self.part * self.devices

    @cached_property
    def places(self) -> NDArray[np.int32]:
        """Where each row's number is in the dealt order, int32 `(rows,)`."""
        places = np.empty(len(self.order), np.int32)
        ranks = np.arange(len(self.order))
        places[self.order] = ranks % self.devices * self.part + ranks // self.devices
        return places

    def spread(self, vector: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return a vector `(rows,)` in the dealt order, with zeros behind each part."""
        dealt = np.zeros(self.length, vector.dtype)
        dealt[self.places] = vector
        return dealt

    def gather(self, dealt: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return a vector of the dealt order in that of the rows; the inverse of `spread`."""
        return dealt[self.places]


def split_columns_of(matrix: sp.csr_array, at: int, part: int) -> tuple[sp.csr_array, sp.csr_array]:
    """Return the entries of a matrix whose columns are in a device's own part of x, and the others.

    Parameters
    ----------
    matrix
        Its columns are in the dealt order.
    at, part
        Which device, and how long a part is.
    """
    own = matrix.indices // part == at
    return _only(matrix, own), _only(matrix, ~own)


def _only(matrix: sp.csr_array, which: NDArray[np.bool_]) -> sp.csr_array:
    before = np.concatenate([[0], np.cumsum(which)])
    return sp.csr_array(
        (matrix.data[which], matrix.indices[which], before[matrix.indptr]), shape=matrix.shape, copy=False
    )
