"""Measurement of the claims of the dissertation's chapter 5 and of our targets, and the readings that claims depend on.

Functions have the names in `config/claims/dynamic_csr.csv`, and in `config/targets/dynamic_csr.csv`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import fmean
from typing import Any, NamedTuple

from repro.results.campaign_data import Campaign, Method
from repro.results.claims import ClaimQuantities, register_claims
from repro.results.columns import MICRO, PROBLEM, Pick, time_column
from repro.results.comparisons import (
    ABSENT,
    CaseNumber,
    Cases,
    Comparison,
    JudgedBy,
    Measured,
    MissingCase,
    Quantity,
    no_notes,
)
from repro.results.problem_lines import ProblemLine, closing_notes, join_sentences, recorded_lines
from repro.results.published import Published
from repro.results.registry import table
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
class Graph(results.ProductTimes):
    """The times of one graph in one precision, by the kernels by which claims are judged."""

    variants: JudgedBy = field(default="none", kw_only=True)
    #: Whether its batches are of growing sizes, unlike those of the paper's graphs.
    is_sweep: bool = field(default=False, kw_only=True)

    def __getitem__(self, method: Method) -> results.Time | None:
        return super().__getitem__(judged) if (judged := self.judged(method)) else None

    def judged(self, method: Method) -> Method | None:
        """Return the published or tuned counterpart of a method by which claims are judged; None if there is none.

        The paper's updates were not tuned further. Its products are published if that was searched, else tuned.
        """
        is_product = method.columns.get("what") == "product"
        if self.variants == "as_published":
            is_tuned = is_product and self.case.campaign.tuning(method.key) != method.key
            return None if is_tuned else results.as_published(method)
        return method if self.variants in ("none", "paper_tuned" if is_product else "ours") else None

    def update(self, method: Method, operation: str, protocol: results.UpdateProtocol) -> results.Time | None:
        judged = self.judged(method)
        return results.fastest_update(self.case, judged, operation, protocol) if judged else None

    @property
    def is_timed(self) -> bool:
        """Whether updates and conversions are timed in this precision in any campaign."""
        return self.case.precision == results.operation_precision(self.case.campaign)

    @property
    def devices(self) -> results.DeviceTimes:
        return results.DeviceTimes(self.line, self.case)

    @property
    def memory(self) -> Mapping[str, int]:
        """Bytes of the formats, counted as in the paper; empty if they were not counted."""
        counted: Mapping[str, int] = self.facts.get("memory", {}).get("paper") or {}
        return counted if counted.get("HYB") else {}


def graphs_of(
    campaign: Campaign, published: Published, variants: JudgedBy = "none", *, sweeps: bool = False
) -> Cases[Graph]:
    """Return a campaign's graphs in each precision: those like the paper's, or all, `sweeps` of batches included."""
    swept = {sweep.line.problem for sweep in results.batch_sweeps(campaign, published)}
    graphs = [
        Graph(line, case, variants=variants, is_sweep=line.problem in swept)
        for precision in campaign.precisions
        for line in recorded_lines(campaign, published)
        for case in [results.DynamicCase(campaign, line.problem, precision)]
        if sweeps or line.problem not in swept
    ]
    return Cases(campaign, published, graphs, variants)


def _is_timed(graph: Graph) -> bool:
    return graph.is_timed


# claims: updates -----------------------------------------------------------------------------------------------------


def _update(method: Method, operation: str, protocol: results.UpdateProtocol = results.SORTED) -> Pick:
    return lambda graph: graph.update(method, operation, protocol)


def _rival(graph: Graph) -> results.Time | None:
    """Return the smaller of the times of the paper's iterative test in HYB and in CSR."""
    rivals = [graph.update(method, "iterate", results.SORTED) for method in (results.HYB, results.REBUILD)]
    return min((rival for rival in rivals if rival), key=lambda time: time.seconds, default=None)


#: A time over that of our updates, or over that of the paper's.
_updates = partial(
    Comparison[Graph],
    judged_by=("as_published", "ours"),
    name=lambda graph: graph.line.problem if graph.is_timed else graph.name_in_precision,
    reason=lambda graph: graph.case.why_untimed() if graph.is_timed else "",
)
#: The iterative test, over the faster of HYB and CSR.
ITERATIVE = _updates(_rival, _update(results.DCSR, "iterate"))
#: A whole matrix is inserted, as one batch and batch by batch, by row and in any order.
INSERTIONS = {
    f"{way}{order}": _updates(_update(results.HYB, operation, protocol), _update(results.DCSR, operation, protocol))
    for way, operation in (("streaming", "stream"), ("batches", "insert"))
    for order, protocol in (("", results.SORTED), ("_any", results.ANY))
}


