"""Matrices in compressed sliced ELLPACK, read back; and which bytes they take."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.errors import Unsupported
from repro.studies.compressed_coo import sliced_format
from repro.studies.compressed_coo.sliced_format import MAX_STEPS, PIECE, make_slices
from support.balanced_matrices import Csr, cube, five_point, matrices
from support.python_calls import python_calls
from support.sliced_reader import packed, read

HEIGHTS = (8, 16, 32)


def entries(rows: np.ndarray, columns: np.ndarray, values: np.ndarray) -> list[np.ndarray]:
    """Return entries in an order that depends on them alone."""
    bits = values.view(f"u{values.itemsize}")
    order = np.lexsort((bits, columns, rows))
    return [rows[order], columns[order], bits[order]]


def assert_same(csr: Csr, height: int) -> sliced_format.Sliced:
    """Check that a matrix, packed, has each of its entries once, and nothing else but zeros, at columns that exist."""
    held = packed(csr, height)
    rows, columns, values, written = read(held)
    assert sorted(written) == list(range(csr.n))
    assert ((columns >= 0) & (columns < csr.n)).all()
    lengths = np.diff(csr.indptr)
    expected = np.repeat(np.arange(csr.n), lengths), csr.indices, csr.values
    bits = values.view(f"u{values.itemsize}")
    empty = (bits == 0) | (rows < 0)
    assert (bits[rows < 0] == 0).all()
    zero = csr.values.view(bits.dtype) == 0
    for found, wanted in zip(
        entries(rows[~empty], columns[~empty], values[~empty]), entries(*(a[~zero] for a in expected)), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)
    # zeros of the matrix's own are slots like all others
    assert len(values) >= len(csr.values)
    assert held.nbytes == sum(array.nbytes for array in held.arrays.values())
    assert sum(held.steps.values()) * height == len(values)
    return held


@settings(max_examples=60, deadline=None)
@given(csr=matrices(), height=st.sampled_from(HEIGHTS))
def test_every_entry_is_there_once(csr, height):
    assert_same(csr, height)


@pytest.mark.parametrize("height", HEIGHTS)
@pytest.mark.parametrize("n", [1, 2, 7, 33, 1025])
@pytest.mark.parametrize("offset", [0, 3, -1])
def test_columns_near_the_ends_are_read_where_there_are_some(height, n, offset):
    """One entry in most rows: the places of the others, and those behind the last row, would be outside."""
    rows = np.arange(n)
    there = (rows + offset >= 0) & (rows + offset < n) & (rows % 5 != 1)
    indptr = np.concatenate([[0], np.cumsum(there)])
    columns = (rows + offset)[there].astype(np.int32)
    assert_same(Csr(n, indptr, columns, np.linspace(1, 2, len(columns))), height)


def uneven(lengths: list[int], n: int, seed: int = 0) -> Csr:
    """Return a matrix whose first rows have those lengths, the others one entry, with distinct values."""
    random = np.random.default_rng(seed)
    lengths = [*lengths, *[1] * (n - len(lengths))]
    columns = np.concatenate([np.sort(random.choice(n, length, replace=False)) for length in lengths])
    return Csr(n, np.concatenate([[0], np.cumsum(lengths)]), columns.astype(np.int32), random.normal(size=len(columns)))


@pytest.mark.parametrize("height", HEIGHTS)
def test_long_rows_are_cut_into_pieces(height):
    lengths = [3, PIECE, 2, PIECE + 1, 4, 2 * PIECE, 1, MAX_STEPS + 1]
    csr = uneven(lengths, 3000)
    held = assert_same(csr, height)
    assert held.pieces == 1 + 2 + 2 + 1
    assert held.long_rows.tolist() == [3, 5]
    assert held.first_parts.tolist() == [0, 2, 4]
    # pieces are no wider than their entries, and the slices no longer than the rows that are left
    assert len(held.values) / 8 < sum(lengths) + 6 * height + 3000 + 1024


def test_a_few_long_rows_do_not_fill_up_slices():
    """A few slices have a row of 200 among rows of 3: these are pieces, and no slice has more than 3 steps."""
    lengths = np.where(np.arange(4096) % 500 == 0, 200, 3)
    slices = make_slices(lengths, 32)
    assert slices.apart.tolist() == np.flatnonzero(lengths == 200).tolist()
    assert slices.slots(lengths) < 1.03 * lengths.sum()
    # with many of them it is better to sort
    many = make_slices(np.where(np.arange(4096) % 40 == 0, 200, 3), 32)
    assert len(many.apart) == 0
    assert many.moved.all()
    # and where all rows are as long none is apart
    assert len(make_slices(np.full(4096, 200), 32).apart) == 0


def test_windows_are_sorted_where_that_pays():
    even, odd = np.full(1024, 7), np.random.default_rng(0).integers(1, 30, 1024)
    slices = make_slices(np.concatenate([even, odd, even[:100]]), 16)
    assert slices.moved.tolist() == [False] * 64 + [True] * 64 + [False] * 6 + [True]  # the last has fewer rows
    assert slices.rows[-1].tolist() == [*range(2144, 2148), *[-1] * 12]
    lengths = np.append(np.concatenate([even, odd, even[:100]]), 0)[slices.rows]
    assert (np.diff(lengths[64:128].ravel()) <= 0).all()


@pytest.mark.parametrize("height", HEIGHTS)
def test_bytes_of_a_stencil_by_hand(height):
    """All steps of a five-point star have the same neighbour of all rows: values, bases and descriptions are all."""
    points = 64
    csr = five_point(points)
    held = assert_same(csr._replace(values=np.random.default_rng(0).normal(size=len(csr.values))), height)
    slices = points * points // height
    # in the first and the last row of points a neighbour is missing, and none at their ends costs a step of its own
    steps = 5 * slices - 2 * points // height
    assert sum(held.steps.values()) == steps
    coded = held.steps.get("none/8/plain", 0)
    assert coded <= 2
    assert held.nbytes == steps * (8 * height + 4) + 16 * slices + 4 * height * coded + 256 * 8


@pytest.mark.parametrize(("reach", "bits"), [(0, 0), (255, 8), (256, 16), (65_535, 16), (65_536, 32)])
def test_codes_are_as_short_as_can_be(reach, bits):
    """A column alternates between two ends; with one entry a row, so that no more steps could make codes shorter."""
    n = 70_000
    lengths = np.zeros(n, int)
    lengths[1024:1032] = 1
    lengths[2048:8192] = 1  # whose values fill the table
    columns = np.concatenate([100 + np.arange(8) + np.arange(8) % 2 * reach, np.arange(6144)]).astype(np.int32)
    values = np.concatenate([np.linspace(1, 2, 8), np.resize(np.arange(3.0, 258), 6144)])
    held = assert_same(Csr(n, np.concatenate([[0], np.cumsum(lengths)]), columns, values), 8)
    # two steps without codes, half empty, would be 64 + 4 bytes more than one, and a word of codes for 8 rows is 32
    assert held.steps == {"none/0/table": 768, f"none/{bits}/plain": 1}


def test_places_are_left_open_where_codes_would_take_more():
    """Rows of a block of columns far away, of which every fourth lacks the first: it is not filled up from the left."""
    rows = 64
    lengths = np.where(np.arange(rows) % 4 == 3, 5, 6)
    far = np.array([0, 70_000, 140_000, 210_000, 280_000, 350_000])
    columns = np.concatenate([far[6 - length :] + row for row, length in enumerate(lengths)])
    n = 400_000
    indptr = np.concatenate([[0], np.cumsum(lengths), np.full(n - rows, lengths.sum())])
    held = assert_same(Csr(n, indptr, columns.astype(np.int32), np.random.default_rng(0).normal(size=len(columns))), 32)
    assert held.steps == {"none/0/plain": 12}


def test_values_are_looked_up_where_all_of_a_slice_are_in_the_table():
    csr = five_point(64)
    values = csr.values.copy()
    values[-300:] = np.linspace(3, 4, 300)  # of the last two slices, and of some rows before
    held = assert_same(csr._replace(values=values), 32)
    assert held.steps["none/0/table"] > 600
    assert held.steps["none/0/plain"] < 20
    assert 0 in held.table
    # the last of 256 values, which leave no room for zero, is in few slices
    values = np.resize(np.arange(1.0, 256), len(values))
    values[:2] = 256
    many = assert_same(csr._replace(values=values), 32)
    assert set(many.table) == {0, *range(1, 256)}
    assert many.steps["none/0/plain"] < 6


def test_a_matrix_without_entries_in_most_rows_is_written_all_the_same():
    n = 5000
    indptr = np.zeros(n + 1, int)
    indptr[4000:] = 1
    held = assert_same(Csr(n, indptr, np.array([4999], np.int32), np.array([2.5])), 32)
    assert sum(held.steps.values()) == 1


@pytest.mark.wording
def test_what_indices_cannot_count_is_refused(monkeypatch):
    monkeypatch.setattr(sliced_format, "FAR", 10)
    with pytest.raises(Unsupported, match="too large for 32-bit indices"):
        packed(five_point(8), 8)


@pytest.mark.parametrize("height", [8, 32])
@pytest.mark.parametrize("make", [lambda: five_point(240), lambda: cube(20)], ids=["5-point", "27-point"])
def test_packing_has_no_loop_over_entries(make, height):
    csr = make()
    csr = csr._replace(values=np.random.default_rng(0).normal(size=len(csr.values)))
    assert python_calls(lambda: packed(csr, height)) < len(csr.values) / 8
