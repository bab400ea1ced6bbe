"""Tables of sparse products and multigrid: matrices, products, memory, bins, set-up, solution, and targets.

Products are ours, the paper's, the sort of all products and the library's. The set-up is shown as a whole by
three kinds of products, by its phases, and level by level.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from repro.entries import get_entry
from repro.results.campaign_data import Campaign, one_line
from repro.results.problem_rows import (
    ABBREVIATIONS,
    PROBLEM,
    ProblemRow,
    cpu_note,
    join_sentences,
    measurement_note,
    problem_rows,
    unavailable_note,
)
from repro.results.published import Published, Record
from repro.results.registry import table
from repro.results.significance import geometric_mean
from repro.results.tables import (
    Cell,
    Column,
    Measured,
    Table,
    count,
    digits,
    from_rows,
    microseconds,
    percent,
    ratio,
    speedup,
    target_columns,
    target_line,
    wanted_on,
)
from repro.sparse.baseline_times import library_of
from repro.studies.spgemm_amg import PAPER, PRODUCTS, STUDY_NAME, TOLERANCE
from repro.studies.spgemm_amg.results import (
    BIN_METHODS,
    BIN_MODES,
    COORDINATES,
    EVENT,
    HOST,
    LIBRARY,
    METHODS,
    MILLI,
    OF_THE_SEARCH,
    ONE,
    ONE_TUNED,
    OURS,
    PAPER_KERNELS,
    PHASES,
    QUANTITIES,
    REFILL,
    REUSE,
    SETUP_METHODS,
    TWO_TUNED,
    BinTimes,
    LevelTimes,
    Method,
    ProblemTimes,
    ProductTimes,
    all_times,
    bins_of,
    gather,
    micro_of,
    milli,
    precision_of,
    problem_cell,
    routines_of,
    summary,
    three_digits,
)
from repro.studies.spgemm_amg.study import GPU, SET_UP, SHARE_MAX, SHARE_MIN, published_range, published_value

HEADS = {"unknowns": "unknowns", "nonzeros": "non-zeros"}


@table(STUDY_NAME, "table-6-1", title="The matrices", numbering=f"Table 6.1 of {PAPER}")
def matrices(campaign: Campaign, published: Published) -> Table:
    """Unknowns and non-zeros, published beside ours."""
    by_problem = {item["problem"]: item for item in published.tables.get("sizes", [])}
    columns = (
        PROBLEM,
        Column("printed", "matrix", "published", numeric=False),
        Column("abbreviation", "name", "published", numeric=False),
        *(Column(f"published_{key}", head, "published") for key, head in HEADS.items()),
        *(Column(key, head, "ours") for key, head in HEADS.items()),
    )
    rows = [_matrix_row(line, by_problem.get(line.published or "")) for line in problem_rows(campaign, published)]
    caption = [
        f"Unknowns and non-zeros, published in Table 6.1 of {PAPER} and ours; they do not depend on the device. The",
        "paper’s are Poisson’s equation on a square or cubic grid, its boundary left out, by stencils of so many",
        "points.",
        _without_boundary(published),
        "Of a matrix of blocks: its unknowns, and every number of its blocks.",
        unavailable_note(campaign),
    ]
    return Table(columns, rows, join_sentences(caption))


def boundless(item: Record) -> int | None:
    """Return how many entries every row has by what is printed, the grid's boundary forgotten; None where it is not."""
    entries, rest = divmod(int(item["nonzeros"]), int(item["unknowns"]))
    return None if rest else entries


def _without_boundary(published: Published) -> str:
    """Return the sentence that says what is printed wrong; empty where nothing is."""
    wrong = [(item["abbreviation"], boundless(item)) for item in published.tables.get("sizes", []) if boundless(item)]
    if not wrong:
        return ""
    names = " and ".join(name for name, _ in wrong)
    return (
        f"{names} are printed with {' and '.join(f'{entries}n' for _, entries in wrong)} non-zeros, as if no point lay "
        "at the boundary, where rows are shorter; all others are printed as they are. Ours are what the grids give."
    )


