"""Dynamic matrices: rows changed by a whole block, places that occur twice, compaction, and interrupted operations."""

import numpy as np
import pytest
import scipy.sparse as sp

from repro.errors import ReproError
from repro.sparse.dynamic import host_layout, kernels
from repro.sparse.dynamic.kernels import LONG_ROW, MAX_MEDIUM_BATCH, MAX_SMALL_BATCH, STATE_DONE, STATE_WORDS
from repro.sparse.dynamic.matrix import Unfinished
from repro.sparse.dynamic.storage import Storage
from support.dynamic_matrices import assert_equal, canonical, random_matrix

# rows that are long enough to be changed by a block together


@pytest.mark.sampled(3)
@pytest.mark.parametrize("length", [LONG_ROW - 1, LONG_ROW, LONG_ROW + 1, 5 * LONG_ROW + 3])
def test_long_rows_are_changed_like_short_ones(on_cpu, make_batch, length):
    random = np.random.default_rng(length)
    matrix = sp.csr_array(sp.vstack([random_matrix(3, 900), np.eye(1, 900), random_matrix(1, 900, length / 900)]))
    dynamic = on_cpu(host_layout.lay_out(matrix, 4, 4 * matrix.nnz + 900), slack=3)
    dense = matrix.toarray()
    for existing in ("replace", "add"):
        rows, columns = random.integers(3, 5, 300), random.integers(0, 900, 300)
        values = random.random(300)
        dynamic.insert(make_batch(rows, columns, values), existing)
        for row, column, value in zip(rows, columns, values, strict=True):
            dense[row, column] = value if existing == "replace" else dense[row, column] + value
        np.testing.assert_allclose(dynamic.to_csr().toarray(), dense, rtol=1e-13)
        assert dynamic.nnz == np.count_nonzero(dense)
    rows, columns = random.integers(0, 5, 800), random.integers(0, 900, 800)
    dynamic.delete(make_batch(rows, columns))
    dense[rows, columns] = 0
    np.testing.assert_allclose(dynamic.to_csr().toarray(), dense, rtol=1e-13)
    dynamic.tidy(2)
    np.testing.assert_allclose(dynamic.to_csr().toarray(), dense, rtol=1e-13)
    assert dynamic.nnz == np.count_nonzero(dense)


def test_many_entries_of_a_batch_for_one_place(on_cpu, make_batch):
    for m in (100, 3 * MAX_SMALL_BATCH):
        matrix = on_cpu(host_layout.lay_out(sp.csr_array((2, 2)), 2, 10))
        matrix.insert(make_batch(np.ones(m), np.zeros(m), np.arange(m)), "replace")
        np.testing.assert_array_equal(matrix.to_csr().toarray(), [[0, 0], [m - 1, 0]])
        matrix.insert(make_batch(np.ones(m), np.zeros(m), np.ones(m)), "add")
        np.testing.assert_array_equal(matrix.to_csr().toarray(), [[0, 0], [2 * m - 1, 0]])
        assert matrix.nnz == 1


def test_places_that_are_there_twice_are_replaced_as_one(on_cpu, make_batch):
    matrix = on_cpu(host_layout.lay_out(sp.csr_array((1, 4)), 2, 20))
    matrix.insert(make_batch([0, 0, 0], [2, 2, 1], [1.0, 2.0, 4.0]))
    matrix.insert(make_batch([0], [2], [7.0]), "replace")
    np.testing.assert_array_equal(canonical(matrix.to_csr()).toarray(), [[0, 4, 7, 0]])
    matrix.delete(make_batch([0], [2]))
    assert matrix.nnz == 1


@pytest.mark.parametrize("existing", ["replace", "add"])
def test_places_that_come_twice_in_long_rows(on_cpu, make_batch, existing):
    columns = np.arange(3 * LONG_ROW) % (2 * LONG_ROW)  # every second one twice
    matrix = on_cpu(host_layout.lay_out(sp.csr_array((2, 2 * LONG_ROW)), 2, 8 * LONG_ROW))
    matrix.insert(make_batch(np.ones(len(columns)), columns, np.ones(len(columns))))
    matrix.insert(make_batch(np.ones(len(columns)), columns, np.full(len(columns), 5.0)), existing)
    times = np.bincount(columns)
    expected = np.full(2 * LONG_ROW, 5.0) if existing == "replace" else 6.0 * times
    np.testing.assert_array_equal(canonical(matrix.to_csr()).toarray(), [np.zeros(2 * LONG_ROW), expected])
    assert matrix.nnz == len(columns)


