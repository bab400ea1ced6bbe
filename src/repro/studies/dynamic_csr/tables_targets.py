"""Targets and what was reached, and what the paper's text states of all its graphs beside the same of ours.

A quantity of `config/targets/dynamic_csr.csv` is measured case by case; where there is no number, the reason is
told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean, median
from typing import Literal, NamedTuple

from repro.bench.runnable import ClockName
from repro.results.campaign_data import Campaign, Case, ReportedTime, fastest_time
from repro.results.problem_rows import (
    ABBREVIATIONS,
    ProblemRow,
    cpu_note,
    join_sentences,
    measurement_note,
    ours,
    unavailable_note,
)
from repro.results.published import Published, Record
from repro.results.registry import table
from repro.results.significance import ratio_of
from repro.results.tables import CaseNumber, Cell, Column, Table, target_columns, target_line, wanted_on
from repro.studies.dynamic_csr import PAPER, PRODUCTS_PER_BATCH, STUDY, stated_record
from repro.studies.dynamic_csr.results import (
    ADAPTIVE,
    BY_HOST,
    DCSR,
    DEFRAGMENTED,
    FRAGMENTED,
    HYB,
    OPERATION_CLOCK,
    PRODUCT_CLOCK,
    REBUILD,
    ProductTimes,
    UpdateProtocol,
    batch_sweeps,
    device_times_of,
    fastest_operation,
    fastest_update,
    is_host_timed,
    iterative_pair,
    operation_precision,
    product_times,
    product_times_of,
    published_cell,
    recorded_facts,
    streaming_pair,
)

#: The problem that the rates are wanted of: 2^20 rows, entries in uniformly drawn ones.
RANDOM_PROBLEM = "large/sweep_uniform"
#: The largest batches that a rebuild is held against.
MAX_REBUILT_BATCH = 30_000
BILLION, MICRO = 1e9, 1e6
#: The clocks that products are compared by: what is aimed at, and what is told beside it.
PRODUCT_CLOCKS: tuple[ClockName, ...] = (PRODUCT_CLOCK, "event")


class TargetNumbers(NamedTuple):
    """What was measured of a quantity: numbers, why there are none, and what is to be said of them all."""

    numbers: list[CaseNumber]
    missing: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class TargetInputs:
    """What the numbers are made from: the lines of a campaign, their cases, and the products by clock."""

    campaign: Campaign
    published: Published
    cases: list[tuple[ProblemRow, Case]]
    products: Mapping[ClockName, list[ProductTimes]]


@dataclass(frozen=True)
class Quantity:
    """How a quantity is measured.

    Attributes
    ----------
    measure
        Returns its numbers.
    statistic
        What is wanted of them: one number for all, or the worst.
    at_most
        Whether less is better.
    """

    measure: Callable[[TargetInputs], TargetNumbers]
    statistic: Literal["mean", "median", "worst"] = "worst"
    at_most: bool = False


def target_values(campaign: Campaign, published: Published) -> dict[str, TargetNumbers]:
    """Return what was measured of each quantity."""
    lines = ours(campaign, published)
    cases = [(line, Case(campaign, line.problem, operation_precision(campaign))) for line in lines]
    products = {
        clock: [
            item for precision in campaign.precisions for item in product_times(campaign, published, precision, clock)
        ]
        for clock in PRODUCT_CLOCKS
    }
    records = TargetInputs(campaign, published, cases, products)
    return {name: quantity.measure(records) for name, quantity in QUANTITIES.items()}


# updates -------------------------------------------------------------------------------------------------------------


def _batch_numbers(
    sizes: Iterable[int],
    protocols: Iterable[UpdateProtocol],
    number: Callable[[int, float], float],
    records: TargetInputs,
) -> TargetNumbers:
    """Measure batches of random entries, each alone."""
    numbers: list[CaseNumber] = []
    absent = []
    case = Case(records.campaign, RANDOM_PROBLEM, operation_precision(records.campaign))
    for size in sizes:
        for protocol in protocols:
            batch = fastest_update(case, DCSR, "batch", protocol, batch=size)
            if batch:
                name = f"{RANDOM_PROBLEM}, {size:,}, {protocol.title}"
                numbers.append(CaseNumber(number(size, batch.seconds), name, _time_notes(batch)))
            else:
                absent.append(f"{size:,} ({protocol.title})")
    why = "not in this campaign" if RANDOM_PROBLEM not in records.campaign.problems else None
    if why is None and not case.measured:
        why = case.why_not()
    missing = f"{RANDOM_PROBLEM}: {why or 'no batch of ' + ' or '.join(absent) + ' was timed'}"
    # a worst one of some is none of all
    return TargetNumbers([] if absent else numbers, missing)


def _update_rate(size: int, seconds: float) -> float:
    return size / seconds / BILLION


def _over_hybrid(records: TargetInputs) -> TargetNumbers:
    """Measure streaming into HYB over streaming into dynamic CSR, by row; in any order is told beside it."""
    by_order: dict[str, list[CaseNumber]] = {}
    sweeps = _sweep_problems(records)
    for order in ("sorted", "any"):
        by_order[order] = [
            CaseNumber(theirs.seconds / dynamic.seconds, *_case_label(line, theirs, dynamic))
            for line, case in records.cases
            if line.problem not in sweeps
            and (dynamic := fastest_update(case, DCSR, "stream", UpdateProtocol(order, "add")))
            and (theirs := fastest_update(case, HYB, "stream", UpdateProtocol(order, "add")))
        ]
    others = by_order["any"]
    notes = (f"entries in any order: {fmean(number.value for number in others):.2f}",) if others else ()
    return TargetNumbers(by_order["sorted"], "no matrix was streamed by row into both", notes)


def _over_rebuild(least: int, records: TargetInputs) -> TargetNumbers:
    """Measure rebuilding CSR over inserting, wherever both were timed with batches that are small enough."""
    numbers = []
    sweeps = _sweep_problems(records)
    for line, case in records.cases:
        if grown_entries(line) < least:
            continue
        for order in ("any", "sorted"):
            protocol = UpdateProtocol(order, "add")
            asked = [("batch", size) for size in _batch_sizes(case, "batch")]
            if line.problem not in sweeps:  # whose batches are of all sizes
                asked += [("insert", size) for size in _batch_sizes(case, "insert")]
            for what, size in asked:
                dynamic = fastest_update(case, DCSR, what, protocol, batch=size)
                rebuilt = fastest_update(case, REBUILD, what, protocol, batch=size)
                if dynamic and rebuilt:
                    name, notes = _case_label(line, dynamic, rebuilt)
                    label = f"{name}, batches of {size:,}, {protocol.title}"
                    numbers.append(CaseNumber(rebuilt.seconds / dynamic.seconds, label, notes))
    return TargetNumbers(numbers, f"no batch of up to {MAX_REBUILT_BATCH:,} was timed with both")


def _sweep_problems(records: TargetInputs) -> set[str]:
    """Return the problems whose batches are of growing sizes."""
    return {sweep.line.problem for sweep in batch_sweeps(records.campaign, records.published)}


def _batch_sizes(case: Case, what: str) -> list[int]:
    """Return the batches of an update's rows that a rebuild is held against."""
    sizes = {int(row["batch"]) for row in case.rows if row.get("what") == what and row.get("batch")}
    return sorted(size for size in sizes if size <= MAX_REBUILT_BATCH)