def _matrix_row(line: ProblemRow, item: Record | None) -> tuple[Cell, ...]:
    theirs = [int(item[key]) for key in HEADS] if item else [None, None]
    ours = _sizes(line)
    return (
        line.cell,
        Cell(item["printed"] if item else None),
        Cell(item["abbreviation"] if item else None),
        *map(count, theirs),
        *(_published_cell(own, printed, item) for own, printed in zip(ours, theirs, strict=True)),
    )


def _sizes(line: ProblemRow) -> tuple[int | None, int | None]:
    record = line.record
    if record is None or record.n is None or record.nnz is None:
        return None, None
    size = get_entry(line.entry).size
    return record.n * size, record.nnz * size**2


def _published_cell(own: int | None, printed: int | None, item: Record | None) -> Cell:
    """Return the cell of a size of ours, noted where another one is printed."""
    cell = count(own)
    if own is None or printed is None or item is None or own == printed:
        return cell
    entries = boundless(item)
    why = f"printed as {entries} times the unknowns: rows at the boundary are shorter" if entries else "not as printed"
    return Cell(cell.value, cell.text, (why,))


#: What our column may name: the way by a row's mode and method.
OUR_WAYS = {
    ("one", "default"): ONE.title,
    ("one", "tuned"): ONE_TUNED.title,
    ("two", "tuned"): TWO_TUNED.title,
    ("refill", "default"): "untuned",
    ("refill", "tuned"): "tuned",
}
RATIOS = {"paper_over_ours": min, "coordinates_over_ours": min, "library_over_ours": min, "reuse_over_refill": min}
WORST = {**RATIOS, "gflops": min, "library_gflops": min}


@table(STUDY_NAME, "table-products", title="The products, problem by problem", numbering="ours")
def products(campaign: Campaign, published: Published) -> Table:
    """A line a problem, product and precision; geometric means and the worst of ratios and GFLOPS below."""
    by_precision = [all_times(campaign, published, precision) for precision in campaign.precisions]
    cases = [times for cases in zip(*by_precision, strict=True) for case in cases for times in case.products]
    library = library_of(campaign)
    columns = _product_columns(library)
    caption = [
        "C = A B of A·A and of the two products of the first level’s set-up, A·P with the prolongator P and R·(A·P)",
        "with its transpose R. Products: multiplications that C takes; compression: of them an entry of C is the sum",
        "of, in the mean. Whole products, from factors on the device to C there, memory allocated on the way: ours,",
        "the fastest of one phase, which cuts segments off as rows are done, with the expected kernels and with those",
        "that the search chose for each bin, and of two phases, sizes first, with those; the paper’s: one phase, rows",
        "sorted in shared memory; all products sorted by row and column, the method that the paper compares with;",
        f"{library}: its fastest routine. GFLOPS: two operations a product. Numeric phase: the numbers alone, into a C",
        f"whose pattern is there, {'which SciPy has not' if campaign.on_cpu else 'the library’s of SpGEMMreuse'}.",
        "Ratios: times over ours, above 1 where ours is the faster.",
        measurement_note(campaign, HOST),
        f"Numeric phases by the {EVENT} clock.",
        unavailable_note(campaign),
    ]
    rows = [_product_row(times) for times in cases]
    return Table(
        columns,
        rows,
        join_sentences(caption),
        summary(columns, rows, WORST, [times.line.published is not None for times in cases]),
    )


def _product_columns(library: str) -> tuple[Column, ...]:
    over = "times over ours"
    return (
        PROBLEM,
        Column("product", "product", numeric=False),
        Column("precision", "precision", numeric=False),
        Column("products", "products"),
        Column("nonzeros", "entries of C"),
        Column("compression", "compression"),
        Column("ours", "way", "ours", numeric=False),
        Column("ours_us", "µs", "ours"),
        Column("paper_us", "the paper’s", "µs"),
        Column("coordinates_us", "sort of all", "µs"),
        Column("library", "routine", library, numeric=False),
        Column("library_us", "µs", library),
        Column("paper_over_ours", "the paper’s", over),
        Column("coordinates_over_ours", "sort of all", over),
        Column("library_over_ours", library, over),
        Column("gflops", "ours", "GFLOPS"),
        Column("library_gflops", library, "GFLOPS"),
        Column("refill", "kernels", "numeric phase", numeric=False),
        Column("refill_us", "ours, µs", "numeric phase"),
        Column("reuse_us", f"{library}, µs", "numeric phase"),
        Column("reuse_over_refill", "over ours", "numeric phase"),
    )


