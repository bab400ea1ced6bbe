"""The paper's tables beside our numbers (5.1 to 5.4), and our tables of rates and targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from statistics import fmean
from typing import Any

from repro.results.campaign_data import Campaign, Method
from repro.results.claims import target_device_note, targets_table
from repro.results.columns import (
    MEAN_AND_LEAST,
    MICRO,
    PROBLEM,
    add_row_keys,
    count,
    number_cell,
    problem_column,
    ratio,
    speedup_column,
    statistics,
    time_column,
)
from repro.results.common_tables import register_baselines
from repro.results.comparisons import Cases
from repro.results.problem_lines import cpu_note, join_sentences, measurement_note, problem_lines, unavailable_note
from repro.results.published import Published, Record
from repro.results.registry import table
from repro.results.significance import ratio_of
from repro.results.tables import Cell, Column, Statistic, SummaryLine, Table, table_of
from repro.studies.dynamic_csr import (
    CITED,
    KIB,
    MIB,
    PRODUCTS_PER_BATCH,
    PUBLISHED_CLOCK,
    STATED_ADAPTIVE,
    STATED_DEFRAGMENTED,
    STATED_FRAGMENTED,
    STUDY_NAME,
    TWO_DEVICES,
    results,
    stated_record,
)
from repro.studies.dynamic_csr.claims import CLAIM_QUANTITIES as CLAIMED
from repro.studies.dynamic_csr.claims import TARGET_QUANTITIES, Graph, graphs_of
from repro.studies.dynamic_csr.ids import DynamicRow
from repro.studies.dynamic_csr.tables_products import MEAN
from repro.words import PAPER

#: Note for a table that shows published numbers beside our numbers if the campaign has other problems.
OWN_MEANS = "Each mean covers its own column: published means cover all graphs of the paper, ours cover our problems."


@dataclass(frozen=True)
class PublishedTimes(results.Times):
    """The measured times of a problem, together with the published values for this problem."""

    theirs: Record | None

    def printed(self, name: str) -> Cell:
        return results.published_cell(self.theirs[name] if self.theirs else None)


def published_times(campaign: Campaign, published: Published, file: str) -> list[PublishedTimes]:
    published_rows = {item["problem"]: item for item in published[file]}
    return [
        PublishedTimes(times.line, times.case, published_rows.get(times.line.published or ""))
        for times in results.operation_times(campaign, problem_lines(campaign, published))
    ]


def _printed_column(
    name: str, title: str, group: str, summary: Mapping[str, Statistic] = MEAN
) -> Column[PublishedTimes]:
    return Column(f"published_{name}", title, group, cell=lambda case: case.printed(name), summary=summary)


#: From this length on, the paper prints the length of the longest row in thousands.
IN_THOUSANDS_FROM = 10_000
#: Column heads, and the functions that format counts and lengths.
SIZES: Mapping[str, tuple[str, Callable[[Any], Cell]]] = {
    "nonzeros": ("non-zeros", lambda number: results.short_count(number, "KM")),
    "rows": ("rows", lambda number: results.short_count(number, "K")),
    "columns": ("columns", lambda number: results.short_count(number, "K")),
    "mean": ("mean row", lambda number: Cell(number, str(int(number)))),
    "deviation": ("deviation", lambda number: Cell(number, f"{number:.0f}")),
    "longest": ("longest row", lambda number: results.short_count(number, "K", IN_THOUSANDS_FROM)),
}


@table(STUDY_NAME, "table-5-1", title="The matrices", numbering=f"Table 5.1 of {CITED}")
def graphs(campaign: Campaign, published: Published) -> Table:
    def own_cell(key: str, case: PublishedTimes) -> Cell:
        return SIZES[key][1](case.facts[key]) if case.facts else Cell()

    columns = (
        PROBLEM,
        *(_printed_column(key, title, "published", {}) for key, (title, _) in SIZES.items()),
        *(Column(key, title, "ours", cell=partial(own_cell, key)) for key, (title, _) in SIZES.items()),
    )
    caption = [
        "The matrices before the first batch of updates: sizes, and mean, standard deviation and maximum of the",
        f"entries per row, published in Table 5.1 of {CITED} and ours. Both are printed as in the paper: counts in",
        "thousands (K) and millions (M), the mean truncated, and the deviation from the truncated mean, rounded.",
        "The CSV file has our numbers in full.",
        "They do not depend on the device.",
        unavailable_note(campaign),
    ]
    return table_of(columns, published_times(campaign, published, "sizes"), join_sentences(caption))


MEMORY_FORMATS = ("DCSR-2", "DCSR-3", "DCSR-4", "CSR")
#: Our groups of columns: key in the record's `memory`, key of the columns, and head.
MEMORY_COUNTS = (
    ("paper", "counted_as_paper", "ours, counted as the paper does"),
    ("single", "single", "ours, everything, single precision"),
    ("double", "double", "ours, everything, double precision"),
)


_fraction = partial(number_cell, spec=".3f")
MEAN_FRACTION = statistics(_fraction, {"mean": fmean})


@table(STUDY_NAME, "table-5-2", title="Memory of the formats", numbering=f"Table 5.2 of {CITED}")
def memory(campaign: Campaign, published: Published) -> Table:
    def printed_size(case: PublishedTimes) -> Cell:
        size = case.theirs["HYB"] if case.theirs else None
        return Cell(int(size.removesuffix("M")) * MIB, size) if size else Cell()

    columns = (
        PROBLEM,
        Column[PublishedTimes]("published_HYB", "HYB", "published", cell=printed_size),
        *(_printed_column(name, name, "published", MEAN_FRACTION) for name in MEMORY_FORMATS),
        *(column for count_name, key, title in MEMORY_COUNTS for column in _memory_columns(count_name, key, title)),
    )
    caption = [
        "Memory of the matrices before the first batch of updates. HYB: its size in MiB (M), or in KiB (K) below one,",
        "truncated. Dynamic CSR, with room for two, three and four segments per row, and CSR: fractions of that size.",
        f"Published in Table 5.2 of {CITED}, and ours, which does not depend on the device. The paper counts values of",
        "4 bytes, and the table of segments but not the sizes of the rows. The width of its regular part of HYB is the",
        "mean row, truncated and rounded up to a multiple of 4; its text names the mean itself. Everything: also the",
        "sizes of the rows, the table’s padding and the state. Neither includes room for growth.",
        "A stand-in has as many entries beyond HYB’s width as the published size of HYB implies, so it agrees with",
        "this table by construction.",
        OWN_MEANS,
        unavailable_note(campaign),
    ]
    return table_of(columns, published_times(campaign, published, "memory"), join_sentences(caption), ("mean",))


def _memory_columns(count_name: str, key: str, title: str) -> tuple[Column[results.Times], ...]:
    def size(case: results.Times) -> Cell:
        nbytes = case.facts.get("memory", {}).get(count_name, {}).get("HYB")
        return Cell(nbytes, f"{nbytes // MIB}M" if nbytes >= MIB else f"{nbytes // KIB}K") if nbytes else Cell()

    def fraction(name: str, case: results.Times) -> Cell:
        formats = case.facts.get("memory", {}).get(count_name, {})
        return _fraction(formats[name] / formats["HYB"] if formats.get("HYB") else None)

    fractions = (
        Column(f"{key}_{name}", name, title, cell=partial(fraction, name), summary=MEAN_FRACTION)
        for name in MEMORY_FORMATS
    )
    return (Column(f"{key}_HYB", "HYB", title, cell=size), *fractions)


def _ratio_columns(
    campaign: Campaign, titles: Mapping[str, str], operations: Sequence[Method], base: Method, missing_reason: str
) -> tuple[Column[PublishedTimes], ...]:
    """Return columns of operation time over base time, published and ours; a failed base is a note on the name."""

    def ratio_cell(operation: Method, case: PublishedTimes) -> Cell:
        time = case[operation]  # no mark for the base's time: the base has its own column
        cell = ratio(ratio_of(time, case[base]))
        return add_row_keys(replace(cell, notes=time.notes), time) if time and case[base] else Cell()

    return (
        problem_column(lambda case: None if case[base] else missing_reason),
        *(_printed_column(key, title, "published, K20c") for key, title in titles.items()),
        *(
            Column(task.key, task.title, campaign.column, cell=partial(ratio_cell, task), summary=MEAN)
            for task in operations
        ),
        time_column(f"{base.key}_us", f"{base.title}, µs", campaign.column, base),
    )


@table(STUDY_NAME, "table-5-3", title="Conversions between formats", numbering=f"Table 5.3 of {CITED}")
def conversions(campaign: Campaign, published: Published) -> Table:
    titles = {conversion.key: conversion.title for conversion in results.CONVERSIONS}
    columns = _ratio_columns(campaign, titles, results.CONVERSIONS, results.COPY, "no copy from CSR to CSR was timed")
    caption = [
        "The time of a conversion over that of copying the three arrays of CSR.",
        f"Published in Table 5.3 of {CITED}; ours with the grown matrix, into memory allocated before. Coordinates",
        "are sorted by row; dynamic CSR gets one segment per row, and becomes CSR by defragmentation. HYB’s regular",
        "part has the width from which the paper’s Table 5.2 follows.",
        f"{results.operation_precision(campaign).capitalize()} precision; the paper does not state the precision of",
        "its conversions.",
        PUBLISHED_CLOCK,
        OWN_MEANS,
        measurement_note(campaign, results.OPERATION_CLOCK),
        cpu_note(campaign),
        unavailable_note(campaign),
    ]
    return table_of(columns, published_times(campaign, published, "conversions"), join_sentences(caption), ("mean",))


#: Columns of the published table, with their heads.
PUBLISHED_OPERATIONS = {
    "DCSR_defragment": "DCSR defragmentation",
    "HYB_sort": "HYB sort",
    "DCSR_update": "DCSR update",
    "HYB_update": "HYB update",
}
#: The updates by ours and by HYB, of each order.
UPDATES = tuple(
    tuple(
        Method(
            f"{format_method.title}_{order}",
            f"{format_method.title}, {order_title}",
            columns={**format_method.columns, "what": "stream", "order": order, "mode": "add"},
        )
        for format_method in (results.DCSR, results.HYB)
    )
    for order, order_title in (("sorted", "by row"), ("any", "any order"))
)
OPERATIONS = (results.DEFRAGMENTATION, results.HYB_SORT, *chain.from_iterable(UPDATES))
#: Summary lines of speedups over the paper's graphs, without the matrices that are swept by sizes of batches.
GRAPH_LINES = tuple(
    SummaryLine[PublishedTimes](f"{name}, the paper’s graphs", name, lambda case: case.line.published is not None)
    for name in MEAN_AND_LEAST
)
#: Sentence that distinguishes our measurements from the paper's in tables of updates.
PUBLISHED_SENTENCE = (
    "DCSR: our kernels. Published: the paper’s algorithms 4, 5 and 7, with four threads per row and the mean row "
    "length as slack. By row, the batch includes the bounds of its rows; in any order, the time includes sorting it."
)


@table(
    STUDY_NAME,
    "table-5-4",
    title="Updates, defragmentation and sort",
    numbering=f"Table 5.4 of {CITED}",
    lead=(
        *("HYB_over_DCSR_sorted", "HYB_over_DCSR_any", "published_DCSR_update", "published_HYB_update"),
        *("DCSR_sorted", "HYB_sorted", "DCSR_any", "HYB_any"),
    ),
)
def updates(campaign: Campaign, published: Published) -> Table:
    missing_reason = "no product with CSR was timed"
    cases = published_times(campaign, published, "operations")
    published_operations = [results.as_published(operation) for operation in OPERATIONS if "space" in operation.columns]
    shown_operations = [
        *OPERATIONS,
        *(operation for operation in published_operations if any(case[operation] for case in cases)),
    ]
    columns = (
        *_ratio_columns(campaign, PUBLISHED_OPERATIONS, shown_operations, results.OWN_PRODUCT, missing_reason),
        *(_update_speedup_column(campaign, dcsr, hybrid) for dcsr, hybrid in UPDATES),
    )
    caption = [
        "The time of an operation over that of one product with CSR, and the time of HYB’s update over ours.",
        f"Published in Table 5.4 of {CITED}, where an update is “1000 updates”, which it does not define. Our",
        "protocol differs: the whole grown matrix is streamed as one batch into an empty one, with entries by row or",
        "in any order and duplicates stored side by side. HYB’s update includes the sort of its coordinates that",
        "products need, but not reading back their number. HYB sort: of coordinates in any order.",
        "CSR product: our fastest with CSR.",
        PUBLISHED_SENTENCE
        if len(shown_operations) > len(OPERATIONS)
        else "DCSR: by our kernels; the paper’s were not measured.",
        f"{results.operation_precision(campaign).capitalize()} precision; the paper does not state the precision of",
        "its updates.",
        PUBLISHED_CLOCK,
        OWN_MEANS,
        measurement_note(campaign, results.OPERATION_CLOCK),
        cpu_note(campaign),
        unavailable_note(campaign),
    ]
    return table_of(columns, cases, join_sentences(caption), ("mean", *GRAPH_LINES))


def _update_speedup_column(campaign: Campaign, dcsr: Method, hybrid: Method) -> Column[PublishedTimes]:
    order = dcsr.columns["order"]
    head, title = f"{campaign.column}, HYB over DCSR", dcsr.title.partition(", ")[2]
    return speedup_column(f"HYB_over_DCSR_{order}", title, head, hybrid, dcsr)


#: One line of the table: the problem's name, and its trade if there is one.
TradeLine = tuple[Cell, results.RebuildTradeoff | None]


def _trade_column(
    key: str, title: str, group: str, cell: Callable[[results.RebuildTradeoff], Cell]
) -> Column[TradeLine]:
    return Column(key, title, group, cell=lambda line: cell(line[1]) if line[1] else Cell())


def _gain(products: int, trade: results.RebuildTradeoff) -> Cell:
    return ratio(trade.gain(products))


TRADE_COLUMNS: tuple[Column[TradeLine], ...] = (
    Column("problem", "problem", numeric=False, cell=lambda line: line[0]),
    _trade_column("batch", "entries of a batch", "", lambda trade: count(trade.dynamic.entries)),
    _trade_column("update_us", "update U", "µs", lambda trade: number_cell(trade.dynamic.update, MICRO)),
    _trade_column("rebuild_us", "rebuild R", "µs", lambda trade: number_cell(trade.rebuilt.update, MICRO)),
    _trade_column("fragmented_us", "DCSR product F", "µs", lambda trade: number_cell(trade.dynamic.product, MICRO)),
    _trade_column("csr_us", "CSR product C", "µs", lambda trade: number_cell(trade.rebuilt.product, MICRO)),
    *(_trade_column(f"gain_{n}", f"n = {n}", "gain over a rebuild", partial(_gain, n)) for n in results.PRODUCT_COUNTS),
    _trade_column(
        "crossover", "break-even n", "", lambda trade: Cell(trade.crossover, trade.in_words, keys=trade.keys)
    ),
)


@table(STUDY_NAME, "table-crossover", title="Gain over a rebuild, by products per batch", numbering="ours")
def crossover(campaign: Campaign, published: Published) -> Table:
    trades, missing_trades = results.rebuild_trades(campaign, published)
    lines: list[TradeLine] = [(trade.line.cell, trade) for trade in trades]
    lines += [(times.line.noted_cell(reason), None) for times, reason in missing_trades]
    caption = [
        results.GAIN_EXPLANATION,
        results.GAIN_WORDS,
        "The paper prints none of these numbers.",
        f"{results.operation_precision(campaign).capitalize()} precision.",
        measurement_note(campaign, results.OPERATION_CLOCK),
        results.geam_sentence(campaign),
        unavailable_note(campaign),
    ]
    return table_of(TRADE_COLUMNS, lines, join_sentences(caption))


@table(STUDY_NAME, "table-targets", title="Targets, and what was reached", numbering="ours")
def targets(campaign: Campaign, published: Published) -> Table:
    caption = [
        "Goals and measurements. Updates: one batch into the matrix before the first batch; added: duplicates are",
        "stored side by side; unique: each place is stored once. HYB: the grown matrix as one batch into an empty one,",
        "sorted by row. Rebuilding: counting, summing and copying, for single batches and for all batches of a",
        "problem, in both orders of the entries. Products: as in the table of products; each problem and precision is",
        "a case. Fragmented: only graphs that have grown by a tenth, not sweeps. Defragmentation: bytes moved per",
        "second, relative to a copy. Several devices: relative to the fastest product on one device. Updates,",
        f"defragmentation and several devices: {results.operation_precision(campaign)} precision.",
        measurement_note(campaign, results.OPERATION_CLOCK),
        f"Products, also over several devices, are timed by the {results.PRODUCT_CLOCK} clock unless a line names",
        "events; everything else only by events.",
        target_device_note(campaign),
        unavailable_note(campaign),
    ]
    graphs = graphs_of(campaign, published, sweeps=True)
    return targets_table(campaign, published, TARGET_QUANTITIES, graphs, join_sentences(caption))


@dataclass(frozen=True)
class Statement:
    """A statement in the paper's text about all graphs together."""

    #: Text of the statement, as printed in the table.
    title: str
    #: Key of the published number, the quantity of `CLAIMED` that measures ours, and the precision.
    published: str
    quantity: str
    precision: str = ""


