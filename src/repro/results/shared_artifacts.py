"""Artifacts that studies register: rivals (kernels from outside the project), and the energy of launches.

Both compare ours, the papers' kernels and the library's fastest routine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from repro.bench.rows import OUTSIDE, ClockName, RecordedRow
from repro.bench.runnable import CONTENDERS, LIBRARY, OURS, PAPERS, PAPERS_TUNED
from repro.bench.yardsticks import FLOOR
from repro.results import figure_style
from repro.results.campaign_data import Campaign, Case, Method, Selection, one_line
from repro.results.columns import (
    ABBREVIATIONS,
    MICRO,
    MILLI,
    PRECISION,
    Time,
    count,
    microseconds,
    name_of,
    number_cell,
    ratio,
    speedup,
    speedup_column,
    time_column,
)
from repro.results.figure_forms import UNITY, Axis, Curve, Curves, Pen, Reference, figure_of
from repro.results.figure_rows import Marks, Row, Rows
from repro.results.problem_lines import CASE_NAME, join_sentences, measurement_note, unavailable_note
from repro.results.published import Published
from repro.results.registry import figure, table
from repro.results.significance import geometric_mean, ratio_of
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


NANO, PICO = 1e9, 1e12
TITLES = {
    OURS: "ours",
    PAPERS_TUNED: "the papers’, tuned",
    PAPERS: "the papers’",
    LIBRARY: "the library’s fastest",
    FLOOR: "streaming floor",
}
#: Marks of the contenders that the figure compares with the library.
_PENS = {
    OURS: Pen(figure_style.OURS.colour, figure_style.OURS.marker),
    PAPERS_TUNED: Pen(figure_style.PAPERS.colour, figure_style.PAPERS.marker),
    PAPERS: Pen(figure_style.PAPERS.colour, figure_style.PAPERS.marker, is_hollow=True),
}


@dataclass(frozen=True)
class EnergyLine:
    """The energy of one contender on one problem in one precision, and of the library's fastest routine."""

    case: Case
    row: RecordedRow
    #: Row of the library in the same task; None without one.
    library: RecordedRow | None

    @property
    def is_library(self) -> bool:
        return self.row.energy_of == LIBRARY

    @property
    def joules(self) -> float:
        assert self.row.energy_joules is not None
        return self.row.energy_joules

    @property
    def above_idle(self) -> float | None:
        """Joules of a launch without those that the idle device would have used in its time."""
        idle, seconds = self.row.energy_idle_watts, self.row.energy_seconds
        return None if idle is None or seconds is None else self.joules - idle * seconds

    @property
    def energy_ratio(self) -> float | None:
        """The library's energy over this one."""
        joules = self.library.energy_joules if self.library else None
        return joules / self.joules if joules and not self.is_library else None

    @property
    def times(self) -> tuple[Time | None, Time | None]:
        """The library's time and this one by the first clock that has both; only this one without a library's."""
        clocks: tuple[ClockName, ...] = ("graph", "event", "host")
        rows = [row for row in (self.library, self.row) if row]
        clock: ClockName = next((clock for clock in clocks if all(row.seconds(clock) for row in rows)), "graph")
        own, library = (Selection([row]).fastest(clock) if row else None for row in (self.row, self.library))
        return None if self.is_library else library, own

    @property
    def gain(self) -> tuple[float, float] | None:
        """The library's time and energy over these; None without both."""
        speed, energy = ratio_of(*self.times), self.energy_ratio
        return (speed, energy) if speed and energy else None

    @property
    def per_nonzero(self) -> float | None:
        record = self.case.campaign.problems.get(self.case.problem)
        return self.joules / record.nnz if record and record.nnz else None


def energy_lines(campaign: Campaign) -> list[EnergyLine]:
    """Return a line for each row with an energy: case by case and task by task, ours first and rivals last."""
    return [
        line
        for problem in campaign.problems
        for precision in campaign.precisions
        for line in _lines_of(Case(campaign, problem, precision))
    ]


def _lines_of(case: Case) -> Iterator[EnergyLine]:
    rows = [row for row in case.rows if row.timed and row.energy_joules is not None]
    order = [*CONTENDERS, FLOOR]

    def rank(row: RecordedRow) -> tuple[str, int, str]:
        whose = str(row.energy_of)
        return str(row.energy_task), order.index(whose) if whose in order else len(order), row.name

    library = {row.energy_task: row for row in rows if row.energy_of == LIBRARY}
    return (EnergyLine(case, row, library.get(row.energy_task)) for row in sorted(rows, key=rank))


