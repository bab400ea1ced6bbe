"""Figure 3.7's numbers: memory of the copies that patches have of the solution."""

from __future__ import annotations

from repro.artifacts.cells import from_rows, percent
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.studies.dg_postprocessing.filter_times import ELEMENT, Filtering, all_fields
from repro.studies.dg_postprocessing.paper import PAPER, PATCHES, STUDY
from repro.studies.dg_postprocessing.shared_cells import FIELD, heads

NOT_COUNTED = "its record has no copies: build the problem again"


@table(STUDY, "table-memory", title="Memory of the per-element way", numbering=f"Figure 3.7 of {PAPER}")
def memory(campaign: Campaign, published: Published) -> Table:
    """A line a field: copies beside one solution over its points, by the number of patches."""
    fields = all_fields(campaign, published)
    counts = patch_counts(fields)
    columns = (
        *FIELD,
        Column("spread", "longest over mean edge"),
        *(Column(f"overhead_{count}", f"{count} patches", "copies over points") for count in counts),
        Column("overhead_measured", campaign.column, "copies over points"),
    )
    rows = [_row(field, counts) for field in fields]
    caption = [
        "Memory that the per-element way takes beside one solution: the copies that all patches have of points around",
        f"their triangles, less one of each, over the points. {PATCHES} patches are those of Figure 3.7 of {PAPER},",
        "which prints no number: only that the overhead falls as meshes grow. 132: a patch a multiprocessor of an",
        "H200. These do not depend on the device; the last column is what the paper’s way took on this one, a patch a",
        "multiprocessor. A patch has copies of all points of the cells that its triangles’ stencils reach, so that its",
        "share is about (1 + 4 w)² - 1 for 16 patches and a stencil w wide in a domain of width 1.",
        unavailable(campaign),
    ]
    return Table(columns, rows, sentences(caption))


def patch_counts(fields: list[Filtering]) -> list[int]:
    """Return the numbers of patches that copies were counted for."""
    counted = {int(count) for field in fields for count in field.facts.get("overhead", {})}
    return sorted(counted) or [PATCHES]


def overhead(field: Filtering, patches: int) -> float | None:
    """Return the copies beside one solution over its points; None where they were not counted."""
    value = field.facts.get("overhead", {}).get(str(patches))
    return None if value is None else float(value)


def _row(field: Filtering, counts: list[int]) -> tuple[Cell, ...]:
    facts, timed = field.facts, field.time(ELEMENT)
    copies = timed.row["copies"] if timed else None
    measured = copies / field.points - 1 if copies and field.points else None
    spread = facts["longest_edge"] / facts["mean_edge"] if facts else None
    return (
        *heads(field, "" if facts.get("overhead") else NOT_COUNTED),
        Cell() if spread is None else Cell(spread, f"{spread:.2f}"),
        *(percent(overhead(field, count)) for count in counts),
        from_rows(percent(measured), timed),
    )
