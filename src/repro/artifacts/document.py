"""What an artifact's function returns: a table or a figure, not yet in any file format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
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
    campaign
        The campaign beside the table's own that its cells are of; empty where they are of that itself.
    """

    key: str
    title: str
    group: str = ""
    numeric: bool = True
    campaign: str = ""


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
    keys
        Of the recorded rows that the value is from, where these are one or a few.
    interval
        Of a time or a ratio of two, between what it lies by the samples of its rounds, in the value's unit; the CSV
        file has it in two more columns. None where no samples were recorded.
    """

    value: Value = None
    text: str = ""
    notes: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    interval: tuple[float, float] | None = None

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
    nothing
        Whether nothing was measured that it is about, so that the report leaves it out and names it.
    """

    columns: tuple[Column, ...]
    rows: list[tuple[Cell, ...]]
    caption: str
    summary: list[tuple[Cell, ...]] = field(default_factory=list)
    nothing: bool = False

    def __post_init__(self) -> None:
        """Check that every row fits the columns."""
        for row in (*self.rows, *self.summary):
            if len(row) != len(self.columns):
                raise ValueError(f"a row of {len(row)} cells in a table of {len(self.columns)} columns")

    @property
    def notes(self) -> list[str]:
        """Distinct notes in order of their first cell; the letter of the i-th is `letter(i)`."""
        return list(self._letter_of)

    @cached_property
    def _letter_of(self) -> dict[str, str]:
        """The letters by the notes: found once, since every cell asks for its own and a table may have thousands."""
        cells = (cell for row in (*self.rows, *self.summary) for cell in row)
        notes = dict.fromkeys(note for cell in cells for note in cell.notes)
        return {note: letter(i) for i, note in enumerate(notes)}

    @property
    def grouped(self) -> bool:
        """Whether any column stands under a group's head."""
        return any(column.group for column in self.columns)

    def letters(self, cell: Cell) -> str:
        """Return the letters of a cell's notes, `a,c`."""
        return ",".join(self._letter_of[note] for note in dict.fromkeys(cell.notes))

    def groups(self) -> list[tuple[str, int]]:
        """Heads of neighbouring columns with the number of columns that each spans."""
        spans: list[tuple[str, int]] = []
        for column in self.columns:
            if spans and spans[-1][0] == column.group and column.group:
                spans[-1] = (column.group, spans[-1][1] + 1)
            else:
                spans.append((column.group, 1))
        return spans


#: As rows of a table name what a result is claimed by beside its own clock.
OTHER_CLOCKS = ("event clock", "cold cache, event clock")


@dataclass(frozen=True)
class Result:
    """Where a study's result in one number is printed: a cell of one of its tables.

    Attributes
    ----------
    table, row, column
        The table's name, how the first cell of the row begins, and the key of the column.
    says
        What the number is, after "times as fast as"; `{library}` is what the baselines are of.
    clock
        What it was timed by, as the table's caption says.
    instead, alone
        The key of the column that is taken where `column` has no number in that row, and what is said then; empty for
        none.
    """

    table: str
    row: str
    column: str
    says: str
    clock: str
    instead: str = ""
    alone: str = ""

    def cell(self, table: Table) -> Cell:
        """Return the cell; an empty one where the table has no such row."""
        return self._cell(table, self.row)

    def said_of(self, table: Table) -> str:
        """Return what the number of a table is."""
        return self.says if self._column(table) == self.column else f"{self.says}; {self.alone}"

    def by_other_clocks(self, table: Table) -> dict[str, Cell]:
        """Return the same number by the clocks of `OTHER_CLOCKS`, where a row's name differs in its clock alone."""
        names = {clock: self.row.replace(f"{self.clock} clock", clock) for clock in OTHER_CLOCKS}
        cells = {clock: self._cell(table, name) for clock, name in names.items() if name != self.row}
        return {clock: cell for clock, cell in cells.items() if cell.value is not None}

    def _cell(self, table: Table, name: str) -> Cell:
        return _at(table, name, self._column(table))

    def _column(self, table: Table) -> str:
        keys = (key for key in (self.column, self.instead) if _at(table, self.row, key).value is not None)
        return next(keys, self.column)


def _at(table: Table, name: str, key: str) -> Cell:
    """Return a column's cell in the first row whose name begins so; an empty one where there is none."""
    at = next((at for at, column in enumerate(table.columns) if column.key == key), None)
    rows = () if at is None else (row[at] for row in table.rows if row[0].shown.startswith(name))
    return next(iter(rows), Cell())


@dataclass(frozen=True)
class Figure:
    """A figure: how to draw it, and its caption.

    Attributes
    ----------
    draw
        Returns the matplotlib figure; called under the project's style.
    caption, nothing
        As for `Table`.
    """

    draw: Callable[[], Canvas]
    caption: str
    nothing: bool = False


def letter(index: int) -> str:
    """Return a, b, …, z, aa, ab, … for 0, 1, …."""
    text = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        text = chr(ord("a") + rest) + text
    return text
