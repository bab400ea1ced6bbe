"""Products of sparse matrices by binned rows, and multigrid that is set up with them.

This file has what the paper of the study is called, and what it multiplies. Everything of the study depends on it,
so it imports nothing of the project.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

STUDY_NAME = "spgemm_amg"
PAPER = "King 2017, chapter 6"
REFERENCE = (
    "King: Reducing Irregularities in Control Flow and Memory Access on Graphics Processing Unit Architectures, "
    "dissertation, University of Utah 2017, chapter 6."
)
#: The matrix with itself, and the two products of the set-up of multigrid (Algorithm 8): with the prolongator P, and of
#: its transpose R with that.
ProductName = Literal["AA", "AP", "RAP"]
PRODUCTS: Mapping[ProductName, str] = {"AA": "A·A", "AP": "A·P", "RAP": "R·(A·P)"}
#: A solution counts where its residual is so small beside the right side.
TOLERANCE = 1e-8
