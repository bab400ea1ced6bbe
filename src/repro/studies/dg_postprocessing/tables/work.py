"""How much there is to do at a point: pairs, what clipping leaves of them, and what contours take."""

from __future__ import annotations

from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.studies.dg_postprocessing.filter_times import Filtering, all_fields
from repro.studies.dg_postprocessing.paper import STUDY
from repro.studies.dg_postprocessing.shared_cells import FIELD, heads, three_digits
from repro.studies.dg_postprocessing.work import formula, gauss_points

KILO = 1e3
#: What is counted, by its column of a row.
COUNTED = {"pairs": "pairs", "subtriangles": "sub-triangles", "segments": "segments"}


@table(STUDY, "table-work", title="Work at a point", numbering="ours")
def work(campaign: Campaign, published: Published) -> Table:
    """A line a field, numbers of a point in the mean."""
    columns = (
        *FIELD,
        *(Column(key, title, "at a point") for key, title in COUNTED.items()),
        Column("evaluations", "evaluations", "at a point"),
        Column("kilo_operations", "1000 operations", "at a point"),
        Column("bytes", "bytes at the least", "at a point"),
        Column("intensity", "operations a byte"),
    )
    rows = [_row(field) for field in all_fields(campaign, published)]
    caption = [
        "What filtering at a point takes, in the mean of 256 points drawn at random: pairs of the point and an image",
        "of a triangle that meets its stencil; triangles that clipping to the stencil’s squares leaves of them, which",
        "the paper’s ways integrate on; segments of their edges between knot lines, which contours integrate along,",
        "and evaluations of the integrand there. Bytes at the least: corners and modes of all triangles and all points",
        "read once, a value written.",
        formula(),
        unavailable(campaign),
    ]
    return Table(columns, rows, sentences(caption))


def _row(field: Filtering) -> tuple[Cell, ...]:
    def each(column: str) -> float | None:
        number = field.number(column)
        return None if number is None or not field.points else number / field.points

    segments, operations, nbytes = each("segments"), each("operations"), each("least_bytes")
    evaluations = None if segments is None or field.degree is None else segments * gauss_points(field.degree)
    intensity = operations / nbytes if operations is not None and nbytes else None
    return (
        *heads(field, "" if field.points else field.case.why_not()),
        *(three_digits(each(column)) for column in COUNTED),
        three_digits(evaluations),
        three_digits(None if operations is None else operations / KILO),
        three_digits(nbytes),
        three_digits(intensity),
    )
