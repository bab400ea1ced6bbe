"""Every field whose exact function is known: how far it is from that, before and after the filter, and the orders."""

from __future__ import annotations

from collections.abc import Mapping

from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.studies.dg_postprocessing.accuracy import Errors
from repro.studies.dg_postprocessing.field_errors import before, filtered, filtered_row, function_of, orders, why_not
from repro.studies.dg_postprocessing.filter_times import Filtering, all_fields
from repro.studies.dg_postprocessing.paper import STUDY
from repro.studies.dg_postprocessing.shared_cells import FIELD, gain, heads, scientific

#: What errors are of, by the keys of columns.
OF = {"dg": "dG", "filtered": "filtered"}


@table(STUDY, "table-errors", title="Errors before and after the filter", numbering="ours")
def accuracy(campaign: Campaign, published: Published) -> Table:
    """A line a field: both errors of dG and of the filtered field, their orders, and the one over the other."""
    fields = all_fields(campaign, published)
    columns = (
        *FIELD,
        Column("function", "function", numeric=False),
        Column("mean_edge", "mean edge"),
        *(
            Column(f"{key}_{column}", text, title)
            for key, title in OF.items()
            for column, text in (("l2", "L²"), ("l2_order", "L² order"), ("max", "max"), ("max_order", "max order"))
        ),
        Column("l2_gain", "L²", "dG over filtered"),
        Column("max_gain", "max", "dG over filtered"),
    )
    of_before, of_filtered = orders(fields, before), orders(fields, filtered)
    rows = [_row(field, of_before, of_filtered) for field in fields]
    caption = [
        "How far a field is from the function that it is the L² projection of, and how far the field that the filter",
        "makes of it, with h the longest edge: in L² over the domain, by the quadrature whose points are filtered at,",
        "and the largest error at these points. A projection errs less there than elsewhere (by finer quadrature its",
        "error in L² is about 1.3 times as large), so that gains are understated. The filtered values are those of",
        "the kernels. Order: the logarithm of the ratio of errors over that of mean edges, against the next coarser",
        "mesh of the same family and degree in this campaign. dG over filtered: above 1 the filter has brought the",
        "field nearer to the function. A stencil is 3P + 1 longest edges wide: on meshes so coarse that it is as wide",
        "as a wave, or whose triangles differ much in size, the filter takes more away than errors.",
        unavailable(campaign),
    ]
    return Table(columns, rows, sentences(caption))


def _row(field: Filtering, of_before: Mapping[str, Errors], of_filtered: Mapping[str, Errors]) -> tuple[Cell, ...]:
    own, after, name = before(field), filtered(field), field.line.problem
    row = filtered_row(field)
    edge = field.facts.get("mean_edge")
    return (
        *heads(field, "" if after else why_not(field)),
        Cell(function_of(field), keys=(str(row["key"]),) if row else ()),
        Cell() if edge is None else Cell(edge, f"{edge:.4f}"),
        *_both(own, of_before.get(name)),
        *_both(after, of_filtered.get(name)),
        gain(own.l2 / after.l2 if own and after and after.l2 else None),
        gain(own.largest / after.largest if own and after and after.largest else None),
    )


def _both(errors: Errors | None, order: Errors | None) -> tuple[Cell, ...]:
    return (
        scientific(errors.l2 if errors else None),
        gain(order.l2 if order else None),
        scientific(errors.largest if errors else None),
        gain(order.largest if order else None),
    )
