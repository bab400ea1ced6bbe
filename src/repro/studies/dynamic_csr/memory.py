"""How large a matrix is in CSR, dynamic CSR and HYB: as the paper counts it, and with all that there is."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from repro.codegen.precisions import INDEX_BYTES, SCALARS
from repro.sparse.dynamic.layout import pitch_of

#: Segments that a row may have in the paper's table of memory.
SEGMENTS = (2, 3, 4)
#: The paper's widths of HYB's regular part are multiples of this, though its text says the mean.
WIDTH_STEP = 4
#: Words of the state of a dynamic matrix: pointer and flags.
STATE_WORDS = 16
#: The paper counts single precision.
PAPERS_PRECISION = "single"

Bytes = dict[str, int]


@dataclass(frozen=True)
class Sizes:
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
        return width_of(self.rows, self.nonzeros)


def width_of(rows: int, nonzeros: int) -> int:
    """Return the width of HYB's regular part as the paper has it: the mean row, cut off, then up to a multiple of 4."""
    return -(-(nonzeros // rows) // WIDTH_STEP) * WIDTH_STEP if rows else 0


def sizes_of(lengths: NDArray[np.integer], columns: int) -> Sizes:
    """Return what the memory of a matrix depends on, from the entries of each row `(rows,)`."""
    rows, nonzeros = len(lengths), int(lengths.sum(dtype=np.int64))
    beyond = np.maximum(lengths.astype(np.int64) - width_of(rows, nonzeros), 0)
    return Sizes(rows, columns, nonzeros, int(beyond.sum()))


def deviation(lengths: NDArray[np.integer]) -> float:
    """Return the standard deviation of row lengths as the paper has it: about the mean that is cut off."""
    if not len(lengths):
        return 0.0
    mean = int(lengths.sum(dtype=np.int64)) // len(lengths)
    return sqrt(float(((lengths.astype(np.float64) - mean) ** 2).mean()))


def papers_bytes(sizes: Sizes) -> Bytes:
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
        **{f"DCSR-{k}": entry * sizes.nonzeros + 2 * INDEX_BYTES * k * sizes.rows for k in SEGMENTS},
    }


def all_bytes(sizes: Sizes, precision: str) -> Bytes:
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
        **{f"DCSR-{k}": entry * sizes.nonzeros + INDEX_BYTES * k * pitch_of(sizes.rows) + fixed for k in SEGMENTS},
    }
