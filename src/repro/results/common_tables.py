"""Tables that each study can have: times of each case, all baselines and layouts, and set-up costs.

A study that defines no tables gets the first two, which include newly added variants and baselines automatically. The
table of set-up costs states after how many products the set-up of our format is faster in total than the library. The
table of uncertainty shows by how much the ratios of a headline scatter between rounds, processes, cards and cases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import exp, floor, hypot, log, sqrt
from statistics import median, stdev
from typing import Any, TypeVar

import numpy as np

from repro.bench.rows import AGAIN, OUTSIDE, TIMED, ClockName, RecordedRow
from repro.results.campaign_data import Campaign, Case, Method, R_co, Selection
from repro.results.columns import (
    ABBREVIATIONS,
    BLANK,
    MICRO,
    MILLI,
    NAME,
    PRECISION,
    Time,
    add_row_keys,
    count,
    microseconds,
    name_of,
    number_cell,
    percent,
    precision_cell,
    ratio,
    speedup_column,
    time_column,
)
from repro.results.problem_lines import (
    CLOCK_WORDS,
    MethodTimes,
    closing_notes,
    join_sentences,
    times_of,
    unavailable_note,
)
from repro.results.published import Published
from repro.results.registry import OURS, table
from repro.results.significance import MIN_SAMPLES, Interval, geometric_mean, interval_of_mean, relative_interval
from repro.results.tables import Cell, Column, Table, digits, natural, table_of
from repro.tuning.search import Pair


def times_table(
    campaign: Campaign,
    published: Published,
    methods: Sequence[Method],
    base: Method,
    clock: ClockName = "graph",
    caption: str = "",
    extra: Sequence[Column[Any]] = (),
) -> Table:
    """Return a table with a line for each case: times of the base and of each method, and speedups over the base.

    The cell of a missing time has the reason as a note.

    Parameters
    ----------
    methods
        Methods to compare; each gets a group of columns.
    base
        Method relative to which speedups are computed.
    clock
        Clock of all times.
    caption
        First sentences of the caption; sentences on the clock and on missing problems follow.
    extra
        Further columns, to the right of the times and speedups.
    """

    def time_of(method: Method) -> Column[Any]:
        key, head = f"{method.key}_us", method.title
        return time_column(key, head, "µs", method, lambda case: case.case.why_no_time(method, clock))

    def speedup_of(method: Method) -> Column[Any]:
        return speedup_column(f"{method.key}_speedup", method.title, f"speedup over {base.title}", base, method)

    floor_method = Method("floor", "floor", columns={"kind": "floor"})
    times = map(time_of, (floor_method, base, *methods))
    columns = (NAME, PRECISION, *times, *map(speedup_of, methods), *extra)
    cases = times_of(MethodTimes[Any], campaign, published, clock=clock)
    sentences = [caption, closing_notes(campaign, clock)]
    return table_of(
        columns, cases, join_sentences(sentences), is_empty=not any(case.case.is_measured for case in cases)
    )


#: Maximum number of variants with columns of their own in `table-times`; if there are more, only the fastest has one.
MAX_VARIANTS = 12
#: Kinds of the rows that `table-baselines` compares in a study without tables.
COMPARED = ("variant", "baseline", OUTSIDE)


#: Names of the tables of a study that has none of its own.
TIMES, BASELINES, BASELINES_TITLE = "table-times", "table-baselines", "All baselines and layouts"


def register_common_tables(study_name: str) -> None:
    """Register the tables `TIMES` and `BASELINES` for a study that has no tables of its own."""

    @table(study_name, TIMES, title="Variants beside the fastest baseline", numbering=OURS)
    def times(campaign: Campaign, published: Published) -> Table:
        timed_rows = [row for row in campaign.reported.select(kind="variant", cache=campaign.cache) if row.timed]
        names = sorted({row.name for row in timed_rows}, key=natural)
        methods = [Method(name, name, columns={"kind": "variant", "name": name}) for name in names]
        if not 0 < len(methods) <= MAX_VARIANTS:
            methods = [Method("fastest", "fastest variant", columns={"kind": "variant"})]
        base = Method("baseline", "fastest baseline", columns={"kind": "baseline"})
        return times_table(campaign, published, methods, base, _common_clock(timed_rows))

    @table(study_name, BASELINES, title=BASELINES_TITLE, numbering=OURS)
    def baselines(campaign: Campaign, published: Published) -> Table:
        compared_rows = campaign.reported.select(kind=COMPARED, cache=campaign.cache)
        clock = _common_clock([row for row in compared_rows if row.timed])
        return baselines_table(campaign, [Method("all", study_name, columns={"kind": COMPARED})], _name_of_row, clock)


def _common_clock(rows: Sequence[RecordedRow]) -> ClockName:
    """Return the first of the clocks `graph`, `event`, `host` by which all rows have a time; `graph` if none is."""
    clocks: tuple[ClockName, ...] = ("graph", "event", "host")
    return next((clock for clock in clocks if all(row.seconds(clock) for row in rows)), "graph")


def _name_of_row(row: RecordedRow) -> str:
    return row.name


@dataclass
class Contestant:
    """The fastest times of one baseline or layout in one task, for each case."""

    task: str
    name: str
    #: Time in seconds by (problem, precision).
    seconds: dict[tuple[str, str], float] = field(default_factory=dict)
    #: Time divided by the time of the fastest contestant in the same case.
    ratios: dict[tuple[str, str], float] = field(default_factory=dict)
    #: Statuses of cases without a time.
    failures: dict[tuple[str, str], str] = field(default_factory=dict)
    #: Contestants that are unsupported in every case, which this line stands for.
    folded: Sequence[Contestant] = ()


def baselines_table(
    campaign: Campaign, tasks: Sequence[Method], name: Callable[[R_co], str | None], clock: ClockName = "event"
) -> Table:
    """Return a table with one line per task and contestant, over all problems and precisions.

    Parameters
    ----------
    campaign
        The campaign; times of the search phase are used for contestants without a time of the report phase.
    tasks
        Tasks to compare; each selects rows, and may override `clock`.
    name
        Function that returns the name of a row's baseline or layout; None for rows that are neither.
    clock
        Clock of the compared times.
    """
    contestants: dict[tuple[str, str], Contestant] = {}
    for task in tasks:
        for problem in campaign.problems:
            for precision in campaign.precisions:
                case = Case[R_co](campaign, problem, precision)
                _add_case(contestants, task, case, name, task.clock or clock)
    lines = sorted(
        contestants.values(),
        key=lambda contestant: ([task.title for task in tasks].index(contestant.task), contestant.name),
    )
    lines = [line for task in tasks for line in _without_unsupported([one for one in lines if one.task == task.title])]
    clocks = dict.fromkeys(task.clock or clock for task in tasks)
    caption = [
        "All baselines and layouts that have rows, over all problems and precisions: the fastest of each in each case,",
        "as reported, or from the search if it was not reported. Cases: the number with a time. Over the fastest: its",
        "time over that of the fastest in the same case. Means are geometric. Fastest in: the number of cases.",
        f"All are timed by the clock {' or '.join(f'{clock} ({CLOCK_WORDS[clock]})' for clock in clocks)},",
        f"cache {campaign.cache}, on {campaign.device or 'no device yet'}.",
        unavailable_note(campaign),
    ]
    return table_of(COLUMNS, lines, join_sentences(caption), is_empty=not lines)


def register_baselines(study_name: str, tasks: Sequence[Method], name: Callable[[Any], str | None]) -> None:
    """Register the table `BASELINES` of a study, as `baselines_table` makes it."""

    @table(study_name, BASELINES, title=BASELINES_TITLE, numbering=OURS)
    def baselines(campaign: Campaign, published: Published) -> Table:
        return baselines_table(campaign, tasks, name, "event")


def _without_unsupported(lines: Sequence[Contestant]) -> list[Contestant]:
    """Return the lines of a task, with one in place of those that are unsupported in every case."""
    unsupported = [line for line in lines if not line.seconds and {*line.failures.values()} == {"unsupported"}]
    if len(unsupported) < 2:
        return list(lines)
    return [
        *(line for line in lines if line not in unsupported),
        Contestant(unsupported[0].task, f"{len(unsupported)} others, unsupported", folded=unsupported),
    ]


def _add_case(
    contestants: dict[tuple[str, str], Contestant],
    task: Method,
    case: Case[R_co],
    name: Callable[[R_co], str | None],
    clock: ClockName,
) -> None:
    rows_by_name: dict[str, list[Selection[R_co]]] = {}
    for rows in (Selection(case.rows), case.searched.select(cache=case.campaign.cache)):
        rows_of_contestant: dict[str, list[R_co]] = {}
        for row in rows.select(task.predicate, **task.columns):
            # the single row of an unavailable problem names no baseline or layout
            if row.status != "unavailable" and (label := name(row)) is not None:
                rows_of_contestant.setdefault(label, []).append(row)
        for label, group in rows_of_contestant.items():
            rows_by_name.setdefault(label, []).append(Selection(group))
    case_name = case.problem, case.precision
    contestant_times = {}
    for label, groups in rows_by_name.items():
        contestant = contestants.setdefault((task.title, label), Contestant(task.title, label))
        if fastest := next((time for group in groups if (time := group.fastest(clock))), None):
            contestant.seconds[case_name] = contestant_times[label] = fastest.seconds
        else:
            contestant.failures[case_name] = groups[0].rows[0].status
    least_time = min(contestant_times.values(), default=0.0)
    for label, seconds in contestant_times.items():
        contestants[task.title, label].ratios[case_name] = seconds / least_time


def _cases_cell(contestant: Contestant) -> Cell:
    if contestant.folded:
        return Cell(0, notes=(f"unsupported in all cases: {', '.join(line.name for line in contestant.folded)}",))
    numbers = Counter(
        "timed by other clocks" if status in TIMED else status.replace("_", " ")
        for status in contestant.failures.values()
    )
    without = ", ".join(f"{reason} in {number}" for reason, number in sorted(numbers.items()))
    return Cell(len(contestant.seconds), notes=(f"without a time: {without}",) if without else ())


def _worst_cell(contestant: Contestant) -> Cell:
    if not contestant.ratios:
        return Cell()
    problem, precision = max(contestant.ratios, key=contestant.ratios.__getitem__)
    return Cell(f"{problem} ({ABBREVIATIONS[precision]})")


COLUMNS: tuple[Column[Contestant], ...] = (
    Column("task", "task", numeric=False, cell=lambda line: Cell(line.task)),
    Column("name", "baseline or layout", numeric=False, cell=lambda line: Cell(line.name)),
    Column("cases", "cases", cell=_cases_cell),
    Column("least_us", "least", "µs", cell=lambda line: number_cell(min(line.seconds.values(), default=None), MICRO)),
    Column(
        "mean_us", "geometric mean", "µs", cell=lambda line: number_cell(geometric_mean(line.seconds.values()), MICRO)
    ),
    Column("most_us", "largest", "µs", cell=lambda line: number_cell(max(line.seconds.values(), default=None), MICRO)),
    Column("mean_ratio", "mean", "over the fastest", cell=lambda line: ratio(geometric_mean(line.ratios.values()))),
    Column(
        "most_ratio", "largest", "over the fastest", cell=lambda line: ratio(max(line.ratios.values(), default=None))
    ),
    Column("worst_case", "in", "over the fastest", numeric=False, cell=_worst_cell),
    Column("fastest_in", "fastest in", cell=lambda line: count(sum(value == 1 for value in line.ratios.values()))),
)


NOT_RECORDED = "not in the record: packing was not yet timed when its rows were measured"
NO_ANALYSIS = "the record does not contain the time of the library’s analysis alone"
ANALYSIS = (
    "Analysis: what the library’s fastest routine of any format computes in advance from a matrix in its format; on "
    "the CPU also building that matrix."
)
#: Sentence on our set-up in studies that pack the matrix on the host.
PACKED_CAPTION = (
    "Set-up: packing the matrix from CSR into our format, on one core of the host, including the clusters of rows and "
    "the symmetry test that packing needs. Exported libraries (`repro export`) convert on the GPU instead."
)
SETUP_COSTS = "table-setup-costs"
C = TypeVar("C")


@dataclass(frozen=True)
class SetupCosts:
    """Set-up seconds of our kernel and of the library in one case, and the times of one product by each."""

    #: Name of the problem, with its notes.
    name: Cell
    precision: str
    #: Times of one product by the library's fastest routine, and by its fastest routine for CSR.
    library: Time | None
    csr: Time | None
    ours: Time | None
    #: Seconds to convert the matrix from CSR to our format; None if they are not recorded.
    ours_seconds: float | None
    #: Seconds of the analysis by the library's fastest routine; None if they are not recorded.
    library_seconds: float | None
    #: Name of the product, for problems with several products; else empty.
    product: str = ""
    #: Remarks on `ours_seconds`.
    notes: tuple[str, ...] = ()

    @classmethod
    def packed(cls, case: MethodTimes, library: Time | None, csr: Time | None, ours: Time | None) -> SetupCosts:
        """Return the costs of a matrix that is packed; the set-up seconds are those in the rows of the products."""
        ours_seconds, library_seconds = ours.row.packing if ours else None, library.row.preprocess if library else None
        return cls(case.line.cell, case.case.precision, library, csr, ours, ours_seconds, library_seconds)

    @property
    def gain(self) -> float | None:
        """Seconds by which our product is faster than the library's with CSR; negative if ours is slower."""
        return self.csr.seconds - self.ours.seconds if self.csr and self.ours else None

    @property
    def pays_from(self) -> int | None:
        """Least number of products for which ours, set-up included, take less time than the library's with CSR.

        The time of the library's analysis is omitted, which favours the library. None if our kernel never becomes
        faster, or a time is missing.
        """
        if self.gain is None or self.gain <= 0 or self.ours_seconds is None:
            return None
        return floor(self.ours_seconds / self.gain) + 1


