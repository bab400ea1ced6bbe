"""Fields over several devices of one host: times and speed-ups over one, and what it takes to bring values together."""

from __future__ import annotations

from collections.abc import Sequence

from repro.artifacts.cells import ratio
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import measured_on, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.studies.dg_postprocessing.filter_times import ELEMENT, OURS, Filtering, all_fields
from repro.studies.dg_postprocessing.paper import CLOCK, GATHER, PAPER, STUDY
from repro.studies.dg_postprocessing.several_times import NOTHING, counts, gathered, over, speedup
from repro.studies.dg_postprocessing.shared_cells import FIELD, heads, milli, summary


@table(STUDY, "table-devices", title="Filtering over several devices", numbering=f"Figure 3.12 of {PAPER}")
def devices(campaign: Campaign, published: Published) -> Table:
    """A line a field; geometric means and the least of speed-ups below."""
    fields = all_fields(campaign, published)
    numbers = counts(fields)
    one = (Column("ours_ms", "ours, ms", "1 device"), Column("element_ms", "per element, ms", "1 device"))
    columns = [*FIELD, *(one if numbers else ())]
    speedups = []
    for number in numbers:
        group = f"{number} devices"
        columns += [
            Column(f"ours_{number}_ms", "ours, ms", group),
            Column(f"ours_{number}", "×", group),
            Column(f"gather_{number}_ms", "gather, ms", group),
            Column(f"gathered_{number}", "with it, ×", group),
            Column(f"element_{number}_ms", "per element, ms", group),
            Column(f"element_{number}", "×", group),
        ]
        speedups += [f"ours_{number}", f"gathered_{number}", f"element_{number}"]
    rows = [_row(field, numbers) for field in fields]
    caption = [
        "A field filtered over several devices of one host, and speed-ups over one of them by the same way, timed in",
        "the same rounds. Ours: the points are dealt cell by cell in parts of equal work, as operations are counted,",
        "all devices have the whole field, and values stay where they are computed. Gather: bringing them to the",
        "first device, by itself; with it: the speed-up of both, one after the other. Per element: the paper’s, with",
        "as many patches a device as one alone has, whose second stage adds up on the first device what all have.",
        "" if numbers else NOTHING,
        measured_on(campaign, CLOCK),
        unavailable(campaign),
    ]
    return Table(tuple(columns), rows, sentences(caption), summary(columns, rows, speedups), not numbers)


def _row(field: Filtering, numbers: Sequence[int]) -> tuple[Cell, ...]:
    timed = any(over(field, OURS, number) or over(field, ELEMENT, number) for number in numbers)
    why = "" if timed or not numbers else "not measured over several devices"
    cells = [*heads(field, why)]
    if numbers:
        cells += [milli(over(field, OURS, 1)), milli(over(field, ELEMENT, 1))]
    for number in numbers:
        cells += [
            milli(over(field, OURS, number)),
            ratio(speedup(field, OURS, number)),
            milli(over(field, OURS, number, GATHER)),
            ratio(gathered(field, number)),
            milli(over(field, ELEMENT, number)),
            ratio(speedup(field, ELEMENT, number)),
        ]
    return tuple(cells)
