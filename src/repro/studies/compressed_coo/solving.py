"""BiCGSTAB with the products: which are tried in it, what is chosen, and what is reported."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from repro.bench.rows import TIMED, Row
from repro.codegen.compile import Module, manifest_path
from repro.codegen.targets import Target
from repro.sparse.operands import Multiplies
from repro.sparse.solvers.render import SOLVERS
from repro.sparse.solvers.run import SolverRun
from repro.studies.compressed_coo.blocking import SPLITS
from repro.studies.compressed_coo.paper import SOLVER, STUDY
from repro.studies.compressed_coo.render import SOLVED
from repro.studies.compressed_coo.variant import CoordinateVariant
from repro.tuning.choose import Choice, fastest, pick, ranked

#: Solvers that a case's part of the pace has had since before any were tried: those of the library's formats, of the
#: paper's and of our fastest.
REPORTED = 6


def fastest_of_layouts(variants: Sequence[CoordinateVariant], rows: Sequence[Row]) -> list[CoordinateVariant]:
    """Return the fastest variant of each layout that has a time, by the graph clock where it was used."""
    names = set()
    for layout in SPLITS:
        of_layout = [row for row in rows if row["layout"] == layout]
        timed = ranked(of_layout, "graph") or ranked(of_layout)
        names |= {row.name for row in timed[:1]}
    return [variant for variant in variants if variant.name in names]


def solvers_with(products: Iterable[Multiplies], precision: str, target: Target) -> list[SolverRun]:
    """Return BiCGSTAB with each of some products.

    Raises
    ------
    ReproError
        The solver's module is not compiled yet.
    """
    path = manifest_path(target.name, STUDY, f"{SOLVED}/{SOLVERS[0]}-{precision}")
    module = Module.load(path)
    return [SolverRun(product, module, path.parent) for product in products]


def choose_solver(rows: Sequence[Row], tie: float) -> list[Choice]:
    """Return the fastest of the solvers that were tried, by each clock."""
    return pick(rows, tie, lambda timed, clock: {SOLVER: timed})


def reported(products: Sequence[Multiplies], rows: Sequence[Row]) -> list[Multiplies]:
    """Return the products that did best alone, of those reported: of each layout, and of the library's formats.

    The library's routines are timed in the report alone, so that none of them is tried in the solver before.
    """
    warm = {row.name: row for row in rows if row.cache == "warm" and row.status in TIMED}
    clock = "graph" if any(row.graph_median for row in warm.values()) else "event"
    timed = [row for product in products if (row := warm.get(product.name)) and row.median(clock)]
    library = [row for row in timed if row.kind == "baseline"]
    groups = [
        *([row for row in timed if row["layout"] == layout] for layout in SPLITS),
        library,
        *([row for row in library if row["format"] == form] for form in ("csr", "coo")),
    ]
    chosen = {best.name for group in groups if (best := fastest(group, clock))}
    chosen |= {row.name for row in library if row["papers_choice"]}
    return [product for product in products if product.name in chosen]
