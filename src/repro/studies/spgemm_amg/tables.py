"""Tables of sparse products and multigrid: matrices, products, memory, bins, set-up, solution, and targets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from repro.entries import get_entry
from repro.results.campaign_data import Campaign, Method
from repro.results.claims import register_claims, target_device_note, targets_table
from repro.results.columns import (
    MICRO,
    NAME,
    PRECISION,
    add_row_keys,
    count,
    megabytes,
    microseconds,
    name_of,
    number_cell,
    percent,
    ratio,
    speedup_column,
    statistics,
    time_cell,
    time_column,
)
from repro.results.common_tables import SetupCosts, register_baselines, register_setup_costs
from repro.results.problem_lines import (
    ProblemLine,
    closing_notes,
    cpu_note,
    join_sentences,
    measurement_note,
    problem_lines,
    unavailable_note,
)
from repro.results.published import Published, Record
from repro.results.registry import table
from repro.results.significance import geometric_mean
from repro.results.tables import Cell, Column, SummaryLine, Table, table_of
from repro.sparse.spgemm.multiplication import ONE_PHASE, TWO_PHASES
from repro.sparse.tuning_features import library_of
from repro.studies.spgemm_amg import CITED, PRODUCTS, SETUP_STAGES, STUDY_NAME, TOLERANCE, results
from repro.studies.spgemm_amg.ids import AmgRow
from repro.studies.spgemm_amg.study import GPU, SET_UP, SHARE_MAX, SHARE_MIN, published_range, published_value

NANO = 1e9


def _over(seconds: float | None, divisor: int | None, unit: float) -> Cell:
    return number_cell(unit * seconds / divisor if seconds is not None and divisor else None)


def _seconds(time: results.Time | None) -> float | None:
    return time.seconds if time else None


def _row_of(*times: results.Time | None) -> AmgRow:
    """Return the row of the first time that is not None; an empty row if all are None."""
    return next((time.row for time in times if time), AmgRow())


#: Statistics of a column whose worst case is the least number, and of one whose worst is the largest.
LEAST, MOST = (statistics(number_cell, {"mean": geometric_mean, "worst": worst}) for worst in (min, max))


def _summary(cases: Sequence[results.ProblemTimes] | Sequence[results.ProductTimes]) -> list[SummaryLine[Any]]:
    """Return the summary lines: for all problems, and for the paper's and the others if there are both."""
    lines = [SummaryLine[Any]("geometric mean", "mean"), SummaryLine[Any]("worst", "worst")]
    if len({case.line.published is None for case in cases}) < 2:
        return lines
    parts = {"the paper’s problems": lambda case: case.line.published is not None}
    parts["other problems"] = lambda case: case.line.published is None
    return lines + [
        SummaryLine(f"{line.title}, {part}", line.statistic, counts) for part, counts in parts.items() for line in lines
    ]


PRODUCT = Column[results.ProductTimes](
    "product", "product", numeric=False, cell=lambda times: Cell(times.product, times.title)
)


class MatrixLine(NamedTuple):
    """A problem, and its published line; the line is empty if none is published."""

    line: ProblemLine
    printed: Record

    @property
    def name(self) -> Cell:
        return self.line.cell

    def published(self, key: str) -> Cell:
        return count(int(self.printed[key]) if self.printed else None)

    def measured(self, key: str) -> Cell:
        """Return our number of unknowns or non-zeros; a note says if the published number differs."""
        record = self.line.record
        if record is None or record.n is None or record.nnz is None:
            return Cell()
        size = get_entry(self.line.entry).size if record.kind == "matrix" else 1
        cell = count(record.n * size if key == "unknowns" else record.nnz * size**2)
        if not self.printed or int(self.printed[key]) == cell.value:
            return cell
        entries = entries_per_unknown(self.printed)
        size_note = f"printed as {entries} times the unknowns: rows at the boundary are shorter"
        return replace(cell, notes=(size_note if entries else "not as printed",))


