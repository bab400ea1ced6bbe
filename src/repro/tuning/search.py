"""Searches a space of variants, and chooses winners from the measured rows.

A search first screens the variants that a strategy requests, with a few launches each. Variants close to the best are
then timed with the full protocol. A tuning is a rule by which a variant is chosen: it says which rows are candidates,
and the fastest of them by each clock wins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from repro.bench.rows import ALL_CLOCKS, SEARCH, TIMED, ClockName, Row, median_column
from repro.bench.runnable import Runnable
from repro.bench.store import Store
from repro.bench.timing import LONG_LAUNCH, SamplingPlan, full, screen
from repro.bench.trial import FAILURES, Bench
from repro.bench.variant_id import BaseId
from repro.bench.worker import UNABLE, ContextLost, UnableToStore, Watchdog, restart
from repro.tuning.strategies import Exhaustive, Strategy, budgeted_count

if TYPE_CHECKING:
    from repro.config.models import Timing


@dataclass(frozen=True)
class Choice:
    """The winner of one tuning by one clock."""

    #: Clock by which the candidates were compared.
    clock: str
    #: Name of the tuning, defined by the study: `joint`, `extended`, …
    tuning: str
    #: Id of the winning variant; its name if it has no id.
    id: BaseId | str
    #: Names of variants whose time differs from the best time by less than the tie tolerance.
    ties: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return str(self.id)


R = TypeVar("R", bound=Mapping[str, Any])
#: How one of two compared kernels is found: by the tunings that chose it, the first that made a choice, or as the
#: fastest row with these values of columns, each one value or several that are allowed.
Side = tuple[str, ...] | Mapping[str, object]


@dataclass(frozen=True)
class Pair:
    """Two kernels of a case whose times a study's headline compares."""

    ours: Side
    base: Side
    clock: ClockName
    #: What both compute, if there are several tasks; and the headline that is a mean of such pairs, if several.
    task: str = ""
    headline: str = ""

    def find(self, rows: Iterable[R], choices: Iterable[Mapping[str, Any]]) -> tuple[R, R] | None:
        """Return the rows of both kernels among the reported rows of a case; None if one has no time."""
        timed_rows = [row for row in rows if row["status"] in TIMED and row["cache"] == "warm" and self._time(row)]
        found = [self._find(side, timed_rows, [*choices]) for side in (self.ours, self.base)]
        return (found[0], found[1]) if found[0] and found[1] else None

    def _time(self, row: Mapping[str, Any]) -> float | None:
        return row.get(median_column(self.clock)) or None

    def _find(self, side: Side, rows: Iterable[R], choices: Iterable[Mapping[str, Any]]) -> R | None:
        if isinstance(side, tuple):
            chosen = {choice["tuning"]: choice["name"] for choice in choices if choice["clock"] == self.clock}
            name = next((chosen[tuning] for tuning in side if tuning in chosen), None)
            side = {"kind": "variant", "name": name}
        fitting = [row for row in rows if all(_is_allowed(row.get(column), value) for column, value in side.items())]
        return min(fitting, key=lambda row: self._time(row) or np.inf, default=None)


def _is_allowed(value: object, allowed: object) -> bool:
    return value in allowed if isinstance(allowed, tuple) else value == allowed


def pick(
    rows: Sequence[Row],
    tie: float,
    candidates_by_tuning: Callable[[Sequence[Row], str], Mapping[str, Sequence[Row]]],
    ids: Iterable[BaseId] = (),
) -> list[Choice]:
    """Return the winner of each tuning by each clock; tunings without a row are left out.

    Rows timed with the full protocol are preferred to screened rows; noisy rows are used only if there are no others.

    Parameters
    ----------
    tie
        Maximum relative difference from the best time for a tie.
    candidates_by_tuning
        Function that returns the candidates of each tuning. Arguments: rows with a time by a clock, and the clock.
    ids
        Ids of the candidates. A winner that is not among them is stored by name.
    """
    choices, by_name = [], {str(id): id for id in ids}
    for clock in ALL_CLOCKS:
        timed_rows = [row for row in rows if row.median(clock) is not None and row.status in TIMED]
        for tuning, candidates in candidates_by_tuning(timed_rows, clock).items() if timed_rows else ():
            best = best_row(candidates, clock)
            if best is not None:
                choices.append(
                    Choice(clock, tuning, by_name.get(best.name, best.name), _ties(candidates, best, clock, tie))
                )
    return choices


