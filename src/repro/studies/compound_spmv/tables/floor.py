"""How close the winners are to the streaming floor."""

from __future__ import annotations

from repro.artifacts.case import Case, Timed
from repro.artifacts.cells import digits, from_rows, micro, share, speedup, tied
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import PROBLEM, launches, measured_on, ours, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.sparse.times import baseline, library_of, routine_text
from repro.studies.compound_spmv.paper import STUDY

GIGA = 1e-9


@table(STUDY, "table-floor", title="Fraction of the streaming floor, effective bandwidth", numbering="ours")
def floor(campaign: Campaign, published: Published) -> Table:
    """Winner, fastest baseline and floor of every problem and precision."""
    rows: list[tuple[Cell, ...]] = []
    ties = timed = marked = 0
    for line in ours(campaign, published):
        for precision in campaign.precisions:
            case = Case(campaign, line.problem, precision)
            best = case.winner("joint", "graph")
            base = baseline(case, "graph")
            bound, copy, empty = (case.bound(k, "graph") for k in ("floor", "copy", "empty"))
            ties, timed = ties + bool(best and best.ties), timed + (best is not None)
            why = (case.why_not(),) if best is None and line.record and line.record.available else ()
            no_floor = (case.why_no_floor(),) if best and not bound else ()
            marked += case.mostly_launch("graph", best)
            rows.append(
                (
                    line.cell,
                    Cell(precision),
                    Cell(best.name if best else None, notes=why + tied(best, campaign.tie)),
                    micro(best, case),
                    share(bound, best),
                    bandwidth(best),
                    micro(bound, case) if bound else Cell(notes=no_floor),
                    Cell(base.name, routine_text(base)) if base else Cell(),
                    micro(base, case),
                    share(bound, base),
                    speedup(base, best),
                    copied(copy),
                    micro(empty),
                )
            )
    library = library_of(campaign)
    columns = (
        PROBLEM,
        Column("precision", "precision", numeric=False),
        Column("winner", "variant", "winner", numeric=False),
        Column("winner_us", "µs", "winner"),
        Column("winner_percent_of_floor", "of floor", "winner"),
        Column("effective_GB_per_s", "GB/s", "winner"),
        Column("floor_us", "µs", "floor"),
        Column("baseline", "routine", f"fastest {library}", numeric=False),
        Column("baseline_us", "µs", f"fastest {library}"),
        Column("baseline_percent_of_floor", "of floor", f"fastest {library}"),
        Column("speedup_over_baseline", "speedup over it", f"fastest {library}"),
        Column("copy_GB_per_s", "GB/s", "copy"),
        Column("empty_us", "µs", "empty"),
    )
    caption = sentences(
        [
            "Distance from the streaming floor: a kernel that only reads the bytes of the CSR-AoS matrix and of",
            "the vector and writes the result. Of floor: the floor’s time over the time. GB/s: the bytes of",
            "matrix (CSR-AoS), x read once and y written once, over the winner’s time, whatever its layout; with a",
            "warm cache they need not come from memory. Beside them the bandwidth of a device copy that is",
            "too large for the cache (bytes read and written) and what an empty kernel reads. Speedup: the",
            "fastest routine’s time over the winner’s. Nothing of this is published.",
            measured_on(campaign, "graph"),
            launches(marked, timed),
            f"Winners with other variants within {100 * campaign.tie:g} % in the search: {ties} of {timed}.",
            unavailable(campaign),
        ]
    )
    return Table(columns, rows, caption)


def bandwidth(timed: Timed | None) -> Cell:
    """Return GB/s by the count of bytes that is the same for all rows of a problem."""
    if timed is None or not timed.row["least_bytes"]:
        return Cell()
    value = timed.row["least_bytes"] / timed.seconds * GIGA
    return Cell(value, digits(value))


def copied(timed: Timed | None) -> Cell:
    """Return the bandwidth of a device copy in GB/s, by its own bytes."""
    if timed is None or not timed.row["bytes"]:
        return Cell()
    value = timed.row["bytes"] / timed.seconds * GIGA
    return from_rows(Cell(value, digits(value)), timed)