def test_more_long_rows_than_blocks_take_them(on_cpu, make_batch):
    rows, columns, random = 700, 3 * LONG_ROW, np.random.default_rng(3)
    dense = random.random((rows, columns)) * (random.random((rows, columns)) < 0.6)
    assert (np.count_nonzero(dense, axis=1) > LONG_ROW).all()
    matrix = on_cpu(host_layout.lay_out(sp.csr_array(dense), 2, 3 * dense.size))
    at = np.arange(rows).repeat(2), random.integers(0, columns, 2 * rows)
    matrix.insert(make_batch(*at, np.ones(2 * rows)), "add")
    np.add.at(dense, at, 1.0)
    np.testing.assert_array_equal(matrix.to_csr().toarray(), dense)
    matrix.delete(make_batch(*at))
    dense[at] = 0
    np.testing.assert_array_equal(matrix.to_csr().toarray(), dense)


# bringing together


def test_tidying_keeps_within_the_buffer(on_cpu, make_batch):
    matrix = on_cpu(host_layout.lay_out(sp.csr_array((4, 50)), 3, 40), slack=0)
    for turn in range(3):
        matrix.insert(make_batch([0, 1], [turn, turn], [1.0, 1.0]))
    assert matrix.storage.download().fragments.tolist() == [3, 3, 0, 0]
    before = matrix.to_csr()
    matrix.tidy()
    arrays = matrix.storage.download()
    assert arrays.fragments.tolist() == [1, 1, 0, 0] and arrays.capacity == 40
    assert_equal(matrix.to_csr(), before)


def test_room_that_offsets_cannot_count_is_refused(on_cpu, make_batch):
    matrix = on_cpu(host_layout.lay_out(random_matrix(4096, 50), 2, 30_000))
    before = matrix.to_csr()
    with pytest.raises(ReproError, match="1,073,741,824"):
        matrix.defragment(slack=1 << 20)  # 2^32 in all: as an int, none
    assert_equal(matrix.to_csr(), before)


def test_the_defragmented_matrix_is_csr(on_cpu, make_batch):
    random, matrix = np.random.default_rng(5), random_matrix(700, 90)
    dynamic_matrix = on_cpu(host_layout.lay_out(matrix, 4, matrix.nnz + 5000))
    rows, columns, values = random.integers(0, 700, 3000), random.integers(0, 90, 3000), random.random(3000)
    dynamic_matrix.insert(make_batch(rows, columns, values))
    dynamic_matrix.defragment()
    arrays = dynamic_matrix.storage.download()
    starts, ends = arrays.pairs[0, :, 0], arrays.pairs[0, :, 1]
    filled = starts < ends
    np.testing.assert_array_equal(starts[filled][1:], ends[filled][:-1])
    assert arrays.pointer == arrays.nnz == matrix.nnz + 3000


# what is left in the middle


def test_a_matrix_that_a_large_batch_left_in_the_middle_is_refused(on_cpu, make_batch):
    matrix = on_cpu(host_layout.lay_out(sp.csr_array(np.eye(4)), 4, 2 * MAX_MEDIUM_BATCH))
    storage, words, many = matrix.storage, np.zeros(STATE_WORDS, np.int32), MAX_MEDIUM_BATCH + 1
    storage.device.download(storage.state, words)
    words[STATE_DONE] = -1  # as if one of the blocks never came to its end
    storage.device.write(storage.state, words)
    batch = make_batch(np.sort(np.arange(many) % 4), np.zeros(many), np.ones(many), grouped=True)
    matrix.operations.insertion(batch, 1).launch()
    calls = (
        matrix.check,
        matrix.to_csr,
        matrix.defragment,
        lambda: matrix.nnz,
        lambda: matrix.insert(make_batch([1], [0], [1.0])),
        lambda: matrix.delete(make_batch([1], [0])),
    )
    for refused in calls:
        with pytest.raises(Unfinished, match="left in the middle"):
            refused()
    with pytest.raises(Unfinished):
        _ = matrix.storage


def test_an_interruption_leaves_a_matrix_that_is_refused(on_cpu, make_batch, monkeypatch):
    matrix = on_cpu(host_layout.lay_out(sp.csr_array(np.eye(4)), 4, 50))
    monkeypatch.setattr(Storage, "report", interrupted(Storage.report, after=1))
    with pytest.raises(KeyboardInterrupt):
        matrix.insert(make_batch([1], [0], [1.0]))
    monkeypatch.undo()
    with pytest.raises(Unfinished, match="insert"):
        matrix.to_csr()


def interrupted(function, after):
    """Return a function that is interrupted when it is called for another time than the first few."""
    calls = []

    def call(*arguments):
        calls.append(arguments)
        if len(calls) > after:
            raise KeyboardInterrupt
        return function(*arguments)

    return call


def test_the_words_of_the_state_are_apart():
    words = [
        kernels.STATE_BUFFER_END,
        kernels.STATE_BEGUN,
        kernels.STATE_FINISHED,
        kernels.STATE_TOTAL,
        *kernels.STATE_COUNTERS,
    ]
    words += [word + len(kernels.STATE_COUNTERS) for word in kernels.STATE_COUNTERS]
    assert len(set(words)) == len(words) and max(words) < kernels.STATE_WORDS
