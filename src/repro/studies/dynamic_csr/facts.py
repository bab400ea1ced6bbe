"""What the record of a problem holds for this study: its rows' lengths, its memory, its batches and their room."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from repro.codegen.precisions import SCALARS
from repro.problems.matrix import Matrix
from repro.problems.problem import Problem
from repro.problems.updates import Updates
from repro.studies.dynamic_csr.memory import all_bytes, deviation, papers_bytes, sizes_of
from repro.studies.dynamic_csr.room import rooms_of


def facts(problem: Problem) -> Mapping[str, object]:
    """Return the facts of the matrix before the first batch, and of its batches; nothing of another kind's problem.

    Returns
    -------
    dict
        As `describe`, and `batches`: how many (`count`), their entries in all (`entries`) and those of the smallest
        and of the largest (`least`, `most`); and `room`, as of `repro.studies.dynamic_csr.room.rooms_of`.
    """
    if not isinstance(problem, Updates):
        return {}
    sizes = np.diff(problem.batch_pointers)
    batches = {
        "count": problem.batches,
        "entries": problem.entries,
        "least": int(sizes.min(initial=problem.entries)),
        "most": int(sizes.max(initial=0)),
    }
    return {**describe(problem.base), "batches": batches, "room": rooms_of(problem)}


def describe(matrix: Matrix) -> dict[str, object]:
    """Return the sizes of a matrix and its bytes in each format.

    Returns
    -------
    dict
        `rows`, `columns`, `nonzeros`; `mean`, `deviation` (about the mean that is cut off) and `longest` of its rows'
        lengths; `width` and `overflow` of HYB; and `memory`: bytes by format as the paper counts them (`paper`), and
        with everything in each precision (`single`, `double`).
    """
    lengths = matrix.row_lengths
    sizes = sizes_of(lengths, matrix.shape[1])
    return {
        "rows": sizes.rows,
        "columns": sizes.columns,
        "nonzeros": sizes.nonzeros,
        "mean": sizes.nonzeros / sizes.rows if sizes.rows else 0.0,
        "deviation": deviation(lengths),
        "longest": int(lengths.max(initial=0)),
        "width": sizes.width,
        "overflow": sizes.overflow,
        "memory": {"paper": papers_bytes(sizes), **{name: all_bytes(sizes, name) for name in SCALARS}},
    }
