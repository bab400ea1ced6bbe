"""Measurement of the claims of the dissertation's chapter 5 and of our targets, and the readings that claims depend on.

Functions have the names in `config/claims/dynamic_csr.csv`, and in `config/targets/dynamic_csr.csv`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import NamedTuple

from repro.bench.rows import ClockName
from repro.results.campaign_data import Campaign, Method
from repro.results.claims import (
    CaseNumber,
    ClaimQuantities,
    JudgedBy,
    Measured,
    MissingCase,
    Quantity,
    StatisticName,
    claims_table,
    load_claims,
)
from repro.results.columns import ABBREVIATIONS, MICRO, PROBLEM, time_column
from repro.results.problem_lines import ProblemLine, join_sentences, measurement_note, recorded_lines, unavailable_note
from repro.results.published import Published
from repro.results.registry import table
from repro.results.significance import ratio_of
from repro.results.tables import Cell, Column, Table, table_of
from repro.studies.dynamic_csr import CITED, PRODUCTS_PER_BATCH, STUDY_NAME, number_of, results

#: The two graphs for which CSR ran out of memory on a K20c, since rebuilding CSR needs memory for two matrices.
LARGE_GRAPHS = ("ljournal-2008", "soc-LiveJournal1")
#: The graph for which HYB ran out of memory on a K20c as well.
LARGEST_GRAPH = ("indochina-2004",)
#: Graphs that section 5.3.4 says several devices speed up less: of few, very long rows, and small ones.
LONG_ROWS, SMALL_GRAPHS = ("rail4284",), ("internet", "enron")
#: The share of linear from which a speedup is nearly linear.
NEARLY_LINEAR = 0.9


@dataclass(frozen=True)
class PaperGraphs:
    """The campaign's graphs whose batches all have one size, like the paper's graphs."""

    campaign: Campaign
    lines: tuple[ProblemLine, ...]
    #: The kernels whose times are compared.
    variants: JudgedBy
    published: Published

    @classmethod
    def of(cls, campaign: Campaign, published: Published, variants: JudgedBy) -> PaperGraphs:
        sweeps = {sweep.line.problem for sweep in results.batch_sweeps(campaign, published)}
        lines = tuple(line for line in recorded_lines(campaign, published) if line.problem not in sweeps)
        return cls(campaign, lines, variants, published)

    def update(self, method: Method) -> Method | None:
        """Return one of our methods, or a published value in its place; the paper's updates were not tuned further."""
        return {"as_published": results.as_published(method), "ours": method}.get(self.variants)

    def product(self, method: Method) -> Method | None:
        """Return a product of the paper with the best number of threads, or as published if that was searched."""
        if self.variants == "as_published" and self.campaign.tuning(method.key) == method.key:
            return results.as_published(method)
        return method if self.variants == "paper_tuned" else None

    def cases(self, precision: str | None = None) -> Iterator[tuple[ProblemLine, results.DynamicCase]]:
        """Yield each graph with its times in the given precision; None: the precision in which updates are timed."""
        for line in self.lines:
            yield (
                line,
                results.DynamicCase(
                    self.campaign, line.problem, precision or results.operation_precision(self.campaign)
                ),
            )

    def memory(self, segments: str) -> Iterator[tuple[ProblemLine, float]]:
        """Yield the ratio of a format's bytes to HYB's, counted as in the paper; `segments`: `DCSR-4`, or `CSR`."""
        for times in results.operation_times(self.campaign, self.lines):
            recorded_counts = times.facts.get("memory", {}).get("paper")
            if recorded_counts and recorded_counts["HYB"]:
                yield times.line, recorded_counts[segments] / recorded_counts["HYB"]


def _update_quantity(
    pair: Callable[[results.DynamicCase, Method], results.TimePair],
    statistic: StatisticName,
    format_method: Method = results.DCSR,
) -> Quantity[PaperGraphs]:
    """Return a function that measures one time divided by that of `format_method`, or by a published time instead."""

    def measure(graphs: PaperGraphs) -> Measured:
        method = graphs.update(format_method)
        if method is None:
            return Measured([])
        numbers, missing_cases = [], []
        best_precision = results.operation_precision(graphs.campaign)
        for precision in graphs.campaign.precisions:
            for line, case in graphs.cases(precision):
                name = line.problem if precision == best_precision else f"{line.problem} ({ABBREVIATIONS[precision]})"
                if number := CaseNumber.over(*pair(case, method), name, line.remarks):
                    numbers.append(number)
                elif precision == best_precision:  # a campaign may time updates in this precision alone
                    missing_cases.append(MissingCase(name, case.why_untimed()))
        return Measured(numbers, missing_cases)

    return Quantity(measure, statistic)