def _over_printed(file: str, column: str, numerator: Pick, denominator: Pick) -> Quantity[Cases[Graph]]:
    """Return the median of a ratio of two times over the one that a table prints of the same graph."""
    ratios = Comparison[Graph](numerator, denominator)

    def number(graph: Graph, printed: Mapping[str, float | None]) -> CaseNumber | None:
        ratio, theirs = ratios.of(graph), printed.get(graph.line.published or "")
        if not ratio or not theirs:
            return None
        interval = (ratio.interval[0] / theirs, ratio.interval[1] / theirs) if ratio.interval else None
        return ratio._replace(value=ratio.value / theirs, interval=interval)

    def measure(graphs: Cases[Graph]) -> Measured:
        printed = {item["problem"]: number_of(item[column]) for item in graphs.published[file]}
        return Comparison[Graph](lambda graph: number(graph, printed)).where(_is_timed).measure(graphs)

    return Quantity(measure, "median")


def _by_ours(method: Method) -> Pick:
    """Return the time of a method if claims are judged by our kernels."""
    return lambda graph: graph[method] if graph.variants == "ours" else None


def _product_with_csr(graph: Graph) -> results.Time | None:
    """Return the time of one product with CSR by events: ours, or as published."""
    product = results.OWN_PRODUCT if graph.variants == "ours" else results.as_published(results.CSR)
    return graph.case.time(product, graph.clock)


def _rebuild_over_product(graph: Graph) -> CaseNumber | None:
    """Return the time of making CSR again with a batch over that of a product with it, the library's included."""
    cost = results.update_cost(graph, results.REBUILD)
    return CaseNumber(cost.update / cost.product, graph.line.problem) if cost else None


def _out_of_memory(names: Sequence[str], method: Method, operation: str) -> Quantity[Cases[Graph]]:
    """Return how many of some graphs a format ran out of memory for; one for which it failed otherwise is missing."""

    def measure(graphs: Cases[Graph]) -> Measured:
        numbers, missing = [], []
        for name in names:
            case = results.DynamicCase(graphs.campaign, name, results.operation_precision(graphs.campaign))
            rows = case.select(**method.columns, what=operation)
            statuses = {row.status for row in rows}
            if "out_of_memory" in statuses or any(row.timed for row in rows):
                numbers.append(CaseNumber(float("out_of_memory" in statuses), name))
            elif rows:
                missing.append(MissingCase(name, f"failed: {', '.join(sorted(statuses)).replace('_', ' ')}"))
            else:
                missing.append(MissingCase(name, "not tried" if case.rows else ABSENT))
        return Measured([] if missing else numbers, missing)

    return Quantity(measure, "sum")


# claims: products, memory, devices -----------------------------------------------------------------------------------

ADAPTIVE_OVER_HYB = results.compared_products(results.HYB_PRODUCT, results.IN_ORDER)


def _memory(segments: str) -> Comparison[Graph]:
    """Return the ratio of a format's bytes to HYB's: `DCSR-4`, or `CSR`; it does not depend on kernels."""

    def fraction(graph: Graph) -> float | None:
        is_stand_in = graph.line.record and graph.line.record.stand_in
        return graph.memory[segments] / graph.memory["HYB"] if graph.memory and not is_stand_in else None

    return Comparison(
        fraction,
        counts=_is_timed,
        judged_by=("paper_tuned", "ours", "none"),
        notes=no_notes,
        reason=lambda graph: "a stand-in, made with the published memory" if graph.memory else "",
    )


def _on_devices(devices: int) -> Comparison[Graph]:
    """Return the time of a product on one device over that on several, as single launches."""
    return Comparison(
        lambda graph: graph.devices.launch_speedup(devices),
        judged_by=("paper_tuned",),
        notes=no_notes,
        reason=lambda graph: f"no time on {devices} devices in this campaign",
    )


