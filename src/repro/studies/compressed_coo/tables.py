"""Tables of the study of compressed COO: matrices, encodings, every problem, the paper's medians, and targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product

from repro.results.campaign_data import Campaign, ReportedTime
from repro.results.problem_rows import (
    ABBREVIATIONS,
    PROBLEM,
    cpu_note,
    join_sentences,
    launch_note,
    measurement_note,
    unavailable_note,
)
from repro.results.published import Published
from repro.results.registry import table
from repro.results.significance import median_of, ratio_of
from repro.results.tables import (
    Cell,
    Column,
    Table,
    count,
    digits,
    from_rows,
    microseconds,
    ratio,
    share,
    speedup,
    tied,
    wanted_on,
)
from repro.sparse.baseline_times import library_of, routine_text
from repro.studies.compressed_coo import GPUS, PAPER, STUDY_NAME
from repro.studies.compressed_coo.results import (
    DISTINCT,
    LARGE,
    REPEAT,
    Times,
    all_times,
    counted,
    each_of,
    encodings,
    fastest_formats,
    not_searched,
    precision_of,
    solved_with,
)


@table(STUDY_NAME, "table-2", title="The matrices", numbering=f"Table 2 of {PAPER}")
def matrices(campaign: Campaign, published: Published) -> Table:
    """A line a problem, by growing numbers of non-zeros."""
    cases = all_times(campaign, published, precision_of(campaign))
    columns = (
        PROBLEM,
        Column("rows", "rows"),
        Column("nonzeros", "non-zeros"),
        Column("nonzeros_per_row", "per row"),
        Column("values", "values", numeric=False),
        Column("remark", "remark", numeric=False),
    )
    sizes = [case.n for case in cases if case.n]
    caption = [
        f"The matrices. The paper took real, square matrices of more than {LARGE:,} rows from the SuiteSparse",
        f"collection; here {sum(n > LARGE for n in sizes)} of {len(sizes)} are as large. Values repeat: most chunks of",
        "the compressed COO with the fastest K look their values up in the table of the 256 most frequent; else they",
        "are distinct.",
        unavailable_note(campaign),
    ]
    return Table(columns, [_matrix_row(case) for case in cases], join_sentences(caption))


def _matrix_row(case: Times) -> tuple[Cell, ...]:
    record = case.line.record
    remark: str | None = (record.remark or (record.origin or {}).get("note")) if record else None
    mean = case.nnz / case.n if case.n else None
    return (
        Cell(case.line.problem),
        count(case.n or None),
        count(case.nnz or None),
        Cell() if mean is None else Cell(mean, f"{mean:.1f}"),
        Cell(case.values),
        Cell(remark, remark or " "),
    )


#: All encodings of a chunk of the paper's format; 16-bit rows are ours and need no padding.
ENCODINGS = {
    f"{rows}/{columns}/{values}": (rows, columns, values)
    for rows, columns, values in product(("none", "8"), ("8", "16", "32"), ("table", "plain"))
}
HEADS = {"none": "one row: no row offsets", "8": "8-bit row offsets"}


@table(STUDY_NAME, "table-1", title="Encodings of the chunks", numbering=f"Table 1 of {PAPER}")
def chunks(campaign: Campaign, published: Published) -> Table:
    """A line a problem: the share of its chunks that each encoding has."""
    cases = all_times(campaign, published, precision_of(campaign))
    used = {name for case in cases for name in encodings(case.compressed)}
    shown = [name for name in ENCODINGS if name in used]
    unused = [name for name in ENCODINGS if name not in used]
    columns = (
        PROBLEM,
        Column("K", "K"),
        Column("K_event", "K, by events"),
        Column("chunks", "chunks"),
        *(_encoding_column(name) for name in shown),
    )
    caption = [
        f"The encodings of Table 1 of {PAPER}, and how many of each problem’s chunks have which, in percent, in the",
        "compressed COO with the fastest K: row indices none (the chunk is one row) or as 8-bit offsets from the",
        "chunk’s first row; column indices as 8-, 16- or 32-bit offsets from its base column; values as 8-bit indices",
        "into the table of the 256 most frequent (table), or as they are (plain). K by events: the fastest by the",
        "other clock.",
        f"Used by no chunk (rows/columns/values): {', '.join(unused)}." if used and unused else "",
        f"{precision_of(campaign).capitalize()} precision. Nothing of the shares is published.",
        measurement_note(campaign, "graph"),
        unavailable_note(campaign),
    ]
    return Table(columns, [_encoding_row(case, shown) for case in cases], join_sentences(caption))


def _encoding_column(name: str) -> Column:
    rows, columns, values = ENCODINGS[name]
    return Column(f"percent_{name}".replace("/", "_"), f"{columns}-bit, {values}", HEADS[rows])


def _encoding_row(case: Times, shown: list[str]) -> tuple[Cell, ...]:
    best, other = case.compressed, case.case.winner("joint", "event")
    chunks = encodings(best)
    total = sum(chunks.values())
    there = case.line.record is not None and case.line.record.available
    why = (case.case.why_not(),) if best is None and there else ()
    return (
        case.line.cell,
        from_rows(Cell(best.row["per_thread"] if best else None, notes=why), best),
        from_rows(Cell(other.row["per_thread"] if other else None), other),
        count(total or None),
        *(_share(chunks.get(name, 0), total) for name in shown),
    )


def _share(chunks: int, total: int) -> Cell:
    if not total:
        return Cell()
    value = 100 * chunks / total
    return Cell(value, f"{value:.1f}" if value >= 0.05 else "< 0.1" if chunks else "0")


@table(
    STUDY_NAME, "table-problems", title="Our kernels, the library and the floor, problem by problem", numbering="ours"
)
def problems(campaign: Campaign, published: Published) -> Table:
    """A line a problem and precision."""
    by_precision = {p: all_times(campaign, published, p) for p in campaign.precisions}
    cases = [case for cases in zip(*by_precision.values(), strict=True) for case in cases]
    timed = [case for case in cases if case.compressed or case.ours]
    marked = sum(case.case.mostly_launch("graph", case.ours or case.compressed) for case in timed)
    caption = [
        "Ours: the fastest of all our variants. Compressed COO and COO: the fastest K and number of chunks a block of",
        f"the paper’s formats. {library_of(campaign)}: its fastest routine for CSR, for COO and of all. Of floor: the",
        "streaming floor’s time over the time; the floor streams the bytes of CSR, and who reads fewer can be above",
        "it. Bytes: of the matrix, over those of CSR with 4-byte indices. GFLOPS: two operations for each of the",
        "matrix’s own non-zeros, none for padding. Speedups are over the fastest of the library.",
        solved_with(cases),
        "Nothing of this is published.",
        measurement_note(campaign, "graph"),
        launch_note(marked, len(timed)),
        not_searched(cases),
        unavailable_note(campaign),
    ]  # fmt: skip
    return Table(
        _problem_columns(library_of(campaign)), [_problem_row(case) for case in cases], join_sentences(caption)
    )


def _problem_columns(library: str) -> tuple[Column, ...]:
    def kernel(key: str, head: str) -> tuple[Column, ...]:
        return (
            Column(key, "variant", head, numeric=False),
            Column(f"{key}_us", "µs", head),
            Column(f"{key}_percent_of_floor", "of floor", head),
            Column(f"{key}_bytes_over_CSR", "bytes", head),
            Column(f"{key}_GFLOPS", "GFLOPS", head),
            Column(f"{key}_speedup", "speedup", head),
        )

    def routine(key: str, head: str) -> tuple[Column, ...]:
        return (
            Column(key, "routine", head, numeric=False),
            Column(f"{key}_us", "µs", head),
            Column(f"{key}_GFLOPS", "GFLOPS", head),
        )

    solver = "BiCGSTAB, µs"
    return (
        PROBLEM,
        Column("precision", "precision", numeric=False),
        *kernel("ours", "ours"),
        *kernel("compressed", "compressed COO"),
        *kernel("plain", "COO"),
        *routine("csr", f"{library} CSR"),
        *routine("coo", f"{library} COO"),
        *routine("library", f"{library}, fastest"),
        Column("floor_us", "µs", "floor"),
        Column("ours_bicgstab", "product of ours", solver, numeric=False),
        Column("ours_bicgstab_us", "ours", solver),
        Column("compressed_bicgstab_us", "compressed COO", solver),
        Column("plain_bicgstab_us", "COO", solver),
        Column("library_bicgstab_us", library, solver),
        Column("bicgstab_speedup", "speedup, ours", solver),
    )


def _problem_row(case: Times) -> tuple[Cell, ...]:
    there = case.line.record is not None and case.line.record.available
    why = (case.case.why_not(),) if case.compressed is None and there else ()
    no_floor = (case.case.why_no_floor(),) if case.compressed and not case.floor else ()
    return (
        case.line.cell,
        Cell(case.case.precision, ABBREVIATIONS[case.case.precision]),
        *_kernel(case, case.ours),
        *_kernel(case, case.compressed, why),
        *_kernel(case, case.plain),
        *_routine(case, case.csr),
        *_routine(case, case.coo),
        *_routine(case, case.library),
        microseconds(case.floor) if case.floor else Cell(notes=no_floor),
        Cell(case.ours_solver.row["product"] if case.ours_solver else None),
        microseconds(case.ours_solver),
        microseconds(case.compressed_solver),
        microseconds(case.plain_solver),
        microseconds(case.library_solver),
        speedup(case.library_solver, case.ours_solver),
    )


def _kernel(case: Times, kernel: ReportedTime | None, notes: tuple[str, ...] = ()) -> tuple[Cell, ...]:
    return (
        Cell(kernel.name if kernel else None, notes=notes + tied(kernel, case.case.campaign.tie)),
        microseconds(kernel, case.case),
        share(case.floor, kernel),
        ratio(case.memory(kernel)),
        _rate(case.gflops(kernel)),
        speedup(case.library, kernel),
    )


def _routine(case: Times, routine: ReportedTime | None) -> tuple[Cell, ...]:
    name = Cell(routine.name, routine_text(routine)) if routine else Cell()
    return name, microseconds(routine), _rate(case.gflops(routine))


def _rate(gflops: float | None) -> Cell:
    return Cell() if gflops is None else Cell(gflops, digits(gflops))


Pick = Callable[[Times], ReportedTime | None]


@dataclass(frozen=True)
class Line:
    """One line: a statistic of speedups over `base`, or the largest of a rate where there is no base.

    Attributes
    ----------
    what
        As printed; `{library}` is the library's name.
    published
        The quantity of the paper's text that stands beside it, empty for none.
    base
        What is compared with.
    kernels
        The paper's compressed COO, and ours.
    values
        Of which problems, by their values; None for all.
    statistic
        Of the speedups.
    """

    what: str
    published: str
    base: Pick | None
    kernels: tuple[Pick, Pick]
    values: str | None = None
    statistic: Callable[[Iterable[float | None]], float | None] = median_of

    def measure(self, cases: list[Times], pick: Pick) -> float | None:
        """Return the number of one column."""
        if self.base is None:
            return max((rate for case in cases if (rate := case.gflops(pick(case)))), default=None)
        base = self.base
        those = [case for case in cases if self.values in (None, case.values)]
        return self.statistic(ratio_of(base(case), pick(case)) for case in those)


def _least(values: Iterable[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)


_PRODUCTS: tuple[Pick, Pick] = (lambda s: s.compressed, lambda s: s.ours)
_SOLVERS: tuple[Pick, Pick] = (lambda s: s.compressed_solver, lambda s: s.ours_solver)
LINES = (
    Line("SpMV over {library}’s default for CSR, median", "median speedup of SpMV over cuSPARSE",
         lambda s: s.csr_default, _PRODUCTS),
    Line("SpMV over {library}’s fastest for CSR, median", "", lambda s: s.csr, _PRODUCTS),
    Line("SpMV over {library}’s fastest for COO, median", "", lambda s: s.coo, _PRODUCTS),
    Line("SpMV over {library}’s fastest of all, median", "", lambda s: s.library, _PRODUCTS),
    Line("SpMV over {library}’s fastest of all, values repeat, median", "", lambda s: s.library, _PRODUCTS,
         REPEAT),
    Line("SpMV over {library}’s fastest of all, values distinct, median", "", lambda s: s.library, _PRODUCTS,
         DISTINCT),
    Line("SpMV over {library}’s fastest of all, least", "", lambda s: s.library, _PRODUCTS,
         None, _least),
    Line("BiCGSTAB over that with {library}’s default for CSR, median", "median speedup of BiCGSTAB over cuSPARSE",
         lambda s: s.default_solver, _SOLVERS),
    Line("BiCGSTAB over the fastest with a routine of {library}, median", "", lambda s: s.library_solver, _SOLVERS),
    Line("GFLOPS of SpMV, largest", "largest GFLOPS of SpMV", None, _PRODUCTS),
)  # fmt: skip


@table(STUDY_NAME, "table-medians", title="The paper’s medians beside ours", numbering=f"text of {PAPER}")
def medians(campaign: Campaign, published: Published) -> Table:
    """A line a statement of the paper, and the same over the library's faster routines."""
    precision = precision_of(campaign)
    cases, over = counted(all_times(campaign, published, precision))
    printed = {(item["quantity"], item["gpu"]): item["value"] for item in published["text"]}
    rows = [
        (
            Cell(line.what.format(library=library_of(campaign))),
            *(Cell(printed.get((line.published, gpu))) for gpu in GPUS),
            *(_median_cell(line.measure(cases, pick), line.base is None) for pick in line.kernels),
        )
        for line in LINES
    ]
    columns = (
        Column("quantity", "", numeric=False),
        *(Column(f"published_{gpu}", gpu, "published") for gpu in GPUS),
        Column("compressed", "paper’s compressed COO", campaign.column),
        Column("ours", "ours", campaign.column),
    )
    caption = [
        f"What the text of {PAPER} states for a V100 and an A100 (cuSPARSE of CUDA 11.0) in double precision, over the",
        "routine that it compares with, and what we measured over the same routine and over faster ones. Paper’s",
        "compressed COO: the fastest K and number of chunks a block of its format. Ours: the fastest of all our",
        "variants, its own included. GFLOPS: two operations for each of the matrix’s own non-zeros, none for padding.",
        solved_with(cases),
        f"{precision.capitalize()} precision.",
        over,
        fastest_formats(cases),
        not_searched(cases),
        measurement_note(campaign, "graph"),
        cpu_note(campaign),
        unavailable_note(campaign),
    ]
    return Table(columns, rows, join_sentences(caption))


