"""Table 3.1: intersection tests of both algorithms, published beside ours."""

from __future__ import annotations

from repro.artifacts.cells import count
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import sentences, unavailable
from repro.artifacts.published import Published, Record
from repro.artifacts.registry import table
from repro.studies.dg_postprocessing.filter_times import Filtering, all_fields
from repro.studies.dg_postprocessing.paper import COUNTED_DEGREE, PAPER, STUDY
from repro.studies.dg_postprocessing.printed import CELLS
from repro.studies.dg_postprocessing.reached import counts
from repro.studies.dg_postprocessing.shared_cells import FIELD, heads

METHODS = {"point": "per point", "element": "per element"}
NOT_COUNTED = "its record has no counts: build the problem again"


@table(STUDY, "table-3-1", title="Intersection tests", numbering=f"Table 3.1 of {PAPER}")
def tests(campaign: Campaign, published: Published) -> Table:
    """A line a mesh of degree 1: published counts, ours, and ours over the published."""
    theirs = {item["problem"]: item for item in published.tables.get("tests", [])}
    columns = (
        *FIELD,
        Column("printed", "mesh", "published", numeric=False),
        *(Column(f"published_per_{key}", title, "published") for key, title in METHODS.items()),
        Column("published_ratio", "ratio", "published"),
        *(Column(f"per_{key}", title, "ours") for key, title in METHODS.items()),
        Column("ratio", "ratio", "ours"),
        *(Column(f"{key}_over_published", title, "ours over published") for key, title in METHODS.items()),
    )
    fields = {field.line.problem: field for field in all_fields(campaign, published)}
    rows = [_row(fields.get(name), item) for name, item in theirs.items()]
    rows += [
        _row(field, None)
        for name, field in fields.items()
        if name not in theirs and (field.degree == COUNTED_DEGREE or field.degree is None)
    ]
    caption = [
        f"Pairs of a point and a triangle that are tested for intersection, P = {COUNTED_DEGREE}, published in",
        f"Table 3.1 of {PAPER} and ours; they do not depend on the device. Per point: triangles whose centroids lie in",
        "the cells around the stencil, with a halo of one cell; per element: points in the cells around the triangle’s",
        "box (eq. 3.1). Ratio: per point over per element. The text names neither the family of Table 3.1’s meshes nor",
        "its points: with six points a triangle and stencils that wrap, our meshes of low variance give its counts, so",
        "that they stand beside it; the published meshes are not public, and have about as many triangles as ours.",
        CELLS,
        unavailable(campaign),
    ]
    return Table(columns, rows, sentences(caption))


def _row(field: Filtering | None, item: Record | None) -> tuple[Cell, ...]:
    """Return a line of a mesh that is published, or in the campaign, or both."""
    ours = counts(field)
    theirs = (int(item["per_point"]), int(item["per_element"])) if item else None
    if field:
        first = heads(field, "" if ours else NOT_COUNTED)
    else:
        assert item is not None
        first = (Cell(item["problem"], notes=("not in this campaign",)), Cell(), Cell(), Cell())
    return (
        *first,
        Cell(item["printed"] if item else None),
        *map(count, theirs or (None, None)),
        Cell(float(item["ratio"]), item["ratio"]) if item else Cell(),
        *map(count, ours or (None, None)),
        _fraction(ours[0] / ours[1] if ours else None),
        *(_fraction(ours[at] / theirs[at] if ours and theirs else None) for at in range(2)),
    )


def _fraction(value: float | None) -> Cell:
    return Cell() if value is None else Cell(value, f"{value:.3f}")
