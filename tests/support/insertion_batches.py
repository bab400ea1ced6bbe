"""Batches of all sizes and kinds to insert, and what an insertion must come to: entry for entry as on the host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.devices.base import Device
from repro.sparse.dynamic import host_layout, kernels
from repro.sparse.dynamic.host_layout import Arrays
from repro.sparse.dynamic.kernels import ENTRIES_PER_PART, MAX_MEDIUM_BATCH, MAX_SMALL_BATCH
from repro.sparse.dynamic.matrix import DynamicMatrix
from repro.sparse.dynamic.storage import EntryBatch
from support.matrices import Entries

#: Where one way of inserting ends and the next one begins.
COUNTS = (MAX_SMALL_BATCH, MAX_SMALL_BATCH + 1, MAX_MEDIUM_BATCH + 1)
GROUPED_COUNTS = (MAX_SMALL_BATCH + 1, MAX_MEDIUM_BATCH, MAX_MEDIUM_BATCH + 1)
ROWS, COLUMNS = 40_000, 500
#: Rows among which there are as many of one part as a batch has entries; and as many as a small batch has.
MANY_ROWS, FEWER_ROWS = 1 << 22, 1 << 16

#: What draws the rows of a batch of so many entries.
Kind: TypeAlias = Callable[[np.random.Generator, int], NDArray[np.integer[Any]]]


def uniform(random: np.random.Generator, m: int) -> NDArray[np.integer[Any]]:
    return random.integers(0, ROWS, m)


def few_rows(random: np.random.Generator, m: int) -> NDArray[np.integer[Any]]:
    return random.integers(0, 5, m) * 777


def one_row(random: np.random.Generator, m: int) -> NDArray[np.integer[Any]]:
    return np.full(m, 777)


def half_in_one_row(random: np.random.Generator, m: int) -> NDArray[np.integer[Any]]:
    return np.where(random.random(m) < 0.5, 39_999, random.integers(0, ROWS, m))


def two_huge_rows_and_many_small_ones(random: np.random.Generator, m: int) -> NDArray[np.integer[Any]]:
    return np.where(random.random(m) < 0.7, random.integers(0, 2, m) * 123, random.integers(0, ROWS, m))


def skewed(random: np.random.Generator, m: int) -> NDArray[np.integer[Any]]:
    return np.minimum(random.zipf(1.3, m), ROWS) - 1


def one_part_of_few_rows(random: np.random.Generator, m: int) -> NDArray[np.integer[Any]]:
    return random.choice(of_window(m, 0.5, 100), m)


def one_part_of_many_rows(random: np.random.Generator, m: int) -> NDArray[np.integer[Any]]:
    """Only rows of one part, each once: too many for its table."""
    return random.permutation(of_window(m, 0.3, m, whole_part=True))[:m]


def narrow_window_at_the_start(random: np.random.Generator, m: int) -> NDArray[np.integer[Any]]:
    return random.permutation(of_window(m, 0.0, m))


def narrow_window_at_the_end(random: np.random.Generator, m: int) -> NDArray[np.integer[Any]]:
    return random.permutation(of_window(m, 1.0, m))


def two_windows_of_a_part(random: np.random.Generator, m: int) -> NDArray[np.integer[Any]]:
    """Neighbours in the order of hashes at both ends of the last part."""
    return random.permutation(np.concatenate([of_window(m, 1.0, m // 2), of_window(m, 1.0, m - m // 2, first=True)]))


#: Rows of a batch by the number of its entries, and how many rows the matrix has.
KINDS: dict[Kind, int] = {
    uniform: ROWS,
    few_rows: ROWS,
    one_row: ROWS,
    half_in_one_row: ROWS,
    two_huge_rows_and_many_small_ones: ROWS,
    skewed: ROWS,
    one_part_of_few_rows: MANY_ROWS,
    one_part_of_many_rows: MANY_ROWS,
    narrow_window_at_the_start: MANY_ROWS,
    narrow_window_at_the_end: MANY_ROWS,
    two_windows_of_a_part: MANY_ROWS,
}


def rows_for(kind: Kind, m: int) -> int:
    """Return how many rows a matrix for a batch has: no more than its kind needs, and millions take long."""
    return many_rows(m) if KINDS[kind] == MANY_ROWS else KINDS[kind]


def many_rows(m: int) -> int:
    """Return the rows among which a part has as many as a batch of m."""
    return FEWER_ROWS if m <= MAX_SMALL_BATCH + 1 else MANY_ROWS


def parts_of(m: int) -> int:
    """Return how many blocks share a batch out; a batch that is sorted is given the rows of the largest other one."""
    return 1 << (-(-min(m, MAX_MEDIUM_BATCH) // ENTRIES_PER_PART) - 1).bit_length()


def hashes(rows: NDArray[np.integer[Any]]) -> NDArray[np.uint32]:
    """Return what chooses the part of a row, as the device computes it."""
    hash = np.asarray(rows, np.uint32) * np.uint32(2654435761)
    hash ^= hash >> np.uint32(15)
    return hash * np.uint32(2246822519)


@cache
def by_hash(count: int) -> NDArray[np.integer[Any]]:
    return np.argsort(hashes(np.arange(count)), kind="stable")


def of_window(
    m: int, where: float, count: int, whole_part: bool = False, first: bool = False
) -> NDArray[np.integer[Any]]:
    """Return rows of one part of a batch of m that are neighbours in the order of their hashes."""
    order = by_hash(many_rows(m))
    parts = hashes(order).astype(np.int64) * parts_of(m) >> 32
    rows = order[parts == min(int(where * parts_of(m)), parts_of(m) - 1)]
    assert len(rows) >= min(m, count)
    if whole_part:
        return rows
    return rows[-count:] if where == 1.0 and not first else rows[:count]


def drawn_batch(kind: Kind, m: int, seed: int = 1) -> Entries:
    """Return rows, columns and values of a batch; some of its places come twice."""
    random = np.random.default_rng(seed)
    rows = kind(random, m).astype(np.int32)
    return rows, random.integers(0, COLUMNS, m, np.int32), np.arange(1, m + 1) / 8


def grouped_batch(kind: Kind, m: int, seed: int = 1) -> Entries:
    """Return a batch whose equal rows follow each other."""
    rows, columns, values = drawn_batch(kind, m, seed)
    return rows[np.argsort(rows, kind="stable")], columns, values


@lru_cache(4)
def grown(rows: int, *, segments: int, capacity: int, entries: int = 20_000) -> Arrays:
    """Return a matrix with some entries and room for more, which no test may write to."""
    random = np.random.default_rng(9)
    places = random.integers(0, min(rows, ROWS), entries), random.integers(0, COLUMNS, entries)
    matrix = sp.csr_array(sp.coo_array((random.random(entries), places), shape=(rows, COLUMNS)))
    return host_layout.lay_out(matrix, segments, matrix.nnz + capacity)


def half_inserted(kind: Kind, batch: Entries) -> Arrays:
    """Return a matrix of one segment a row, without room, that has the first half of a batch already."""
    half = len(batch[0]) // 2
    before = grown(rows_for(kind, len(batch[0])), segments=1, capacity=400_000)
    return host_layout.insert(before, *(part[:half] for part in batch), 0)[0]


def on_device(
    device: Device,
    rows: NDArray[np.integer[Any]],
    columns: NDArray[np.integer[Any]],
    values: NDArray[Any],
    grouped: bool = False,
) -> EntryBatch:
    """Bring a batch to a device."""
    return EntryBatch(len(rows), device.upload(rows), device.upload(columns), device.upload(values), grouped)


def assert_inserted(
    dynamic: DynamicMatrix, batch: Entries, *, slack: int, grouped: bool = False
) -> NDArray[np.integer[Any]]:
    """Insert a batch once and compare with the model; return the entries that found no place, in the device's order.

    Where the buffer is full it is open which rows find room: those that the device left are left by the model.
    """
    rows, columns, values = batch
    device, before = dynamic.storage.device, dynamic.storage.download()
    insertion = dynamic.operations.insertion(on_device(device, *batch, grouped), slack)
    insertion.launch()
    after, report, words = dynamic.storage.download(), dynamic.storage.report(), state_of(dynamic)
    assert report.finished and not report.bad
    assert not words[list(kernels.STATE_COUNTERS)].any() and not words[kernels.STATE_DONE]
    expected, expected_left = host_layout.insert(before, rows, columns, values, slack)
    left = np.zeros(report.unplaced, np.int32)
    left_rows = left.copy()
    if report.unplaced:
        arranged = insertion.gather_unplaced(report.unplaced)
        device.download(arranged.order, left)
        device.download(arranged.rows, left_rows)
        np.testing.assert_array_equal(left_rows, rows[left])
    kept = ~np.isin(rows, left_rows)
    assert (~kept).sum() == report.unplaced
    # the rows that were left follow each other, each in the order of the batch
    changes = np.flatnonzero(np.diff(left_rows))
    assert report.full + report.rows_without_room == len(np.unique(left_rows)) == len(changes) + (report.unplaced > 0)
    assert (np.diff(left)[left_rows[1:] == left_rows[:-1]] > 0).all()
    if not report.rows_without_room:
        np.testing.assert_array_equal(~kept, expected_left)
        np.testing.assert_array_equal(after.segment_capacity, expected.segment_capacity)
        assert after.pointer == expected.pointer
    else:
        assert expected_left.any()
        larger = replace(before, **{name: np.resize(getattr(before, name), 1 << 20) for name in ("columns", "values")})
        expected, none = host_layout.insert(larger, rows[kept], columns[kept], values[kept], slack)
        assert not none.any()
    assert_same_entries(after, expected)
    assert_disjoint(after)
    return left


def assert_refused(dynamic: DynamicMatrix, batch: Entries, grouped: bool = False) -> None:
    """Insert a batch with an entry outside of the matrix, and expect that nothing was done."""
    before, words = dynamic.storage.download(), state_of(dynamic)
    dynamic.operations.insertion(on_device(dynamic.storage.device, *batch, grouped), 2).launch()
    after, report = dynamic.storage.download(), dynamic.storage.report()
    assert (report.bad, report.full, report.rows_without_room, report.unplaced, report.finished) == (1, 0, 0, 0, True)
    for name in ("columns", "values", "table", "sizes", "pointer"):
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
    assert state_of(dynamic)[kernels.STATE_BEGUN] == words[kernels.STATE_BEGUN] + 1
    assert state_of(dynamic)[kernels.STATE_DONE] == 0


def assert_all_inserted(dynamic: DynamicMatrix, before: Arrays, batch: Entries) -> None:
    """Insert all of a batch, which finds no room at first, and expect each row's entries in the order of the batch."""
    assert dynamic.insert(on_device(dynamic.storage.device, *batch)).moved > 0
    expected, left = host_layout.insert(host_layout.lay_out(before.to_csr(), 2, 400_000), *batch, 0)
    assert not left.any()
    assert_same_entries(dynamic.storage.download(), expected)


def state_of(dynamic: DynamicMatrix) -> NDArray[np.int32]:
    words = np.empty(kernels.STATE_WORDS, np.int32)
    dynamic.storage.device.download(dynamic.storage.state, words)
    return words


def assert_same_entries(arrays: Arrays, expected: Arrays) -> None:
    """Expect the same entries in the same order in each row."""
    np.testing.assert_array_equal(arrays.sizes, expected.sizes)
    actual, expected = arrays.to_csr(), expected.to_csr()
    np.testing.assert_array_equal(actual.indices, expected.indices)
    np.testing.assert_array_equal(actual.data, expected.data)


def assert_disjoint(arrays: Arrays) -> None:
    """Expect segments that share no memory and end where the next is cut off."""
    pairs = arrays.pairs.reshape(-1, 2)
    pairs = pairs[pairs[:, 0] < pairs[:, 1]]
    pairs = pairs[np.argsort(pairs[:, 0])]
    assert (pairs[1:, 0] >= pairs[:-1, 1]).all()
    assert pairs[:, 1].max(initial=0) <= arrays.pointer <= arrays.capacity