def _product_row(times: ProductTimes) -> tuple[Cell, ...]:
    ours, library = times.time(OURS), times.time(LIBRARY)
    return (
        problem_cell(times.line, "" if times.product else times.case.why_not()),
        Cell(times.product, times.title),
        Cell(times.case.precision, ABBREVIATIONS[times.case.precision]),
        count(times.products),
        count(times.nonzeros),
        ratio(times.compression),
        _method_title(times, OURS),
        micro_of(times, OURS),
        micro_of(times, PAPER_KERNELS),
        micro_of(times, COORDINATES),
        Cell(library.row["routine"] if library else None),
        micro_of(times, LIBRARY),
        *(speedup(times.time(way), ours) for way in (PAPER_KERNELS, COORDINATES, LIBRARY)),
        three_digits(times.gflops(ours)),
        three_digits(times.gflops(library)),
        _method_title(times, REFILL),
        micro_of(times, REFILL),
        micro_of(times, REUSE),
        speedup(times.time(REUSE), times.time(REFILL)),
    )


def _method_title(times: ProductTimes, way: Method) -> Cell:
    """Return the cell that names the fastest of ours."""
    timed = times.time(way)
    return Cell(timed.name, OUR_WAYS.get((timed.row["mode"], timed.row["method"]), timed.name)) if timed else Cell()


BYTES_PER_MB, MICRO = 1e6, 1e6
PRODUCT = Column("product", "product", numeric=False)
#: The steps of a product in one phase, and in two, as they are printed.
STEPS = {
    ONE_TUNED: {"count": "count", "compute": "compute", "settle": "settle"},
    TWO_TUNED: {"count": "count", "symbolic": "symbolic", "place": "place", "numeric": "numeric"},
}


@table(STUDY_NAME, "table-memory", title="Memory of the products", numbering="ours")
def memory(campaign: Campaign, published: Published) -> Table:
    """The most bytes that each way takes at once, over those of C."""
    cases = _products(campaign, published)
    ways = [*METHODS, *routines_of(cases)]
    columns = (
        PROBLEM,
        PRODUCT,
        Column("c_mb", "C as CSR, MB"),
        *(Column(f"{way.key}_over_c", way.title, "most bytes at once / bytes of C") for way in METHODS),
        *(Column(f"{way.key}_over_c", way.title, f"{library_of(campaign)}, the same") for way in ways[len(METHODS) :]),
    )
    rows = [_memory(times, ways) for times in cases]
    caption = [
        "The most memory that a product takes at once beside its factors, C among it, over the bytes of C as CSR with",
        "indices of 4 bytes: what the pool grows by that all of them allocate from.",
        "On the CPU there is no such pool, and nothing is counted." if campaign.on_cpu else "",
        f"{precision_of(campaign).capitalize()} precision.",
        f"Ours: {campaign.column}, campaign {campaign.name}.",
        unavailable_note(campaign),
    ]
    worst = {column.key: max for column in columns if column.key.endswith("_over_c")}
    return Table(columns, rows, join_sentences(caption), summary(columns, rows, worst, _papers(cases)))