def _defragmentation(least: int, records: TargetInputs) -> TargetNumbers:
    """Measure the bytes that defragmentation moves in a second over those of a copy."""
    numbers = []
    for line, case in records.cases:
        defragmentation = fastest_operation(case, what="defragment", format="dcsr")
        copy = case.bound("copy", OPERATION_CLOCK)
        if grown_entries(line) >= least and defragmentation and copy and defragmentation.row["bytes"]:
            speeds = [float(item.row["bytes"]) / item.seconds for item in (defragmentation, copy)]
            numbers.append(CaseNumber(speeds[0] / speeds[1], *_case_label(line, defragmentation, copy)))
    return TargetNumbers(numbers, f"no matrix of {least:,} entries and more has a time of both")


# products ------------------------------------------------------------------------------------------------------------


def _product_ratios(
    ratio: Callable[[ProductTimes], float | None],
    missing: str,
    records: TargetInputs,
    sweeps: bool = True,
    clock: ClockName = PRODUCT_CLOCK,
) -> TargetNumbers:
    """Measure a ratio of products; without sweeps where it is wanted of graphs that have grown by a tenth."""
    left_out = set() if sweeps else _sweep_problems(records)
    numbers = [
        CaseNumber(value, f"{times.line.problem} ({ABBREVIATIONS[times.case.precision]})", _problem_remark(times.line))
        for times in records.products[clock]
        if times.line.problem not in left_out and (value := ratio(times)) is not None
    ]
    return TargetNumbers(numbers, missing)


