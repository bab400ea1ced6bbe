"""What tables and figures of chapter 4 ask of a case: kernels by width and regions of a block, and ours beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from repro.artifacts.case import Case, Timed, fastest, median
from repro.artifacts.data import Campaign
from repro.artifacts.lineup import Line, ours
from repro.artifacts.published import Published
from repro.bench.runnable import Clock
from repro.studies.dg_postprocessing.paper import MACHINE
from repro.studies.dg_postprocessing.peak import peak_of
from repro.studies.dg_postprocessing.region_space import WIDTHS, full_width

CLOCK: Clock = "event"
VECTOR, LANE, MATRIX = "vector", "lane", "matrix"
#: Nanoseconds of a second: times are printed of a region, so that lists of several lengths can be read alike.
NANO = 1e9


class Searched(NamedTuple):
    """A kernel of the paper's, as searched: threads of a region, regions of a block, and nanoseconds of a region."""

    width: int
    regions: int
    nano: float


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
    def searched(self) -> list[Searched]:
        """The paper's kernels that the search has timed, one for each width, number of regions and of blocks."""
        rows = self.case.campaign.search_rows(self.case.problem, self.case.precision)
        return [
            Searched(int(row["vector_width"]), int(row["regions_per_block"]), NANO * seconds / row["regions"])
            for row in rows
            if row["method"] == VECTOR and row["regions"] and (seconds := median(row, CLOCK)) is not None
        ]

    @property
    def pairs(self) -> dict[tuple[int, int], float]:
        """Nanoseconds of a region, the least over the numbers of blocks, by width and regions of a block."""
        best: dict[tuple[int, int], float] = {}
        for one in self.searched:
            pair = one.width, one.regions
            best[pair] = min(one.nano, best.get(pair, one.nano))
        return best

    def of_width(self, width: int) -> Timed | None:
        """Return the fastest kernel of a width, as reported."""
        return fastest([row for row in self._reported(VECTOR) if row["vector_width"] == width], CLOCK)

    def of_method(self, method: str) -> Timed | None:
        """Return the fastest kernel of a method, as reported."""
        return fastest(self._reported(method), CLOCK)

    def gain(self, width: int) -> float | None:
        """Return by what share a width is faster than the full one, -0.2 where it takes 1.25 times as long."""
        full, timed = self.of_width(full_width(self.degree)), self.of_width(width)
        return full.seconds / timed.seconds - 1 if full and timed else None

    @property
    def best_gain(self) -> tuple[int, float] | None:
        """The width that gains most over the full one, and its gain; None where none has one."""
        gains = {width: self.gain(width) for width in WIDTHS[self.degree] if width != full_width(self.degree)}
        return max(
            ((width, gain) for width, gain in gains.items() if gain is not None),
            key=lambda item: item[1],
            default=None,
        )

    @property
    def peak(self) -> float | None:
        """What the device does at most in double precision, GFLOPS; None where that is not known."""
        name = next((row["environment"] for row in self.case.rows if row.get("environment")), None)
        return peak_of(self.case.campaign.environments.get(str(name), {}))

    def _reported(self, method: str) -> list[dict[str, Any]]:
        return [row for row in self.case.rows if (row["method"], row["what"]) == (method, "regions")]


def gflops(timed: Timed | None) -> float | None:
    """Return the operations of a kernel's regions over its time, in units of 10^9 a second."""
    if timed is None or not timed.row["regions"]:
        return None
    return 1e-9 * float(timed.row["regions"] * timed.row["region_operations"]) / timed.seconds


def width_times(campaign: Campaign, published: Published) -> list[WidthTimes]:
    """Return the problems on tetrahedra of a campaign that anything was searched of, by degree."""
    items = []
    for line in ours(campaign, published):
        case = Case(campaign, line.problem, "double")
        degrees = {row["kernel_degree"] for row in campaign.search_rows(line.problem, "double")} - {None}
        items += [WidthTimes(line, case, int(degree)) for degree in degrees]
    return sorted(items, key=lambda times: (times.degree, times.line.problem))


def published_gains(published: Published, degree: int) -> dict[int, float]:
    """Return what Figure 4.6 states of a degree on the paper's machine, by width."""
    records = published.tables.get("width", [])
    return {
        int(item["vector_width"]): float(item["gain"])
        for item in records
        if (item["gpu"], int(item["degree"])) == (MACHINE, degree)
    }