@table(STUDY_NAME, "table-phases", title="One phase against two", numbering="ours")
def phases(campaign: Campaign, published: Published) -> Table:
    """Times of both and of their steps, and their memory."""
    cases = _products(campaign, published)
    columns = [PROBLEM, PRODUCT]
    for way, steps in STEPS.items():
        columns.append(Column(f"{way.key}_us", "whole", f"{way.title}: µs"))
        columns += [Column(f"{way.key}_{name}_us", title, f"{way.title}: µs") for name, title in steps.items()]
    columns += [
        Column("refill_us", "numeric alone, µs"),
        Column("two_over_one", "time", "two phases over one"),
        Column("two_over_one_bytes", "memory", "two phases over one"),
    ]
    caption = [
        "One phase: rows are binned by their products, computed, and stored in segments that each cuts off as it is",
        "done, so that no row waits for another; two: the sizes of all rows are found first (symbolic), places follow",
        "from them, and the numbers come last. Count: products of rows, and bins; settle: what is left over is done",
        "again, and C is cut to its size. Both with the kernels that the search chose. Whole: the product with its",
        "allocations; steps: medians of each by events in samples of their own, so that they do not add up to it.",
        f"Numeric alone: into a C whose pattern is there, by the {EVENT} clock.",
        "Memory: the most bytes at once. Ratios are above 1 where one phase is the better; the worst is that for it.",
        f"{precision_of(campaign).capitalize()} precision.",
        measurement_note(campaign, HOST),
        unavailable_note(campaign),
    ]
    rows = [_step_cells(times) for times in cases]
    worst = {"two_over_one": min, "two_over_one_bytes": min}
    return Table(tuple(columns), rows, join_sentences(caption), summary(columns, rows, worst, _papers(cases)))


def _products(campaign: Campaign, published: Published) -> list[ProductTimes]:
    return [times for case in all_times(campaign, published) for times in case.products]


def _papers(cases: Sequence[ProductTimes]) -> list[bool]:
    return [times.line.published is not None for times in cases]


def _named(times: ProductTimes) -> tuple[Cell, Cell]:
    return problem_cell(times.line, "" if times.product else times.case.why_not()), Cell(times.product, times.title)


def _memory(times: ProductTimes, ways: Sequence[Method]) -> tuple[Cell, ...]:
    size = times.bytes_of_c
    return (
        *_named(times),
        Cell() if size is None else Cell(size / BYTES_PER_MB, digits(size / BYTES_PER_MB)),
        *(_over_c(times, way) for way in ways),
    )


def _over_c(times: ProductTimes, way: Method) -> Cell:
    value = times.memory(way)
    return from_rows(ratio(value), times.time(way)) if value else Cell(notes=_why_not(times, way))


def _why_not(times: ProductTimes, way: Method) -> tuple[str, ...]:
    """Return why a way has no memory on record: it has no time; nothing where that is not it."""
    return () if times.time(way) else times.why_not(way)


def _step_cells(times: ProductTimes) -> tuple[Cell, ...]:
    one, two = times.time(ONE_TUNED), times.time(TWO_TUNED)
    cells = [*_named(times)]
    for way, steps in STEPS.items():
        timed = times.time(way)
        cells.append(micro_of(times, way))
        cells += [_step(timed.row[f"stage_{name}"] if timed else None) for name in steps]
    one_bytes, two_bytes = (timed.row["peak_bytes"] if timed else None for timed in (one, two))
    return (
        *cells,
        microseconds(times.time(REFILL)),
        speedup(two, one),
        ratio(two_bytes / one_bytes if one_bytes and two_bytes else None),
    )


def _step(seconds: float | None) -> Cell:
    return Cell() if seconds is None else Cell(MICRO * seconds, digits(MICRO * seconds))


SEARCHED = "a time of the search: not chosen, and so not timed again"