def _of_graph(name: str, devices: int) -> Quantity[Cases[Graph]]:
    """Return the time of one graph's step on one device over that on several, with the exchange."""

    def speedup(graph: Graph) -> float | None:
        return graph.devices.speedup(graph.devices.exchanged(devices))

    steps = replace(_on_devices(devices), numerator=speedup, empty=MissingCase(name, ABSENT))
    return steps.where(_is_timed, lambda graph: name in (graph.line.problem, graph.line.published)).worst()


def _in(precision: str) -> Callable[[Graph], bool]:
    return lambda graph: graph.case.precision == precision


def _over_others(names: Sequence[str], speedup: Comparison[Graph]) -> Quantity[Cases[Graph]]:
    """Return some graphs' speedups over the mean of all others'."""

    def measure(graphs: Cases[Graph]) -> Measured:
        every = speedup.where(_is_timed).measure(graphs)
        published = {graph.line.problem: graph.line.published or graph.line.problem for graph in graphs}
        others = [number.value for number in every.numbers if published[number.case] not in names]
        numbers = [
            number._replace(value=number.value / fmean(others), interval=None)
            for number in every.numbers
            if others and published[number.case] in names
        ]
        return Measured.any_of(numbers, ", ".join(names), "no time of them and of others in this campaign")

    return Quantity(measure, "most")


#: Quantities by name in `config/claims/dynamic_csr.csv`.
CLAIM_QUANTITIES: ClaimQuantities[Cases[Any]] = {
    **{
        f"{name}_{statistic}": quantity
        for name, speedup in INSERTIONS.items()
        for statistic, quantity in (("mean", speedup.mean()), ("most", speedup.most()), ("least", speedup.least()))
    },
    "iterative_most": _updates(_update(results.HYB, "iterate"), _update(results.DCSR, "iterate")).most(),
    "iterative_least": ITERATIVE.least(),
    "iterative_amazon": _over_others(("amazon-2008",), ITERATIVE),
    "defragmentation_mean": _updates(results.HYB_SORT, results.DEFRAGMENTATION).mean(),
    "rebuild_over_product": Comparison[Graph](
        _rebuild_over_product, counts=_is_timed, empty=MissingCase("all graphs", "not both timed")
    ).median(),
    "csr_out_of_memory": _out_of_memory(LARGE_GRAPHS, results.REBUILD, "iterate"),
    "hyb_out_of_memory": _out_of_memory(LARGEST_GRAPH, results.HYB, "stream"),
    **{
        conversion.key: _over_printed("conversions", conversion.key, _by_ours(conversion), _by_ours(results.COPY))
        for conversion in results.CONVERSIONS
    },
    **{
        operation.key: _over_printed("operations", operation.key, operation, _product_with_csr)
        for operation in (results.DEFRAGMENTATION, results.HYB_SORT)
    },
    "fragmented_mean": results.compared_products(results.FRAGMENTED, results.DEFRAGMENTED).mean(),
    "defragmented_mean": results.compared_products(results.DEFRAGMENTED, results.CSR).mean(),
    "adaptive_mean": ADAPTIVE_OVER_HYB.mean(),
    "adaptive_share": ADAPTIVE_OVER_HYB.share(),
    "by_size_mean": results.compared_products(results.IN_ORDER, results.BY_SIZE).mean(),
    "binned_mean": results.compared_products(results.DEFRAGMENTED, results.IN_ORDER).mean(),
    "memory_4_mean": _memory("DCSR-4").mean(),
    "memory_3_mean": _memory("DCSR-3").mean(),
    "memory_2_most": _memory("DCSR-2").most(),
    "memory_csr_most": _memory("CSR").most(),
    "two_devices_single": _on_devices(2).where(_in("single")).mean(),
    "two_devices_double": _on_devices(2).where(_in("double")).mean(),
    "long_rows_on_2": _over_others(LONG_ROWS, _on_devices(2)),
    "small_graphs_on_2": _over_others(SMALL_GRAPHS, _on_devices(2)),
    "nearly_linear_on_8": _on_devices(8).where(_is_timed).share(lambda speedup: speedup >= NEARLY_LINEAR * 8),
    **{f"{name}_on_{devices}": _of_graph(name, devices) for name in SMALL_GRAPHS for devices in (2, 4, 8)},
}
register_claims(STUDY_NAME, CITED, CLAIM_QUANTITIES, graphs_of)


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
    graphs = filter(_is_timed, graphs_of(campaign, published))
    cases = [ReadUpdate(graph.line, graph.case, *update) for graph in graphs for update in READ_UPDATES]
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
        "Algorithms 4 and 5 in several readings, because the text leaves settings open. Text: four threads per row,",
        "the mean row length as slack, and rows merged into one segment when a chain is full. Every fifth: the same,",
        "and rows also merged after the sixth batch and every fifth one after it, as in the paper’s code. Slack 4,",
        "slack 0: the code’s constants, with one and with four threads per row; in the iterative test rows are merged",
        f"as often. Iterate: each batch is followed by {PRODUCTS_PER_BATCH} products, with rows in the bins from",
        "before the first batch, one kernel per bin. The reading by the text judges the claims.",
        "Nothing as published was measured in this campaign." if not cases else "",
        closing_notes(campaign, results.OPERATION_CLOCK),
    ]
    return table_of(columns, cases, join_sentences(caption), is_empty=not cases)


