"""Where our kernels stand in one case: beside the papers' space, the library and the floor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from repro.artifacts.case import Case, Timed, fastest
from repro.artifacts.data import Campaign
from repro.artifacts.lineup import Line, ours
from repro.artifacts.published import Published
from repro.bench.runnable import Clock
from repro.sparse.times import baseline
from repro.studies.compound_spmv.choosing import EXTENDED, REORDERED_UNPAIRED, UNPAIRED
from repro.studies.compound_spmv.layout import TILE_ROWS
from repro.studies.compound_spmv.own_floor import OWN_FLOOR
from repro.studies.compound_spmv.recorded import memory_of


@dataclass(frozen=True)
class Standing:
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

    line: Line
    case: Case
    clock: Clock
    bytes: int | None
    ours: Timed | None
    papers: Timed | None
    reordered: Timed | None
    library: Timed | None = None
    papers_choice: Timed | None = None
    floor: Timed | None = None
    reordered_library: Timed | None = None
    unpaired: Timed | None = None
    reordered_unpaired: Timed | None = None

    @property
    def operands(self) -> int | None:
        """Bytes of the matrix as CSR-AoS and of both vectors, which the floor streams."""
        streamed = self.floor.row["least_bytes"] if self.floor else None
        return int(streamed) if streamed else None

    @property
    def best(self) -> tuple[Timed | None, Timed | None]:
        """The best variant of any ordering, and the fastest routine in that ordering."""
        if self.reordered is not None and self.reordered_library is not None:
            return self.reordered, self.reordered_library
        return self.ours, self.library

    def own_floor(self, kernel: Timed | None) -> Timed | None:
        """Return the floor of a kernel's own bytes: of one of pairs, which moves fewer than CSR; None of all others."""
        if kernel is None:
            return None
        rows = [row for row in self.case.rows if (row["kind"], row["layout"]) == (OWN_FLOOR, kernel.row["layout"])]
        return fastest(rows, self.clock)

    def routine(self, kernel: Timed | None, *, papers_choice: bool = False) -> Timed | None:
        """Return the fastest routine, of all or of the papers' choice, in the ordering of a kernel."""
        ordering = str(kernel.row["ordering"]) if kernel else "natural"
        return baseline(self.case, self.clock, papers_choice=papers_choice, ordering=ordering)

    @property
    def cold(self) -> Standing | None:
        """The same variants with a cold cache, beside the routines that are the fastest then.

        None where the tables print cold times themselves. The event clock alone can take them.
        """
        if self.case.campaign.cache == "cold":
            return None
        case = replace(self.case, cache="cold")

        def again(kernel: Timed | None) -> Timed | None:
            return case.timed(kernel.name, "event") if kernel else None

        return _beside(
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


def of_pairs_or_none(kernel: Timed | None) -> Timed | None:
    """Return a kernel if its format is one of pairs."""
    return kernel if kernel and kernel.row["outer"] in TILE_ROWS else None


def standing(line: Line, precision: str, campaign: Campaign, clock: Clock = "graph") -> Standing:
    """Return where our kernels stand on one problem at one precision, chosen and timed by a clock."""
    case = Case(campaign, line.problem, precision)
    reordered = case.winner("reordered", clock)
    return _beside(
        Standing(
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


def _beside(kernels: Standing) -> Standing:
    """Return kernels with the library and the floor beside them."""
    return replace(
        kernels,
        library=kernels.routine(None),
        papers_choice=kernels.routine(None, papers_choice=True),
        floor=kernels.case.bound("floor", kernels.clock),
        reordered_library=kernels.routine(kernels.reordered) if kernels.reordered else None,
    )


def standings(campaign: Campaign, published: Published, clock: Clock = "graph") -> list[Standing]:
    """Return all of a campaign, problem by problem, single precision first."""
    return [
        standing(line, precision, campaign, clock)
        for line in ours(campaign, published)
        for precision in campaign.precisions
    ]  # fmt: skip


def worst(cases: Sequence[tuple[float | None, Standing]]) -> tuple[float, Standing] | None:
    """Return the least number and the case that it is from."""
    there = [(value, which) for value, which in cases if value]
    return min(there, key=lambda item: item[0], default=None)