@table(STUDY_NAME, "table-bins", title="The fastest kernel of each bin", numbering="ours")
def bins(campaign: Campaign, published: Published) -> Table:
    """A line a bin of a product."""
    rows: list[tuple[Cell, ...]] = []
    everything: list[BinTimes] = []
    for times in all_times(campaign, published):
        of_problem = bins_of(times)
        everything += of_problem
        rows += [_bin_row(item) for item in of_problem]
        if not of_problem:
            why = times.case.why_not() if not times.case.measured else "no kernel of a bin was tried"
            rows.append((problem_cell(times.line, why), *(Cell(),) * (len(_bin_columns()) - 1)))
    caption = [
        "The rows of one bin of a product alone, by the fastest kernel of each method: sorted in shared memory, as the",
        "paper does; by a hash table in shared memory; with a sum for every column of C in global memory. One phase:",
        "rows are binned by their products, and are stored in segments that are cut off; numeric phase: binned by",
        "their entries, into places that are there, which a sort is not tried for. Kernel: lanes of a row, slots or",
        "room, and rows of a block. Compression: products that an entry of C is the sum of. Won by: the fastest;",
        "lead: the time of the next best method over its own.",
        OF_THE_SEARCH,
        _wins(everything),
        f"{precision_of(campaign).capitalize()} precision.",
        measurement_note(campaign, EVENT),
        unavailable_note(campaign),
    ]
    return Table(_bin_columns(), rows, join_sentences(caption))


def _bin_columns() -> tuple[Column, ...]:
    return (
        PROBLEM,
        Column("product", "product", numeric=False),
        Column("mode", "phase", numeric=False),
        Column("bin", "bin"),
        Column("rows", "rows"),
        Column("products", "products"),
        Column("compression", "compression"),
        *(
            column
            for key, title in BIN_METHODS.items()
            for column in (Column(f"{key}_kernel", "kernel", title, False), Column(f"{key}_us", "µs", title))
            if column.key != "dense_kernel"
        ),
        Column("winner", "won by", numeric=False),
        Column("lead", "lead"),
    )


def _bin_row(item: BinTimes) -> tuple[Cell, ...]:
    cells = [
        problem_cell(item.line),
        Cell(item.product, PRODUCTS[item.product]),
        Cell(item.mode, BIN_MODES[item.mode]),
        Cell(item.bin, item.title),
        count(item.rows),
        count(item.products),
        ratio(item.compression),
    ]
    for method in BIN_METHODS:
        timed = item.by_method.get(method)
        if method != "dense":
            cells.append(Cell(timed.name, timed.name.rpartition(f"{method}-")[2]) if timed else Cell())
        cell = microseconds(timed)
        notes = [SEARCHED] if method in item.searched else []
        notes += [item.failures[method]] if method in item.failures else []
        cells.append(replace(cell, notes=(*cell.notes, *notes)))
    won = item.winner
    return (*cells, Cell(won, BIN_METHODS[won]) if won else Cell(), ratio(item.lead))


def _wins(items: Sequence[BinTimes]) -> str:
    """Return the sentence that counts wins; empty without any."""
    words = []
    for mode, title in BIN_MODES.items():
        won = Counter(item.winner for item in items if item.mode == mode and item.winner)
        if won:
            counts = ", ".join(f"{BIN_METHODS[method]} {won[method]}" for method in BIN_METHODS if won[method])
            words.append(f"in the {won.total()} bins of the {title}: {counts}")
    return f"Won {'; '.join(words)}." if words else ""


NANO, MEGA = 1e9, 1e6
IN_STEPS = (
    "Phases: medians of each by events in samples of their own; one that waits for a size reads what the host takes as "
    "well, and together they are not the whole."
)


