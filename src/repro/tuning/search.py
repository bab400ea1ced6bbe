"""Searching a space of variants, and choosing winners from the searched rows.

A search screens what a strategy asks for with a few launches, then gives the full protocol to what is near the
best. The winner of a tuning is the fastest row among those that it may choose from, by each clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from repro.bench.rows import ALL_CLOCKS, TIMED, Row
from repro.bench.runnable import Runnable
from repro.bench.store import Store
from repro.bench.timing import SamplingPlan, full, screen
from repro.bench.trial import FAILURES, Bench
from repro.bench.worker import ContextLost, Watchdog, restart
from repro.config.models import Timing
from repro.tuning.strategies import Strategy, allowed
from repro.tuning.strategies.exhaustive import Exhaustive


@dataclass(frozen=True)
class Choice:
    """One answer to "which variant?".

    Attributes
    ----------
    clock
        The clock whose medians were compared.
    tuning
        What was tuned, as the study names it: `joint`, `extended`, …
    name
        The variant.
    ties
        Variants it could be told from by less than the tie.
    """

    clock: str
    tuning: str
    name: str
    ties: tuple[str, ...] = ()


def pick(
    rows: Sequence[Row], tie: float, asked: Callable[[Sequence[Row], str], Mapping[str, Sequence[Row]]]
) -> list[Choice]:
    """Return the best row of each tuning by each clock; an answer that no row can give is left out.

    Rows of the full protocol are preferred to screened ones, which are too few launches to choose by; noisy rows are
    taken only where there is nothing else.

    Parameters
    ----------
    rows
        What was searched.
    tie
        Share of the best time within which another is a tie.
    asked
        Returns by tuning what it chooses from, of the rows that have a time by a clock.
    """
    choices = []
    for clock in ALL_CLOCKS:
        timed = [row for row in rows if row.median(clock) is not None and row.status in TIMED]
        for tuning, candidates in asked(timed, clock).items() if timed else ():
            best = best_row(candidates, clock)
            if best is not None:
                choices.append(Choice(clock, tuning, best.name, _ties(candidates, best, clock, tie)))
    return choices


def best_row(rows: Sequence[Row], clock: str) -> Row | None:
    """Return the fastest row; full before screened, ok before noisy."""
    return min(rows, key=lambda r: (r.protocol != "full", r.status != "ok", r.median(clock)), default=None)


def ranked(rows: Sequence[Row], clock: str = "event") -> list[Row]:
    """Return the rows that have a time to choose by, rows of the full protocol first, the fastest of them first."""
    timed = [row for row in rows if row.median(clock) is not None and row.status in TIMED]
    return sorted(timed, key=lambda row: (row.protocol != "full", row.median(clock)))


def _ties(rows: Sequence[Row], best: Row, clock: str, tie: float) -> tuple[str, ...]:
    limit = (best.median(clock) or 0.0) * (1 + tie)
    close = [r for r in rows if r is not best and r.protocol == best.protocol and (r.median(clock) or limit) < limit]
    return tuple(row.name for row in sorted(close, key=lambda r: r.median(clock) or 0.0))


ProgressCallback = Callable[[str, int, int], None]
PHASE = "search"


class Search:
    """Tries runnables on one problem; rows that the store finds are not measured again.

    Parameters
    ----------
    bench, store
        What to measure on, and where the rows go.
    cold
        Whether the cache is flushed before each launch.
    progress
        Told how far it is.
    """

    def __init__(self, bench: Bench, store: Store, cold: bool, progress: ProgressCallback = lambda *_: None) -> None:
        self._bench = bench
        self._store = store
        self._screen = screen(bench.timing, cold)
        self._full = full(bench.timing, cold)
        self._progress = progress

    def exhaustive(self, runnables: Sequence[Runnable], what: str = "variants") -> list[Row]:
        """Try every runnable; return a row each, of the full protocol where it got that far."""
        return self.by(Exhaustive(), runnables, what)

    def by(
        self,
        strategy: Strategy,
        runnables: Sequence[Runnable],
        what: str = "variants",
        also: Callable[[Sequence[Row]], Container[str]] = lambda rows: (),
    ) -> list[Row]:
        """Try what a strategy asks for; return a row each, of the full protocol where it got that far.

        Parameters
        ----------
        also
            Returns the names, by the rows so far, that are asked for in full whatever their time.
        """
        rows = {row.name: row for row in self._try(runnables, self._screen, f"screening {what}", strategy)}
        runnables = [runnable for runnable in runnables if runnable.name in rows]
        groups = {runnable.name: getattr(runnable, "group", None) for runnable in runnables}
        finalists = within_reach(rows.values(), groups, self._bench.timing)
        rows |= self._timed([r for r in runnables if r.name in finalists], what)
        wanted = also(list(rows.values()))
        missing = [r for r in runnables if r.name in wanted and r.name not in finalists and rows[r.name].status == "ok"]
        rows |= self._timed(missing, what)
        return list(rows.values())

    def screened(self, runnables: Sequence[Runnable], what: str = "variants") -> list[Row]:
        """Try every runnable with a few launches; return a row each."""
        return self._try(runnables, self._screen, f"screening {what}", Exhaustive())

    def _timed(self, runnables: Sequence[Runnable], what: str) -> dict[str, Row]:
        return {row.name: row for row in self._try(runnables, self._full, f"timing {what}", Exhaustive())}

    def _try(self, runnables: Sequence[Runnable], effort: SamplingPlan, stage: str, strategy: Strategy) -> list[Row]:
        rows: list[Row] = []
        names = [runnable.name for runnable in runnables]
        with Watchdog(self._bench.timing.timeout) as watchdog:

            def measure(index: int) -> float | None:
                self._progress(stage, len(rows), allowed(names, strategy.budget))
                row = self._store.get(self._bench.key(runnables[index], PHASE, effort))
                rows.append(row or self._try_one(runnables[index], effort, watchdog))
                return rows[-1].screened_by if rows[-1].status == "ok" else None

            strategy(names, measure)
        self._progress(stage, len(rows), len(rows))
        return rows

    def _try_one(self, runnable: Runnable, effort: SamplingPlan, watchdog: Watchdog) -> Row:
        with attempt(self._bench, self._store, runnable, PHASE, effort, watchdog):
            row = self._store.add(self._bench.try_once(runnable, PHASE, effort))
        if self._bench.lost:
            raise ContextLost(f"{runnable.name}: {row.message}")
        return row


@contextmanager
def attempt(
    bench: Bench, store: Store, runnable: Runnable, phase: str, effort: SamplingPlan, watchdog: Watchdog
) -> Iterator[None]:
    """Try a runnable in the body, which may hang or crash: what ends the process is stored as a row of the runnable.

    Where it takes longer than a variant may, that is stored, and a new process goes on. What is to be stored should the
    process not survive is noted first; see `repro.bench.store.crashed_row`. Packing comes before the body, and waiting
    until others are done with the devices: neither counts.
    """

    def expired() -> None:
        reason = f"{runnable.name} did not end within {bench.timing.timeout:g} s"
        try:
            store.add(bench.row(runnable, phase, effort, "timeout", message=reason))
        except OSError as error:  # the thread has nobody to tell, and the process hangs all the same
            reason = f"{reason}, which cannot be stored: {error}"
        restart(reason)

    with store.in_flight(bench.row(runnable, phase, effort, "launch_error")):
        with suppress(*FAILURES):  # `prepare` meets it again, and says so
            runnable.pack(bench.workspace)
        with watchdog.guard(expired):
            yield


def within_reach(rows: Iterable[Row], groups: Mapping[str, Hashable], timing: Timing) -> set[str]:
    """Return the names that deserve the full protocol.

    Those within `reach` of the fastest, at most `finalists` of them, and the best `per_group` of each group (layout and
    kind of schedule, say), so that tables by group stand on full measurements as well.

    Parameters
    ----------
    groups
        The group of each name.
    """
    ranked = sorted((r for r in rows if r.status == "ok"), key=_time)
    if not ranked:
        return set()
    limit = _time(ranked[0]) * (1 + timing.reach)
    names = {row.name for row in ranked[: timing.finalists] if _time(row) <= limit}
    taken: Counter[Hashable] = Counter()
    for row in ranked:
        group = groups[row.name]
        taken[group] += 1
        if taken[group] <= timing.per_group:
            names.add(row.name)
    return names


def _time(row: Row) -> float:
    return row.screened_by or 0.0