def _over_csr(times: ProductTimes) -> float | None:
    return times.csr_twins[1].seconds / times.csr_twins[0].seconds if times.csr_twins else None


def _over_defragmented(times: ProductTimes) -> float | None:
    return times.state_twins[0].seconds / times.state_twins[1].seconds if times.state_twins else None


def _over_ours(times: ProductTimes) -> float | None:
    return ratio_of(times.library, times.ours)


def _device_ratios(devices: int, exchange: str, least: int, records: TargetInputs) -> TargetNumbers:
    """Measure the fastest product on one device over one of the steps on several."""
    numbers = []
    for line, case in records.cases:
        if grown_entries(line) < least:
            continue
        times = device_times_of(line, case)
        step = times.overlapped(devices) if exchange == "overlapped" else times.alone(devices)
        alone = times.alone(1)
        ones = [one for one in (times.variant, alone.reported_time if alone else None) if one]
        if step and ones:
            one = min(ones, key=lambda timed: timed.seconds)
            numbers.append(CaseNumber(one.seconds / step.seconds, *_case_label(line, one, step.reported_time)))
    way = "with the exchange overlapped" if exchange == "overlapped" else "without an exchange"
    missing = f"no matrix of {least:,} entries and more has times on one device and, {way}, on {devices} devices"
    return TargetNumbers(numbers, missing)


# words ---------------------------------------------------------------------------------------------------------------


def grown_entries(line: ProblemRow) -> int:
    """Return the entries of a grown matrix; 0 where they are not on record."""
    facts = recorded_facts(line)
    return int(facts["nonzeros"] + facts.get("batches", {}).get("entries", 0)) if facts else 0


def _problem_remark(line: ProblemRow) -> tuple[str, ...]:
    return (line.record.remark,) if line.record and line.record.remark else ()


def _case_label(line: ProblemRow, *times: ReportedTime) -> tuple[str, tuple[str, ...]]:
    """Return the name of a case, and the remarks on its problem and its times."""
    return line.problem, (*_problem_remark(line), *dict.fromkeys(note for time in times for note in _time_notes(time)))


def _time_notes(time: ReportedTime) -> tuple[str, ...]:
    """Return what is to be said of a time."""
    return (*time.notes, *((BY_HOST,) if is_host_timed(time) else ()))


