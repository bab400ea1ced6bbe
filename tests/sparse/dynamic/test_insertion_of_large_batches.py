"""Large batches are inserted entry for entry as on the host, wherever rows and blocks begin and end."""

import numpy as np
import pytest

from repro.sparse.dynamic import host_layout
from repro.sparse.dynamic.kernels import CONTINUED_ROW_WORDS, INSERT_ENTRIES_PER_THREAD, MAX_MEDIUM_BATCH
from repro.sparse.elementwise import BLOCK_SIZE
from support.insertion_batches import (
    COLUMNS,
    ROWS,
    assert_all_inserted,
    assert_inserted,
    assert_refused,
    assert_same_entries,
    drawn_batch,
    few_rows,
    grouped_batch,
    grown,
    half_in_one_row,
    half_inserted,
    on_device,
    one_row,
    skewed,
    two_huge_rows_and_many_small_ones,
    uniform,
)

pytestmark = pytest.mark.medium
LARGE = MAX_MEDIUM_BATCH + 77
OF_BLOCK = INSERT_ENTRIES_PER_THREAD["cuda"] * BLOCK_SIZE["cuda"]


def rows_at_ends_of_blocks(random, m):
    """Rows that end with a block, start with one, and cover one or two, beside rows of an entry."""
    lengths = np.tile([OF_BLOCK, 1, OF_BLOCK - 1, 3 * OF_BLOCK - 5, 3, 2, 40, OF_BLOCK - 40], 9)
    return np.repeat(np.arange(len(lengths)) * 11 + 3, lengths)[:m]


def one_entry_a_row(random, m):
    return np.arange(m) + 5


KINDS = [
    uniform, few_rows, one_row, half_in_one_row, two_huge_rows_and_many_small_ones, skewed, rows_at_ends_of_blocks,
    one_entry_a_row,
]  # fmt: skip


@pytest.mark.sampled(12)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("m", [MAX_MEDIUM_BATCH + 1, LARGE, MAX_MEDIUM_BATCH + OF_BLOCK])
def test_a_grouped_batch_is_inserted_entry_for_entry(on_cpu, kind, m):
    dynamic = on_cpu(grown(ROWS, segments=2, capacity=200_000))
    assert len(assert_inserted(dynamic, grouped_batch(kind, m), slack=2, grouped=True)) == 0


@pytest.mark.parametrize("kind", [uniform, half_in_one_row])
def test_a_batch_in_any_order_is_inserted_after_a_sort(on_cpu, kind):
    dynamic = on_cpu(grown(ROWS, segments=2, capacity=200_000))
    assert len(assert_inserted(dynamic, drawn_batch(kind, LARGE), slack=2)) == 0


@pytest.mark.parametrize("kind", [few_rows, skewed, rows_at_ends_of_blocks])
def test_batches_follow_each_other_until_chains_are_full(on_cpu, kind):
    dynamic, lefts = on_cpu(grown(ROWS, segments=3, capacity=1_000_000)), []
    for turn in range(4):
        lefts.append(len(assert_inserted(dynamic, grouped_batch(kind, LARGE, turn), slack=1, grouped=True)))
    assert lefts[-1] > 0


@pytest.mark.parametrize("kind", KINDS[:-2])
def test_rows_whose_chain_is_full_take_nothing(on_cpu, kind):
    batch = grouped_batch(kind, LARGE)
    dynamic = on_cpu(half_inserted(kind, batch))
    before = dynamic.storage.download()
    left = assert_inserted(dynamic, batch, slack=2, grouped=True)
    assert len(left) == host_layout.insert(before, *batch, 2)[1].sum()


@pytest.mark.parametrize("kind", KINDS)
def test_a_buffer_without_room_for_all_takes_rows_whole_or_not(on_cpu, kind):
    dynamic = on_cpu(grown(ROWS, segments=4, capacity=LARGE // 3))
    assert 0 < len(assert_inserted(dynamic, grouped_batch(kind, LARGE), slack=0, grouped=True)) <= LARGE


@pytest.mark.parametrize("kind", [half_in_one_row, skewed])
def test_what_was_left_is_inserted_in_the_order_of_the_batch(on_cpu, kind):
    before = grown(ROWS, segments=1, capacity=3000)
    assert_all_inserted(on_cpu(before), before, drawn_batch(kind, LARGE))


@pytest.mark.parametrize("bad", [(-1, 0), (ROWS, 0), (0, COLUMNS), (0, -1)])
def test_a_bad_entry_refuses_the_batch(on_cpu, bad):
    rows, columns, values = grouped_batch(skewed, LARGE)
    dynamic = on_cpu(grown(ROWS, segments=2, capacity=200_000))
    good = rows[-1], columns[-1]
    rows[-1], columns[-1] = bad
    assert_refused(dynamic, (rows, columns, values), grouped=True)
    rows[-1], columns[-1] = good
    assert_inserted(dynamic, (rows, columns, values), slack=2, grouped=True)


def test_an_insertion_can_be_launched_again(on_cpu, device):
    """What blocks published is gone when the last one is done."""
    before = grown(ROWS, segments=4, capacity=400_000)
    dynamic, batch = on_cpu(before), grouped_batch(rows_at_ends_of_blocks, LARGE)
    insertion, expected = dynamic.operations.insertion(on_device(device, *batch, True), 1), before
    continued = np.empty((-(-LARGE // OF_BLOCK), CONTINUED_ROW_WORDS), np.int32)
    for _ in range(2):
        insertion.launch()
        expected, left = host_layout.insert(expected, *batch, 1)
        assert not left.any()
        assert_same_entries(dynamic.storage.download(), expected)
        if device.backend == "cuda":
            device.download(dynamic._scratch.take("continued rows", continued.nbytes), continued)
            np.testing.assert_array_equal(continued[:, 4], 0)
