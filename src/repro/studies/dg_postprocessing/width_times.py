"""What tables and figures of chapter 4 ask of a case: the fastest kernel of each width and number of regions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from repro.artifacts.case import Case, Timed, fastest
from repro.artifacts.data import Campaign
from repro.artifacts.lineup import Line, ours
from repro.artifacts.published import Published
from repro.bench.runnable import Clock
from repro.studies.dg_postprocessing.paper import MACHINE
from repro.studies.dg_postprocessing.region_space import full_width

CLOCK: Clock = "event"
VECTOR = "vector"


@dataclass(frozen=True)
class WidthTimes:
    """The times of one problem on tetrahedra.

    Attributes
    ----------
    line, case
        The problem in the campaign's order, and what was measured of it.
    degree
        Of field and kernel.
    """

    line: Line
    case: Case
    degree: int

    @property
    def searched(self) -> list[Mapping[str, Any]]:
        """The rows of the paper's kernels, of the search."""
        rows = self.case.campaign.search_rows(self.case.problem, self.case.precision)
        return [row for row in rows if row["method"] == VECTOR]

    @property
    def pairs(self) -> dict[tuple[int, int], float]:
        """Seconds of the fastest over the numbers of blocks, by width and regions of a block, as searched."""
        best: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
        for row in self.searched:
            best.setdefault((int(row["vector_width"]), int(row["regions_per_block"])), []).append(row)
        times = {pair: fastest(rows, CLOCK) for pair, rows in best.items()}
        return {pair: timed.seconds for pair, timed in times.items() if timed}

    def of_width(self, width: int) -> Timed | None:
        """Return the fastest kernel of a width, as reported."""
        rows = [row for row in self.case.rows if (row["method"], row["vector_width"]) == (VECTOR, width)]
        return fastest([row for row in rows if row["what"] == "regions"], CLOCK)

    def gain(self, width: int) -> float | None:
        """Return by what share a width is faster than the full one, -0.2 where it takes 1.25 times as long."""
        full, timed = self.of_width(full_width(self.degree)), self.of_width(width)
        return full.seconds / timed.seconds - 1 if full and timed else None


def width_times(campaign: Campaign, published: Published) -> list[WidthTimes]:
    """Return the problems on tetrahedra of a campaign that anything was searched of, by degree."""
    found = []
    for line in ours(campaign, published):
        case = Case(campaign, line.problem, "double")
        degrees = {row["kernel_degree"] for row in campaign.search_rows(line.problem, "double")} - {None}
        found += [WidthTimes(line, case, int(degree)) for degree in degrees]
    return sorted(found, key=lambda times: (times.degree, times.line.problem))


def published_gains(published: Published, degree: int) -> dict[int, float]:
    """Return what Figure 4.6 states of a degree on the paper's machine, by width."""
    records = published.tables.get("width", [])
    return {
        int(item["vector_width"]): float(item["gain"])
        for item in records
        if (item["gpu"], int(item["degree"])) == (MACHINE, degree)
    }
