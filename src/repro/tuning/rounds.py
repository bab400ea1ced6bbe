"""Timing the chosen beside the baselines again, in shuffled rounds, all resident on the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from repro.bench.rows import Row
from repro.bench.runnable import Runnable
from repro.bench.store import Store
from repro.bench.timing import Effort, Samples
from repro.bench.trial import FAILURES, Bench
from repro.bench.watchdog import ContextLost, Watchdog
from repro.config.models import Timing
from repro.tuning.search import Progress, attempt

PHASE = "report"
COLD_ROUNDS = 2
TIMED = frozenset({"ok", "noisy"})


@dataclass(frozen=True)
class Rounds:
    """So many rounds, and the effort of each."""

    name: str
    count: int
    effort: Effort


def warm_rounds(timing: Timing) -> Rounds:
    """Return rounds that come to the full protocol: launches one by one, and replays of a graph."""
    effort = Effort(
        -(-timing.launches // timing.rounds),
        timing.graph_launches,
        -(-timing.graph_replays // timing.rounds),
    )
    return Rounds("rounds", timing.rounds, effort)


def cold_rounds(timing: Timing) -> Rounds:
    """Return rounds of launches before which the cache is flushed; what a graph does between its launches is warm."""
    return Rounds("cold rounds", COLD_ROUNDS, Effort(-(-timing.cold_launches // COLD_ROUNDS), cold=True))


def shuffled_rounds(
    bench: Bench, runnables: Sequence[Runnable], store: Store, seed: int, progress: Progress = lambda *_: None
) -> list[Row]:
    """Time all runnables side by side, warm and then cold; return the rows of both, of the samples of all rounds.

    A winner is the smallest of many noisy numbers and would look faster than it is if those numbers were reported;
    these samples were not chosen by. The shuffled order spreads drift over all. What cannot be timed has one row, that
    says why.
    """
    stage = _Stage(bench, store, np.random.default_rng(seed), progress)
    with Watchdog(bench.timing.timeout) as stage.watchdog:
        try:
            warm = stage.time(runnables, warm_rounds(bench.timing))
            timed = [r for r in runnables if r.cold and warm[r.name].status in TIMED]
            cold = stage.time(timed, cold_rounds(bench.timing))
        finally:
            if not bench.lost:
                for runnable in runnables:
                    runnable.release()
    return [*(warm[runnable.name] for runnable in runnables), *(cold[runnable.name] for runnable in timed)]


class _Stage:
    """All that is resident on the device."""

    watchdog: Watchdog

    def __init__(self, bench: Bench, store: Store, random: np.random.Generator, progress: Progress) -> None:
        self._bench = bench
        self._store = store
        self._random = random
        self._progress = progress
        self._ready: dict[str, tuple[float, float | None]] = {}

    def time(self, runnables: Sequence[Runnable], rounds: Rounds) -> dict[str, Row]:
        """Return a row of each; where the store has them all, nothing is measured."""
        bench, effort = self._bench, rounds.effort
        stored = {r.name: row for r in runnables if (row := self._store.get(bench.key(r, PHASE, effort)))}
        if len(stored) == len(runnables):
            return stored
        # times taken in another process are not compared with these: only what failed is not tried again
        rows = {name: row for name, row in stored.items() if row.status not in TIMED}
        todo = {r.name: r for r in runnables if r.name not in rows}
        for name, runnable in list(todo.items()):
            with self._failing_alone(runnable, effort, todo, rows):
                if name not in self._ready:
                    self._ready[name] = bench.prepare(runnable), bench.check(runnable)
        samples: dict[str, Samples] = {}
        for number in range(rounds.count):
            self._progress(rounds.name, number, rounds.count)
            for name in self._random.permutation(sorted(todo)):
                with self._failing_alone(todo[name], effort, todo, rows):
                    taken = bench.sample(todo[name], effort)
                    samples[name] = samples[name].join(taken) if name in samples else taken
        self._progress(rounds.name, rounds.count, rounds.count)
        for name, runnable in todo.items():
            preprocess, error = self._ready[name]
            row = bench.measured(runnable, PHASE, effort, samples[name], error=error, preprocess=preprocess)
            rows[name] = self._store.add(row)
        return rows

    @contextmanager
    def _failing_alone(
        self, runnable: Runnable, effort: Effort, todo: dict[str, Runnable], rows: dict[str, Row]
    ) -> Iterator[None]:
        """Where the body fails, or never ends, move the runnable from `todo` to `rows`; the others go on."""
        bench = self._bench
        try:
            with attempt(bench, self._store, runnable, PHASE, effort, self.watchdog):
                yield
        except tuple(FAILURES) as failure:
            rows[runnable.name] = self._store.add(bench.failed(runnable, PHASE, effort, failure))
            del todo[runnable.name]
            if bench.lost:
                raise ContextLost(f"{runnable.name}: {failure}") from None
            runnable.release()