def _median_cell(value: float | None, rate: bool) -> Cell:
    return Cell() if value is None else Cell(value, f"{value:.0f}" if rate and value >= 10 else f"{value:.2f}")


#: How quantities begin that are by the event clock.
BY_EVENTS = "event_"
Number = Callable[[Times], float | None]


@dataclass(frozen=True)
class Side:
    """One group of columns: the product that is judged, and BiCGSTAB with it."""

    key: str
    title: str
    product: Callable[[Times], ReportedTime | None]
    solver: Callable[[Times], ReportedTime | None]


SIDES = (
    Side("compressed", "paper’s compressed COO", lambda s: s.compressed, lambda s: s.compressed_solver),
    Side("ours", "ours", lambda s: s.ours, lambda s: s.ours_solver),
)


@table(STUDY_NAME, "table-targets", title="Targets, and what was reached", numbering="ours")
def targets(campaign: Campaign, published: Published) -> Table:
    """Each target with the wanted number, the measured ones, and the worst cases."""
    precision = precision_of(campaign)
    cases, over = counted(all_times(campaign, published, precision))
    by_events, _ = counted(all_times(campaign, published, precision, "event"))
    columns = [Column("target", "target", numeric=False), Column("wanted", "wanted")]
    for side in SIDES:
        columns += [
            Column(side.key, "measured", side.title),
            Column(f"{side.key}_reached", "reached", side.title, numeric=False),
            Column(f"{side.key}_problems", "problems", side.title),
            Column(f"{side.key}_worst", "worst", side.title),
            Column(f"{side.key}_worst_case", "worst case", side.title, numeric=False),
        ]
    rows = []
    for item in published.targets:
        quantity, wanted = item["quantity"].removeprefix(BY_EVENTS), item["wanted"]
        timed = by_events if item["quantity"].startswith(BY_EVENTS) else cases
        limit = "≤" if quantity.startswith("memory_") else "≥"
        asked = Cell(float(wanted), f"{limit} {wanted}") if wanted else Cell(None, "reported")
        measured = (cell for side in SIDES for cell in _measured(quantity, wanted, timed, side))
        rows.append((Cell(item["what"].replace("'", "’")), asked, *measured))
    library = library_of(campaign)
    caption = [
        f"What was aimed at and what was reached: speedups over routines of {library}, and memory over that",
        "of CSR with 4-byte indices. Paper’s compressed COO: the fastest K and number of chunks a block of its format.",
        "Ours: the fastest of all our variants, its own included. Values repeat where most chunks of the paper’s",
        "compressed COO look them up in the table, else they are distinct. Worst: the least speedup, or the largest",
        "memory. By the event clock all are chosen by it, too. Reported: no number is wanted.",
        solved_with(cases),
        f"{precision.capitalize()} precision.",
        over,
        measurement_note(campaign, "graph"),
        not_searched(cases),
        wanted_on(campaign),
        "SciPy is asked for CSR alone." * campaign.on_cpu,
        unavailable_note(campaign),
    ]  # fmt: skip
    return Table(tuple(columns), rows, join_sentences(caption))


