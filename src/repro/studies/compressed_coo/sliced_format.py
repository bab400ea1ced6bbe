"""Compressed sliced ELLPACK: slices of 8, 16 or 32 rows, columns as codes of few bits.

This format is ours, for matrices with distinct values, where only columns and padding can be compressed. A step
has at most one entry for each row of a slice. The column of an entry is the step's base, plus the row's place in
the slice, plus a code of 0, 8, 16 or 32 bits. The steps of a stencil need no codes if each step holds the same
neighbour for all rows; a row without this neighbour leaves its place empty. Values are plain, or indices into a
table of 256 values if the table holds all values of the slice.

Rows of a slice are padded to its longest row. Rows that would make a slice long are cut into pieces, which are
slices of one row. Sliced ELLPACK with rows sorted by length within windows is Kreutzer et al., "A unified sparse
matrix data format for efficient general sparse matrix-vector multiplication on modern processors with wide SIMD
units" (SIAM J. Sci. Comput. 36(5), 2014); here a window is sorted only if this saves enough slots.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.errors import Unsupported
from repro.studies.compressed_coo.coordinate_format import UNSIGNED, Lookup, frequent_with_zero

#: Rows per window: a multiple of every slice height, and at most 2^16, so that 16 bits number a window's rows.
WINDOW = 1024
#: Maximum number of steps in a slice, since steps are counted in 8 bits.
MAX_STEPS = 255
#: A window's rows are sorted only if this leaves at most this fraction of its slots, since sorting separates
#: neighbouring rows with similar columns.
WORTH_SORTING = 0.9
#: Number of slots in a piece of a row that is in no slice.
PIECE = 1024
#: Limits on the length of rows in slices; all limits are tried.
LIMITS = (8, 16, 32, 64, 128, MAX_STEPS)


@dataclass(frozen=True)
class Slices:
    """The rows of a matrix, assigned to slices.

    Attributes
    ----------
    height
        Number of rows per slice.
    rows
        int64 `(slices, height)`: the row at each place, -1 for none.
    moved
        bool `(slices,)`: True if the rows of the slice are not the consecutive rows from `slice * height` on.
    apart
        int64, ascending: rows that are much longer than all others. They are in no slice, but cut into pieces of
        `PIECE` slots.
    """

    height: int
    rows: NDArray[np.int64]
    moved: NDArray[np.bool_]
    apart: NDArray[np.int64]

    def slots(self, row_lengths: NDArray[np.integer]) -> int:
        """Count the slots of a matrix with row lengths `(n,)`; all rows of a slice are padded to its longest row."""
        longest_rows = np.append(row_lengths, 0)[self.rows].max(axis=1, initial=0)
        steps = -(-row_lengths[self.apart].astype(np.int64) // self.height)
        return self.height * int(longest_rows.sum(dtype=np.int64) + steps.sum())


def make_slices(row_lengths: NDArray[np.integer], height: int) -> Slices:
    """Assign rows to slices of the given height with little padding.

    Rows longer than a limit go into no slice. The limit is the one in `LIMITS` that needs the fewest slots.

    Parameters
    ----------
    row_lengths
        `(n,)`.
    height
        Rows of a slice: 8, 16 or 32.
    """
    lengths = row_lengths.astype(np.int64, copy=False)
    n, longest_row = len(lengths), int(lengths.max(initial=0))
    limits = [limit for limit in LIMITS if limit < longest_row or limit == MAX_STEPS]
    windows = -(-n // WINDOW)
    padded = np.full(windows * WINDOW, -1, np.int64)
    padded[:n] = lengths
    limit_candidates = (
        [(_padded_slots(padded, limit, height), -limit) for limit in limits] if len(limits) > 1 else [(0, -limits[0])]
    )
    limit = -min(limit_candidates)[1]
    kept_lengths = np.where(padded <= limit, padded, -1).reshape(windows, WINDOW)
    natural_slots, sorted_slots = _natural_slots(kept_lengths, height), _sorted_slots(kept_lengths, height)
    is_sorted = sorted_slots <= WORTH_SORTING * natural_slots
    rows = np.arange(windows * WINDOW).reshape(windows, WINDOW)
    # longest rows first; rows of equal length keep their order, so that neighbours stay together
    rows[is_sorted] = np.take_along_axis(
        rows[is_sorted], np.argsort(-kept_lengths[is_sorted], axis=1, kind="stable"), axis=1
    )
    rows = np.where(kept_lengths.ravel()[rows] >= 0, rows, -1).reshape(-1, height)[: -(-n // height)]
    is_moved = (rows != np.arange(rows.size).reshape(rows.shape)).any(axis=1)
    return Slices(height, rows, is_moved, np.flatnonzero(lengths > limit))


def _padded_slots(padded: NDArray[np.int64], limit: int, height: int) -> int:
    """Return the number of slots needed if every row of at most `limit` entries is stored in slices."""
    kept_lengths = np.where(padded <= limit, padded, -1).reshape(-1, WINDOW)
    natural_slots, sorted_slots = _natural_slots(kept_lengths, height), _sorted_slots(kept_lengths, height)
    slot_count = np.where(sorted_slots <= WORTH_SORTING * natural_slots, sorted_slots, natural_slots).sum()
    apart = padded[padded > limit]  # cut into pieces, with a penalty for partial sums and a second launch
    return int(slot_count) + int((-(-apart // height) * height + 32).sum())


def _natural_slots(kept_lengths: NDArray[np.int64], height: int) -> NDArray[np.int64]:
    """Return the slots of each window with its rows in natural order, `(windows,)`; a length of -1 means no row."""
    longest_rows = np.maximum(kept_lengths.reshape(len(kept_lengths), -1, height).max(axis=2), 0)
    return np.asarray(height * longest_rows.sum(axis=1))


def _sorted_slots(kept_lengths: NDArray[np.int64], height: int) -> NDArray[np.int64]:
    """Return the slots of each window with its rows sorted by length, `(windows,)`."""
    longest_rows = np.maximum(np.sort(kept_lengths, axis=1)[:, height - 1 :: height], 0)
    return np.asarray(height * longest_rows.sum(axis=1))


#: Number of bits of a code for each width, and the largest code of each width except the widest.
CODE_BITS = (0, 8, 16, 32)
MAX_CODES = (0, 0xFF, 0xFFFF)
WIDTHS = len(CODE_BITS)
#: Number of bytes of codes that a thread loads at once, and number of these codes for each width.
CODE_WORD_BYTES = 4
CODES_OF_WORD = (1, 4, 2, 1)
#: Offset that marks no entry: larger than any offset, even after the place of a row is subtracted.
FAR = 2**31 - 128
#: Number of slices processed at a time: few enough to stay in the cache.
BATCH = 1024


@dataclass(frozen=True)
class SliceRange:
    """Slices whose entries are assigned to steps: begin and end of each row, int32 `(slices, height)`."""

    begins: NDArray[np.int32]
    ends: NDArray[np.int32]

    def part(self, index: NDArray[Any] | slice) -> SliceRange:
        """Return the selected slices."""
        return SliceRange(self.begins[index], self.ends[index])


def assign_steps(
    stretch: SliceRange, columns: NDArray[np.int32], value_bytes: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the step of each entry within its slice, `(nnz,)`, 0 if it is in no slice; and the steps per slice,
    `(slices,)`.

    The offset of an entry is its column minus its row's place in the slice. A step takes the next entry of each row
    whose offset exceeds the least of these offsets by at most a window. Windows are 0, 255, 65,535 and unlimited; each
    slice uses the window that needs the fewest bytes.

    Parameters
    ----------
    stretch
        Slices whose rows have at most `MAX_STEPS` entries each.
    columns
        int32 `(nnz,)`, ascending within rows.
    value_bytes
        Bytes per value in each slice, `(slices,)`.
    """
    steps, counts = np.zeros(len(columns), np.uint8), np.zeros(len(value_bytes), np.int64)
    for first in range(0, len(stretch.begins), BATCH):
        batch = stretch.part(slice(first, first + BATCH))
        batch_value_bytes = value_bytes[first : first + BATCH]
        # an unlimited window needs the fewest steps, and its bytes are an upper bound for the other windows
        assignment = _walk(batch, columns, None, np.full(len(batch_value_bytes), MAX_STEPS), steps)
        best, count = assignment.nbytes(batch, batch_value_bytes), assignment.counts.sum(axis=1)
        minimum = count * _step_bytes(batch, batch_value_bytes)
        for window in MAX_CODES:
            open_slices = np.flatnonzero(best > minimum)
            if not len(open_slices):
                break
            open_batch = batch.part(open_slices)
            max_steps = np.minimum(
                (best[open_slices] - 1) // _step_bytes(open_batch, batch_value_bytes[open_slices]), MAX_STEPS
            )
            walk = _walk(open_batch, columns, window, max_steps)
            nbytes = walk.nbytes(open_batch, batch_value_bytes[open_slices])
            is_better = walk.done & (nbytes < best[open_slices])
            _walk(open_batch.part(is_better), columns, window, max_steps[is_better], steps)
            best[open_slices[is_better]], count[open_slices[is_better]] = (
                nbytes[is_better],
                walk.counts[is_better].sum(axis=1),
            )
        counts[first : first + BATCH] = count
    return steps, counts