def _insertion_pair(
    operation: str, protocol: results.UpdateProtocol
) -> Callable[[results.DynamicCase, Method], results.TimePair]:
    """Return a function that finds two times of inserting a whole matrix: into HYB, and into dynamic CSR."""
    return lambda case, format_method: (
        results.fastest_update(case, results.HYB, operation, protocol),
        results.fastest_update(case, format_method, operation, protocol),
    )


def _iterative_pair(case: results.DynamicCase, format_method: Method) -> results.TimePair:
    return results.iterative_pair(format_method)(case)


def _rival_pair(case: results.DynamicCase, format_method: Method) -> results.TimePair:
    """Return two times of the iterative test: that of the faster of HYB and CSR, and that of dynamic CSR."""
    (hyb, dynamic), (_, csr) = (
        results.iterative_pair(format_method)(case),
        results.iterative_pair(results.REBUILD)(case),
    )
    return min((rival for rival in (hyb, csr) if rival), key=lambda time: time.seconds, default=None), dynamic


def _speedup_over_sort(case: results.DynamicCase, defragmentation: Method) -> results.TimePair:
    return case.time(results.HYB_SORT, results.OPERATION_CLOCK), case.time(defragmentation, results.OPERATION_CLOCK)


def _product_quantity(first: Method, second: Method) -> Quantity[PaperGraphs]:
    """Return a function that measures the mean of one product's time over another's, over graphs and precisions."""

    def measure(graphs: PaperGraphs) -> Measured:
        first_product, second_product = graphs.product(first), graphs.product(second)
        if first_product is None or second_product is None:
            return Measured([])
        numbers = []
        for precision in graphs.campaign.precisions:
            for line, case in graphs.cases(precision):
                pair = case.time(first_product, results.PRODUCT_CLOCK), case.time(second_product, results.PRODUCT_CLOCK)
                numbers.append(CaseNumber.over(*pair, f"{line.problem} ({ABBREVIATIONS[precision]})", line.remarks))
        return Measured([number for number in numbers if number])

    return Quantity(measure, "arithmetic mean")


def _faster_share(first: Method, second: Method) -> Quantity[PaperGraphs]:
    """Return a function that measures the share of graphs and precisions in which the second product is faster."""

    def measure(graphs: PaperGraphs) -> Measured:
        measured = _product_quantity(first, second).measure(graphs)
        return measured._replace(
            numbers=[number._replace(value=float(number.value > 1), interval=None) for number in measured.numbers]
        )

    return Quantity(measure, "arithmetic mean")


def _memory(segments: str, statistic: StatisticName) -> Quantity[PaperGraphs]:
    """Return a function that measures the bytes of dynamic CSR over those of HYB; they do not depend on kernels."""

    def measure(graphs: PaperGraphs) -> Measured:
        if graphs.variants == "as_published":
            return Measured([])
        numbers, missing_cases = [], []
        for line, share in graphs.memory(segments):
            if line.record and line.record.stand_in:
                missing_cases.append(MissingCase(line.problem, "a stand-in, made with the published memory"))
            else:
                numbers.append(CaseNumber(share, line.problem))
        return Measured(numbers, missing_cases)

    return Quantity(measure, statistic)


def _device_quantity(devices: int, precision: str | None = None, graph: str | None = None) -> Quantity[PaperGraphs]:
    """Measure the time on one device over the time on several, for single launches or steps within a launch."""

    def measure(graphs: PaperGraphs) -> Measured:
        if graphs.variants != "paper_tuned" or (precision and precision not in graphs.campaign.precisions):
            return Measured([])
        numbers, missing_cases = [], []
        for line, case in graphs.cases(precision):
            if graph in (None, line.problem, line.published):
                times = results.DeviceTimes(line, case)
                ratio = times.speedup(times.exchanged(devices)) if graph else times.launch_speedup(devices)
                if ratio:
                    numbers.append(CaseNumber(ratio, line.problem))
                else:
                    missing_cases.append(MissingCase(line.problem, f"no time on {devices} devices in this campaign"))
        if graph and not numbers and not missing_cases:
            missing_cases.append(MissingCase(graph, "not in this campaign"))
        return Measured(numbers, missing_cases)

    return Quantity(measure, "worst" if graph else "arithmetic mean")


