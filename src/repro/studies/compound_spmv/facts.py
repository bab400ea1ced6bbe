"""What the record of a problem holds for this study: how large its matrix is in each format, and what pairs save."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from repro.codegen.targets import DTYPES, SCALARS
from repro.entries import get_entry
from repro.problems.matrix import Matrix
from repro.problems.problem import Problem
from repro.sparse.compound.outer import outer_formats
from repro.sparse.compound.packing import count_bytes
from repro.sparse.symmetry import count_pairs, kept_on_diagonal, symmetry_of

CUSPARSE_HAS = ("real", "complex")
#: Rows of a tile that pairs are counted in: the middle one of the formats' sizes.
TILE_ROWS = 128


def facts(problem: Problem) -> Mapping[str, object]:
    """Return a matrix's bytes in every format (Table 9), and its pairs; nothing of an empty one, or of another kind."""
    if not isinstance(problem, Matrix) or not problem.nnz:
        return {}
    return {"memory": measure_memory(problem), **({"pairs": measure_pairs(problem)} if problem.square else {})}


def measure_pairs(problem: Matrix) -> dict[str, object]:
    """Say whether a square matrix is symmetric, and count what storing its pairs once would save, in its own order.

    Returns
    -------
    dict
        `symmetry`: precision to `Hermitian`, `symmetric` or empty; entries without values are neither. Where one is:
        `tile_rows`, and for tiles of so many rows `inside`, `foreign_per_tile` and `bytes`, by precision, as
        `repro.sparse.symmetry.PairCounts` has them.
    """
    members = len(get_entry(problem.entry).members)
    symmetry = {
        precision: symmetry_of(problem, problem.values.astype(dtype, copy=False)).kind if members else ""
        for precision, dtype in DTYPES.items()
    }
    if not any(symmetry.values()):
        return {"symmetry": symmetry}
    counts, on_diagonal = count_pairs(problem, TILE_ROWS), len(kept_on_diagonal(problem.entry))
    return {
        "symmetry": symmetry,
        "tile_rows": TILE_ROWS,
        "inside": counts.inside,
        "foreign_per_tile": counts.foreign_per_tile,
        "bytes": {
            precision: counts.nbytes(members, on_diagonal, np.dtype(dtype).itemsize)
            for precision, dtype in DTYPES.items()
        },
    }


def measure_memory(problem: Matrix) -> dict[str, dict[str, int]]:
    """Count the bytes of a matrix in every outer format, and as the papers hand it to cuSPARSE.

    cuSPARSE has real and complex numbers; of every other entry it gets the real block: a quaternion is one of 4×4.

    Returns
    -------
    dict
        Precision to outer format, or `cuSPARSE`, to bytes.
    """
    entry = get_entry(problem.entry)
    expanded = len(entry.members) if problem.entry in CUSPARSE_HAS else entry.size**2
    lengths = problem.row_lengths
    return {
        precision: {
            **{outer: count_bytes(lengths, len(entry.members), size, outer) for outer in outer_formats()},
            "cuSPARSE": count_bytes(lengths, expanded, size, "CSR"),
        }
        for precision, (_, size) in SCALARS.items()
    }
