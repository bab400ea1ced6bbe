"""Writing a campaign of products and set-ups that was never measured: each number in its tables can be worked out.

Times are in microseconds by the event clock, of which the graph clock reads 0.8 and the host's 3.
"""

from __future__ import annotations

from pathlib import Path

from repro.bench.rows import Row
from repro.results.published import Published
from repro.results.registry import get_artifact
from repro.results.tables import Cell, Table
from repro.studies import load_artifacts
from repro.studies.spgemm_amg import SETUP_STAGES, STUDY_NAME
from repro.studies.spgemm_amg.ids import KernelId
from repro.studies.spgemm_amg.study import PUBLISHED, TARGETS, SpgemmAmg
from support.campaigns import Recorder

load_artifacts(STUDY_NAME)
NUMBERS = Published.load(STUDY_NAME, PUBLISHED, TARGETS, Path(__file__).parents[2] / "config")
NOTHING_PUBLISHED = Published({}, [])

#: How large each product is beside A·A, which has a million products and a quarter as many entries.
SIZES = {"AA": 1.0, "AP": 0.5, "RAP": 2.0}
PRODUCTS, NONZEROS, ROWS = 1_000_000, 250_000, 10_000
#: Times of A·A, and bytes beside those of C.
WAYS = {"coordinates": (840.0, 20), "paper": (300.0, 3), "one": (120.0, 2), "one-tuned": (100.0, 2),
        "two-tuned": (110.0, 1)}  # fmt: skip
MODES = {"coordinates": ("coordinates", "coordinates"), "paper": ("one", "sort"), "one": ("one", "default"),
         "one-tuned": ("one", "tuned"), "two-tuned": ("two", "tuned")}  # fmt: skip
ROUTINES = {"ALG1": (400.0, 8), "ALG2": (250.0, 6), "ALG3": (260.0, 4), "reuse": (300.0, 9)}
REFILL = {"refill": 50.0, "refill-tuned": 40.0}
REUSE_COMPUTE = 60.0
SETUPS = {"default": 1000.0, "sort": 1400.0, "coordinates": 2100.0}
UNKNOWNS = 250_000
#: Times of kernels by step: what is chosen is timed again.
SEARCH = {
    "AP/one/b1/sort-w32-s64-r4": 30.0, "AP/one/b1/hash-w4-s64-r64": 20.0, "AP/one/b1/hash-w8-s64-r32": 25.0,
    "AP/one/b5/sort-w64-s1024-r1": 50.0, "AP/one/b5/hash-w32-s256-r8": 60.0, "AP/one/b5/dense": 80.0,
    "AP/numeric/b0/hash-w4-s32-r64": 9.0,
}  # fmt: skip
AGAIN = {
    "AP/one/b1/sort-w32-s64-r4": 33.0, "AP/one/b1/hash-w4-s64-r64": 22.0,
    "AP/one/b5/sort-w64-s1024-r1": 48.0, "AP/numeric/b0/hash-w4-s32-r64": 10.0,
}  # fmt: skip


def bytes_of_c(product: str) -> int:
    """As CSR of doubles."""
    return int(12 * NONZEROS * SIZES[product]) + 4 * (ROWS + 1)


