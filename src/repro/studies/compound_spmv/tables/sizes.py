"""Table 1 (sizes of the matrices) and Table 9 (memory of the layouts)."""

from __future__ import annotations

from repro.artifacts.cells import count
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import PROBLEM, lineup, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.studies.compound_spmv.paper import PAPER, STUDY
from repro.studies.compound_spmv.printed import ENTRY_WORDS
from repro.studies.compound_spmv.recorded import memory_of

KIB = 1024
FORMATS = ("ELL", "Sl-16", "Sl-32", "cuSPARSE")


@table(STUDY, "table-1", title="Sizes of the matrices", numbering=f"Table 1 of {PAPER}")
def sizes(campaign: Campaign, published: Published) -> Table:
    """Rows and stored entries, published beside ours."""
    by_problem = {item["problem"]: item for item in published["sizes"]}
    rows = []
    for line in lineup(campaign, published):
        printed = by_problem[line.published] if line.published else None
        record = line.record
        rows.append(
            (
                line.cell,
                Cell(line.entry, ENTRY_WORDS.get(line.entry, line.entry)),
                *(count(None if printed is None else int(printed[key])) for key in ("rows", "nonzeros")),
                count(record.n if record else None),
                count(record.nnz if record else None),
            )
        )
    columns = (
        PROBLEM,
        Column("entry", "entry", numeric=False),
        Column("published_rows", "rows", "published"),
        Column("published_nonzeros", "non-zeros", "published"),
        Column("rows", "rows", "ours"),
        Column("nonzeros", "non-zeros", "ours"),
    )
    caption = sentences(
        [
            f"Sizes of the matrices, counted in compound entries: published in Table 1 of {PAPER}, and ours.",
            "They do not depend on the device.",
            unavailable(campaign),
        ]
    )
    return Table(columns, rows, caption)


@table(STUDY, "table-9", title="Memory of the layouts", numbering=f"Table 9 of {PAPER}")
def memory(campaign: Campaign, published: Published) -> Table:
    """Size as CSR, and the other formats as multiples of it, in double precision."""
    by_problem = {item["problem"]: item for item in published["memory"]}
    rows = []
    for line in lineup(campaign, published):
        printed = by_problem[line.published] if line.published else None
        if printed is None:
            theirs = [Cell()] * (1 + len(FORMATS))
        else:
            size = float(printed["csr_size"]) * KIB ** {"KiB": 1, "MiB": 2}[printed["csr_unit"]]
            theirs = [Cell(round(size), f"{printed['csr_size']} {printed['csr_unit']}")]
            theirs += [Cell(float(printed[name]), printed[name]) for name in FORMATS]
        held = memory_of(line.record).get("double", {})
        csr = held.get("CSR")
        mine = [Cell(csr, size_text(csr)) if csr else Cell()]
        for name in FORMATS:
            multiple = held[name] / csr if csr and held.get(name) else None
            mine.append(Cell() if multiple is None else Cell(multiple, f"{multiple:.1f}"))
        rows.append((line.cell, *theirs, *mine))
    columns = [PROBLEM]
    for group, prefix in (("published", "published_"), ("ours", "")):
        columns.append(Column(f"{prefix}CSR_bytes", "CSR/BSR", group))
        columns += [Column(f"{prefix}{name}", name, group) for name in FORMATS]
    caption = sentences(
        [
            "Memory of a matrix in double precision, with 4-byte indices and 8-byte values: the size as CSR",
            "(3×3 entries: BSR), and each other format as a multiple of it; cuSPARSE is what the papers hand to",
            "that library, a real 4×4 BSR matrix for quaternions.",
            f"Published in Table 9 of {PAPER}, and ours, which does not depend on the device.",
            unavailable(campaign),
        ]
    )
    return Table(tuple(columns), rows, caption)


def size_text(size: int) -> str:
    """Return a size as the papers print it: KiB below one MiB, else MiB, one decimal."""
    return f"{size / KIB:.1f} KiB" if size < KIB**2 else f"{size / KIB**2:.1f} MiB"
