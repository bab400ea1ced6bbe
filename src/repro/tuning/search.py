"""Exhaustive search: screen all, then give the full protocol to what is within reach of the best."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from repro.bench.rows import Row
from repro.bench.runnable import Runnable
from repro.bench.store import Store
from repro.bench.timing import Effort, full, screen
from repro.bench.trial import Bench
from repro.bench.watchdog import ContextLost, Watchdog, restart
from repro.config.models import Protocol
from repro.tuning.choose import choose

Progress = Callable[[str, int, int], None]
PHASE = "search"
PATIENCE = 5


def exhaustive(
    bench: Bench, runnables: Sequence[Runnable], store: Store, progress: Progress = lambda *_: None
) -> list[Row]:
    """Try every runnable; return a row each, of the full protocol where it got that far.

    Rows that the store has are not measured again.
    """
    effort = full(bench.protocol)
    rows = {row.name: row for row in _try_all(bench, runnables, screen(bench.protocol), store, "screening", progress)}
    finalists = within_reach(rows.values(), bench.protocol)
    rows |= _timed(bench, [r for r in runnables if r.name in finalists], effort, store, progress)
    # layout tuning alone asks how the best schedule of the reference layout does in every other layout
    fixed = {_schedule(rows[c.name]) for c in choose(list(rows.values()), 0) if c.tuning == "schedule"}
    missing = [r for r in runnables if r.name not in finalists and _schedule(rows[r.name]) in fixed]
    rows |= _timed(bench, [r for r in missing if rows[r.name].status == "ok"], effort, store, progress)
    return list(rows.values())


def _timed(
    bench: Bench, runnables: Sequence[Runnable], effort: Effort, store: Store, progress: Progress
) -> dict[str, Row]:
    return {row.name: row for row in _try_all(bench, runnables, effort, store, "timing", progress)}


def _schedule(row: Row) -> str:
    return row.name.partition("/")[2]


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
        rows.append(row or _try_one(bench, runnable, effort, store))
    progress(stage, len(runnables), len(runnables))
    return rows


def _try_one(bench: Bench, runnable: Runnable, effort: Effort, store: Store) -> Row:
    limit = PATIENCE * bench.protocol.timeout

    def expired() -> None:
        reason = f"{runnable.name} did not end within {limit:g} s"
        store.add(bench.row(runnable, PHASE, effort, "timeout", message=reason))
        restart(reason)

    with Watchdog(limit, expired):
        row = store.add(bench.try_once(runnable, PHASE, effort))
    if bench.lost:
        raise ContextLost(f"{runnable.name}: {row.message}")
    return row


def within_reach(rows: Iterable[Row], protocol: Protocol) -> set[str]:
    """Return the names that deserve the full protocol.

    Those within `reach` of the fastest, at most `finalists` of them, and the best `per_layout` of each layout and kind
    of schedule, so that tables by layout and by kind stand on full measurements as well.
    """
    ranked = sorted((r for r in rows if r.status == "ok"), key=_time)
    if not ranked:
        return set()
    limit = _time(ranked[0]) * (1 + protocol.reach)
    names = {row.name for row in ranked[: protocol.finalists] if _time(row) <= limit}
    taken: Counter[tuple[str | None, str | None]] = Counter()
    for row in ranked:
        taken[row.layout, row.schedule] += 1
        if taken[row.layout, row.schedule] <= protocol.per_layout:
            names.add(row.name)
    return names


def _time(row: Row) -> float:
    return row.event_median or 0.0
