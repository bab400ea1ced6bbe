"""What was aimed at in the study of sparse products and multigrid, and what was reached."""

from __future__ import annotations

from repro.artifacts.data import Campaign, one_line
from repro.artifacts.document import Cell, Table
from repro.artifacts.lineup import measured_on, sentences, unavailable
from repro.artifacts.numbers import geometric_mean
from repro.artifacts.published import Published, Record
from repro.artifacts.registry import table
from repro.artifacts.targets import Measured, target_columns, target_line, wanted_on
from repro.studies.spgemm_amg.paper import STUDY
from repro.studies.spgemm_amg.reached import QUANTITIES, gather
from repro.studies.spgemm_amg.times import EVENT, HOST, precision_of

#: Letters of a note that names cases without a number.
MOST = 500


@table(STUDY, "table-targets", title="Targets, and what was reached", numbering="ours")
def targets(campaign: Campaign, published: Published) -> Table:
    """Each target with the wanted number, the measured one, and the worst case; or why there is none."""
    measured = gather(campaign, published)
    caption = [
        "What was aimed at and what was reached, on the paper’s eight problems and their 24 products: A·A, A·P and",
        "R·(A·P) of each. Ours: the fastest way to a whole product with our kernels, as in the table of products. Best",
        "that was run: the fastest of the library’s routines, the paper’s kernels and the sort of all products. Cases:",
        "how many have a number; where some have none, a verdict is of the others, and a note names what is missing.",
        f"{precision_of(campaign).capitalize()} precision.",
        measured_on(campaign, HOST),
        f"Numeric phases, the library’s beside our whole products too: by the {EVENT} clock where a line does not say",
        "another; whole products and set-ups are timed by the host’s alone.",
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
        statistic=geometric_mean if quantity.statistic == "mean" else None,
        cases=measured.cases,
        missing=one_line(measured.why_not, MOST),
    )
