"""Table and figure of rivals, kernels from outside the project, beside ours and the library's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from repro.bench.rows import OUTSIDE, ClockName, RecordedRow
from repro.results import figure_style
from repro.results.campaign_data import Campaign, Case, Method, Selection, one_line
from repro.results.columns import (
    ABBREVIATIONS,
    MILLI,
    PRECISION,
    Time,
    microseconds,
    name_of,
    number_cell,
    speedup_column,
    time_column,
)
from repro.results.figure_forms import UNITY, Pen, Reference, figure_of
from repro.results.figure_rows import Marks, Row, Rows
from repro.results.problem_lines import CASE_NAME, join_sentences, measurement_note, unavailable_note
from repro.results.published import Published
from repro.results.registry import figure, table
from repro.results.significance import ratio_of
from repro.results.tables import Cell, Column, Figure, Table, natural, table_of

#: Marks of the library and of rivals, in their order.
PENS = (
    Pen(figure_style.LIBRARY.colour, "|", size=5),
    Pen(figure_style.GREEN, "o", size=4),
    Pen(figure_style.VIOLET, "s", size=4),
    Pen(figure_style.PINK, "D", size=4),
    Pen("black", "^", size=4),
    Pen(figure_style.GREY, "v", size=4),
)
#: Maximum number of rivals that the note below the figure names.
NAMED = 3
BELOW_EMPTY = "below an empty launch"


@dataclass(frozen=True)
class Contest:
    """A task of a study that rivals can compute too, and the solutions that they are compared with."""

    #: Title of the task for a table; may name columns of `alike` in braces.
    title: str
    #: Our solutions in order of preference; the first that has a time is compared.
    ours: Sequence[Method]
    library: Method | None
    clock: ClockName = "graph"
    #: Column values that identify a rival's rows of this task.
    columns: Mapping[str, object] = field(default_factory=dict, hash=False)
    #: Columns in which our row and the library's must equal the rival's row.
    alike: Sequence[str] = ()


@dataclass(frozen=True)
class RivalLine:
    """The time of one rival on one problem in one precision, beside ours and the library's."""

    case: Case
    contest: Contest
    row: RecordedRow

    @property
    def rival(self) -> str:
        return self.row.name.split("/")[1]

    @property
    def title(self) -> str:
        return self.contest.title.format_map({key: self.row.get(key) for key in self.contest.alike})

    @property
    def clock(self) -> ClockName:
        """Clock of the compared times: the contest's, or `host` if the rival has a time by this clock only."""
        host = self.row.seconds(self.contest.clock) is None and self.row.seconds("host") is not None
        return "host" if host else self.contest.clock

    @property
    def time(self) -> Time | None:
        return Selection([self.row]).fastest(self.clock)

    @property
    def ours(self) -> Time | None:
        times = (self._time_of(method) for method in self.contest.ours)
        return next((time for time in times if time), None)

    @property
    def library(self) -> Time | None:
        return self._time_of(self.contest.library) if self.contest.library else None

    def _time_of(self, method: Method) -> Time | None:
        task_keys = {key: self.row.get(key) for key in self.contest.alike}
        method = replace(method, columns={**method.columns, **task_keys})
        return self.case.time(method, self.contest.clock)

    @property
    def status(self) -> str:
        return self.row.status.replace("_", " ")

    @property
    def reason(self) -> str:
        """First line of the row's message; empty if the row has none."""
        return one_line((self.row.message or "").partition("\n")[0])

    @property
    def why_not(self) -> str:
        """Reason why the rival has no time, in one line; empty if it has one."""
        return "" if self.row.timed else ": ".join(filter(None, (self.status, self.reason)))


def rival_lines(campaign: Campaign, contests: Sequence[Contest]) -> list[RivalLine]:
    """Return a line for each rival in each case, ordered by contest, problem, precision and the rival's name."""
    lines = []
    for contest in contests:
        for problem in campaign.problems:
            for precision in campaign.precisions:
                case = Case[RecordedRow](campaign, problem, precision)
                rows = case.select(kind=OUTSIDE, **contest.columns)
                lines += [RivalLine(case, contest, row) for row in sorted(rows, key=lambda row: natural(row.name))]
    return lines


def _columns(with_task: bool) -> tuple[Column[RivalLine], ...]:
    task = Column[RivalLine]("task", "task", numeric=False, cell=lambda line: Cell(line.title))
    return (
        CASE_NAME,
        PRECISION,
        *((task,) if with_task else ()),
        Column("rival", "rival", numeric=False, cell=lambda line: Cell(line.row.get("routine") or line.rival)),
        speedup_column("speedup_over_ours", "over ours", "speedup", lambda line: line.ours, lambda line: line.time),
        speedup_column(
            "speedup_over_library", "over the library", "speedup", lambda line: line.library, lambda line: line.time
        ),
        Column("status", "what became of it", numeric=False, cell=_status_cell),
        Column("time_us", "µs", cell=_microseconds_cell),
        time_column("ours_us", "µs", "ours", lambda line: line.ours),
        Column("ours", "variant", "ours", numeric=False, cell=lambda line: name_of(line.ours)),
        Column("library_us", "µs", "library", cell=_library_cell),
        Column("setup_ms", "set-up, ms", cell=lambda line: number_cell(line.row.preprocess, MILLI)),
        Column("error", "error over bound", cell=lambda line: number_cell(line.row.error, spec=".2g")),
    )