MATRIX_COLUMNS: tuple[Column[MatrixLine], ...] = (
    NAME,
    Column("printed", "matrix", "published", False, cell=lambda matrix: Cell(matrix.printed.get("printed"))),
    Column("abbreviation", "name", "published", False, cell=lambda matrix: Cell(matrix.printed.get("abbreviation"))),
    Column("published_unknowns", "unknowns", "published", cell=lambda matrix: matrix.published("unknowns")),
    Column("published_nonzeros", "non-zeros", "published", cell=lambda matrix: matrix.published("nonzeros")),
    Column("unknowns", "unknowns", "ours", cell=lambda matrix: matrix.measured("unknowns")),
    Column("nonzeros", "non-zeros", "ours", cell=lambda matrix: matrix.measured("nonzeros")),
)


@table(STUDY_NAME, "table-6-1", title="The matrices", numbering=f"Table 6.1 of {CITED}")
def matrices(campaign: Campaign, published: Published) -> Table:
    """One line for each problem: unknowns and non-zeros, published numbers beside ours."""
    published_sizes = {item["problem"]: item for item in published.tables.get("sizes", [])}
    cases = [
        MatrixLine(line, published_sizes.get(line.published or "", {})) for line in problem_lines(campaign, published)
    ]
    caption = [
        f"Unknowns and non-zeros, published in Table 6.1 of {CITED} and ours; they do not depend on the device. The",
        "paper’s problems are Poisson’s equation on a square or cubic grid without its boundary; names give the number",
        "of points of the stencil.",
        _without_boundary(published),
        "For a matrix of blocks, unknowns and numbers inside blocks are counted.",
        unavailable_note(campaign),
    ]
    return table_of(MATRIX_COLUMNS, cases, join_sentences(caption))


def entries_per_unknown(item: Record) -> int | None:
    """Return published non-zeros / unknowns if it is an integer, as in counts that ignore the grid's boundary."""
    entries, remainder = divmod(int(item["nonzeros"]), int(item["unknowns"]))
    return None if remainder else entries


def _without_boundary(published: Published) -> str:
    """Return the sentence about published numbers that ignore the grid's boundary; empty if there are none."""
    printed_sizes = ((item["abbreviation"], entries_per_unknown(item)) for item in published.tables.get("sizes", []))
    sizes = [(name, entries) for name, entries in printed_sizes if entries]
    if not sizes:
        return ""
    names = " and ".join(name for name, _ in sizes)
    return (
        f"{names} are printed with {' and '.join(f'{entries}n' for _, entries in sizes)} non-zeros, as if no row were "
        "shorter at the boundary; the others are printed correctly. Ours are the grids’ own numbers."
    )


#: Printed names of our methods, by mode and method of a row.
OUR_METHODS: Mapping[tuple[str | None, str | None], str] = {
    ("single", "default"): results.SINGLE.title,
    ("one", "default"): results.ONE.title,
    ("one", "tuned"): results.ONE_TUNED.title,
    ("two", "tuned"): results.TWO_TUNED.title,
    ("refill", "default"): "untuned",
    ("refill", "tuned"): "tuned",
    ("refill", "stored"): results.STORED.title,
}