_ANY, _ANY_UNIQUE, _SORTED = (
    UpdateProtocol("any", "add"),
    UpdateProtocol("any", "unique"),
    UpdateProtocol("sorted", "add"),
)
_TWINS = "no two products under one schedule were timed"
_LIBRARY = "no product of the library and of ours was timed"
#: By their names in `config/targets/dynamic_csr.csv`.
QUANTITIES: Mapping[str, Quantity] = {
    "random_1e6_rate": Quantity(partial(_batch_numbers, (10**6,), (_ANY,), _update_rate)),
    "random_1e7_rate": Quantity(partial(_batch_numbers, (10**7,), (_ANY,), _update_rate)),
    "unique_rate": Quantity(partial(_batch_numbers, (10**6, 10**7), (_ANY_UNIQUE,), _update_rate)),
    "batch_1e3_micro": Quantity(
        partial(_batch_numbers, (1000,), (_ANY,), lambda size, seconds: seconds * MICRO), at_most=True
    ),
    "sorted_1e7_rate": Quantity(partial(_batch_numbers, (10**7,), (_SORTED,), _update_rate)),
    "hybrid_mean": Quantity(_over_hybrid, "mean"),
    "rebuild_worst": Quantity(partial(_over_rebuild, 8 * 10**6)),
    "defragmented_median": Quantity(partial(_product_ratios, _over_csr, _TWINS), "median", at_most=True),
    "defragmented_worst": Quantity(partial(_product_ratios, _over_csr, _TWINS), at_most=True),
    "fragmented_median": Quantity(
        partial(_product_ratios, _over_defragmented, _TWINS, sweeps=False), "median", at_most=True
    ),
    "fragmented_worst": Quantity(partial(_product_ratios, _over_defragmented, _TWINS, sweeps=False), at_most=True),
    "library_worst": Quantity(partial(_product_ratios, _over_ours, _LIBRARY)),
    "library_median": Quantity(partial(_product_ratios, _over_ours, _LIBRARY), "median"),
    "event_defragmented_median": Quantity(
        partial(_product_ratios, _over_csr, _TWINS, clock="event"), "median", at_most=True
    ),
    "event_fragmented_median": Quantity(
        partial(_product_ratios, _over_defragmented, _TWINS, sweeps=False, clock="event"), "median", at_most=True
    ),
    "event_library_median": Quantity(partial(_product_ratios, _over_ours, _LIBRARY, clock="event"), "median"),
    "defragmentation_worst": Quantity(partial(_defragmentation, 10**7)),
    "devices_2_worst": Quantity(partial(_device_ratios, 2, "none", 10**7)),
    "devices_4_worst": Quantity(partial(_device_ratios, 4, "none", 10**7)),
    "overlapped_2_worst": Quantity(partial(_device_ratios, 2, "overlapped", 5 * 10**7)),
    "overlapped_4_worst": Quantity(partial(_device_ratios, 4, "overlapped", 5 * 10**7)),
}


TARGET_STATISTICS: Mapping[str, Callable[[Iterable[float]], float]] = {"mean": fmean, "median": median}


@table(STUDY, "table-targets", title="Targets, and what was reached", numbering="ours")
def targets(campaign: Campaign, published: Published) -> Table:
    """Each target with the wanted number, the measured one, and the worst case; or why there is none."""
    measured = target_values(campaign, published)
    caption = [
        "What was aimed at and what was reached. Updates: a batch alone into the matrix before the first batch; added:",
        "entries of one place come beside each other; unique: each place once. HYB: the grown matrix as one batch into",
        "an empty one, in the order of its rows. Rebuilding: counting, adding up and copying, in either order of the",
        "entries, of batches alone and of all batches of a problem. Products: as in the table of products, where each",
        "problem and precision is a case; fragmented: of graphs that have grown by a tenth, which sweeps have not.",
        "Defragmentation: bytes moved in a second over those of a copy. Several devices: over the fastest product on",
        "one.",
        f"Updates, defragmentation and several devices: {operation_precision(campaign)} precision.",
        measurement_note(campaign, OPERATION_CLOCK),
        f"Products, also over several devices: by the {PRODUCT_CLOCK} clock, where a line does not say events; both",
        "clocks are recorded of them, events alone of the rest.",
        wanted_on(campaign),
        unavailable_note(campaign),
    ]
    rows = [_target_row(item, measured[item["quantity"]]) for item in published.targets]
    return Table(target_columns(campaign), rows, join_sentences(caption))


