"""What the tables and figures of this study read of a campaign.

These are the times of a problem's products, of its set-up and of its solution, by each method; the fastest kernel
for the rows of a bin; the cells that several tables have; and what was measured of each target, or why nothing
was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, get_args

from repro.bench.rows import TIMED
from repro.bench.runnable import ClockName
from repro.codegen.targets import DTYPES, INDEX_BYTES
from repro.results.campaign_data import Campaign, Case, ReportedTime, fastest_time, one_line
from repro.results.problem_rows import ProblemRow, ours
from repro.results.published import Published
from repro.results.significance import geometric_mean, interval_of, ratio_of, scaled
from repro.results.tables import CaseNumber, Cell, Column, Measured, MissingCase, digits, microseconds
from repro.sparse.spgemm.kernels import LIMITS
from repro.studies.spgemm_amg import PRODUCTS, ProductName
from repro.studies.spgemm_amg.ids import BinMode

#: Of whole products, set-ups and solutions, which allocate and read sizes back on the way.
HOST: ClockName = "host"
#: Of the kernels of bins, of numeric phases, and of the steps of a product or a set-up.
EVENT: ClockName = "event"
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
SetUpMethod = Literal["default", "sort", "coordinates"]
SETUP_METHODS: Mapping[SetUpMethod, str] = {
    "default": "ours",
    "sort": "the paper’s kernels",
    "coordinates": "sort of all",
}
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Method:
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
    def clock(self) -> ClockName:
        """The clock that it is timed by."""
        return HOST if self.what == "product" else EVENT


def _mode(mode: str, *methods: str) -> Callable[[Row], bool]:
    return lambda row: row["mode"] == mode and row["method"] in methods


def _ours(row: Row) -> bool:
    return row["kind"] == "variant" and row["method"] in ("default", "tuned")


def _baseline(row: Row) -> bool:
    return bool(row["kind"] == "baseline")


COORDINATES = Method("coordinates", "sort of all products", _mode("coordinates", "coordinates"))
PAPER_KERNELS = Method("paper", "the paper’s", _mode("one", "sort"))
ONE = Method("one", "one phase", _mode("one", "default"))
ONE_TUNED = Method("one_tuned", "one phase, tuned", _mode("one", "tuned"))
TWO_TUNED = Method("two_tuned", "two phases, tuned", _mode("two", "tuned"))
OURS = Method("ours", "ours", _ours)
LIBRARY = Method("library", "the library", _baseline)
REFILL = Method("refill", "ours, numeric phase", _ours, "numeric")
REUSE = Method("reuse", "the library, numeric phase", _baseline, "numeric")
#: Each on its own, slow before fast as it is expected.
METHODS = (COORDINATES, PAPER_KERNELS, ONE, ONE_TUNED, TWO_TUNED)


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

    line: ProblemRow
    case: Case
    product: ProductName | None
    rows: Sequence[Row]

    @property
    def title(self) -> str:
        """The product as it is printed."""
        return PRODUCTS[self.product] if self.product else ""

    def of(self, way: Method) -> list[Row]:
        """Return the rows of a way, those that failed too."""
        return [row for row in self.rows if row["what"] == way.what and way.rule(row)]

    def time(self, way: Method) -> ReportedTime | None:
        """Return the fastest of a way, None if it has no time."""
        return fastest_time(self.of(way), way.clock)

    def best_of_others(self) -> ReportedTime | None:
        """Return the fastest of all whole products that are not ours: of the library, of the paper and its rival."""
        return fastest_time([row for way in (LIBRARY, PAPER_KERNELS, COORDINATES) for row in self.of(way)], HOST)

    def why_not(self, way: Method) -> tuple[str, ...]:
        """Say why a way has no time; nothing where it was not tried."""
        return tuple(failure(row) for row in self.of(way)[:1])

    @property
    def routines(self) -> list[Method]:
        """The library's routines for whole products, a way each."""
        names = sorted({str(row["routine"]) for row in self.of(LIBRARY)})
        return [routine_method(name) for name in names]

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

    def memory(self, way: Method) -> float | None:
        """Return the most bytes that the fastest of a way takes at once, C among them, over the bytes of C."""
        timed = self.time(way)
        peak = timed.row["peak_bytes"] if timed else None
        return peak / self.bytes_of_c if peak and self.bytes_of_c else None

    def gflops(self, timed: ReportedTime | None) -> float | None:
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
    timed: ReportedTime
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

    line: ProblemRow
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

    def galerkin(self, way: Method) -> float | None:
        """Return the seconds of A P and R (A P) together, None where either has no time."""
        times = [self.product(name).time(way) for name in GALERKIN]
        return sum(timed.seconds for timed in times if timed) if all(times) else None

    def set_up(self, method: SetUpMethod) -> ReportedTime | None:
        """Return the time of the whole set-up with the products of a method."""
        return fastest_time(self._whole("setup", method), HOST)

    @property
    def solution(self) -> ReportedTime | None:
        """The time of conjugate gradients, the hierarchy being there."""
        return fastest_time(self._whole("solve"), HOST)

    @property
    def levels(self) -> list[LevelTimes]:
        """What makes each next level, the finest first; levels without a time are not there."""
        rows = sorted(self._whole("level"), key=lambda row: int(row["level"] or 0))
        timed = [fastest_time([row], HOST) for row in rows]
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

    def why_not(self, what: Literal["setup", "level", "solve"], method: SetUpMethod | None = None) -> str:
        """Return why something of the set-up has no time."""
        if not self.case.measured:
            return self.case.why_not()
        return next((failure(row) for row in self._whole(what, method) if row["status"] not in TIMED), "not timed")

    def _whole(self, what: str, method: SetUpMethod | None = None) -> list[Row]:
        return [row for row in self.rows if row["what"] == what and method in (None, row["method"])]