@table(
    STUDY_NAME,
    "table-products",
    title="The products, problem by problem",
    numbering="ours",
    lead=("ours_us", "library_us", "library_over_ours", "coordinates_over_ours", "paper_over_ours"),
)
def products(campaign: Campaign, published: Published) -> Table:
    """One line for each problem, product and precision; below, geometric mean and worst case of ratios and GFLOPS."""
    cases_by_precision = [results.all_times(campaign, published, precision) for precision in campaign.precisions]
    cases = [times for cases in zip(*cases_by_precision, strict=True) for case in cases for times in case.products]
    library = library_of(campaign)
    caption = [
        "C = A B for A·A and for the two products of the first level’s set-up, A·P with the prolongator P and R·(A·P)",
        "with its transpose R. Products: multiplications that C needs; compression: mean products per entry of C.",
        "A whole product starts from factors on the device, leaves C there, and includes memory allocation. Ours is",
        "the fastest of four: one launch, for rows of similar length; one phase, which cuts segments off as rows are",
        "done, with the expected kernels; one phase with the kernels that the search chose for each bin; and two",
        "phases, sizes first, with these kernels. The paper’s: one phase, rows sorted in shared memory. All sorted:",
        f"all products sorted by row and column, the paper’s baseline. {library}: its fastest routine. GFLOPS: two",
        "operations per product. Numeric phase: only the values, into a C with a known pattern",
        f"({'SciPy has none' if campaign.on_cpu else 'the library’s: SpGEMMreuse'}). Stored destinations: a plan made",
        "before contains each product’s place in C. The kernel by events: that of one launch, into allocated memory;",
        "the library’s whole product by events includes waiting for the host. Most MB at once: in addition to the",
        "factors. Ratios: times over ours, above 1 if ours is faster.",
        measurement_note(campaign, results.HOST),
        f"Numeric phases are timed by the {results.EVENT} clock.",
        unavailable_note(campaign),
    ]
    return table_of(_product_columns(library), cases, join_sentences(caption), _summary(cases))


def _product_columns(library: str) -> tuple[Column[results.ProductTimes], ...]:
    return (
        NAME,
        PRODUCT,
        PRECISION,
        Column("products", "products", cell=lambda times: count(times.products)),
        Column("nonzeros", "entries of C", cell=lambda times: count(times.nonzeros)),
        Column("compression", "compression", cell=lambda times: ratio(times.compression)),
        _name_column(results.OURS, "way", "ours"),
        _micro_column(results.OURS, "µs", "ours"),
        _micro_column(results.SINGLE_KERNEL, "the kernel by events, µs", "ours"),
        _peak_column(results.OURS, "ours"),
        _micro_column(results.PAPER_KERNELS, "the paper’s", "µs"),
        _micro_column(results.COORDINATES, "sort of all", "µs"),
        Column("library", "routine", library, False, cell=lambda times: Cell(_row_of(times[results.LIBRARY]).routine)),
        _micro_column(results.LIBRARY, "µs", library),
        Column("library_event_us", "by events, µs", library, cell=_by_events),
        _peak_column(results.LIBRARY, library),
        _ratio_column("paper_over_ours", "the paper’s", results.PAPER_KERNELS, results.OURS),
        _ratio_column("coordinates_over_ours", "sort of all", results.COORDINATES, results.OURS),
        _ratio_column("library_over_ours", library, results.LIBRARY, results.OURS),
        Column("gflops", "ours", "GFLOPS", cell=lambda times: number_cell(times.gflops(results.OURS)), summary=LEAST),
        Column(
            "library_gflops",
            library,
            "GFLOPS",
            cell=lambda times: number_cell(times.gflops(results.LIBRARY)),
            summary=LEAST,
        ),
        _name_column(results.REFILL, "kernels", "numeric phase"),
        _micro_column(results.REFILL, "ours, µs", "numeric phase"),
        _micro_column(results.HASHED, "hash tables, µs", "numeric phase"),
        _micro_column(results.STORED, "stored destinations, µs", "numeric phase"),
        Column(
            "plan_mb",
            "plan, MB",
            "numeric phase",
            cell=lambda times: megabytes(_row_of(times[results.STORED]).plan_bytes),
        ),
        _micro_column(results.REUSE, f"{library}, µs", "numeric phase"),
        _ratio_column("reuse_over_refill", "over ours", results.REUSE, results.REFILL, "numeric phase"),
    )


def _peak_column(method: Method, group: str) -> Column[results.ProductTimes]:
    return Column(
        f"{method.key}_peak_mb",
        "most MB at once",
        group,
        cell=lambda times: megabytes(_row_of(times[method]).peak_bytes),
    )


