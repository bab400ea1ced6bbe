"""Text in columns: as wide as the terminal, and in a pipe a line a thing, however long, for grep."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence

GAP = 2
#: By how much what stands below a line is indented.
BELOW = 4
#: The last column wraps in so much room, and stands below its row where there is less.
READABLE = 30
NONE = "–"


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
    table = [[NONE if cell is None or cell == "" else str(cell) for cell in row] for row in (heads, *rows)]
    widths = _widths([max(map(len, cells)) for cells in zip(*table, strict=True)], width)
    beside = len(widths)
    for number, row in enumerate(table):
        *ahead, last = row[:beside]
        start = "".join(f"{cell:{room + GAP}}" for cell, room in zip(ahead, widths, strict=False))
        for line in wrapped(last, width, start, len(start)) if beside == len(heads) else [f"{start}{last}"]:
            yield line.rstrip()
        rest = [f"{head}: {cell}" for head, cell in zip(heads[beside:], row[beside:], strict=True) if cell != NONE]
        if number and rest:
            yield from wrapped("; ".join(rest), width, " " * BELOW, BELOW)


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
        room = column if width is None else width - sum(beside) - GAP * len(beside)
        if column > room and (room < READABLE or len(beside) + 1 < len(natural)):
            break
        beside.append(min(column, room))
    return beside
