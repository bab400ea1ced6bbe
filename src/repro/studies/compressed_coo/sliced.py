"""Compressed sliced ELLPACK: slices of 8, 16 or 32 rows, columns as codes of as few bits as a step of them needs.

Ours, for values that are distinct: what is left to save there are columns and padding. A step is an entry of each row
of a slice (`steps`); its columns are its base, the place of the row, and a code of 0, 8, 16 or 32 bits. Values are
plain or, where a table of 256 holds all of a slice's, indices into it. Rows that would make a slice long are cut into
pieces, which are slices of one row (`slices`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import Unsupported
from repro.studies.compressed_coo.compressed import UNSIGNED, Lookup, frequent_with_zero
from repro.studies.compressed_coo.encoding import Groups, code_columns
from repro.studies.compressed_coo.slices import PIECE, WINDOW, Slices
from repro.studies.compressed_coo.steps import CODE_BITS, FAR, WIDTHS, WORD, Stretch, deal

#: What a slice's flags say: values are indices into the table; rows are elsewhere; it is a piece of one row.
TABLED, MOVED, WHOLE = 1, 2, 4
FLAG_BITS = 3
#: The place of no row in a slice whose rows are elsewhere.
NOWHERE = 0xFFFF


@dataclass(frozen=True)
class Sliced:
    """A matrix in compressed sliced ELLPACK, ready to upload.

    Pieces come first, then the slices in the order of their rows. Steps of a slice are ordered by the bits of their
    codes; those of equal bits share words.

    Attributes
    ----------
    n, nnz, height, pieces
        Rows, entries, rows of a slice, and how many slices are pieces.
    dtype
        Of the values, float32 or float64.
    slices
        int32 `(slices, 4)`: where its bases start; its words, in units of `height` words; its values, in units of
        `height` bytes, times 8, and its flags; how many steps have codes of 0, 8, 16, 32 bits, a byte each, the first
        the lowest.
    bases
        int32: of each slice those of its steps; then where rows are elsewhere, their places in the window, 16 bits
        each; of a piece, its row, or -1 less the number of its part where the row has several.
    words
        uint32: 4, 2 or 1 codes of a row, `height` words side by side, one for each row.
    values
        uint8: of each slice a value of each row, step by step, or words of four indices as above.
    table
        `(256,)`: zero, and the most frequent values.
    long_rows, first_parts
        int32: the rows of several pieces, and their first parts, with one behind the last.
    steps
        How many there are of each encoding, spelt `none/8/table`.
    """

    n: int
    nnz: int
    height: int
    pieces: int
    dtype: np.dtype[np.floating]
    slices: NDArray[np.int32]
    bases: NDArray[np.int32]
    words: NDArray[np.uint32]
    values: NDArray[np.uint8]
    table: NDArray[np.floating]
    long_rows: NDArray[np.int32]
    first_parts: NDArray[np.int32]
    steps: dict[str, int]

    @property
    def parts(self) -> int:
        """Sums of pieces that are added up after all."""
        return int(self.first_parts[-1])

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a kernel reads, by name."""
        of_parts = {"long_rows": self.long_rows, "first_parts": self.first_parts} if self.parts else {}
        return {
            "slices": self.slices,
            "bases": self.bases,
            "words": self.words,
            "values": self.values,
            "table": self.table,
            **of_parts,
        }

    @property
    def nbytes(self) -> int:
        """Bytes that a product reads of the matrix, padding and table included; parts are written and read besides."""
        return sum(array.nbytes for array in self.arrays.values())