def _setup_cell(time: Time | None, seconds: float | None, reason: str, notes: tuple[str, ...] = ()) -> Cell:
    """Return set-up seconds in milliseconds; if a product was timed without them, the reason is a note."""
    if time and seconds is None:
        return Cell(notes=(reason,))
    return add_row_keys(replace(number_cell(seconds, MILLI), notes=() if seconds is None else notes), time)


def _gain_cell(costs: SetupCosts) -> Cell:
    if costs.gain is None:
        return Cell()
    gain = MICRO * costs.gain
    return Cell(gain, f"{'−' if gain < 0 else ''}{digits(abs(gain))}")


def _pays_from_cell(costs: SetupCosts) -> Cell:
    if costs.gain is not None and costs.gain <= 0:
        return Cell(None, "never")
    return count(costs.pays_from)


def _columns(library: str, products: bool) -> tuple[Column[SetupCosts], ...]:
    fastest, csr = f"{library}, fastest", f"{library} with CSR"

    def analysis(costs: SetupCosts) -> Cell:
        return _setup_cell(costs.library, costs.library_seconds, NO_ANALYSIS)

    def setup(costs: SetupCosts) -> Cell:
        return _setup_cell(costs.ours, costs.ours_seconds, NOT_RECORDED, costs.notes)

    product = Column[SetupCosts]("product", "product", numeric=False, cell=lambda costs: Cell(costs.product or None))
    return (
        Column("problem", "problem", numeric=False, cell=lambda costs: costs.name),
        Column("precision", "precision", numeric=False, cell=lambda costs: precision_cell(costs.precision)),
        *((product,) if products else ()),
        Column("library", "routine", fastest, numeric=False, cell=lambda costs: name_of(costs.library)),
        Column("library_preprocess_ms", "analysis, ms", fastest, cell=analysis),
        Column("csr", "routine", csr, numeric=False, cell=lambda costs: name_of(costs.csr)),
        time_column("csr_us", "µs", csr, lambda costs: costs.csr),
        Column("ours", "variant", "ours", numeric=False, cell=lambda costs: name_of(costs.ours)),
        Column("ours_setup_ms", "set-up, ms", "ours", cell=setup),
        Column("ours_us", "µs", "ours", cell=lambda costs: microseconds(costs.ours)),
        Column("gain_us", "gain a product, µs", cell=_gain_cell),
        Column("pays_from", "pays from product", cell=_pays_from_cell),
    )


