"""Tables and figures as data: what the function of an artifact returns, not yet in any file format.

A table has columns, rows of cells and notes; a figure has a function that draws it and a caption. Cells that many
tables have (times, fractions, ratios, counts) and the lines of tables of targets are made here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import floor, log10
from typing import TYPE_CHECKING, NamedTuple

from repro.results.campaign_data import Campaign, Case, ReportedTime
from repro.results.published import Record
from repro.results.significance import interval_of, interval_of_ratio, ratio_of, scaled

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


MICRO = 1e6


def microseconds(timed: ReportedTime | None, case: Case | None = None) -> Cell:
    """Return a time in microseconds, three significant digits; with its case, noted where it is mostly launch."""
    if timed is None:
        return Cell()
    value = timed.seconds * MICRO
    near = case.launch_note("graph", timed) if case else ()
    return Cell(value, digits(value), (*timed.notes, *near), (timed.key,), scaled(interval_of(timed), MICRO))


def from_rows(cell: Cell, *times: ReportedTime | None) -> Cell:
    """Return a cell with the keys of the rows that its value is from."""
    return replace(cell, keys=tuple(dict.fromkeys((*cell.keys, *(timed.key for timed in times if timed)))))


def digits(value: float) -> str:
    """Return a positive number with three significant digits and no exponent; below 1 with two, which say enough."""
    if 0 < value < 0.0995:
        return f"{value:.{1 - floor(log10(value))}f}"
    for limit, places in ((9.995, 2), (99.95, 1)):
        if value < limit:
            return f"{value:.{places}f}"
    return f"{value:.0f}"


def percent(fraction: float | None) -> Cell:
    """Return a fraction in percent."""
    return Cell() if fraction is None else Cell(100 * fraction, f"{100 * fraction:.0f} %")


def ratio(value: float | None) -> Cell:
    """Return a speedup."""
    return Cell() if value is None else Cell(value, f"{value:.2f}")


def speedup(base: ReportedTime | None, over: ReportedTime | None) -> Cell:
    """Return how many times faster the second is than the first, with the interval of that."""
    return from_rows(replace(ratio(ratio_of(base, over)), interval=interval_of_ratio(base, over)), base, over)


def share(part: ReportedTime | None, whole: ReportedTime | None) -> Cell:
    """Return one time as a fraction of another in percent, with the interval of that."""
    cell = replace(percent(ratio_of(part, whole)), interval=scaled(interval_of_ratio(part, whole), 100))
    return from_rows(cell, part, whole)


def count(number: int | None) -> Cell:
    """Return a number with its thousands apart."""
    return Cell() if number is None else Cell(number, f"{number:,}".replace(",", "\N{NO-BREAK SPACE}"))


def tied(timed: ReportedTime | None, tie: float) -> tuple[str, ...]:
    """Note how many other variants the search found within a tie of a winner."""
    return (f"tie: {len(timed.ties)} more within {100 * tie:g} %",) if timed and timed.ties else ()


#: What the wanted numbers of `config/targets` were set for.
WANTED_ON = "NVIDIA H200"
#: Cases that are named of those without a number for the same reason.
SHOWN = 5


class CaseNumber(NamedTuple):
    """What was measured of one case: the number, the case's name, and what is to be said of it."""

    value: float
    case: str
    notes: tuple[str, ...] = ()


class MissingCase(NamedTuple):
    """A case without a number, why it has none, and how many numbers it would have."""

    case: str
    reason: str
    numbers: int = 1


class Measured(NamedTuple):
    """What was measured of a quantity: numbers, and the cases without one."""

    numbers: list[CaseNumber]
    missing: list[MissingCase]

    @property
    def cases(self) -> int:
        """How many numbers are wanted."""
        return len(self.numbers) + sum(item.numbers for item in self.missing)

    @property
    def why_not(self) -> str:
        """The cases without a number, the first few of those with the same reason; empty where all have one."""
        by_reason: dict[str, list[str]] = {}
        for item in self.missing:
            by_reason.setdefault(item.reason, []).append(item.case)
        return "; ".join(f"{_some(cases)}: {reason}" for reason, cases in by_reason.items())


def _some(cases: Sequence[str]) -> str:
    more = len(cases) - SHOWN
    return ", ".join(cases[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def target_columns(campaign: Campaign) -> tuple[Column, ...]:
    """Return the columns: the target, what was wanted and measured, a verdict, the cases and the worst of them."""
    return (
        Column("target", "target", numeric=False),
        Column("wanted", "wanted"),
        Column("measured", "measured", campaign.column),
        Column("reached", "reached", campaign.column, numeric=False),
        Column("cases", "cases", campaign.column),
        Column("worst", "worst", campaign.column),
        Column("worst_case", "worst case, or why there is none", campaign.column, numeric=False),
    )


def target_line(
    item: Record,
    numbers: Sequence[CaseNumber],
    *,
    at_most: bool,
    statistic: Callable[[Iterable[float]], float | None] | None = None,
    cases: int | None = None,
    missing: str = "",
    notes: tuple[str, ...] = (),
) -> tuple[Cell, ...]:
    """Return the line of a target, the cells of `target_columns`.

    Parameters
    ----------
    item
        The target: what it is of, and the number that is wanted; empty where it is only reported.
    numbers
        What was measured, case by case.
    at_most
        Whether the wanted number may not be exceeded, or else is to be reached.
    statistic
        What is wanted of the numbers; None: the worst of them.
    cases
        How many numbers are wanted; None: as many as there are.
    missing
        Which cases have none, and why.
    notes
        What is to be said of the number.
    """
    wanted, limit = float(item["wanted"]) if item["wanted"] else None, "≤" if at_most else "≥"
    asked = Cell(None, "reported") if wanted is None else Cell(wanted, f"{limit} {item['wanted']}")
    heads = Cell(item["what"].replace("'", "’")), asked
    if not numbers:
        return (*heads, Cell(), Cell(None, " "), Cell(0), Cell(), Cell(missing))
    worst = (max if at_most else min)(numbers, key=lambda number: number.value)
    of_all = statistic(number.value for number in numbers) if statistic else None
    value = worst.value if of_all is None else of_all
    if wanted is None:
        verdict = Cell(None, " ")
    else:
        verdict = Cell("yes" if (value <= wanted if at_most else value >= wanted) else "no")
    count = len(numbers)
    partly = Cell(count, f"{count} of {cases}", (f"no number of {missing}",))
    return (
        *heads,
        Cell(value, f"{value:.2f}", notes),
        verdict,
        partly if missing and cases is not None else Cell(count),
        Cell(worst.value, f"{worst.value:.2f}"),
        Cell(worst.case, notes=worst.notes),
    )


def wanted_on(campaign: Campaign) -> str:
    """Return the sentence about what was wanted of another device than the campaign's; empty where it was of this."""
    if campaign.on_cpu:
        return "What was wanted is for a GPU: the CPU’s numbers are a rehearsal."
    return f"What was wanted was set for an {WANTED_ON}." if campaign.device not in (None, WANTED_ON) else ""
