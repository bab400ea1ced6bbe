"""How large a problem's matrix is in each format: the rows of Table 9, counted and not packed."""

from __future__ import annotations

from repro.entries import get_entry
from repro.formats.outer import outer_formats
from repro.formats.pack import count_bytes
from repro.problems.problem import Problem

PRECISIONS = {"single": 4, "double": 8}
CUSPARSE_HAS = ("real", "complex")


def measure_memory(problem: Problem) -> dict[str, dict[str, int]]:
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
        for precision, size in PRECISIONS.items()
    }
