"""Claims of the dissertation's chapter 5, measured, and the readings of the algorithms that they may rest on.

Functions have the names in `config/claims/dynamic_csr.csv`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from repro.results.campaign_data import Campaign, Method
from repro.results.claims import (
    CaseNumber,
    ClaimQuantities,
    Measured,
    MissingCase,
    Quantity,
    StatisticName,
    Variants,
    claims_table,
    load_claims,
)
from repro.results.problem_lines import (
    ABBREVIATIONS,
    ProblemLine,
    join_sentences,
    measurement_note,
    ours,
    unavailable_note,
)
from repro.results.published import Published
from repro.results.registry import table
from repro.results.significance import interval_of_ratio, ratio_of
from repro.results.tables import Cell, Column, Table, table_of, time_column
from repro.studies.dynamic_csr import CITED, PRODUCTS_PER_BATCH, STUDY_NAME
from repro.studies.dynamic_csr.results import (
    ANY,
    BY_SIZE,
    CSR,
    DCSR,
    DCSR_PUBLISHED,
    DEFRAGMENTATION,
    DEFRAGMENTED,
    FRAGMENTED,
    HYB,
    HYB_PRODUCT,
    HYB_SORT,
    IN_ORDER,
    OPERATION_CLOCK,
    PRODUCT_CLOCK,
    REBUILD,
    SORTED,
    DeviceTimes,
    DynamicCase,
    Time,
    TimePair,
    UpdateProtocol,
    as_published,
    batch_sweeps,
    fastest_update,
    iterative_pair,
    operation_precision,
    operation_times,
    streaming_pair,
)

#: The two graphs for which CSR ran out of memory on a K20c, because CSR holds a growing graph twice.
LARGE_GRAPHS = ("ljournal-2008", "soc-LiveJournal1")


@dataclass(frozen=True)
class PaperGraphs:
    """The campaign's graphs whose batches all have one size, like the paper's graphs."""

    campaign: Campaign
    lines: tuple[ProblemLine, ...]
    #: The kernels whose times are compared.
    variants: Variants

    @classmethod
    def of(cls, campaign: Campaign, published: Published, variants: Variants) -> PaperGraphs:
        sweeps = {sweep.line.problem for sweep in batch_sweeps(campaign, published)}
        lines = tuple(line for line in ours(campaign, published) if line.problem not in sweeps)
        return cls(campaign, lines, variants)

    def update(self, method: Method) -> Method | None:
        """Return one of our methods, or a published value in its place; the paper's updates were not tuned further."""
        return {"as_published": as_published(method), "ours": method}.get(self.variants)

    def product(self, method: Method) -> Method | None:
        """Return a product of the paper with the best number of threads, or as published if that was searched."""
        if self.variants == "as_published" and self.campaign.tuning(method.key) == method.key:
            return as_published(method)
        return method if self.variants == "paper_tuned" else None

    def cases(self, precision: str | None = None) -> Iterator[tuple[ProblemLine, DynamicCase]]:
        """Yield each graph in the given precision, or in the precision in which updates are timed."""
        for line in self.lines:
            yield line, DynamicCase(self.campaign, line.problem, precision or operation_precision(self.campaign))

    def memory(self, segments: str) -> Iterator[tuple[ProblemLine, float]]:
        """Yield the ratio of bytes of dynamic CSR to HYB, counted as in the paper; `segments` such as `DCSR-4`."""
        for times in operation_times(self.campaign, self.lines):
            counted = times.facts.get("memory", {}).get("paper")
            if counted and counted["HYB"]:
                yield times.line, counted[segments] / counted["HYB"]


def _case_number(line: ProblemLine, name: str, pair: TimePair) -> CaseNumber | None:
    ratio = ratio_of(*pair)
    remark = (line.record.remark,) if line.record and line.record.remark else ()
    return CaseNumber(ratio, name, remark, interval_of_ratio(*pair)) if ratio else None


def _of_updates(
    pair: Callable[[DynamicCase, Method], TimePair], statistic: StatisticName, updated: Method = DCSR
) -> Quantity[PaperGraphs]:
    """Return a function that measures one time divided by that of `updated`, or by a published time in its place."""

    def measure(graphs: PaperGraphs) -> Measured:
        method = graphs.update(updated)
        if method is None:
            return Measured([])
        numbers, missing = [], []
        highest = operation_precision(graphs.campaign)
        for precision in graphs.campaign.precisions:
            for line, case in graphs.cases(precision):
                name = line.problem if precision == highest else f"{line.problem} ({ABBREVIATIONS[precision]})"
                if number := _case_number(line, name, pair(case, method)):
                    numbers.append(number)
                elif precision == highest:  # a campaign may time updates in this precision alone
                    missing.append(MissingCase(name, "not timed" if case.measured else case.why_not()))
        return Measured(numbers, missing)

    return Quantity(measure, statistic)