@table(STUDY_NAME, "table-setup", title="The set-up of multigrid", numbering="ours")
def setup(campaign: Campaign, published: Published) -> Table:
    """A line a problem: three times, what they are a unit, and the phases."""
    cases = all_times(campaign, published)
    columns = (
        PROBLEM,
        Column("unknowns", "unknowns"),
        Column("levels", "levels"),
        Column("complexity", "complexity"),
        *(Column(f"{method}_ms", title, "whole set-up, ms") for method, title in SETUP_METHODS.items()),
        Column("coordinates_over_default", SETUP_METHODS["default"], "speedup over the sort of all"),
        Column("coordinates_over_sort", SETUP_METHODS["sort"], "speedup over the sort of all"),
        Column("published_speedup", f"published, {GPU}", "speedup over the sort of all"),
        Column("ns_an_unknown", "ns an unknown", "ours"),
        Column("peak_mb", "most MB at once", "ours"),
        *(Column(f"{name}_ms", title, "phases on all levels, ms") for name, title in PHASES.items()),
        Column("galerkin_share", "ours", "share of Galerkin products"),
        Column("published_share", f"published, {GPU}", "share of Galerkin products"),
    )
    caption = [
        "The set-up of smoothed aggregation, from the matrix on the device to all levels there: its whole time with",
        "the Galerkin products R·(A·P) by our kernels, by the paper’s, and by a sort of all products. Complexity:",
        "non-zeros of all levels over those of the finest.",
        IN_STEPS,
        "Share: of the Galerkin products in the phases of all levels.",
        _published(published),
        cpu_note(campaign),
        f"{precision_of(campaign).capitalize()} precision.",
        measurement_note(campaign, HOST),
        unavailable_note(campaign),
    ]
    share = published_range(published, SHARE_MIN, SHARE_MAX)
    rows = [_setup_row(case, published, share) for case in cases]
    worst = {"coordinates_over_default": min, "coordinates_over_sort": min, "ns_an_unknown": max}
    papers = [case.line.published is not None for case in cases]
    return Table(columns, rows, join_sentences(caption), summary(columns, rows, worst, papers))


@table(STUDY_NAME, "table-levels", title="The set-up level by level", numbering="ours")
def levels(campaign: Campaign, published: Published) -> Table:
    """A line a problem and level."""
    columns = (
        PROBLEM,
        Column("level", "level"),
        Column("rows", "rows"),
        Column("nonzeros", "non-zeros"),
        Column("whole_ms", "whole, ms"),
        *(Column(f"{name}_ms", title, "phases, ms") for name, title in PHASES.items()),
        Column("galerkin_share", "share of the Galerkin product"),
    )
    rows = []
    for case in all_times(campaign, published):
        rows += [_level_row(case, level) for level in case.levels]
        if not case.levels:
            rows.append((problem_cell(case.line, case.why_not("level")), *(Cell(),) * (len(columns) - 1)))
    caption = [
        "What makes the next level of each: its matrix’s sizes, all of it, and its phases. The levels before it are",
        "there.",
        IN_STEPS,
        f"{precision_of(campaign).capitalize()} precision.",
        measurement_note(campaign, HOST),
        unavailable_note(campaign),
    ]
    return Table(columns, rows, join_sentences(caption))


def _setup_row(case: ProblemTimes, published: Published, share: tuple[float, float] | None) -> tuple[Cell, ...]:
    times = {method: case.set_up(method) for method in SETUP_METHODS}
    ours = times["default"]
    row: Mapping[str, Any] = ours.row if ours else {}
    unknowns, peak = row.get("rows"), row.get("peak_bytes")
    printed = published_value(published, SET_UP, case.line.published) if case.line.published else None
    return (
        problem_cell(case.line, "" if case.case.measured else case.case.why_not()),
        count(unknowns),
        Cell(row.get("levels")),
        ratio(row.get("complexity")),
        *(milli(timed, case.why_not("setup", method) * case.case.measured) for method, timed in times.items()),
        speedup(times["coordinates"], ours),
        speedup(times["coordinates"], times["sort"]),
        ratio(printed),
        three_digits(NANO * ours.seconds / unknowns if ours and unknowns else None),
        three_digits(peak / MEGA if peak else None),
        *_phase_cells(case.phases),
        percent(case.galerkin_share),
        Cell(share[1], _percents(share)) if share and case.line.published else Cell(),
    )


def _level_row(case: ProblemTimes, level: LevelTimes) -> tuple[Cell, ...]:
    return (
        problem_cell(case.line),
        Cell(level.level),
        count(level.rows),
        count(level.nonzeros),
        milli(level.timed),
        *_phase_cells(level.stages),
        percent(level.galerkin_share),
    )


def _phase_cells(seconds: Mapping[str, float]) -> Sequence[Cell]:
    return [
        Cell(MILLI * seconds[name], digits(MILLI * seconds[name])) if name in seconds else Cell() for name in PHASES
    ]