# targets -------------------------------------------------------------------------------------------------------------

#: The problem for which target rates are set: 2^20 rows, entries in uniformly drawn rows.
RANDOM_PROBLEM = "large/sweep_uniform"
#: The largest batches for which inserting is compared with a rebuild.
MAX_REBUILT_BATCH = 30_000


def _rate(size: int, seconds: float) -> float:
    return size / seconds / 1e9


def _batches(
    sizes: Sequence[int],
    protocol: results.UpdateProtocol,
    number: Callable[[int, float], float] = _rate,
    *,
    is_time: bool = False,
) -> Quantity[Cases[Graph]]:
    """Return one number for each batch of random entries that is inserted alone; none unless all were timed."""

    def measure(graphs: Cases[Graph]) -> Measured:
        case = results.DynamicCase(graphs.campaign, RANDOM_PROBLEM, results.operation_precision(graphs.campaign))
        times = {size: results.fastest_update(case, results.DCSR, "batch", protocol, batch=size) for size in sizes}
        missing_sizes = " or ".join(f"{size:,} ({protocol.title})" for size, time in times.items() if time is None)
        if missing_sizes:
            reason = f"no batch of {missing_sizes} was timed" if case.is_measured else case.why_not()
            is_absent = RANDOM_PROBLEM not in graphs.campaign.problems
            return Measured([], [MissingCase(RANDOM_PROBLEM, ABSENT if is_absent else reason)])
        names = {size: f"{RANDOM_PROBLEM}, {size:,}, {protocol.title}" for size in sizes}
        return Measured(
            [
                CaseNumber(number(size, time.seconds), names[size], results.time_notes(time))
                for size, time in times.items()
                if time
            ]
        )

    return Quantity(measure, at_most=is_time, is_time=is_time)


def _time_notes(graph: Graph, *times: results.Time) -> tuple[str, ...]:
    """Return the notes on a graph and on its times."""
    notes = dict.fromkeys(note for time in times for note in results.time_notes(time))
    return (*graph.line.remarks, *notes)


def _speedup_over_rebuild(min_entries: int) -> Quantity[Cases[Graph]]:
    """Return the time of rebuilding CSR over inserting, for all timed batches up to `MAX_REBUILT_BATCH` entries."""

    def measure(graphs: Cases[Graph]) -> Measured:
        numbers = [
            CaseNumber(
                rebuilt.seconds / dynamic.seconds,
                f"{graph.line.problem}, batches of {size:,}, {protocol.title}",
                _time_notes(graph, dynamic, rebuilt),
            )
            for graph in graphs
            if graph.is_timed and graph.grown_entries >= min_entries
            for protocol in (results.ANY, results.SORTED)
            for operation in ("batch", "insert")[: 1 if graph.is_sweep else 2]  # batches of sweeps have all sizes
            for size in sorted({row.batch for row in graph.case.select(what=operation) if row.batch})
            if size <= MAX_REBUILT_BATCH
            if (dynamic := results.fastest_update(graph.case, results.DCSR, operation, protocol, batch=size))
            if (rebuilt := results.fastest_update(graph.case, results.REBUILD, operation, protocol, batch=size))
        ]
        return Measured(numbers, empty_reason=f"no batch of up to {MAX_REBUILT_BATCH:,} was timed with both")

    return Quantity(measure)


def _is_large(min_entries: int) -> Callable[[Graph], bool]:
    return lambda graph: graph.grown_entries >= min_entries