def _galerkin_share(phases: Mapping[str, float]) -> float | None:
    whole = sum(phases.values())
    return phases["galerkin"] / whole if whole else None


def _level(timed: ReportedTime) -> LevelTimes:
    row = timed.row
    stages = {name: row[f"stage_{name}"] for name in PHASES}
    there = {} if None in stages.values() else {name: float(seconds) for name, seconds in stages.items()}
    return LevelTimes(int(row["level"] or 0), int(row["rows"] or 0), int(row["nonzeros"] or 0), timed, there)


def routine_method(name: str) -> Method:
    """Return the way that is one routine of the library."""
    return Method(name.lower(), name, lambda row: _baseline(row) and row["routine"] == name)


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


def routines_of(products: Sequence[ProductTimes]) -> list[Method]:
    """Return the library's routines that there are rows of in any of some products."""
    return list({way.key: routine_method(way.title) for times in products for way in times.routines}.values())


MILLI = 1e3
Worst = Callable[[Iterable[float]], float]


def milli(timed: ReportedTime | None, why: str = "") -> Cell:
    """Return a time in milliseconds; without one why there is none, if that is to be said."""
    if timed is None:
        return Cell(notes=(why,) if why else ())
    value = MILLI * timed.seconds
    return Cell(value, digits(value), timed.notes, (timed.key,), scaled(interval_of(timed), MILLI))


def micro_of(times: ProductTimes, way: Method) -> Cell:
    """Return the time of a way in microseconds, or why it has none."""
    timed = times.time(way)
    return microseconds(timed) if timed else Cell(notes=times.why_not(way))


def three_digits(value: float | None) -> Cell:
    """Return a positive number with three significant digits."""
    return Cell() if value is None else Cell(value, digits(value))


def problem_cell(line: ProblemRow, why: str = "") -> Cell:
    """Return the name of a problem, with its remark and, of one that could be had, why it has no numbers."""
    cell = line.cell
    available = line.record is not None and line.record.available
    return replace(cell, notes=(*cell.notes, why)) if why and available else cell


def summary(
    columns: Sequence[Column],
    rows: Sequence[tuple[Cell, ...]],
    worst: Mapping[str, Worst],
    of_the_papers: Sequence[bool],
) -> list[tuple[Cell, ...]]:
    """Return lines with the geometric mean and the worst of some columns: of all rows, and of the paper's problems.

    Parameters
    ----------
    columns, rows
        Of the table.
    worst
        By the key of a column which of its numbers is the worst; other columns stay empty.
    of_the_papers
        For each row whether it is of a problem of the paper. Where all are, or none is, one pair of lines says all.
    """
    theirs = [row for row, papers in zip(rows, of_the_papers, strict=True) if papers]
    groups = [(", the paper’s problems", theirs)] if theirs and len(theirs) < len(rows) else []
    lines = []
    for suffix, group in (("", rows), *groups):
        numbers = [
            [float(value) for row in group if (value := row[place].value) is not None] if column.key in worst else []
            for place, column in enumerate(columns)
        ]
        if not any(numbers):
            continue
        means = (three_digits(geometric_mean(values)) for values in numbers[1:])
        least = (
            three_digits(worst[column.key](values) if values else None)
            for column, values in zip(columns[1:], numbers[1:], strict=True)
        )
        lines += [(Cell(f"geometric mean{suffix}"), *means), (Cell(f"worst{suffix}"), *least)]
    return lines


BIN_METHODS = {"sort": "sort", "hash": "hash table", "dense": "a sum a column"}
BIN_MODES: Mapping[BinMode, str] = {"one": "one phase", "numeric": "numeric phase"}
#: Of what has times of bins.
OF_THE_SEARCH = "A kernel that was not chosen was not timed again: its time is the search’s."


