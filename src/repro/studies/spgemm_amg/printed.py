"""What the paper prints, file by file."""

from __future__ import annotations

from repro.artifacts.published import Published

#: Columns of the files in `config/published/spgemm_amg`.
PUBLISHED = {
    "sizes": ("table", "gpu", "problem", "entry", "printed", "abbreviation", "unknowns", "nonzeros"),
    "text": ("table", "gpu", "quantity", "problem", "value"),
}
#: Columns of `config/targets/spgemm_amg.csv`.
TARGETS = ("quantity", "wanted", "what")
#: The GPU whose numbers the paper's text states.
GPU = "K20c"
#: What the paper's text states, by its name in `config/published`.
BEST = "product over the sort of all products"
SHORT_LEAST = "product over the sort of all products, rows of at most 2,048 products, least"
SHORT_MOST = "product over the sort of all products, rows of at most 2,048 products, most"
SET_UP = "set-up over that with the sort of all products"
SHARE_LEAST = "Galerkin products’ share of the set-up, least"
SHARE_MOST = "Galerkin products’ share of the set-up, most"


def stated(published: Published, quantity: str, problem: str = "") -> float | None:
    """Return what the paper's text states of a quantity, of one problem or of all; None where it is not there."""
    for item in published.tables.get("text", []):
        if (item["quantity"], item["problem"]) == (quantity, problem):
            return float(item["value"])
    return None


def stated_range(published: Published, least: str, most: str) -> tuple[float, float] | None:
    """Return the two ends that the paper's text states of a quantity; None where either is not there."""
    low, high = stated(published, least), stated(published, most)
    return None if low is None or high is None else (low, high)