def _hybrid(protocol: results.UpdateProtocol) -> Comparison[Graph]:
    """Return the time of streaming a whole matrix into HYB over that into dynamic CSR."""
    hybrid, dynamic = (_update(method, "stream", protocol) for method in (results.HYB, results.DCSR))
    updates = Comparison[Graph](hybrid, dynamic, notes=_time_notes, empty_reason="no matrix was streamed into both")
    return updates.where(_is_timed, lambda graph: not graph.is_sweep)  # it has grown by a tenth


def _defragmentation(min_entries: int) -> Comparison[Graph]:
    """Return defragmentation's bandwidth over a plain copy's bandwidth."""

    def bandwidths(graph: Graph) -> CaseNumber | None:
        moving, copy = graph[results.DEFRAGMENTATION], graph.case.bound("copy", graph.clock)
        if not (moving and copy and moving.row.bytes):
            return None
        speed, copy_speed = (float(time.row.bytes or 0) / time.seconds for time in (moving, copy))
        return CaseNumber(speed / copy_speed, graph.line.problem, _time_notes(graph, moving, copy))

    reason = f"no matrix of {min_entries:,} entries and more has a time of both"
    return Comparison[Graph](bandwidths, empty_reason=reason).where(_is_timed, _is_large(min_entries))


def _device_speedup(devices: int, min_entries: int, *, is_overlapped: bool = False) -> Quantity[Cases[Graph]]:
    """Return the time of the fastest product on one device over the time of a step on several devices."""

    def step(graph: Graph) -> results.Time | None:
        steps = graph.devices
        found = steps.overlapped(devices) if is_overlapped else steps.alone(devices)
        return found.reported_time if found else None

    exchange = "with the exchange overlapped" if is_overlapped else "without an exchange"
    reason = (
        f"no matrix of {min_entries:,} entries and more has times on one device and, {exchange}, on {devices} devices"
    )
    speedup = Comparison[Graph](lambda graph: graph.devices.on_one, step, notes=_time_notes, empty_reason=reason)
    return speedup.where(_is_timed, _is_large(min_entries)).worst()


FRAGMENTED_OVER_DEFRAGMENTED = results.FRAGMENTED_OVER_DEFRAGMENTED.where(lambda times: not times.is_sweep)
#: Quantities by name in `config/targets/dynamic_csr.csv`.
TARGET_QUANTITIES: Mapping[str, Quantity[Cases[Any]]] = {
    "random_1e6_rate": _batches((10**6,), results.ANY),
    "random_1e7_rate": _batches((10**7,), results.ANY),
    "unique_rate": _batches((10**6, 10**7), results.ANY_UNIQUE),
    "batch_1e3_micro": _batches((1000,), results.ANY, lambda size, seconds: seconds * MICRO, is_time=True),
    "sorted_1e7_rate": _batches((10**7,), results.SORTED),
    "hybrid_mean": _hybrid(results.SORTED).geometric_mean(),
    "hybrid_any_mean": _hybrid(results.ANY).geometric_mean(),
    "rebuild_worst": _speedup_over_rebuild(8 * 10**6),
    "defragmented_median": results.DEFRAGMENTED_OVER_CSR.median(at_most=True),
    "defragmented_worst": results.DEFRAGMENTED_OVER_CSR.worst(at_most=True),
    "event_defragmented_median": results.DEFRAGMENTED_OVER_CSR.by("event").median(at_most=True),
    "fragmented_median": FRAGMENTED_OVER_DEFRAGMENTED.median(at_most=True),
    "fragmented_worst": FRAGMENTED_OVER_DEFRAGMENTED.worst(at_most=True),
    "event_fragmented_median": FRAGMENTED_OVER_DEFRAGMENTED.by("event").median(at_most=True),
    "library_worst": results.LIBRARY_OVER_OURS.worst(),
    "library_mean": results.LIBRARY_OVER_OURS.geometric_mean(),
    "library_median": results.LIBRARY_OVER_OURS.median(),
    "event_library_median": results.LIBRARY_OVER_OURS.by("event").median(),
    "defragmentation_worst": _defragmentation(10**7).worst(),
    "devices_2_worst": _device_speedup(2, 10**7),
    "devices_4_worst": _device_speedup(4, 10**7),
    "overlapped_2_worst": _device_speedup(2, 5 * 10**7, is_overlapped=True),
    "overlapped_4_worst": _device_speedup(4, 5 * 10**7, is_overlapped=True),
}