class Maker(Recorder):
    """Writes the raw folder of a campaign of this study."""

    def __init__(self, root: Path, backend: str = "cuda") -> None:
        super().__init__(root, backend, STUDY_NAME, SpgemmAmg.columns)
        self.environment()

    def product(self, problem: str, product: str, weight: float = 1.0) -> list[Row]:
        """All ways and routines of a product."""
        size = SIZES[product]
        sizes = {
            "product": product, "products": int(PRODUCTS * size), "nonzeros": int(NONZEROS * size), "rows": ROWS
        }  # fmt: skip

        def row(kind: str, name: str, micro: float, clocks: tuple[str, ...], **columns: object) -> Row:
            return self.row(problem, "double", kind, name, micro * size * weight, clocks, phase="report",
                            **sizes, **columns)  # fmt: skip

        host, numeric = ("host",), ("event", "graph")
        steps = {
            "one-tuned": {"stage_count": 1e-5, "stage_compute": 2e-5, "stage_settle": 3e-6},
            "two-tuned": {"stage_count": 1e-5, "stage_symbolic": 2e-5, "stage_place": 4e-6, "stage_numeric": 3e-5},
        }
        rows = [
            row("variant", f"{product}/{way}", micro, host, what="product", mode=MODES[way][0], method=MODES[way][1],
                peak_bytes=times * bytes_of_c(product), **steps.get(way, {}))
            for way, (micro, times) in WAYS.items()
        ]  # fmt: skip
        rows += [
            row("variant", f"{product}/{way}", micro, numeric, what="numeric", mode="refill",
                method="tuned" if way.endswith("tuned") else "default")
            for way, micro in REFILL.items()
        ]  # fmt: skip
        if self.backend == "opencl":
            return [*rows, row("baseline", f"scipy/spgemm-csr/{product}", 70.0, host, what="product", routine="csr")]
        rows += [
            row("baseline", f"cusparse/spgemm-{name.lower()}/{product}", micro, host, what="product", routine=name,
                peak_bytes=times * bytes_of_c(product))
            for name, (micro, times) in ROUTINES.items()
        ]  # fmt: skip
        name = f"cusparse/spgemm-reuse-compute/{product}"
        return [*rows, row("baseline", name, REUSE_COMPUTE, numeric, what="numeric", routine="reuse-compute")]

    def setup(self, problem: str, weight: float = 1.0) -> list[Row]:
        """Three set-ups, two of its levels, and a solution."""
        sizes = {"rows": UNKNOWNS, "nonzeros": 5 * UNKNOWNS, "levels": 3}

        def row(name: str, micro: float, **columns: object) -> Row:
            return self.row(problem, "double", "variant", name, micro * weight, ("host",), phase="report", **columns)

        rows = [
            row(f"setup/{method}", micro, what="setup", method=method, complexity=1.25, peak_bytes=10**8, **sizes)
            for method, micro in SETUPS.items()
        ]
        for level, galerkin in ((0, 4e-4), (1, 1e-4)):
            stages = {f"stage_{name}": weight * (galerkin if name == "galerkin" else 1e-4) for name in SETUP_STAGES}
            rows.append(row(f"setup/level-{level}", 600.0, what="level", method="default", level=level,
                            **sizes | {"rows": UNKNOWNS // 10**level}, **stages))  # fmt: skip
        return [*rows, row("solve/cg", 500.0, what="solve", method="default", iterations=10, **sizes)]

    def bins(self, problem: str, phase: str) -> list[Row]:
        """The kernels of bins as a step leaves them."""
        return [
            self.row(problem, "double", "variant", name, micro, ("event",), phase=phase, rows=100, products=5000,
                     nonzeros=1000, **KernelId.parse(name).columns)
            for name, micro in (SEARCH if phase == "search" else AGAIN).items()
        ]  # fmt: skip

    def case(self, problem: str, weight: float = 1.0) -> None:
        """Write everything of a problem."""
        self.record(problem, entry="real", n=UNKNOWNS, nnz=5 * UNKNOWNS)
        products = [row for product in SIZES for row in self.product(problem, product, weight)]
        self.write(problem, "double", "search", self.bins(problem, "search"))
        self.write(
            problem, "double", "report", [*products, *self.setup(problem, weight), *self.bins(problem, "report")]
        )

    def gone(self, problem: str) -> None:
        """Write a problem that could not be had."""
        self.record(problem, status="unavailable", reason="no such file")
        self.write(problem, "double", "report", [self.unavailable(problem, "double", "no such file")])


def table(campaign: object, name: str, published: Published = NUMBERS) -> Table:
    """Make a table of the study."""
    made = get_artifact(STUDY_NAME, name).make(campaign, published)  # type: ignore[arg-type]
    assert isinstance(made, Table)
    return made


def lines(made: Table, *keys: str) -> dict[object, dict[str, Cell]]:
    """Return the cells of each row by its key: the printed texts of some of its columns, the problem's alone first."""
    heads = [column.key for column in made.columns]
    assert len(set(heads)) == len(heads)
    cells = [dict(zip(heads, row, strict=True)) for row in made.rows]
    return {tuple(line[key].value for key in ("problem", *keys)): line for line in cells}


def values(line: dict[str, Cell], *keys: str) -> list[object]:
    """Return the values of some cells."""
    return [line[key].value for key in keys]