def slice_up(
    slices: Slices,
    indptr: NDArray[np.integer],
    indices: NDArray[np.integer],
    values: NDArray[np.floating],
) -> Sliced:
    """Write a square matrix in CSR in slices, each in as few bytes as its own entries need.

    Parameters
    ----------
    slices
        Its rows, dealt to slices.
    indptr, indices
        `(n + 1,)` and `(nnz,)`, ascending within rows.
    values
        `(nnz,)` in the working precision.

    Raises
    ------
    Unsupported
        More slots than 32-bit indices can count.
    """
    n, height = len(indptr) - 1, slices.height
    if n > FAR or slices.slots(np.diff(indptr)) * (values.itemsize + WORD) >= 2 ** (32 - FLAG_BITS) * height:
        raise Unsupported(f"too large for 32-bit indices: {len(indices)} entries in slices of {height} rows")
    lengths = np.diff(indptr).astype(np.int64)
    bits = values.view(UNSIGNED[values.itemsize])
    lookup = Lookup(frequent_with_zero(bits))
    pieces = _Pieces.of(slices.apart, indptr)
    missing = np.concatenate([[0], np.cumsum(~lookup.holds(bits))])
    missed = np.append(missing[indptr[1:]] - missing[indptr[:-1]], 0)[slices.rows].sum(axis=1)
    tabled = np.concatenate([missing[pieces.ends] == missing[pieces.begins], missed == 0])

    stretch = Stretch(*(np.append(ends, 0)[slices.rows].astype(np.int32) for ends in (indptr[:-1], indptr[1:])))
    columns = indices.astype(np.int32, copy=False)
    value_bytes = np.where(tabled, 1, values.itemsize)
    step_of, in_slices = deal(stretch, columns, value_bytes[len(pieces.begins) :])
    steps = np.concatenate([-(-(pieces.ends - pieces.begins) // height), in_slices])
    slot_of = _slots(slices, pieces, lengths, step_of, np.cumsum(steps) - steps)
    offsets = np.full((int(steps.sum()), height), FAR, np.int32)
    offsets.ravel()[slot_of] = columns - (slot_of % height).astype(np.int32)
    coded = code_columns(offsets, n)
    numbers: NDArray[Any] = np.zeros(offsets.shape, bits.dtype)
    numbers.ravel()[slot_of] = bits

    groups = Groups(np.repeat(np.arange(len(steps)), steps), coded.widths, len(steps))
    words, first_word = groups.write_codes(coded.codes, height)
    stored, first_value = groups.write_values(numbers, lookup, tabled)
    moved = np.concatenate([np.zeros(len(pieces.begins), bool), slices.moved])
    flags = TABLED * tabled + MOVED * moved
    flags[: len(pieces.begins)] += WHOLE
    bases, first_base = _bases(coded.bases[groups.order], steps, flags, pieces.targets, slices)
    described = np.empty((len(steps), 4), np.uint32)
    described[:, 0], described[:, 1], described[:, 2] = first_base, first_word, first_value << FLAG_BITS | flags
    described[:, 3] = (groups.counts << np.arange(0, 8 * WIDTHS, 8)).sum(axis=1)
    return Sliced(
        n,
        len(indices),
        height,
        len(pieces.begins),
        values.dtype,
        described.view(np.int32),
        bases,
        words,
        stored,
        lookup.table.view(values.dtype),
        pieces.long_rows,
        pieces.first_parts,
        _spelt(groups.counts, tabled),
    )


@dataclass(frozen=True)
class _Pieces:
    """Pieces of rows that are in no slice: their first entry and the one behind their last, where their sums go."""

    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    targets: NDArray[np.int32]
    long_rows: NDArray[np.int32]
    first_parts: NDArray[np.int32]

    @classmethod
    def of(cls, apart: NDArray[np.int64], indptr: NDArray[np.integer]) -> _Pieces:
        """Cut rows into pieces of `PIECE` entries; a row of several has parts, one of one is written by it."""
        first, behind = indptr[apart].astype(np.int64), indptr[apart + 1].astype(np.int64)
        count = -(-(behind - first) // PIECE)
        number = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        begins = np.repeat(first, count) + number * PIECE
        several = np.repeat(count > 1, count)
        parts = np.cumsum(several) - 1
        targets = np.where(several, -1 - parts, np.repeat(apart, count)).astype(np.int32)
        first_parts = np.concatenate([[0], np.cumsum(count[count > 1])]).astype(np.int32)
        ends = np.minimum(begins + PIECE, np.repeat(behind, count))
        return cls(begins, ends, targets, apart[count > 1].astype(np.int32), first_parts)


def _slots(
    slices: Slices,
    pieces: _Pieces,
    lengths: NDArray[np.int64],
    step_of: NDArray[np.uint8],
    first_step: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the slot of each entry, `(nnz,)`: slot s is of place s % height in step s // height of all steps."""
    height = slices.height
    of_row = np.zeros(len(lengths), np.int64)
    there = slices.rows >= 0
    of_place = first_step[len(pieces.begins) :, None] * height + np.arange(height)
    of_row[slices.rows[there]] = of_place[there]
    slots = np.repeat(of_row, lengths)
    slots += step_of.astype(np.int64) * height
    # pieces are filled side by side
    sizes = pieces.ends - pieces.begins
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    entries = np.repeat(pieces.begins, sizes) + within
    slots[entries] = np.repeat(first_step[: len(sizes)] * height, sizes) + within
    return slots


def _bases(
    bases: NDArray[np.int32],
    steps: NDArray[np.int64],
    flags: NDArray[np.int64],
    targets: NDArray[np.int32],
    slices: Slices,
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return bases with what follows those of pieces and of slices whose rows are elsewhere, and each slice's first."""
    height = slices.height
    behind = np.where(flags & WHOLE, 1, np.where(flags & MOVED, height // 2, 0))
    starts = np.cumsum(steps + behind) - (steps + behind)
    whole = np.empty(int((steps + behind).sum()), np.int32)
    whole[np.repeat(starts - (np.cumsum(steps) - steps), steps) + np.arange(len(bases))] = bases
    whole[(starts + steps)[: len(targets)]] = targets
    moved = np.flatnonzero(flags & MOVED)
    rows = slices.rows[moved - len(targets)]
    places = np.where(rows < 0, NOWHERE, rows % WINDOW).astype(np.uint16)
    whole[(starts + steps)[moved, None] + np.arange(height // 2)] = places.view(np.int32)
    return whole, starts


def _spelt(counts: NDArray[np.int64], tabled: NDArray[np.bool_]) -> dict[str, int]:
    """Count the steps of each encoding that occurs, spelt as a chunk's: no rows, columns, values."""
    steps_of = {
        f"none/{bits}/{values}": int(counts[which, width].sum())
        for values, which in (("plain", ~tabled), ("table", tabled))
        for width, bits in enumerate(CODE_BITS)
    }
    return {name: count for name, count in steps_of.items() if count}