def register_setup_costs(
    study_name: str,
    library_of: Callable[[Campaign], str],
    cases_of: Callable[[Campaign, Published], Iterable[C]],
    costs_of: Callable[[C], SetupCosts],
    clock: ClockName = "graph",
    setup: str = PACKED_CAPTION,
    analysis: str = ANALYSIS,
) -> None:
    """Register the table of a study's set-up costs, with one line for each case.

    `library_of` returns the name of the library, `clock` is that of the products, and `setup` and `analysis` are
    sentences of the caption that describe our set-up and the library's.
    """

    @table(study_name, SETUP_COSTS, title="Set-up before the products, and when it pays off", numbering=OURS)
    def setup_costs(campaign: Campaign, published: Published) -> Table:
        costs = [costs_of(case) for case in cases_of(campaign, published)]
        return setup_costs_table(campaign, costs, library_of(campaign), clock, setup, analysis)


def setup_costs_table(
    campaign: Campaign, costs: Sequence[SetupCosts], library: str, clock: ClockName, setup: str, analysis: str
) -> Table:
    caption = [
        "Set-up before the first product.",
        analysis,
        setup,
        f"Gain a product: the time of {library}’s fastest routine for CSR minus ours. Pays from: the number of",
        f"products from which our set-up and products take less time than {library}’s products with CSR, without its",
        "analysis; never if our product is not faster. The papers print none of these numbers.",
        closing_notes(campaign, clock),
    ]
    columns = _columns(library, any(cost.product for cost in costs))
    return table_of(columns, costs, join_sentences(caption), is_empty=not any(cost.ours for cost in costs))