def _streamed(protocol: UpdateProtocol) -> Callable[[DynamicCase, Method], TimePair]:
    return lambda case, updated: streaming_pair(protocol, updated)(case)


def _iterated(case: DynamicCase, updated: Method) -> TimePair:
    return iterative_pair(updated)(case)


def _over_rivals(case: DynamicCase, updated: Method) -> TimePair:
    """Two times in the iterative test: of the faster of HYB and CSR, and of dynamic CSR."""
    (hyb, dynamic), (_, csr) = iterative_pair(updated)(case), iterative_pair(REBUILD)(case)
    return min((rival for rival in (hyb, csr) if rival), key=lambda time: time.seconds, default=None), dynamic


def _over_sort(case: DynamicCase, defragmentation: Method) -> TimePair:
    return case.time(HYB_SORT, OPERATION_CLOCK), case.time(defragmentation, OPERATION_CLOCK)


def _of_products(first: Method, second: Method) -> Quantity[PaperGraphs]:
    """Return a function that measures the mean of one product's time over another's, over graphs and precisions."""

    def measure(graphs: PaperGraphs) -> Measured:
        over, under = graphs.product(first), graphs.product(second)
        if over is None or under is None:
            return Measured([])
        numbers = []
        for precision in graphs.campaign.precisions:
            for line, case in graphs.cases(precision):
                pair = case.time(over, PRODUCT_CLOCK), case.time(under, PRODUCT_CLOCK)
                numbers.append(_case_number(line, f"{line.problem} ({ABBREVIATIONS[precision]})", pair))
        return Measured([number for number in numbers if number])

    return Quantity(measure, "arithmetic mean")


def _memory(segments: str, statistic: StatisticName) -> Quantity[PaperGraphs]:
    """Return a function that measures the bytes of dynamic CSR over HYB's, which no kernel changes."""

    def measure(graphs: PaperGraphs) -> Measured:
        if graphs.variants == "as_published":
            return Measured([])
        numbers, missing = [], []
        for line, share in graphs.memory(segments):
            if line.record and line.record.stand_in:
                missing.append(MissingCase(line.problem, "a stand-in, made with the published memory"))
            else:
                numbers.append(CaseNumber(share, line.problem))
        return Measured(numbers, missing)

    return Quantity(measure, statistic)


def _on_devices(devices: int, precision: str | None = None, graph: str | None = None) -> Quantity[PaperGraphs]:
    """Measure the time on one device over the time on several, for single launches or steps within a launch."""

    def measure(graphs: PaperGraphs) -> Measured:
        if graphs.variants != "paper_tuned" or (precision and precision not in graphs.campaign.precisions):
            return Measured([])
        numbers, missing = [], []
        for line, case in graphs.cases(precision):
            if graph in (None, line.problem):
                times = DeviceTimes(line, case)
                ratio = times.speedup(times.exchanged(devices)) if graph else times.launch_speedup(devices)
                if ratio:
                    numbers.append(CaseNumber(ratio, line.problem))
                else:
                    missing.append(MissingCase(line.problem, f"no time on {devices} devices in this campaign"))
        if graph and not numbers and not missing:
            missing.append(MissingCase(graph, "not in this campaign"))
        return Measured(numbers, missing)

    return Quantity(measure, "worst" if graph else "arithmetic mean")


def _out_of_memory(graphs: PaperGraphs) -> Measured:
    """Count the graphs for which CSR ran out of memory; a graph for which it failed otherwise is missing."""
    numbers, missing = [], []
    for name in LARGE_GRAPHS:
        case = DynamicCase(graphs.campaign, name, operation_precision(graphs.campaign))
        rows = case.select(**REBUILD.columns, what="iterate")
        statuses = {row.status for row in rows}
        if "out_of_memory" in statuses or any(row.timed for row in rows):
            numbers.append(CaseNumber(float("out_of_memory" in statuses), name))
        elif rows:
            missing.append(MissingCase(name, f"failed: {', '.join(sorted(statuses)).replace('_', ' ')}"))
        else:
            missing.append(MissingCase(name, "not in this campaign" if not case.rows else "not tried"))
    return Measured([] if missing else numbers, missing)


