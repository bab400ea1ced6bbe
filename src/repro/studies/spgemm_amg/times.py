"""What the tables and figures share: the times of a problem's products, of its set-up and of its solution."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from repro.artifacts.case import Case, Timed, fastest
from repro.artifacts.data import Campaign, one_line
from repro.artifacts.lineup import Line, ours
from repro.artifacts.published import Published
from repro.bench.rows import TIMED
from repro.bench.runnable import Clock
from repro.codegen.precisions import DTYPES, INDEX_BYTES
from repro.studies.spgemm_amg.paper import PRODUCTS, ProductName

#: Of whole products, set-ups and solutions, which allocate and read sizes back on the way.
HOST: Clock = "host"
#: Of the kernels of bins, of numeric phases, and of the steps of a product or a set-up.
EVENT: Clock = "event"
#: A multiplication and an addition.
FLOPS_OF_A_PRODUCT = 2
#: The products of the set-up.
GALERKIN: tuple[ProductName, ...] = ("AP", "RAP")
#: What a level's set-up consists of, in its order, as it is printed.
PHASES: Mapping[str, str] = {
    "diagonal": "diagonal",
    "aggregates": "aggregation",
    "tentative": "tentative prolongator",
    "radius": "spectral radius",
    "prolongator": "smoothing",
    "transpose": "transpose",
    "galerkin": "Galerkin product",
}
#: How products of a set-up are computed, as it is printed.
Method = Literal["default", "sort", "coordinates"]
METHODS: Mapping[Method, str] = {"default": "ours", "sort": "the paper’s kernels", "coordinates": "sort of all"}
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Way:
    """A way to compute a product or its numbers, or several of which the fastest counts.

    Attributes
    ----------
    key, title
        In the columns of a table, and as it is printed.
    rule
        Which rows are of it.
    what
        `product` or `numeric`.
    """

    key: str
    title: str
    rule: Callable[[Row], bool]
    what: Literal["product", "numeric"] = "product"

    @property
    def clock(self) -> Clock:
        """The clock that it is timed by."""
        return HOST if self.what == "product" else EVENT


def _mode(mode: str, *methods: str) -> Callable[[Row], bool]:
    return lambda row: row["mode"] == mode and row["method"] in methods


def _ours(row: Row) -> bool:
    return row["kind"] == "variant" and row["method"] in ("default", "tuned")


def _baseline(row: Row) -> bool:
    return bool(row["kind"] == "baseline")


COORDINATES = Way("coordinates", "sort of all products", _mode("coordinates", "coordinates"))
PAPER = Way("paper", "the paper’s", _mode("one", "sort"))
ONE = Way("one", "one phase", _mode("one", "default"))
ONE_TUNED = Way("one_tuned", "one phase, tuned", _mode("one", "tuned"))
TWO_TUNED = Way("two_tuned", "two phases, tuned", _mode("two", "tuned"))
OURS = Way("ours", "ours", _ours)
LIBRARY = Way("library", "the library", _baseline)
REFILL = Way("refill", "ours, numeric phase", _ours, "numeric")
REUSE = Way("reuse", "the library, numeric phase", _baseline, "numeric")
#: Each on its own, slow before fast as it is expected.
WAYS = (COORDINATES, PAPER, ONE, ONE_TUNED, TWO_TUNED)


@dataclass(frozen=True)
class ProductTimes:
    """The times of one product.

    Attributes
    ----------
    line, case
        Of which problem.
    product
        Which one; None of a problem that has no rows of any.
    rows
        Its rows, whole products and numeric phases.
    """

    line: Line
    case: Case
    product: ProductName | None
    rows: Sequence[Row]

    @property
    def title(self) -> str:
        """The product as it is printed."""
        return PRODUCTS[self.product] if self.product else ""

    def of(self, way: Way) -> list[Row]:
        """Return the rows of a way, those that failed too."""
        return [row for row in self.rows if row["what"] == way.what and way.rule(row)]

    def time(self, way: Way) -> Timed | None:
        """Return the fastest of a way, None if it has no time."""
        return fastest(self.of(way), way.clock)

    def best_of_others(self) -> Timed | None:
        """Return the fastest of all whole products that are not ours: of the library, of the paper and its rival."""
        return fastest([row for way in (LIBRARY, PAPER, COORDINATES) for row in self.of(way)], HOST)

    def why_not(self, way: Way) -> tuple[str, ...]:
        """Say why a way has no time; nothing where it was not tried."""
        return tuple(failure(row) for row in self.of(way)[:1])

    @property
    def routines(self) -> list[Way]:
        """The library's routines for whole products, a way each."""
        names = sorted({str(row["routine"]) for row in self.of(LIBRARY)})
        return [routine_way(name) for name in names]

    @property
    def products(self) -> int | None:
        """How many products are summed up."""
        return self._number("products")

    @property
    def nonzeros(self) -> int | None:
        """Entries of C."""
        return self._number("nonzeros")

    @property
    def compression(self) -> float | None:
        """Products that an entry of C is the sum of, in the mean."""
        return self.products / self.nonzeros if self.products and self.nonzeros else None

    @property
    def bytes_of_c(self) -> int | None:
        """Bytes of C as CSR with indices of 4 bytes; None where its rows are not on record."""
        rows = self._number("rows")
        if rows is None or self.nonzeros is None:
            return None
        value = DTYPES[self.case.precision]().nbytes
        return self.nonzeros * (INDEX_BYTES + value) + (rows + 1) * INDEX_BYTES

    def memory(self, way: Way) -> float | None:
        """Return the most bytes that the fastest of a way takes at once, C among them, over the bytes of C."""
        timed = self.time(way)
        peak = timed.row["peak_bytes"] if timed else None
        return peak / self.bytes_of_c if peak and self.bytes_of_c else None

    def gflops(self, timed: Timed | None) -> float | None:
        """Return two operations for each product over a time, in units of 10^9 a second."""
        return 1e-9 * FLOPS_OF_A_PRODUCT * self.products / timed.seconds if timed and self.products else None

    def _number(self, column: str) -> int | None:
        return next((int(row[column]) for row in self.rows if row.get(column) is not None), None)


