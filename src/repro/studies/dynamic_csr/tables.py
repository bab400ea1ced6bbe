"""The tables of the paper beside ours (5.1 to 5.4), and our tables of products, rates, break-evens and devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

import repro.studies.dynamic_csr.tables_targets  # noqa: F401  (registers its tables)
from repro.results.campaign_data import Campaign, Case, ReportedTime
from repro.results.problem_rows import (
    ABBREVIATIONS,
    PROBLEM,
    ProblemRow,
    cpu_note,
    join_sentences,
    launch_note,
    measurement_note,
    problem_rows,
    unavailable_note,
)
from repro.results.published import Published, Record
from repro.results.registry import table
from repro.results.significance import median_of, ratio_of
from repro.results.tables import Cell, Column, Table, count, digits, from_rows, microseconds, percent, ratio, speedup
from repro.sparse.baseline_times import library_of, routine_text
from repro.studies.dynamic_csr import KIB, MIB, PAPER, STUDY
from repro.studies.dynamic_csr.results import (
    BY_HOST,
    CAPACITY_SENTENCE,
    DCSR,
    DEVICE_CLOCK,
    EXCHANGE_TITLES,
    GEAM,
    NO_DEVICES,
    OPERATION_CLOCK,
    OWN_MEANS,
    PRODUCT_CLOCK,
    UPDATE_PROTOCOLS,
    UPDATED_FORMATS,
    DeviceTimes,
    ProductTimes,
    StepTime,
    Sweep,
    Trade,
    UpdatedFormat,
    UpdateProtocol,
    batch_sweeps,
    device_times,
    fastest_operation,
    geam_sentence,
    is_host_timed,
    mean_line,
    operation_precision,
    problem_records,
    product_times,
    published_cell,
    ratio_row,
    rebuild_trades,
    recorded_facts,
    short_count,
    stated_graph_speedups,
    stated_product_means,
    unique_sentence,
)

SIZE_HEADS = {
    "nonzeros": "non-zeros",
    "rows": "rows",
    "columns": "columns",
    "mean": "mean row",
    "deviation": "deviation",
    "longest": "longest row",
}
#: From here on the paper prints the longest row in thousands.
LONG_ROW = 10_000


@table(STUDY, "table-5-1", title="The matrices", numbering=f"Table 5.1 of {PAPER}")
def graphs(campaign: Campaign, published: Published) -> Table:
    """Sizes and row lengths, published beside ours."""
    by_problem = {item["problem"]: item for item in published["sizes"]}
    rows = [
        (line.cell, *_published_sizes(by_problem.get(line.published or "")), *_own_sizes(line))
        for line in problem_rows(campaign, published)
    ]
    columns = (
        PROBLEM,
        *(Column(f"published_{key}", head, "published") for key, head in SIZE_HEADS.items()),
        *(Column(key, head, "ours") for key, head in SIZE_HEADS.items()),
    )
    caption = [
        "The matrices before the first batch of updates: sizes, and mean, standard deviation and maximum of the",
        f"entries in a row, published in Table 5.1 of {PAPER} and ours. Both are printed as the paper does: counts in",
        "thousands (K) and millions (M) and the mean cut off; the deviation is about the mean that is cut off, and",
        "rounded. The CSV file has ours in full.",
        "They do not depend on the device.",
        unavailable_note(campaign),
    ]
    return Table(columns, rows, join_sentences(caption))


def _published_sizes(item: Record | None) -> tuple[Cell, ...]:
    return tuple(published_cell(item[key] if item else None) for key in SIZE_HEADS)


def _own_sizes(line: ProblemRow) -> tuple[Cell, ...]:
    facts = recorded_facts(line)
    if not facts:
        return (Cell(),) * len(SIZE_HEADS)
    return (
        short_count(facts["nonzeros"], "KM"),
        short_count(facts["rows"], "K"),
        short_count(facts["columns"], "K"),
        Cell(facts["mean"], str(int(facts["mean"]))),
        Cell(facts["deviation"], f"{facts['deviation']:.0f}"),
        short_count(facts["longest"], "K", LONG_ROW),
    )


MEMORY_FORMATS = ("DCSR-2", "DCSR-3", "DCSR-4", "CSR")
#: Our groups of columns: the key in a record's `memory`, the key of the columns, and the head.
MEMORY_COUNTS = (
    ("paper", "counted_as_paper", "ours, counted as the paper does"),
    ("single", "single", "ours, everything, single precision"),
    ("double", "double", "ours, everything, double precision"),
)


@table(STUDY, "table-5-2", title="Memory of the formats", numbering=f"Table 5.2 of {PAPER}")
def memory(campaign: Campaign, published: Published) -> Table:
    """Size as HYB, and the other formats as fractions of it."""
    by_problem = {item["problem"]: item for item in published["memory"]}
    rows = []
    for line in problem_rows(campaign, published):
        counted = recorded_facts(line).get("memory", {})
        ours = (cell for key, _, _ in MEMORY_COUNTS for cell in _own_memory(counted.get(key)))
        rows.append((line.cell, *_published_memory(by_problem.get(line.published or "")), *ours))
    columns = [PROBLEM, *_memory_columns("published", "published")]
    for _, key, head in MEMORY_COUNTS:
        columns += _memory_columns(key, head)
    caption = [
        "Memory of the matrices before the first batch of updates: the size as HYB in MiB (M), below one in KiB",
        "(K), cut off, and dynamic CSR with room for two, three and four segments a row and CSR as fractions of it.",
        f"Published in Table 5.2 of {PAPER}, and ours, which does not depend on the device. The paper counts values of",
        "4 bytes, the table of segments but not the sizes of the rows, and gives HYB’s regular part the mean row,",
        "cut off, then rounded up to a multiple of 4; its text has the mean itself. Everything: the sizes of the rows,",
        "the table’s padding and the state as well; room for growth is in neither.",
        "A stand-in has as many entries beyond HYB’s width as the published size of HYB implies, and so agrees with",
        "this table by construction.",
        OWN_MEANS,
        unavailable_note(campaign),
    ]
    return Table(tuple(columns), rows, join_sentences(caption), _memory_means(rows))


def _memory_columns(key: str, head: str) -> list[Column]:
    return [Column(f"{key}_HYB", "HYB", head), *(Column(f"{key}_{name}", name, head) for name in MEMORY_FORMATS)]


def _published_memory(item: Record | None) -> tuple[Cell, ...]:
    if item is None:
        return (Cell(),) * (1 + len(MEMORY_FORMATS))
    size = item["HYB"]
    return (Cell(int(size.removesuffix("M")) * MIB, size), *(published_cell(item[name]) for name in MEMORY_FORMATS))


def _own_memory(counted: Mapping[str, int] | None) -> tuple[Cell, ...]:
    if not counted or not counted["HYB"]:
        return (Cell(),) * (1 + len(MEMORY_FORMATS))
    size = counted["HYB"]
    fractions = (counted[name] / size for name in MEMORY_FORMATS)
    shown = f"{size // MIB}M" if size >= MIB else f"{size // KIB}K"
    return (Cell(size, shown), *(Cell(value, f"{value:.3f}") for value in fractions))


def _memory_means(rows: list[tuple[Cell, ...]]) -> list[tuple[Cell, ...]]:
    """Return the means of all fractions of HYB; sizes have none."""
    cells: list[Cell] = [Cell("mean")]
    for place in range(1, len(rows[0]) if rows else 0):
        values = [row[place].value for row in rows]
        fractions = [float(value) for value in values if value is not None]
        is_size = (place - 1) % (1 + len(MEMORY_FORMATS)) == 0
        cells.append(Cell() if is_size or not fractions else Cell(fmean(fractions), f"{fmean(fractions):.3f}"))
    return [tuple(cells)] if rows else []


#: From which format to which, as the paper's table has them.
CONVERSIONS = ("COO-CSR", "COO-DCSR", "COO-HYB", "CSR-DCSR", "CSR-HYB", "DCSR-CSR")


@table(STUDY, "table-5-3", title="Conversions between formats", numbering=f"Table 5.3 of {PAPER}")
def conversions(campaign: Campaign, published: Published) -> Table:
    """A line a problem: the time of each conversion over that of a copy from CSR to CSR."""
    precision = operation_precision(campaign)
    rows = [_conversion_row(*given) for given in problem_records(campaign, published, "conversions")]
    columns = (
        PROBLEM,
        *(Column(f"published_{name}", _conversion_head(name), "published, K20c") for name in CONVERSIONS),
        *(Column(name, _conversion_head(name), campaign.column) for name in CONVERSIONS),
        Column("copy_us", "CSR→CSR, µs", campaign.column),
    )
    caption = [
        "The time of a conversion over that of copying the three arrays of CSR.",
        f"Published in Table 5.3 of {PAPER}; ours of the grown matrix, in memory that is there already. Coordinates",
        "come sorted by row; dynamic CSR comes with one segment a row, and becomes CSR by its defragmentation. HYB’s",
        "regular part has the width that the paper’s Table 5.2 follows from.",
        f"{precision.capitalize()} precision; the paper does not say in which its conversions are.",
        OWN_MEANS,
        measurement_note(campaign, OPERATION_CLOCK),
        cpu_note(campaign),
        unavailable_note(campaign),
    ]
    return Table(columns, rows, join_sentences(caption), mean_line(rows, 2 * len(CONVERSIONS)))


def _conversion_head(name: str) -> str:
    return name.replace("-", "→")


def _conversion_row(line: ProblemRow, theirs: Record | None, case: Case) -> tuple[Cell, ...]:
    numbers = (theirs[name] if theirs else None for name in CONVERSIONS)
    ours = (_conversion_time(case, name) for name in CONVERSIONS)
    return ratio_row(line, numbers, ours, _conversion_time(case, "CSR-CSR"), "no copy from CSR to CSR was timed")


def _conversion_time(case: Case, name: str) -> ReportedTime | None:
    source, target = name.lower().split("-")
    return fastest_operation(case, what="convert", format=source, to_format=target)


class OperationColumn(NamedTuple):
    """One column of ours.

    Attributes
    ----------
    key, head
        Of the column.
    what, format, order
        Of the rows that it is about; any order where there is none.
    """

    key: str
    head: str
    what: str
    format: str
    order: str | None = None


#: Columns of the published table, and their heads.
PUBLISHED_OPERATIONS = {
    "DCSR_defragment": "DCSR defragmentation",
    "HYB_sort": "HYB sort",
    "DCSR_update": "DCSR update",
    "HYB_update": "HYB update",
}
OPERATION_COLUMNS = (
    OperationColumn("DCSR_defragment", "DCSR defragmentation", "defragment", "dcsr"),
    OperationColumn("HYB_sort", "HYB sort", "sort", "hyb"),
    OperationColumn("DCSR_sorted", "DCSR, by row", "stream", "dcsr", "sorted"),
    OperationColumn("HYB_sorted", "HYB, by row", "stream", "hyb", "sorted"),
    OperationColumn("DCSR_any", "DCSR, any order", "stream", "dcsr", "any"),
    OperationColumn("HYB_any", "HYB, any order", "stream", "hyb", "any"),
)


@table(STUDY, "table-5-4", title="Updates, defragmentation and sort", numbering=f"Table 5.4 of {PAPER}")
def updates(campaign: Campaign, published: Published) -> Table:
    """A line a problem: the time of each operation over that of a product with CSR."""
    precision = operation_precision(campaign)
    rows = [_operation_row(*given) for given in problem_records(campaign, published, "operations")]
    columns = (
        PROBLEM,
        *(Column(f"published_{key}", head, "published, K20c") for key, head in PUBLISHED_OPERATIONS.items()),
        *(Column(operation.key, operation.head, campaign.column) for operation in OPERATION_COLUMNS),
        Column("product_us", "CSR product, µs", campaign.column),
    )
    caption = [
        "The time of an operation over that of one product with CSR.",
        f"Published in Table 5.4 of {PAPER}, where an update is “1000 updates”, which it does not define. Ours is",
        "another protocol: the whole grown matrix is streamed as one batch into an empty one, its entries by row or in",
        "any order, those of the same place side by side; HYB’s update includes the sort of its coordinates that a",
        "product asks for, and is spared reading back how many there are. HYB sort: of the coordinates that come in",
        "any order. CSR product: our fastest with CSR.",
        f"{precision.capitalize()} precision; the paper does not say in which its updates are.",
        OWN_MEANS,
        measurement_note(campaign, OPERATION_CLOCK),
        cpu_note(campaign),
        unavailable_note(campaign),
    ]
    return Table(
        columns, rows, join_sentences(caption), mean_line(rows, len(PUBLISHED_OPERATIONS) + len(OPERATION_COLUMNS))
    )


def _operation_row(line: ProblemRow, theirs: Record | None, case: Case) -> tuple[Cell, ...]:
    product = fastest_operation(case, kind="variant", what="product", format="csr")
    numbers = (theirs[key] if theirs else None for key in PUBLISHED_OPERATIONS)
    ours = (_operation_time(case, operation) for operation in OPERATION_COLUMNS)
    return ratio_row(line, numbers, ours, product, "no product with CSR was timed")


def _operation_time(case: Case, operation: OperationColumn) -> ReportedTime | None:
    added = {"order": operation.order, "mode": "add"} if operation.order else {}
    return fastest_operation(case, what=operation.what, format=operation.format, **added)


MILLION = 1e6
#: Rates below have two digits: a batch of one entry has hundredths of it.
MIN_PRINTED_RATE = 0.1
#: Groups of columns: of dynamic CSR all protocols, of the others those that they can do.
RATE_COLUMNS: tuple[tuple[UpdateProtocol, UpdatedFormat], ...] = tuple(
    (protocol, contestant)
    for protocol in UPDATE_PROTOCOLS
    for contestant in UPDATED_FORMATS
    if contestant is DCSR or (contestant.routine is not None) == (protocol.mode == "unique")
    if contestant.routine is None or protocol.order == "sorted"
)


@table(STUDY, "table-rates", title="Updates a second by the size of the batch", numbering="ours")
def rates(campaign: Campaign, published: Published) -> Table:
    """A line a batch of a problem whose batches grow."""
    sweeps = batch_sweeps(campaign, published)
    by_geam = any(sweep.has(GEAM) for sweep in sweeps)
    shown = [pair for pair in RATE_COLUMNS if pair[1] is not GEAM or by_geam]
    columns = (
        PROBLEM,
        Column("batch", "entries of the batch"),
        *(Column(_rate_key(p, c), c.label, f"{p.title}: million updates a second") for p, c in shown),
        Column("any_add_us", "DCSR, any order, added, µs"),
    )
    rows = [row for sweep in sweeps for row in _rate_rows(sweep, shown)]
    caption = [
        "Updates a second: entries of a batch over the time of inserting it alone into the matrix before the first",
        "batch.",
        CAPACITY_SENTENCE,
        "By row: the batch comes in the order of its rows; any order: what sorting there is counts. Added: entries of",
        "the same place come beside each other; unique: an entry whose place is taken is added to the value there.",
        unique_sentence(by_geam),
        "CSR rebuilt: rows counted, sizes added up, old rows copied, new entries behind them.",
        "CSR by csrgeam2: cuSPARSE’s sum of two matrices, the batch being a matrix already." if by_geam else "",
        "HYB and COO: appended, then sorted by row.",
        "Nothing of this is published.",
        f"{operation_precision(campaign).capitalize()} precision.",
        measurement_note(campaign, OPERATION_CLOCK),
        unavailable_note(campaign),
    ]
    return Table(columns, rows, join_sentences(caption))


def _rate_key(protocol: UpdateProtocol, contestant: UpdatedFormat) -> str:
    return f"{contestant.key}_{protocol.order}_{protocol.mode}"


def _rate_rows(sweep: Sweep, shown: Sequence[tuple[UpdateProtocol, UpdatedFormat]]) -> list[tuple[Cell, ...]]:
    name = sweep.line.cell
    if not sweep.sizes:
        there = sweep.line.record is not None and sweep.line.record.available
        notes = (*name.notes, *((sweep.case.why_not(),) if there else ()))
        return [(Cell(name.value, name.text, notes), *(Cell(),) * (len(shown) + 2))]
    return [
        (
            name,
            count(size),
            *(_rate_cell(sweep, protocol, contestant, size) for protocol, contestant in shown),
            microseconds(sweep.seconds(DCSR, UPDATE_PROTOCOLS[0], size)),
        )
        for size in sweep.sizes
    ]


def _rate_cell(sweep: Sweep, protocol: UpdateProtocol, contestant: UpdatedFormat, size: int) -> Cell:
    timed = sweep.seconds(contestant, protocol, size)
    if timed is None:
        return Cell()
    rate = size / timed.seconds / MILLION
    text = digits(rate) if rate >= MIN_PRINTED_RATE else f"{rate:.2g}"
    return Cell(rate, text, (*timed.notes, *((BY_HOST,) if is_host_timed(timed) else ())), (timed.key,))


#: Products after each batch.
PRODUCT_COUNTS = (0, 1, 5, 20, 100)
MICRO = 1e6
#: What is compared, and by which formula; for the table and the figure.
GAIN_EXPLANATION = (
    "What dynamic CSR gains over CSR that is made again with every batch: gain(n) = (R + n C) / (U + n F) with n "
    "products after each batch. U: inserting a batch; R: the rebuild with it; F: a product of the fragmented matrix; "
    "C: one with CSR. Both break even at n = (R − U) / (F − C): with more products dynamic CSR is the "
    "slower, unless it is defragmented. Of graphs all batches are inserted one after the other, by row, and U and R "
    "are their time over their number; R is the faster of counting, adding up and copying and of cuSPARSE’s "
    "csrgeam2. Of sweeps each batch is inserted alone, in any order, and R counts, adds up and copies. F and C are "
    "the fastest products of the matrix with all batches, C the library’s included."
)
#: What stands for the n at which both break even.
GAIN_WORDS = "Always, never: dynamic CSR is the faster, or the slower, for every n. From: it is the faster for more."


@table(STUDY, "table-crossover", title="Gain over a rebuild, by products per batch", numbering="ours")
def crossover(campaign: Campaign, published: Published) -> Table:
    """A line a graph, and one a batch of a sweep."""
    trades, missing = rebuild_trades(campaign, published)
    columns = (
        PROBLEM,
        Column("batch", "entries of a batch"),
        Column("update_us", "update U", "µs"),
        Column("rebuild_us", "rebuild R", "µs"),
        Column("fragmented_us", "DCSR product F", "µs"),
        Column("csr_us", "CSR product C", "µs"),
        *(Column(f"gain_{products}", f"n = {products}", "gain over a rebuild") for products in PRODUCT_COUNTS),
        Column("crossover", "break-even n"),
    )
    rows = [
        *(_trade_row(trade) for trade in trades),
        *(_missing_trade_row(line, why, len(columns)) for line, why in missing),
    ]
    caption = [
        GAIN_EXPLANATION,
        GAIN_WORDS,
        "Nothing of this is published.",
        f"{operation_precision(campaign).capitalize()} precision.",
        measurement_note(campaign, OPERATION_CLOCK),
        geam_sentence(campaign),
        unavailable_note(campaign),
    ]
    return Table(columns, rows, join_sentences(caption))


def _trade_row(trade: Trade) -> tuple[Cell, ...]:
    times = (trade.update, trade.rebuild, trade.fragmented, trade.csr)
    return (
        trade.line.cell,
        count(trade.entries),
        *(Cell(seconds * MICRO, digits(seconds * MICRO)) for seconds in times),
        *(ratio(trade.gain(products)) for products in PRODUCT_COUNTS),
        Cell(trade.crossover, trade.in_words, keys=trade.keys),
    )


def _missing_trade_row(line: ProblemRow, why: str, columns: int) -> tuple[Cell, ...]:
    name = line.cell
    there = line.record is not None and line.record.available
    return (Cell(name.value, name.text, (*name.notes, *((why,) if there else ()))), *(Cell(),) * (columns - 1))


TimePick = Callable[[ProductTimes], ReportedTime | None]


@dataclass(frozen=True)
class ProductRatio:
    """A ratio of two times.

    Attributes
    ----------
    key, title
        Of its column.
    times
        Returns the two, None where there are none: the first over the second.
    worst
        Which of all is the worst: the largest of what should be small, the smallest of what should be large.
    """

    key: str
    title: str
    times: Callable[[ProductTimes], tuple[ReportedTime | None, ReportedTime | None] | None]
    worst: Callable[[Sequence[float]], float]

    def number(self, case: ProductTimes) -> float | None:
        """Return the ratio."""
        return ratio_of(*(self.times(case) or (None, None)))

    def cell(self, case: ProductTimes) -> Cell:
        """Return the ratio with its interval."""
        return speedup(*(self.times(case) or (None, None)))


PRODUCT_RATIOS = (
    ProductRatio(
        "defragmented_over_csr", "defragmented over CSR",
        lambda case: case.csr_twins and (case.csr_twins[1], case.csr_twins[0]), max,
    ),
    ProductRatio("fragmented_over_defragmented", "fragmented over defragmented", lambda case: case.state_twins, max),
    ProductRatio("library_csr_over_ours", "library’s CSR over ours", lambda case: (case.library_csr, case.ours), min),
    ProductRatio("library_over_ours", "library over ours", lambda case: (case.library, case.ours), min),
)  # fmt: skip
PAPER_PRODUCTS: tuple[tuple[str, str, TimePick], ...] = (
    ("csr", "CSR", lambda case: case.csr),
    ("fragmented", "fragmented", lambda case: case.fragmented),
    ("defragmented", "defragmented", lambda case: case.defragmented),
    ("adaptive", "ADCSR", lambda case: case.adaptive),
    ("hyb", "HYB", lambda case: case.hyb),
)


@table(STUDY, "table-products", title="The products, problem by problem", numbering="ours")
def products(campaign: Campaign, published: Published) -> Table:
    """A line a problem and precision, the medians and the worst of the ratios below."""
    by_precision = [product_times(campaign, published, precision) for precision in campaign.precisions]
    cases = [case for cases in zip(*by_precision, strict=True) for case in cases]
    timed = [case for case in cases if case.ours or case.csr]
    marked = sum(case.case.mostly_launch(PRODUCT_CLOCK, case.ours or case.csr) for case in timed)
    caption = [
        "y = A x with the grown matrix, the base and all batches. The paper’s: so many threads a row, the best number",
        "of them, for own CSR and for segments as the batches left them and with one segment a row; ADCSR: rows in",
        "bins by their sizes, a kernel a bin on a stream of its own, in the best state of the matrix; HYB. Ours: the",
        f"fastest of all in one launch, with one segment a row. {library_of(campaign)}: its fastest routine for CSR,",
        "and of all, of the matrix with entries of one place summed up. Ratios of times: defragmented over own CSR",
        "under the schedule that is the fastest for own CSR; fragmented over defragmented under the one that is the",
        "fastest for fragmented.",
        stated_product_means(published),
        measurement_note(campaign, PRODUCT_CLOCK),
        launch_note(marked, len(timed)),
        unavailable_note(campaign),
    ]
    rows = [_product_row(case) for case in cases]
    return Table(_product_columns(library_of(campaign)), rows, join_sentences(caption), _product_summary(cases))


def _product_columns(library: str) -> tuple[Column, ...]:
    return (
        PROBLEM,
        Column("precision", "precision", numeric=False),
        *(Column(f"{key}_us", title, "the paper’s, µs") for key, title, _ in PAPER_PRODUCTS),
        Column("ours", "variant", "ours", numeric=False),
        Column("ours_us", "µs", "ours"),
        Column("library_csr", "CSR", library, numeric=False),
        Column("library_csr_us", "µs", library),
        Column("library", "fastest", library, numeric=False),
        Column("library_us", "µs", library),
        *(Column(item.key, item.title, "ratios of times") for item in PRODUCT_RATIOS),
    )


def _product_row(case: ProductTimes) -> tuple[Cell, ...]:
    there = case.line.record is not None and case.line.record.available
    why = (case.case.why_not(),) if there and case.ours is None and case.csr is None else ()
    return (
        case.line.cell,
        Cell(case.case.precision, ABBREVIATIONS[case.case.precision]),
        *(microseconds(pick(case)) for _, _, pick in PAPER_PRODUCTS),
        Cell(case.ours.name if case.ours else None, notes=why),
        microseconds(case.ours, case.case),
        *_routine_cells(case.library_csr),
        *_routine_cells(case.library),
        *(item.cell(case) for item in PRODUCT_RATIOS),
    )


def _routine_cells(routine: ReportedTime | None) -> tuple[Cell, Cell]:
    return (Cell(routine.name, routine_text(routine)) if routine else Cell()), microseconds(routine)


def _product_summary(cases: Sequence[ProductTimes]) -> list[tuple[Cell, ...]]:
    numbers = [[number for case in cases if (number := item.number(case)) is not None] for item in PRODUCT_RATIOS]
    before = [Cell()] * (len(_product_columns("")) - len(PRODUCT_RATIOS) - 1)
    worst = (item.worst(values) if values else None for item, values in zip(PRODUCT_RATIOS, numbers, strict=True))
    return [
        (Cell("median"), *before, *(ratio(median_of(values)) for values in numbers)),
        (Cell("worst"), *before, *(ratio(value) for value in worst)),
    ]


DISTRIBUTION_SENTENCE = (
    "Rows are sorted by their sizes and dealt to the devices in turns, as in the paper; times are of a step, where "
    "several follow each other in a launch of all devices."
)


@table(STUDY, "table-devices", title="Products over several devices", numbering=f"Section 5.3.4 of {PAPER}")
def devices(campaign: Campaign, published: Published) -> Table:
    """A line a problem and precision: times and speed-ups of the product alone, with the exchange, and overlapped."""
    cases, counts = _measured_devices(campaign, published)
    columns = [PROBLEM, Column("precision", "precision", numeric=False)]
    columns.append(Column("variant_us", "fastest variant, µs", "1 device"))
    if counts:  # else the baseline was not timed either
        columns += [Column("one_launch_us", "a launch each, µs", "1 device"), Column("one_us", "µs", "1 device")]
    for number in counts:
        group = f"{number} devices"
        columns.append(Column(f"launches_{number}", "a launch each, ×", group))
        for key, title in (("alone", "alone"), ("exchanged", "exchange"), ("overlapped", "overlapped")):
            columns.append(Column(f"{key}_{number}_us", f"{title}, µs", group))
            columns.append(Column(f"{key}_{number}", "×", group))
    caption = [
        "y = A x with the grown matrix over several devices of one host, and speed-ups over one device by the same",
        "schedule; beside it the fastest of all variants on one device.",
        DISTRIBUTION_SENTENCE,
        "A launch each: the product as the only step of a launch, as in the paper. Alone: y stays distributed, and x",
        "is on each device before the clock starts. Exchange: y is brought to all devices, as the next x, in the",
        "fastest way. Overlapped: either the columns of x that a device has itself are multiplied while copies of the",
        "others are under way, or the product stores each number of y to all devices (fused), whichever is faster.",
        "For both the unknowns are renumbered before the clock starts, so that the part of each device is contiguous.",
        f"Published of two Tesla K20c, the mean of all graphs without an exchange: {_published_speedups(published)}.",
        stated_graph_speedups(published),
        NO_DEVICES if not counts else "",
        measurement_note(campaign, DEVICE_CLOCK),
        unavailable_note(campaign),
    ]
    rows = [_device_row(case, counts) for case in cases]
    return Table(
        tuple(columns), rows, join_sentences(caption), _speedup_summary(rows, columns) if counts else [], not counts
    )


@table(STUDY, "table-exchange", title="Bringing a vector to all devices", numbering="ours")
def exchange(campaign: Campaign, published: Published) -> Table:
    """A line a problem and precision: the exchange alone in each way, its rate, and what it adds to a product."""
    cases, counts = _measured_devices(campaign, published)
    columns = [PROBLEM, Column("precision", "precision", numeric=False)]
    for number in counts:
        group = f"{number} devices"
        columns.append(Column(f"sent_{number}_mb", "MB", group))
        columns += [Column(f"{way}_{number}_us", f"{title}, µs", group) for way, title in EXCHANGE_TITLES.items()]
        columns += [Column(f"rate_{number}", "GB/s", group), Column(f"way_{number}", "behind", group, numeric=False)]
        columns.append(Column(f"during_{number}", "during", group, numeric=False))
        columns.append(Column(f"cost_{number}", "cost", group))
    caption = [
        "A vector of which each device has a part is brought to all devices, without a product.",
        "MB: what all devices send together, each its part to each of the others; GB/s: of the fastest way. Copies by",
        "the driver; stores: a kernel that writes into the memory of the others; NCCL: its all-gather. Behind: the",
        "fastest way behind a product. During: the faster of two ways, copies while the columns are multiplied that a",
        "device has itself, or stores by the product. Cost: the share of a step, in the fastest of all these ways, by",
        "which it is longer than the product whose result stays distributed.",
        NO_DEVICES if not counts else "",
        measurement_note(campaign, DEVICE_CLOCK),
        unavailable_note(campaign),
    ]
    rows = [_exchange_row(case, counts) for case in cases]
    return Table(tuple(columns), rows, join_sentences(caption), nothing=not counts)


def _measured_devices(campaign: Campaign, published: Published) -> tuple[list[DeviceTimes], list[int]]:
    """Return all cases, the precisions of a problem side by side, and over how many devices any was measured."""
    by_precision = [device_times(campaign, published, precision) for precision in campaign.precisions]
    cases = [case for cases in zip(*by_precision, strict=True) for case in cases]
    return cases, sorted({count for case in cases for count in case.counts})


def _case_cells(case: DeviceTimes) -> tuple[Cell, Cell]:
    there = case.line.record is not None and case.line.record.available
    name = case.line.cell
    if there and not case.counts:
        name = Cell(name.value, name.text, (*name.notes, "not measured over several devices"))
    return name, Cell(case.case.precision, ABBREVIATIONS[case.case.precision])


def _device_row(case: DeviceTimes, counts: Sequence[int]) -> tuple[Cell, ...]:
    cells = [*_case_cells(case), microseconds(case.variant)]
    if counts:
        cells += [_step_cell(case.alone(1, repeated=False)), _step_cell(case.alone(1))]
    for number in counts:
        cells.append(ratio(case.speedup(case.alone(number, repeated=False), repeated=False)))
        for step in (case.alone(number), case.exchanged(number), case.overlapped(number)):
            cells += [_step_cell(step), ratio(case.speedup(step))]
    return tuple(cells)


def _exchange_row(case: DeviceTimes, counts: Sequence[int]) -> tuple[Cell, ...]:
    cells = [*_case_cells(case)]
    for number in counts:
        fastest, behind, during = case.exchange(number), case.exchanged(number), case.overlapped(number)
        sent = 1e-6 * fastest.row["bytes"] / fastest.row["steps"] if fastest else None
        cells.append(Cell(sent, digits(sent)) if sent else Cell(sent))
        cells += [_step_cell(case.exchange(number, way)) for way in EXCHANGE_TITLES]
        cells.append(Cell(fastest.rate, digits(fastest.rate)) if fastest else Cell())
        cells += [Cell(step.way) if step else Cell() for step in (behind, during)]
        cells.append(percent(case.cost(number)))
    return tuple(cells)


def _step_cell(step: StepTime | None) -> Cell:
    """Return the time of a step in microseconds."""
    return from_rows(Cell(1e6 * step.seconds, digits(1e6 * step.seconds)), step.reported_time) if step else Cell()


def _speedup_summary(rows: Sequence[tuple[Cell, ...]], columns: Sequence[Column]) -> list[tuple[Cell, ...]]:
    """Return the mean and the worst speed-up of each column of them."""
    lines: list[list[Cell]] = [[Cell("mean")], [Cell("worst")]]
    for place, column in enumerate(columns[1:], 1):
        speedups = column.numeric and not column.key.endswith("_us")
        values = [float(row[place].value or 0) for row in rows if row[place].value is not None] if speedups else []
        lines[0].append(ratio(fmean(values)) if values else Cell())
        lines[1].append(ratio(min(values)) if values else Cell())
    return [tuple(line) for line in lines]


def _published_speedups(published: Published) -> str:
    records = [item for item in published.tables.get("text", []) if item["quantity"] == "speedup of two GPUs, mean"]
    return ", ".join(f"{item['value']} in {item['precision']} precision" for item in records) or "nothing"
