"""Terminal and process handling for all commands: standard streams, signals, text in columns, progress.

Every command imports this module first, so it imports only the standard library at the top.
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
from itertools import accumulate
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, TextIO

from repro.containment import Interrupted, Terminated

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from repro.results.registry import Artifact
    from repro.results.tables import Cell, Column, Table


#: File name in the `OSError` for a failure of standard output.
STDOUT = "standard output"
#: Stream numbers with flags to reopen closed ones: standard input is empty, writing to standard output fails.
_CLOSED = ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY))


class _Output(io.FileIO):
    """Standard output that names the stream in its first write error and drops later output."""

    failed = False

    def write(self, content: object) -> int:
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
    """Standard error that ignores write errors, since they cannot be reported."""

    def write(self, content: object) -> int:
        try:
            return super().write(content) or 0  # type: ignore[arg-type]
        except OSError:
            return memoryview(content).nbytes  # type: ignore[arg-type]


def open_streams() -> None:
    """Reopen closed standard streams, so that no other file gets their numbers, and install error handling."""
    for number, flags in _CLOSED:
        try:
            os.fstat(number)
        except OSError:
            descriptor = os.open(os.devnull, flags)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            os.set_inheritable(number, True)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = _text_stream(_Output(1, "w", closefd=False), sys.stdout)
    sys.stderr = _text_stream(_Errors(2, "w", closefd=False), sys.stderr)


def _text_stream(raw: io.FileIO, predecessor: TextIO | None) -> TextIO:
    """Return a text stream with the interpreter's settings; unencodable letters are escaped."""
    errors = predecessor.errors if predecessor and predecessor.errors != "strict" else "backslashreplace"
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=predecessor.encoding if predecessor else None,
        errors=errors,
        line_buffering=raw.fileno() == 2 or raw.isatty(),
    )


INTERRUPTED, TERMINATED = 130, 143
#: Maximum seconds to clean up after a signal; then the process is killed, since a wait for a device cannot be
#: interrupted.
GRACE = 5.0


