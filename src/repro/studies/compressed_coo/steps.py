"""Which entries of a slice's rows are one step: as many rows as can be, with columns near each other.

A step has at most one entry of each row. The column of an entry is the base of its step, plus the place of its row in
the slice, plus a code; so the steps of a stencil need no codes at all, as long as each has the same neighbour of all
rows. Where a row lacks that neighbour its place is left open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.studies.compressed_coo.slices import MOST_STEPS

#: Bits of a code by its width's number, and the largest code of all but the widest.
CODE_BITS = (0, 8, 16, 32)
LARGEST = (0, 0xFF, 0xFFFF)
WIDTHS = len(CODE_BITS)
#: Bytes that a thread loads of codes at once, and how many codes these are.
WORD = 4
CODES_OF_WORD = (1, 4, 2, 1)
#: Larger than any offset, and still so after the place of a row is subtracted.
FAR = 2**31 - 128
#: Slices that are walked at a time: few enough to stay in a cache.
BATCH = 1024


@dataclass(frozen=True)
class Stretch:
    """Slices whose entries are dealt to steps: where each row's begin and end, int32 `(slices, height)`."""

    begins: NDArray[np.int32]
    ends: NDArray[np.int32]

    def part(self, which: NDArray[Any] | slice) -> Stretch:
        """Return some of them."""
        return Stretch(self.begins[which], self.ends[which])


def deal(
    stretch: Stretch, columns: NDArray[np.int32], value_bytes: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the step of each entry within its slice, `(nnz,)`, 0 of entries of no slice; and each slice's steps.

    A step takes the entry next in turn of each row whose offset (column less place) is within a window above the least
    one. Windows are none at all, 255, 65,535 and any; each slice has the one that takes the fewest bytes.

    Parameters
    ----------
    stretch
        Slices with at most `MOST_STEPS` entries a row.
    columns
        int32 `(nnz,)`, ascending within rows.
    value_bytes
        Of a value of each slice, `(slices,)`.
    """
    steps, counts = np.zeros(len(columns), np.uint8), np.zeros(len(value_bytes), np.int64)
    for first in range(0, len(stretch.begins), BATCH):
        batch = stretch.part(slice(first, first + BATCH))
        of_value = value_bytes[first : first + BATCH]
        # any: the fewest steps, and a bound for the bytes of all others
        dealt = _walk(batch, columns, None, np.full(len(of_value), MOST_STEPS), steps)
        best, count = dealt.nbytes(batch, of_value), dealt.counts.sum(axis=1)
        least = count * _step_bytes(batch, of_value)
        for window in LARGEST:
            left = np.flatnonzero(best > least)
            if not len(left):
                break
            some = batch.part(left)
            most = np.minimum((best[left] - 1) // _step_bytes(some, of_value[left]), MOST_STEPS)
            walked = _walk(some, columns, window, most)
            nbytes = walked.nbytes(some, of_value[left])
            better = walked.done & (nbytes < best[left])
            _walk(some.part(better), columns, window, most[better], steps)
            best[left[better]], count[left[better]] = nbytes[better], walked.counts[better].sum(axis=1)
        counts[first : first + BATCH] = count
    return steps, counts


@dataclass(frozen=True)
class _Walked:
    """Whether a slice's entries were dealt within the steps allowed, and how many steps have codes of which width."""

    done: NDArray[np.bool_]
    counts: NDArray[np.int64]

    def nbytes(self, stretch: Stretch, value_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the bytes of each slice: of bases, values and codes."""
        height = stretch.begins.shape[1]
        words = sum(-(-self.counts[:, i] // CODES_OF_WORD[i]) for i in range(1, WIDTHS))
        return np.asarray(self.counts.sum(axis=1) * _step_bytes(stretch, value_bytes) + WORD * height * words)


def _step_bytes(stretch: Stretch, value_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
    # a base is as many bytes as a word
    size: NDArray[np.int64] = WORD + stretch.begins.shape[1] * value_bytes
    return size


def _walk(
    stretch: Stretch,
    columns: NDArray[np.int32],
    window: int | None,
    most: NDArray[np.int64],
    steps: NDArray[np.uint8] | None = None,
) -> _Walked:
    """Deal the entries of slices to steps, at most so many of each; where `steps` is given, note them there."""
    done = np.ones(len(most), bool)
    counts = np.zeros((len(most), WIDTHS), np.int64)
    which, heads, ends = np.arange(len(most)), stretch.begins.copy(), stretch.ends
    places = np.arange(heads.shape[1], dtype=np.int32)
    step = 0
    while True:
        there = heads < ends
        going = there.any(axis=1)
        done[which[going & (most[which] <= step)]] = False
        going &= most[which] > step
        if not going.all():
            which, heads, ends, there = which[going], heads[going], ends[going], there[going]
        if not len(which):
            return _Walked(done, counts)
        offsets = np.where(there, columns.take(heads, mode="clip") - places, FAR)
        base = offsets.min(axis=1)
        taken = there if window is None else there & (offsets - base[:, None] <= window)
        spread = np.where(taken, offsets, base[:, None]).max(axis=1) - base
        counts[which, np.searchsorted(LARGEST, spread)] += 1
        if steps is not None:
            steps[heads[taken]] = step
        heads = heads + taken
        step += 1