@dataclass(frozen=True)
class LevelTimes:
    """How long what makes the next level of one takes.

    Attributes
    ----------
    level, rows, nonzeros
        Which, and how large its matrix is.
    timed
        All of it, by the host's clock.
    stages
        Seconds by phase; empty where they were not timed one by one.
    """

    level: int
    rows: int
    nonzeros: int
    timed: Timed
    stages: Mapping[str, float]

    @property
    def galerkin_share(self) -> float | None:
        """Share of the Galerkin product in the level's phases."""
        return _galerkin_share(self.stages)


@dataclass(frozen=True)
class ProblemTimes:
    """The times of one problem at one precision.

    Attributes
    ----------
    line, case
        Which.
    rows
        All rows of the report phase.
    """

    line: Line
    case: Case
    rows: Sequence[Row]

    def product(self, name: ProductName) -> ProductTimes:
        """Return the times of a product, without any row where there is none."""
        return ProductTimes(
            self.line,
            self.case,
            name,
            [row for row in self.rows if row["product"] == name and row["what"] in ("product", "numeric")],
        )

    @property
    def products(self) -> list[ProductTimes]:
        """The products that there are rows of; where there are none, one without a name, for the line of a table."""
        there = [times for name in PRODUCTS if (times := self.product(name)).rows]
        return there or [ProductTimes(self.line, self.case, None, ())]

    def galerkin(self, way: Way) -> float | None:
        """Return the seconds of A P and R (A P) together, None where either has no time."""
        times = [self.product(name).time(way) for name in GALERKIN]
        return sum(timed.seconds for timed in times if timed) if all(times) else None

    def set_up(self, method: Method) -> Timed | None:
        """Return the time of the whole set-up with the products of a method."""
        return fastest(self._whole("setup", method), HOST)

    @property
    def solution(self) -> Timed | None:
        """The time of conjugate gradients, the hierarchy being there."""
        return fastest(self._whole("solve"), HOST)

    @property
    def levels(self) -> list[LevelTimes]:
        """What makes each next level, the finest first; levels without a time are not there."""
        rows = sorted(self._whole("level"), key=lambda row: int(row["level"] or 0))
        timed = [fastest([row], HOST) for row in rows]
        return [_level(one) for one in timed if one]

    @property
    def phases(self) -> dict[str, float]:
        """Seconds of each phase on all levels; empty unless all levels were timed phase by phase."""
        levels, set_up = self.levels, self.set_up("default")
        wanted = set_up.row["levels"] - 1 if set_up and set_up.row["levels"] else len(levels)
        if not levels or len(levels) != wanted or not all(level.stages for level in levels):
            return {}
        return {name: sum(level.stages[name] for level in levels) for name in PHASES}

    @property
    def galerkin_share(self) -> float | None:
        """Share of the Galerkin products in all phases of all levels."""
        return _galerkin_share(self.phases)

    def why_not(self, what: Literal["setup", "level", "solve"], method: Method | None = None) -> str:
        """Return why something of the set-up has no time."""
        if not self.case.measured:
            return self.case.why_not()
        return next((failure(row) for row in self._whole(what, method) if row["status"] not in TIMED), "not timed")

    def _whole(self, what: str, method: Method | None = None) -> list[Row]:
        return [row for row in self.rows if row["what"] == what and method in (None, row["method"])]


def _galerkin_share(phases: Mapping[str, float]) -> float | None:
    whole = sum(phases.values())
    return phases["galerkin"] / whole if whole else None


def _level(timed: Timed) -> LevelTimes:
    row = timed.row
    stages = {name: row[f"stage_{name}"] for name in PHASES}
    there = {} if None in stages.values() else {name: float(seconds) for name, seconds in stages.items()}
    return LevelTimes(int(row["level"] or 0), int(row["rows"] or 0), int(row["nonzeros"] or 0), timed, there)


def routine_way(name: str) -> Way:
    """Return the way that is one routine of the library."""
    return Way(name.lower(), name, lambda row: _baseline(row) and row["routine"] == name)


def failure(row: Row) -> str:
    """Say what became of a row without a time: its name, its status, and the first line of its message."""
    message = str(row["message"] or "").partition("\n")[0]
    status = "has no time" if row["status"] in TIMED else str(row["status"]).replace("_", " ")
    return one_line(f"{row['name']}: {status}{f' ({message})' if message else ''}", 160)


def precision_of(campaign: Campaign) -> str:
    """Return the precision that what has one prints: double, the paper's, where there is any."""
    return campaign.precisions[-1]


def all_times(campaign: Campaign, published: Published, precision: str | None = None) -> list[ProblemTimes]:
    """Return all of a campaign at one precision, in the paper's order, then by growing size."""
    cases = [
        (line, Case(campaign, line.problem, precision or precision_of(campaign))) for line in ours(campaign, published)
    ]
    return [ProblemTimes(line, case, case.rows) for line, case in cases]


def routines_of(products: Sequence[ProductTimes]) -> list[Way]:
    """Return the library's routines that there are rows of in any of some products."""
    return list({way.key: routine_way(way.title) for times in products for way in times.routines}.values())
