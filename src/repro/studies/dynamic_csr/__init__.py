"""A sparse matrix that grows on the device (King 2017, chapter 5).

This file has what all of the study and nothing else needs: the paper's name, what it prescribes, how it prints
numbers, and the columns of its published files. Everything of the study depends on it, so it imports nothing at
run time.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from repro.results.published import Published, Record

STUDY = "dynamic_csr"
PAPER = "King 2017, chapter 5"
REFERENCE = (
    "King: Reducing Irregularities in Control Flow and Memory Access on Graphics Processing Unit Architectures, "
    "dissertation, University of Utah 2017, chapter 5."
)
#: Products after each batch in its iterative test.
PRODUCTS_PER_BATCH = 5


def precision_of_operations(precisions: Collection[str]) -> str:
    """Return the precision of updates, conversions and all else that is no product: the highest of a campaign's.

    They move numbers and hardly compute with them: another precision would take as long to time, and say little more.
    """
    return "double" if "double" in precisions else "single"


#: Columns of the files in `config/published/dynamic_csr`.
PUBLISHED = {
    "sizes": (
        "table", "gpu", "problem", "entry", "printed", "nonzeros", "rows", "columns", "mean", "deviation", "longest",
    ),
    "memory": ("table", "gpu", "problem", "HYB", "DCSR-2", "DCSR-3", "DCSR-4", "CSR"),
    "conversions": (
        "table", "gpu", "problem", "COO-CSR", "COO-DCSR", "COO-HYB", "CSR-DCSR", "CSR-HYB", "DCSR-CSR",
    ),
    "operations": ("table", "gpu", "problem", "DCSR_defragment", "HYB_sort", "DCSR_update", "HYB_update"),
    "text": ("table", "gpu", "quantity", "precision", "value"),
}  # fmt: skip
#: Columns of `config/targets/dynamic_csr.csv`.
TARGETS = ("quantity", "wanted", "what")
#: What the paper prints where a device's memory does not suffice.
OUT_OF_MEMORY = "inf"
UNITS = {"K": 1000, "M": 1000**2}
KIB, MIB = 1 << 10, 1 << 20


def number_of(text: str) -> float | None:
    """Return a number as printed, `735K` as 735000; None of what did not fit into memory."""
    if text == OUT_OF_MEMORY:
        return None
    return float(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else float(text)


def stated_record(published: Published, quantity: str, precision: str = "") -> Record | None:
    """Return what the paper's text states of a quantity; None where it is not there."""
    asked = (quantity, precision)
    records = published.tables.get("text", [])
    return next((item for item in records if (item["quantity"], item["precision"]) == asked), None)
