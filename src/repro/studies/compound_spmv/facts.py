"""What the record of a problem holds for this study: how large its matrix is in each format."""

from __future__ import annotations

from collections.abc import Mapping

from repro.codegen.precisions import SCALARS
from repro.entries import get_entry
from repro.problems.matrix import Matrix
from repro.problems.problem import Problem
from repro.studies.compound_spmv.outer import outer_formats
from repro.studies.compound_spmv.pack import count_bytes

CUSPARSE_HAS = ("real", "complex")


def facts(problem: Problem) -> Mapping[str, object]:
    """Return the bytes of a matrix in every format (Table 9); nothing of an empty one, or of another kind."""
    return {"memory": measure_memory(problem)} if isinstance(problem, Matrix) and problem.nnz else {}


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