def _measured(quantity: str, wanted: str, cases: list[Times], side: Side) -> tuple[Cell, ...]:
    """Return the measured number, whether it is reached, over how many problems, and the worst with its name."""
    what, *kind, statistic = quantity.split("_")
    values = {"repeat": REPEAT, "distinct": DISTINCT}[kind[0]] if kind else None
    numbers = each_of([case for case in cases if values in (None, case.values)], _target_number(what, side))
    if not numbers:
        return (Cell(), Cell(None, " "), Cell(0), Cell(), Cell(None, " "))
    at_most = what == "memory"
    worst, case = (max if at_most else min)(numbers, key=lambda item: item[0])
    value = worst if statistic == "worst" else median_of(number for number, _ in numbers)
    assert value is not None
    if not wanted:
        verdict = Cell(None, " ")
    else:
        verdict = Cell("yes" if (value <= float(wanted) if at_most else value >= float(wanted)) else "no")
    remark = case.line.record.remark if case.line.record else None
    notes = ((remark,) if remark else ()) + case.case.launch_note(case.clock, side.product(case))
    return (
        Cell(value, f"{value:.2f}"),
        verdict,
        Cell(len(numbers)),
        Cell(worst, f"{worst:.2f}"),
        Cell(case.line.problem, notes=notes),
    )


def _target_number(what: str, side: Side) -> Number:
    match what:
        case "library":
            return lambda s: ratio_of(s.library, side.product(s))
        case "coo":
            return lambda s: ratio_of(s.coo, side.product(s))
        case "csr":
            return lambda s: ratio_of(s.csr, side.product(s))
        case "bicgstab":
            return lambda s: ratio_of(s.library_solver, side.solver(s))
        case "memory":
            return lambda s: s.memory(side.product(s))
        case _:
            raise ValueError(f"no way to measure {what}")
