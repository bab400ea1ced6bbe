from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings

from repro.studies.compressed_coo.coordinate_format import (
    Balanced,
    Chunking,
    Compressed,
    Encoding,
    balance,
    compress,
    decompress,
    frequent_with_zero,
    spelt,
)
from support.balanced_matrices import Csr, chunkings, cube, five_point, matrices, one_chunk
from support.python_calls import python_calls


def assert_equal(found: Balanced, expected: Balanced) -> None:
    """Compare bit for bit."""
    assert (found.n, found.nnz, found.chunking) == (expected.n, expected.nnz, expected.chunking)
    for name in ("rows", "columns", "values"):
        a, b = getattr(found, name), getattr(expected, name)
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a.view(f"u{a.itemsize}"), b.view(f"u{b.itemsize}"))


def read_chunk(compressed: Compressed, chunk: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Read rows (of each slot), columns and values of a chunk as a kernel does: thread by thread, by position."""
    start, row, column, byte = (int(number) for number in compressed.chunks[chunk])
    threads, entries = compressed.chunking.threads, compressed.chunking.entries
    t, k = np.divmod(np.arange(threads * entries), entries)
    place = 16 * start

    def section(item: str, interleaved: bool = True) -> np.ndarray:
        nonlocal place
        size = np.dtype(item).itemsize
        word = min(entries, 16 // size)
        at = ((k // word) * threads + t) * word + k % word if interleaved else t
        raw = compressed.blob[place : place + size * (at.max() + 1)].tobytes()
        place += len(raw)
        assert place % 16 == 0
        return np.frombuffer(raw, item)[at]

    rows = np.full(len(t), row)
    if byte % 4:
        rows += section(("", "u1", "u2")[byte % 4], interleaved=compressed.chunking.split == "unpadded")
    columns = column + section(("u1", "u2", "u4")[byte // 4 % 4]).astype(np.int64)
    if byte // 16:
        return rows, columns, compressed.table[section("u1")]
    return rows, columns, section(compressed.dtype.str)


@settings(max_examples=100, deadline=None)
@given(csr=matrices(), chunking=chunkings)
def test_decompressing_gives_the_same_bits(csr, chunking):
    balanced = balance(*csr, chunking)
    compressed = compress(balanced)
    assert_equal(decompress(compressed), balanced)
    assert sum(compressed.encodings().values()) == balanced.chunks
    # no section is longer than in plain coordinates; starts, bases, bytes, table and long rows come on top
    assert compressed.nbytes <= balanced.nbytes + 16 * balanced.chunks + compressed.table.nbytes + 4 * balanced.chunks


@settings(max_examples=60, deadline=None)
@given(csr=matrices(), chunking=chunkings)
def test_a_kernel_finds_every_slot(csr, chunking):
    balanced = balance(*csr, chunking)
    compressed = compress(balanced)
    slots = chunking.slots
    for chunk in {0, balanced.chunks // 2, balanced.chunks - 1}:
        here = slice(chunk * slots, (chunk + 1) * slots)
        rows, columns, values = read_chunk(compressed, chunk)
        np.testing.assert_array_equal(rows, np.repeat(balanced.rows, chunking.unit)[here])
        np.testing.assert_array_equal(columns, balanced.columns[here])
        bits = f"u{values.itemsize}"
        np.testing.assert_array_equal(values.view(bits), balanced.values[here].view(bits))


@settings(max_examples=40, deadline=None)
@given(csr=matrices(), chunking=chunkings)
def test_long_rows_are_those_of_chunks_of_one_row(csr, chunking):
    balanced = balance(*csr, chunking)
    rows = balanced.rows.reshape(balanced.chunks, chunking.rows)
    expected = sorted({int(row[0]) for row in rows if (row == row[0]).all()})
    assert compress(balanced).long_rows.tolist() == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rows", "columns", "values"), list(product(range(3), range(3), range(2))))
def test_every_encoding_is_chosen_where_nothing_shorter_does(rows, columns, values, dtype):
    chunking = Chunking(64, 8, "unpadded" if rows == 2 else "padded")
    span = (0, 63, 256)[rows]
    row = np.linspace(7, 7 + span, chunking.rows).astype(np.int32)
    column = np.linspace(1000, 1000 + (0xFF, 0xFFFF, 0x10000)[columns], chunking.slots).astype(np.int32)
    value = np.linspace(1, 2, chunking.slots if values == 0 else 256).astype(dtype)
    balanced = one_chunk(row, column, np.resize(value, chunking.slots), chunking)
    compressed = compress(balanced)
    encoding = Encoding(rows, columns, values)
    assert compressed.encodings() == {str(encoding): 1}
    assert compressed.chunks.tolist() == [[0, 7, 1000, rows + 4 * columns + 16 * values]]
    item = np.dtype(dtype).itemsize
    assert len(compressed.blob) == (0, 64, 2 * 512)[rows] + 512 * 2**columns + 512 * (1 if values else item)
    assert compressed.nbytes == len(compressed.blob) + 16 + 256 * item
    assert_equal(decompress(compressed), balanced)


@pytest.mark.parametrize(
    ("rows", "columns", "values", "expected"),
    [
        (255, 255, 256, "8/8/table"),
        (256, 255, 256, "16/8/table"),
        (255, 256, 256, "8/16/table"),
        (255, 65535, 256, "8/16/table"),
        (255, 65536, 256, "8/32/table"),
        (255, 255, 257, "8/8/plain"),
        (511, 2**31 - 2, 512, "16/32/plain"),
    ],
)
def test_the_last_number_that_fits(rows, columns, values, expected):
    chunking = Chunking(64, 8, "unpadded")
    slots = np.arange(chunking.slots)
    balanced = one_chunk(np.minimum(slots, rows), slots // 511 * columns, slots % values + 0.5, chunking)
    compressed = compress(balanced)
    assert compressed.encodings() == {expected: 1}
    assert_equal(decompress(compressed), balanced)


def test_each_chunk_has_an_encoding_of_its_own():
    # 64 rows of one entry, a row of 150 with columns far apart, 64 rows of one entry, the last 41 of them distinct
    lengths = [1] * 64 + [150] + [1] * 64
    columns = [*range(64), *range(0, 150_000, 1000), *range(64)]
    values = np.concatenate([np.ones(64 + 150 + 23), np.linspace(2, 3, 41)])
    n = 150_000
    indptr = np.concatenate([[0], np.cumsum(lengths), np.full(n - len(lengths), len(columns))])
    balanced = balance(n, indptr, np.array(columns, np.int32), values, Chunking(64, 1, "aligned"))
    compressed = compress(balanced)
    assert [spelt(byte) for byte in compressed.chunks[:5, 3]] == [
        "8/8/table",
        "none/16/table",
        "none/16/table",
        "none/16/table",
        "8/8/table",
    ]
    # in units of 16 bytes, 64 slots each: 1 + 1 + 1 bytes a slot, then 0 + 2 + 1
    assert compressed.chunks[:5, 0].tolist() == [0, 12, 24, 36, 48]
    assert compressed.chunks[:5, 1].tolist() == [0, 64, 64, 64, 65]
    assert compressed.chunks[:5, 2].tolist() == [0, 0, 64_000, 128_000, 0]
    assert compressed.long_rows.tolist() == [64]
    assert compressed.nbytes == len(compressed.blob) + 16 * len(compressed.chunks) + 256 * 8 + 4
    assert_equal(decompress(compressed), balanced)


def test_bytes_by_hand():
    # tridiagonal, 100 rows in twos: 298 entries pad to 400, two chunks of 64·4 slots
    n = 100
    lengths = np.full(n, 3)
    lengths[[0, -1]] = 2
    columns = np.concatenate([np.arange(max(i - 1, 0), min(i + 2, n)) for i in range(n)]).astype(np.int32)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    values = np.random.default_rng(0).integers(1, 3, len(columns)).astype(np.float64)
    balanced = balance(n, indptr, columns, values, Chunking(64, 4, "padded"))
    assert balanced.nbytes == 2 * (64 * 4 + 256 * (4 + 8))
    compressed = compress(balanced)
    assert compressed.encodings() == {"8/8/table": 2}
    assert compressed.nbytes == 2 * (64 + 256 + 256 + 16) + 256 * 8
    assert sorted(compressed.table[:3]) == [0, 1, 2]
    assert not compressed.table[3:].any()


def test_bit_patterns_are_told_apart():
    chunking = Chunking(64, 1, "padded")
    zeros = np.array([0.0, -0.0], np.float64).repeat(32)
    nans = np.array([0x7FF8000000000000, 0x7FF8000000000001, 0xFFF0000000000001], np.uint64).view(np.float64)
    slots = np.arange(64)
    for values, distinct in ((zeros, 2), (np.resize(nans, 64), 3)):
        balanced = one_chunk(slots, slots, values, chunking)
        compressed = compress(balanced)
        assert compressed.encodings() == {"8/8/table": 1}
        assert len(np.unique(compressed.table[:distinct].view(np.uint64))) == distinct
        assert_equal(decompress(compressed), balanced)


def diagonal(values: np.ndarray) -> Csr:
    """Return a diagonal matrix."""
    n = len(values)
    return Csr(n, np.arange(n + 1), np.arange(n, dtype=np.int32), values)


def test_all_values_are_in_the_table_where_there_are_256():
    # more than are drawn: 254 common ones, the padding's zeros, and one that occurs twice
    values = np.resize(np.arange(1.0, 255.0), 300_000)
    values[[123_457, 123_458]] = 1000
    compressed = compress(balance(*diagonal(values), Chunking(256, 4, "unpadded")))
    assert set(compressed.table) == {0, *range(1, 255), 1000}
    assert compressed.encodings() == {"16/16/table": 293}
    # with one more, the chunk that holds the rarest is plain
    values[200_000] = 2000
    compressed = compress(balance(*diagonal(values), Chunking(256, 4, "unpadded")))
    assert compressed.encodings() == {"16/16/table": 292, "16/16/plain": 1}
    assert 2000 not in compressed.table


@pytest.mark.parametrize("zeros", [0, 1, 9])
def test_zero_is_first_in_a_table_and_the_most_frequent_follow(zeros):
    bits = np.repeat(np.arange(300, dtype=np.uint32), [zeros, *range(300, 1, -1)])
    np.testing.assert_array_equal(frequent_with_zero(bits), np.arange(256))
    assert frequent_with_zero(np.array([7, 0, 3, 3], np.uint64)).tolist() == [0, 3, 7]


def test_frequent_values_are_in_the_table_among_many():
    values = np.random.default_rng(3).normal(size=300_000)
    values[: 128 * 1024] = np.resize([3.0, 1.0, 2.0, 1.0], 128 * 1024)
    compressed = compress(balance(*diagonal(values), Chunking(256, 4, "unpadded")))
    assert compressed.table[0] == 1
    assert set(compressed.table[1:3]) == {2, 3}
    assert compressed.encodings()["16/16/table"] == 128
    assert_equal(decompress(compressed), balance(*diagonal(values), Chunking(256, 4, "unpadded")))


@pytest.mark.medium
@pytest.mark.parametrize(
    "chunking", [Chunking(256, 4, "padded"), Chunking(256, 8, "unpadded"), Chunking(64, 1, "aligned")]
)
@pytest.mark.parametrize("make", [lambda: five_point(240), lambda: cube(24)], ids=["5-point", "27-point"])
def test_compression_has_no_loop_over_entries(make, chunking):
    csr = make()
    assert python_calls(lambda: compress(balance(*csr, chunking))) < len(csr.values) / 8