def _out_of_memory(names: Sequence[str], format_method: Method, operation: str) -> Quantity[PaperGraphs]:
    """Return a function that counts the graphs for which a format ran out of memory.

    A graph for which it failed otherwise is missing.
    """

    def measure(graphs: PaperGraphs) -> Measured:
        numbers, missing_cases = [], []
        for name in names:
            case = results.DynamicCase(graphs.campaign, name, results.operation_precision(graphs.campaign))
            rows = case.select(**format_method.columns, what=operation)
            statuses = {row.status for row in rows}
            if "out_of_memory" in statuses or any(row.timed for row in rows):
                numbers.append(CaseNumber(float("out_of_memory" in statuses), name))
            elif rows:
                reason = f"failed: {', '.join(sorted(statuses)).replace('_', ' ')}"
                missing_cases.append(MissingCase(name, reason))
            else:
                missing_cases.append(MissingCase(name, "not in this campaign" if not case.rows else "not tried"))
        return Measured([] if missing_cases else numbers, missing_cases)

    return Quantity(measure, "sum")


def _over_published(
    file: str, column: str, pair: Callable[[PaperGraphs, results.DynamicCase], results.TimePair]
) -> Quantity[PaperGraphs]:
    """Return a function that measures a ratio of two times over the one that a table prints of the same graph."""

    def measure(graphs: PaperGraphs) -> Measured:
        printed = {item["problem"]: number_of(item[column]) for item in graphs.published[file]}
        numbers = []
        for line, case in graphs.cases():
            ratio, theirs = (
                CaseNumber.over(*pair(graphs, case), line.problem, line.remarks),
                printed.get(line.published or ""),
            )
            if ratio and theirs:
                interval = (ratio.interval[0] / theirs, ratio.interval[1] / theirs) if ratio.interval else None
                numbers.append(ratio._replace(value=ratio.value / theirs, interval=interval))
        return Measured(numbers)

    return Quantity(measure, "median")


def _conversion_pair(conversion: Method) -> Callable[[PaperGraphs, results.DynamicCase], results.TimePair]:
    """Return a function that finds the times of a conversion and of a copy, both by kernels of ours."""

    def pair(graphs: PaperGraphs, case: results.DynamicCase) -> results.TimePair:
        if graphs.variants != "ours":
            return None, None
        return case.time(conversion, results.OPERATION_CLOCK), case.time(results.COPY, results.OPERATION_CLOCK)

    return pair


def _operation_pair(operation: Method) -> Callable[[PaperGraphs, results.DynamicCase], results.TimePair]:
    """Return a function that finds the times of an operation and of one product with CSR, both by events."""

    def pair(graphs: PaperGraphs, case: results.DynamicCase) -> results.TimePair:
        method = graphs.update(operation)
        product = results.OWN_PRODUCT if graphs.variants == "ours" else results.as_published(results.CSR)
        return (
            (case.time(method, results.OPERATION_CLOCK), case.time(product, results.OPERATION_CLOCK))
            if method
            else (None, None)
        )

    return pair


def _rebuild_over_product(graphs: PaperGraphs) -> Measured:
    """Return the time of making CSR again with a batch over that of a product with it, the library's included."""
    numbers = []
    for times in results.operation_times(graphs.campaign, graphs.lines):
        if cost := results.update_cost(times, results.REBUILD):
            numbers.append(CaseNumber(cost.update / cost.product, times.line.problem))
    return Measured(numbers, [] if numbers else [MissingCase("all graphs", "not both timed")])