def _by_events(times: results.ProductTimes) -> Cell:
    return number_cell(_row_of(times[results.LIBRARY]).stage_whole, MICRO)


def _name_column(method: Method, title: str, group: str) -> Column[results.ProductTimes]:
    def text(time: results.Time) -> str:
        return OUR_METHODS.get((time.row.mode, time.row.method), time.name)

    return Column(method.key, title, group, False, cell=lambda times: name_of(times[method], text))


def _micro_column(method: Method, title: str, group: str) -> Column[results.ProductTimes]:
    """Return the column of a method's time in microseconds, or of the reason why it has none."""
    return time_column(f"{method.key}_us", title, group, method, lambda times: times.failure(method))


def _ratio_column(
    key: str, title: str, base: Method, divisor: Method, group: str = "times over ours"
) -> Column[results.ProductTimes]:
    return speedup_column(key, title, group, base, divisor, LEAST)


@table(STUDY_NAME, "table-memory", title="Memory of the products", numbering="ours")
def memory(campaign: Campaign, published: Published) -> Table:
    """One line for each product: peak memory of each method, divided by the memory of C."""
    cases = results.all_products(campaign, published)
    columns: tuple[Column[results.ProductTimes], ...] = (
        NAME,
        PRODUCT,
        Column("c_mb", "C as CSR, MB", cell=lambda times: megabytes(times.bytes_of_c)),
        *(_memory_column(method, "most bytes at once / bytes of C") for method in (*results.METHODS, results.SINGLE)),
        *(_memory_column(routine, f"{library_of(campaign)}, the same") for routine in results.routines_of(cases)),
    )
    caption = [
        "Peak memory of a product, including C but not its factors, over the bytes of C as CSR with 4-byte indices.",
        "All methods allocate from one pool, whose growth is measured.",
        "On the CPU there is no such pool, so nothing is counted." if campaign.on_cpu else "",
        f"{campaign.main_precision.capitalize()} precision.",
        f"Ours: {campaign.column}, campaign {campaign.name}.",
        unavailable_note(campaign),
    ]
    return table_of(columns, cases, join_sentences(caption), _summary(cases))


def _memory_column(method: Method, group: str) -> Column[results.ProductTimes]:
    def cell(times: results.ProductTimes) -> Cell:
        failure = times.failure(method)
        cell = add_row_keys(ratio(times.memory(method)), times[method])
        return cell if cell.value else Cell(notes=(failure,) if failure else ())

    return Column(f"{method.key}_over_c", method.title, group, cell=cell, summary=MOST)


@table(STUDY_NAME, "table-phases", title="One phase against two", numbering="ours", lead=("two_over_one",))
def phases(campaign: Campaign, published: Published) -> Table:
    """One line for each product: times of the one-phase and two-phase methods and of their steps, and their memory."""
    cases = results.all_products(campaign, published)
    columns = (
        NAME,
        PRODUCT,
        *_step_columns(results.ONE_TUNED, ONE_PHASE),
        *_step_columns(results.TWO_TUNED, TWO_PHASES),
        time_column("refill_us", "numeric alone, µs", "", results.REFILL),
        _ratio_column("two_over_one", "time", results.TWO_TUNED, results.ONE_TUNED, "two phases over one"),
        Column("two_over_one_bytes", "memory", "two phases over one", cell=_two_over_one_bytes, summary=LEAST),
    )
    caption = [
        "One phase: rows are binned by their products and computed; each row cuts off its segment when it is done, so",
        "none waits for another. Two phases: the symbolic phase finds the sizes of all rows, which give their places;",
        "the numeric phase computes them. Count: products per row, and bins; settle: failed rows are computed again,",
        "and C is cut to its size. Both use the kernels that the search chose. Whole: the product with its",
        "allocations; steps: medians by events in separate samples, so they do not add up to the whole. Numeric alone:",
        f"into a C with a known pattern, by the {results.EVENT} clock. Memory: peak bytes. Ratios above 1 favour one",
        "phase; the worst is its smallest.",
        closing_notes(campaign, results.HOST, campaign.main_precision),
    ]
    return table_of(columns, cases, join_sentences(caption), _summary(cases))


