"""What a user's call of each public function takes, beside its kernel alone and beside the calls of other libraries.

This file has the names of the functions. Every module of the study depends on it, so it imports nothing of the project.
"""

from __future__ import annotations

STUDY_NAME = "calls"
REFERENCE = "no paper: the public functions of this package, called as a user calls them."
#: Groups of functions that a configuration can leave out; `filter` is for fields, the others are for matrices.
PARTS = ("product", "spgemm", "refill", "dynamic", "cg", "amg", "filter")
#: Order of the functions in tables.
FUNCTIONS = ("product", "spgemm", "refill", "insert", "dynamic product", "cg", "amg", "filter")
#: Libraries' arrays in the order of tables, and whose functions are timed beside ours.
ARRAYS = {"CuPy": "CuPy", "PyTorch": "PyTorch", "own": "", "NumPy": "SciPy"}