QUANTITIES: ClaimQuantities[PaperGraphs] = {
    "streaming_mean": _of_updates(_streamed(SORTED), "arithmetic mean"),
    "streaming_any_mean": _of_updates(_streamed(ANY), "arithmetic mean"),
    "streaming_most": _of_updates(_streamed(SORTED), "most"),
    "streaming_least": _of_updates(_streamed(SORTED), "least"),
    "streaming_any_least": _of_updates(_streamed(ANY), "least"),
    "iterative_most": _of_updates(_iterated, "most"),
    "iterative_least": _of_updates(_over_rivals, "least"),
    "defragmentation_mean": _of_updates(_over_sort, "arithmetic mean", DEFRAGMENTATION),
    "fragmented_mean": _of_products(FRAGMENTED, DEFRAGMENTED),
    "defragmented_mean": _of_products(DEFRAGMENTED, CSR),
    "adaptive_mean": _of_products(HYB_PRODUCT, IN_ORDER),
    "by_size_mean": _of_products(IN_ORDER, BY_SIZE),
    "memory_4_mean": _memory("DCSR-4", "arithmetic mean"),
    "memory_2_most": _memory("DCSR-2", "most"),
    "two_devices_single": _on_devices(2, "single"),
    "two_devices_double": _on_devices(2, "double"),
    **{
        f"{graph}_on_{devices}": _on_devices(devices, graph=graph)
        for graph in ("internet", "enron")
        for devices in (2, 4, 8)
    },
    "csr_out_of_memory": Quantity(_out_of_memory, "sum"),
}


@table(STUDY_NAME, "table-claims", title="The paper’s claims, and the verdict on each", numbering=f"text of {CITED}")
def claims(campaign: Campaign, published: Published) -> Table:
    def data(measured: Campaign, variants: Variants) -> PaperGraphs:
        return PaperGraphs.of(measured, published, variants)

    return claims_table(campaign, load_claims(STUDY_NAME), QUANTITIES, data)


class ReadUpdate(NamedTuple):
    """An update of one graph, whose readings are columns."""

    line: ProblemLine
    case: DynamicCase
    operation: str
    protocol: UpdateProtocol

    def time(self, updated: Method) -> Time | None:
        return fastest_update(self.case, updated, self.operation, self.protocol)


#: Title of each interpretation of the algorithms' text, by its name in rows.
READING_TITLES = {"text": "text", "fifth": "every fifth", "slack-4": "slack 4", "slack-0": "slack 0"}
READ_UPDATES = (("stream", SORTED), ("stream", ANY), ("iterate", SORTED))


@table(STUDY_NAME, "table-readings", title="Updates as published, by reading", numbering=f"section 5.3.1 of {CITED}")
def readings(campaign: Campaign, published: Published) -> Table:
    graphs = PaperGraphs.of(campaign, published, "as_published")
    cases = [ReadUpdate(line, case, *update) for line, case in graphs.cases() for update in READ_UPDATES]
    read = {
        name: replace(DCSR_PUBLISHED, columns={**DCSR_PUBLISHED.columns, "reading": name}) for name in READING_TITLES
    }
    cases = [case for case in cases if any(case.time(method) for method in read.values())]

    def micro(key: str, title: str, method: Method, group: str) -> Column[ReadUpdate]:
        return time_column(f"{key}_us", title, group, lambda case: case.time(method))

    columns = (
        Column[ReadUpdate]("problem", "problem", numeric=False, cell=lambda case: case.line.cell),
        Column[ReadUpdate]("update", "update", numeric=False, cell=lambda case: Cell(case.operation)),
        Column[ReadUpdate]("order", "order", numeric=False, cell=lambda case: Cell(case.protocol.title)),
        *(
            micro(name.replace("-", "_"), title, read[name], "as published, µs")
            for name, title in READING_TITLES.items()
        ),
        micro("ours", "ours", DCSR, "beside them, µs"),
        micro("hyb", "HYB", HYB, "beside them, µs"),
    )
    caption = [
        "Algorithms 4 and 5 by what the text leaves open. Text: a vector of four threads a row, the mean row as slack,",
        "and rows brought together where a chain is full. Every fifth: that, and rows brought together behind the",
        "sixth batch and each fifth one after it, as in the paper’s code. Slack 4, slack 0: the code’s constants, with",
        "one thread a row and with four; in the iterative test rows are brought together as often.",
        f"Iterate: each batch is followed by {PRODUCTS_PER_BATCH} products with the rows in the bins of before the",
        "first, a kernel a bin. Claims are judged by the text.",
        "Nothing as published was measured in this campaign." if not cases else "",
        measurement_note(campaign, OPERATION_CLOCK),
        unavailable_note(campaign),
    ]
    return table_of(columns, cases, join_sentences(caption), nothing=not cases)