def _step_columns(method: Method, steps: Sequence[str]) -> tuple[Column[results.ProductTimes], ...]:
    """Return the columns of the time of a whole product, and of each of its steps."""
    group = f"{method.title}: µs"

    def step_column(name: str) -> Column[results.ProductTimes]:
        def cell(times: results.ProductTimes) -> Cell:
            return number_cell(_row_of(times[method]).get(f"stage_{name}"), MICRO)

        return Column(f"{method.key}_{name}_us", name, group, cell=cell)

    return _micro_column(method, "whole", group), *map(step_column, steps)


def _two_over_one_bytes(times: results.ProductTimes) -> Cell:
    one_phase, two_phase = (_row_of(times[method]).peak_bytes for method in (results.ONE_TUNED, results.TWO_TUNED))
    return ratio(two_phase / one_phase if one_phase and two_phase else None)


SEARCHED = "a time from the search: not chosen, so not timed again"


@table(STUDY_NAME, "table-bins", title="The fastest kernel of each bin", numbering="ours")
def bins(campaign: Campaign, published: Published) -> Table:
    """One line for each bin of each product: the fastest kernel of each method, and its time."""
    items = [
        item
        for times in results.all_times(campaign, published)
        for item in results.bins_of(times) or [results.BinTimes(times)]
    ]
    columns: tuple[Column[results.BinTimes], ...] = (
        NAME,
        Column("product", "product", numeric=False, cell=lambda item: _titled(item.row.product, PRODUCTS)),
        Column("mode", "phase", numeric=False, cell=lambda item: _titled(item.row.mode, results.BIN_MODES)),
        Column("bin", "bin", cell=lambda item: Cell(item.row.bin, item.title)),
        Column("rows", "rows", cell=lambda item: count(item.rows)),
        Column("products", "products", cell=lambda item: count(item.products)),
        Column("compression", "compression", cell=lambda item: ratio(item.compression)),
        *(column for method in results.BIN_METHODS for column in _kernel_columns(method)),
        Column("winner", "won by", numeric=False, cell=lambda item: _titled(item.winner, results.BIN_METHODS)),
        Column("lead", "lead", cell=lambda item: ratio(item.lead)),
    )
    caption = [
        "Only the rows of one bin of a product, by the fastest kernel of each method: sorted in shared memory, as in",
        "the paper; a hash table in shared memory; a sum for every column of C in global memory. One phase: rows are",
        "binned by their products and stored in segments that are cut off. Numeric phase: rows are binned by their",
        "entries and stored in their known places; no sort was tried. Kernel: lanes per row, slots or room per row,",
        "and rows per block. Compression: products per entry of C. Won by: the fastest method; lead: the time of the",
        "next best method over its time.",
        results.OF_THE_SEARCH,
        _wins(items),
        closing_notes(campaign, results.EVENT, campaign.main_precision),
    ]
    return table_of(columns, items, join_sentences(caption))


def _titled(value: str | None, titles: Mapping[str, str]) -> Cell:
    return Cell(value, titles[value]) if value else Cell()


def _kernel_columns(method: str) -> list[Column[results.BinTimes]]:
    """Return the columns of the fastest kernel of a method for a bin, and of its time."""

    def kernel(item: results.BinTimes) -> Cell:
        return name_of(item[method], lambda time: time.name.rpartition(f"{method}-")[2])

    def micro(item: results.BinTimes) -> Cell:
        time = item[method]
        cell = microseconds(time, reason=None if time else item.kernels.select(method=method).failure)
        return replace(cell, notes=(*cell.notes, SEARCHED)) if time and time.row.phase != "report" else cell

    time = Column[results.BinTimes](f"{method}_us", "µs", results.BIN_METHODS[method], cell=micro)
    name = Column[results.BinTimes](f"{method}_kernel", "kernel", results.BIN_METHODS[method], False, cell=kernel)
    return [time] if method == "dense" else [name, time]


