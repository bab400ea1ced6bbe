"""What tables and figures of the products share: who is compared with whom, problem by problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from repro.artifacts.case import Case, Timed, fastest
from repro.artifacts.data import Campaign
from repro.artifacts.lineup import Line, ours
from repro.artifacts.published import Published
from repro.bench.runnable import Clock
from repro.sparse.times import baseline
from repro.studies.dynamic_csr.printed import stated

CLOCK: Clock = "graph"
#: What the paper's text states of the products, by its name in `config/published`.
FRAGMENTED = "time of a fragmented product over a defragmented one, mean"
DEFRAGMENTED = "time of a defragmented product over CSR, mean"
ADAPTIVE = "speedup of the adaptive product over HYB, mean"
#: The columns that two variants of one schedule have in common.
SCHEDULE = ("schedule", "width", "per_thread", "unroll", "load")
Rule = Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True)
class ProductTimes:
    """The times of one problem at one precision by one clock, None where there is none.

    Attributes
    ----------
    line, case
        Which.
    csr, fragmented, defragmented
        The paper's product by vectors: own CSR, and segments in both states, each with the best number of threads.
    adaptive
        The paper's product by bins, in its best state.
    hyb
        The product of HYB.
    ours
        The fastest product of the segments in one launch, each row in one segment.
    library_csr, library
        The library's fastest routine for CSR, and of all.
    csr_twins
        Own CSR, and one segment a row, under the schedule that is the fastest for own CSR.
    state_twins
        The fragmented matrix, and one segment a row, under the schedule that is the fastest for the fragmented one.
    """

    line: Line
    case: Case
    csr: Timed | None
    fragmented: Timed | None
    defragmented: Timed | None
    adaptive: Timed | None
    hyb: Timed | None
    ours: Timed | None
    library_csr: Timed | None
    library: Timed | None
    csr_twins: tuple[Timed, Timed] | None
    state_twins: tuple[Timed, Timed] | None

    def gflops(self, timed: Timed | None) -> float | None:
        """Return two operations for each entry of the grown matrix, over the time, in units of 10^9 a second."""
        return 1e-9 * float(timed.row["operations"]) / timed.seconds if timed else None

    @property
    def size(self) -> int:
        """Operations of a product; 0 where nothing was timed."""
        return max((int(row["operations"] or 0) for row in self.case.rows), default=0)


def all_times(campaign: Campaign, published: Published, precision: str, clock: Clock = CLOCK) -> list[ProductTimes]:
    """Return all of a campaign at one precision, in the paper's order, then by growing size."""
    return [times_of(line, precision, campaign, clock) for line in ours(campaign, published)]


def times_of(line: Line, precision: str, campaign: Campaign, clock: Clock = CLOCK) -> ProductTimes:
    """Return where the products stand on one problem at one precision, each the fastest by a clock."""
    case = Case(campaign, line.problem, precision)
    # on one device: those on several say how many
    rows = [row for row in case.rows if row["what"] == "product" and (row.get("devices") or 1) == 1]

    def best(rule: Rule) -> Timed | None:
        return fastest([row for row in rows if rule(row)], clock)

    def by_vectors(state: str) -> Timed | None:
        return best(lambda row: _papers(row) and row["schedule"] == "vector" and row["state"] == state)

    return ProductTimes(
        line=line,
        case=case,
        csr=best(lambda row: _papers(row) and row["format"] == "csr"),
        fragmented=by_vectors("fragmented"),
        defragmented=by_vectors("defragmented"),
        adaptive=best(lambda row: _papers(row) and row["schedule"] == "streams"),
        hyb=best(lambda row: row["format"] == "hyb"),
        ours=best(
            lambda row: row["format"] == "dcsr" and row["schedule"] != "streams" and row["state"] != "fragmented"
        ),
        library_csr=baseline(case, clock, form="csr"),
        library=baseline(case, clock),
        csr_twins=_twins(rows, clock, lambda row: row["format"] == "csr", lambda row: row["state"] == "defragmented"),
        state_twins=_twins(
            rows,
            clock,
            lambda row: row["state"] == "fragmented" and row["schedule"] != "streams",
            lambda row: row["state"] == "defragmented" and not row["exact"],
        ),
    )


def _papers(row: Mapping[str, Any]) -> bool:
    return bool(row["space"] == "paper")


def _twins(rows: list[dict[str, Any]], clock: Clock, first: Rule, other: Rule) -> tuple[Timed, Timed] | None:
    """Return the fastest of the first that has twins, and the fastest of those: others of the same schedule."""
    others: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if other(row):
            others.setdefault(_schedule(row), []).append(row)
    base = fastest([row for row in rows if first(row) and fastest(others.get(_schedule(row), []), clock)], clock)
    twin = fastest(others[_schedule(base.row)], clock) if base else None
    return (base, twin) if base and twin else None


def _schedule(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in SCHEDULE)


def stated_means(published: Published) -> str:
    """Return the sentence with what the paper's text states of all products, empty where nothing is published."""
    records = [stated(published, quantity) for quantity in (FRAGMENTED, DEFRAGMENTED, ADAPTIVE)]
    values = [f"{record['value']}×" for record in records if record]
    if len(values) < len(records):
        return ""
    return (
        f"Published, K20c, in the mean of all graphs: a fragmented product takes {values[0]} the time of a "
        f"defragmented one, that one {values[1]} the time of CSR’s, and ADCSR is {values[2]} as fast as HYB; single "
        "times are in the paper’s bars alone."
    )
