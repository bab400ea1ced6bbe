"""Conjugate gradients: time of an iteration with the matrix kept on the chip, and with the fastest products."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from repro.results import columns
from repro.results.campaign_data import Campaign, Method
from repro.results.problem_lines import join_sentences, measurement_note, remarks, unavailable_note
from repro.results.published import Published
from repro.results.registry import table
from repro.results.significance import geometric_mean
from repro.results.tables import Cell, Column, Table, table_of
from repro.sparse.solvers.conjugate_gradients import MAX_ITERATIONS, TIMED_ITERATIONS, TOLERANCES
from repro.sparse.tuning_features import library_of
from repro.studies.compound_spmv import CONJUGATE_GRADIENTS, STUDY_NAME, results

STATISTICS = columns.statistics(columns.ratio, {"geometric mean": geometric_mean, "worst": min})


def how_solved(campaign: Campaign) -> str:
    """Return the sentences on the solved system, and on the timed part of the solve."""
    tolerances = " and ".join(f"{TOLERANCES[precision]:g} in {precision}" for precision in campaign.precisions)
    return join_sentences(
        [
            "Conjugate gradients by Chronopoulos and Gear, preconditioned by the diagonal, for A x = b from x = 0;",
            f"b is A times a random vector. Each solver first solves once, in at most {MAX_ITERATIONS:,} iterations,",
            f"until the norm of b − A x is at most that of b times {tolerances} precision; the host verifies this.",
            f"Then the first {TIMED_ITERATIONS} iterations, or as many as the solve needed, are timed together; µs are",
            "per iteration, including a share of the start.",
            "On the chip: all iterations in one launch, with the matrix in shared memory as far as it fits."
            if not campaign.on_cpu
            else "On a CPU, the solver for a GPU’s chip needs a launch per phase and keeps no data on the chip.",
        ]
    )


def missing_problems_note(cases: Sequence[results.Times]) -> str:
    """Return the sentence on problems that were not solved, since they are not symmetric; empty if none was tried."""
    tried_problems = {case.line.problem for case in results.cases_of_conjugate_gradients(cases)}
    measured_problems = dict.fromkeys(case.line.problem for case in cases if case.case.is_measured)
    omitted_names = ", ".join(name for name in measured_problems if name not in tried_problems)
    is_told = omitted_names and tried_problems
    return f"Left out, because not symmetric (complex: Hermitian): {omitted_names}." if is_told else ""


def _time(key: str, solver: Method) -> Column[results.Times]:
    def cell(case: results.Times) -> Cell:
        failure = case.case.select(solver.predicate, **solver.columns).failure
        return columns.microseconds(case.iteration(solver), reason=failure)

    return Column(f"{key}_us", "µs", solver.title, cell=cell)


def _product(key: str, solver: Method) -> Column[results.Times]:
    def cell(case: results.Times) -> Cell:
        time = case[solver]
        return Cell(time.row.product if time else None)

    return Column(key, "product", solver.title, numeric=False, cell=cell)


def _speedup(key: str, title: str, base: Method, divisor: Method) -> Column[results.Times]:
    def iteration_of(solver: Method) -> Callable[[results.Times], results.Time | None]:
        return lambda case: case.iteration(solver)

    return columns.speedup_column(key, title, "speedup", iteration_of(base), iteration_of(divisor), STATISTICS)


def _to_tolerance(case: results.Times) -> Cell:
    chip = case[results.CHIP_CG]
    return columns.count(chip.row.to_tolerance if chip else None)


def _columns() -> tuple[Column[results.Times], ...]:
    return (
        columns.PROBLEM,
        columns.PRECISION,
        Column("matrix_MB", "MB", "matrix", cell=_megabytes),
        Column("kept_percent", "on the chip", "matrix", cell=lambda case: columns.percent(case.kept)),
        Column("to_tolerance", "iterations", cell=_to_tolerance),
        _time("chip", results.CHIP_CG),
        _time("ours", results.OUR_CG),
        _product("ours", results.OUR_CG),
        _time("library", results.LIBRARY_CG),
        _product("library", results.LIBRARY_CG),
        _speedup("speedup_over_ours", "chip over ours", results.OUR_CG, results.CHIP_CG),
        _speedup("speedup_over_library", "chip over the library’s", results.LIBRARY_CG, results.CHIP_CG),
        _speedup("ours_speedup_over_library", "ours over the library’s", results.LIBRARY_CG, results.OUR_CG),
    )


def _megabytes(case: results.Times) -> Cell:
    chip = case[results.CHIP_CG]
    return columns.megabytes((chip.row.matrix_bytes if chip else None) or None)


@table(
    STUDY_NAME,
    "table-conjugate-gradients",
    title="Conjugate gradients: the time of an iteration",
    numbering="ours",
    lead=("speedup_over_ours", "speedup_over_library"),
    part=CONJUGATE_GRADIENTS,
)
def conjugate_gradients(campaign: Campaign, published: Published) -> Table:
    """One line for each problem and precision with a symmetric matrix."""
    everything = results.all_times(campaign, published)
    cases = results.cases_of_conjugate_gradients(everything)
    library = library_of(campaign)
    caption = [
        how_solved(campaign),
        "In a graph: iterations with the same two vector kernels and, of the products that are fastest alone, the one",
        f"with the fastest iteration, for ours and for {library}’s. Matrix: megabytes as stored by the solver on the",
        "chip, and the share that stays there. Iterations: number needed to reach the tolerance.",
        missing_problems_note(everything),
        measurement_note(campaign, "graph"),
        remarks([case.line for case in cases]),
        unavailable_note(campaign),
    ]
    return table_of(_columns(), cases, join_sentences(caption), (*STATISTICS,), is_empty=not cases)
