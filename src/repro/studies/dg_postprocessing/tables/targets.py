"""What was aimed at, and what was reached."""

from __future__ import annotations

from statistics import median

from repro.artifacts.data import Campaign, one_line
from repro.artifacts.document import Cell, Table
from repro.artifacts.lineup import measured_on, sentences, unavailable
from repro.artifacts.published import Published, Record
from repro.artifacts.registry import table
from repro.artifacts.targets import Measured, target_columns, target_line, wanted_on
from repro.studies.dg_postprocessing.filter_times import all_fields
from repro.studies.dg_postprocessing.paper import CLOCK, HOST, PRODUCT_CLOCK, STUDY
from repro.studies.dg_postprocessing.reached import QUANTITIES, gather
from repro.studies.dg_postprocessing.tables.filters import peak_words
from repro.studies.dg_postprocessing.work import formula

#: Letters of a note that names fields without a number.
MOST = 500


@table(STUDY, "table-targets", title="Targets, and what was reached", numbering="ours")
def targets(campaign: Campaign, published: Published) -> Table:
    """Each target with the wanted number, the measured one, and the worst field; or why there is none."""
    measured = gather(campaign, published)
    caption = [
        "What was aimed at and what was reached, on the paper’s thirty fields: meshes of low and of high variance of",
        "five sizes, P = 1, 2, 3. Ours: filtering by contours. The paper’s per-element kernel: a patch a",
        "multiprocessor, its fastest block. The library’s product: its fastest routine for the same matrix as scalars",
        "in CSR. 3D: a list of 2^20 regions of its mesh of cubes, 10 each way. Reported: no number is wanted. Cases:",
        "how many fields have a number; where some have none, a verdict is of the others, and a note names what is",
        "missing.",
        formula(),
        peak_words(all_fields(campaign, published)),
        measured_on(campaign, CLOCK),
        f"Products with the matrix by the {PRODUCT_CLOCK} clock where a line does not say another, making it by the",
        f"{HOST} clock. Of direct filtering no other clock is recorded.",
        wanted_on(campaign),
        unavailable(campaign),
    ]
    rows = [_row(item, measured[item["quantity"]]) for item in published.targets if item["quantity"] in measured]
    return Table(target_columns(campaign), rows, sentences(caption))


def _row(item: Record, measured: Measured) -> tuple[Cell, ...]:
    """Return the line of a target."""
    quantity = QUANTITIES[item["quantity"]]
    return target_line(
        item,
        measured.numbers,
        at_most=quantity.at_most,
        statistic=median if quantity.statistic == "median" else None,
        cases=measured.cases,
        missing=one_line(measured.why_not, MOST),
    )
