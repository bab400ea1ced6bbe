"""What the paper prints, file by file, and how it prints numbers: in thousands and millions."""

from __future__ import annotations

from repro.artifacts.published import Published, Record

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


def stated(published: Published, quantity: str, precision: str = "") -> Record | None:
    """Return what the paper's text states of a quantity; None where it is not there."""
    asked = (quantity, precision)
    records = published.tables.get("text", [])
    return next((item for item in records if (item["quantity"], item["precision"]) == asked), None)
