"""Balanced coordinates, plain and compressed.

The balanced format gives every thread the same number of entries. It is that of Aliaga, Anzt, Quintana-Ortí, Tomás,
Tsai, "Balanced and Compressed Coordinate Layout for the Sparse Matrix-Vector Product on GPUs" (Euro-Par 2020 workshops,
doi 10.1007/978-3-030-71593-9_7): a thread holds K entries of one row, so rows are padded to multiples of K; B threads
share a chunk. The splits `unpadded` and `aligned` are ours.

The compressed format stores each chunk in as few bytes as its own entries need: rows and columns as offsets from the
chunk's base, and values as indices into one table of the 256 most frequent values, if the table has all values of the
chunk.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from repro.codegen.templates import LOAD_BYTES
from repro.errors import ReproError, Unsupported

T = TypeVar("T", bound=np.generic)
Split = Literal["padded", "unpadded", "aligned"]
WARP = 32
#: Maximum threads per chunk: a chunk of `padded` has at most one row per thread, so that 8-bit row offsets suffice.
MAX_THREADS = 256
#: Searched numbers of entries per thread. Any power of two fills one load or several loads.
ENTRIES_PER_THREAD = (1, 2, 4, 8)
MAX_ENTRIES = 64


@dataclass(frozen=True)
class Chunking:
    """The assignment of a matrix's entries to threads and chunks. A slot is the place of an entry or of padding.

    Raises `ReproError`: other numbers of threads or entries, or another split.

    Attributes
    ----------
    threads
        Threads per chunk, B: a multiple of 32, at most 256.
    entries
        Slots per thread, K: a power of two, at most 64.
    split
        `padded` (the paper's): the slots of a thread belong to one row, so rows are padded. `unpadded`: every slot has
        its own row index. `aligned`: as padded, and a row is not split between chunks; a row longer than a chunk has
        chunks of its own.
    """

    threads: int
    entries: int
    split: Split

    def __post_init__(self) -> None:
        if self.threads not in range(WARP, MAX_THREADS + 1, WARP):
            raise ReproError(
                "invalid number of threads of a chunk",
                expected=f"a multiple of {WARP}, {MAX_THREADS} at most",
                actual=self.threads,
            )
        if not 0 < self.entries <= MAX_ENTRIES or self.entries & (self.entries - 1):
            raise ReproError(
                "invalid number of entries per thread",
                expected=f"a power of two, at most {MAX_ENTRIES}",
                actual=self.entries,
            )
        if self.split not in get_args(Split):
            raise ReproError("unknown split", expected=", ".join(get_args(Split)), actual=self.split)

    @property
    def slots(self) -> int:
        """Number of slots per chunk, B·K."""
        return self.threads * self.entries

    @property
    def rows(self) -> int:
        """Number of row indices per chunk."""
        return self.slots // self.unit

    @property
    def unit(self) -> int:
        """Number of adjacent slots that share a row index."""
        return 1 if self.split == "unpadded" else self.entries


@dataclass(frozen=True)
class Balanced:
    """A matrix in balanced coordinate format, on the host.

    Slot k of thread t in chunk c has the index (c·B + t)·K + k; slots are in the order of the rows.

    Attributes
    ----------
    n, nnz
        Number of rows (and of columns), and number of entries without padding.
    chunking
        How the entries are assigned to threads and chunks.
    rows
        int32, ascending without gaps: the row of each thread `(chunks·B,)`; if the split is `unpadded`, the row of
        each slot `(chunks·B·K,)`.
    columns, values
        int32 and float32 or float64, each `(chunks·B·K,)`. Padding has value 0 and the column of its row's last entry,
        or the diagonal's column if the row is empty.
    """

    n: int
    nnz: int
    chunking: Chunking
    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    values: NDArray[np.floating]

    @property
    def chunks(self) -> int:
        """Number of chunks in the matrix."""
        return len(self.columns) // self.chunking.slots

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, on the host as on the device."""
        return self.rows.nbytes + self.columns.nbytes + self.values.nbytes


def count_slots(row_lengths: NDArray[np.integer], chunking: Chunking) -> int:
    """Count the slots of a matrix with row lengths `(n,)`, including padding, without packing the matrix."""
    return int(_slots_of_rows(row_lengths, chunking).sum())


def balance(
    n: int, indptr: NDArray[np.integer], indices: NDArray[np.integer], values: NDArray[np.floating], chunking: Chunking
) -> Balanced:
    """Assign the entries of a square CSR matrix to threads and chunks.

    Raises `Unsupported`: more slots than 32-bit indices can count.

    Parameters
    ----------
    n
        Rows.
    indptr, indices
        `(n + 1,)` and `(nnz,)`.
    values
        `(nnz,)` in the working precision.
    chunking
        How to assign the entries to threads and chunks.
    """
    lengths = np.diff(indptr).astype(np.int64)
    occupied_slots = _slots_of_rows(lengths, chunking)
    total = int(occupied_slots.sum())
    if total > np.iinfo(np.int32).max:
        raise Unsupported(
            f"too large for 32-bit indices: {total} slots in balanced coordinates, {chunking.split}, "
            f"{chunking.threads} threads of {chunking.entries} entries"
        )
    pads = occupied_slots - lengths
    padding = np.repeat(np.cumsum(occupied_slots) - np.cumsum(pads), pads) + np.arange(total - len(indices))
    is_entry = np.ones(total, bool)
    is_entry[padding] = False
    last_rows = np.arange(n, dtype=np.int32)
    last_rows[lengths > 0] = indices[indptr[1:][lengths > 0] - 1]
    columns, slot_values = np.empty(total, np.int32), np.zeros(total, values.dtype)
    columns[padding], columns[is_entry], slot_values[is_entry] = np.repeat(last_rows, pads), indices, values
    rows = np.repeat(np.arange(n, dtype=np.int32), occupied_slots // chunking.unit)
    return Balanced(n, len(indices), chunking, rows, columns, slot_values)


def _slots_of_rows(row_lengths: NDArray[np.integer], chunking: Chunking) -> NDArray[np.int64]:
    """Return the number of slots for each row, `(n,)`; a chunk's last row includes the padding of the chunk."""
    lengths = row_lengths.astype(np.int64, copy=False)
    units = np.maximum(-(-lengths // chunking.unit), 1)
    ends = np.cumsum(units)
    last_rows = _last_rows(ends, chunking.rows) if chunking.split == "aligned" else np.arange(len(units))[-1:]
    units[last_rows] += -np.diff(ends[last_rows], prepend=0) % chunking.rows
    return units * chunking.unit


def _last_rows(ends: NDArray[np.int64], chunk: int) -> NDArray[np.int64]:
    """Return the rows to pad so that a chunk holds as many whole rows as fit; a longer row gets its own chunks."""
    n, view = len(ends), ends.data
    last_rows: list[int] = []
    row = previous_end = 0
    while row < n:
        # every row takes at least one unit, so a chunk holds at most `chunk` rows
        row = max(bisect_right(view, previous_end + chunk, row, min(row + chunk, n)), row + 1)
        previous_end = view[row - 1]
        last_rows.append(row - 1)
    return np.array(last_rows, np.int64)


def interleave(array: NDArray[T], threads: int, entries: int) -> NDArray[T]:
    """Bring slots `(chunks·threads·entries,)` from row-major order into the order of coalesced loads.

    A load is at most 16 bytes, E slots: slot k of thread t moves to ((k // E)·threads + t)·E + k % E within its chunk.
    """
    word_count = _word_count(array, entries)
    if word_count == 1:
        return array
    return array.reshape(-1, threads, word_count, entries // word_count).swapaxes(1, 2).ravel()


def deinterleave(array: NDArray[T], threads: int, entries: int) -> NDArray[T]:
    """Bring slots back into row-major order; the inverse of `interleave`."""
    word_count = _word_count(array, entries)
    if word_count == 1:
        return array
    return array.reshape(-1, word_count, threads, entries // word_count).swapaxes(1, 2).ravel()


def _word_count(array: NDArray[Any], entries: int) -> int:
    """Return the number of loads for a thread's slots."""
    return entries // min(entries, LOAD_BYTES // array.itemsize)


#: Bytes per offset for each code; a chunk with a single row stores no row offsets.
ROW_BYTES = (0, 1, 2)
COLUMN_BYTES = (1, 2, 4)
#: Bit positions of the codes in a chunk's encoding byte, rows lowest and values highest; kernels decode it likewise.
ROWS_MASK, COLUMNS_SHIFT, COLUMNS_MASK, VALUES_SHIFT = 0b11, 2, 0b11, 4
UNSIGNED: dict[int, type[np.unsignedinteger]] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
TABLE = 256
#: Alignment of sections and chunks in bytes, the widest load; items of type `void` are copied without conversion.
UNIT = np.dtype("V16")
#: Number of values that are sampled to find the frequent ones.
SAMPLE = 1 << 16
#: Bits of a hash: for 256 values, at least 3 of 4 random multipliers give no collision among 2^18 places.
HASH_BITS = 18


class Encoding(NamedTuple):
    """The encoding byte of a chunk: one code each for rows, columns and values.

    Rows: 0 for no offsets (the chunk has a single row), 1 and 2 for offsets of 8 and 16 bits from the first row.
    Columns: 0, 1, 2 for offsets of 8, 16, 32 bits from the smallest column. Values: 0 for plain values, 1 for indices
    of 8 bits into the table.
    """

    rows: int
    columns: int
    values: int

    @classmethod
    def of(cls, byte: int) -> Encoding:
        """Decode an encoding byte."""
        return cls(byte & ROWS_MASK, byte >> COLUMNS_SHIFT & COLUMNS_MASK, byte >> VALUES_SHIFT)

    @property
    def byte(self) -> int:
        """The encoding as stored."""
        return self.rows | self.columns << COLUMNS_SHIFT | self.values << VALUES_SHIFT

    def __str__(self) -> str:
        rows = ("none", "8", "16")[self.rows]
        return f"{rows}/{8 * COLUMN_BYTES[self.columns]}/{('plain', 'table')[self.values]}"

    def sections(self, chunking: Chunking, value_bytes: int) -> tuple[int, int, int]:
        """Return the bytes of a chunk's rows, columns and values: multiples of 16, since B is a multiple of 32."""
        return (
            ROW_BYTES[self.rows] * chunking.rows,
            COLUMN_BYTES[self.columns] * chunking.slots,
            (1 if self.values else value_bytes) * chunking.slots,
        )


def spelt(byte: int) -> str:
    """Return the name of an encoding as rows/columns/values, for example `8/16/table` or `none/32/plain`."""
    return str(Encoding.of(byte))


@dataclass(frozen=True)
class Compressed:
    """A matrix in compressed coordinate format, ready to upload.

    Attributes
    ----------
    n, nnz, chunking
        As in `Balanced`.
    dtype
        Type of the values, float32 or float64.
    blob
        uint8 `(bytes,)`: rows, columns and values of each chunk, one chunk after the other. The slots of a section are
        interleaved (`interleave`) by its item size. Rows have one byte per thread in order or, if `unpadded`, one or
        two bytes per slot.
    chunks
        int32 `(chunks, 4)`: start in the blob in units of 16 bytes, first row, smallest column, byte of the encoding.
    table
        `(256,)`: the most frequent values, the most frequent first, zeros after the last.
    long_rows
        int32 `(rows,)`: the rows of chunks with a single row, ascending and distinct.
    """

    n: int
    nnz: int
    chunking: Chunking
    dtype: np.dtype[np.floating]
    blob: NDArray[np.uint8]
    chunks: NDArray[np.int32]
    table: NDArray[np.floating]
    long_rows: NDArray[np.int32]

    @property
    def nbytes(self) -> int:
        """Bytes that a product reads: all arrays, but `long_rows` only for split `aligned`."""
        rows = self.long_rows.nbytes if self.chunking.split == "aligned" else 0
        return self.blob.nbytes + self.chunks.nbytes + self.table.nbytes + rows

    def encodings(self) -> dict[str, int]:
        """Count the chunks for each encoding that occurs."""
        codes, counts = np.unique(self.chunks[:, 3], return_counts=True)
        return {spelt(int(byte)): int(count) for byte, count in zip(codes, counts, strict=True)}


def compress(balanced: Balanced) -> Compressed:
    """Encode every chunk in as few bytes as possible.

    The table holds all values if there are at most 256 distinct bit patterns (0.0 differs from -0.0, as do NaNs); if
    there are more, the most frequent of 65,536 values drawn at random.
    """
    chunking, value_bytes = balanced.chunking, balanced.values.itemsize
    count = balanced.chunks
    rows = balanced.rows.reshape(count, chunking.rows)
    columns = balanced.columns.reshape(count, chunking.slots)
    bits = balanced.values.view(UNSIGNED[value_bytes]).reshape(count, chunking.slots)
    lookup = Lookup(frequent_values(bits.ravel()))

    chunks = np.zeros((count, 4), np.int32)
    chunks[:, 1], chunks[:, 2] = rows[:, 0], columns.min(axis=1)
    spread = columns.max(axis=1) - chunks[:, 2]
    chunks[:, 3] = _narrowest(rows[:, -1] - rows[:, 0], (0, 0xFF))
    chunks[:, 3] |= _narrowest(spread, (0xFF, 0xFFFF)) << COLUMNS_SHIFT
    chunks[:, 3] |= lookup.contains(bits).all(axis=1).astype(np.int32) << VALUES_SHIFT

    encodings = [Encoding.of(int(byte)) for byte in np.unique(chunks[:, 3])]
    units = np.zeros(count, np.int64)
    for encoding in encodings:
        units[chunks[:, 3] == encoding.byte] = sum(encoding.sections(chunking, value_bytes)) // UNIT.itemsize
    # no overflow: 2^31 slots of 14 bytes, the widest, take fewer than 2^31 units
    chunks[:, 0] = np.cumsum(units) - units

    blob = np.empty(units.sum(), UNIT)
    for encoding in encodings:
        chunk_mask = chunks[:, 3] == encoding.byte
        sections = encoding.sections(chunking, value_bytes)
        block = np.empty((np.count_nonzero(chunk_mask), sum(sections)), np.uint8)
        parts = np.split(block, np.cumsum(sections)[:-1], axis=1)
        if encoding.rows:
            offsets = _subtract(rows[chunk_mask], chunks[chunk_mask, 1], ROW_BYTES[encoding.rows])
            # padded chunks store one row per thread, which is in thread order already
            _write(parts[0], offsets, chunking, chunking.entries // chunking.unit)
        offsets = _subtract(columns[chunk_mask], chunks[chunk_mask, 2], COLUMN_BYTES[encoding.columns])
        _write(parts[1], offsets, chunking, chunking.entries)
        patterns = bits[chunk_mask]
        _write(parts[2], lookup.indices_of(patterns) if encoding.values else patterns, chunking, chunking.entries)
        blob[np.repeat(chunk_mask, units)] = block.view(UNIT).ravel()

    one_row = chunks[:, 3] & ROWS_MASK == 0
    return Compressed(
        balanced.n,
        balanced.nnz,
        chunking,
        balanced.values.dtype,
        blob.view(np.uint8),
        chunks,
        lookup.table.view(balanced.values.dtype),
        np.unique(chunks[one_row, 1]),
    )


def decompress(matrix: Compressed) -> Balanced:
    """Decode every chunk; the inverse of `compress`, bit for bit."""
    chunking, chunks, value_bytes = matrix.chunking, matrix.chunks, matrix.dtype.itemsize
    count, slots = len(chunks), chunking.slots
    rows = np.empty((count, chunking.rows), np.int32)
    columns, bits = np.empty((count, slots), np.int32), np.empty((count, slots), UNSIGNED[value_bytes])
    blob, table = matrix.blob.view(UNIT), matrix.table.view(bits.dtype)
    units = np.diff(chunks[:, 0], append=len(blob))
    for byte in np.unique(chunks[:, 3]):
        encoding = Encoding.of(int(byte))
        chunk_mask = chunks[:, 3] == byte
        sections = encoding.sections(chunking, value_bytes)
        block = blob[np.repeat(chunk_mask, units)].view(np.uint8).reshape(-1, sum(sections))
        parts = np.split(block, np.cumsum(sections)[:-1], axis=1)
        rows[chunk_mask] = chunks[chunk_mask, 1, None]
        if encoding.rows:
            rows[chunk_mask] += _read(parts[0], ROW_BYTES[encoding.rows], chunking, chunking.entries // chunking.unit)
        offsets = _read(parts[1], COLUMN_BYTES[encoding.columns], chunking, chunking.entries)
        columns[chunk_mask] = offsets + chunks[chunk_mask, 2, None]
        patterns = _read(parts[2], 1 if encoding.values else value_bytes, chunking, chunking.entries)
        bits[chunk_mask] = table[patterns] if encoding.values else patterns
    values: NDArray[Any] = bits.ravel().view(matrix.dtype)
    return Balanced(matrix.n, matrix.nnz, chunking, rows.ravel(), columns.ravel(), values)


def _narrowest(spread: NDArray[np.int32], max_values: tuple[int, int]) -> NDArray[np.int32]:
    """Return the code (0, 1 or 2) of the narrowest offsets that can represent `spread`."""
    return np.searchsorted(max_values, spread).astype(np.int32)


def _subtract(numbers: NDArray[np.int32], base: NDArray[np.int32], item_bytes: int) -> NDArray[np.unsignedinteger]:
    difference = np.empty(numbers.shape, UNSIGNED[item_bytes])
    np.subtract(numbers, base[:, None], out=difference, casting="unsafe")
    return difference


def _write(part: NDArray[np.uint8], numbers: NDArray[Any], chunking: Chunking, entries: int) -> None:
    part[:] = interleave(numbers.ravel(), chunking.threads, entries).view(np.uint8).reshape(part.shape)


def _read(part: NDArray[np.uint8], item_bytes: int, chunking: Chunking, entries: int) -> NDArray[np.unsignedinteger]:
    numbers = np.ascontiguousarray(part).ravel().view(UNSIGNED[item_bytes])
    return deinterleave(numbers, chunking.threads, entries).reshape(len(part), -1)


class Lookup:
    """Look-up of the positions of bit patterns in a table, by hashing.

    The hash is multiplicative and maps no two patterns of the table to one place (Dietzfelbinger et al., "A reliable
    randomized algorithm for the closest-pair problem", 1997). A binary search would take eight times as long for
    patterns in random order.

    Parameters
    ----------
    table
        Distinct bit patterns, 256 at most.
    """

    def __init__(self, table: NDArray[np.unsignedinteger]) -> None:
        self.table = np.zeros(TABLE, table.dtype)
        self.table[: len(table)] = table
        self.shift = table.dtype.type(8 * table.itemsize - HASH_BITS)
        self.index_of_hash = np.zeros(1 << HASH_BITS, np.uint8)
        random = np.random.default_rng(0)
        while True:
            self.factor = random.integers(0, np.iinfo(table.dtype).max, dtype=table.dtype) | table.dtype.type(1)
            self.index_of_hash[self._hash(table)] = np.arange(len(table))
            if (self.indices_of(table) == np.arange(len(table))).all():
                return

    def _hash(self, bits: NDArray[np.unsignedinteger]) -> NDArray[np.unsignedinteger]:
        hashes: NDArray[np.unsignedinteger] = bits * self.factor
        hashes >>= self.shift
        return hashes

    def indices_of(self, bits: NDArray[np.unsignedinteger]) -> NDArray[np.uint8]:
        """Return the position of each bit pattern in the table; an arbitrary position if the table lacks it."""
        return self.index_of_hash.take(self._hash(bits))

    def contains(self, bits: NDArray[np.unsignedinteger]) -> NDArray[np.bool_]:
        """Return which bit patterns are in the table."""
        return np.asarray(self.table.take(self.indices_of(bits)) == bits)


def frequent_values(bits: NDArray[np.unsignedinteger]) -> NDArray[np.unsignedinteger]:
    """Return the most frequent bit patterns, at most 256, the most frequent first."""
    if len(bits) <= SAMPLE:
        return _most_frequent(bits, TABLE)
    table = _most_frequent(bits[np.random.default_rng(0).integers(0, len(bits), SAMPLE)], TABLE)
    if len(table) < TABLE:
        missing_bits = bits[~Lookup(table).contains(bits)]
        table = np.concatenate([table, _most_frequent(missing_bits, TABLE - len(table))])
    return table


def frequent_with_zero(bits: NDArray[np.unsignedinteger]) -> NDArray[np.unsignedinteger]:
    """Return zero, the value of padding, and then the most frequent other bit patterns; at most 256 in total."""
    frequent = frequent_values(bits)
    return np.concatenate([np.zeros(1, bits.dtype), frequent[frequent != 0]])[:TABLE]


def _most_frequent(bits: NDArray[np.unsignedinteger], count: int) -> NDArray[np.unsignedinteger]:
    patterns, counts = np.unique(bits, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return np.asarray(patterns[order[:count]])
