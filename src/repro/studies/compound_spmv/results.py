"""What the tables and figures of this study read of a campaign and of the papers' published numbers.

A comparison has our fastest kernels of one case beside those of the papers' space, the library and the floor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from repro.bench.runnable import ClockName
from repro.results.campaign_data import Campaign, Case, ProblemRecord, ReportedTime, fastest_time
from repro.results.problem_rows import ProblemRow, ours
from repro.results.published import Published
from repro.sparse.baseline_times import fastest_baseline
from repro.sparse.compound.layouts import TILE_ROWS
from repro.sparse.compound.runnables import OWN_FLOOR
from repro.studies.compound_spmv import STUDY_NAME
from repro.studies.compound_spmv.study import EXTENDED, REORDERED_UNPAIRED, UNPAIRED

ENTRY_WORDS = {"real": "real", "complex": "complex", "quaternion": "quaternion", "block3": "3×3"}


def gpus(published: Published) -> list[str]:
    """Return the papers' GPUs, oldest first."""
    return [device["gpu"] for device in published["devices"]]


def memory_of(record: ProblemRecord | None) -> Mapping[str, Mapping[str, int]]:
    """Return a matrix's bytes by precision and outer format; empty where they are not recorded."""
    memory: Mapping[str, Mapping[str, int]] = record.facts.get(STUDY_NAME, {}).get("memory", {}) if record else {}
    return memory


def paper_rows(campaign: Campaign, problem: str, precision: str) -> list[dict[str, Any]]:
    """Return the rows of the search of the papers' space in the problem's own ordering, in the tables' cache state."""
    return [
        row
        for row in campaign.search_rows(problem, precision)
        if (row["space"], row["ordering"], row["cache"]) == ("paper", "natural", campaign.cache)
    ]


def tied_layouts(case: Case, best: ReportedTime | None) -> tuple[str, ...]:
    """Return the other layouts that have a variant within a tie of a winner."""
    if best is None or not best.ties:
        return ()
    searched = case.campaign.search_rows(case.problem, case.precision)
    layouts = {str(row["layout"]) for row in searched if row["name"] in best.ties}
    return tuple(sorted(layouts - {str(best.row["layout"])}))


@dataclass(frozen=True)
class Comparison:
    """The times of one problem at one precision by one clock, None where there is none.

    Attributes
    ----------
    line, case, clock
        Which.
    bytes
        Of the matrix as CSR-AoS.
    ours, papers
        The best variant of both spaces, and of the papers' alone; both in the problem's own ordering.
    library, papers_choice
        The fastest routine of the library of any representation, and the one that the papers compare with.
    floor
        The streaming floor.
    reordered, reordered_library
        The best variant of all orderings where that is not the problem's own, and the fastest routine in the same
        ordering.
    unpaired, reordered_unpaired
        The best variant that is of no format of pairs, in the problem's own ordering and in any; where a format of
        pairs was timed, which refuses all matrices but symmetric ones.
    """

    line: ProblemRow
    case: Case
    clock: ClockName
    bytes: int | None
    ours: ReportedTime | None
    papers: ReportedTime | None
    reordered: ReportedTime | None
    library: ReportedTime | None = None
    papers_choice: ReportedTime | None = None
    floor: ReportedTime | None = None
    reordered_library: ReportedTime | None = None
    unpaired: ReportedTime | None = None
    reordered_unpaired: ReportedTime | None = None

    @property
    def operands(self) -> int | None:
        """Bytes of the matrix as CSR-AoS and of both vectors, which the floor streams."""
        streamed = self.floor.row["least_bytes"] if self.floor else None
        return int(streamed) if streamed else None

    @property
    def best(self) -> tuple[ReportedTime | None, ReportedTime | None]:
        """The best variant of any ordering, and the fastest routine in that ordering."""
        if self.reordered is not None and self.reordered_library is not None:
            return self.reordered, self.reordered_library
        return self.ours, self.library

    def own_floor(self, kernel: ReportedTime | None) -> ReportedTime | None:
        """Return the floor of a kernel's own bytes: of one of pairs, which moves fewer than CSR; None of all others."""
        if kernel is None:
            return None
        rows = [row for row in self.case.rows if (row["kind"], row["layout"]) == (OWN_FLOOR, kernel.row["layout"])]
        return fastest_time(rows, self.clock)

    def routine(self, kernel: ReportedTime | None, *, papers_choice: bool = False) -> ReportedTime | None:
        """Return the fastest routine, of all or of the papers' choice, in the ordering of a kernel."""
        ordering = str(kernel.row["ordering"]) if kernel else "natural"
        return fastest_baseline(self.case, self.clock, papers_choice=papers_choice, ordering=ordering)

    @property
    def cold(self) -> Comparison | None:
        """The same variants with a cold cache, beside the routines that are the fastest then.

        None where the tables print cold times themselves. The event clock alone can take them.
        """
        if self.case.campaign.cache == "cold":
            return None
        case = replace(self.case, cache="cold")

        def again(kernel: ReportedTime | None) -> ReportedTime | None:
            return case.reported_time(kernel.name, "event") if kernel else None

        return _with_baselines(
            replace(
                self,
                case=case,
                clock="event",
                ours=again(self.ours),
                papers=again(self.papers),
                reordered=again(self.reordered),
                unpaired=again(self.unpaired),
                reordered_unpaired=again(self.reordered_unpaired),
            )
        )


def of_pairs_or_none(kernel: ReportedTime | None) -> ReportedTime | None:
    """Return a kernel if its format is one of pairs."""
    return kernel if kernel and kernel.row["outer"] in TILE_ROWS else None


def compare(line: ProblemRow, precision: str, campaign: Campaign, clock: ClockName = "graph") -> Comparison:
    """Return where our kernels stand on one problem at one precision, chosen and timed by a clock."""
    case = Case(campaign, line.problem, precision)
    reordered = case.winner("reordered", clock)
    return _with_baselines(
        Comparison(
            line=line,
            case=case,
            clock=clock,
            bytes=memory_of(line.record).get(precision, {}).get("CSR"),
            ours=case.winner(EXTENDED, clock),
            papers=case.winner("joint", clock),
            reordered=reordered if reordered and reordered.row["ordering"] != "natural" else None,
            unpaired=case.winner(UNPAIRED, clock),
            reordered_unpaired=case.winner(REORDERED_UNPAIRED, clock),
        )
    )


def _with_baselines(kernels: Comparison) -> Comparison:
    """Return kernels with the library and the floor beside them."""
    return replace(
        kernels,
        library=kernels.routine(None),
        papers_choice=kernels.routine(None, papers_choice=True),
        floor=kernels.case.bound("floor", kernels.clock),
        reordered_library=kernels.routine(kernels.reordered) if kernels.reordered else None,
    )


def comparisons(campaign: Campaign, published: Published, clock: ClockName = "graph") -> list[Comparison]:
    """Return all of a campaign, problem by problem, single precision first."""
    return [
        compare(line, precision, campaign, clock)
        for line in ours(campaign, published)
        for precision in campaign.precisions
    ]  # fmt: skip


def worst(cases: Sequence[tuple[float | None, Comparison]]) -> tuple[float, Comparison] | None:
    """Return the least number and the case that it is from."""
    there = [(value, which) for value, which in cases if value]
    return min(there, key=lambda item: item[0], default=None)
