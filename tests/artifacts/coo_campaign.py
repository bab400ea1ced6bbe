"""A campaign of compressed COO that was never measured: few numbers, so that every artifact can be worked out by hand.

Times are the numbers of `PRODUCTS` and `SOLVERS` in microseconds by the graph clock, times the problem's `weight`; by
the event clock 10 % more. `LARGE` problems have two million rows.
"""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
from synthetic_campaign import PROBLEMS as SPMV_PROBLEMS
from synthetic_campaign import ROOT, Maker, write_rows

from repro.artifacts.data import Campaign
from repro.artifacts.published import Published
from repro.bench.rows import Row

STUDY = "compressed_coo"
SPMV_GIVEN = SPMV_PROBLEMS[0]
PLAIN, COMPRESSED, OURS = "COO/b256-k2-c1", "CCOO/b256-k4-c1", "CCOO-aligned/b128-k4-c2"
BY_EVENTS = "CCOO/b256-k8-c1"
SLOTS = {PLAIN: 2, COMPRESSED: 4, OURS: 4, BY_EVENTS: 8}
# microseconds; bytes of a matrix over those of CSR
PRODUCTS = {PLAIN: (100.0, 1.3), COMPRESSED: (50.0, 0.6), OURS: (40.0, 0.5), BY_EVENTS: (51.0, 0.62)}
ROUTINES = {"spmv-csr-alg1": 110.0, "spmv-csr-alg2": 90.0, "spmv-coo-alg1": 120.0, "spmv-sell-alg1": 80.0}
SOLVERS = {PLAIN: 3000.0, COMPRESSED: 2000.0, OURS: 1800.0}
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


class CooMaker(Maker):
    """Writes the raw folder of a synthetic campaign of this study."""

    def __init__(self, root: Path, backend: str, *, extended: bool = True) -> None:
        super().__init__(root, backend, extended=extended)

    def timed(self, given: Given, kind: str, name: str, micro: float | None, **columns: Any) -> Row:
        entry = replace(SPMV_GIVEN, name=given.name, entry="real")
        scaled = None if micro is None else 1.1 * micro * (1.0 if kind == "empty" else given.weight)
        row = self.row(entry, "double", kind, name, scaled, phase="report", **columns)
        by_graph = {} if row.event_median is None else {"graph_median": row.event_median / 1.1}
        return replace(row, study=STUDY, **by_graph)

    def variants(self, given: Given) -> list[Row]:
        rows = []
        csr = 4 * (given.n + 1) + 12 * given.nnz
        for name, (micro, memory) in PRODUCTS.items():
            layout = name.split("/")[0]
            coded = {"32/32/plain": 7} if name == PLAIN else given.encodings
            if name != OURS or self.extended:
                rows.append(self.timed(
                    given, "variant", name, micro if name == PLAIN else micro / given.faster, layout=layout,
                    schedule="chunks", n_t=256, per_thread=SLOTS[name], chunks=1, encodings=json.dumps(coded),
                    space="extended" if name == OURS else "paper", matrix_bytes=round(memory * csr),
                ))  # fmt: skip
        return rows

    def baselines(self, given: Given) -> list[Row]:
        if self.backend == "opencl":
            return [self.timed(given, "baseline", "scipy/csr/real", 150.0, routine="csr", papers_choice=False)]
        return [
            self.timed(given, "baseline", f"cusparse/{name}/real", micro, routine=name,
                       papers_choice=name == "spmv-csr-alg1")
            for name, micro in ROUTINES.items()
        ]  # fmt: skip

    def solvers(self, given: Given) -> list[Row]:
        if not given.solved:
            return []
        library = LIBRARY_SOLVERS if self.backend == "cuda" else {"": 2500.0}
        name = "cusparse/{}/real" if self.backend == "cuda" else "scipy/csr/real"
        times = {p: m if p == PLAIN else m / given.faster for p, m in SOLVERS.items() if p != OURS or self.extended}
        times |= {name.format(routine): micro for routine, micro in library.items()}
        return [
            self.timed(given, "solver", f"bicgstab-10/{product}", micro, routine="bicgstab")
            for product, micro in times.items()
        ]

    def coo_case(self, given: Given) -> None:
        folder = self.raw / STUDY / given.name / "double"
        folder.mkdir(parents=True, exist_ok=True)
        path = self.raw / "problems" / f"{given.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        record = {"status": "ok", "n": given.n, "nnz": given.nnz, "origin": {"source": "test", "note": given.note}}
        if given.reason:
            record = {"status": "unavailable", "reason": given.reason}
        path.write_text(json.dumps({"name": given.name, "entry": "real", **record}))
        if given.reason:
            row = Row("k", STUDY, given.name, "real", "double", "variant", "-", "unavailable", phase="report",
                      message=given.reason)  # fmt: skip
            write_rows(folder / "report.parquet", [row])
            return
        yardsticks = [self.timed(given, "floor", "floor/256-4", FLOOR), self.timed(given, "empty", "empty", EMPTY)]
        variants = self.variants(given)
        write_rows(folder / "search.parquet", [replace(row, phase="search") for row in variants])
        write_rows(folder / "report.parquet", [*variants, *self.baselines(given), *self.solvers(given), *yardsticks])
        chosen = {("plain", "event"): PLAIN, ("plain", "graph"): PLAIN, ("joint", "event"): BY_EVENTS,
                  ("joint", "graph"): COMPRESSED}  # fmt: skip
        if self.extended:
            chosen |= {("extended", "event"): OURS, ("extended", "graph"): OURS}
        common = {"study": STUDY, "problem": given.name, "entry": "real", "precision": "double"}
        answers = [{**common, "clock": c, "tuning": t, "name": name, "ties": []} for (t, c), name in chosen.items()]
        pd.DataFrame(answers).to_parquet(folder / "choices.parquet")

    def campaign(self, problems: tuple[Given, ...] = PROBLEMS) -> Campaign:
        self.environment()
        for given in problems:
            self.coo_case(given)
        return Campaign.load(self.raw, STUDY)


def published_coo() -> Published:
    return Published.load(ROOT / "config" / "published", STUDY)
