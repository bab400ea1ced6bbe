"""Table and figure of the energy of launches: ours, the papers' kernels and the library's fastest routine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from repro.bench.rows import ClockName, RecordedRow
from repro.bench.runnable import CONTENDERS, LIBRARY, OURS, PAPERS, PAPERS_TUNED
from repro.bench.yardsticks import FLOOR
from repro.results import figure_style
from repro.results.campaign_data import Campaign, Case, Selection
from repro.results.columns import MICRO, PRECISION, Time, count, microseconds, number_cell, ratio, speedup
from repro.results.figure_forms import Axis, Curve, Curves, Pen, figure_of
from repro.results.problem_lines import CASE_NAME, join_sentences, unavailable_note
from repro.results.published import Published
from repro.results.registry import figure, table
from repro.results.significance import geometric_mean, ratio_of
from repro.results.tables import Cell, Column, Figure, Table, table_of

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


def _columns(has_tasks: bool) -> tuple[Column[EnergyLine], ...]:
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
        empty = "no energy was measured beside the library’s in this campaign"
        panels = [] if is_empty else [_panel(lines)]
        return figure_of(panels, empty, caption, is_empty=is_empty, width=figure_style.COLUMN_WIDTH)


def _panel(lines: Sequence[EnergyLine]) -> Curves:
    """Return the panel of all gains, on equal axes with their diagonal."""
    gains = _gains(lines)
    values = [value for marks in gains.values() for gain in marks for value in gain]
    ends = min(0.9, *values) / 1.1, max(1.1, *values) * 1.1
    curves = [Curve(TITLES[whose], _PENS[whose], marks) for whose, marks in gains.items()]
    diagonal = Curve("", Pen(figure_style.GREY, dashes="-", width=0.7), [(end, end) for end in ends], has_key=False)
    x, y = (Axis(label, "log", ends) for label in ("times as fast as the library", "the library’s energy over it"))
    return Curves([diagonal, *curves], x, y, height=figure_style.COLUMN_WIDTH)
