"""Rivals for products of two matrices and for solutions."""

from __future__ import annotations

from dataclasses import replace

from repro.results.rivals import Contest, register
from repro.studies.spgemm_amg import PRODUCTS, STUDY_NAME
from repro.studies.spgemm_amg.results import HOST, LIBRARY, OURS, SOLUTION

_PRODUCTS = [
    Contest(
        title,
        [replace(OURS, columns={**OURS.columns, "product": product})],
        replace(LIBRARY, columns={**LIBRARY.columns, "product": product}),
        HOST,
        {"product": product},
    )
    for product, title in PRODUCTS.items()
]
register(STUDY_NAME, [*_PRODUCTS, Contest("solution", [SOLUTION], None, HOST, {"what": "solve"})])
