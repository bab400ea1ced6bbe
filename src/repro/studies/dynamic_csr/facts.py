"""The facts of a problem for this study: row lengths, memory of each format, batches, capacity for growth.

Memory is counted as the paper counts it, and including everything that is allocated on a device. The number of
defragmentations during growth depends only on the sizes of rows and batches, so it is simulated on the host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

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
    beyond = np.maximum(lengths.astype(np.int64) - hybrid_width(rows, nonzeros), 0)
    return FormatSizes(rows, columns, nonzeros, int(beyond.sum()))


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
    fixed = INDEX_BYTES * (sizes.rows + STATE_WORDS)
    return {
        "CSR": entry * sizes.nonzeros + INDEX_BYTES * (sizes.rows + 1),
        "HYB": entry * sizes.rows * sizes.width + (entry + INDEX_BYTES) * sizes.overflow,
        **{
            f"DCSR-{k}": entry * sizes.nonzeros + INDEX_BYTES * k * table_pitch(sizes.rows) + fixed
            for k in MEMORY_SEGMENTS
        },
    }


#: Slack as a multiple of the mean row size, and maximum segments per row, for which growth is simulated.
SLACK_MULTIPLES = (0.0, 0.5, 1.0, 2.0, 4.0)
CAPACITY_SEGMENTS = (1, 2, 3, 4)


class BatchRows(NamedTuple):
    """The distinct rows of a batch and the number of entries for each, int64 `(touched,)`."""

    rows: NDArray[np.int64]
    counts: NDArray[np.int64]


class Capacity(NamedTuple):
    """Defragmentations and memory to insert all batches, for a given slack and number of segments per row."""

    defragmentations: int
    #: Maximum number of entries that the allocated segments could hold.
    allocated: int


def batch_rows(problem: Updates) -> list[BatchRows]:
    return [
        BatchRows(*np.unique(problem.batch(i)[0].astype(np.int64), return_counts=True)) for i in range(problem.batches)
    ]


def simulate_growth(lengths: NDArray[np.integer], batches: Sequence[BatchRows], segments: int, slack: int) -> Capacity:
    """Insert batches into a matrix whose rows begin with one segment each, without free space.

    This mirrors `DynamicMatrix.insert` with an unlimited buffer: a row without enough space gets one more segment, with
    slack. If its chain is full, all rows are defragmented, with space for the unplaced entries only.
    """
    filled = lengths > 0
    free = np.zeros(len(lengths), np.int64)
    used = filled.astype(np.int8)
    entries = allocated = most = int(lengths.sum(dtype=np.int64))
    defragmentations = 0
    for rows, counts in batches:
        lacking = counts - free[rows]
        chain = used[rows]
        asks = lacking > 0
        full = asks & (chain == segments)
        new = asks & ~full
        allocated += int(lacking[new].sum()) + slack * int(new.sum())
        most = max(most, allocated)
        entries += int(counts.sum())
        filled[rows] = True
        if full.any():
            defragmentations += 1
            free[:] = 0
            used[:] = filled
            allocated = entries
            most = max(most, allocated)
        else:
            free[rows] = np.where(new, slack, -lacking)
            used[rows] = chain + new
    return Capacity(defragmentations, most)


def capacities(problem: Updates) -> list[dict[str, float | int]]:
    """Return the simulated growth of a problem for each slack and number of segments; [] without batches.

    Keys of each result: `multiple` (slack over mean row size), `slack` (truncated), `segments`, `defragmentations`,
    `allocated`.
    """
    lengths, batches = problem.base.row_lengths, batch_rows(problem)
    if not batches or not len(lengths):
        return []
    mean = float(lengths.sum(dtype=np.int64)) / len(lengths)
    rooms: list[dict[str, float | int]] = []
    for multiple in SLACK_MULTIPLES:
        slack, room = int(multiple * mean), None
        for segments in CAPACITY_SEGMENTS:
            # if no chain was ever full, more segments give the same result
            if room is None or room.defragmentations:
                room = simulate_growth(lengths, batches, segments, slack)
            rooms.append({"multiple": multiple, "slack": slack, "segments": segments, **room._asdict()})
    return rooms


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
    room: list[dict[str, float]] = []


def facts(problem: Problem) -> Mapping[str, object]:
    """Return the facts of the matrix before the first batch, and of its batches; {} for other kinds of problems.

    The result has the keys of `describe`; `batches` with the `count` of batches, their `entries` in total, and the
    entries of the smallest and the largest batch (`least`, `most`); and `room`, the result of `capacities`.
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
    return {**describe(problem.base), "batches": batches, "room": capacities(problem)}


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
