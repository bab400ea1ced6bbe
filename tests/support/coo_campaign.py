"""A campaign of compressed COO that was never measured: few numbers, so that every artifact can be worked out by hand.

Times are the numbers of `PRODUCTS` and `SOLVERS` in microseconds by the graph clock, times the problem's `weight`; by
the event clock 10 % more, and with a cold cache, where `cold` is asked for, ours 1.5 and routines twice as long as by
events. `LARGE` problems have two million rows.
"""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from repro.bench.rows import QUANTILES, TIMES, Row
from repro.results.campaign_data import Campaign
from repro.results.published import Published
from repro.studies.compressed_coo.ids import CoordinateId
from repro.studies.compressed_coo.study import STUDY as CONTRACT
from support.campaigns import Recorder

ROOT = Path(__file__).parents[2]
STUDY = CONTRACT.name
PLAIN, COMPRESSED, OURS = "COO/b256-k2-c1", "CCOO/b256-k4-c1", "CCOO-aligned/b128-k4-c2"
BY_EVENTS = "CCOO/b256-k8-c1"
# microseconds; bytes of a matrix over those of CSR
PRODUCTS = {PLAIN: (100.0, 1.3), COMPRESSED: (50.0, 0.6), OURS: (40.0, 0.5), BY_EVENTS: (51.0, 0.62)}
ROUTINES = {"spmv-csr-alg1": 110.0, "spmv-csr-alg2": 90.0, "spmv-coo-alg1": 120.0, "spmv-sell-alg1": 80.0}
SOLVERS = {PLAIN: 3000.0, COMPRESSED: 2000.0, OURS: 1800.0}
#: Microseconds of the solver that stays on the chip.
ON_CHIP_SOLVER = 900.0
LIBRARY_SOLVERS = {"spmv-csr-alg1": 3200.0, "spmv-sell-alg1": 2700.0, "spmv-coo-alg1": 3400.0}
FLOOR, EMPTY = 60.0, 3.0
REPEAT = {"8/8/table": 50, "8/16/table": 49, "none/8/plain": 1}
DISTINCT = {"8/16/plain": 9990, "none/32/plain": 5, "8/16/table": 5}
LARGE = 2_000_000


@dataclass(frozen=True)
class Given:
    """One problem; `faster` divides the times of CCOO and of ours, its solvers too."""

    name: str
    n: int
    nnz: int
    weight: float = 1.0
    faster: float = 1.0
    encodings: dict[str, int] = field(default_factory=lambda: REPEAT)
    solved: bool = True
    reason: str | None = None
    note: str | None = None


REASON = "the collection cannot be reached"
PROBLEMS = (
    Given("small/5pt_const", 40_000, 200_000, 0.1),
    Given("large/5pt_const", LARGE, 10_000_000, note="of the pattern of ecology1"),
    Given("large/7pt_const", LARGE, 14_000_000, 1.4, faster=0.8),
    Given("large/27pt_const", LARGE, 54_000_000, 5.0, faster=1.25, solved=False),
    Given("large/5pt_var", LARGE, 10_000_001, encodings=DISTINCT, faster=0.5),
    Given("large/9pt_var", LARGE, 18_000_000, 1.8, encodings=DISTINCT, faster=0.4),
    Given("ecology1", 0, 0, reason=REASON),
)


