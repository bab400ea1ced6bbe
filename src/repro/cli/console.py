"""The process of `repro` and its terminal: standard streams, signals, text in columns, progress.

A standard stream that is closed, full or no longer read costs at most one message. SIGTERM or an interruption ends
a command with one word on standard error, and with it all processes that the command started. Tables are as wide as
the terminal; in a pipe each row is one line, however long, for grep. Progress is a bar on a terminal and an
occasional line in a log. The module is imported at the start of every command and needs the standard library alone.
"""

from __future__ import annotations

import io
import os
import shutil
import signal
import sys
import textwrap
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID


#: What an `OSError` names as its file where standard output cannot be written to.
STDOUT = "standard output"
#: How each is opened that is closed: nothing can be read from standard input, and standard output refuses what comes.
_CLOSED = ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY))


class _Output(io.FileIO):
    """Standard output, whose first failure says whose it is; what comes after it is dropped, as nobody has it."""

    failed = False

    def write(self, content: object) -> int:
        """Write, and name the stream in what is raised."""
        size = memoryview(content).nbytes  # type: ignore[arg-type]
        if self.failed:
            return size
        try:
            return super().write(content) or 0  # type: ignore[arg-type]
        except OSError as error:
            self.failed = True
            error.filename = STDOUT
            raise


class _Errors(io.FileIO):
    """Standard error: where it fails there is no other place to say so, and the exit code remains."""

    def write(self, content: object) -> int:
        """Write what can be written."""
        try:
            return super().write(content) or 0  # type: ignore[arg-type]
        except OSError:
            return memoryview(content).nbytes  # type: ignore[arg-type]


def open_streams() -> None:
    """Open the standard streams that are closed, so that no file comes to lie in their place, and watch the others."""
    for number, flags in _CLOSED:
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, flags)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = _text_stream(_Output(1, "w", closefd=False), sys.stdout)
    sys.stderr = _text_stream(_Errors(2, "w", closefd=False), sys.stderr)


def _text_stream(raw: io.FileIO, before: TextIO | None) -> TextIO:
    """Return a stream of text over another one of bytes, as the interpreter had made it; letters are no failure."""
    errors = before.errors if before and before.errors != "strict" else "backslashreplace"
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=before.encoding if before else None,
        errors=errors,
        line_buffering=raw.fileno() == 2 or raw.isatty(),
    )


INTERRUPTED, TERMINATED = 130, 143
#: Seconds to clean up in: a wait for a device cannot be broken off.
GRACE = 5.0


class Terminated(BaseException):
    """SIGTERM came. Not an `Exception`, as KeyboardInterrupt is none, so that nothing takes it for a failure."""


@contextmanager
def handle_signals() -> Iterator[None]:
    """Let the body end by SIGTERM or an interruption with a word on standard error and that exit code.

    What is open in the body is closed, and what is half-written removed, for which there are `GRACE` seconds. Processes
    that it started get SIGTERM as well. In another thread than the main one signals cannot be heeded, and are not.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    receiver, sender = os.pipe()
    os.set_blocking(sender, False)
    ended = threading.Event()
    threading.Thread(target=_enforce, args=[receiver, ended], daemon=True).start()
    earlier_sender = signal.set_wakeup_fd(sender, warn_on_full_buffer=False)
    earlier = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    except KeyboardInterrupt:
        _end("interrupted", INTERRUPTED)
    except Terminated:
        _end("terminated", TERMINATED)
    finally:
        signal.set_wakeup_fd(earlier_sender)
        signal.signal(signal.SIGTERM, earlier)
        ended.set()
        os.close(sender)  # for which the thread waits


def _terminate(number: int, frame: FrameType | None) -> None:
    signal_children(signal.SIGTERM)
    raise Terminated


def _end(word: str, code: int) -> None:
    print(word, file=sys.stderr, flush=True)
    raise SystemExit(code)


def _enforce(receiver: int, ended: threading.Event) -> None:
    """Wait for SIGTERM, and end the process if the body has not ended in time."""
    while word := os.read(receiver, 1):
        if word[0] == signal.SIGTERM and not ended.wait(GRACE):
            signal_children(signal.SIGKILL)
            with suppress(OSError):
                os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, b"terminated\n")
            os._exit(TERMINATED)
    os.close(receiver)


def signal_children(number: signal.Signals) -> None:
    """Send a signal to all processes that this one started, and to theirs."""
    import psutil

    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            child.send_signal(number)


COLUMN_GAP = 2
#: By how much what stands below a line is indented.
INDENT = 4
#: The last column wraps in so much room, and stands below its row where there is less.
READABLE = 30
DASH = "–"


def terminal_width() -> int | None:
    """Return how many columns a line may have; None in a pipe, but where the variable COLUMNS says it."""
    stated = os.environ.get("COLUMNS", "")
    if sys.stdout.isatty() or (stated.isdecimal() and int(stated) > 0):
        return shutil.get_terminal_size().columns
    return None


def in_columns(heads: Sequence[str], rows: Iterable[Sequence[object]], width: int | None) -> Iterator[str]:
    """Yield the lines of a table: its heads, then its rows.

    Where it is too wide, its last column wraps between words if there is room enough, and else what has no room stands
    below its row, each cell with its head. Only a word that is longer than a line exceeds it.

    Parameters
    ----------
    heads
        Of the columns.
    rows
        A cell a column; None and an empty one are a dash.
    width
        Columns of the terminal; None: lines of any length.
    """
    table = [[DASH if cell is None or cell == "" else str(cell) for cell in row] for row in (heads, *rows)]
    widths = _widths([max(map(len, cells)) for cells in zip(*table, strict=True)], width)
    beside = len(widths)
    for number, row in enumerate(table):
        *ahead, last = row[:beside]
        start = "".join(f"{cell:{room + COLUMN_GAP}}" for cell, room in zip(ahead, widths, strict=False))
        for line in wrapped(last, width, start, len(start)) if beside == len(heads) else [f"{start}{last}"]:
            yield line.rstrip()
        rest = [f"{head}: {cell}" for head, cell in zip(heads[beside:], row[beside:], strict=True) if cell != DASH]
        if number and rest:
            yield from wrapped("; ".join(rest), width, " " * INDENT, INDENT)


def wrapped(text: str, width: int | None, first: str = "", indent: int = 0) -> list[str]:
    """Return the lines of a text that wraps between words.

    Parameters
    ----------
    text
        In one line.
    width
        Columns of the terminal; None: one line.
    first
        What its first line begins with.
    indent
        Of all other lines; less where a word needs the room.
    """
    if width is None:
        return [f"{first}{text}"]
    words = text.split() or [""]
    other = " " * max(0, min(indent, width - max(map(len, words))))
    lines = []
    if len(first) + len(words[0]) > width and first.strip():
        lines, first = [first.rstrip()], other
    lines += textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=other, break_long_words=False, break_on_hyphens=False
    )
    return lines or [first]


def _widths(natural: Sequence[int], width: int | None) -> list[int]:
    """Return the widths of the columns that stand beside each other, of one at least."""
    beside = list(natural[:1])
    for column in natural[1:]:
        room = column if width is None else width - sum(beside) - COLUMN_GAP * len(beside)
        if column > room and (room < READABLE or len(beside) + 1 < len(natural)):
            break
        beside.append(min(column, room))
    return beside


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
