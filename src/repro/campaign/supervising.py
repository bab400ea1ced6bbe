"""Measuring in a process of its own, so that a crash costs one row: starting it, and starting it again."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from repro.bench.store import Store, count_rows, crashed_row
from repro.bench.watchdog import AGAIN
from repro.bench.worker import run_worker
from repro.errors import ReproError

#: Signals that a kernel, or a library, ends a process by; the last one Linux, where memory runs out.
CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP, signal.SIGKILL}
#: By which a shell tells a signal's number in an exit code.
BY_SIGNAL = 128


def supervise(command: Sequence[str], store: Callable[[], Path], run: str) -> int:
    """Run the command that measures a case or several, again after each crash and lost context; return its exit code.

    What it tried when it crashed becomes a row, `launch_error`, so that the next process leaves it out. While signals
    are held (`repro.bench.worker.signals_held`).

    Parameters
    ----------
    command
        The program's path and its arguments.
    store
        Returns where it stores its rows: those of the case that is measured when it is asked.
    run
        The id by which it stores them.

    Raises
    ------
    ReproError
        A process crashed, or asked for another, without a row more than there were before: the next would do the same.
    """
    rows = (store(), 0)
    while True:
        end = run_worker(command)
        crash = signal.Signals(-end.code) if end.code < 0 else None
        if end.asked and (crash or end.code == AGAIN):
            return BY_SIGNAL + end.asked
        if crash is not None and crash not in CRASHES:
            return BY_SIGNAL + crash
        if crash is None and end.code != AGAIN:
            return end.code
        if crash is not None:
            _store_crash(store(), run, crash)
        before, rows = rows, (store(), count_rows(store(), run))
        if rows == before:
            raise ReproError(
                "measuring does not get on: its process ended early, and nothing new is stored",
                where=store(),
                actual=_words(crash) if crash else "it asked for a new process",
                todo="see what it said last; if nothing, try `repro launch` with a few variants, or another device",
            )


def _store_crash(path: Path, run: str, crash: signal.Signals) -> None:
    """Store what was tried at a crash, unless its row was stored already."""
    row = crashed_row(path, run)
    tried = f"while {row.name} was tried" if row else "between two rows"
    print(f"the measuring process was {_words(crash)} {tried}; going on in a new one", flush=True)
    if row is None:
        return
    message = f"the process was {_words(crash)}"
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    with Store(path, run) as store:
        if store.get(row.key) is None:
            store.add(replace(row, message=message, measured_at=now))


def _words(crash: signal.Signals) -> str:
    often = ", as Linux does where memory runs out" if crash == signal.SIGKILL else ""
    return f"ended by {crash.name} ({signal.strsignal(crash)}){often}"
