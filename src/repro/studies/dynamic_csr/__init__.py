"""A sparse matrix that grows on the device (King 2017, chapter 5).

Names, published numbers and settings that the whole study shares; it imports nothing at run time.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from repro.results.published import Published, Record

STUDY_NAME = "dynamic_csr"
CITED = "King 2017, chapter 5"
REFERENCE = (
    "King: Reducing Irregularities in Control Flow and Memory Access on Graphics Processing Unit Architectures, "
    "dissertation, University of Utah 2017, chapter 5."
)
#: Sentence that says which clock the published times were measured with, as far as known.
PUBLISHED_CLOCK = (
    "The author’s public code measures times by the host clock around 100 queued launches and one synchronisation, so "
    "they may include launch overhead of the host."
)
#: Name of the reading (interpretation) of the algorithms by the paper's text; other readings follow its code.
TEXT_READING = "text"
#: Number of products after each batch in the iterative test.
PRODUCTS_PER_BATCH = 5


def precision_of_operations(precisions: Collection[str]) -> str:
    """Return the highest precision of a campaign, the only one in which parts other than products are timed by default.

    Updates and conversions mostly move numbers without computing, so a second precision would give little information.
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
#: Printed by the paper if a device's memory did not suffice.
OUT_OF_MEMORY = "inf"
UNITS = {"K": 1000, "M": 1000**2}
KIB, MIB = 1 << 10, 1 << 20


def number_of(text: str) -> float | None:
    """Return a printed number, `735K` as 735000; None if the matrix did not fit into memory."""
    if text == OUT_OF_MEMORY:
        return None
    return float(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else float(text)


def stated_record(published: Published, quantity: str, precision: str = "") -> Record | None:
    """Return the record of a quantity stated in the paper's text; None if there is none."""
    row_key = (quantity, precision)
    return next(
        (item for item in published.tables.get("text", []) if (item["quantity"], item["precision"]) == row_key), None
    )


#: Statements in the paper's text about products, by name in `config/published`.
STATED_FRAGMENTED = "time of a fragmented product over a defragmented one, mean"
STATED_DEFRAGMENTED = "time of a defragmented product over CSR, mean"
STATED_ADAPTIVE = "speedup of the adaptive product over HYB, mean"


def stated_product_means(published: Published) -> str:
    """Return the sentence with the text's statements about all products; empty if none are published."""
    quantities = (STATED_FRAGMENTED, STATED_DEFRAGMENTED, STATED_ADAPTIVE)
    records = [stated_record(published, quantity) for quantity in quantities]
    values = [f"{record['value']}×" for record in records if record]
    if len(values) < len(records):
        return ""
    return (
        f"Published means over all graphs (K20c): a fragmented product takes {values[0]} the time of a defragmented "
        f"one, a defragmented one {values[1]} the time of CSR’s, and ADCSR is {values[2]} as fast as HYB; the paper "
        "shows single times only as bars."
    )


#: Number of devices, by the word used in the published numbers.
DEVICE_NUMBERS = {"two": 2, "four": 4, "eight": 8}
#: The graphs for which the paper's text states single speed-ups.
STATED_GRAPHS = ("internet", "enron")
TWO_DEVICES = "speedup of two GPUs, mean"


def stated_speedups(published: Published, problem_name: str | None) -> list[tuple[int, str]]:
    """Return the paper's speed-ups for a problem with iterations within the kernel, by number of devices."""
    quantities = {
        f"speedup of {count_name} GPUs, iterations within the kernel, {problem_name}": n
        for count_name, n in DEVICE_NUMBERS.items()
    }
    return [
        (quantities[item["quantity"]], item["value"])
        for item in published.tables.get("text", [])
        if problem_name and item["quantity"] in quantities
    ]


def stated_graph_speedups(published: Published) -> str:
    """Return the sentence with the paper's speed-ups for single graphs; empty if none are published."""
    texts = []
    for problem in STATED_GRAPHS:
        points = stated_speedups(published, problem)
        if points:
            texts.append(f"{problem} {', '.join(f'{value} over {devices}' for devices, value in points)}")
    return f"Published for Tesla M2090, iterations within the kernel: {'; '.join(texts)}." if texts else ""


def stated_device_means(published: Published) -> list[str]:
    """Return the paper's mean speed-up on two devices, for each precision with a published number."""
    return [
        f"{item['value']} in {item['precision']} precision"
        for item in published.tables.get("text", [])
        if item["quantity"] == TWO_DEVICES
    ]
