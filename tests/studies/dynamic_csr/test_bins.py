"""How rows are dealt to bins, parts and blocks; and the states that a matrix is laid out in."""

from __future__ import annotations

import numpy as np
import pytest

from repro.codegen.targets import CPU, get_target
from repro.sparse.dynamic.schedules import (
    LONG_ROWS,
    PAPERS_MIN_LENGTHS,
    bin_rows,
    deal_chunks,
    deal_parts,
    lay_out_sorted,
    our_min_lengths,
    row_spans,
)
from repro.studies.dynamic_csr.operands import STATES, grow, lay_out_state, make_operands, slack_of
from support.growing_matrices import around_limits, growing

SIZES = np.array([0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 511, 512, 9000, 5, 0], np.int32)


def test_the_papers_bins():
    bins = bin_rows(SIZES, PAPERS_MIN_LENGTHS)
    assert [SIZES[bins.order[first:last]].tolist() for first, last in bins.spans] == [
        [512, 9000], [32, 511], [16, 31], [8, 15], [4, 7, 5], [2, 3], [0, 1, 0],
    ]  # fmt: skip


@pytest.mark.parametrize("target", ["sm_90", "cpu"])
@pytest.mark.parametrize("per_thread", [2, 4])
def test_our_bins_ascend_and_keep_rows_in_order(target, per_thread):
    least = our_min_lengths(get_target(target), per_thread)
    assert list(least) == sorted(set(least)) and least[0] == 0
    bins = bin_rows(SIZES, least)
    assert sorted(bins.order) == list(range(len(SIZES)))
    for (first, last), low in zip(bins.spans, reversed(least), strict=True):
        rows = bins.order[first:last]
        assert (np.diff(rows) > 0).all() and (SIZES[rows] >= low).all()


def test_parts_cover_long_rows():
    parts = deal_parts(np.array([7, 3, 9]), np.array([1000, 512, 513], np.int32), 256)
    assert parts.tolist() == [
        [7, 0, 0, 4], [7, 256, 0, 4], [7, 512, 0, 4], [7, 768, 0, 4],
        [3, 0, 4, 2], [3, 256, 4, 2],
        [9, 0, 6, 3], [9, 256, 6, 3], [9, 512, 6, 3],
    ]  # fmt: skip
    assert deal_parts(np.array([], np.int32), np.array([], np.int32), 256).shape == (0, 4)


def test_spans_are_those_of_the_layout():
    operands = make_operands(around_limits(), "double", 1)
    sizes = np.diff(operands.grown.indptr).astype(np.int32)
    order = np.random.default_rng(1).permutation(len(sizes)).astype(np.int32)
    for spans, laid_out in (
        (row_spans(sizes), lay_out_state(operands, "defragmented")),
        (row_spans(sizes, order), lay_out_sorted(operands.grown, order, 4)),
    ):
        assert spans.dtype == np.int32
        assert np.array_equal(spans[sizes > 0], laid_out.pairs[0][sizes > 0])
        assert (spans[:, 1] - spans[:, 0] == sizes).all()


@pytest.mark.parametrize("most", [1, 4, 100, 20_000])
def test_chunks_cover_all_rows_once(most):
    chunks = deal_chunks(SIZES, most, 256)
    ends = np.cumsum(SIZES)
    rows: list[int] = []
    for number, (first, last, begin, end) in enumerate(chunks.tolist()):
        if end < 0:
            part, parts = last, -end
            assert chunks[number - part : number - part + parts, 1].tolist() == list(range(parts))
            assert (parts - 1) * 256 < SIZES[first] <= parts * 256 and SIZES[first] > most
            rows += [first] * (part == 0)
        else:
            assert (begin, end) == (ends[first] - SIZES[first], ends[last - 1])
            assert end - begin <= most and 0 < last - first <= most
            rows += range(first, last)
    assert rows == list(range(len(SIZES)))


def test_empty_rows_alone_are_dealt_too():
    assert deal_chunks(np.zeros(10, np.int32), 4, 256).tolist() == [[0, 4, 0, 0], [4, 8, 0, 0], [8, 10, 0, 0]]


def test_rows_can_lie_in_any_order():
    operands = make_operands(around_limits(), "double", 1)
    order = np.random.default_rng(1).permutation(operands.grown.shape[0]).astype(np.int32)
    laid_out = lay_out_sorted(operands.grown, order, 3)
    assert (laid_out.to_csr() != operands.grown).nnz == 0
    starts = laid_out.pairs[0, order, 0][laid_out.sizes[order] > 0]
    assert (np.diff(starts) > 0).all()
    assert laid_out.fragments.max() == 1


@pytest.mark.parametrize("segments", [1, 2, 4])
@pytest.mark.parametrize("state", STATES)
def test_every_state_is_the_grown_matrix(state, segments):
    operands = make_operands(around_limits(added=2500, batches=7), "double", 1)
    laid_out = lay_out_state(operands, state, segments)
    grown = laid_out.to_csr()
    for array in ("indptr", "indices", "data"):
        assert np.array_equal(getattr(grown, array), getattr(operands.grown, array))
    exact = (laid_out.segment_capacity.sum(axis=0) == laid_out.sizes).all()
    assert exact == (state != "fragmented")
    assert laid_out.capacity == laid_out.pairs.max() == laid_out.pointer


def test_the_slack_is_the_mean_row_size():
    operands = make_operands(growing([10, 0, 4, 7], 30, 5), "double", 1)
    assert slack_of(operands) == 5
    assert grow(operands).segment_capacity[1:].max() >= 6


def test_each_dialect_has_parts_that_a_row_is_longer_than():
    assert {*LONG_ROWS} == {"cuda", CPU.dialect}
    assert all(long.block < long.parts >= long.part_length for long in LONG_ROWS.values())