def _percents(share: tuple[float, float]) -> str:
    return f"{100 * share[0]:.0f}–{100 * share[1]:.0f} %"


def _published(published: Published) -> str:
    share = published_range(published, SHARE_MIN, SHARE_MAX)
    if share is None:
        return ""
    return f"Published, {GPU}: {PAPER} states a share of {_percents(share)}, of all its problems; single times are not."


@table(STUDY_NAME, "table-solve", title="Set-up and solution", numbering="ours")
def solve(campaign: Campaign, published: Published) -> Table:
    """A line a problem: iterations, and what they take beside the set-up."""
    columns = (
        PROBLEM,
        Column("unknowns", "unknowns"),
        Column("levels", "levels"),
        Column("iterations", "iterations"),
        Column("setup_ms", "set-up", "ms"),
        Column("solve_ms", "solution", "ms"),
        Column("sum_ms", "together", "ms"),
        Column("iteration_ms", "an iteration", "ms"),
        Column("ns_an_unknown", "together, ns an unknown"),
    )
    caption = [
        "Conjugate gradients with a V-cycle each, from x = 0 until the residual is",
        f"{TOLERANCE:.0e} of the right side, which is A times a random vector; the set-up with our kernels. Both begin",
        "with all that they need on the device. Nothing of this is published.",
        f"{precision_of(campaign).capitalize()} precision.",
        measurement_note(campaign, HOST),
        unavailable_note(campaign),
    ]
    rows = [_solve_row(case) for case in all_times(campaign, published)]
    return Table(columns, rows, join_sentences(caption))


def _solve_row(case: ProblemTimes) -> tuple[Cell, ...]:
    set_up, solution = case.set_up("default"), case.solution
    row = next((timed.row for timed in (solution, set_up) if timed), {})
    unknowns, iterations = row.get("rows"), row.get("iterations")
    both = set_up.seconds + solution.seconds if set_up and solution else None
    measured = case.case.measured
    return (
        problem_cell(case.line, "" if measured else case.case.why_not()),
        count(unknowns),
        Cell(row.get("levels")),
        Cell(iterations),
        milli(set_up, case.why_not("setup", "default") * measured),
        milli(solution, case.why_not("solve") * measured),
        three_digits(MILLI * both if both else None),
        three_digits(MILLI * solution.seconds / iterations if solution and iterations else None),
        three_digits(NANO * both / unknowns if both and unknowns else None),
    )


#: Letters of a note that names cases without a number.
MOST = 500


@table(STUDY_NAME, "table-targets", title="Targets, and what was reached", numbering="ours")
def targets(campaign: Campaign, published: Published) -> Table:
    """Each target with the wanted number, the measured one, and the worst case; or why there is none."""
    measured = gather(campaign, published)
    caption = [
        "What was aimed at and what was reached, on the paper’s eight problems and their 24 products: A·A, A·P and",
        "R·(A·P) of each. Ours: the fastest way to a whole product with our kernels, as in the table of products. Best",
        "that was run: the fastest of the library’s routines, the paper’s kernels and the sort of all products. Cases:",
        "how many have a number; where some have none, a verdict is of the others, and a note names what is missing.",
        f"{precision_of(campaign).capitalize()} precision.",
        measurement_note(campaign, HOST),
        f"Numeric phases, the library’s beside our whole products too: by the {EVENT} clock where a line does not say",
        "another; whole products and set-ups are timed by the host’s alone.",
        wanted_on(campaign),
        unavailable_note(campaign),
    ]
    rows = [_target_row(item, measured[item["quantity"]]) for item in published.targets]
    return Table(target_columns(campaign), rows, join_sentences(caption))


def _target_row(item: Record, measured: Measured) -> tuple[Cell, ...]:
    """Return the line of a target."""
    quantity = QUANTITIES[item["quantity"]]
    return target_line(
        item,
        measured.numbers,
        at_most=quantity.at_most,
        statistic=geometric_mean if quantity.statistic == "mean" else None,
        cases=measured.cases,
        missing=one_line(measured.why_not, MOST),
    )