def _energy_columns(has_tasks: bool) -> tuple[Column[EnergyLine], ...]:
    task = Column[EnergyLine]("task", "task", numeric=False, cell=lambda line: Cell(line.row.energy_task or None))
    energy, power = "µJ a launch", "W"
    return (
        CASE_NAME,
        PRECISION,
        *((task,) if has_tasks else ()),
        Column(
            "whose",
            "whose",
            numeric=False,
            cell=lambda line: Cell(TITLES.get(line.row.energy_of, str(line.row.energy_of))),
        ),
        Column("name", "variant or routine", numeric=False, cell=lambda line: Cell(line.row.name)),
        Column("speedup", "time", "the library’s over it", cell=lambda line: speedup(*line.times)),
        Column("energy_ratio", "energy", "the library’s over it", cell=lambda line: ratio(line.energy_ratio)),
        Column("time_us", "µs", cell=lambda line: microseconds(line.times[1])),
        Column("energy_uj", "median", energy, cell=lambda line: number_cell(line.joules, MICRO)),
        Column("energy_min_uj", "least", energy, cell=lambda line: number_cell(line.row.energy_joules_min, MICRO)),
        Column("energy_max_uj", "largest", energy, cell=lambda line: number_cell(line.row.energy_joules_max, MICRO)),
        Column("above_idle_uj", "above idle", energy, cell=lambda line: number_cell(line.above_idle, MICRO, ".4g")),
        Column("watts", "busy", power, cell=lambda line: number_cell(line.row.energy_watts)),
        Column("idle_watts", "idle", power, cell=lambda line: number_cell(line.row.energy_idle_watts)),
        Column("pj_per_byte", "pJ a byte", cell=_per_byte_cell),
        Column("nj_per_nonzero", "nJ a non-zero", cell=lambda line: number_cell(line.per_nonzero, NANO)),
        Column("launches", "launches", cell=lambda line: count(line.row.energy_launches)),
    )


def _per_byte_cell(line: EnergyLine) -> Cell:
    return number_cell(line.joules / line.row.bytes if line.row.bytes else None, PICO)


def means_note(lines: Sequence[EnergyLine]) -> str:
    """Return the sentences on the geometric means of speedups and energy ratios of each contender."""
    sentences = []
    for whose, gains in _gains(lines).items():
        speed, energy = (geometric_mean(values) for values in zip(*gains, strict=True)) if gains else (None, None)
        if speed and energy:
            sentences.append(f"{TITLES[whose]} {speed:.2f} for time and {energy:.2f} for energy in {len(gains)} cases")
    return f"Library over kernel, geometric means: {'; '.join(sentences)}." if sentences else ""


def _gains(lines: Sequence[EnergyLine]) -> dict[str, list[tuple[float, float]]]:
    return {whose: [line.gain for line in lines if line.row.energy_of == whose and line.gain] for whose in _PENS}


def _measured_note(campaign: Campaign, lines: Sequence[EnergyLine]) -> str:
    if not lines:
        return "No energy was measured: set `timing: energy_seconds` on a GPU with a counter."
    return (
        f"Ours: {campaign.device}, campaign {campaign.name}, cache {campaign.cache}. Energy of the whole card by its "
        "counter while a launch is repeated without gaps; medians of the shuffled rounds."
    )


def register_energy(study_name: str) -> None:
    """Register a study's table and figure of energies; they are made only for campaigns that measure them."""

    @table(study_name, "table-energy", title="Energy of a launch", numbering="ours", needs="energy")
    def make_table(campaign: Campaign, published: Published) -> Table:
        lines = energy_lines(campaign)
        caption = [
            "Energy of one launch of the fastest kernel of each kind. Above idle: without what the idle card uses in",
            "that time. A byte: per byte that a launch must move. Of the library’s over it: above 1 the kernel is",
            "faster, or uses less energy, than the library’s fastest routine.",
            means_note(lines),
            _measured_note(campaign, lines),
            unavailable_note(campaign),
        ]
        columns = _energy_columns(any(line.row.energy_task for line in lines))
        return table_of(columns, lines, join_sentences(caption), is_empty=not lines)

    @figure(study_name, "figure-energy", title="Energy beside speed", numbering="ours", needs="energy")
    def make_figure(campaign: Campaign, published: Published) -> Figure:
        lines = energy_lines(campaign)
        caption = [
            "Time and energy of the library’s fastest routine over those of each kernel, with a mark for each case. On",
            "the line a kernel saves as much energy as time; below it, it uses more power than the library.",
            means_note(lines),
            _measured_note(campaign, lines),
        ]
        is_empty = not any(line.gain for line in lines)
        empty = "no energy was measured beside the library’s in this campaign"
        panels = [] if is_empty else [_energy_panel(lines)]
        return figure_of(panels, empty, caption, is_empty=is_empty, width=figure_style.COLUMN_WIDTH)


def _energy_panel(lines: Sequence[EnergyLine]) -> Curves:
    """Return the panel of all gains, on equal axes with their diagonal."""
    gains = _gains(lines)
    values = [value for marks in gains.values() for gain in marks for value in gain]
    ends = min(0.9, *values) / 1.1, max(1.1, *values) * 1.1
    curves = [Curve(TITLES[whose], _PENS[whose], marks) for whose, marks in gains.items()]
    diagonal = Curve("", Pen(figure_style.GREY, dashes="-", width=0.7), [(end, end) for end in ends], has_key=False)
    x, y = (Axis(label, "log", ends) for label in ("times as fast as the library", "the library’s energy over it"))
    return Curves([diagonal, *curves], x, y, height=figure_style.COLUMN_WIDTH)