STATEMENTS = (
    Statement("streaming updates: speedup over HYB, mean", "speedup of streaming updates over HYB, mean",
              "streaming_mean"),
    Statement("streaming updates: speedup over HYB, largest", "speedup of streaming updates over HYB, largest",
              "streaming_most"),
    Statement("iterative updates: speedup over HYB, largest", "speedup of iterative updates over HYB, largest",
              "iterative_most"),
    Statement("defragmentation: speedup over the sort of HYB, mean",
              "speedup of defragmentation over the sort of HYB, mean", "defragmentation_mean"),
    Statement("product: time of fragmented over defragmented, mean", STATED_FRAGMENTED, "fragmented_mean"),
    Statement("product: time of defragmented over CSR, mean", STATED_DEFRAGMENTED, "defragmented_mean"),
    Statement("product: speedup of ADCSR over HYB, mean", STATED_ADAPTIVE, "adaptive_mean"),
    Statement("product: speedup of ADCSR by rows in the order of their sizes, mean",
              "speedup of the product by rows in the order of their sizes", "by_size_mean"),
    Statement("memory: four segments a row over HYB, mean", "memory of four segments over HYB, mean", "memory_4_mean"),
    Statement("product on two devices: speedup in single precision, mean", TWO_DEVICES, "two_devices_single",
              precision="single"),
    Statement("product on two devices: speedup in double precision, mean", TWO_DEVICES, "two_devices_double",
              precision="double"),
)  # fmt: skip


