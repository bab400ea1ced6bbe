"""What chapters 3 and 4 print, file by file."""

from __future__ import annotations

from repro.artifacts.published import Published

#: Columns of the files in `config/published/dg_postprocessing`.
PUBLISHED = {
    "sizes": ("table", "gpu", "problem", "entry", "printed", "variance", "degree"),
    "tests": ("table", "gpu", "problem", "printed", "per_point", "per_element", "ratio"),
    "text": ("table", "gpu", "quantity", "variance", "degree", "value"),
    "width": ("table", "gpu", "degree", "vector_width", "gain"),
    "machine": ("table", "gpu", "quantity", "unit", "cpu", "value"),
}
#: Columns of `config/targets/dg_postprocessing.csv`.
TARGETS = ("quantity", "wanted", "what")
#: The GPU whose numbers the text states.
GPU = "M2090"
#: What the text states, by its name in `config/published`.
LARGEST = "GFLOPS of the per-element method, largest"
FLOPS_LEAST = "GFLOPS of the methods, least"
FLOPS_MOST = "GFLOPS of the methods, most"
OVER_POINT = "per element over per point"
OVER_POINT_LEAST = "per element over per point, least"
OVER_POINT_MOST = "per element over per point, most"
#: What does not fit together in the text, as tables and figures say it beside its numbers.
LESS_OR_MORE = (
    "The text contradicts itself: by section 3.4 per element gains less over per point for P = 2 and 3, by section "
    "3.4.1 the relative difference is larger there; section 3.4.1 states over 2× and over 3×, the conclusions 2× to 6×."
)
CELLS = (
    "The text’s ⌈1/c⌉ cells a direction with ⌊x/c⌋ as index leave a last cell that is cut off, and a halo of one cell "
    "that wraps onto it is too thin: counts are made its way, all filtering with ⌊1/c⌋ equal cells."
)
ROOM_CONTRADICTS = (
    "The text names pairs that a block has no room for of degree 2 only; by its own formula (32, 20), (36, 18) and "
    "(36, 20) of degree 1 do not fit into 48 kB either."
)
WIDTHS_CONTRADICT = (
    "What does not fit in the text: width 8 has a gain of degree 2 and is not among its widths there; it calls about "
    "half of the full width the best with quadratic polynomials, where 16 of 150 gains most, and 18 of 36 with linear "
    "ones."
)


def stated(published: Published, quantity: str, variance: str = "", degree: int | None = None) -> float | None:
    """Return what the text states of a quantity, of a family and a degree or of all; None where it is not there."""
    wanted = (quantity, variance, "" if degree is None else str(degree))
    for item in published.tables.get("text", []):
        if (item["quantity"], item["variance"], item["degree"]) == wanted:
            return float(item["value"])
    return None
