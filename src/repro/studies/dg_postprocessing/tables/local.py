"""An h of each point against one for all: errors, pairs and times."""

from __future__ import annotations

from repro.artifacts.case import fastest
from repro.artifacts.cells import speedup
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import measured_on, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.studies.dg_postprocessing.field_errors import before, filtered, local_row, locally, why_not_local
from repro.studies.dg_postprocessing.filter_times import POINT_TUNED, Filtering, all_fields
from repro.studies.dg_postprocessing.paper import CLOCK, LOCAL_MOST, STUDY
from repro.studies.dg_postprocessing.shared_cells import FIELD, gain, heads, milli, milli_of, scientific, three_digits

#: The two that are compared, by the keys of columns.
WAYS = {"whole": "one h", "local": "local h"}


@table(STUDY, "table-local", title="An h of each point", numbering="ours")
def by_point(campaign: Campaign, published: Published) -> Table:
    """A line a field on a mesh that is not too large for it."""
    fields = [field for field in all_fields(campaign, published) if (field.triangles or 0) <= LOCAL_MOST]
    columns = (
        *FIELD,
        Column("longest_edge", "longest edge", "h"),
        Column("mean_scale", "local, mean", "h"),
        Column("dg_l2", "dG", "L² error"),
        *(Column(f"{key}_l2", title, "L² error") for key, title in WAYS.items()),
        Column("l2_gain", "one over local", "L² error"),
        Column("dg_max", "dG", "largest error"),
        *(Column(f"{key}_max", title, "largest error") for key, title in WAYS.items()),
        Column("max_gain", "one over local", "largest error"),
        *(Column(f"{key}_pairs", title, "pairs at a point") for key, title in WAYS.items()),
        *(Column(f"{key}_ms", title, "ms") for key, title in WAYS.items()),
        Column("speedup", "one over local", "ms"),
    )
    rows = [_row(field) for field in fields]
    most = f"{LOCAL_MOST:,}".replace(",", "\N{NO-BREAK SPACE}")
    caption = [
        "Local h: at a vertex the longest edge of the triangles around it, linear between the three of a triangle. One",
        "h: the longest edge of the mesh, as the text has it. Errors as in table-errors, pairs as in table-work. Times",
        "are of the paper’s per-point way with tuned cells and blocks, and of the same kernel with an h of each point:",
        "both clip triangles, since contours on a device need triangles that are no wider than h. Above 1 local h is",
        f"the better. Of meshes of up to {most} triangles.",
        measured_on(campaign, CLOCK),
        unavailable(campaign),
    ]
    return Table(columns, rows, sentences(caption))


def _row(field: Filtering) -> tuple[Cell, ...]:
    own, one, local, row = before(field), filtered(field), locally(field), local_row(field) or {}
    timed, whole = fastest([row], CLOCK) if row else None, field.time(POINT_TUNED)
    points = field.points
    pairs = [
        number / points if number and points else None for number in (field.number("pairs"), row.get("local_pairs"))
    ]
    return (
        *heads(field, "" if local else why_not_local(field)),
        *(
            Cell() if h is None else Cell(h, f"{h:.4f}")
            for h in (field.facts.get("longest_edge"), row.get("mean_scale"))
        ),
        *(scientific(errors.l2 if errors else None) for errors in (own, one, local)),
        gain(one.l2 / local.l2 if one and local and local.l2 else None),
        *(scientific(errors.largest if errors else None) for errors in (own, one, local)),
        gain(one.largest / local.largest if one and local and local.largest else None),
        *map(three_digits, pairs),
        milli_of(field, POINT_TUNED),
        milli(timed),
        speedup(whole, timed),
    )
