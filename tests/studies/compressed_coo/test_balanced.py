import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.errors import ReproError, Unsupported
from repro.studies.compressed_coo.coordinate_format import Chunking, balance, count_slots, deinterleave, interleave
from support.balanced_matrices import Csr, chunkings, matrices


def deal_out(csr: Csr, chunking: Chunking) -> tuple[list[int], list[int], list[float]]:
    """Return rows (of each slot), columns and values, entry by entry as the format is described."""
    unit = 1 if chunking.split == "unpadded" else chunking.entries
    rows, columns, values = [], [], []

    def pad(row: int, multiple: int, least: int = 0) -> None:
        last = csr.indices[csr.indptr[row + 1] - 1] if csr.indptr[row + 1] > csr.indptr[row] else row
        count = max(-len(rows) % multiple, least)
        rows.extend([row] * count)
        columns.extend([last] * count)
        values.extend([0] * count)

    for row in range(csr.n):
        here = slice(csr.indptr[row], csr.indptr[row + 1])
        needed = -(-max(here.stop - here.start, 1) // unit) * unit
        if chunking.split == "aligned" and row and len(rows) % chunking.slots + needed > chunking.slots:
            pad(row - 1, chunking.slots)
        rows.extend([row] * (here.stop - here.start))
        columns.extend(csr.indices[here])
        values.extend(csr.values[here])
        pad(row, unit, least=unit if here.start == here.stop else 0)
        if chunking.split == "aligned" and needed > chunking.slots:
            pad(row, chunking.slots)
    pad(csr.n - 1, chunking.slots)
    return rows, columns, values


@settings(max_examples=60, deadline=None)
@given(csr=matrices(wide=False), chunking=chunkings)
def test_entries_are_dealt_out_as_described(csr, chunking):
    balanced = balance(*csr, chunking)
    rows, columns, values = deal_out(csr, chunking)
    np.testing.assert_array_equal(np.repeat(balanced.rows, chunking.unit), rows)
    np.testing.assert_array_equal(balanced.columns, columns)
    bits = f"u{csr.values.itemsize}"
    np.testing.assert_array_equal(balanced.values.view(bits), np.array(values, csr.values.dtype).view(bits))
    assert (balanced.n, balanced.nnz) == (csr.n, len(csr.indices))
    assert balanced.rows.dtype == balanced.columns.dtype == np.int32
    assert balanced.values.dtype == csr.values.dtype


@settings(max_examples=60, deadline=None)
@given(csr=matrices(), chunking=chunkings)
def test_a_balanced_matrix_multiplies_as_scipy_does(csr, chunking):
    values = np.random.default_rng(1).normal(size=len(csr.values))
    x = np.random.default_rng(2).normal(size=csr.n)
    balanced = balance(csr.n, csr.indptr, csr.indices, values, chunking)
    rows = np.repeat(balanced.rows, chunking.unit)
    y = np.bincount(rows, balanced.values * x[balanced.columns], minlength=csr.n)
    np.testing.assert_allclose(y, sp.csr_array((values, csr.indices, csr.indptr), (csr.n,) * 2) @ x, atol=1e-10)


@settings(max_examples=60, deadline=None)
@given(csr=matrices(), chunking=chunkings)
def test_slots_are_counted_without_packing(csr, chunking):
    balanced = balance(*csr, chunking)
    assert count_slots(np.diff(csr.indptr), chunking) == len(balanced.columns) == balanced.chunks * chunking.slots
    assert balanced.nbytes == (4 + csr.values.itemsize) * len(balanced.columns) + 4 * balanced.chunks * chunking.rows


@pytest.mark.parametrize(
    ("split", "slots"),
    [
        ("padded", 128 * 4),  # 1 + 65 + 1 + 1 + 1 threads of 4 entries
        ("unpadded", 64 * 4 * 2),  # 1 + 257 + 4 + 4 + 1 entries
        ("aligned", 64 * 4 * 4),  # a chunk for the first row, two for the second, one for the rest
    ],
)
def test_slots_by_hand(split, slots):
    assert count_slots(np.array([1, 257, 4, 4, 0]), Chunking(64, 4, split)) == slots


@pytest.mark.parametrize(("length", "chunks"), [(255, 2), (256, 2), (257, 3)])
def test_a_row_longer_than_a_chunk_shares_none(length, chunks):
    assert count_slots(np.array([length, 3, 5]), Chunking(64, 4, "aligned")) == chunks * 256


@pytest.mark.parametrize("split", ["padded", "unpadded", "aligned"])
def test_more_slots_than_an_index_counts_are_refused(split):
    # by what a row is said to have: nothing is packed before the count is known
    chunking = Chunking(256, 8, split)
    assert count_slots(np.array([2**31 - 3]), chunking) == 2**31
    with pytest.raises(Unsupported, match=f"too large for 32-bit indices: {2**31} slots"):
        balance(1, np.array([0, 2**31 - 3]), np.zeros(0, np.int32), np.zeros(0), chunking)


def test_slots_past_32_bits_are_counted():
    lengths = np.full(1 << 17, 1 << 15, np.int32)
    assert count_slots(lengths, Chunking(256, 8, "padded")) == 1 << 32
    assert count_slots(lengths + 1, Chunking(256, 8, "aligned")) == (1 << 32) + (1 << 17) * 2048


@settings(max_examples=40, deadline=None)
@given(chunking=chunkings, item=st.sampled_from(["u1", "u2", "i4", "f4", "f8"]), chunks=st.integers(0, 3))
def test_words_of_a_load_lie_side_by_side(chunking, item, chunks):
    threads, entries = chunking.threads, chunking.entries
    slots = np.random.default_rng(0).integers(0, 255, chunks * chunking.slots).astype(item)
    word = min(entries, 16 // slots.itemsize)
    expected = np.empty_like(slots)
    for t in range(threads):
        for k in range(entries):
            position = ((k // word) * threads + t) * word + k % word
            expected[position :: chunking.slots] = slots[t * entries + k :: chunking.slots]
    moved = interleave(slots, threads, entries)
    np.testing.assert_array_equal(moved, expected)
    assert moved.dtype == slots.dtype
    np.testing.assert_array_equal(deinterleave(moved, threads, entries), slots)


@pytest.mark.parametrize(
    ("threads", "entries", "split", "message"),
    [
        (512, 4, "padded", "number of threads"),
        (48, 4, "padded", "number of threads"),
        (0, 4, "padded", "number of threads"),
        (256, 3, "padded", "number of entries"),
        (256, 4, "striped", "unknown split"),
    ],
)
def test_other_chunks_are_refused(threads, entries, split, message):
    with pytest.raises(ReproError, match=message):
        Chunking(threads, entries, split)
