"""Every problem and precision of the study of compressed COO: the kernels, the library, the floor, and the solver."""

from __future__ import annotations

from repro.artifacts.case import Timed
from repro.artifacts.cells import digits, micro, ratio, share, speedup, tied
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import ABBREVIATIONS, PROBLEM, launches, measured_on, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.sparse.times import library_of, routine_text
from repro.studies.compressed_coo.paper import STUDY
from repro.studies.compressed_coo.times import Times, all_times, not_searched, solved_with


@table(STUDY, "table-problems", title="Our kernels, the library and the floor, problem by problem", numbering="ours")
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
        measured_on(campaign, "graph"),
        launches(marked, len(timed)),
        not_searched(cases),
        unavailable(campaign),
    ]  # fmt: skip
    return Table(_columns(library_of(campaign)), [_row(case) for case in cases], sentences(caption))


def _columns(library: str) -> tuple[Column, ...]:
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


def _row(case: Times) -> tuple[Cell, ...]:
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
        micro(case.floor) if case.floor else Cell(notes=no_floor),
        Cell(case.ours_solver.row["product"] if case.ours_solver else None),
        micro(case.ours_solver),
        micro(case.compressed_solver),
        micro(case.plain_solver),
        micro(case.library_solver),
        speedup(case.library_solver, case.ours_solver),
    )


def _kernel(case: Times, kernel: Timed | None, notes: tuple[str, ...] = ()) -> tuple[Cell, ...]:
    return (
        Cell(kernel.name if kernel else None, notes=notes + tied(kernel, case.case.campaign.tie)),
        micro(kernel, case.case),
        share(case.floor, kernel),
        ratio(case.memory(kernel)),
        _rate(case.gflops(kernel)),
        speedup(case.library, kernel),
    )


def _routine(case: Times, routine: Timed | None) -> tuple[Cell, ...]:
    name = Cell(routine.name, routine_text(routine)) if routine else Cell()
    return name, micro(routine), _rate(case.gflops(routine))


def _rate(gflops: float | None) -> Cell:
    return Cell() if gflops is None else Cell(gflops, digits(gflops))
