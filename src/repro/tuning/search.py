"""Exhaustive search: screen all, then give the full protocol to what is within reach of the best."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from repro.bench.rows import Row
from repro.bench.runnable import Runnable
from repro.bench.store import Store
from repro.bench.timing import Effort, full, screen
from repro.bench.trial import Bench
from repro.config.models import Protocol

Progress = Callable[[str, int, int], None]
PHASE = "search"


def exhaustive(
    bench: Bench, runnables: Sequence[Runnable], store: Store, progress: Progress = lambda *_: None
) -> list[Row]:
    """Try every runnable; return a row each, of the full protocol where it got that far.

    Rows that the store has are not measured again.
    """
    screened = _try_all(bench, runnables, screen(bench.protocol), store, "screening", progress)
    names = within_reach(screened, bench.protocol)
    finalists = [runnable for runnable in runnables if runnable.name in names]
    timed = _try_all(bench, finalists, full(bench.protocol), store, "timing", progress)
    best = {row.name: row for row in timed}
    return [best.get(row.name, row) for row in screened]


def _try_all(
    bench: Bench,
    runnables: Sequence[Runnable],
    effort: Effort,
    store: Store,
    stage: str,
    progress: Progress,
) -> list[Row]:
    rows = []
    for done, runnable in enumerate(runnables):
        progress(stage, done, len(runnables))
        row = store.get(bench.key(runnable, PHASE, effort))
        rows.append(row or store.add(bench.try_once(runnable, PHASE, effort)))
    progress(stage, len(runnables), len(runnables))
    return rows


def within_reach(rows: Iterable[Row], protocol: Protocol) -> set[str]:
    """Return the names that deserve the full protocol.

    Those within `reach` of the fastest, and the best `per_layout` of each layout and kind of schedule, so that tables
    by layout and by kind stand on full measurements as well.
    """
    ranked = sorted((r for r in rows if r.status == "ok"), key=lambda r: r.event_median or 0.0)
    if not ranked:
        return set()
    limit = (ranked[0].event_median or 0.0) * (1 + protocol.reach)
    names = {row.name for row in ranked if (row.event_median or 0.0) <= limit}
    taken: dict[tuple[str | None, str | None], int] = {}
    for row in ranked:
        group = (row.layout, row.schedule)
        taken[group] = taken.get(group, 0) + 1
        if taken[group] <= protocol.per_layout:
            names.add(row.name)
    return names
