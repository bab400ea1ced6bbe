"""What was aimed at in the study of sparse products and multigrid, and what was reached."""

from __future__ import annotations

from repro.artifacts.data import Campaign, one_line
from repro.artifacts.document import Cell, Table
from repro.artifacts.lineup import measured_on, sentences, unavailable
from repro.artifacts.numbers import geometric_mean
from repro.artifacts.published import Published, Record
from repro.artifacts.registry import table
from repro.artifacts.targets import rehearsal, target_columns, target_heads
from repro.studies.spgemm_amg.paper import STUDY
from repro.studies.spgemm_amg.reached import QUANTITIES, Measured, gather
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
        f"Numeric phases, the library’s beside our whole products too: by the {EVENT} clock.",
        rehearsal(campaign),
        unavailable(campaign),
    ]
    rows = [_row(item, measured[item["quantity"]]) for item in published.targets]
    return Table(target_columns(campaign), rows, sentences(caption))


def _row(item: Record, measured: Measured) -> tuple[Cell, ...]:
    """Return the line of a target."""
    quantity = QUANTITIES[item["quantity"]]
    wanted = float(item["wanted"])
    heads = target_heads(item, quantity.at_most)
    missing = one_line(measured.why_not, MOST)
    if not measured.numbers:
        return (*heads, Cell(), Cell(None, " "), Cell(0), Cell(), Cell(missing))
    worst = (max if quantity.at_most else min)(measured.numbers, key=lambda number: number.value)
    mean = geometric_mean(number.value for number in measured.numbers)
    value = mean if quantity.statistic == "mean" and mean is not None else worst.value
    reached = value <= wanted if quantity.at_most else value >= wanted
    notes = (f"no number of {missing}",) if missing else ()
    count = len(measured.numbers)
    return (
        *heads,
        Cell(value, f"{value:.2f}"),
        Cell("yes" if reached else "no"),
        Cell(count, f"{count} of {measured.cases}" if missing else str(count), notes),
        Cell(worst.value, f"{worst.value:.2f}"),
        Cell(worst.case, notes=worst.notes),
    )