UNCERTAINTY = "table-uncertainty"


@dataclass(frozen=True)
class Scatter:
    """The ratio of the times of two kernels in several processes: of one case, or a mean over cases."""

    name: str
    precision: str
    task: str
    #: By process: the ratio, and the card on which it was measured.
    ratios: Mapping[int, float]
    cards: Mapping[int, str]
    #: The ratio in the report phase, whose process is not among them.
    reported: float | None
    #: Median seconds of our kernel; None for a mean.
    seconds: float | None = None
    #: Half the width of the 95 % interval over the rounds of one process, relative to the ratio (median).
    rounds: float | None = None
    #: Times of the same kernel, bound a second time, over its times.
    twins: Sequence[float] = ()
    #: Of a mean: each case's problem and ratio.
    cases: Sequence[tuple[str, float]] = ()

    @cached_property
    def mean(self) -> float:
        return geometric_mean(self.ratios.values()) or 0.0

    @cached_property
    def of_processes(self) -> float | None:
        """Half the width, as a logarithm, of the range in which 95 % of all processes lie; None for too few."""
        from scipy.stats import t

        count = len(self.ratios)
        if count < MIN_SAMPLES:
            return None
        # of a further process, since the mean of these is uncertain too
        return float(t.ppf(0.975, count - 1) * stdev(map(log, self.ratios.values())) * sqrt(1 + 1 / count))

    @property
    def of_cards(self) -> float | None:
        """The largest difference between the means of two cards; None for one card."""
        by_card: dict[str, list[float]] = {}
        for process, card in self.cards.items():
            by_card.setdefault(card, []).append(self.ratios[process])
        means = [geometric_mean(ratios) or 0.0 for ratios in by_card.values()]
        return max(means) / min(means) - 1 if len(means) > 1 else None

    @cached_property
    def of_cases(self) -> Interval | None:
        """Of a mean: the interval over the choice of problems; None for too few."""
        logarithms = np.log([ratio for _, ratio in self.cases])
        return interval_of_mean(logarithms, [problem for problem, _ in self.cases]) if self.cases else None

    @property
    def interval(self) -> Interval | None:
        """The interval from all sources: where the ratio of another process on another card and of other cases lies."""
        if self.of_processes is None or (self.cases and self.of_cases is None):
            return None
        low, high = (log(end / self.mean) for end in self.of_cases or (self.mean, self.mean))
        return self.mean * exp(-hypot(self.of_processes, low)), self.mean * exp(hypot(self.of_processes, high))


