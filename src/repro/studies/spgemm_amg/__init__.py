"""Products of sparse matrices by binned rows, and algebraic multigrid whose set-up uses them.

This file has the names of the paper, of the products and of the set-up's stages. Every module of the study depends on
it, so it imports nothing of the project.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

STUDY_NAME = "spgemm_amg"
CITED = "King 2017, chapter 6"
REFERENCE = (
    "King: Reducing Irregularities in Control Flow and Memory Access on Graphics Processing Unit Architectures, "
    "dissertation, University of Utah 2017, chapter 6."
)
#: The matrix times itself, and the two products in the set-up of multigrid (Algorithm 8): A P with the prolongator P,
#: and R (A P) with P's transpose R.
ProductName = Literal["AA", "AP", "RAP"]
PRODUCT_NAMES: tuple[ProductName, ...] = get_args(ProductName)
#: Printed names of the products.
PRODUCTS: Mapping[str, str] = {"AA": "A·A", "AP": "A·P", "RAP": "R·(A·P)"}
#: The stages of the set-up of a multigrid level in their order, with their printed names.
SETUP_STAGES: Mapping[str, str] = {
    "radius": "diagonal, spectral radius",
    "aggregates": "aggregation",
    "tentative": "tentative prolongator",
    "prolongator": "smoothing",
    "transpose": "transpose",
    "galerkin": "Galerkin product",
}
#: Maximum norm of a solution's residual, relative to the right-hand side.
TOLERANCE = 1e-8