def best_row(rows: Sequence[Row], clock: str) -> Row | None:
    """Return the fastest of rows that all have a median by the clock; None if there are no rows.

    Rows timed in full precede the others, and within each group, noisy rows come last.
    """
    return min(rows, key=lambda r: (r.protocol != "full", r.status != "ok", r.median(clock)), default=None)


def rank_rows(rows: Sequence[Row], clock: str = "event") -> list[Row]:
    """Sort rows by their medians, those timed in full first; rows without a median are left out."""
    timed_rows = [row for row in rows if row.median(clock) is not None and row.status in TIMED]
    return sorted(timed_rows, key=lambda row: (row.protocol != "full", row.median(clock)))


def _ties(rows: Sequence[Row], best: Row, clock: str, tie: float) -> tuple[str, ...]:
    limit = (best.median(clock) or 0.0) * (1 + tie)
    close = [r for r in rows if r is not best and r.protocol == best.protocol and (r.median(clock) or limit) < limit]
    return tuple(row.name for row in sorted(close, key=lambda r: r.median(clock) or 0.0))


ProgressCallback = Callable[[str, int, int], None]


#: A launch that takes this many times the fastest one's seconds, and `LONG_LAUNCH` more, is hopeless: no table asks for
#: more than the rough time of a variant that is so slow.
HOPELESS = 10


class Search:
    """Measures runnables on one problem; rows that are already in the store are not measured again."""

    def __init__(
        self, bench: Bench, store: Store, cold: bool, progress: ProgressCallback = lambda *_: None, jobs: int = 1
    ) -> None:
        self._bench = bench
        self._store = store
        self._screen = screen(bench.timing, cold)
        self._full = full(bench.timing, cold)
        self._progress = progress
        self._jobs = jobs

    def measure_all(self, runnables: Sequence[Runnable], subject: str = "variants") -> list[Row]:
        return self.search(Exhaustive(), runnables, subject)

    def search(
        self,
        strategy: Strategy,
        runnables: Sequence[Runnable],
        subject: str = "variants",
        further_finalists: Callable[[Sequence[Row]], Container[str]] = lambda rows: (),
    ) -> list[Row]:
        """Measure the runnables that a strategy requests; return one row for each, from the full protocol if it was
        used.

        `further_finalists` receives the rows so far and returns names of further variants to time with the full
        protocol.
        """
        rows = {row.name: row for row in self._try(runnables, self._screen, f"screening {subject}", strategy)}
        runnables = [runnable for runnable in runnables if runnable.name in rows]
        groups = {runnable.name: getattr(runnable, "group", None) for runnable in runnables}
        finalists = choose_finalists(rows.values(), groups, self._bench.timing)
        rows |= self._time_fully([r for r in runnables if r.name in finalists], subject)
        requested_names = further_finalists(list(rows.values()))
        missing = [
            r
            for r in runnables
            if r.name in requested_names and r.name not in finalists and rows[r.name].status == "ok"
        ]
        rows |= self._time_fully(missing, subject)
        return list(rows.values())

    def screen_candidates(self, runnables: Sequence[Runnable], subject: str = "variants") -> list[Row]:
        return self._try(runnables, self._screen, f"screening {subject}", Exhaustive())

    def _time_fully(self, runnables: Sequence[Runnable], subject: str) -> dict[str, Row]:
        return {row.name: row for row in self._try(runnables, self._full, f"timing {subject}", Exhaustive())}

    def _try(self, runnables: Sequence[Runnable], effort: SamplingPlan, activity: str, strategy: Strategy) -> list[Row]:
        rows: list[Row] = []
        names, fastest = [runnable.name for runnable in runnables], np.inf
        with Watchdog(self._bench.timing.timeout) as watchdog:

            def measure(index: int) -> float | None:
                nonlocal fastest
                self._progress(activity, len(rows), budgeted_count(names, strategy.budget))
                row = self._store.get(self._bench.key(runnables[index], SEARCH, effort))
                if row is None:
                    with attempt(self._bench, self._store, runnables[index], SEARCH, effort, watchdog):
                        plan = replace(effort, hopeless=HOPELESS * fastest + LONG_LAUNCH)
                        row = self._store.add(self._bench.try_once(runnables[index], SEARCH, plan))
                    if self._bench.lost:
                        raise ContextLost(f"{runnables[index].name}: {row.message}")
                rows.append(row)
                seconds = row.screened_by if row.status == "ok" else None
                fastest = min(fastest, seconds or np.inf)
                return seconds

            strategy(names, measure, Compilation(self._bench, runnables, self._jobs))
        self._progress(activity, len(rows), len(rows))
        return rows


