"""Times of calls: ours, those of the libraries whose arrays they take, and the kernel alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from repro.bench.user_calls import OURS
from repro.results.campaign_data import Campaign, Case, ReportedTime
from repro.results.problem_lines import ProblemLine, join_sentences, measurement_note, precision_cell, recorded_lines
from repro.results.published import Published
from repro.results.registry import table
from repro.results.tables import (
    MICRO,
    Cell,
    Column,
    Table,
    add_row_keys,
    count,
    digits,
    microseconds,
    speedup,
    table_of,
)
from repro.studies.calls import ARRAYS, FUNCTIONS, STUDY_NAME
from repro.studies.calls.columns import CallRow

#: How the two protocols are read.
PROTOCOLS = (
    "Queued: calls one after the other and one wait at their end, per call. Waited: each call followed by a wait for "
    "the device, or for the stream of the library. New: the result is a new array; out: it is written to an array that "
    "is there."
)


@dataclass(frozen=True)
class CallCase:
    """One function on one problem, called with arrays of one library."""

    line: ProblemLine
    case: Case[CallRow]
    function: str
    arrays: str

    def time(self, library: str, result: str) -> ReportedTime[CallRow] | None:
        """Return the waited time of a library's call."""
        fastest: ReportedTime[CallRow] | None = self._select(library, result).fastest("host")
        return fastest

    def queued(self, library: str, result: str) -> float | None:
        time = self.time(library, result)
        return time.row.queued_median if time else None

    @property
    def kernel(self) -> ReportedTime[CallRow] | None:
        return self.case.select(function=self.function, arrays=self.arrays, library=OURS).fastest("graph")

    @property
    def rival(self) -> str:
        """Name of the library whose own functions take these arrays; empty if there are none."""
        name = ARRAYS.get(self.arrays, "")
        return name if len(self.case.select(function=self.function, library=name)) else ""

    def failure(self, library: str, result: str) -> str | None:
        failure: str | None = self._select(library, result).failure
        return failure

    def _select(self, library: str, result: str) -> Any:
        return self.case.select(function=self.function, arrays=self.arrays, library=library, result=result)


def call_cases(campaign: Campaign, published: Published) -> list[CallCase]:
    """Return all calls of a campaign by function, problem, precision and arrays."""
    cases = []
    for function in FUNCTIONS:
        for line in recorded_lines(campaign, published):
            for precision in campaign.precisions:
                case = Case[CallRow](campaign, line.problem, precision)
                there = {row.arrays for row in case.select(function=function)}
                cases += [CallCase(line, case, function, arrays) for arrays in ARRAYS if arrays in there]
    return cases


def _columns(whose: str, result: str) -> tuple[Column[CallCase], Column[CallCase]]:
    """Return the columns of a result: queued and waited microseconds of our call, or of the other library's."""
    key = f"{whose}_{result}"
    group = f"{'ours' if whose == 'ours' else 'library’s own'}, {result}"

    def library(case: CallCase) -> str:
        return OURS if whose == "ours" else case.rival

    def queued(case: CallCase) -> Cell:
        time = case.time(library(case), result)
        if time is None or time.row.queued_median is None:
            return Cell()
        row = time.row
        median, *ends = (
            MICRO * (seconds or 0) for seconds in (row.queued_median, row.queued_least, row.queued_largest)
        )
        return add_row_keys(Cell(median, digits(median), interval=(ends[0], ends[1])), time)

    def waited(case: CallCase) -> Cell:
        time = case.time(library(case), result)
        if time is not None:
            return microseconds(time)
        reason = case.failure(library(case), result)
        return Cell(notes=(reason,) if reason else ())

    return (
        Column(f"{key}_queued_us", "queued, µs", group, cell=queued),
        Column(f"{key}_waited_us", "waited, µs", group, cell=waited),
    )


COLUMNS: tuple[Column[CallCase], ...] = (
    Column("function", "function", numeric=False, cell=lambda case: Cell(case.function)),
    Column("problem", "problem", numeric=False, cell=lambda case: case.line.cell),
    Column("precision", "precision", numeric=False, cell=lambda case: precision_cell(case.case.precision)),
    Column("arrays", "arrays", numeric=False, cell=lambda case: Cell(case.arrays)),
    Column("rows", "rows", cell=lambda case: count(case.case.rows[0].rows)),
    Column("entries", "entries", cell=lambda case: count(case.case.rows[0].entries)),
    *_columns("ours", "new"),
    *_columns("ours", "out"),
    Column("kernel_us", "kernel alone, µs", cell=lambda case: microseconds(case.kernel)),
    Column("library", "library", numeric=False, cell=lambda case: Cell(case.rival or None)),
    *_columns("library", "new"),
    *_columns("library", "out"),
    Column(
        "ratio", "library’s over ours, new, waited",
        cell=lambda case: speedup(case.time(case.rival, "new"), case.time(OURS, "new")),
    ),
)  # fmt: skip


def absent_note(campaign: Campaign) -> str:
    """Return the sentence on libraries that have no rows; empty if there are none."""
    there = {row["library"] for row in campaign.reported}
    absent = [name for name in ("CuPy", "PyTorch") if name not in there]
    if not there or not absent:
        return ""
    reason = "their arrays lie on a GPU" if campaign.on_cpu else "not installed where this was measured"
    return f"No calls of {' and '.join(absent)}: {reason}."


@table(
    STUDY_NAME,
    "table-calls",
    title="What a user’s call takes",
    numbering="ours",
    lead=("ours_new_waited_us", "kernel_us", "library_new_waited_us"),
)
def calls(campaign: Campaign, published: Published) -> Table:
    """A line for each function, problem, precision and library of arrays."""
    cases = call_cases(campaign, published)
    caption = [
        "Whole calls of public functions, by the host’s clock, beside the calls of CuPy, PyTorch and SciPy that take",
        "the same arrays, in the same shuffled rounds.",
        PROTOCOLS,
        "Kernel alone: what our call launches, by the graph clock; none where a call is no fixed sequence of launches.",
        "insert: 1,000 entries; cg: 50 iterations.",
        "The CSV file has the least and the largest round beside a queued time.",
        absent_note(campaign),
        measurement_note(campaign, "host"),
    ]
    return table_of(COLUMNS, cases, join_sentences(caption), nothing=not cases)