def _wins(items: Sequence[results.BinTimes]) -> str:
    """Return the sentence that counts for each method the bins in which it wins; empty without bins."""
    texts = []
    for mode, title in results.BIN_MODES.items():
        win_counts = Counter(item.winner for item in items if item.row.mode == mode and item.winner)
        if win_counts:
            counts = ", ".join(
                f"{results.BIN_METHODS[method]} {win_counts[method]}"
                for method in results.BIN_METHODS
                if win_counts[method]
            )
            texts.append(f"in the {win_counts.total()} bins of the {title}: {counts}")
    return f"Won {'; '.join(texts)}." if texts else ""


IN_STEPS = (
    "Phases: medians by events in separate samples. A phase that waits for a size includes host time, so the phases do "
    "not add up to the whole."
)
OVER_SORT = "speedup over the sort of all"


@table(STUDY_NAME, "table-setup", title="The set-up of multigrid", numbering="ours", lead=("coordinates_over_default",))
def setup(campaign: Campaign, published: Published) -> Table:
    """One line for each problem: times of three set-ups, speedups over sorting, time per unknown, and phases."""
    cases = results.all_times(campaign, published)
    share = published_range(published, SHARE_MIN, SHARE_MAX)

    def published_share(case: results.ProblemTimes) -> Cell:
        return Cell(share[1], _percents(share)) if share and case.line.published else Cell()

    def published_speedup(case: results.ProblemTimes) -> Cell:
        return ratio(published_value(published, SET_UP, case.line.published) if case.line.published else None)

    shares = "share of Galerkin products"
    columns: tuple[Column[results.ProblemTimes], ...] = (
        NAME,
        Column("unknowns", "unknowns", cell=lambda case: count(case.hierarchy.rows)),
        Column("levels", "levels", cell=lambda case: Cell(case.hierarchy.levels)),
        Column("complexity", "complexity", cell=lambda case: ratio(case.hierarchy.complexity)),
        *(_milli_column(f"{method.key}_ms", method.title, "whole set-up, ms", method) for method in results.SET_UPS),
        *(
            speedup_column(
                f"coordinates_over_{method.key}", method.title, OVER_SORT, results.COORDINATE_SET_UP, method, LEAST
            )
            for method in (results.OUR_SET_UP, results.PAPERS_SET_UP)
        ),
        Column("published_speedup", f"published, {GPU}", OVER_SORT, cell=published_speedup),
        Column(
            "ns_an_unknown",
            "ns an unknown",
            "ours",
            cell=lambda case: _over(_seconds(case[results.OUR_SET_UP]), case.hierarchy.rows, NANO),
            summary=MOST,
        ),
        Column("peak_mb", "most MB at once", "ours", cell=lambda case: megabytes(case.hierarchy.peak_bytes)),
        *_stage_columns("phases on all levels, ms"),
        Column("galerkin_share", "ours", shares, cell=lambda case: percent(results.galerkin_share(case.stages))),
        Column("published_share", f"published, {GPU}", shares, cell=published_share),
    )
    caption = [
        "Set-up of smoothed aggregation, from the matrix on the device to all levels on the device: its whole time",
        "with Galerkin products R·(A·P) by our kernels, by the paper’s, and by a sort of all products. Complexity:",
        "non-zeros of all levels over those of the finest.",
        IN_STEPS,
        "Share: that of the Galerkin products in the phases of all levels.",
        f"Published, {GPU}: {CITED} states a share of {_percents(share)} over all its problems, but no single times."
        if share
        else "",
        cpu_note(campaign),
        closing_notes(campaign, results.HOST, campaign.main_precision),
    ]
    return table_of(columns, cases, join_sentences(caption), _summary(cases))