def _over_others(names: Sequence[str], devices: int) -> Quantity[PaperGraphs]:
    """Return a function that measures some graphs' speedups by devices over the mean of all others."""

    def measure(graphs: PaperGraphs) -> Measured:
        every = _device_quantity(devices).measure(graphs)
        published = {line.problem: line.published or line.problem for line in graphs.lines}
        others = [number.value for number in every.numbers if published[number.case] not in names]
        numbers = [
            number._replace(value=number.value / fmean(others))
            for number in every.numbers
            if others and published[number.case] in names
        ]
        reason = f"no time of them and of others on {devices} devices in this campaign"
        return Measured(numbers, [] if numbers else [MissingCase(", ".join(names), reason)])

    return Quantity(measure, "most")


def _nearly_linear(devices: int) -> Quantity[PaperGraphs]:
    """Return a function that measures the share of graphs whose speedup by devices is nearly linear."""

    def measure(graphs: PaperGraphs) -> Measured:
        every = _device_quantity(devices).measure(graphs)
        near = [number._replace(value=float(number.value >= NEARLY_LINEAR * devices)) for number in every.numbers]
        return every._replace(numbers=near)

    return Quantity(measure, "arithmetic mean")


STATISTICS: Mapping[str, StatisticName] = {"mean": "arithmetic mean", "most": "most", "least": "least"}
QUANTITIES: ClaimQuantities[PaperGraphs] = {
    **{
        f"{way}{order}_{name}": _update_quantity(_insertion_pair(operation, protocol), statistic)
        for way, operation in (("streaming", "stream"), ("batches", "insert"))  # as one batch, and batch by batch
        for order, protocol in (("", results.SORTED), ("_any", results.ANY))
        for name, statistic in STATISTICS.items()
    },
    "iterative_most": _update_quantity(_iterative_pair, "most"),
    "iterative_least": _update_quantity(_rival_pair, "least"),
    "defragmentation_mean": _update_quantity(_speedup_over_sort, "arithmetic mean", results.DEFRAGMENTATION),
    "fragmented_mean": _product_quantity(results.FRAGMENTED, results.DEFRAGMENTED),
    "defragmented_mean": _product_quantity(results.DEFRAGMENTED, results.CSR),
    "adaptive_mean": _product_quantity(results.HYB_PRODUCT, results.IN_ORDER),
    "adaptive_share": _faster_share(results.HYB_PRODUCT, results.IN_ORDER),
    "by_size_mean": _product_quantity(results.IN_ORDER, results.BY_SIZE),
    "memory_4_mean": _memory("DCSR-4", "arithmetic mean"),
    "memory_2_most": _memory("DCSR-2", "most"),
    "two_devices_single": _device_quantity(2, "single"),
    "two_devices_double": _device_quantity(2, "double"),
    **{
        f"{graph}_on_{devices}": _device_quantity(devices, graph=graph)
        for graph in ("internet", "enron")
        for devices in (2, 4, 8)
    },
    "csr_out_of_memory": _out_of_memory(LARGE_GRAPHS, results.REBUILD, "iterate"),
    "hyb_out_of_memory": _out_of_memory(LARGEST_GRAPH, results.HYB, "stream"),
    **{
        conversion.key: _over_published("conversions", conversion.key, _conversion_pair(conversion))
        for conversion in results.CONVERSIONS
    },
    **{
        operation.key: _over_published("operations", operation.key, _operation_pair(operation))
        for operation in (results.DEFRAGMENTATION, results.HYB_SORT)
    },
    "binned_mean": _product_quantity(results.DEFRAGMENTED, results.IN_ORDER),
    "rebuild_over_product": Quantity(_rebuild_over_product, "median"),
    "memory_3_mean": _memory("DCSR-3", "arithmetic mean"),
    "memory_csr_most": _memory("CSR", "most"),
    "long_rows_on_2": _over_others(LONG_ROWS, 2),
    "small_graphs_on_2": _over_others(SMALL_GRAPHS, 2),
    "nearly_linear_on_8": _nearly_linear(8),
}


@table(STUDY_NAME, "table-claims", title="The paper’s claims, and the verdict on each", numbering=f"text of {CITED}")
def claims(campaign: Campaign, published: Published) -> Table:
    def data(source: Campaign, variants: JudgedBy) -> PaperGraphs:
        return PaperGraphs.of(source, published, variants)

    return claims_table(campaign, load_claims(STUDY_NAME), QUANTITIES, data)


class ReadUpdate(NamedTuple):
    """A table line for an update of one graph, with a column for each reading of the algorithm."""

    line: ProblemLine
    case: results.DynamicCase
    operation: str
    protocol: results.UpdateProtocol

    def time(self, format_method: Method) -> results.Time | None:
        return results.fastest_update(self.case, format_method, self.operation, self.protocol)


