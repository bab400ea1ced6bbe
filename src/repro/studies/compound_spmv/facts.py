"""Facts of a problem for this study: bytes of its matrix in each format, and savings if pairs are stored once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from pydantic import BaseModel

from repro.codegen.targets import DTYPES, SCALARS
from repro.entries import get_entry
from repro.problems.matrix import Matrix
from repro.problems.problem import Problem
from repro.sparse.compound.outer import outer_formats
from repro.sparse.compound.packing import count_bytes
from repro.sparse.symmetry import count_pairs, kept_on_diagonal, symmetry_of

CUSPARSE_HAS = ("real", "complex")
#: Rows per tile for counting pairs: the middle one of the tile sizes of the formats `Pairs-n`.
TILE_ROWS = 128


class Pairs(BaseModel):
    symmetry: dict[str, str] = {}
    tile_rows: int = 0
    inside: float = 0.0
    foreign_per_tile: float = 0.0
    bytes: dict[str, int] = {}


#: Types of the result of `facts`; `repro merge` validates other records with them.
class Facts(BaseModel):
    memory: dict[str, dict[str, int]] = {}
    pairs: Pairs = Pairs()


def facts(problem: Problem) -> Mapping[str, object]:
    """Return a matrix's bytes in every format (Table 9), and facts on pairs; {} for empty matrices, other problems."""
    if not isinstance(problem, Matrix) or not problem.nnz:
        return {}
    return {"memory": measure_memory(problem), **({"pairs": measure_pairs(problem)} if problem.square else {})}


def measure_pairs(problem: Matrix) -> dict[str, object]:
    """Return whether a square matrix is symmetric, and the savings if each pair is stored once, in natural order.

    Returns
    -------
    dict
        `symmetry`: by precision `Hermitian`, `symmetric` or empty; entries without values are neither. If the matrix is
        symmetric in a precision, also `tile_rows`, and for tiles of this height the fields `inside`, `foreign_per_tile`
        and `bytes` (by precision) of `repro.sparse.symmetry.PairCounts`.
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
    """Count the bytes of a matrix in every outer format, and in the form that the papers pass to cuSPARSE.

    cuSPARSE supports real and complex numbers. Other entries are passed as real blocks: a quaternion as a 4×4 block.

    Returns
    -------
    dict
        Bytes by precision, then by outer format or `cuSPARSE`.
    """
    entry = get_entry(problem.entry)
    expansion_factor = len(entry.members) if problem.entry in CUSPARSE_HAS else entry.size**2
    lengths = problem.row_lengths
    return {
        precision: {
            **{outer: count_bytes(lengths, len(entry.members), size, outer) for outer in outer_formats()},
            "cuSPARSE": count_bytes(lengths, expansion_factor, size, "CSR"),
        }
        for precision, (_, size) in SCALARS.items()
    }
