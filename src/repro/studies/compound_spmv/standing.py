"""Where our kernels stand in one case: beside the papers' space, the library and the floor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from repro.artifacts.case import Case, Timed
from repro.artifacts.data import Campaign
from repro.artifacts.lineup import Line, ours
from repro.artifacts.published import Published
from repro.sparse.times import baseline
from repro.studies.compound_spmv.recorded import memory_of


@dataclass(frozen=True)
class Standing:
    """The times of one problem at one precision by the graph clock, None where there is none.

    Attributes
    ----------
    line, case
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
    """

    line: Line
    case: Case
    bytes: int | None
    ours: Timed | None
    papers: Timed | None
    library: Timed | None
    papers_choice: Timed | None
    floor: Timed | None
    reordered: Timed | None
    reordered_library: Timed | None

    @property
    def best(self) -> tuple[Timed | None, Timed | None]:
        """The best variant of any ordering, and the fastest routine in that ordering."""
        if self.reordered is not None and self.reordered_library is not None:
            return self.reordered, self.reordered_library
        return self.ours, self.library


def standing(line: Line, precision: str, campaign: Campaign) -> Standing:
    """Return where our kernels stand on one problem at one precision."""
    case = Case(campaign, line.problem, precision)
    reordered = case.winner("reordered", "graph")
    ordering = str(reordered.row["ordering"]) if reordered else "natural"
    return Standing(
        line=line,
        case=case,
        bytes=memory_of(line.record).get(precision, {}).get("CSR"),
        ours=case.winner("extended", "graph"),
        papers=case.winner("joint", "graph"),
        library=baseline(case, "graph"),
        papers_choice=baseline(case, "graph", papers_choice=True),
        floor=case.bound("floor", "graph"),
        reordered=reordered if ordering != "natural" else None,
        reordered_library=baseline(case, "graph", ordering=ordering) if ordering != "natural" else None,
    )


def standings(campaign: Campaign, published: Published) -> list[Standing]:
    """Return all of a campaign, problem by problem, single precision first."""
    return [
        standing(line, precision, campaign)
        for line in ours(campaign, published)
        for precision in campaign.precisions
    ]  # fmt: skip


def worst(cases: Sequence[tuple[float | None, Standing]]) -> tuple[float, Standing] | None:
    """Return the least number and the case that it is from."""
    there = [(value, which) for value, which in cases if value]
    return min(there, key=lambda item: item[0], default=None)
