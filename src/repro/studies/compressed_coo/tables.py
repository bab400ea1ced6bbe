"""Tables of the study of compressed COO: matrices, encodings, every problem, the paper's medians, and targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from operator import attrgetter
from typing import NamedTuple

from repro.bench.rows import OUTSIDE
from repro.results import claims
from repro.results.campaign_data import Campaign, Method
from repro.results.columns import (
    MEAN_AND_LEAST,
    PRECISION,
    PROBLEM,
    Pick,
    add_row_keys,
    count,
    floor_column,
    kernel_columns,
    name_of,
    number_cell,
    ratio,
    speedup_column,
    time_column,
    with_cold_cache,
)
from repro.results.common_tables import SetupCosts, register_baselines, register_setup_costs
from repro.results.comparisons import Cases, Comparison, Quantity, StatisticName
from repro.results.problem_lines import (
    closing_notes,
    cpu_note,
    join_sentences,
    launch_note,
    measurement_note,
    unavailable_note,
    unconfirmed_note,
)
from repro.results.published import Published
from repro.results.registry import table
from repro.results.tables import Cell, Column, Table, table_of
from repro.sparse.tuning_features import library_of, routine_text
from repro.studies.compressed_coo import CITED, GPUS, STUDY_NAME, results
from repro.studies.compressed_coo.study import CooRow


def _remark(case: results.Times) -> Cell:
    record = case.line.record
    remark: str | None = (record.remark or (record.origin or {}).get("note")) if record else None
    return Cell(remark, remark or " ")


MATRIX_COLUMNS = (
    Column[results.Times]("problem", "problem", numeric=False, cell=lambda case: Cell(case.line.problem)),
    Column[results.Times]("rows", "rows", cell=lambda case: count(case.n or None)),
    Column[results.Times]("nonzeros", "non-zeros", cell=lambda case: count(case.nnz or None)),
    Column[results.Times](
        "nonzeros_per_row", "per row", cell=lambda case: number_cell(case.nnz / case.n if case.n else None, spec=".1f")
    ),
    Column[results.Times]("values", "values", numeric=False, cell=lambda case: Cell(case.values)),
    Column[results.Times]("remark", "remark", numeric=False, cell=_remark),
)


@table(STUDY_NAME, "table-2", title="The matrices", numbering=f"Table 2 of {CITED}")
def matrices(campaign: Campaign, published: Published) -> Table:
    """One line for each problem, sorted by the number of non-zeros: size and row lengths of the matrix."""
    cases = results.all_times(campaign, published, campaign.main_precision)
    sizes = [case.n for case in cases if case.n]
    caption = [
        f"The matrices. The paper used real, square matrices of more than {results.LARGE:,} rows from the SuiteSparse",
        f"collection; here {sum(n > results.LARGE for n in sizes)} of {len(sizes)} are as large. Values repeat if most",
        "chunks of compressed COO, with the fastest K, look their values up in the table of the 256 most frequent;",
        "otherwise they are distinct.",
        unavailable_note(campaign),
    ]
    return table_of(MATRIX_COLUMNS, cases, join_sentences(caption))


#: All encodings of a chunk in the paper's format; 16-bit rows occur in our unpadded chunks only.
ENCODINGS = {
    f"{rows}/{columns}/{values}": (rows, columns, values)
    for rows, columns, values in product(("none", "8"), ("8", "16", "32"), ("table", "plain"))
}
HEADS = {"none": "one row: no row offsets", "8": "8-bit row offsets"}


@table(STUDY_NAME, "table-1", title="Encodings of the chunks", numbering=f"Table 1 of {CITED}")
def chunks(campaign: Campaign, published: Published) -> Table:
    """One line for each problem: for each encoding, the share of chunks that use it."""
    cases = results.all_times(campaign, published, campaign.main_precision)
    used_encodings = {name for case in cases for name in results.encodings(case[results.COMPRESSED_COO])}
    shown_encodings = [name for name in ENCODINGS if name in used_encodings]
    unused = [name for name in ENCODINGS if name not in used_encodings]
    columns = (
        PROBLEM,
        Column[results.Times]("K", "K", cell=_per_thread),
        Column[results.Times]("K_event", "K, by events", cell=_per_thread_by_events),
        Column[results.Times]("chunks", "chunks", cell=lambda case: count(_chunks(case) or None)),
        *(_encoding_column(name) for name in shown_encodings),
    )
    caption = [
        f"Percentage of each problem’s chunks with each encoding of Table 1 of {CITED}, in compressed COO with the",
        "fastest K. Rows: no indices (the chunk is one row), or 8-bit offsets from the chunk’s first row. Columns: 8-,",
        "16- or 32-bit offsets from the chunk’s base column. Values: 8-bit indices into the table of the 256 most",
        "frequent values (table), or unchanged (plain). K by events: the K that is fastest by the event clock.",
        f"Used by no chunk (rows/columns/values): {', '.join(unused)}." if used_encodings and unused else "",
        f"{campaign.main_precision.capitalize()} precision. The paper does not print these shares.",
        results.kernels_note(campaign),
        closing_notes(campaign, "graph"),
    ]
    return table_of(columns, cases, join_sentences(caption))


def _why_not(case: results.Times) -> tuple[str, ...]:
    """Return the reason why an available problem has no time for compressed COO."""
    return (case.case.why_not(),) if case[results.COMPRESSED_COO] is None and case.line.is_available else ()


def _per_thread(case: results.Times) -> Cell:
    best = case[results.COMPRESSED_COO]
    return add_row_keys(Cell(best.row.per_thread if best else None, notes=_why_not(case)), best)


def _per_thread_by_events(case: results.Times) -> Cell:
    best = case.case.time(results.COMPRESSED_COO, "event")
    return add_row_keys(Cell(best.row.per_thread if best else None), best)


def _chunks(case: results.Times) -> int:
    return sum(results.encodings(case[results.COMPRESSED_COO]).values())


def _encoding_column(name: str) -> Column[results.Times]:
    rows, columns, values = ENCODINGS[name]

    def cell(case: results.Times) -> Cell:
        return _share(results.encodings(case[results.COMPRESSED_COO]).get(name, 0), _chunks(case))

    return Column(f"percent_{name}".replace("/", "_"), f"{columns}-bit, {values}", HEADS[rows], cell=cell)


def _share(chunks: int, total: int) -> Cell:
    if not total:
        return Cell()
    value = 100 * chunks / total
    return Cell(value, f"{value:.1f}" if value >= 0.05 else "< 0.1" if chunks else "0")


@table(
    STUDY_NAME,
    "table-problems",
    title="Our kernels, the library and the floor, problem by problem",
    numbering="ours",
    lead=("ours_speedup", "ours", "cold_speedup", "bicgstab_speedup"),
    lead_instead=("compressed_speedup", "compressed", "cold_compressed_speedup", "compressed_bicgstab_us"),
)
def problems(campaign: Campaign, published: Published) -> Table:
    """One line for each problem and precision: times, and speedups, also of BiCGSTAB; their means and minima below."""
    times_by_precision = {p: results.all_times(campaign, published, p) for p in campaign.precisions}
    cases = [case for cases in zip(*times_by_precision.values(), strict=True) for case in cases]
    timed_cases = [case for case in cases if case[results.COMPRESSED_COO] or case[results.OURS]]
    marked_count = sum(
        case.case.is_mostly_launch("graph", case[results.OURS] or case[results.COMPRESSED_COO]) for case in timed_cases
    )
    caption = [
        results.unsearched_note(cases),
        "Ours: the fastest of all our variants. Compressed COO and COO: the paper’s formats with the fastest K and",
        f"number of chunks per block. {library_of(campaign)}: its fastest routine for CSR, for COO, and of any format.",
        "Of floor: the streaming floor’s time over the kernel’s; the floor streams the bytes of CSR, so formats that",
        "read fewer bytes can exceed it. Bytes: those of the matrix over those of CSR with 4-byte indices. GFLOPS: two",
        "operations per non-zero of the matrix, none for padding. Speedups: over the library’s fastest routine.",
        results.solver_note(cases),
        _cold_note(campaign),
        "The paper prints none of these numbers.",
        results.kernels_note(campaign),
        measurement_note(campaign, "graph"),
        launch_note(marked_count, len(timed_cases)),
        unconfirmed_note((case.case, case[results.OURS], case[results.COMPRESSED_COO]) for case in cases),
        unavailable_note(campaign),
    ]  # fmt: skip
    columns = _problem_columns(library_of(campaign), results.has_solver_on_chip(cases))
    return table_of(columns, cases, join_sentences(caption), MEAN_AND_LEAST)


def _cold_note(campaign: Campaign) -> str:
    """Return the sentence on times with a cold cache; empty if only one cache state was measured."""
    return (
        "Cold: the variants that the graph clock chose, and the routines that are fastest with a cold cache, with L2 "
        "overwritten before each launch, by the event clock."
        if "cold" in campaign.caches and campaign.cache == "warm"
        else ""
    )


def _problem_columns(library: str, chip: bool) -> tuple[Column[results.Times], ...]:
    solver, ours_solver, cold_group = "BiCGSTAB, µs", attrgetter("ours_solver"), "cold, by events, µs"
    cold_ours, cold_compressed, cold_library = map(
        with_cold_cache, (results.OURS, results.COMPRESSED_COO, results.LIBRARY)
    )
    return (
        PROBLEM,
        PRECISION,
        *_kernel_columns(results.OURS),
        *_kernel_columns(results.COMPRESSED_COO, _why_not),
        *_kernel_columns(results.PLAIN_COO),
        *_routine_columns(results.CSR, f"{library} CSR"),
        *_routine_columns(results.COO, f"{library} COO"),
        *_routine_columns(results.LIBRARY, f"{library}, fastest"),
        floor_column(results.FLOOR, results.COMPRESSED_COO),
        Column(
            "ours_bicgstab",
            "product of ours",
            solver,
            numeric=False,
            cell=lambda case: Cell(case.ours_solver.row.product if case.ours_solver else None),
        ),
        time_column("ours_bicgstab_us", "ours", solver, ours_solver),
        time_column("compressed_bicgstab_us", "compressed COO", solver, results.COMPRESSED_SOLVER),
        time_column("plain_bicgstab_us", "COO", solver, results.PLAIN_SOLVER),
        time_column("library_bicgstab_us", library, solver, results.LIBRARY_SOLVER),
        speedup_column("bicgstab_speedup", "speedup, ours", solver, results.LIBRARY_SOLVER, ours_solver),
        *(_on_chip_columns(solver) if chip else ()),
        time_column("cold_us", "ours", cold_group, cold_ours),
        time_column("cold_compressed_us", "compressed COO", cold_group, cold_compressed),
        time_column("cold_csr_us", f"{library} CSR", cold_group, with_cold_cache(results.CSR)),
        time_column("cold_library_us", f"{library}, fastest", cold_group, cold_library),
        speedup_column("cold_speedup", "speedup, ours", cold_group, cold_library, cold_ours),
        speedup_column("cold_compressed_speedup", "speedup, compressed COO", cold_group, cold_library, cold_compressed),
    )


def _on_chip_columns(group: str) -> tuple[Column[results.Times], ...]:
    key = results.ON_CHIP_SOLVER.key
    return (
        time_column(f"{key}_us", "on the chip", group, results.ON_CHIP_SOLVER),
        speedup_column(f"{key}_speedup", "speedup, on the chip", group, results.LIBRARY_SOLVER, results.ON_CHIP_SOLVER),
    )


def _kernel_columns(
    kernel: Method, reasons_of: Callable[[results.Times], tuple[str, ...]] = lambda case: ()
) -> tuple[Column[results.Times], ...]:
    key, group = kernel.key, kernel.title
    return (
        *kernel_columns(key, group, kernel, results.FLOOR, reasons_of),
        Column(f"{key}_bytes_over_CSR", "bytes", group, cell=lambda case: ratio(case.memory(case[kernel]))),
        Column(f"{key}_GFLOPS", "GFLOPS", group, cell=lambda case: number_cell(case.gflops(case[kernel]))),
        speedup_column(f"{key}_speedup", "speedup", group, results.LIBRARY, kernel),
    )


def _routine_columns(routine: Method, group: str) -> tuple[Column[results.Times], ...]:
    key = routine.key
    return (
        Column(key, "routine", group, numeric=False, cell=lambda case: name_of(case[routine], routine_text)),
        time_column(f"{key}_us", "µs", group, routine),
        Column(f"{key}_GFLOPS", "GFLOPS", group, cell=lambda case: number_cell(case.gflops(case[routine]))),
    )


@dataclass(frozen=True)
class Side:
    """One group of columns: a product, BiCGSTAB with this product, and BiCGSTAB on the chip beside ours."""

    title: str
    product: Method
    solver: Pick
    on_chip: Pick

    def over(self, base: Pick, divisor: Pick | None = None) -> Comparison[results.Times]:
        """Return the speedup over `base` of the product, or of another time."""

        def notes(case: results.Times, *times: results.Time) -> tuple[str, ...]:
            return case.line.remarks + case.case.launch_note(case.clock, case[self.product])

        return Comparison(base, divisor or self.product, notes=notes)

    def solving_over(self, base: Pick) -> Comparison[results.Times]:
        return self.over(base, self.solver)


SIDES = (
    Side("paper’s compressed COO", results.COMPRESSED_COO, results.COMPRESSED_SOLVER, lambda case: None),
    Side("ours", results.OURS, attrgetter("ours_solver"), results.ON_CHIP_SOLVER),
)


class Line(NamedTuple):
    """One line: `{library}` in its title is the library's name; `published` is the paper's quantity, if it has one."""

    title: str
    quantity: Callable[[Side], Quantity[Cases[results.Times]]]
    published: str = ""


GFLOPS = "largest GFLOPS of SpMV"
_REPEAT, _DISTINCT = results.having(results.REPEAT), results.having(results.DISTINCT)
LINES = (
    Line("SpMV over {library}’s default for CSR, median",
         lambda side: side.over(attrgetter("csr_default")).median(), results.MEDIAN_SPEEDUP),
    Line("SpMV over {library}’s fastest for CSR, median", lambda side: side.over(results.CSR).median()),
    Line("SpMV over {library}’s fastest for COO, median", lambda side: side.over(results.COO).median()),
    Line("SpMV over {library}’s fastest of all, median", lambda side: side.over(results.LIBRARY).median()),
    Line("SpMV over {library}’s fastest of all, values repeat, median",
         lambda side: side.over(results.LIBRARY).where(_REPEAT).median()),
    Line("SpMV over {library}’s fastest of all, values distinct, median",
         lambda side: side.over(results.LIBRARY).where(_DISTINCT).median()),
    Line("SpMV over {library}’s fastest of all, least", lambda side: side.over(results.LIBRARY).least()),
    Line("BiCGSTAB over that with {library}’s default for CSR, median",
         lambda side: side.solving_over(attrgetter("default_solver")).median(),
         "median speedup of BiCGSTAB over cuSPARSE"),
    Line("BiCGSTAB over the fastest with a routine of {library}, median",
         lambda side: side.solving_over(results.LIBRARY_SOLVER).median()),
    Line("GFLOPS of SpMV, largest",
         lambda side: Comparison[results.Times](lambda case: case.gflops(case[side.product])).most(), GFLOPS),
)  # fmt: skip
#: Additional lines for campaigns in which the solver that keeps the matrix on the chip was timed.
ON_CHIP_LINES = (
    Line("BiCGSTAB on the chip over the fastest with a routine of {library}, median",
         lambda side: side.over(results.LIBRARY_SOLVER, side.on_chip).median()),
    Line("the same, least", lambda side: side.over(results.LIBRARY_SOLVER, side.on_chip).least()),
    Line("BiCGSTAB on the chip over ours by launches, median",
         lambda side: side.over(side.solver, side.on_chip).median()),
)  # fmt: skip


def _line_cells(line: Line, cases: Cases[results.Times]) -> Iterator[Cell]:
    for side in SIDES:
        quantity = line.quantity(side)
        numbers = quantity.measure(cases).numbers
        value = quantity.value(numbers) if numbers else None
        yield number_cell(value, spec=".0f" if value and value >= 10 and line.published == GFLOPS else ".2f")


@table(STUDY_NAME, "table-medians", title="The paper’s medians beside ours", numbering=f"text of {CITED}")
def medians(campaign: Campaign, published: Published) -> Table:
    """One line for each of the paper's statements, and one line for the same over the library's faster routines."""
    precision = campaign.main_precision
    cases, median_note = results.median_cases_and_note(results.all_times(campaign, published, precision))
    published_values = {(item["quantity"], item["gpu"]): item["value"] for item in published["text"]}
    rows = [
        (
            Cell(line.title.format(library=library_of(campaign))),
            *(Cell(published_values.get((line.published, gpu))) for gpu in GPUS),
            *_line_cells(line, Cases(campaign, published, cases)),
        )
        for line in (*LINES, *(ON_CHIP_LINES if results.has_solver_on_chip(cases) else ()))
    ]
    columns = (
        Column("quantity", "", numeric=False),
        *(Column(f"published_{gpu}", gpu, "published") for gpu in GPUS),
        Column("compressed", "paper’s compressed COO", campaign.column),
        Column("ours", "ours", campaign.column),
    )
    caption = [
        results.unsearched_note(cases),
        f"Numbers in the text of {CITED} for a V100 and an A100 (cuSPARSE of CUDA 11.0, double precision), relative",
        "to the routine that it compares with; ours are relative to that routine and to faster ones. Paper’s",
        "compressed COO: its format with the fastest K and number of chunks per block. Ours: the fastest of all our",
        "variants and the paper’s. GFLOPS: two operations per non-zero of the matrix, none for padding.",
        results.solver_note(cases),
        f"{precision.capitalize()} precision.",
        median_note,
        results.fastest_formats(cases),
        results.kernels_note(campaign),
        measurement_note(campaign, "graph"),
        cpu_note(campaign),
        unavailable_note(campaign),
    ]
    return Table(columns, rows, join_sentences(caption))


#: Prefixes of the names of quantities that are measured by the event clock, with a warm and with a cold cache.
BY_EVENTS, COLD_CACHE = "event_", "cold_"
#: Parts of the names of quantities that are measured on small problems or on all; other quantities exclude small ones.
SMALL, ALL = "_small", "_all"
#: The comparison that the first word of a quantity names, and the statistic that the last one names.
COMPARISONS: Mapping[str, Callable[[Side], Comparison[results.Times]]] = {
    "library": lambda side: side.over(results.LIBRARY),
    "coo": lambda side: side.over(results.COO),
    "csr": lambda side: side.over(results.CSR),
    "bicgstab": lambda side: side.solving_over(results.LIBRARY_SOLVER),
    "memory": lambda side: replace(side.over(lambda case: case.memory(case[side.product])), denominator=None),
}
STATISTICS: Mapping[str, StatisticName] = {"worst": "worst", "median": "median", "mean": "mean"}


def _quantity(name: str, side: Side) -> Quantity[Cases[results.Times]]:
    """Return the quantity with a name such as `library_repeat_median`: comparison, values of the selected problems,
    statistic.

    `SMALL` and `ALL` in the name are ignored: the caller passes these problems.
    """
    comparison, *values, statistic = name.replace(SMALL, "").replace(ALL, "").split("_")
    numbers = COMPARISONS[comparison](side).where(results.having(*values))
    return Quantity(numbers.measure, STATISTICS[statistic], at_most=comparison == "memory")


@table(STUDY_NAME, "table-targets", title="Targets, and what was reached", numbering="ours")
def targets(campaign: Campaign, published: Published) -> Table:
    precision = campaign.main_precision
    all_cases = results.all_times(campaign, published, precision)
    cases, median_note = results.median_cases_and_note(all_cases)
    small_cases = [case for case in all_cases if case.n and case not in cases]
    by_events, _ = results.median_cases_and_note(results.all_times(campaign, published, precision, "event"))
    by_prefix = {BY_EVENTS: by_events, COLD_CACHE: [cold_case for case in cases if (cold_case := case.cold)]}
    columns = [Column("target", "target", numeric=False), Column("wanted", "wanted")]
    for side in SIDES:
        key = side.product.key
        columns += [
            Column(key, "measured", side.title),
            Column(f"{key}_reached", "reached", side.title, numeric=False),
            Column(f"{key}_problems", "problems", side.title),
            Column(f"{key}_worst", "worst", side.title),
            Column(f"{key}_worst_case", "worst case", side.title, numeric=False),
        ]
    rows = []
    allowance = claims.time_allowance(campaign)
    for item in published.targets:
        prefix = next((prefix for prefix in by_prefix if item["quantity"].startswith(prefix)), "")
        name = item["quantity"].removeprefix(prefix)
        clock_cases = small_cases if SMALL in name else all_cases if ALL in name else by_prefix.get(prefix, cases)
        quantities = [_quantity(name, side) for side in SIDES]
        first, second = (
            claims.target_cells(item, quantity, quantity.measure(Cases(campaign, published, clock_cases)), allowance)
            for quantity in quantities
        )
        rows.append((*first, *second[2:]))
    library = library_of(campaign)
    caption = [
        results.unsearched_note(cases),
        f"Goals and measurements: speedups over routines of {library}, and memory relative to CSR with 4-byte",
        "indices. Paper’s compressed COO: its format with the fastest K and number of chunks per block. Ours: the",
        "fastest of all our variants and the paper’s. Values repeat if most chunks of the paper’s compressed COO look",
        "them up in the table; otherwise they are distinct. Worst: the smallest speedup, or the largest memory. Lines",
        "by the event clock compare variants chosen by that clock. Small problems count only in their own line and in",
        "that of all problems.",
        _cold_note(campaign),
        "Reported: there is no goal.",
        results.solver_note(cases),
        f"{precision.capitalize()} precision.",
        median_note,
        results.kernels_note(campaign),
        measurement_note(campaign, "graph"),
        claims.target_device_note(campaign),
        "SciPy runs with CSR only." * campaign.on_cpu,
        unavailable_note(campaign),
    ]  # fmt: skip
    return Table(tuple(columns), rows, join_sentences(caption))


def _cases(campaign: Campaign, published: Published) -> list[results.Times]:
    return [case for precision in campaign.precisions for case in results.all_times(campaign, published, precision)]


def _setup_costs(case: results.Times) -> SetupCosts:
    ours = case[results.OURS] or case[results.COMPRESSED_COO]
    return SetupCosts.packed(case, case[results.LIBRARY], case[results.CSR], ours)


register_setup_costs(STUDY_NAME, library_of, _cases, _setup_costs)


def _baseline_or_layout(row: CooRow) -> str | None:
    return row.layout or (row.product if row.kind == "solver" else row.name)


SPMV = Method("product", "SpMV", columns={"kind": ("variant", "baseline", OUTSIDE)})
BICGSTAB = Method("solver", "BiCGSTAB", columns={"kind": "solver"})
register_baselines(STUDY_NAME, (SPMV, BICGSTAB), _baseline_or_layout)


claims.register_claims(STUDY_NAME, CITED, results.CLAIM_QUANTITIES, results.claim_cases)
