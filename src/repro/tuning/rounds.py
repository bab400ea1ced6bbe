"""Timing the chosen beside the baselines again, in shuffled rounds, all resident on the device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from repro.bench.rows import Row
from repro.bench.runnable import Runnable
from repro.bench.store import Store
from repro.bench.timing import Effort, Samples
from repro.bench.trial import FAILURES, Bench
from repro.bench.watchdog import ContextLost
from repro.config.models import Protocol
from repro.tuning.search import Progress

PHASE = "report"


def effort_of_round(protocol: Protocol) -> Effort:
    """Return a round's share of the full protocol."""
    return Effort(
        -(-protocol.launches // protocol.rounds),
        protocol.graph_launches,
        max(5, -(-protocol.graph_replays // protocol.rounds)),
    )


def shuffled_rounds(
    bench: Bench, runnables: Sequence[Runnable], store: Store, seed: int, progress: Progress = lambda *_: None
) -> list[Row]:
    """Time all runnables side by side and return a row each, of the samples of all rounds.

    A winner is the smallest of many noisy numbers and would look faster than it is if those numbers were reported;
    these samples were not chosen by. The shuffled order spreads drift over all.
    """
    effort = effort_of_round(bench.protocol)
    known = {r.name: row for r in runnables if (row := store.get(bench.key(r, PHASE, effort)))}
    if len(known) == len(runnables):
        return [known[r.name] for r in runnables]
    rows = {name: row for name, row in known.items() if row.status not in {"ok", "noisy"}}
    todo = {runnable.name: runnable for runnable in runnables if runnable.name not in rows}
    ready: dict[str, tuple[float, float | None]] = {}
    samples: dict[str, Samples] = {}

    def give_up(name: str, failure: Exception) -> None:
        rows[name] = store.add(bench.failed(todo[name], PHASE, effort, failure))
        ready.pop(name, None)
        if bench.lost:
            raise ContextLost(f"{name}: {failure}")

    try:
        for name, runnable in todo.items():
            try:
                ready[name] = bench.prepare(runnable), bench.verifier.check(runnable)
            except tuple(FAILURES) as failure:
                give_up(name, failure)
        random = np.random.default_rng(seed)
        for number in range(bench.protocol.rounds):
            progress("rounds", number, bench.protocol.rounds)
            for name in random.permutation(sorted(ready)):
                try:
                    taken = bench.sample(todo[name], effort)
                except tuple(FAILURES) as failure:
                    give_up(name, failure)
                else:
                    samples[name] = samples[name].join(taken) if name in samples else taken
        progress("rounds", bench.protocol.rounds, bench.protocol.rounds)
        for name, (preprocess, error) in ready.items():
            row = bench.measured(todo[name], PHASE, effort, samples[name], error=error, preprocess=preprocess)
            rows[name] = store.add(row)
    finally:
        if not bench.lost:
            for runnable in todo.values():
                runnable.release()
    return [rows[runnable.name] for runnable in runnables]