def _status_cell(line: RivalLine) -> Cell:
    if line.row.timed:
        return Cell("right", notes=_clock_note(line, line.clock))
    return Cell(line.status, notes=(line.reason,) if line.reason else ())


def _microseconds_cell(line: RivalLine) -> Cell:
    cell, empty = microseconds(line.time), line.case.bound("empty", line.clock)
    is_below_empty = line.time is not None and empty is not None and line.time.seconds < empty.seconds
    return replace(cell, notes=(*cell.notes, BELOW_EMPTY)) if is_below_empty else cell


def _library_cell(line: RivalLine) -> Cell:
    cell, method = microseconds(line.library), line.contest.library
    return replace(cell, notes=(*cell.notes, *_clock_note(line, method.clock))) if method and line.library else cell


def _clock_note(line: RivalLine, clock: ClockName | None) -> tuple[str, ...]:
    is_other_clock = clock is not None and clock != line.contest.clock
    return (f"by the clock {clock}, which is the only one it has",) if is_other_clock else ()


_CONTESTS: dict[str, Sequence[Contest]] = {}


def contests_of(study_name: str) -> Sequence[Contest]:
    """Return the registered tasks of a study; none before its artifacts are loaded."""
    return _CONTESTS.get(study_name, ())


def register_contests(study_name: str, contests: Sequence[Contest]) -> None:
    """Register a study's table and figure of rivals; they are made only for campaigns with rivals."""
    _CONTESTS[study_name] = contests
    clock = contests[0].clock

    @table(study_name, "table-rivals", title="Rivals beside ours", numbering="ours", needs="rivals")
    def make_table(campaign: Campaign, published: Published) -> Table:
        lines = rival_lines(campaign, contests)
        caption = [
            "Kernels of the user’s own, verified by the same bounds and timed in the same rounds as ours and the",
            "library’s routines. Ours is the variant that tuning chose, the library’s its fastest routine.",
            "Speedup: the time of ours, or of the library, over the rival’s: above 1 the rival is faster.",
            "Set-up: what the rival does once, before the first launch.",
            measurement_note(campaign, clock),
            unavailable_note(campaign),
        ]
        return table_of(_columns(len(contests) > 1), lines, join_sentences(caption), is_empty=not lines)

    @figure(study_name, "figure-rivals", title="Speedups of rivals over ours", numbering="ours", needs="rivals")
    def make_figure(campaign: Campaign, published: Published) -> Figure:
        lines = rival_lines(campaign, contests)
        caption = [
            "Speedups of rivals, and of the library’s fastest routine, over ours: right of 1 they are faster.",
            _untimed_sentence(lines),
            measurement_note(campaign, clock),
            unavailable_note(campaign),
        ]
        panel, empty = _panel(lines, len(contests) > 1), "no rival has a time in this campaign"
        return figure_of([panel], empty, caption, is_empty=not lines, clock=clock, mark=_cross_note(lines))


def _untimed_sentence(lines: Sequence[RivalLine]) -> str:
    """Return the sentence that names rivals without a time, with their statuses and numbers of cases."""
    counts = Counter((line.rival, line.status) for line in lines if line.time is None)
    rival_counts = [f"{rival} ({status}, {count} of its cases)" for (rival, status), count in counts.items()]
    return f"Without a time: {', '.join(rival_counts)}." if rival_counts else ""


def _panel(lines: Sequence[RivalLine], with_task: bool) -> Rows[Sequence[RivalLine]]:
    """Return a row for each case, with a mark for each rival and the library, and a cross for rivals without a time."""
    cases: dict[str, list[RivalLine]] = {}
    for line in lines:
        task = f", {line.title}" if with_task else ""
        cases.setdefault(f"{line.case.problem} ({ABBREVIATIONS[line.case.precision]}{task})", []).append(line)

    def speedup(rival: str, case: Sequence[RivalLine]) -> float | None:
        return next((ratio_of(line.ours, line.time) for line in case if line.rival == rival), None)

    def reason(case: Sequence[RivalLine]) -> str:
        return next((line.status for line in case if line.time is None), "nothing of ours has a time")

    names = list(dict.fromkeys(line.rival for line in lines))
    library = Marks[Sequence[RivalLine]]("library", PENS[0], lambda case: ratio_of(case[0].ours, case[0].library))
    rivals = [
        Marks(name, PENS[1 + index % (len(PENS) - 1)], partial(speedup, name)) for index, name in enumerate(names)
    ]
    return Rows(
        [
            Row(label, [case], reason=reason(case), has_cross=any(line.time is None for line in case))
            for label, case in cases.items()
        ],
        "times as fast as ours",
        marks=[library, *rivals],
        references=[Reference(1, pen=UNITY)],
        scale="log",
        within=(0.48, 2.1),  # ticks on both sides of 1
    )


def _cross_note(lines: Sequence[RivalLine]) -> str | None:
    """Return the note on the crosses at the axis, which mark rivals without a time: their names, or their number."""
    without = list(dict.fromkeys(f"{line.rival} ({line.status})" for line in lines if line.time is None))
    rivals_text = ", ".join(without) if len(without) <= NAMED else f"{len(without)} rivals, which the caption names"
    return f"× no time: {rivals_text}" if without else None