#: Title of each interpretation of the algorithms' text, by its name in rows.
READING_TITLES = {"text": "text", "fifth": "every fifth", "slack-4": "slack 4", "slack-0": "slack 0"}
READ_UPDATES = (("stream", results.SORTED), ("stream", results.ANY), ("iterate", results.SORTED))


@table(STUDY_NAME, "table-readings", title="Updates as published, by reading", numbering=f"section 5.3.1 of {CITED}")
def readings(campaign: Campaign, published: Published) -> Table:
    graphs = PaperGraphs.of(campaign, published, "as_published")
    cases = [ReadUpdate(line, case, *update) for line, case in graphs.cases() for update in READ_UPDATES]
    read = {
        name: replace(results.DCSR_PUBLISHED, columns={**results.DCSR_PUBLISHED.columns, "reading": name})
        for name in READING_TITLES
    }
    cases = [case for case in cases if any(case.time(method) for method in read.values())]

    def micro(key: str, title: str, method: Method, group: str) -> Column[ReadUpdate]:
        return time_column(f"{key}_us", title, group, lambda case: case.time(method))

    columns = (
        PROBLEM,
        Column[ReadUpdate]("update", "update", numeric=False, cell=lambda case: Cell(case.operation)),
        Column[ReadUpdate]("order", "order", numeric=False, cell=lambda case: Cell(case.protocol.title)),
        *(
            micro(name.replace("-", "_"), title, read[name], "as published, µs")
            for name, title in READING_TITLES.items()
        ),
        micro("ours", "ours", results.DCSR, "beside them, µs"),
        micro("hyb", "HYB", results.HYB, "beside them, µs"),
    )
    caption = [
        "Algorithms 4 and 5 by what the text leaves open. Text: a vector of four threads a row, the mean row as slack,",
        "and rows brought together where a chain is full. Every fifth: that, and rows brought together behind the",
        "sixth batch and each fifth one after it, as in the paper’s code. Slack 4, slack 0: the code’s constants, with",
        "one thread a row and with four; in the iterative test rows are brought together as often.",
        f"Iterate: each batch is followed by {PRODUCTS_PER_BATCH} products with the rows in the bins of before the",
        "first, a kernel a bin. Claims are judged by the text.",
        "Nothing as published was measured in this campaign." if not cases else "",
        measurement_note(campaign, results.OPERATION_CLOCK),
        unavailable_note(campaign),
    ]
    return table_of(columns, cases, join_sentences(caption), is_empty=not cases)


# targets -------------------------------------------------------------------------------------------------------------

#: The problem for which target rates are set: 2^20 rows, entries in uniformly drawn rows.
RANDOM_PROBLEM = "large/sweep_uniform"
#: The largest batches for which inserting is compared with a rebuild.
MAX_REBUILT_BATCH = 30_000
BILLION = 1e9


@dataclass(frozen=True)
class TargetData:
    """Measurements that are compared with the targets in `config/targets/dynamic_csr.csv`."""

    campaign: Campaign
    cases: list[results.Times]
    #: For each clock, the product times in all precisions.
    products: Mapping[ClockName, list[results.ProductTimes]]
    #: Names of the problems with batches of growing sizes.
    sweeps: set[str]

    @classmethod
    def of(cls, campaign: Campaign, published: Published) -> TargetData:
        clocks: tuple[ClockName, ...] = (results.PRODUCT_CLOCK, "event")
        products = {
            clock: [
                times
                for precision in campaign.precisions
                for times in results.product_times(campaign, published, precision, clock=clock)
            ]
            for clock in clocks
        }
        sweeps = {sweep.line.problem for sweep in results.batch_sweeps(campaign, published)}
        return cls(campaign, results.operation_times(campaign, recorded_lines(campaign, published)), products, sweeps)


DynamicQuantity = Quantity[TargetData]


def _case_value(value: float, times: results.Times, *case_times: results.Time, label: str = "") -> CaseNumber:
    """Return a number with the name of its case, and the notes on its problem and its times."""
    notes = dict.fromkeys(note for time in case_times for note in results.time_notes(time))
    return CaseNumber(value, times.line.problem + label, (*times.line.remarks, *notes))