def _scatter_of_case(case: Case, pair: Pair) -> Scatter | None:
    """Return what further processes measured of a pair; None if they did not time both kernels."""
    choices = [{"tuning": choice.tuning, "clock": choice.clock, "name": choice.name} for choice in case.choices]
    found = pair.find(case.campaign.report_rows(case.problem, case.precision), choices)
    if found is None:
        return None
    rows = {
        (row.name, row.process): row
        for row in case.campaign.repeated.select(problem=case.problem, precision=case.precision, cache="warm")
        if row.seconds(pair.clock) and row.kind in {one.kind for one in found}
    }
    ours, base = (row.name for row in found)
    both = [process for name, process in rows if name == ours and process is not None and (base, process) in rows]
    if not both:
        return None

    def seconds(name: str, process: int) -> float:
        return rows[name, process].seconds(pair.clock) or 0.0

    widths = [
        (interval[1] - interval[0]) / 2
        for process in both
        if (interval := relative_interval(*(rows[name, process].samples(pair.clock) for name in (base, ours))))
    ]
    first_times = [row.seconds(pair.clock) or 0.0 for row in found]
    return Scatter(
        case.problem,
        case.precision,
        pair.task,
        {process: seconds(base, process) / seconds(ours, process) for process in both},
        {process: str(rows[ours, process].device_uuid) for process in both},
        first_times[1] / first_times[0],
        median(seconds(ours, process) for process in both),
        median(widths) if widths else None,
        [
            seconds(name + AGAIN, process) / seconds(name, process)
            for name in (ours, base)
            for process in both
            if (name + AGAIN, process) in rows
        ],
    )


