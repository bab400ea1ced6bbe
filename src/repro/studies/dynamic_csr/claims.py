"""Claims of the dissertation's chapter 5, measured: functions by the names in `config/claims/dynamic_csr.csv`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from repro.results.campaign_data import Campaign
from repro.results.claims import ClaimQuantities, Variants, claims_table, load_claims
from repro.results.problem_rows import ABBREVIATIONS, ProblemRow, ours
from repro.results.published import Published
from repro.results.recorded_rows import Method
from repro.results.registry import table
from repro.results.significance import interval_of_ratio, ratio_of
from repro.results.tables import Table
from repro.results.targets import CaseNumber, Measured, MissingCase, Quantity, StatisticName
from repro.studies.dynamic_csr import PAPER, STUDY_NAME
from repro.studies.dynamic_csr.results import (
    ADAPTIVE,
    ANY,
    BY_SIZE,
    CSR,
    DCSR,
    DEFRAGMENTATION,
    DEFRAGMENTED,
    FRAGMENTED,
    HYB_PRODUCT,
    HYB_SORT,
    IN_ORDER,
    OPERATION_CLOCK,
    PRODUCT_CLOCK,
    REBUILD,
    SORTED,
    DeviceTimes,
    DynamicCase,
    TimePair,
    batch_sweeps,
    iterative_pair,
    operation_precision,
    operation_times,
    streaming_pair,
)

#: Variants by which numbers are judged: our updates, which replace Algorithms 4 and 5; the paper's products with the
#: best number of threads per row; memory does not depend on kernels.
UPDATES: Variants = "ours"
PRODUCTS: Variants = "paper_tuned"
#: The two graphs for which CSR ran out of memory on a K20c, because CSR holds a growing graph twice.
LARGE_GRAPHS = ("ljournal-2008", "soc-LiveJournal1")


@dataclass(frozen=True)
class PaperGraphs:
    """The campaign's graphs whose batches all have one size, like the paper's graphs."""

    campaign: Campaign
    lines: tuple[ProblemRow, ...]
    variants: Variants

    def cases(self, precision: str | None = None) -> Iterable[tuple[ProblemRow, DynamicCase]]:
        """Yield each graph in the given precision, or in the precision in which updates are timed."""
        for line in self.lines:
            yield line, DynamicCase(self.campaign, line.problem, precision or operation_precision(self.campaign))


def _case_number(line: ProblemRow, name: str, pair: TimePair) -> CaseNumber | None:
    ratio = ratio_of(*pair)
    remark = (line.record.remark,) if line.record and line.record.remark else ()
    return CaseNumber(ratio, name, remark, interval_of_ratio(*pair)) if ratio else None


def _of_updates(pair: Callable[[DynamicCase], TimePair], statistic: StatisticName) -> Quantity[PaperGraphs]:
    """Return a function that measures one time of an update over another, for each graph."""

    def measure(graphs: PaperGraphs) -> Measured:
        if graphs.variants != UPDATES:
            return Measured([])
        numbers, missing = [], []
        for line, case in graphs.cases():
            if number := _case_number(line, line.problem, pair(case)):
                numbers.append(number)
            else:
                missing.append(MissingCase(line.problem, "not timed" if case.measured else case.why_not()))
        return Measured(numbers, missing)

    return Quantity(measure, statistic)


def _over_rivals(case: DynamicCase) -> TimePair:
    """Two times in the iterative test: of the faster of HYB and CSR, and of dynamic CSR."""
    (hyb, dynamic), (_, csr) = iterative_pair(DCSR)(case), iterative_pair(REBUILD)(case)
    return min((one for one in (hyb, csr) if one), key=lambda time: time.seconds, default=None), dynamic


def _over_sort(case: DynamicCase) -> TimePair:
    return case.time(HYB_SORT, OPERATION_CLOCK), case.time(DEFRAGMENTATION, OPERATION_CLOCK)


def _of_products(first: Method, second: Method) -> Quantity[PaperGraphs]:
    """Return a function that measures the mean of one product's time over another's, over graphs and precisions."""

    def measure(graphs: PaperGraphs) -> Measured:
        if graphs.variants != PRODUCTS:
            return Measured([])
        numbers = []
        for precision in graphs.campaign.precisions:
            for line, case in graphs.cases(precision):
                pair = case.time(first, PRODUCT_CLOCK), case.time(second, PRODUCT_CLOCK)
                numbers.append(_case_number(line, f"{line.problem} ({ABBREVIATIONS[precision]})", pair))
        return Measured([number for number in numbers if number])

    return Quantity(measure, "arithmetic mean")


def _memory(segments: str, statistic: StatisticName) -> Quantity[PaperGraphs]:
    """Return a function that measures the bytes of dynamic CSR over HYB's, counted as in the paper."""

    def measure(graphs: PaperGraphs) -> Measured:
        recorded = operation_times(graphs.campaign, graphs.lines)
        counted = [(times.line.problem, times.facts.get("memory", {}).get("paper")) for times in recorded]
        return Measured(
            [CaseNumber(sizes[segments] / sizes["HYB"], name) for name, sizes in counted if sizes and sizes["HYB"]]
        )

    return Quantity(measure, statistic)


def _on_devices(devices: int, precision: str | None = None, graph: str | None = None) -> Quantity[PaperGraphs]:
    """Measure the time on one device over the time on several, for single launches or steps within a launch."""

    def measure(graphs: PaperGraphs) -> Measured:
        if graphs.variants != PRODUCTS or (precision and precision not in graphs.campaign.precisions):
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
    """Count the graphs for which CSR ran out of memory."""
    numbers, missing = [], []
    for name in LARGE_GRAPHS:
        case = DynamicCase(graphs.campaign, name, operation_precision(graphs.campaign))
        rows = case.select(**REBUILD.columns, what="iterate")
        if rows:
            failed = not any(row.timed for row in rows)
            numbers.append(CaseNumber(float(failed), name))
        else:
            missing.append(MissingCase(name, "not in this campaign" if not case.rows else "not tried"))
    return Measured([] if missing else numbers, missing)


QUANTITIES: ClaimQuantities[PaperGraphs] = {
    "streaming_mean": _of_updates(streaming_pair(SORTED), "arithmetic mean"),
    "streaming_any_mean": _of_updates(streaming_pair(ANY), "arithmetic mean"),
    "streaming_most": _of_updates(streaming_pair(SORTED), "most"),
    "streaming_least": _of_updates(streaming_pair(SORTED), "least"),
    "streaming_any_least": _of_updates(streaming_pair(ANY), "least"),
    "iterative_most": _of_updates(iterative_pair(DCSR), "most"),
    "iterative_least": _of_updates(_over_rivals, "least"),
    "defragmentation_mean": _of_updates(_over_sort, "arithmetic mean"),
    "fragmented_mean": _of_products(FRAGMENTED, DEFRAGMENTED),
    "defragmented_mean": _of_products(DEFRAGMENTED, CSR),
    "adaptive_mean": _of_products(HYB_PRODUCT, ADAPTIVE),
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


@table(STUDY_NAME, "table-claims", title="The paper’s claims, and the verdict on each", numbering=f"text of {PAPER}")
def claims(campaign: Campaign, published: Published) -> Table:
    def data(measured: Campaign, variants: Variants) -> PaperGraphs | None:
        if variants == "as_published":
            return None
        sweeps = {sweep.line.problem for sweep in batch_sweeps(measured, published)}
        lines = tuple(line for line in ours(measured, published) if line.problem not in sweeps)
        return PaperGraphs(measured, lines, variants)

    return claims_table(campaign, load_claims(STUDY_NAME), QUANTITIES, data)
