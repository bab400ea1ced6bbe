"""What the record of a problem holds for this study: its rows' lengths, and how large its matrix is in each format."""

from __future__ import annotations

from collections.abc import Mapping

from repro.codegen.precisions import SCALARS
from repro.problems.matrix import Matrix
from repro.problems.problem import Problem
from repro.problems.updates import Updates
from repro.studies.dynamic_csr.memory import all_bytes, deviation, papers_bytes, sizes_of


def facts(problem: Problem) -> Mapping[str, object]:
    """Return the facts of the matrix before the first batch; nothing of a problem of another kind."""
    return describe(problem.base) if isinstance(problem, Updates) else {}


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