def _milli_column(key: str, title: str, group: str, method: Method) -> Column[results.ProblemTimes]:
    """Return the column of a set-up or solution time in ms, or of the reason why a measured problem has none."""

    def cell(case: results.ProblemTimes) -> Cell:
        return time_cell(case[method], results.MILLI, case.why_not(method) if case.case.is_measured else None)

    return Column(key, title, group, cell=cell)


def _stage_columns(group: str) -> list[Column[Any]]:
    """Return the columns of the times of all stages of a set-up, for a problem or for a level."""

    def column(name: str, title: str) -> Column[Any]:
        return Column(f"{name}_ms", title, group, cell=lambda case: number_cell(case.stages.get(name), results.MILLI))

    return [column(name, title) for name, title in SETUP_STAGES.items()]


@dataclass(frozen=True)
class Level:
    """A multigrid level of a problem; without a time if no level of the problem was timed."""

    problem: results.ProblemTimes
    timed: results.Time | None

    @property
    def name(self) -> Cell:
        return self.problem.line.noted_cell("" if self.timed else self.problem.why_not(results.LEVEL))

    @property
    def row(self) -> AmgRow:
        return _row_of(self.timed)

    @property
    def stages(self) -> Mapping[str, float]:
        return results.stages_of(self.row)


LEVEL_COLUMNS: tuple[Column[Level], ...] = (
    NAME,
    Column("level", "level", cell=lambda level: Cell(level.row.level)),
    Column("rows", "rows", cell=lambda level: count(level.row.rows)),
    Column("nonzeros", "non-zeros", cell=lambda level: count(level.row.nonzeros)),
    Column("whole_ms", "whole, ms", cell=lambda level: time_cell(level.timed, results.MILLI)),
    *_stage_columns("phases, ms"),
    Column(
        "galerkin_share",
        "share of the Galerkin product",
        cell=lambda level: percent(results.galerkin_share(level.stages)),
    ),
)


@table(STUDY_NAME, "table-levels", title="The set-up level by level", numbering="ours")
def levels(campaign: Campaign, published: Published) -> Table:
    """One line for each multigrid level of a problem: time of its set-up, as a whole and by phases."""
    cases = results.all_times(campaign, published)
    lines = [Level(case, time) for case in cases for time in (*case.levels,) or (None,)]
    caption = [
        "The set-up of one level, which makes the next one: its matrix’s size, the whole time, and its phases. The",
        "finer levels exist already.",
        IN_STEPS,
        closing_notes(campaign, results.HOST, campaign.main_precision),
    ]
    return table_of(LEVEL_COLUMNS, lines, join_sentences(caption))


def _percents(share: tuple[float, float]) -> str:
    return f"{100 * share[0]:.0f}–{100 * share[1]:.0f} %"


def _solved(case: results.ProblemTimes) -> AmgRow:
    return _row_of(case[results.SOLUTION], case[results.OUR_SET_UP])


def _total(case: results.ProblemTimes) -> float | None:
    """Return the seconds of set-up and solution together; None if either is missing."""
    set_up_time, solution = case[results.OUR_SET_UP], case[results.SOLUTION]
    return set_up_time.seconds + solution.seconds if set_up_time and solution else None


SOLVE_COLUMNS: tuple[Column[results.ProblemTimes], ...] = (
    NAME,
    Column("unknowns", "unknowns", cell=lambda case: count(_solved(case).rows)),
    Column("levels", "levels", cell=lambda case: Cell(_solved(case).levels)),
    Column("iterations", "iterations", cell=lambda case: Cell(_solved(case).iterations)),
    _milli_column("setup_ms", "set-up", "ms", results.OUR_SET_UP),
    _milli_column("solve_ms", "solution", "ms", results.SOLUTION),
    Column("sum_ms", "together", "ms", cell=lambda case: number_cell(_total(case), results.MILLI)),
    Column(
        "iteration_ms",
        "an iteration",
        "ms",
        cell=lambda case: _over(_seconds(case[results.SOLUTION]), _solved(case).iterations, results.MILLI),
    ),
    Column("ns_an_unknown", "together, ns an unknown", cell=lambda case: _over(_total(case), _solved(case).rows, NANO)),
)