@dataclass(frozen=True)
class BinTimes:
    """The times of the rows of one bin.

    Attributes
    ----------
    line, case
        Of which problem.
    product, mode, bin
        Which rows: binned by products in one phase, by entries in the numeric one.
    rows, products, nonzeros
        How many, what they are the sum of, and their entries in C.
    by_method
        The fastest kernel of each method that has a time, by the event clock.
    searched
        The methods of it whose time is the search's: they were not chosen, and so not timed again.
    failures
        Of the methods without a time what became of a kernel.
    """

    line: ProblemRow
    case: Case
    product: ProductName
    mode: BinMode
    bin: int
    rows: int
    products: int
    nonzeros: int
    by_method: Mapping[str, ReportedTime]
    searched: frozenset[str]
    failures: Mapping[str, str]

    @property
    def title(self) -> str:
        """The least and the most products, or entries, of its rows."""
        least = LIMITS[self.bin - 1] + 1 if self.bin else 1
        return f"{least:,}–{LIMITS[self.bin]:,}" if self.bin < len(LIMITS) else f"{least:,} and more"

    @property
    def compression(self) -> float | None:
        """Products that an entry is the sum of, in the mean."""
        return self.products / self.nonzeros if self.nonzeros else None

    @property
    def winner(self) -> str | None:
        """The method of the fastest kernel."""
        return min(self.by_method, key=lambda name: self.by_method[name].seconds, default=None)

    @property
    def lead(self) -> float | None:
        """Time of the next best method over that of the best; None of a single one."""
        seconds = sorted(timed.seconds for timed in self.by_method.values())
        return seconds[1] / seconds[0] if len(seconds) > 1 else None

    @property
    def sort_over_hash(self) -> float | None:
        """Time of the fastest sort over that of the fastest hash table."""
        sort, hashed = self.by_method.get("sort"), self.by_method.get("hash")
        return sort.seconds / hashed.seconds if sort and hashed else None


def bins_of(times: ProblemTimes) -> list[BinTimes]:
    """Return the bins of a problem that kernels were tried for: by product, mode and bin."""
    return list(_bins(times))


def _bins(times: ProblemTimes) -> Iterator[BinTimes]:
    searched = times.case.campaign.search_rows(times.line.problem, times.case.precision)
    rows = [row for row in (*times.rows, *searched) if row["what"] == "bin"]
    for product in PRODUCTS:
        for mode in get_args(BinMode):
            of_mode = [row for row in rows if (row["product"], row["mode"]) == (product, mode)]
            for bin in sorted({int(row["bin"]) for row in of_mode}):
                yield _bin(times, product, mode, bin, [row for row in of_mode if row["bin"] == bin])


def _bin(
    times: ProblemTimes, product: ProductName, mode: BinMode, bin: int, rows: Sequence[Mapping[str, Any]]
) -> BinTimes:
    by_method: dict[str, ReportedTime] = {}
    searched, failures = set(), {}
    for method in BIN_METHODS:
        of_method = [row for row in rows if row["method"] == method]
        again = fastest_time([row for row in of_method if row["phase"] == "report"], EVENT)
        timed = again or fastest_time(of_method, EVENT)
        if timed:
            by_method[method] = timed
            if again is None:
                searched.add(method)
        elif of_method:
            failures[method] = failure(of_method[0])
    return BinTimes(
        line=times.line,
        case=times.case,
        product=product,
        mode=mode,
        bin=bin,
        rows=_size(rows, "rows"),
        products=_size(rows, "products"),
        nonzeros=_size(rows, "nonzeros"),
        by_method=by_method,
        searched=frozenset(searched),
        failures=failures,
    )


def _size(rows: Sequence[Mapping[str, Any]], column: str) -> int:
    return next((int(row[column]) for row in rows if row[column] is not None), 0)


LARGEST = ("poisson/27pt_128",)
LARGE = ("poisson/5pt_1024", "poisson/9pt_1024", "poisson/7pt_128")
SMALL = ("poisson/5pt_512", "poisson/9pt_512", "poisson/7pt_64", "poisson/27pt_64")


@dataclass(frozen=True)
class Quantity:
    """How a quantity is measured.

    Attributes
    ----------
    measure
        Returns its numbers, given the paper's problems by name; one that the campaign has not is not among them.
    statistic
        What is wanted of them: one number for all, or the worst.
    at_most
        Whether less is better.
    """

    measure: Callable[[Mapping[str, ProblemTimes], Sequence[str]], Measured]
    statistic: Literal["mean", "worst"] = "worst"
    at_most: bool = False


