"""Time of a user's call of each public function, beside its kernel alone and beside the calls of other libraries.

This file has the names of the functions. Every module of the study depends on it, so it imports nothing of the project.
"""

from __future__ import annotations

STUDY_NAME = "calls"
REFERENCE = "no paper: the public functions of this package, called as a user calls them."
#: Functions in the order of tables; a configuration can leave some out (`parts`).
FUNCTIONS = (
    "set-up", "set-up-now", "product", "product-now", "spmm", "spgemm", "refill", "insert", "dynamic-product", "cg",
)  # fmt: skip
#: The library of our own functions.
OURS = "repro"
#: Libraries of arrays in the order of tables, and the library whose functions take them.
LIBRARIES = {"CuPy": "CuPy", "PyTorch": "PyTorch", "NumPy": "SciPy"}