@table(STUDY_NAME, "table-solve", title="Set-up and solution", numbering="ours")
def solve(campaign: Campaign, published: Published) -> Table:
    """One line for each problem: iterations, and solution time compared with set-up time."""
    caption = [
        "Conjugate gradients with a V-cycle per step, from x = 0 until the residual is",
        f"{TOLERANCE:.0e} of the right-hand side, which is A times a random vector. The set-up uses our kernels. Both",
        "start with all data on the device. The paper prints none of these numbers.",
        closing_notes(campaign, results.HOST, campaign.main_precision),
    ]
    return table_of(SOLVE_COLUMNS, results.all_times(campaign, published), join_sentences(caption))


@table(STUDY_NAME, "table-targets", title="Targets, and what was reached", numbering="ours")
def targets(campaign: Campaign, published: Published) -> Table:
    """One line for each target: wanted number, measured number and worst case; or the reason why none was measured."""
    caption = [
        "Goals and measurements on the paper’s eight problems and their 24 products (A·A, A·P and R·(A·P) of each);",
        "elasticity: the same products for three bodies; squares: A·A of eight other matrices. Ours: the fastest whole",
        "product with our kernels, as in the table of products. Best other method: the fastest of the library’s",
        "routines, the paper’s kernels and the sort of all products. Cases: the number of cases with a value; if some",
        "have none, the verdict covers the others, and a note names the missing ones.",
        f"{campaign.main_precision.capitalize()} precision.",
        measurement_note(campaign, results.HOST),
        f"Numeric phases, also the library’s beside our whole products, are timed by the {results.EVENT} clock unless",
        "a line names another; whole products and set-ups only by the host clock.",
        target_device_note(campaign),
        unavailable_note(campaign),
    ]
    cases = results.problem_cases(campaign, published)
    return targets_table(campaign, published, results.TARGET_QUANTITIES, cases, join_sentences(caption))


def _cases(campaign: Campaign, published: Published) -> list[results.ProductTimes]:
    cases = [case for name in campaign.precisions for case in results.all_times(campaign, published, name)]
    return [times for case in cases for times in case.products]


def _setup_costs(times: results.ProductTimes) -> SetupCosts:
    ours, product_time, reuse = times[results.REFILL], times[results.OURS], times[results.REUSE]
    library_time = times.of(results.LIBRARY).select(routine="reuse").fastest(results.HOST)
    return SetupCosts(
        times.name,
        times.case.precision,
        library=reuse,
        csr=reuse,
        ours=ours,
        ours_seconds=_seconds(product_time) if ours else None,
        library_seconds=_seconds(library_time),
        product=times.title,
    )


register_setup_costs(
    STUDY_NAME,
    library_of,
    _cases,
    _setup_costs,
    results.EVENT,
    setup="Set-up: our whole product, which creates the pattern, by the host clock. Products in this table are numeric"
    " phases, only values into a known pattern. Whole products read and write CSR, without a set-up.",
    analysis="Analysis: the first whole product by SpGEMMreuse, by the host clock.",
)


TASKS = [
    Method(f"{operation}_{product}", f"{title}, {task}", columns={"what": operation, "product": product}, clock=clock)
    for product, title in PRODUCTS.items()
    for operation, task, clock in (
        ("product", "whole product", results.HOST),
        ("numeric", "numeric phase", results.EVENT),
    )
]
register_baselines(
    STUDY_NAME,
    [*TASKS, replace(results.OUR_SET_UP, title="set-up", columns={"what": "setup"})],
    # a name without the product, which the task names
    lambda row: row.name.removeprefix(f"{row.product}/").removesuffix(f"/{row.product}"),
)


register_claims(STUDY_NAME, CITED, results.CLAIM_QUANTITIES, results.problem_cases)
