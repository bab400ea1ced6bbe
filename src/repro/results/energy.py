"""Table and figure of the energy of launches: ours, the papers' kernels and the library's fastest routine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from repro.bench.rows import ClockName, RecordedRow
from repro.bench.runnable import CONTENDERS, LIBRARY, OURS, PAPERS, PAPERS_TUNED
from repro.bench.yardsticks import FLOOR
from repro.results import figure_style
from repro.results.campaign_data import Campaign, Case, Selection
from repro.results.columns import MICRO, PRECISION, Time, count, microseconds, number_cell, ratio, speedup
from repro.results.problem_lines import join_sentences, name_cell, unavailable_note
from repro.results.published import Published
from repro.results.registry import figure, table
from repro.results.significance import geometric_mean, ratio_of
from repro.results.tables import Cell, Column, Figure, Table, table_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

NANO, PICO = 1e9, 1e12
TITLES = {
    OURS: "ours",
    PAPERS_TUNED: "the papers’, tuned",
    PAPERS: "the papers’",
    LIBRARY: "the library’s fastest",
    FLOOR: "streaming floor",
}
#: Marks of the contenders that the figure compares with the library: colour, colour of the face, and shape.
_MARKS = {
    OURS: (figure_style.OURS.colour, figure_style.OURS.fill, figure_style.OURS.marker),
    PAPERS_TUNED: (figure_style.PAPERS.colour, figure_style.PAPERS.colour, figure_style.PAPERS.marker),
    PAPERS: (figure_style.PAPERS.colour, "white", figure_style.PAPERS.marker),
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


def _problem_cell(line: EnergyLine) -> Cell:
    record = line.case.campaign.problems.get(line.case.problem)
    return name_cell(record) if record else Cell(line.case.problem)


def _columns(has_tasks: bool) -> tuple[Column[EnergyLine], ...]:
    task = Column[EnergyLine]("task", "task", numeric=False, cell=lambda line: Cell(line.row.energy_task or None))
    energy, power = "µJ a launch", "W"
    return (
        Column("problem", "problem", numeric=False, cell=_problem_cell),
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
    return {whose: [line.gain for line in lines if line.row.energy_of == whose and line.gain] for whose in _MARKS}


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
        columns = _columns(any(line.row.energy_task for line in lines))
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
        return Figure(lambda: _draw(lines), join_sentences(caption), is_empty=is_empty)


def _draw(lines: Sequence[EnergyLine]) -> Canvas:
    gains = _gains(lines)
    values = [value for marks in gains.values() for gain in marks for value in gain]
    if not values:
        return figure_style.empty_canvas("no energy was measured beside the library’s in this campaign")
    drawing = figure_style.canvas(figure_style.COLUMN_WIDTH, figure_style.COLUMN_WIDTH)
    axes = drawing.add_subplot()
    ends = min(0.9, *values) / 1.1, max(1.1, *values) * 1.1
    axes.plot(ends, ends, color=figure_style.GREY, linewidth=0.7)
    for whose, marks in gains.items():
        colour, face, marker = _MARKS[whose]
        if marks:
            x, y = zip(*marks, strict=True)
            axes.plot(x, y, marker, color=colour, markerfacecolor=face, markersize=4, label=TITLES[whose])
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal")
    axes.set(xlabel="times as fast as the library", ylabel="the library’s energy over it")
    for axis in (axes.xaxis, axes.yaxis):
        figure_style.log_ticks(axis)
    axes.grid()
    drawing.legend(loc="outside upper left", ncols=2)
    return drawing