def _target_row(item: Record, measured: TargetNumbers) -> tuple[Cell, ...]:
    """Return the line of a target."""
    quantity = QUANTITIES[item["quantity"]]
    return target_line(
        item,
        measured.numbers,
        at_most=quantity.at_most,
        statistic=TARGET_STATISTICS.get(quantity.statistic),
        missing=measured.missing,
        notes=measured.notes,
    )


STATEMENT_STATISTICS: Mapping[str, Callable[[Sequence[float]], float]] = {"mean": fmean, "largest": max}


@dataclass(frozen=True)
class PaperGraphs:
    """The graphs of a campaign.

    Attributes
    ----------
    campaign
        Which.
    lines
        Of those whose batches are of one size, as the paper's are.
    """

    campaign: Campaign
    lines: list[ProblemRow]

    def cases(self, precision: str | None = None) -> Iterable[tuple[ProblemRow, Case]]:
        """Return each graph with its case, in a precision or in the one that updates are printed in."""
        precision = precision or operation_precision(self.campaign)
        return [(line, Case(self.campaign, line.problem, precision)) for line in self.lines]

    def products(self) -> Iterable[ProductTimes]:
        """Return the products of each graph in each precision."""
        return [product_times_of(line, of, self.campaign) for of in self.campaign.precisions for line in self.lines]


StatementNumbers = Iterable[float | None]


@dataclass(frozen=True)
class Statement:
    """One line.

    Attributes
    ----------
    what
        As printed.
    published, precision
        By which the paper's number is found.
    measure
        Returns ours, of each graph.
    statistic
        What is printed of them.
    """

    what: str
    published: str
    measure: Callable[[PaperGraphs], StatementNumbers]
    statistic: Literal["mean", "largest"] = "mean"
    precision: str = ""


def _by_case(number: Callable[[Case], float | None], graphs: PaperGraphs) -> StatementNumbers:
    return (number(case) for _, case in graphs.cases())


def _by_product(first: str, second: str, graphs: PaperGraphs) -> StatementNumbers:
    """Return the first of two times over the second, of each graph and precision."""
    return (ratio_of(getattr(times, first), getattr(times, second)) for times in graphs.products())


def _by_order(graphs: PaperGraphs) -> StatementNumbers:
    """Return the adaptive product in the order of the matrix's rows over the one in that of their sizes."""
    return (ratio_of(*(_streams(times.case, of) for of in ("defragmented", "sorted"))) for times in graphs.products())


def _streams(case: Case, state: str) -> ReportedTime | None:
    asked = {"what": "product", "space": "paper", "schedule": "streams", "state": state}
    return fastest_time([row for row in case.rows if asked.items() <= row.items()], PRODUCT_CLOCK)


def _over_sort(case: Case) -> float | None:
    return ratio_of(
        fastest_operation(case, what="sort", format="hyb"), fastest_operation(case, what="defragment", format="dcsr")
    )


def _memory_ratios(graphs: PaperGraphs) -> StatementNumbers:
    counted = [recorded_facts(line).get("memory", {}).get("paper") for line in graphs.lines]
    return (sizes["DCSR-4"] / sizes["HYB"] for sizes in counted if sizes and sizes["HYB"])


def _on_two(precision: str, graphs: PaperGraphs) -> StatementNumbers:
    """Return the speedups of a launch each on two devices, without an exchange."""
    times = (device_times_of(line, case) for line, case in graphs.cases(precision))
    return (of.speedup(of.alone(2, repeated=False), repeated=False) for of in times)


