"""What the paper prints, file by file, and how it prints numbers: cut off, in thousands and millions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repro.artifacts.document import Cell
from repro.artifacts.lineup import Line
from repro.artifacts.published import Published, Record
from repro.studies.dynamic_csr.paper import STUDY

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


def printed(text: str | None) -> Cell:
    """Return the cell of a number as printed."""
    if text is None:
        return Cell()
    return Cell(number_of(text), "out of memory" if text == OUT_OF_MEMORY else text)


def shortened(number: int | None, units: str, limit: int = 1000) -> Cell:
    """Return the cell of a count, cut off to the largest of some units; in full below a limit."""
    if number is None:
        return Cell()
    fitting = [unit for unit in units if number >= max(limit, UNITS[unit])]
    return Cell(number, f"{number // UNITS[fitting[-1]]}{fitting[-1]}" if fitting else str(number))


def facts_of(line: Line) -> Mapping[str, Any]:
    """Return what the record of a problem holds for this study; empty where there is none."""
    return line.record.facts.get(STUDY, {}) if line.record else {}


def stated(published: Published, quantity: str, precision: str = "") -> Record | None:
    """Return what the paper's text states of a quantity; None where it is not there."""
    asked = (quantity, precision)
    records = published.tables.get("text", [])
    return next((item for item in records if (item["quantity"], item["precision"]) == asked), None)
