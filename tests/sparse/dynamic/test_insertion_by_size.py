"""Batches of each size and kind are inserted on the CPU's device as on the host, however their rows are shared out."""

import numpy as np
import pytest

from repro.sparse.dynamic import kernels
from repro.sparse.dynamic.kernels import MAX_MEDIUM_BATCH, MAX_SMALL_BATCH
from repro.sparse.dynamic.matrix import Unfinished
from support.insertion_batches import (
    COLUMNS,
    COUNTS,
    GROUPED_COUNTS,
    KINDS,
    ROWS,
    assert_all_inserted,
    assert_inserted,
    assert_refused,
    drawn_batch,
    few_rows,
    grouped_batch,
    grown,
    half_in_one_row,
    half_inserted,
    hashes,
    narrow_window_at_the_start,
    on_device,
    one_part_of_many_rows,
    one_row,
    parts_of,
    rows_for,
    skewed,
    state_of,
    two_windows_of_a_part,
    uniform,
)

pytestmark = pytest.mark.medium

FEW, SEVERAL = MAX_SMALL_BATCH + 1, 9000


@pytest.mark.sampled(6)
@pytest.mark.parametrize("m", COUNTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_inserted_entry_for_entry_as_on_the_host(on_cpu, kind, m):
    dynamic = on_cpu(grown(rows_for(kind, m), segments=2, capacity=200_000), slack=2)
    assert len(assert_inserted(dynamic, drawn_batch(kind, m), slack=2)) == 0


@pytest.mark.sampled(6)
@pytest.mark.parametrize("m", GROUPED_COUNTS)
@pytest.mark.parametrize("kind", [uniform, half_in_one_row, skewed])
def test_a_grouped_batch_is_inserted_as_any_other(on_cpu, kind, m):
    dynamic = on_cpu(grown(ROWS, segments=2, capacity=200_000))
    assert len(assert_inserted(dynamic, grouped_batch(kind, m), slack=2, grouped=True)) == 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", [uniform, half_in_one_row, skewed, few_rows])
def test_batches_follow_each_other_until_chains_are_full(on_cpu, kind):
    dynamic, lefts = on_cpu(grown(ROWS, segments=3, capacity=1_000_000)), []
    for turn, m in enumerate((SEVERAL, 100, MAX_MEDIUM_BATCH, SEVERAL, FEW)):
        lefts.append(len(assert_inserted(dynamic, drawn_batch(kind, m, turn), slack=1)))
    assert lefts[-1] > 0


@pytest.mark.sampled(8)
@pytest.mark.parametrize("m", COUNTS)
@pytest.mark.parametrize("kind", [uniform, one_row, half_in_one_row, one_part_of_many_rows])
def test_rows_whose_chain_is_full_take_nothing(on_cpu, kind, m):
    """They are left in the order of the batch; rows that had no segment get their only one."""
    batch = drawn_batch(kind, m)
    dynamic = on_cpu(half_inserted(kind, batch))
    assert len(assert_inserted(dynamic, batch, slack=2)) >= m // 2


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize("m", [FEW, MAX_MEDIUM_BATCH])
@pytest.mark.parametrize("kind", [uniform, half_in_one_row, skewed, one_part_of_many_rows, two_windows_of_a_part])
def test_a_buffer_without_room_for_all_takes_rows_whole_or_not(on_cpu, kind, m):
    batch = drawn_batch(kind, m)
    dynamic = on_cpu(grown(rows_for(kind, m), segments=4, capacity=m // 3))
    assert 0 < len(assert_inserted(dynamic, batch, slack=0)) <= m


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", [uniform, one_row, half_in_one_row, skewed])
def test_what_was_left_is_inserted_in_the_order_of_the_batch(on_cpu, kind):
    before = grown(ROWS, segments=1, capacity=3000)
    assert_all_inserted(on_cpu(before), before, drawn_batch(kind, SEVERAL))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("m", COUNTS)
@pytest.mark.parametrize(
    ("kind", "bad"), [(uniform, (-1, 0)), (one_row, (ROWS, 0)), (uniform, (0, COLUMNS)), (one_row, (0, -1))]
)
def test_a_bad_entry_at_the_end_refuses_the_batch(on_cpu, kind, m, bad):
    rows, columns, values = drawn_batch(kind, m)
    dynamic = on_cpu(grown(ROWS, segments=2, capacity=200_000))
    good = rows[-1], columns[-1]
    rows[-1], columns[-1] = bad
    assert_refused(dynamic, (rows, columns, values))
    rows[-1], columns[-1] = good
    assert_inserted(dynamic, (rows, columns, values), slack=2)


@pytest.mark.parametrize("m", [FEW, MAX_MEDIUM_BATCH])
def test_entries_of_one_place_come_beside_each_other(on_cpu, m):
    dynamic = on_cpu(grown(ROWS, segments=2, capacity=100_000))
    for rows in (np.full(m, 5), np.arange(m) % 2 * 7):
        assert_inserted(dynamic, (rows.astype(np.int32), np.full(m, 3, np.int32), np.arange(m) / 4), slack=0)


@pytest.mark.wording
def test_a_matrix_is_open_until_the_last_block_is_done(on_cpu):
    dynamic = on_cpu(grown(ROWS, segments=2, capacity=100_000))
    words = state_of(dynamic)
    words[kernels.STATE_DONE] = -1  # as if one of the blocks never came to its end
    dynamic.storage.device.write(dynamic.storage.state, words)
    dynamic.operations.insertion(on_device(dynamic.storage.device, *drawn_batch(uniform, SEVERAL)), 2).launch()
    with pytest.raises(Unfinished, match="left in the middle"):
        dynamic.check()


def test_batches_are_as_adverse_as_they_say():
    for m in (FEW, MAX_MEDIUM_BATCH):
        spread = hashes(drawn_batch(uniform, m)[0]).astype(np.int64) * parts_of(m) >> 32
        assert np.bincount(spread).max() < 800
        rows = drawn_batch(one_part_of_many_rows, m)[0]
        assert len(np.unique(rows)) == m > MAX_SMALL_BATCH
        assert len(np.unique(hashes(rows).astype(np.int64) * parts_of(m) >> 32)) == 1
        narrow = hashes(drawn_batch(narrow_window_at_the_start, m)[0])
        assert np.ptp(narrow) < 2**32 // parts_of(m)