def scatters(campaign: Campaign, pairs: Sequence[Pair]) -> list[Scatter]:
    """Return the scatter of each case, and below them that of each headline's geometric mean over them."""
    cases = [
        Case[RecordedRow](campaign, problem, precision)
        for problem in campaign.problems
        for precision in campaign.precisions
    ]
    found = [(pair, one) for pair in pairs for case in cases if (one := _scatter_of_case(case, pair))]
    headlines = dict.fromkeys(pair.headline for pair, _ in found)
    means = (_mean_of([one for pair, one in found if pair.headline == name], name) for name in headlines)
    return [*(one for _, one in found), *(mean for mean in means if mean)]


def _mean_of(lines: Sequence[Scatter], headline: str) -> Scatter | None:
    """Return the geometric mean of the cases in each process that has all; None for a single case."""
    processes = [process for process in lines[0].ratios if all(process in line.ratios for line in lines)]
    if len(lines) < 2 or not processes:
        return None
    widths = [line.rounds for line in lines if line.rounds is not None]
    return Scatter(
        "geometric mean",
        "",
        headline,
        {process: geometric_mean(line.ratios[process] for line in lines) or 0.0 for process in processes},
        {process: lines[0].cards[process] for process in processes},
        geometric_mean(line.reported for line in lines),
        rounds=hypot(*widths) / len(lines) if len(widths) == len(lines) else None,
        twins=[twin for line in lines for twin in line.twins],
        cases=[(line.name, line.mean) for line in lines],
    )


