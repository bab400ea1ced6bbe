"""Progress: a bar on a terminal, a plain line now and then in a log."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID


class Progress:
    """Shows how far something is, in stages; used as a context manager and called with what has been done.

    Parameters
    ----------
    title
        What is being done, as one line.
    every
        Seconds between two lines in a log.
    stream
        Where to; stderr by default.

    Examples
    --------
    >>> with Progress("measure torus double") as progress:
    ...     progress("screening", 0, 1920)
    """

    def __init__(self, title: str, every: float = 20.0, stream: TextIO | None = None) -> None:
        self.title, self.every, self.stream = title, every, stream or sys.stderr
        self._bars: Bars | None = None
        self._tasks: dict[str, TaskID] = {}
        self._stage = ""
        self._began = self._told = 0.0
        self._first = self._last = 0

    def __enter__(self) -> Progress:
        if self.stream.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.progress import Progress as Bars

            self._bars = Bars(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                console=Console(file=self.stream),
                redirect_stdout=sys.stdout.isatty(),  # else what goes into a file would go to the terminal
            )
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Say that `done` of `total` steps of a stage are done."""
        if self._bars is not None:
            if stage not in self._tasks:
                self._tasks[stage] = self._bars.add_task(f"{self.title}: {stage}", total=total)
            self._bars.update(self._tasks[stage], completed=done, total=total)
            return
        now = time.monotonic()
        if stage != self._stage or done < self._last:  # a stage may come more than once
            self._stage, self._began, self._first, self._told = stage, now, done, now
        elif total and (done >= total or now - self._told >= self.every):
            self._told = now
            print(f"{self.title}: {stage} {done} of {total}, {self._times(done, total, now)}", file=self.stream)
            self.stream.flush()
        self._last = done

    def _times(self, done: int, total: int, now: float) -> str:
        """Return the time spent, and what the rest takes if it goes on at the same pace."""
        spent = now - self._began
        if done >= total or done <= self._first:
            return f"{duration(spent)} so far" if done < total else f"took {duration(spent)}"
        return f"{duration(spent)} so far, about {duration(spent * (total - done) / (done - self._first))} left"


def duration(seconds: float) -> str:
    """Return a time as people say it: `12 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