@contextmanager
def handle_signals() -> Iterator[None]:
    """End the body at SIGTERM or SIGINT, with a short message on stderr and the usual exit code.

    Context managers in the body have `GRACE` seconds to exit, and child processes get SIGTERM. Outside of the main
    thread, where signals cannot be handled, this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    receiver, sender = os.pipe()
    os.set_blocking(sender, False)
    ended = threading.Event()
    threading.Thread(target=_enforce, args=[receiver, ended], daemon=True).start()
    earlier_sender = signal.set_wakeup_fd(sender, warn_on_full_buffer=False)

    def terminate(number: int, frame: FrameType | None) -> None:
        signal_children(signal.SIGTERM)
        raise Terminated

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    earlier = signal.signal(signal.SIGTERM, terminate)
    is_handled = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not ignored, as under `nohup`
    if is_handled:
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        _end("interrupted", INTERRUPTED)
    except Terminated:
        _end("terminated", TERMINATED)
    finally:
        signal.set_wakeup_fd(earlier_sender)
        signal.signal(signal.SIGTERM, earlier)
        if is_handled:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        ended.set()
        os.close(sender)  # ends the waiting thread


def _end(farewell: str, code: int) -> None:
    print(farewell, file=sys.stderr, flush=True)
    raise SystemExit(code)


def _enforce(receiver: int, ended: threading.Event) -> None:
    """Wait for SIGTERM, and kill the process if the body does not end in time."""
    while signal_byte := os.read(receiver, 1):
        if signal_byte[0] == signal.SIGTERM and not ended.wait(GRACE):
            signal_children(signal.SIGKILL)
            with suppress(OSError):
                os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, b"terminated\n")
            os._exit(TERMINATED)
    os.close(receiver)


def signal_children(number: signal.Signals) -> None:
    """Send a signal to all descendants of this process."""
    import psutil

    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            child.send_signal(number)


COLUMN_GAP = 2
#: Indentation in characters of lines below a row.
INDENT = 4
#: Minimum width in characters to wrap the last column; a narrower column is printed below its row.
READABLE = 30
DASH = "–"


def terminal_width() -> int | None:
    """Return the number of characters per line; None (no limit) in a pipe, unless COLUMNS is set."""
    columns_text = os.environ.get("COLUMNS", "")
    if sys.stdout.isatty() or (columns_text.isdecimal() and int(columns_text) > 0):
        return shutil.get_terminal_size().columns
    return None


def in_columns(headers: Sequence[str], rows: Iterable[Sequence[object]], width: int | None) -> Iterator[str]:
    """Yield the lines of a table, at most `width` wide (None: no limit); empty cells are dashes.

    If `width` is small, the last column is wrapped, or the last columns are printed below their row, each cell after
    its head. Single words may exceed the width.
    """
    table = [[DASH if cell is None or cell == "" else str(cell) for cell in row] for row in (headers, *rows)]
    widths = _widths([max(map(len, cells)) for cells in zip(*table, strict=True)], width)
    column_count = len(widths)
    for number, row in enumerate(table):
        *first_cells, last_cell = row[:column_count]
        start = "".join(f"{cell:{room + COLUMN_GAP}}" for cell, room in zip(first_cells, widths, strict=False))
        for line in (
            wrapped(last_cell, width, start, len(start)) if column_count == len(headers) else [f"{start}{last_cell}"]
        ):
            yield line.rstrip()
        remaining_lines = [
            f"{header}: {cell}"
            for header, cell in zip(headers[column_count:], row[column_count:], strict=True)
            if cell != DASH
        ]
        if number and remaining_lines:
            yield from wrapped("; ".join(remaining_lines), width, " " * INDENT, INDENT)


def leave_out_columns(
    headers: Sequence[str],
    rows: Iterable[Sequence[str | None]],
    spare: Sequence[str],
    common: Sequence[str] = (),
    below: str = "",
) -> tuple[list[str], list[list[str | None]], dict[str, str]]:
    """Leave out columns of a table until its rows fit the terminal: first those of one value, then others.

    Parameters
    ----------
    headers, rows
        The table, which has at least one row.
    spare
        Heads of the columns that may be left out, the least important one first.
    common
        Heads of further columns that may be left out if all rows have the same value.
    below
        Head of a column that may be printed below its row, and needs no room.

    Returns
    -------
    tuple
        The heads and the rows that are left, and a phrase for each head that was left out: the head with its one value,
        or the head alone.
    """
    width, columns = terminal_width(), dict(zip(headers, map(list, zip(*rows, strict=True)), strict=True))
    phrases = {header: f"{header} {columns[header][0]}" for header in headers if len({*columns[header]}) == 1}
    alike = [header for header in (*common, *spare) if header in phrases]
    left_out: dict[str, str] = {}
    for header in (*alike, *(header for header in spare if header in columns and header not in alike)):
        widths = [max(len(cell or DASH) for cell in (key, *cells)) for key, cells in columns.items() if key != below]
        if width is None or sum(widths) + COLUMN_GAP * (len(widths) - 1) <= width:
            break
        del columns[header]
        left_out[header] = phrases.get(header, header)
    return [*columns], [list(row) for row in zip(*columns.values(), strict=True)], left_out


def wrapped(text: str, width: int | None, first: str = "", indent: int = 0) -> list[str]:
    """Return the lines of a text, wrapped between words to `width` (None: one line).

    The first line begins with `first`; the others are indented, but less if a long word needs the space.
    """
    if width is None:
        return [f"{first}{text}"]
    words = text.split() or [""]
    indentation = " " * max(0, min(indent, width - max(map(len, words))))
    lines = []
    if len(first) + len(words[0]) > width and first.strip():
        lines, first = [first.rstrip()], indentation
    lines += textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=indentation, break_long_words=False, break_on_hyphens=False
    )
    return lines or [first]


def _widths(natural_widths: Sequence[int], width: int | None) -> list[int]:
    """Return the widths of the first columns that fit into one line of `width` characters, at least of one column."""
    row_widths = list(natural_widths[:1])
    for column in natural_widths[1:]:
        room = column if width is None else width - sum(row_widths) - COLUMN_GAP * len(row_widths)
        if column > room and (room < READABLE or len(row_widths) + 1 < len(natural_widths)):
            break
        row_widths.append(min(column, room))
    return row_widths


class Progress:
    """Progress of one activity after the other: a bar on a terminal; in a log, at most one line in `every` seconds.

    Examples
    --------
    >>> with Progress("measure torus double") as progress:
    ...     progress("screening", 0, 1920)
    """

    def __init__(self, title: str, interval: float = 20.0, stream: TextIO | None = None) -> None:
        self.title, self.every, self.stream = title, interval, stream or sys.stderr
        self._bars: Bars | None = None
        self._tasks: dict[str, TaskID] = {}
        self._activity = ""
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
                redirect_stdout=sys.stdout.isatty(),  # redirected output must go to its file, not to the terminal
            )
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def __call__(self, activity: str, finished: int, total: int) -> None:
        if self._bars is not None:
            if activity not in self._tasks:
                self._tasks[activity] = self._bars.add_task(f"{self.title}: {activity}", total=total)
            self._bars.update(self._tasks[activity], completed=finished, total=total)
            return
        time_now = time.monotonic()
        # a new activity has begun, or the same one from the start
        if activity != self._activity or finished < self._last:
            self._activity, self._began, self._first, self._told = activity, time_now, finished, time_now
        elif total and (finished >= total or time_now - self._told >= self.every):
            self._told = time_now
            print(
                f"{self.title}: {activity} {finished} of {total}, {self._times(finished, total, time_now)}",
                file=self.stream,
            )
            self.stream.flush()
        self._last = finished

    def _times(self, finished: int, total: int, time_now: float) -> str:
        """Return the time spent, and the expected remaining time at the same pace."""
        spent = time_now - self._began
        if finished >= total or finished <= self._first:
            return f"{duration(spent)} so far" if finished < total else f"took {duration(spent)}"
        return f"{duration(spent)} so far, about {duration(spent * (total - finished) / (finished - self._first))} left"


def duration(seconds: float) -> str:
    """Format seconds: `12 s`, `3 min 20 s`, `2 h 5 min`."""
    whole_seconds = round(seconds)
    if whole_seconds < 60:
        return f"{whole_seconds} s"
    if whole_seconds < 3600:
        return f"{whole_seconds // 60} min {whole_seconds % 60} s"
    return f"{whole_seconds // 3600} h {whole_seconds % 3600 // 60} min"


#: Maximum number of rows that `print_table` prints by default.
ROWS_SHOWN = 40


def print_table(artifact: Artifact, table: Table, most_rows: int | None = None) -> None:
    """Print a table's first rows and leading columns, as many as fit the terminal, and its summary below them."""
    import typer

    from repro.results.tables import move_lead_columns

    table = move_lead_columns(table, artifact.lead, artifact.lead_instead, after_texts=True)
    shown = table.rows[: most_rows or ROWS_SHOWN]
    # texts of one value in all rows, such as the precision, are said once
    alike = {
        column.key: f"{column.title} {table.rows[0][index].shown} in all"
        for index, column in enumerate(table.columns)
        if index and len(table.rows) > 1 and not column.numeric and not column.group
        if len({row[index].shown for row in table.rows}) == 1
    }
    header = f"{artifact.study}/{artifact.name}: {len(table.rows)} rows, {len(table.columns)} columns"
    typer.echo(typer.style("; ".join([header, *alike.values()]), bold=True))
    indices = [index for index, column in enumerate(table.columns) if column.key not in alike]
    count = _print_first_columns(table.columns, shown, indices)
    if table.summary:
        typer.echo()
        valued = (index for index in indices[1:] if any(row[index].value is not None for row in table.summary))
        _print_first_columns(table.columns, table.summary, [0, *valued])
    if len(shown) < len(table.rows) or count < len(indices):
        typer.echo(f"above are {len(shown)} rows and {count + len(alike)} columns; {artifact.name}.csv has all")


def _print_first_columns(columns: Sequence[Column], rows: Sequence[tuple[Cell, ...]], indices: Sequence[int]) -> int:
    """Print those of the columns at `indices` that fit the terminal, at least one; return how many do."""
    import typer

    width = terminal_width()
    headers = [f"{columns[i].group}: {columns[i].title}" if columns[i].group else columns[i].title for i in indices]
    cells = [[row[i].shown for i in indices] for row in rows]
    ends = accumulate(max(map(len, texts)) + COLUMN_GAP for texts in zip(headers, *cells, strict=True))
    count = sum(width is None or end - COLUMN_GAP <= width for end in ends) or 1
    for line in in_columns(headers[:count], [row[:count] for row in cells], width):
        typer.echo(line)
    return count
