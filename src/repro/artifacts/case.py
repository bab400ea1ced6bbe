"""One problem at one precision: the winners, baselines and bounds that every table reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from repro.artifacts.data import Campaign
from repro.bench.rows import TIMED
from repro.bench.runnable import Clock

# up to this multiple of an empty kernel's reading a time is mostly launch
NEAR_EMPTY = 2.0
MOSTLY_LAUNCH = (
    f"a time within {NEAR_EMPTY:g}× of an empty kernel’s: mostly launch, its ratios say little by this clock"
)
NOISY = "noisy: the quartiles of this time lie further apart than the protocol allows"


@dataclass(frozen=True)
class Timed:
    """A time of the report phase.

    Attributes
    ----------
    name
        The row's name.
    seconds
        Median by the clock that was asked for.
    noisy
        Whether the row was marked so.
    ties
        Names that the search found within the tie of it.
    row
        The whole row.
    rounds
        Of each round the samples that were kept, in seconds; none where samples were not recorded.
    """

    name: str
    seconds: float
    noisy: bool
    ties: tuple[str, ...]
    row: Mapping[str, Any]
    rounds: Sequence[Sequence[float]] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Note that the time is noisy, where it is."""
        return (NOISY,) if self.noisy else ()

    @property
    def key(self) -> str:
        """The key of the row."""
        return str(self.row["key"])


@dataclass(frozen=True)
class Case:
    """One problem at one precision in a campaign.

    Attributes
    ----------
    campaign, problem, precision
        Which one.
    cache
        State of the L2 cache before a launch; None for the one that tables print, `warm` wherever it was measured.
    """

    campaign: Campaign
    problem: str
    precision: str
    cache: str | None = None

    @property
    def measured(self) -> bool:
        """Whether anything of it was timed for the report."""
        return any(row["status"] in TIMED for row in self.rows)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Rows of the report phase in this cache state."""
        rows = self.campaign.report_rows(self.problem, self.precision)
        cache = self.cache or self.campaign.cache
        return [row for row in rows if row["cache"] == cache]

    @property
    def choices(self) -> list[dict[str, Any]]:
        """What was chosen, by tuning and clock."""
        return self.campaign.choice_rows(self.problem, self.precision)

    def winner(self, tuning: str, clock: Clock, kind: str = "variant") -> Timed | None:
        """Return the reported time of what was chosen, of a kind; None where there is no choice or no time yet."""
        for choice in self.choices:
            if choice["tuning"] == tuning and choice["clock"] == clock:
                ties = choice["ties"]
                names = () if ties is None else tuple(str(t) for t in ties if t != choice["name"])
                rows = [r for r in self.rows if r["name"] == choice["name"] and r["kind"] == kind]
                return fastest(rows, clock, names)
        return None

    def timed(self, name: str, clock: Clock) -> Timed | None:
        """Return the reported time of a variant, None if it has none."""
        return fastest([row for row in self.rows if (row["kind"], row["name"]) == ("variant", name)], clock)

    def bound(self, kind: Literal["floor", "copy", "empty"], clock: Clock) -> Timed | None:
        """Return the fastest streaming kernel, device copy or empty kernel."""
        return fastest([row for row in self.rows if row["kind"] == kind], clock)

    def mostly_launch(self, clock: Clock, *times: Timed | float | None) -> bool:
        """Return whether any of the times (or seconds) is within `NEAR_EMPTY` of what an empty kernel reads."""
        empty = self.bound("empty", clock)
        if empty is None:
            return False
        seconds = [time.seconds if isinstance(time, Timed) else time for time in times if time is not None]
        return any(time <= NEAR_EMPTY * empty.seconds for time in seconds)

    def launch_note(self, clock: Clock, *times: Timed | float | None) -> tuple[str, ...]:
        """Note that a time is mostly launch, where one is."""
        return (MOSTLY_LAUNCH,) if self.mostly_launch(clock, *times) else ()

    def why_no_floor(self) -> str:
        """Return why there is no time of the floor."""
        statuses = sorted({str(row["status"]) for row in self.rows if row["kind"] == "floor"})
        return f"floor failed: {', '.join(statuses)}" if statuses else "no floor was timed"

    def why_not(self) -> str:
        """Return why there is no time: unavailable, refused by the study, not measured, failed, or not chosen yet."""
        record = self.campaign.problems.get(self.problem)
        if record is not None and not record.available:
            return str(record.remark)
        if not self.rows:
            searched = self.campaign.search_rows(self.problem, self.precision)
            return "searched but not reported yet" if searched else "not measured in this campaign"
        variants = [row for row in self.rows if row["kind"] == "variant"]
        refused = next((row for row in variants if row["status"] == "unavailable"), None)
        if refused:
            return str(refused["message"]).partition("\n")[0]
        if variants and not any(row["status"] in TIMED for row in variants):
            return "failed: " + ", ".join(sorted({row["status"] for row in variants}))
        return "no winner was chosen yet"


def median(row: Mapping[str, Any], clock: Clock) -> float | None:
    """Return a row's median by a clock in seconds; None where it has no valid time."""
    if row["status"] not in TIMED or not row[f"{clock}_median"]:
        return None
    return float(row[f"{clock}_median"])


def fastest(rows: Iterable[Mapping[str, Any]], clock: Clock, ties: tuple[str, ...] = ()) -> Timed | None:
    """Return the fastest of some rows, None if none of them has a time."""
    timed = [(seconds, str(row["name"]), row) for row in rows if (seconds := median(row, clock)) is not None]
    if not timed:
        return None
    seconds, name, row = min(timed, key=lambda item: item[:2])
    return Timed(name, seconds, row["status"] == "noisy", ties, row, row.get(f"{clock}_samples") or ())