def _batches(
    sizes: Sequence[int],
    protocol: results.UpdateProtocol,
    number: Callable[[int, float], float],
    *,
    is_time: bool = False,
) -> DynamicQuantity:
    """Return one number for each batch of random entries that is inserted alone."""

    def measure(data: TargetData) -> Measured:
        case = results.DynamicCase(data.campaign, RANDOM_PROBLEM, results.operation_precision(data.campaign))
        times = {size: results.fastest_update(case, results.DCSR, "batch", protocol, batch=size) for size in sizes}
        missing_sizes = " or ".join(f"{size:,} ({protocol.title})" for size, time in times.items() if time is None)
        if not missing_sizes:
            return Measured(
                [
                    CaseNumber(
                        number(size, time.seconds),
                        f"{RANDOM_PROBLEM}, {size:,}, {protocol.title}",
                        results.time_notes(time),
                    )
                    for size, time in times.items()
                    if time
                ]
            )
        reason = f"no batch of {missing_sizes} was timed" if case.is_measured else case.why_not()
        if RANDOM_PROBLEM not in data.campaign.problems:
            reason = "not in this campaign"
        return Measured([], [MissingCase(RANDOM_PROBLEM, reason)])  # no worst case unless all are timed

    return Quantity(measure, at_most=is_time, is_time=is_time)


def _rate(size: int, seconds: float) -> float:
    return size / seconds / BILLION


def _speedup_over_hybrid(protocol: results.UpdateProtocol) -> DynamicQuantity:
    """Measure the time of streaming a whole matrix into HYB over that into dynamic CSR; sweeps are left out."""

    def measure(data: TargetData) -> Measured:
        numbers = [
            _case_value(hybrid_time.seconds / dynamic.seconds, times, hybrid_time, dynamic)
            for times in data.cases
            if times.line.problem not in data.sweeps
            for hybrid_time, dynamic in [results.streaming_pair(protocol)(times.case)]
            if hybrid_time and dynamic
        ]
        return Measured(numbers, empty_reason="no matrix was streamed into both")

    return Quantity(measure, "mean")


def _speedup_over_rebuild(min_entries: int) -> DynamicQuantity:
    """Measure the time of rebuilding CSR over inserting, for all timed batches up to `MAX_REBUILT_BATCH` entries."""

    def measure(data: TargetData) -> Measured:
        numbers = []
        for times in data.cases:
            case, is_sweep = times.case, times.line.problem in data.sweeps
            if times.grown_entries < min_entries:
                continue
            for protocol in (results.ANY, results.SORTED):
                for operation in ("batch",) if is_sweep else ("batch", "insert"):  # batches of sweeps have all sizes
                    sizes = {row.batch for row in case.select(what=operation) if row.batch}
                    for size in sorted(size for size in sizes if size <= MAX_REBUILT_BATCH):
                        dynamic, rebuilt = (
                            results.fastest_update(case, format_method, operation, protocol, batch=size)
                            for format_method in (results.DCSR, results.REBUILD)
                        )
                        if dynamic and rebuilt:
                            label = f", batches of {size:,}, {protocol.title}"
                            value = rebuilt.seconds / dynamic.seconds
                            numbers.append(_case_value(value, times, dynamic, rebuilt, label=label))
        return Measured(numbers, empty_reason=f"no batch of up to {MAX_REBUILT_BATCH:,} was timed with both")

    return Quantity(measure)


def _defragmentation(min_entries: int) -> DynamicQuantity:
    """Measure defragmentation's bandwidth over a plain copy's bandwidth."""

    def measure(data: TargetData) -> Measured:
        numbers = []
        for times in data.cases:
            moving_time, copy = times[results.DEFRAGMENTATION], times.case.bound("copy", results.OPERATION_CLOCK)
            if times.grown_entries >= min_entries and moving_time and copy and moving_time.row.bytes:
                speeds = [float(item.row.bytes or 0) / item.seconds for item in (moving_time, copy)]
                numbers.append(_case_value(speeds[0] / speeds[1], times, moving_time, copy))
        return Measured(numbers, empty_reason=f"no matrix of {min_entries:,} entries and more has a time of both")

    return Quantity(measure)


_TWINS = "no two products under one schedule were timed"