_STREAMED = partial(_by_case, lambda case: ratio_of(*streaming_pair("sorted")(case)))
_ITERATED = partial(_by_case, lambda case: ratio_of(*iterative_pair(DCSR)(case)))
_TWO_DEVICES = "speedup of two GPUs, mean"
STATEMENTS = (
    Statement("streaming updates: speedup over HYB, mean", "speedup of streaming updates over HYB, mean", _STREAMED),
    Statement("streaming updates: speedup over HYB, largest", "speedup of streaming updates over HYB, largest",
              _STREAMED, "largest"),
    Statement("iterative updates: speedup over HYB, largest", "speedup of iterative updates over HYB, largest",
              _ITERATED, "largest"),
    Statement("defragmentation: speedup over the sort of HYB, mean",
              "speedup of defragmentation over the sort of HYB, mean", partial(_by_case, _over_sort)),
    Statement("product: time of fragmented over defragmented, mean", FRAGMENTED,
              partial(_by_product, "fragmented", "defragmented")),
    Statement("product: time of defragmented over CSR, mean", DEFRAGMENTED,
              partial(_by_product, "defragmented", "csr")),
    Statement("product: speedup of ADCSR over HYB, mean", ADAPTIVE, partial(_by_product, "hyb", "adaptive")),
    Statement("product: speedup of ADCSR by rows in the order of their sizes, mean",
              "speedup of the product by rows in the order of their sizes", _by_order),
    Statement("memory: four segments a row over HYB, mean", "memory of four segments over HYB, mean", _memory_ratios),
    Statement("product on two devices: speedup in single precision, mean", _TWO_DEVICES, partial(_on_two, "single"),
              precision="single"),
    Statement("product on two devices: speedup in double precision, mean", _TWO_DEVICES, partial(_on_two, "double"),
              precision="double"),
)  # fmt: skip


@table(STUDY, "table-text", title="What the paper’s text states, beside ours", numbering=f"text of {PAPER}")
def text(campaign: Campaign, published: Published) -> Table:
    """A line a statement: the paper's number, ours, and the least and the largest of ours."""
    sweeps = {sweep.line.problem for sweep in batch_sweeps(campaign, published)}
    graphs = PaperGraphs(campaign, [line for line in ours(campaign, published) if line.problem not in sweeps])
    columns = (
        Column("statement", "statement", numeric=False),
        Column("published", "K20c", "published"),
        Column("ours", "ours", campaign.column),
        Column("least", "least", campaign.column),
        Column("largest", "largest", campaign.column),
        Column("cases", "cases", campaign.column),
    )
    caption = [
        f"What the text of {PAPER} states of all its graphs, and the same of ours; graphs whose batches are of growing",
        "sizes are not among them. Streaming: the whole matrix as one batch, by row, into an empty one, HYB’s sort",
        f"included. Iterative: batches, each followed by {PRODUCTS_PER_BATCH} products, as in Figure 5.3. Products: by",
        "the paper’s schedules, each with the best number of threads a row, ADCSR in its best state; a case is a graph",
        "in a precision. In the order of their sizes: ADCSR, defragmented, over the same with its rows stored by size.",
        "Memory: counted as the paper does, before the first batch; it depends on no device. Two devices: a launch",
        "each, without an exchange.",
        f"Updates and defragmentation: {operation_precision(campaign)} precision; the paper does not say in which.",
        measurement_note(campaign, OPERATION_CLOCK),
        f"Products, also on two devices: by the {PRODUCT_CLOCK} clock.",
        cpu_note(campaign),
        unavailable_note(campaign),
    ]
    return Table(columns, [_statement_row(item, graphs, published) for item in STATEMENTS], join_sentences(caption))


def _statement_row(item: Statement, graphs: PaperGraphs, published: Published) -> tuple[Cell, ...]:
    record = stated_record(published, item.published, item.precision)
    theirs = published_cell(record["value"] if record else None)
    numbers = [number for number in item.measure(graphs) if number is not None]
    if not numbers:
        return (Cell(item.what), theirs, Cell(notes=("of no graph was this measured",)), Cell(), Cell(), Cell(0))
    values = (STATEMENT_STATISTICS[item.statistic](numbers), min(numbers), max(numbers))
    return (Cell(item.what), theirs, *(Cell(value, f"{value:.2f}") for value in values), Cell(len(numbers)))