class CooMaker(Recorder):
    """Writes the raw folder of a synthetic campaign of this study.

    Parameters
    ----------
    extended
        Whether our space was searched.
    in_solver
        The product that was chosen in the solver; None where none were tried in it, as in records of before.
    cold
        Whether products were timed with a cold cache as well.
    """

    def __init__(
        self,
        root: Path,
        backend: str,
        *,
        extended: bool = True,
        in_solver: str | None = None,
        cold: bool = False,
        on_chip: bool = False,
    ) -> None:
        super().__init__(root, backend, STUDY, CONTRACT.columns)
        self.extended, self.in_solver, self.cold, self.on_chip = extended, in_solver, cold, on_chip

    def timed(self, given: Given, kind: str, name: str, micro: float | None, **columns: Any) -> Row:
        """Return a row of the report, in microseconds by the graph clock."""
        scaled = None if micro is None else 1.1 * micro * (1.0 if kind == "empty" else given.weight)
        row = self.row(given.name, "double", kind, name, scaled, phase="report", entry="real", **columns)
        by_graph = {} if row.event_median is None else {"graph_median": row.event_median / 1.1}
        return replace(row, **by_graph)

    def variants(self, given: Given) -> list[Row]:
        rows = []
        csr = 4 * (given.n + 1) + 12 * given.nnz
        for name, (micro, memory) in PRODUCTS.items():
            coded = {"32/32/plain": 7} if name == PLAIN else given.encodings
            if name != OURS or self.extended:
                rows.append(self.timed(
                    given, "variant", name, micro if name == PLAIN else micro / given.faster,
                    **CoordinateId.parse(name).columns, encodings=json.dumps(coded),
                    space="extended" if name == OURS else "paper", matrix_bytes=round(memory * csr),
                ))  # fmt: skip
        return rows

    def baselines(self, given: Given) -> list[Row]:
        stored = {"ordering": "natural", "representation": "real"}
        if self.backend == "opencl":
            csr = {"routine": "csr", "format": "csr", "papers_choice": False}
            return [self.timed(given, "baseline", "scipy/csr/real", 150.0, **stored, **csr)]
        return [
            self.timed(given, "baseline", f"cusparse/{name}/real", micro, **stored, routine=name,
                       format=name.split("-")[1], papers_choice=name == "spmv-csr-alg1")
            for name, micro in ROUTINES.items()
        ]  # fmt: skip

    def solvers(self, given: Given) -> list[Row]:
        if not given.solved:
            return []
        library = LIBRARY_SOLVERS if self.backend == "cuda" else {"": 2500.0}
        name = "cusparse/{}/real" if self.backend == "cuda" else "scipy/csr/real"
        times = {p: m if p == PLAIN else m / given.faster for p, m in SOLVERS.items() if p != OURS or self.extended}
        ours = [
            self.timed(given, "solver", f"bicgstab-10/{product}", micro, routine="bicgstab", product=product,
                       layout=CoordinateId.parse(product).layout)
            for product, micro in times.items()
        ]  # fmt: skip
        libraries = [
            self.timed(given, "solver", f"bicgstab-10/{name.format(routine)}", micro, routine="bicgstab",
                       product=name.format(routine), representation="real")
            for routine, micro in library.items()
        ]  # fmt: skip
        chip = self.timed(given, "solver", "bicgstab-10/persistent", ON_CHIP_SOLVER, routine="persistent bicgstab",
                          product="persistent")  # fmt: skip
        return ours + libraries + [chip] * self.on_chip

    def case(self, given: Given) -> None:
        if given.reason:
            self.record(given.name, entry="real", status="unavailable", reason=given.reason)
            self.write(given.name, "double", "report", [self.unavailable(given.name, "double", given.reason)])
            return
        origin = {"source": "test", "note": given.note}
        self.record(given.name, entry="real", n=given.n, nnz=given.nnz, origin=origin)
        yardsticks = [self.timed(given, "floor", "floor/256-4", FLOOR), self.timed(given, "empty", "empty", EMPTY)]
        variants = self.variants(given)
        self.write(given.name, "double", "search", [replace(row, phase="search") for row in variants])
        report = [*variants, *self.baselines(given), *self.solvers(given), *yardsticks]
        if self.cold:
            report += [cold(row, 1.5) for row in variants] + [cold(row, 2.0) for row in self.baselines(given)]
        self.write(given.name, "double", "report", report)
        chosen = {("plain", "event"): PLAIN, ("plain", "graph"): PLAIN, ("joint", "event"): BY_EVENTS,
                  ("joint", "graph"): COMPRESSED}  # fmt: skip
        if self.extended:
            chosen |= {("extended", "event"): OURS, ("extended", "graph"): OURS}
        if self.in_solver:
            chosen |= {("bicgstab", clock): f"bicgstab-10/{self.in_solver}" for clock in ("event", "graph")}
        self.choose(given.name, "double", {key: (name, []) for key, name in chosen.items()})

    def all(self, problems: tuple[Given, ...] = PROBLEMS) -> Campaign:
        """Write and read a whole campaign."""
        self.environment()
        for given in problems:
            self.case(given)
        return self.load()


def cold(row: Row, slower: float) -> Row:
    """Return the row for a cold cache, slower by a factor by the event clock."""
    times = {name: None for name in TIMES} | {
        f"event_{quantile}": slower * getattr(row, f"event_{quantile}") for quantile in QUANTILES
    }
    return replace(row, key=f"{row.key}-cold", cache="cold", graph_launches=None, **times)


def published_coo() -> Published:
    return Published.load(STUDY, CONTRACT.published, CONTRACT.targets, ROOT / "config")