@dataclass(frozen=True)
class _Walked:
    """Result of `_walk`: for each slice, whether the allowed steps suffice, and its number of steps per code width."""

    done: NDArray[np.bool_]
    counts: NDArray[np.int64]

    def nbytes(self, stretch: SliceRange, value_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the bytes of each slice: bases, values and codes."""
        height = stretch.begins.shape[1]
        word_counts = sum(-(-self.counts[:, i] // CODES_OF_WORD[i]) for i in range(1, WIDTHS))
        return np.asarray(
            self.counts.sum(axis=1) * _step_bytes(stretch, value_bytes) + CODE_WORD_BYTES * height * word_counts
        )


def _step_bytes(stretch: SliceRange, value_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
    # a base takes as many bytes as a word of codes
    size: NDArray[np.int64] = CODE_WORD_BYTES + stretch.begins.shape[1] * value_bytes
    return size


def _walk(
    stretch: SliceRange,
    columns: NDArray[np.int32],
    window: int | None,
    max_steps: NDArray[np.int64],
    steps: NDArray[np.uint8] | None = None,
) -> _Walked:
    """Assign entries of slices to steps, up to `max_steps` per slice; if `steps` is given, store each entry's step."""
    is_done = np.ones(len(max_steps), bool)
    counts = np.zeros((len(max_steps), WIDTHS), np.int64)
    open_slices, next_entries, ends = np.arange(len(max_steps)), stretch.begins.copy(), stretch.ends
    rows_in_slice = np.arange(next_entries.shape[1], dtype=np.int32)
    step = 0
    while True:
        is_inside = next_entries < ends
        is_open = is_inside.any(axis=1)
        is_done[open_slices[is_open & (max_steps[open_slices] <= step)]] = False
        is_open &= max_steps[open_slices] > step
        if not is_open.all():
            open_slices, next_entries, ends, is_inside = (
                open_slices[is_open],
                next_entries[is_open],
                ends[is_open],
                is_inside[is_open],
            )
        if not len(open_slices):
            return _Walked(is_done, counts)
        offsets = np.where(is_inside, columns.take(next_entries, mode="clip") - rows_in_slice, FAR)
        base = offsets.min(axis=1)
        is_taken = is_inside if window is None else is_inside & (offsets - base[:, None] <= window)
        spread = np.where(is_taken, offsets, base[:, None]).max(axis=1) - base
        counts[open_slices, np.searchsorted(MAX_CODES, spread)] += 1
        if steps is not None:
            steps[next_entries[is_taken]] = step
        next_entries = next_entries + is_taken
        step += 1


@dataclass(frozen=True)
class EncodedColumns:
    """Encoded columns of steps: bases `(steps,)`, codes of the rows `(steps, height)`, and code widths.

    A width is an index into `CODE_BITS`. A row without an entry also has a code, which points to a valid column.
    """

    bases: NDArray[np.int32]
    codes: NDArray[np.int32]
    widths: NDArray[np.int64]


def code_columns(offsets: NDArray[np.int32], n: int) -> EncodedColumns:
    """Encode the columns of steps.

    Parameters
    ----------
    offsets
        `(steps, height)`: the column of a row's entry minus the row's place; `FAR` if there is no entry.
    n
        Number of columns of the matrix.
    """
    height = offsets.shape[1]
    bases = offsets.min(axis=1, initial=FAR)
    codes = np.where(offsets == FAR, 0, offsets - bases[:, None])
    # a row without an entry still reads x at code 0; near the first and last column this may be out of range
    edge = np.flatnonzero((bases < 0) | (bases > n - height))
    rows_in_slice = np.arange(height, dtype=np.int32)
    edge_distances = np.clip(bases[edge, None] + rows_in_slice, 0, n - 1) - rows_in_slice
    edge_codes = np.where(offsets[edge] == FAR, edge_distances, offsets[edge])
    bases[edge] = edge_codes.min(axis=1, initial=FAR)
    codes[edge] = edge_codes - bases[edge, None]
    return EncodedColumns(bases, codes, np.searchsorted(MAX_CODES, codes.max(axis=1, initial=0)))


class Groups:
    """The steps of slices, sorted within a slice by code width: one group holds a slice's steps of one width.

    Parameters
    ----------
    slice_of_step
        `(steps,)`, ascending.
    widths
        `(steps,)`.
    slices
        Number of slices.

    Attributes
    ----------
    order
        `(steps,)`: index of the step at each position.
    counts
        `(slices, WIDTHS)`: number of steps in each group.
    """

    def __init__(self, slice_of_step: NDArray[np.int64], widths: NDArray[np.int64], slices: int) -> None:
        group = slice_of_step * WIDTHS + widths
        self.order = np.argsort(group, kind="stable")
        self._group = group[self.order]
        counts = np.bincount(group, minlength=slices * WIDTHS)
        self.counts = counts.reshape(slices, WIDTHS)
        self._rank = np.arange(len(group)) - (np.cumsum(counts) - counts)[self._group]

    def write_codes(self, codes: NDArray[np.int32], height: int) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Return all codes packed into words, and each slice's first word as a position in units of `height` words."""
        word_counts = np.zeros_like(self.counts)
        for width in range(1, WIDTHS):
            word_counts[:, width] = -(-self.counts[:, width] // CODES_OF_WORD[width])
        starts = (np.cumsum(word_counts) - word_counts.ravel()).astype(np.int64)
        words = np.zeros((int(word_counts.sum()), height), np.uint32)
        for width in range(1, WIDTHS):
            codes_per_word = CODES_OF_WORD[width]
            group_steps = np.flatnonzero(self._group % WIDTHS == width)
            parts = words.view(UNSIGNED[CODE_WORD_BYTES // codes_per_word]).reshape(-1, height, codes_per_word)
            target_index = starts[self._group[group_steps]] + self._rank[group_steps] // codes_per_word
            parts[target_index, :, self._rank[group_steps] % codes_per_word] = codes[self.order[group_steps]]
        return words.ravel(), starts.reshape(-1, WIDTHS)[:, 0]

    def write_values(
        self, bits: NDArray[np.unsignedinteger], lookup: Lookup, in_table: NDArray[np.bool_]
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return values of steps `(steps, height)` as bytes, and each slice's first position in units of `height`.

        Parameters
        ----------
        in_table
            For each slice, whether values are stored as table indices, in words of `CODE_WORD_BYTES` bytes.
        """
        height, size = bits.shape[1], bits.itemsize
        byte_counts = np.where(
            in_table[:, None], CODE_WORD_BYTES * -(-self.counts // CODE_WORD_BYTES), self.counts * size
        )
        starts = np.cumsum(byte_counts) - byte_counts.ravel()
        value_bytes = np.zeros(int(byte_counts.sum()) * height, np.uint8)
        step_in_table = in_table[self._group // WIDTHS]
        group_steps = np.flatnonzero(step_in_table)
        target_index = starts[self._group[group_steps]] // CODE_WORD_BYTES + self._rank[group_steps] // CODE_WORD_BYTES
        indices: NDArray[Any] = lookup.indices_of(bits[self.order[group_steps]])
        value_bytes.reshape(-1, height, CODE_WORD_BYTES)[target_index, :, self._rank[group_steps] % CODE_WORD_BYTES] = (
            indices
        )
        group_steps = np.flatnonzero(~step_in_table)
        target_index = (starts[self._group[group_steps]] + self._rank[group_steps] * size) * height // size
        value_bytes.view(bits.dtype)[target_index[:, None] + np.arange(height)] = bits[self.order[group_steps]]
        return value_bytes, starts.reshape(-1, WIDTHS)[:, 0]


#: Flags of a slice: values are table indices; its rows are not consecutive; it is a piece of one row.
TABLED, MOVED, WHOLE = 1, 2, 4
FLAG_BITS = 3
#: Marks an empty place in a slice whose rows are not consecutive.
NOWHERE = 0xFFFF


@dataclass(frozen=True)
class Sliced:
    """A matrix in compressed sliced ELLPACK, ready to upload.

    Pieces come first, then the slices in the order of their rows. Steps of a slice are sorted by the number of bits
    per code; codes with equally many bits share words.

    Attributes
    ----------
    n, nnz, height, pieces
        Number of rows, of entries, of rows per slice, and of slices that are pieces.
    dtype
        Type of the values, float32 or float64.
    slices
        int32 `(slices, 4)`. Column 0: index of the slice's first base. 1: position of its first word, in units of
        `height` words. 2: 8 × position of its first value, in units of `height` bytes, plus its flags. 3: numbers of
        steps with codes of 0, 8, 16, 32 bits, one byte each, from the lowest byte on.
    bases
        int32: for each slice the bases of its steps. If the slice's rows are not consecutive, their positions in the
        window follow, 16 bits each. For a piece its row follows or, if the row has several pieces, -1 minus the index
        of the partial sum.
    words
        uint32: a word holds 4, 2 or 1 codes of a row; the words of the `height` rows are adjacent.
    values
        uint8: for each slice, step by step, one value of each row; or words of four table indices, arranged like
        `words`.
    table
        `(256,)`: zero, and the most frequent values.
    long_rows, first_parts
        int32: the rows with several pieces `(rows,)`, and the index of each one's first partial sum `(rows + 1,)`.
    steps
        Number of steps for each encoding, spelt like `none/8/table`.
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
        """Number of partial sums of pieces that a second launch adds up."""
        return int(self.first_parts[-1])

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays that a kernel reads, by name."""
        part_arrays = {"long_rows": self.long_rows, "first_parts": self.first_parts} if self.parts else {}
        return {
            "slices": self.slices,
            "bases": self.bases,
            "words": self.words,
            "values": self.values,
            "table": self.table,
            **part_arrays,
        }

    @property
    def nbytes(self) -> int:
        """Bytes of the matrix that a product reads, with padding and table; partial sums cost additional traffic."""
        return sum(array.nbytes for array in self.arrays.values())


def slice_up(
    slices: Slices, indptr: NDArray[np.integer], indices: NDArray[np.integer], values: NDArray[np.floating]
) -> Sliced:
    """Convert a square CSR matrix to slices, each in as few bytes as its own entries need.

    Raises `Unsupported`: there are more slots than 32-bit indices can count.

    Parameters
    ----------
    slices
        The rows of the matrix, assigned to slices.
    indptr, indices
        `(n + 1,)` and `(nnz,)`, ascending within rows.
    values
        `(nnz,)` in the working precision.
    """
    n, height = len(indptr) - 1, slices.height
    if n > FAR or slices.slots(np.diff(indptr)) * (values.itemsize + CODE_WORD_BYTES) >= 2 ** (32 - FLAG_BITS) * height:
        raise Unsupported(f"too large for 32-bit indices: {len(indices)} entries in slices of {height} rows")
    lengths = np.diff(indptr).astype(np.int64)
    bits = values.view(UNSIGNED[values.itemsize])
    lookup = Lookup(frequent_with_zero(bits))
    pieces = _Pieces.of(slices.apart, indptr)
    missing_counts = np.concatenate([[0], np.cumsum(~lookup.contains(bits))])
    missing_in_slices = np.append(missing_counts[indptr[1:]] - missing_counts[indptr[:-1]], 0)[slices.rows].sum(axis=1)
    in_table = np.concatenate([missing_counts[pieces.ends] == missing_counts[pieces.begins], missing_in_slices == 0])

    stretch = SliceRange(*(np.append(ends, 0)[slices.rows].astype(np.int32) for ends in (indptr[:-1], indptr[1:])))
    columns = indices.astype(np.int32, copy=False)
    value_bytes = np.where(in_table, 1, values.itemsize)
    step_of, slice_steps = assign_steps(stretch, columns, value_bytes[len(pieces.begins) :])
    steps = np.concatenate([-(-(pieces.ends - pieces.begins) // height), slice_steps])
    slot_of = _slots(slices, pieces, lengths, step_of, np.cumsum(steps) - steps)
    offsets = np.full((int(steps.sum()), height), FAR, np.int32)
    offsets.ravel()[slot_of] = columns - (slot_of % height).astype(np.int32)
    column_codes = code_columns(offsets, n)
    numbers: NDArray[Any] = np.zeros(offsets.shape, bits.dtype)
    numbers.ravel()[slot_of] = bits

    groups = Groups(np.repeat(np.arange(len(steps)), steps), column_codes.widths, len(steps))
    words, first_word = groups.write_codes(column_codes.codes, height)
    stored_values, first_value = groups.write_values(numbers, lookup, in_table)
    is_moved = np.concatenate([np.zeros(len(pieces.begins), bool), slices.moved])
    flags = TABLED * in_table + MOVED * is_moved
    flags[: len(pieces.begins)] += WHOLE
    bases, first_base = _bases(column_codes.bases[groups.order], steps, flags, pieces.targets, slices)
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
        stored_values,
        lookup.table.view(values.dtype),
        pieces.long_rows,
        pieces.first_parts,
        _encoding_counts(groups.counts, in_table),
    )


@dataclass(frozen=True)
class _Pieces:
    """Pieces of rows that are in no slice: begin and end of each piece's entries, and the target of its sum."""

    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    targets: NDArray[np.int32]
    long_rows: NDArray[np.int32]
    first_parts: NDArray[np.int32]

    @classmethod
    def of(cls, long_rows: NDArray[np.int64], indptr: NDArray[np.integer]) -> _Pieces:
        """Cut rows into pieces of `PIECE` entries; only rows with several pieces need partial sums."""
        first, row_ends = indptr[long_rows].astype(np.int64), indptr[long_rows + 1].astype(np.int64)
        count = -(-(row_ends - first) // PIECE)
        number = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        begins = np.repeat(first, count) + number * PIECE
        has_several_pieces = np.repeat(count > 1, count)
        parts = np.cumsum(has_several_pieces) - 1
        targets = np.where(has_several_pieces, -1 - parts, np.repeat(long_rows, count)).astype(np.int32)
        first_parts = np.concatenate([[0], np.cumsum(count[count > 1])]).astype(np.int32)
        ends = np.minimum(begins + PIECE, np.repeat(row_ends, count))
        return cls(begins, ends, targets, long_rows[count > 1].astype(np.int32), first_parts)


def _slots(
    slices: Slices,
    pieces: _Pieces,
    lengths: NDArray[np.int64],
    step_of: NDArray[np.uint8],
    first_step: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the slot of each entry, `(nnz,)`: slot s is place s % height of step s // height over all slices."""
    height = slices.height
    slots_of_rows = np.zeros(len(lengths), np.int64)
    has_row = slices.rows >= 0
    slots_of_places = first_step[len(pieces.begins) :, None] * height + np.arange(height)
    slots_of_rows[slices.rows[has_row]] = slots_of_places[has_row]
    slots = np.repeat(slots_of_rows, lengths)
    slots += step_of.astype(np.int64) * height
    # the entries of a piece are stored side by side
    sizes = pieces.ends - pieces.begins
    place_in_row = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    entries = np.repeat(pieces.begins, sizes) + place_in_row
    slots[entries] = np.repeat(first_step[: len(sizes)] * height, sizes) + place_in_row
    return slots


def _bases(
    bases: NDArray[np.int32],
    steps: NDArray[np.int64],
    flags: NDArray[np.int64],
    targets: NDArray[np.int32],
    slices: Slices,
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return all bases, with the additional data of pieces and non-consecutive slices, and each slice's first base."""
    height = slices.height
    order_words = np.where(flags & WHOLE, 1, np.where(flags & MOVED, height // 2, 0))
    starts = np.cumsum(steps + order_words) - (steps + order_words)
    base_words = np.empty(int((steps + order_words).sum()), np.int32)
    base_words[np.repeat(starts - (np.cumsum(steps) - steps), steps) + np.arange(len(bases))] = bases
    base_words[(starts + steps)[: len(targets)]] = targets
    moved_slices = np.flatnonzero(flags & MOVED)
    rows = slices.rows[moved_slices - len(targets)]
    row_positions = np.where(rows < 0, NOWHERE, rows % WINDOW).astype(np.uint16)
    base_words[(starts + steps)[moved_slices, None] + np.arange(height // 2)] = row_positions.view(np.int32)
    return base_words, starts


def _encoding_counts(counts: NDArray[np.int64], in_table: NDArray[np.bool_]) -> dict[str, int]:
    """Count the steps per encoding, with names like a chunk's encoding: rows (none), columns, values."""
    steps_of = {
        f"none/{bits}/{values}": int(counts[mask, width].sum())
        for values, mask in (("plain", ~in_table), ("table", in_table))
        for width, bits in enumerate(CODE_BITS)
    }
    return {name: count for name, count in steps_of.items() if count}
