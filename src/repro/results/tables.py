"""Tables and figures independent of file formats."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import floor, log10
from typing import TYPE_CHECKING, Any, Generic

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas
    from typing_extensions import TypeVar

    C = TypeVar("C", default=Any)
else:
    from typing import TypeVar

    C = TypeVar("C")

T = TypeVar("T")

Value = str | int | float | None
ABSENT = "–"
#: Function that returns the cell of a summary line from the (one or more) numbers of a column.
Statistic = Callable[[Sequence[float]], "Cell"]


@dataclass(frozen=True)
class Sample:
    """The speedups of single cases from which a mean or median was computed."""

    speedups: tuple[float, ...]
    #: Number of cases, those without a speedup included.
    cases: int

    @property
    def said(self) -> str:
        """Summary such as `36 cases, least 1.12×, slower in none`; empty for a single case, which is its own mean."""
        slower = sum(value < 1 for value in self.speedups)
        if self.cases < 2 or not self.speedups:
            return ""
        count = f"{len(self.speedups)} of {self.cases}" if len(self.speedups) < self.cases else str(self.cases)
        return f"{count} cases, least {min(self.speedups):.2f}×, slower in {slower or 'none'}"


@dataclass(frozen=True)
class Cell:
    """A cell: the value that the CSV file holds, the text that is printed, and its notes."""

    #: Value at full precision; None if there is no value.
    value: Value = None
    #: Printed text; by default made from the value.
    text: str = ""
    #: Remarks, printed below the table and marked by letters; equal ones share a letter.
    notes: tuple[str, ...] = ()
    #: Keys of the recorded rows from which the value was computed, if these are few.
    keys: tuple[str, ...] = ()
    #: Confidence interval of a time or of a ratio of times, in the value's unit; the CSV file has two more columns for
    #: its ends. None if no samples were recorded.
    interval: tuple[float, float] | None = None
    #: The speedups from which a mean or median was computed; None for any other value.
    sample: Sample | None = None

    @property
    def shown(self) -> str:
        return self.text or (ABSENT if self.value is None else str(self.value))


@dataclass(frozen=True)
class Column(Generic[C]):
    """A column of a table: its head, and a function that makes its cell for a case.

    Examples
    --------
    >>> floor = Column[Case]("floor_us", "µs", "floor", cell=lambda case: microseconds(case.bound("floor", "graph")))
    """

    #: Name in the CSV file.
    key: str
    #: Printed head.
    title: str
    #: Common head above neighbouring columns with the same group.
    group: str = ""
    #: Whether the column is right-aligned and sorted numerically.
    numeric: bool = True
    #: Name of the campaign in `Campaign.beside` that the column shows; empty for the table's own campaign.
    campaign: str = ""
    #: Function that makes the cell for a case (or any other object that has a line): see `table_of`.
    cell: Callable[[C], Cell] = field(default=lambda case: Cell(), repr=False, compare=False)
    #: Functions that make the cells of summary lines, by name of the statistic.
    summary: Mapping[str, Statistic] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Table:
    """Columns, and rows with one cell per column."""

    columns: tuple[Column[Any], ...]
    rows: list[tuple[Cell, ...]]
    #: States which numbers are published and which are ours, the clock, the cache state, and missing parts.
    caption: str
    #: Separate rows at the bottom, which are not sorted.
    summary: list[tuple[Cell, ...]] = field(default_factory=list)
    #: Whether none of the table's data was measured, so that the report only names the table.
    is_empty: bool = False

    def __post_init__(self) -> None:
        for row in (*self.rows, *self.summary):
            if len(row) != len(self.columns):
                raise ValueError(f"a row of {len(row)} cells in a table of {len(self.columns)} columns")

    @property
    def notes(self) -> list[str]:
        """Distinct notes in order of first use; note number i is marked by `letter(i)`."""
        return list(self._letter_of)

    @cached_property
    def _letter_of(self) -> dict[str, str]:
        cells = (cell for row in (*self.rows, *self.summary) for cell in row)
        notes = dict.fromkeys(note for cell in cells for note in cell.notes)
        return {note: letter(i) for i, note in enumerate(notes)}

    @property
    def is_grouped(self) -> bool:
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


def move_lead_columns(
    table: Table, lead: Sequence[str], fallback: Sequence[str] = (), *, after_texts: bool = False
) -> Table:
    """Return a table with the columns `lead` directly after its first columns without a group, which name the case.

    If no row has a value of `lead`, the columns `fallback` are moved. Columns without any value come last. With
    `after_texts`, numbers do not name the case: they come behind `lead`.
    """
    columns = table.columns
    index_of = {column.key: index for index, column in enumerate(columns)}
    fixed = {index_of[key] for key in (*lead, *fallback) if key in index_of}
    numbers = (i for i, column in enumerate(columns) if column.group or i in fixed or (after_texts and column.numeric))
    naming = next(numbers, len(columns))
    valued = {index for index in range(len(columns)) if any(row[index].value is not None for row in table.rows)}
    found = next((keys for keys in (lead, fallback) if any(index_of.get(key) in valued for key in keys)), lead)
    first = [index_of[key] for key in found if key in index_of]
    others = [*first, *(index for index in range(naming, len(columns)) if index not in first)]
    order = [*range(naming), *sorted(others, key=lambda index: index not in valued)]

    def ordered(row: Sequence[T]) -> tuple[T, ...]:
        return tuple(row[index] for index in order)

    rows, summary = ([ordered(row) for row in part] for part in (table.rows, table.summary))
    return replace(table, columns=ordered(table.columns), rows=rows, summary=summary)


def sentences(text: str) -> list[str]:
    """Return the sentences of a caption."""
    return re.split(r"(?<=[.!?]) (?=[^\W\d_a-z])", text)


@dataclass(frozen=True)
class SummaryLine(Generic[C]):
    """A summary line below a table: one statistic for each column (`Column.summary`) over some of the cases."""

    #: Text of the first column.
    title: str
    #: Key in `Column.summary`.
    statistic: str
    #: Function that says whether a case is included.
    counts: Callable[[C], bool] = lambda case: True


def table_of(
    columns: Sequence[Column[C]],
    cases: Sequence[C],
    caption: str,
    summary: Sequence[SummaryLine[C] | str] = (),
    *,
    is_empty: bool = False,
) -> Table:
    """Return a table with one line for each case; each column makes its own cells, and the first one names the case.

    In a summary line, a column without this statistic has an empty cell; summary lines without numbers are omitted. A
    name in `summary` is a line with this title and statistic over all cases.
    """
    rows = [tuple(column.cell(case) for column in columns) for case in cases]
    lines = []
    for line in (SummaryLine[C](one, one) if isinstance(one, str) else one for one in summary):
        counted_rows = [row for row, case in zip(rows, cases, strict=True) if line.counts(case)]
        cells = []
        for index, column in enumerate(columns):
            statistic = column.summary.get(line.statistic)
            numbers = (
                [float(value) for row in counted_rows if (value := row[index].value) is not None] if statistic else []
            )
            cells.append(statistic(numbers) if statistic and numbers else Cell())
        if any(cell.value is not None for cell in cells):
            lines.append((Cell(line.title), *cells[1:]))
    return Table(tuple(columns), rows, caption, lines, is_empty)


#: Names of other clocks by which a table can have the same number, as in the first cells of its rows.
OTHER_CLOCKS = ("event clock", "cold cache, event clock")


@dataclass(frozen=True)
class ResultLine:
    """A further number that is printed beside a study's main number, for cases that the main number omits."""

    #: Description; `{library}` is replaced by the baselines' library.
    description: str
    #: Start of the first cell in the row of the result's table.
    row: str
    #: Key of the column.
    column: str
    #: Whether the number is taken from `Campaign.as_published`; then it is omitted if there is no such campaign.
    as_published: bool = False