class Compilation:
    """Compiles the next variants of a search on several cores; during compilation nothing is measured."""

    def __init__(self, bench: Bench, runnables: Sequence[Runnable], jobs: int) -> None:
        self._bench, self._runnables = bench, runnables
        #: Number of compilers that run at once.
        self.width = jobs

    def __call__(self, indices: Sequence[int]) -> None:
        batch = [self._runnables[index] for index in indices]
        if not any(runnable.on_demand for runnable in batch):
            return
        with self._bench.workspace.device_lent(), ThreadPoolExecutor(self.width) as pool:
            for _ in pool.map(lambda runnable: runnable.compile(), batch):
                pass


@contextmanager
def attempt(
    bench: Bench, store: Store, runnable: Runnable, phase: str, effort: SamplingPlan, watchdog: Watchdog
) -> Iterator[None]:
    """Run the body, in which a runnable is measured and may hang or crash the process.

    If the body hangs, a row with the status of a hang is stored, and a new process continues. For a crash, a note is
    saved beforehand (see `repro.bench.store.crashed_row`). Packing and waiting for devices happen before the body and
    do not count as hanging.
    """

    def report_timeout() -> None:
        reason = f"{runnable.name} did not end within {bench.timing.timeout:g} s"
        try:
            store.add(bench.row(runnable, phase, effort, "timeout", message=reason))
        except UnableToStore as error:
            restart(f"{reason}; it cannot be stored in {error}", UNABLE)
        except OSError as error:  # an exception in the watchdog's thread would be lost
            reason = f"{reason}, which cannot be stored: {error}"
        restart(reason)

    with store.journal(bench.row(runnable, phase, effort, "launch_error")):
        with suppress(*FAILURES):  # `prepare` raises the exception again
            runnable.pack(bench.workspace)
        with watchdog.guard(report_timeout):
            yield


def choose_finalists(rows: Iterable[Row], groups: Mapping[str, Hashable], timing: Timing) -> set[str]:
    """Return the names of variants to time with the full protocol.

    These are at most `finalists` variants that are at most `reach` (a share, 0.1) slower than the fastest, plus the
    best `per_group` variants of each group, because tables compare groups.
    """
    rows_by_time = sorted((r for r in rows if r.status == "ok"), key=_time)
    if not rows_by_time:
        return set()
    limit = _time(rows_by_time[0]) * (1 + timing.reach)
    names = {row.name for row in rows_by_time[: timing.finalists] if _time(row) <= limit}
    group_counts: Counter[Hashable] = Counter()
    for row in rows_by_time:
        group = groups[row.name]
        group_counts[group] += 1
        if group_counts[group] <= timing.per_group:
            names.add(row.name)
    return names


def _time(row: Row) -> float:
    return row.screened_by or 0.0
