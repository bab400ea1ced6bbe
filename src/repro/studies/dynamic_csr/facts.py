"""The facts of a problem for this study: row lengths, memory of each format, batches.

Memory is counted as the paper counts it, and including everything that is allocated on a device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from repro.codegen.targets import INDEX_BYTES, SCALARS
from repro.problems.matrix import Matrix, Updates
from repro.problems.problem import Problem
from repro.sparse.dynamic.host_layout import table_pitch
from repro.sparse.dynamic.kernels import STATE_WORDS

#: Maximum numbers of segments per row in the paper's table of memory.
MEMORY_SEGMENTS = (2, 3, 4)
#: The widths of HYB's regular part in the paper are multiples of this number, although the text says mean row size.
WIDTH_STEP = 4

FormatBytes = dict[str, int]


@dataclass(frozen=True)
class FormatSizes:
    """Numbers that determine the memory of a matrix."""

    rows: int
    columns: int
    nonzeros: int
    #: Entries beyond the first `width` entries of their rows; HYB stores them as coordinates.
    overflow: int

    @property
    def width(self) -> int:
        return hybrid_width(self.rows, self.nonzeros)


def hybrid_width(n_rows: int, nonzeros: int) -> int:
    """Return the width of HYB's regular part as in the paper: the truncated mean row size, up to a multiple of 4."""
    return -(-(nonzeros // n_rows) // WIDTH_STEP) * WIDTH_STEP if n_rows else 0


def format_sizes(lengths: NDArray[np.integer], columns: int) -> FormatSizes:
    rows, nonzeros = len(lengths), int(lengths.sum(dtype=np.int64))
    overflow_lengths = np.maximum(lengths.astype(np.int64) - hybrid_width(rows, nonzeros), 0)
    return FormatSizes(rows, columns, nonzeros, int(overflow_lengths.sum()))


def deviation(lengths: NDArray[np.integer]) -> float:
    """Return the standard deviation of row lengths as in the paper: relative to the truncated mean."""
    if not len(lengths):
        return 0.0
    mean = int(lengths.sum(dtype=np.int64)) // len(lengths)
    return sqrt(float(((lengths.astype(np.float64) - mean) ** 2).mean()))


def paper_bytes(sizes: FormatSizes) -> FormatBytes:
    """Return the bytes of `CSR`, `HYB` and `DCSR-k` as the paper counts them.

    Values have 4 bytes. The count for dynamic CSR includes begin and end of k segments per row, but not the row sizes.
    """
    entry = 2 * INDEX_BYTES
    return {
        "CSR": entry * sizes.nonzeros + INDEX_BYTES * (sizes.rows + 1),
        "HYB": entry * sizes.rows * sizes.width + (entry + INDEX_BYTES) * sizes.overflow,
        **{f"DCSR-{k}": entry * sizes.nonzeros + 2 * INDEX_BYTES * k * sizes.rows for k in MEMORY_SEGMENTS},
    }


def all_bytes(sizes: FormatSizes, precision: str) -> FormatBytes:
    """Return the bytes of each format as allocated on a device, in a given precision, without space for growth.

    The count for dynamic CSR also includes row sizes, the padding of the segment table, and the matrix's state.
    """
    entry = INDEX_BYTES + SCALARS[precision][1]
    fixed_bytes = INDEX_BYTES * (sizes.rows + STATE_WORDS)
    return {
        "CSR": entry * sizes.nonzeros + INDEX_BYTES * (sizes.rows + 1),
        "HYB": entry * sizes.rows * sizes.width + (entry + INDEX_BYTES) * sizes.overflow,
        **{
            f"DCSR-{k}": entry * sizes.nonzeros + INDEX_BYTES * k * table_pitch(sizes.rows) + fixed_bytes
            for k in MEMORY_SEGMENTS
        },
    }


#: Types of the result of `facts`; `repro merge` validates other records with them.
class Facts(BaseModel):
    rows: int = 0
    columns: int = 0
    nonzeros: int = 0
    mean: float = 0.0
    deviation: float = 0.0
    longest: int = 0
    width: int = 0
    overflow: int = 0
    memory: dict[str, FormatBytes] = {}
    batches: dict[str, int] = {}


def facts(problem: Problem) -> Mapping[str, object]:
    """Return the facts of the matrix before the first batch, and of its batches; {} for other kinds of problems.

    The result has the keys of `describe`, and `batches` with the `count` of batches, their `entries` in total, and the
    entries of the smallest and the largest batch (`least`, `most`).
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
    return {**describe(problem.base), "batches": batches}


def describe(matrix: Matrix) -> dict[str, object]:
    """Return the sizes of a matrix and its bytes in each format.

    These are `rows`, `columns` and `nonzeros`; `mean`, `deviation` (about the truncated mean) and `longest` of the row
    lengths; `width` and `overflow` of HYB; and `memory`: bytes by format, counted as in the paper (`paper`), and
    everything in each precision (`single`, `double`).
    """
    lengths = matrix.row_lengths
    sizes = format_sizes(lengths, matrix.shape[1])
    return {
        "rows": sizes.rows,
        "columns": sizes.columns,
        "nonzeros": sizes.nonzeros,
        "mean": sizes.nonzeros / sizes.rows if sizes.rows else 0.0,
        "deviation": deviation(lengths),
        "longest": int(lengths.max(initial=0)),
        "width": sizes.width,
        "overflow": sizes.overflow,
        "memory": {"paper": paper_bytes(sizes), **{name: all_bytes(sizes, name) for name in SCALARS}},
    }