def gather(campaign: Campaign, published: Published) -> dict[str, Measured]:
    """Return what was measured of each quantity, of the paper's eight problems alone."""
    times = {case.line.problem: case for case in all_times(campaign, published)}
    names = list(published.problems)
    return {name: quantity.measure(times, names) for name, quantity in QUANTITIES.items()}


def _products(
    number: Callable[[ProductTimes], float | None], times: Mapping[str, ProblemTimes], names: Sequence[str]
) -> Measured:
    """Measure all products of all problems."""
    numbers: list[CaseNumber] = []
    missing: list[MissingCase] = []
    for name in names:
        case = times.get(name)
        if case is None or not case.case.measured:
            missing.append(MissingCase(name, _why_not(case), len(PRODUCTS)))
            continue
        for product in PRODUCTS:
            of_product = case.product(product)
            title, value = f"{name}, {of_product.title}", number(of_product)
            if value is None:
                missing.append(MissingCase(title, _failure(of_product) or "not timed"))
            else:
                numbers.append(CaseNumber(value, title))
    return Measured(numbers, missing)


def _failure(times: ProductTimes) -> str:
    ways = (OURS, LIBRARY, COORDINATES, REFILL, REUSE)
    return next((why for way in ways if times.time(way) is None for why in times.why_not(way)), "")


def _whole(
    number: Callable[[ProblemTimes], tuple[float, tuple[str, ...]] | None],
    only: Sequence[str] | None,
    times: Mapping[str, ProblemTimes],
    names: Sequence[str],
) -> Measured:
    """Measure set-ups or solutions of some problems, or of all."""
    numbers: list[CaseNumber] = []
    missing: list[MissingCase] = []
    for name in only or names:
        case = times.get(name)
        measured = number(case) if case else None
        if measured:
            numbers.append(CaseNumber(measured[0], name, measured[1]))
        else:
            missing.append(MissingCase(name, _why_not(case)))
    return Measured(numbers, missing)


def _why_not(case: ProblemTimes | None) -> str:
    if case is None:
        return "not in this campaign"
    return "not timed" if case.case.measured else case.case.why_not()


def _whole_over_reuse(times: ProductTimes) -> float | None:
    return ratio_of(times.time(REUSE), times.time(OURS))


def _over_ours(base: Callable[[ProductTimes], ReportedTime | None]) -> Callable[[ProductTimes], float | None]:
    return lambda times: ratio_of(base(times), times.time(OURS))


def _millis(timed: ReportedTime | None) -> tuple[float, tuple[str, ...]] | None:
    return (MILLI * timed.seconds, timed.notes) if timed else None


def _set_up(case: ProblemTimes) -> tuple[float, tuple[str, ...]] | None:
    return _millis(case.set_up("default"))


def _set_up_over(case: ProblemTimes) -> tuple[float, tuple[str, ...]] | None:
    ratio = ratio_of(case.set_up("coordinates"), case.set_up("default"))
    return (ratio, ()) if ratio else None


def _solution(case: ProblemTimes) -> tuple[float, tuple[str, ...]] | None:
    return _millis(case.solution)


def _numeric(clock: ClockName) -> Callable[[ProductTimes], float | None]:
    return lambda times: ratio_of(fastest_time(times.of(REUSE), clock), fastest_time(times.of(REFILL), clock))


_LIBRARY = partial(_products, _over_ours(lambda times: times.time(LIBRARY)))
#: By their names in `config/targets/spgemm_amg.csv`.
QUANTITIES: Mapping[str, Quantity] = {
    "library_worst": Quantity(_LIBRARY),
    "library_mean": Quantity(_LIBRARY, "mean"),
    "whole_over_reuse_mean": Quantity(partial(_products, _whole_over_reuse), "mean"),
    "numeric_mean": Quantity(partial(_products, _numeric(EVENT)), "mean"),
    "graph_numeric_mean": Quantity(partial(_products, _numeric("graph")), "mean"),
    "coordinates_mean": Quantity(partial(_products, _over_ours(lambda times: times.time(COORDINATES))), "mean"),
    "gflops_mean": Quantity(partial(_products, lambda times: times.gflops(times.time(OURS))), "mean"),
    "best_worst": Quantity(partial(_products, _over_ours(ProductTimes.best_of_others))),
    "setup_27pt_128": Quantity(partial(_whole, _set_up, LARGEST), at_most=True),
    "setup_large": Quantity(partial(_whole, _set_up, LARGE), at_most=True),
    "setup_small": Quantity(partial(_whole, _set_up, SMALL), at_most=True),
    "setup_over_coordinates": Quantity(partial(_whole, _set_up_over, None)),
    "setup_over_coordinates_mean": Quantity(partial(_whole, _set_up_over, None), "mean"),
    "solve_ms": Quantity(partial(_whole, _solution, None), at_most=True),
}  # fmt: skip
