"""What a problem's record holds for this study: row lengths, memory of each format, batches, capacity for growth.

Memory is counted once as the paper counts it and once with everything that a device holds. How often growth
forces a defragmentation depends on the sizes of rows and batches alone. It is simulated on the host and not
timed: the simulation does what `dynamic.DynamicMatrix.insert` does, in a buffer that is never too small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from repro.codegen.targets import INDEX_BYTES, SCALARS
from repro.problems.matrix import Matrix
from repro.problems.problem import Problem
from repro.problems.updates import Updates
from repro.sparse.dynamic.layout import pitch_of

#: Segments that a row may have in the paper's table of memory.
MEMORY_SEGMENTS = (2, 3, 4)
#: The paper's widths of HYB's regular part are multiples of this, though its text says the mean.
WIDTH_STEP = 4
#: Words of the state of a dynamic matrix: pointer and flags.
STATE_WORDS = 16
#: The paper counts single precision.
PAPER_PRECISION = "single"

FormatBytes = dict[str, int]


@dataclass(frozen=True)
class FormatSizes:
    """What the memory of a matrix depends on.

    Attributes
    ----------
    rows, columns, nonzeros
        Of the matrix.
    overflow
        Entries beyond the first `width` of their rows, which HYB has as coordinates.
    """

    rows: int
    columns: int
    nonzeros: int
    overflow: int

    @property
    def width(self) -> int:
        """Entries a row that HYB has in its regular part."""
        return hybrid_width(self.rows, self.nonzeros)


def hybrid_width(rows: int, nonzeros: int) -> int:
    """Return the width of HYB's regular part as the paper has it: the mean row, cut off, then up to a multiple of 4."""
    return -(-(nonzeros // rows) // WIDTH_STEP) * WIDTH_STEP if rows else 0


def format_sizes(lengths: NDArray[np.integer], columns: int) -> FormatSizes:
    """Return what the memory of a matrix depends on, from the entries of each row `(rows,)`."""
    rows, nonzeros = len(lengths), int(lengths.sum(dtype=np.int64))
    beyond = np.maximum(lengths.astype(np.int64) - hybrid_width(rows, nonzeros), 0)
    return FormatSizes(rows, columns, nonzeros, int(beyond.sum()))


def deviation(lengths: NDArray[np.integer]) -> float:
    """Return the standard deviation of row lengths as the paper has it: about the mean that is cut off."""
    if not len(lengths):
        return 0.0
    mean = int(lengths.sum(dtype=np.int64)) // len(lengths)
    return sqrt(float(((lengths.astype(np.float64) - mean) ** 2).mean()))


def paper_bytes(sizes: FormatSizes) -> FormatBytes:
    """Return the bytes by format as the paper counts them.

    Values of 4 bytes; of dynamic CSR the pairs of k segments a row, and not the sizes of the rows; of HYB the regular
    part with its padding, and the overflow as coordinates.

    Returns
    -------
    dict
        By `CSR`, `HYB`, and `DCSR-k` for each k.
    """
    entry = 2 * INDEX_BYTES
    return {
        "CSR": entry * sizes.nonzeros + INDEX_BYTES * (sizes.rows + 1),
        "HYB": entry * sizes.rows * sizes.width + (entry + INDEX_BYTES) * sizes.overflow,
        **{f"DCSR-{k}": entry * sizes.nonzeros + 2 * INDEX_BYTES * k * sizes.rows for k in MEMORY_SEGMENTS},
    }


def all_bytes(sizes: FormatSizes, precision: str) -> FormatBytes:
    """Return the bytes by format with everything that a device holds, nothing left over for growth.

    Of dynamic CSR also the sizes of the rows, the table's padding and the state; the others as in `papers_bytes`.

    Parameters
    ----------
    sizes
        Of the matrix.
    precision
        `single` or `double`, of the values.
    """
    entry = INDEX_BYTES + SCALARS[precision][1]
    fixed = INDEX_BYTES * (sizes.rows + STATE_WORDS)
    return {
        "CSR": entry * sizes.nonzeros + INDEX_BYTES * (sizes.rows + 1),
        "HYB": entry * sizes.rows * sizes.width + (entry + INDEX_BYTES) * sizes.overflow,
        **{
            f"DCSR-{k}": entry * sizes.nonzeros + INDEX_BYTES * k * pitch_of(sizes.rows) + fixed
            for k in MEMORY_SEGMENTS
        },
    }


#: Slack in parts of the mean row size, and segments that a row can have.
SLACK_MULTIPLES = (0.0, 0.5, 1.0, 2.0, 4.0)
CAPACITY_SEGMENTS = (1, 2, 3, 4)


class BatchRows(NamedTuple):
    """What a batch brings: int64 `(touched,)` rows, each once, and how many entries each is given."""

    rows: NDArray[np.int64]
    counts: NDArray[np.int64]


class Capacity(NamedTuple):
    """What inserting all batches came to.

    Attributes
    ----------
    defragmentations
        Batches that forced all rows together.
    allocated
        Entries that segments had room for, at most.
    """

    defragmentations: int
    allocated: int


def batch_rows(problem: Updates) -> list[BatchRows]:
    """Return what each batch brings."""
    return [
        BatchRows(*np.unique(problem.batch(i)[0].astype(np.int64), return_counts=True)) for i in range(problem.batches)
    ]


def simulate_growth(lengths: NDArray[np.integer], batches: Sequence[BatchRows], segments: int, slack: int) -> Capacity:
    """Insert batches into a matrix that begins with one segment a row and no room.

    A row that lacks room gets one more segment, with slack. Where its chain is full all rows are brought together,
    with room for the entries that found none and no other.

    Parameters
    ----------
    lengths
        Entries of each row at first, `(rows,)`.
    batches
        What each brings.
    segments
        The most that a row's chain has.
    slack
        Room for so many entries beside those that a new segment is made for.
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
    """Return what the batches of a problem come to for each slack and number of segments; nothing without batches.

    Returns
    -------
    list of dict
        `multiple` of the mean row size, `slack` (that, cut off), `segments`, `defragmentations`, `allocated`.
    """
    lengths, batches = problem.base.row_lengths, batch_rows(problem)
    if not batches or not len(lengths):
        return []
    mean = float(lengths.sum(dtype=np.int64)) / len(lengths)
    rooms: list[dict[str, float | int]] = []
    for multiple in SLACK_MULTIPLES:
        slack, room = int(multiple * mean), None
        for segments in CAPACITY_SEGMENTS:
            # chains that were never full are none longer with more segments
            if room is None or room.defragmentations:
                room = simulate_growth(lengths, batches, segments, slack)
            rooms.append({"multiple": multiple, "slack": slack, "segments": segments, **room._asdict()})
    return rooms


def facts(problem: Problem) -> Mapping[str, object]:
    """Return the facts of the matrix before the first batch, and of its batches; nothing of another kind's problem.

    Returns
    -------
    dict
        As `describe`, and `batches`: how many (`count`), their entries in all (`entries`) and those of the smallest
        and of the largest (`least`, `most`); and `room`, as of `repro.studies.dynamic_csr.facts.capacities`.
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

    Returns
    -------
    dict
        `rows`, `columns`, `nonzeros`; `mean`, `deviation` (about the mean that is cut off) and `longest` of its rows'
        lengths; `width` and `overflow` of HYB; and `memory`: bytes by format as the paper counts them (`paper`), and
        with everything in each precision (`single`, `double`).
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