@dataclass(frozen=True)
class Result:
    """Location of the study's main number: a cell of one of its tables."""

    table: str
    #: Start of the first cell in the row; in a summary line, the number covers all cases in the column.
    row: str
    #: Key of the column.
    column: str
    #: Description of the number, after "times as fast as"; `{library}` is replaced by the baselines' library.
    description: str
    #: Clock of the number, as named in the table's caption.
    clock: str
    #: Key of a substitute column, used if `column` has no number in the row, and what is then added to the description.
    fallback_column: str = ""
    fallback_description: str = ""
    #: Further numbers, for cases that the main number omits.
    lines: Sequence[ResultLine] = ()
    #: Description of the campaign's own number if the main one is from `Campaign.as_published`; empty if the main
    #: number is always the campaign's own.
    own_description: str = ""

    @classmethod
    def of(cls, declaration: Mapping[str, Any]) -> Result:
        """Make the result from the mapping that a study's contract declares; each of its `lines` is a mapping too."""
        return cls(**{**declaration, "lines": tuple(ResultLine(**line) for line in declaration.get("lines", ()))})

    def cell(self, table: Table) -> Cell:
        """Return the cell with the number; an empty cell if the table lacks it."""
        return self._cell(table, self.row)

    def description_of(self, table: Table) -> str:
        """Return the description of the number, with `fallback_description` if it is from the substitute column."""
        return (
            self.description
            if self._column(table) == self.column
            else f"{self.description}; {self.fallback_description}"
        )

    def numbers_of_other_clocks(self, table: Table) -> dict[str, Cell]:
        """Return the same number by `OTHER_CLOCKS`, from rows whose names differ only in the clock."""
        names = {clock: self.row.replace(f"{self.clock} clock", clock) for clock in OTHER_CLOCKS}
        cells = {clock: self._cell(table, name) for clock, name in names.items() if name != self.row}
        return {clock: cell for clock, cell in cells.items() if cell.value is not None}

    def left_out(self, table: Table, published_table: Table | None = None) -> dict[str, Cell]:
        """Return the further numbers by their descriptions: that of the substitute column, and those of `lines`.

        `published_table` is the same table of the campaign with the exact kernels of the papers.
        """
        cells = {
            self.fallback_description: _cell_at(table, self.row, self.fallback_column)
            if self._column(table) == self.column
            else Cell()
        }
        for line in self.lines:
            source = published_table if line.as_published else table
            cells[line.description] = _cell_at(source, line.row, line.column) if source else Cell()
        return {text: cell for text, cell in cells.items() if cell.value is not None}

    def _cell(self, table: Table, name: str) -> Cell:
        return _cell_at(table, name, self._column(table))

    def _column(self, table: Table) -> str:
        keys = (key for key in (self.column, self.fallback_column) if _cell_at(table, self.row, key).value is not None)
        return next(keys, self.column)