def _half_percent(interval: Interval | None, mean: float) -> Cell:
    return percent((interval[1] - interval[0]) / 2 / mean, 2) if interval else BLANK


_SCATTER_COLUMNS: tuple[Column[Scatter], ...] = (
    Column("problem", "problem", numeric=False, cell=lambda line: Cell(line.name)),
    Column(
        "precision",
        "precision",
        numeric=False,
        cell=lambda line: precision_cell(line.precision) if line.precision else BLANK,
    ),
    Column("task", "task", numeric=False, cell=lambda line: Cell(line.task or None, line.task or " ")),
    Column("us", "µs", "ours", cell=lambda line: number_cell(line.seconds, MICRO) if line.seconds else BLANK),
    Column(
        "ratio",
        "mean",
        "base over ours",
        cell=lambda line: replace(number_cell(line.mean, spec=".3f"), interval=line.interval),
    ),
    Column("reported", "reported", "base over ours", cell=lambda line: number_cell(line.reported, spec=".3f")),
    Column("rounds_percent", "rounds, ±", "95 %", cell=lambda line: percent(line.rounds, 2)),
    Column("processes_percent", "processes, ±", "95 %", cell=lambda line: percent(line.of_processes, 2)),
    Column("problems_percent", "problems, ±", "95 %", cell=lambda line: _half_percent(line.of_cases, line.mean)),
    Column("cards_percent", "apart", "cards", cell=lambda line: percent(line.of_cards, 2)),
    Column("cards", "number", "cards", cell=lambda line: count(len({*line.cards.values()}))),
    Column("processes", "processes", cell=lambda line: count(len(line.ratios))),
    Column(
        "twins_percent",
        "median",
        "same kernel twice",
        cell=lambda line: percent(median(line.twins) - 1 if line.twins else None, 2),
    ),
    Column(
        "twins_most_percent",
        "most",
        "same kernel twice",
        cell=lambda line: percent(max((abs(twin - 1) for twin in line.twins), default=None), 2),
    ),
)


def register_uncertainty(study_name: str, pairs: Sequence[Pair]) -> None:
    """Register the table of the scatter of a study's headline, for campaigns with several further processes."""

    @table(study_name, UNCERTAINTY, title="Uncertainty of the headline", numbering=OURS, needs="processes")
    def make(campaign: Campaign, published: Published) -> Table:
        lines = scatters(campaign, pairs)
        clocks = " and ".join(dict.fromkeys(pair.clock for pair in pairs))
        caption = [
            f"The time of the kernel that the headline compares with ours, over ours, by the {clocks} clock. Each",
            "further process times both kernels in its own shuffled rounds; the reported ratio is of another process.",
            "Rounds: 95 % bootstrap interval within one process (median). Processes: where a further process lies",
            "(Student’s t). Problems: bootstrap interval over their choice. Apart: the means of two cards. The",
            f"interval of the mean joins processes and problems. No interval has fewer than {MIN_SAMPLES} samples. The",
            "same kernel twice: one kernel bound twice in the same rounds, its second time over the first.",
            unavailable_note(campaign),
        ]
        has_task = any(line.task for line in lines)
        columns = [column for column in _SCATTER_COLUMNS if has_task or column.key != "task"]
        return table_of(columns, lines, join_sentences(caption), is_empty=not lines)
