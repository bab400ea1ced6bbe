"""Columns and values of the steps of slices, as the words that kernels read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.studies.compressed_coo.compressed import UNSIGNED, Lookup
from repro.studies.compressed_coo.steps import CODES_OF_WORD, FAR, LARGEST, WIDTHS, WORD


@dataclass(frozen=True)
class Coded:
    """The columns of steps: the base of each `(steps,)`, the codes of its rows `(steps, height)`, and their width.

    A width is a place in `CODE_BITS`. A row without an entry has a code as well, of a column that there is.
    """

    bases: NDArray[np.int32]
    codes: NDArray[np.int32]
    widths: NDArray[np.int64]


def code_columns(offsets: NDArray[np.int32], n: int) -> Coded:
    """Return the columns of steps as codes.

    Parameters
    ----------
    offsets
        `(steps, height)`: the column of a row's entry less the row's place, `FAR` for no entry.
    n
        Columns of the matrix.
    """
    height = offsets.shape[1]
    bases = offsets.min(axis=1, initial=FAR)
    codes = np.where(offsets == FAR, 0, offsets - bases[:, None])
    # a row without an entry reads x where code 0 leads, which near the first and the last column may be outside
    edge = np.flatnonzero((bases < 0) | (bases > n - height))
    places = np.arange(height, dtype=np.int32)
    there = np.clip(bases[edge, None] + places, 0, n - 1) - places
    inside = np.where(offsets[edge] == FAR, there, offsets[edge])
    bases[edge] = inside.min(axis=1, initial=FAR)
    codes[edge] = inside - bases[edge, None]
    return Coded(bases, codes, np.searchsorted(LARGEST, codes.max(axis=1, initial=0)))


class Groups:
    """The steps of slices, those of a slice ordered by the width of their codes: a group is of one slice and width.

    Parameters
    ----------
    slice_of_step
        `(steps,)`, ascending.
    widths
        `(steps,)`.
    slices
        How many slices there are.

    Attributes
    ----------
    order
        `(steps,)`: which step comes where.
    counts
        `(slices, WIDTHS)`: steps of each group.
    """

    def __init__(self, slice_of_step: NDArray[np.int64], widths: NDArray[np.int64], slices: int) -> None:
        group = slice_of_step * WIDTHS + widths
        self.order = np.argsort(group, kind="stable")
        self._group = group[self.order]
        counts = np.bincount(group, minlength=slices * WIDTHS)
        self.counts = counts.reshape(slices, WIDTHS)
        self._rank = np.arange(len(group)) - (np.cumsum(counts) - counts)[self._group]

    def write_codes(self, codes: NDArray[np.int32], height: int) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Return the codes in words, and each slice's first, in units of `height` words."""
        taken = np.zeros_like(self.counts)
        for width in range(1, WIDTHS):
            taken[:, width] = -(-self.counts[:, width] // CODES_OF_WORD[width])
        starts = (np.cumsum(taken) - taken.ravel()).astype(np.int64)
        words = np.zeros((int(taken.sum()), height), np.uint32)
        for width in range(1, WIDTHS):
            of_word = CODES_OF_WORD[width]
            mine = np.flatnonzero(self._group % WIDTHS == width)
            parts = words.view(UNSIGNED[WORD // of_word]).reshape(-1, height, of_word)
            at = starts[self._group[mine]] + self._rank[mine] // of_word
            parts[at, :, self._rank[mine] % of_word] = codes[self.order[mine]]
        return words.ravel(), starts.reshape(-1, WIDTHS)[:, 0]

    def write_values(
        self, bits: NDArray[np.unsignedinteger], lookup: Lookup, tabled: NDArray[np.bool_]
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the values of steps `(steps, height)` as bytes, and each slice's first, in units of `height` bytes.

        Parameters
        ----------
        tabled
            Of each slice, whether its values are indices into the table, as words of `WORD`.
        """
        height, size = bits.shape[1], bits.itemsize
        taken = np.where(tabled[:, None], WORD * -(-self.counts // WORD), self.counts * size)
        starts = np.cumsum(taken) - taken.ravel()
        stored = np.zeros(int(taken.sum()) * height, np.uint8)
        looked_up = tabled[self._group // WIDTHS]
        mine = np.flatnonzero(looked_up)
        at = starts[self._group[mine]] // WORD + self._rank[mine] // WORD
        indices: NDArray[Any] = lookup.places(bits[self.order[mine]])
        stored.reshape(-1, height, WORD)[at, :, self._rank[mine] % WORD] = indices
        mine = np.flatnonzero(~looked_up)
        at = (starts[self._group[mine]] + self._rank[mine] * size) * height // size
        stored.view(bits.dtype)[at[:, None] + np.arange(height)] = bits[self.order[mine]]
        return stored, starts.reshape(-1, WIDTHS)[:, 0]
