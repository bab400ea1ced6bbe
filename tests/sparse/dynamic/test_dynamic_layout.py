"""How a dynamic matrix is laid out on the host, and read from there; its memory on a device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from repro.errors import IncorrectError
from repro.sparse.dynamic.host_layout import Arrays, consecutive, insert, lay_out
from repro.sparse.dynamic.storage import Storage
from support.device_memory import fill_after
from support.emulated_cuda import EmulatedCuda

SIZES = np.array([3, 0, 40, 1, 0, 7])


def stored_rows(sizes=SIZES, columns=50, seed=3) -> sp.csr_array:
    random = np.random.default_rng(seed)
    pointers = np.concatenate([[0], np.cumsum(sizes)])
    indices = random.integers(0, columns, pointers[-1]).astype(np.int32)
    return sp.csr_array((random.uniform(1, 2, pointers[-1]), indices, pointers), shape=(len(sizes), columns))


def entry_by_entry(arrays: Arrays) -> list[list[tuple[int, float]]]:
    """Return each row's entries by what a table means, read one after the other."""
    rows = []
    for row, size in enumerate(arrays.sizes):
        places = [place for start, end in arrays.pairs[:, row] for place in range(start, end)][:size]
        assert len(places) == size
        rows.append([(int(arrays.columns[place]), float(arrays.values[place])) for place in places])
    return rows


def rows_of(matrix: sp.csr_array) -> list[list[tuple[int, float]]]:
    bounds = zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)
    return [list(zip(matrix.indices[a:b].tolist(), matrix.data[a:b].tolist(), strict=True)) for a, b in bounds]


def grown(segments=4, slack=2) -> Arrays:
    """Return a matrix of rows of up to four segments, the last of which have room."""
    arrays = lay_out(stored_rows(), segments, 400)
    random = np.random.default_rng(5)
    for i, rows in enumerate(([0, 0, 0, 1], [0, 0, 0, 2, 5, 5, 5, 5], [0, 0, 0, 1, 1, 1, 5])):
        arrays, left = insert(
            arrays, np.array(rows), np.arange(len(rows)), random.uniform(1, 2, len(rows)), slack - i % 2
        )
        assert not left.any()
    assert set(arrays.fragments.tolist()) == {0, 1, 2, 4}
    return arrays


@pytest.mark.parametrize(("width", "slack"), [(0, 0), (0, 3), (5, 0), (1, 1)])
def test_a_row_is_one_segment_with_the_room_that_is_asked_for(width, slack):
    matrix = stored_rows()
    arrays = lay_out(matrix, 3, 200, width, slack)
    assert rows_of(arrays.to_csr()) == entry_by_entry(arrays) == rows_of(matrix)
    np.testing.assert_array_equal(arrays.segment_capacity[0], np.maximum(SIZES + slack, width))
    assert arrays.pointer == arrays.segment_capacity.sum() and arrays.capacity == 200


def test_rows_of_several_segments_are_read_in_the_order_of_their_chains():
    arrays = grown()
    assert rows_of(arrays.to_csr()) == entry_by_entry(arrays)


def test_what_is_behind_the_entries_of_a_row_is_room_in_whichever_segment_it_is():
    arrays = grown()
    for removed in range(1, 12):  # entries that are removed let the first segments have room, and others none
        fewer = replace(arrays, sizes=np.maximum(arrays.sizes - removed, 0).astype(np.int32))
        assert rows_of(fewer.to_csr()) == entry_by_entry(fewer)
    assert fewer.nnz < arrays.nnz / 2


@pytest.mark.wording
def test_a_size_that_no_segment_has_room_for_is_an_error():
    arrays = grown()
    sizes = arrays.sizes.copy()
    sizes[[3, 4]] = arrays.segment_capacity.sum(axis=0)[[3, 4]] + 1
    with pytest.raises(IncorrectError, match=r"2 rows have more entries .* the first, row 3, has 2, and room for 1"):
        replace(arrays, sizes=sizes).to_csr()


@pytest.mark.parametrize("rows", [0, 4])
def test_a_matrix_of_nothing_is_laid_out_and_read(rows):
    read = lay_out(sp.csr_array((rows, 3))).to_csr()
    assert read.shape == (rows, 3) and read.nnz == 0


def test_runs_of_numbers_may_be_empty_and_in_any_order():
    np.testing.assert_array_equal(consecutive(np.array([7, 0, 3], np.int32), np.array([2, 0, 3])), [7, 8, 3, 4, 5])
    assert len(consecutive(np.zeros(0, np.int64), np.zeros(0, np.int64))) == 0


@pytest.mark.parametrize(("create", "nth"), [*(("upload", n) for n in range(6)), *(("empty", n) for n in range(3))])
def test_an_interruption_leaves_no_memory_of_a_matrix_behind(monkeypatch, create, nth):
    device = EmulatedCuda()
    arrays = lay_out(stored_rows())
    held = fill_after(monkeypatch, device, nth, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        if create == "upload":
            Storage.upload(device, arrays)
        else:
            Storage.empty(device, arrays.shape, arrays.segments, arrays.capacity, arrays.values.dtype)
    assert not held


@pytest.mark.parametrize("nth", range(3))
def test_an_interruption_of_growth_leaves_the_matrix_as_it_was(monkeypatch, nth):
    def interrupted(*buffers):
        raise KeyboardInterrupt

    device = EmulatedCuda()
    arrays = lay_out(stored_rows())
    storage = Storage.upload(device, arrays)
    held = fill_after(monkeypatch, device, nth, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        storage.grow(2 * arrays.capacity, interrupted)
    assert not held
    np.testing.assert_array_equal(storage.download().columns[: arrays.pointer], arrays.columns[: arrays.pointer])