def _products(
    pair: Callable[[results.ProductTimes], results.TimePair],
    statistic: StatisticName = "worst",
    *,
    at_most: bool = True,
    empty_reason: str = _TWINS,
    sweeps: bool = True,
    clock: ClockName = results.PRODUCT_CLOCK,
) -> DynamicQuantity:
    """Measure a ratio of products; leave sweeps out if the target is for graphs that have grown by a tenth."""

    def measure(data: TargetData) -> Measured:
        numbers = [
            _case_value(value, times, label=f" ({ABBREVIATIONS[times.case.precision]})")
            for times in data.products[clock]
            if sweeps or times.line.problem not in data.sweeps
            if (value := ratio_of(*pair(times))) is not None
        ]
        return Measured(numbers, empty_reason=empty_reason)

    return Quantity(measure, statistic, at_most)


def _fragmented_over_defragmented(
    statistic: StatisticName = "worst", clock: ClockName = results.PRODUCT_CLOCK
) -> DynamicQuantity:
    return _products(lambda times: times.state_twins, statistic, sweeps=False, clock=clock)


def _library_over_ours(statistic: StatisticName = "worst", clock: ClockName = results.PRODUCT_CLOCK) -> DynamicQuantity:
    missing_reason = "no product of the library and of ours was timed"
    return _products(
        lambda times: (times[results.LIBRARY], times[results.OURS]),
        statistic,
        at_most=False,
        empty_reason=missing_reason,
        clock=clock,
    )


def _device_speedup(devices: int, min_entries: int, *, is_overlapped: bool = False) -> DynamicQuantity:
    """Measure the time of the fastest product on one device over the time of a step on several devices."""
    exchange = "with the exchange overlapped" if is_overlapped else "without an exchange"
    missing_reason = (
        f"no matrix of {min_entries:,} entries and more has times on one device and, {exchange}, on {devices} devices"
    )

    def measure(data: TargetData) -> Measured:
        numbers = []
        for case in data.cases:
            times = results.DeviceTimes(case.line, case.case)
            step = times.overlapped(devices) if is_overlapped else times.alone(devices)
            single_time = times.on_one
            if times.grown_entries >= min_entries and step and single_time:
                numbers.append(_case_value(single_time.seconds / step.seconds, times, single_time, step.reported_time))
        return Measured(numbers, empty_reason=missing_reason)

    return Quantity(measure)


#: Functions that measure targets, by the targets' names in `config/targets/dynamic_csr.csv`.
TARGET_QUANTITIES: Mapping[str, DynamicQuantity] = {
    "random_1e6_rate": _batches((10**6,), results.ANY, _rate),
    "random_1e7_rate": _batches((10**7,), results.ANY, _rate),
    "unique_rate": _batches((10**6, 10**7), results.ANY_UNIQUE, _rate),
    "batch_1e3_micro": _batches((1000,), results.ANY, lambda size, seconds: seconds * MICRO, is_time=True),
    "sorted_1e7_rate": _batches((10**7,), results.SORTED, _rate),
    "hybrid_mean": _speedup_over_hybrid(results.SORTED),
    "hybrid_any_mean": _speedup_over_hybrid(results.ANY),
    "rebuild_worst": _speedup_over_rebuild(8 * 10**6),
    "defragmented_median": _products(results.defragmented_over_csr, "median"),
    "defragmented_worst": _products(results.defragmented_over_csr),
    "fragmented_median": _fragmented_over_defragmented("median"),
    "fragmented_worst": _fragmented_over_defragmented(),
    "library_worst": _library_over_ours(),
    "library_mean": _library_over_ours("mean"),
    "library_median": _library_over_ours("median"),
    "event_defragmented_median": _products(results.defragmented_over_csr, "median", clock="event"),
    "event_fragmented_median": _fragmented_over_defragmented("median", "event"),
    "event_library_median": _library_over_ours("median", "event"),
    "defragmentation_worst": _defragmentation(10**7),
    "devices_2_worst": _device_speedup(2, 10**7),
    "devices_4_worst": _device_speedup(4, 10**7),
    "overlapped_2_worst": _device_speedup(2, 5 * 10**7, is_overlapped=True),
    "overlapped_4_worst": _device_speedup(4, 5 * 10**7, is_overlapped=True),
}
