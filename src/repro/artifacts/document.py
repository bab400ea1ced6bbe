"""What an artifact's function returns: a table or a figure, not yet in any file format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

Value = str | int | float | None
ABSENT = "–"


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    key
        Its name in the CSV file.
    title
        Its printed head.
    group
        Head above the heads of neighbouring columns of the same group; empty for none.
    numeric
        Whether it is set flush right and sorted by number.
    """

    key: str
    title: str
    group: str = ""
    numeric: bool = True


@dataclass(frozen=True)
class Cell:
    """A cell: the value that the CSV file holds, the text that is printed, and its notes.

    Attributes
    ----------
    value
        Full precision; None where there is none.
    text
        As printed; made from the value if not given.
    notes
        Remarks, printed below the table and marked by letters; equal ones share a letter.
    """

    value: Value = None
    text: str = ""
    notes: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """The printed text."""
        return self.text or (ABSENT if self.value is None else str(self.value))


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes
    ----------
    columns, rows
        Heads and cells; every row has a cell a column.
    caption
        What is published, what is ours, by which clock, in which cache state, and what is not there.
    summary
        Rows that are set apart at the bottom and take no part in sorting.
    """

    columns: tuple[Column, ...]
    rows: list[tuple[Cell, ...]]
    caption: str
    summary: list[tuple[Cell, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Check that every row fits the columns."""
        for row in (*self.rows, *self.summary):
            if len(row) != len(self.columns):
                raise ValueError(f"a row of {len(row)} cells in a table of {len(self.columns)} columns")

    @property
    def notes(self) -> list[str]:
        """Distinct notes in order of their first cell; the letter of the i-th is `letter(i)`."""
        cells = (cell for row in (*self.rows, *self.summary) for cell in row)
        return list(dict.fromkeys(note for cell in cells for note in cell.notes))

    @property
    def grouped(self) -> bool:
        """Whether any column stands under a group's head."""
        return any(column.group for column in self.columns)

    def letters(self, cell: Cell) -> str:
        """Return the letters of a cell's notes, `a,c`."""
        notes = self.notes
        return ",".join(letter(notes.index(note)) for note in dict.fromkeys(cell.notes))

    def groups(self) -> list[tuple[str, int]]:
        """Heads of neighbouring columns with the number of columns that each spans."""
        spans: list[tuple[str, int]] = []
        for column in self.columns:
            if spans and spans[-1][0] == column.group and column.group:
                spans[-1] = (column.group, spans[-1][1] + 1)
            else:
                spans.append((column.group, 1))
        return spans


@dataclass(frozen=True)
class Figure:
    """A figure: how to draw it, and its caption.

    Attributes
    ----------
    draw
        Returns the matplotlib figure; called under the project's style.
    caption
        As for `Table`.
    """

    draw: Callable[[], Canvas]
    caption: str


def letter(index: int) -> str:
    """Return a, b, …, z, aa, ab, … for 0, 1, …."""
    text = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        text = chr(ord("a") + rest) + text
    return text
