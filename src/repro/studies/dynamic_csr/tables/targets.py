"""What was aimed at in the study of dynamic CSR, and what was reached."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from statistics import fmean, median

from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Table
from repro.artifacts.lineup import measured_on, sentences, unavailable
from repro.artifacts.published import Published, Record
from repro.artifacts.registry import table
from repro.artifacts.targets import target_columns, target_line, wanted_on
from repro.studies.dynamic_csr.operation_times import CLOCK, precision_of
from repro.studies.dynamic_csr.paper import STUDY
from repro.studies.dynamic_csr.product_times import CLOCK as PRODUCT_CLOCK
from repro.studies.dynamic_csr.reached import QUANTITIES, Measured, gather

STATISTICS: Mapping[str, Callable[[Iterable[float]], float]] = {"mean": fmean, "median": median}


@table(STUDY, "table-targets", title="Targets, and what was reached", numbering="ours")
def targets(campaign: Campaign, published: Published) -> Table:
    """Each target with the wanted number, the measured one, and the worst case; or why there is none."""
    measured = gather(campaign, published)
    caption = [
        "What was aimed at and what was reached. Updates: a batch alone into the matrix before the first batch; added:",
        "entries of one place come beside each other; unique: each place once. HYB: the grown matrix as one batch into",
        "an empty one, in the order of its rows. Rebuilding: counting, adding up and copying, in either order of the",
        "entries, of batches alone and of all batches of a problem. Products: as in the table of products, where each",
        "problem and precision is a case; fragmented: of graphs that have grown by a tenth, which sweeps have not.",
        "Defragmentation: bytes moved in a second over those of a copy. Several devices: over the fastest product on",
        "one.",
        f"Updates, defragmentation and several devices: {precision_of(campaign)} precision.",
        measured_on(campaign, CLOCK),
        f"Products, also over several devices: by the {PRODUCT_CLOCK} clock, where a line does not say events; both",
        "clocks are recorded of them, events alone of the rest.",
        wanted_on(campaign),
        unavailable(campaign),
    ]
    rows = [_row(item, measured[item["quantity"]]) for item in published.targets]
    return Table(target_columns(campaign), rows, sentences(caption))


def _row(item: Record, measured: Measured) -> tuple[Cell, ...]:
    """Return the line of a target."""
    quantity = QUANTITIES[item["quantity"]]
    return target_line(
        item,
        measured.numbers,
        at_most=quantity.at_most,
        statistic=STATISTICS.get(quantity.statistic),
        missing=measured.missing,
        notes=measured.notes,
    )