def _cell_at(table: Table, name: str, key: str) -> Cell:
    """Return the cell of a column in the first row whose first cell starts with `name`; an empty cell if none does.

    The cell of a summary line gets its cases as `sample`, and the notes that all of these cases share.
    """
    index = next((index for index, column in enumerate(table.columns) if column.key == key), None)
    if index is None:
        return Cell()
    for row in table.rows:
        if row[0].shown.startswith(name):
            return row[index]
    for row in table.summary:
        if row[0].shown.startswith(name):
            cells = [case[index] for case in table.rows if case[index].value is not None]
            notes = tuple(note for note in cells[0].notes if all(note in cell.notes for cell in cells)) if cells else ()
            numbers = tuple(cell.value for cell in cells if isinstance(cell.value, float))
            return replace(row[index], sample=Sample(numbers, len(table.rows)), notes=notes)
    return Cell()


@dataclass(frozen=True)
class Figure:
    """How to draw a figure, and its caption."""

    #: Function that draws the figure; it is called with the project's Matplotlib style active.
    draw: Callable[[], Canvas]
    caption: str
    is_empty: bool = False
    #: Clock of the drawn times; empty if no times are drawn.
    clock: str = ""
    #: Campaigns whose rows are drawn; empty for the figure's own.
    campaigns: tuple[str, ...] = ()
    #: What is written below the figure: device, campaigns, clock, and precision if there is one.
    foot: str = ""


def letter(index: int) -> str:
    """Return a, b, …, z, aa, ab, … for 0, 1, …."""
    text = ""
    index += 1
    while index:
        index, digit = divmod(index - 1, 26)
        text = chr(ord("a") + digit) + text
    return text


def natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts names by their numbers: `scatter4` before `scatter16`."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def digits(value: float) -> str:
    """Format a positive number with three significant digits (below 1: two) and no exponent."""
    if 0 < value < 0.0995:
        return f"{value:.{1 - floor(log10(value))}f}"
    for limit, decimals in ((9.995, 2), (99.95, 1)):
        if value < limit:
            return f"{value:.{decimals}f}"
    return f"{value:.0f}"
