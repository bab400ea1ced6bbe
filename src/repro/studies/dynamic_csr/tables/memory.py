"""Memory of HYB, of dynamic CSR with two, three and four segments a row, and of CSR."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import PROBLEM, lineup, sentences, unavailable
from repro.artifacts.published import Published, Record
from repro.artifacts.registry import table
from repro.studies.dynamic_csr.operation_times import OWN_MEANS
from repro.studies.dynamic_csr.paper import PAPER, STUDY
from repro.studies.dynamic_csr.printed import KIB, MIB
from repro.studies.dynamic_csr.shared_cells import facts_of, printed

FORMATS = ("DCSR-2", "DCSR-3", "DCSR-4", "CSR")
#: Our groups of columns: the key in a record's `memory`, the key of the columns, and the head.
COUNTS = (
    ("paper", "counted_as_paper", "ours, counted as the paper does"),
    ("single", "single", "ours, everything, single precision"),
    ("double", "double", "ours, everything, double precision"),
)


@table(STUDY, "table-5-2", title="Memory of the formats", numbering=f"Table 5.2 of {PAPER}")
def memory(campaign: Campaign, published: Published) -> Table:
    """Size as HYB, and the other formats as fractions of it."""
    by_problem = {item["problem"]: item for item in published["memory"]}
    rows = []
    for line in lineup(campaign, published):
        counted = facts_of(line).get("memory", {})
        ours = (cell for key, _, _ in COUNTS for cell in _ours(counted.get(key)))
        rows.append((line.cell, *_theirs(by_problem.get(line.published or "")), *ours))
    columns = [PROBLEM, *_columns("published", "published")]
    for _, key, head in COUNTS:
        columns += _columns(key, head)
    caption = [
        "Memory of the matrices before the first batch of updates: the size as HYB in MiB (M), below one in KiB",
        "(K), cut off, and dynamic CSR with room for two, three and four segments a row and CSR as fractions of it.",
        f"Published in Table 5.2 of {PAPER}, and ours, which does not depend on the device. The paper counts values of",
        "4 bytes, the table of segments but not the sizes of the rows, and gives HYB’s regular part the mean row,",
        "cut off, then rounded up to a multiple of 4; its text has the mean itself. Everything: the sizes of the rows,",
        "the table’s padding and the state as well; room for growth is in neither.",
        "A stand-in has as many entries beyond HYB’s width as the published size of HYB implies, and so agrees with",
        "this table by construction.",
        OWN_MEANS,
        unavailable(campaign),
    ]
    return Table(tuple(columns), rows, sentences(caption), _means(rows))


def _columns(key: str, head: str) -> list[Column]:
    return [Column(f"{key}_HYB", "HYB", head), *(Column(f"{key}_{name}", name, head) for name in FORMATS)]


def _theirs(item: Record | None) -> tuple[Cell, ...]:
    if item is None:
        return (Cell(),) * (1 + len(FORMATS))
    size = item["HYB"]
    return (Cell(int(size.removesuffix("M")) * MIB, size), *(printed(item[name]) for name in FORMATS))


def _ours(counted: Mapping[str, int] | None) -> tuple[Cell, ...]:
    if not counted or not counted["HYB"]:
        return (Cell(),) * (1 + len(FORMATS))
    size = counted["HYB"]
    fractions = (counted[name] / size for name in FORMATS)
    shown = f"{size // MIB}M" if size >= MIB else f"{size // KIB}K"
    return (Cell(size, shown), *(Cell(value, f"{value:.3f}") for value in fractions))


def _means(rows: list[tuple[Cell, ...]]) -> list[tuple[Cell, ...]]:
    """Return the means of all fractions of HYB; sizes have none."""
    cells: list[Cell] = [Cell("mean")]
    for place in range(1, len(rows[0]) if rows else 0):
        values = [row[place].value for row in rows]
        fractions = [float(value) for value in values if value is not None]
        is_size = (place - 1) % (1 + len(FORMATS)) == 0
        cells.append(Cell() if is_size or not fractions else Cell(fmean(fractions), f"{fmean(fractions):.3f}"))
    return [tuple(cells)] if rows else []
