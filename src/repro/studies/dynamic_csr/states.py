"""The states that a grown matrix is multiplied in, laid out on the host."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from repro.bench.workspace import Workspace
from repro.sparse.dynamic.bins import PAPERS_LEAST, bin_rows, lay_out_sorted
from repro.sparse.dynamic.layout import SEGMENTS, Arrays, defragment, insert, lay_out, room_for
from repro.studies.dynamic_csr.operands import GraphOperands

State = Literal["fragmented", "defragmented", "sorted"]
STATES: tuple[State, ...] = ("fragmented", "defragmented", "sorted")


def slack_of(operands: GraphOperands) -> int:
    """Return the room that a new segment has beside its entries: the mean row size, as in the paper."""
    rows = operands.base.shape[0]
    return operands.base.nnz // rows if rows else 0


def grow(operands: GraphOperands, segments: int = SEGMENTS) -> Arrays:
    """Return the grown matrix as the batches leave it, inserted one after the other.

    It begins with one segment a row without room. Whenever a row's chain is full all rows are brought back into one
    segment, with slack, and the entries that found no room are inserted again.
    """
    problem, slack = operands.problem, slack_of(operands)
    counts = np.diff(problem.batch_pointers)
    rows_of_all = operands.base.shape[0]
    arrays = lay_out(operands.base, segments, operands.base.nnz + room_for(counts, rows_of_all, segments, slack))
    values = problem.batch_values.astype(operands.x.dtype, copy=False)
    for batch in range(problem.batches):
        begin, end = problem.batch_pointers[batch : batch + 2]
        rows, columns, added = problem.batch_rows[begin:end], problem.batch_columns[begin:end], values[begin:end]
        arrays, left = insert(arrays, rows, columns, added, slack, copy=False)
        if left.any():
            # where a chain has one segment, that has to have the room
            most = int(np.bincount(rows[left]).max())
            room = slack if segments > 1 else max(slack, most)
            coming = room_for(counts[batch:], rows_of_all, segments, slack)
            arrays = defragment(arrays, arrays.nnz + room * len(arrays.sizes) + coming, room)
            arrays, left = insert(arrays, rows[left], columns[left], added[left], slack, copy=False)
        assert not left.any(), "there is room for all"
    # nothing more is cut off: what lies behind the last segment would only take memory
    used = arrays.pointer
    return replace(arrays, columns=arrays.columns[:used], values=arrays.values[:used])


def lay_out_state(operands: GraphOperands, state: State, segments: int = SEGMENTS) -> Arrays:
    """Return the grown matrix in a state: as the batches leave it, in one segment a row, or also ordered by size.

    In the last two no row has any room. `sorted` has the rows in the order of the paper's bins, the longest first.
    """
    if state == "fragmented":
        return grow(operands, segments)
    if state == "defragmented":
        return lay_out_sorted(operands.grown, np.arange(operands.grown.shape[0], dtype=np.int32), segments)
    sizes = np.diff(operands.grown.indptr).astype(np.int32)
    return lay_out_sorted(operands.grown, bin_rows(sizes, PAPERS_LEAST).order, segments)


def state_in(workspace: Workspace, operands: GraphOperands, state: State, segments: int = SEGMENTS) -> Arrays:
    """Return the same, laid out once for all of a workspace: with many batches that takes seconds."""
    return workspace.fact(("state", state, segments), lambda: lay_out_state(operands, state, segments))