def _stated(graphs: Sequence[Cases[Graph]], statement: Statement) -> tuple[Cell, ...]:
    """Return value, extremes and number of cases of a statement, of the first kernels that have any."""
    quantity = CLAIMED[statement.quantity]
    cases = next((cases for graph in graphs if (cases := quantity.measure(graph).numbers)), [])
    if not cases:
        return (Cell(notes=("not measured on any graph",)), Cell(), Cell(), Cell(0))
    numbers = [case.value for case in cases]
    return (ratio(quantity.value(cases)), ratio(min(numbers)), ratio(max(numbers)), Cell(len(numbers)))


def _judging(graphs: Cases[Graph] | None, statement: Statement) -> tuple[str, ...]:
    """Return a note with the number of the campaign that judges the claim, which has other graphs and precisions."""
    cell, _, _, cases = _stated([graphs], statement) if graphs else (Cell(), Cell(), Cell(), Cell())
    if graphs is None or cell.value is None:
        return ()
    return (f"{cell.shown} by campaign {graphs.campaign.name}, which judges the claim; its cases: {cases.shown}",)


@table(STUDY_NAME, "table-text", title="What the paper’s text states, beside ours", numbering=f"text of {CITED}")
def text(campaign: Campaign, published: Published) -> Table:
    published_times, tuned_times, own_times = (
        graphs_of(campaign, published, variants) for variants in ("as_published", "paper_tuned", "ours")
    )
    judging = graphs_of(campaign.as_published, published, "as_published") if campaign.as_published else None
    rows: list[tuple[Cell, ...]] = []
    for item in STATEMENTS:
        record = stated_record(published, item.published, item.precision)
        printed_number, measured_number = _stated([published_times], item), _stated([tuned_times, own_times], item)
        cells = replace(printed_number[0], notes=_judging(judging, item)), printed_number[3]
        rows.append(
            (Cell(item.title), results.published_cell(record["value"] if record else None), *cells, *measured_number)
        )
    columns = (
        Column("statement", "statement", numeric=False),
        Column("published", "K20c", "published"),
        Column("as_published", "as published", campaign.column),
        Column("as_published_cases", "cases", campaign.column),
        *(Column(key, key, campaign.column) for key in ("ours", "least", "largest", "cases")),
    )
    caption = [
        f"Numbers that the text of {CITED} states over all its graphs, and ours; graphs with batches of growing sizes",
        "are left out. Streaming: the whole matrix as one batch, by row, into an empty one, including HYB’s sort.",
        f"Iterative: batches, each followed by {PRODUCTS_PER_BATCH} products, as in Figure 5.3. As published: updates",
        "by the paper’s algorithms 4, 5 and 7, products with four threads per row or by its bins. Ours: updates by our",
        "kernels; products by the paper’s schedules, each with the best number of threads per row, and ADCSR in its",
        "best state. A case is a graph in a precision. In the order of their sizes: time of defragmented ADCSR over",
        "that with rows stored by size. Memory: counted as in the paper, before the first batch; it does not depend on",
        "the device. Two devices: one launch each, without an exchange. Updates and defragmentation:",
        f"{results.operation_precision(campaign)} precision; the paper does not state its own.",
        measurement_note(campaign, results.OPERATION_CLOCK),
        f"Products, also on two devices: by the {results.PRODUCT_CLOCK} clock.",
        PUBLISHED_CLOCK,
        cpu_note(campaign),
        unavailable_note(campaign),
    ]
    return Table(columns, rows, join_sentences(caption))


def _baseline_or_layout(row: DynamicRow) -> str | None:
    if row.what is None:
        return row.name
    if row.what == "product":
        return "/".join(filter(None, ("-".join(filter(None, (row.format, row.state))), row.schedule)))
    if row.space == PAPER:
        return f"{row.format}, as published"
    return row.routine or row.format


UPDATE_TITLES = {"stream": "streaming", "insert": "batches", "iterate": "batches and products"}
TASKS = (
    Method("product", "product", columns={"kind": results.MULTIPLYING, "what": (None, "product")}),
    *(
        Method(operation, f"{title}, {protocol.title}", columns={"what": operation, **protocol._asdict()})
        for operation, title in UPDATE_TITLES.items()
        for protocol in (results.ANY, results.SORTED)
    ),
    Method(
        "geam", "batches, by row, unique", columns={"what": "insert", "routine": results.GEAM_ROUTINE}, clock="host"
    ),
    Method("scan", "prefix sums", columns={"what": "scan"}),
    Method("sort", "sort of rows", columns={"what": "sort", "format": "coo"}),
)
register_baselines(STUDY_NAME, TASKS, _baseline_or_layout)
