"""Times of each problem's products, bins, set-up and solution by each method, and measures for targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from statistics import median
from typing import Any, get_args

from repro.bench.rows import ClockName
from repro.codegen.targets import DTYPES, INDEX_BYTES
from repro.results.campaign_data import Campaign, Case, Method, ReportedTime, Selection
from repro.results.claims import ClaimQuantities
from repro.results.comparisons import Cases, Comparison, JudgedBy, MissingCase, Quantity, Side, no_notes
from repro.results.problem_lines import MethodTimes, ProblemLine, times_of
from repro.results.published import Published
from repro.results.shared_artifacts import Contest, register_contests, register_energy
from repro.results.tables import Cell
from repro.sparse.spgemm.kernels import LIMITS
from repro.studies.spgemm_amg import PRODUCTS, SETUP_STAGES, STUDY_NAME
from repro.studies.spgemm_amg.ids import AmgRow, BinMode

#: Clock for whole products, set-ups and solutions, which allocate memory and read sizes back during a launch.
HOST: ClockName = "host"
#: Clock for kernels of bins, numeric phases, and single steps of a product or set-up.
EVENT: ClockName = "event"
#: One multiplication and one addition for each product of two entries.
FLOPS_OF_A_PRODUCT = 2
MILLI = 1e3
Time = ReportedTime[AmgRow]
NO_ROWS = Selection[AmgRow](())


def _whole_product(key: str, title: str, **columns: object) -> Method:
    return Method(key, title, columns={"what": "product", **columns}, clock=HOST)


_OURS = {"kind": "variant", "method": ("default", "tuned")}
COORDINATES = _whole_product("coordinates", "sort of all products", mode="coordinates", method="coordinates")
PAPER_KERNELS = _whole_product("paper", "the paper’s", mode="one", method="sort")
ONE = _whole_product("one", "one phase", mode="one", method="default")
ONE_TUNED = _whole_product("one_tuned", "one phase, tuned", mode="one", method="tuned")
TWO_TUNED = _whole_product("two_tuned", "two phases, tuned", mode="two", method="tuned")
SINGLE = _whole_product("single", "one launch", mode="single", method="default")
#: Kernel time of a product in a single launch; the memory of C is allocated before.
SINGLE_KERNEL = Method(
    "single_kernel", "the kernel", columns={"what": "product", "mode": "single", "method": "kernel"}, clock=EVENT
)
OURS = _whole_product("ours", "ours", **_OURS)
LIBRARY = _whole_product("library", "the library", kind="baseline")
#: The fastest among the library, the paper's kernels, and sorting all products.
OTHERS = Method(
    "others",
    "not ours",
    columns={"what": "product"},
    predicate=lambda row: row.kind == "baseline" or row.method in ("sort", "coordinates"),
    clock=HOST,
)
REFILL = Method("refill", "ours, numeric phase", columns={"what": "numeric", "kind": "variant"}, clock=EVENT)
#: The numeric phase with hash tables, and with stored destinations of all products.
HASHED = Method("hashed", "by hash tables", columns={"what": "numeric", **_OURS}, clock=EVENT)
STORED = Method("stored", "by stored destinations", columns={"what": "numeric", "method": "stored"}, clock=EVENT)
REUSE = Method("reuse", "the library, numeric phase", columns={"what": "numeric", "kind": "baseline"}, clock=EVENT)
#: Our methods for whole products, ordered from the slowest to the fastest as expected.
METHODS = (COORDINATES, PAPER_KERNELS, ONE, ONE_TUNED, TWO_TUNED)

OUR_SET_UP, PAPERS_SET_UP, COORDINATE_SET_UP = SET_UPS = tuple(
    Method(key, title, columns={"what": "setup", "method": key}, clock=HOST)
    for key, title in (("default", "ours"), ("sort", "the paper’s kernels"), ("coordinates", "sort of all"))
)
LEVEL = Method("level", "set-up of a level", columns={"what": "level"}, clock=HOST)
SOLUTION = Method("solve", "solution", columns={"what": "solve", "kind": "variant"}, clock=HOST)
register_energy(STUDY_NAME)
register_contests(
    STUDY_NAME,
    [
        *(
            Contest(
                title,
                [replace(OURS, columns={**OURS.columns, "product": product})],
                replace(LIBRARY, columns={**LIBRARY.columns, "product": product}),
                HOST,
                {"product": product},
            )
            for product, title in PRODUCTS.items()
        ),
        Contest("solution", [SOLUTION], None, HOST, {"what": "solve"}),
    ],
)


def _first(numbers: Iterable[int | None]) -> int | None:
    return next((number for number in numbers if number is not None), None)


@dataclass(frozen=True)
class ProductTimes:
    """The times of one product C: `times[method]` is None if there is no time."""

    line: ProblemLine
    case: Case[AmgRow]
    #: Name of the product; None for a problem without rows of any product.
    product: str | None
    #: The rows of whole products and numeric phases.
    rows: Selection[AmgRow] = NO_ROWS

    def __getitem__(self, method: Method) -> Time | None:
        return self.of(method).fastest(method.clock or HOST)

    def of(self, method: Method) -> Selection[AmgRow]:
        return self.rows.select(method.predicate, **method.columns)

    @property
    def name(self) -> Cell:
        return self.line.noted_cell("" if self.product else self.case.why_not())

    @property
    def title(self) -> str:
        return PRODUCTS[self.product] if self.product else ""

    def failure(self, method: Method) -> str | None:
        """Return why a method has no time; None if it has one or was not tried."""
        return None if self[method] else self.of(method).failure

    @property
    def products(self) -> int | None:
        """Number of products of two entries that are summed up for C."""
        return _first(row.products for row in self.rows)

    @property
    def nonzeros(self) -> int | None:
        """Number of entries of C."""
        return _first(row.nonzeros for row in self.rows)

    @property
    def compression(self) -> float | None:
        """Mean number of products that are summed up for an entry of C."""
        return self.products / self.nonzeros if self.products and self.nonzeros else None

    @property
    def bytes_of_c(self) -> int | None:
        """Bytes of C as CSR with 4-byte indices; None if C's number of rows is not recorded."""
        rows = _first(row.rows for row in self.rows)
        if rows is None or self.nonzeros is None:
            return None
        return self.nonzeros * (INDEX_BYTES + DTYPES[self.case.precision]().nbytes) + (rows + 1) * INDEX_BYTES

    def memory(self, method: Method) -> float | None:
        """Return the peak memory of a method's fastest variant, including C, over the memory of C."""
        peak = time.row.peak_bytes if (time := self[method]) else None
        return peak / self.bytes_of_c if peak and self.bytes_of_c else None

    def gflops(self, method: Method) -> float | None:
        """Return a method's rate in GFLOPS, with two operations for each product of two entries."""
        time = self[method]
        return 1e-9 * FLOPS_OF_A_PRODUCT * self.products / time.seconds if time and self.products else None


class ProblemTimes(MethodTimes[AmgRow]):
    """The times of one problem in one precision: `times[method]` is the time of a set-up or a solution."""

    def product(self, name: str) -> ProductTimes:
        """Return the times of a product; without rows if it was not measured."""
        return ProductTimes(self.line, self.case, name, self.case.select(product=name, what=("product", "numeric")))

    @property
    def products(self) -> list[ProductTimes]:
        """All products that have rows; if there are none, one product without a name for the table's line."""
        measured_products = [times for name in PRODUCTS if (times := self.product(name)).rows]
        return measured_products or [ProductTimes(self.line, self.case, None)]

    @property
    def levels(self) -> list[Time]:
        """Times for making the next level from each level, the finest level first; untimed levels are left out."""
        rows = sorted(self.case.select(**LEVEL.columns), key=lambda row: row.level or 0)
        return [time for row in rows if (time := Selection([row]).fastest(HOST))]

    @property
    def is_squared_alone(self) -> bool:
        """Whether the matrix is unsuitable for multigrid (not symmetric), so that only its square was measured."""
        has_set_up = any(self.case.select(**method.columns) for method in (LEVEL, OUR_SET_UP))
        return bool(self.product("AA").rows) and not has_set_up

    @property
    def stages(self) -> dict[str, float]:
        """Seconds of each stage, summed over all levels; empty unless all stages were timed on all levels."""
        levels, set_up_time = [stages_of(level.row) for level in self.levels], self[OUR_SET_UP]
        level_count = set_up_time.row.levels - 1 if set_up_time and set_up_time.row.levels else len(levels)
        if not levels or len(levels) != level_count or not all(levels):
            return {}
        return {name: sum(level[name] for level in levels) for name in SETUP_STAGES}

    @property
    def hierarchy(self) -> AmgRow:
        """The row of our set-up; an empty row if it has no time."""
        return time.row if (time := self[OUR_SET_UP]) else AmgRow()

    def why_not(self, method: Method) -> str:
        """Return the reasons why a set-up, its levels or the solution have no time."""
        if not self.case.is_measured:
            return self.case.why_not()
        return self.case.select(**method.columns).failure or "not timed"


def stages_of(row: AmgRow) -> dict[str, float]:
    """Return the seconds of each stage on a level; empty if stages were not timed one by one."""
    recorded = {name: row.get(f"stage_{name}") for name in SETUP_STAGES}
    stages = {name: float(seconds) for name, seconds in recorded.items() if seconds is not None}
    return stages if len(stages) == len(SETUP_STAGES) else {}


def galerkin_share(stages: Mapping[str, float]) -> float | None:
    total = sum(stages.values())
    return stages["galerkin"] / total if total else None


def all_times(campaign: Campaign, published: Published, precision: str | None = None) -> list[ProblemTimes]:
    """Return the times of all problems in one precision, in the paper's order, then by growing size."""
    return times_of(ProblemTimes, campaign, published, [precision or campaign.main_precision])


def all_products(campaign: Campaign, published: Published) -> list[ProductTimes]:
    return [times for case in all_times(campaign, published) for times in case.products]


def routines_of(products: Sequence[ProductTimes]) -> list[Method]:
    """Return the library's routines for whole products that have rows for any of these products."""
    names = [sorted({str(row.routine) for row in times.of(LIBRARY)}) for times in products]
    distinct = dict.fromkeys(name for product_names in names for name in product_names)
    return [_whole_product(name.lower(), name, kind="baseline", routine=name) for name in distinct]


BIN_METHODS = {"sort": "sort", "hash": "hash table", "dense": "a sum a column"}
BIN_MODES: Mapping[str, str] = {"one": "one phase", "numeric": "numeric phase"}
#: Note for artifacts that show times of bins.
OF_THE_SEARCH = "Kernels that were not chosen were not timed again: their times are from the search."


@dataclass(frozen=True)
class BinTimes:
    """Kernels for the rows of one bin: `times[method]` is the fastest kernel's time, as reported if it was reported."""

    problem: ProblemTimes
    #: Reported rows first, then rows of the search; empty for a problem without any tried kernel.
    kernels: Selection[AmgRow] = NO_ROWS

    def __getitem__(self, method: str) -> Time | None:
        return self._times.get(method)

    @cached_property
    def _times(self) -> dict[str, Time]:
        times = {}
        for method in BIN_METHODS:
            kernels = self.kernels.select(method=method)
            if time := kernels.select(phase="report").fastest(EVENT) or kernels.fastest(EVENT):
                times[method] = time
        return times

    @property
    def name(self) -> Cell:
        case = self.problem.case
        reason = "no kernel of a bin was tried" if case.is_measured else case.why_not()
        return self.problem.line.noted_cell("" if self.kernels else reason)

    @property
    def row(self) -> AmgRow:
        """The first kernel's row, for product, mode and bin; an empty row without kernels."""
        return next(iter(self.kernels), AmgRow())

    @property
    def title(self) -> str:
        """The minimum and maximum number of products, or of entries, for rows in this bin."""
        if self.row.bin is None:
            return ""
        min_products = LIMITS[self.row.bin - 1] + 1 if self.row.bin else 1
        return (
            f"{min_products:,}–{LIMITS[self.row.bin]:,}" if self.row.bin < len(LIMITS) else f"{min_products:,} and more"
        )

    @property
    def rows(self) -> int | None:
        return _first(row.rows for row in self.kernels)

    @property
    def products(self) -> int | None:
        return _first(row.products for row in self.kernels)

    @property
    def compression(self) -> float | None:
        """Mean number of products that are summed up for an entry."""
        nonzeros = _first(row.nonzeros for row in self.kernels)
        return self.products / nonzeros if self.products is not None and nonzeros else None

    @property
    def winner(self) -> str | None:
        """The method of the fastest kernel; None if only one method was tried."""
        if len({row.method for row in self.kernels}) < 2:
            return None
        return min(self._times, key=lambda name: self._times[name].seconds, default=None)

    @property
    def lead(self) -> float | None:
        """Time of the second-best method divided by that of the best; None if there is only one method."""
        seconds = sorted(time.seconds for time in self._times.values())
        return seconds[1] / seconds[0] if len(seconds) > 1 else None


def bins_of(times: ProblemTimes) -> list[BinTimes]:
    """Return the bins of a problem for which kernels were tried, sorted by product, mode and bin."""
    bin_rows = Selection([*times.case.select(what="bin"), *times.case.searched.select(what="bin")])
    bins = []
    for product in PRODUCTS:
        for mode in get_args(BinMode):
            kernels = bin_rows.select(product=product, mode=mode)
            numbers = sorted({row.bin for row in kernels if row.bin is not None})
            bins += [BinTimes(times, kernels.select(bin=number)) for number in numbers]
    return bins


# targets -------------------------------------------------------------------------------------------------------------

LARGEST = ("poisson/27pt_128",)
LARGE = ("poisson/5pt_1024", "poisson/9pt_1024", "poisson/7pt_128")
SMALL = ("poisson/5pt_512", "poisson/9pt_512", "poisson/7pt_64", "poisson/27pt_64")
PAPERS = (*SMALL, *LARGE, *LARGEST)
#: Problems that are not from the paper: elasticity, and matrices that are not symmetric or have very different row
#: lengths.
ELASTIC = ("bunny_closed", "armadillo_4k", "armadillo_13k")
SQUARED = (
    "cryg2500", "bayer10", "bcsstk13", "bcsstk16_scalar", "rajat01", "like_webbase-1M", "like_cnr-2000", "like_in-2004"
)  # fmt: skip


def problem_cases(campaign: Campaign, published: Published, variants: JudgedBy = "none") -> Cases[ProblemTimes]:
    return Cases(campaign, published, all_times(campaign, published), variants)


def _products(
    numerator: Side[ProductTimes],
    denominator: Side[ProductTimes] | None = None,
    problems: Sequence[str] = PAPERS,
    products: Sequence[str] = tuple(PRODUCTS),
) -> Comparison[ProductTimes]:
    """Compare some products of some problems."""

    def parts(case: ProblemTimes) -> list[ProductTimes]:
        is_measured = case.case.is_measured
        return [*map(case.product, products)] if is_measured else [ProductTimes(case.line, case.case, None)]

    def reason(times: ProductTimes) -> str | MissingCase:
        if not times.product:
            return MissingCase(times.line.problem, times.case.why_not(), len(products))
        failures = map(times.failure, (OURS, LIBRARY, COORDINATES, REFILL, REUSE))
        return next(filter(None, failures), "not timed")

    return Comparison(
        numerator,
        denominator,
        problems=problems,
        parts=parts,
        numbers=len(products),
        name=lambda times: f"{times.line.problem}, {times.title}",
        notes=no_notes,
        reason=reason,
    )


def _speedup_over_kernel(times: ProductTimes) -> float | None:
    """Time of the library's fastest product divided by that of our whole product, both by events."""
    library, kernel = times[LIBRARY], times[SINGLE_KERNEL]
    whole_seconds = library.row.stage_whole if library else None
    return whole_seconds / kernel.seconds if whole_seconds and kernel else None


def _numeric(clock: ClockName) -> Comparison[ProductTimes]:
    return _products(lambda times: times.of(REUSE).fastest(clock), lambda times: times.of(REFILL).fastest(clock))


#: Set-ups or solutions of the paper's problems.
_problems = partial(
    Comparison[ProblemTimes],
    problems=PAPERS,
    notes=lambda case, *times: tuple(dict.fromkeys(note for time in times for note in time.notes)),
    reason=lambda case: case.case.why_untimed(),
)
OVER_LIBRARY = _products(LIBRARY, OURS)
OVER_KERNEL = _products(_speedup_over_kernel)
SQUARES = _products(LIBRARY, OURS, SQUARED, ("AA",))
OVER_COORDINATES = _problems(COORDINATE_SET_UP, OUR_SET_UP, notes=no_notes)
SET_UP_MS, SOLUTION_MS = (_problems(method, unit=MILLI) for method in (OUR_SET_UP, SOLUTION))
#: Quantities by name in `config/targets/spgemm_amg.csv`.
TARGET_QUANTITIES: Mapping[str, Quantity[Cases[Any]]] = {
    "library_worst": OVER_LIBRARY.worst(),
    "library_mean": OVER_LIBRARY.geometric_mean(),
    "library_event_worst": OVER_KERNEL.worst(),
    "library_event_mean": OVER_KERNEL.geometric_mean(),
    "elasticity_worst": _products(LIBRARY, OURS, ELASTIC).worst(),
    "squares_worst": SQUARES.worst(),
    "squares_mean": SQUARES.geometric_mean(),
    "whole_over_reuse_mean": _products(REUSE, OURS).geometric_mean(),
    "numeric_mean": _numeric("event").geometric_mean(),
    "numeric_worst": _numeric("event").worst(),
    "graph_numeric_mean": _numeric("graph").geometric_mean(),
    "coordinates_mean": _products(COORDINATES, OURS).geometric_mean(),
    "gflops_mean": _products(lambda times: times.gflops(OURS)).geometric_mean(),
    "best_worst": _products(OTHERS, OURS).worst(),
    "setup_27pt_128": SET_UP_MS.on(*LARGEST).worst(is_time=True),
    "setup_large": SET_UP_MS.on(*LARGE).worst(is_time=True),
    "setup_small": SET_UP_MS.on(*SMALL).worst(is_time=True),
    "setup_over_coordinates": OVER_COORDINATES.worst(),
    "setup_over_coordinates_mean": OVER_COORDINATES.geometric_mean(),
    "solve_ms": SOLUTION_MS.worst(is_time=True),
}


# claims --------------------------------------------------------------------------------------------------------------

#: The two products in the set-up. The study times A·A as well, which the dissertation does not compute.
GALERKIN = ("AP", "RAP")
CUBE = "poisson/7pt_64"
#: Number of products per row up to which the text states a separate range of speedups (section 6.2).
SHORT_ROW = 2048


def _galerkin(method: Method) -> Callable[[ProblemTimes], Time | None]:
    """Return the time of A·P and R·(A·P) together, round by round; None if one of them was not timed."""

    def both(case: ProblemTimes) -> Time | None:
        times = [time for name in GALERKIN if (time := case.product(name)[method])]
        if len(times) < len(GALERKIN):
            return None
        rounds = [[sum(map(median, parts))] for parts in zip(*(time.rounds for time in times), strict=False)]
        seconds, is_noisy = sum(time.seconds for time in times), any(time.noisy for time in times)
        return replace(times[0], seconds=seconds, noisy=is_noisy, rounds=rounds)

    return both


def _has_short_rows(case: ProblemTimes) -> bool:
    """Return whether rows of A·P and R·(A·P) with up to 2,048 products hold all but 1 % of the products.

    Bins with few products, and those of longer rows in some records, were not timed.
    """
    short, total = dict.fromkeys(GALERKIN, 0), dict.fromkeys(GALERKIN, 0)
    for bins in bins_of(case):
        row = bins.row
        if row.product in GALERKIN and row.mode == "one" and (row.bin or 0) <= LIMITS.index(SHORT_ROW):
            short[row.product] += row.products or 0
    for row in case.case.select(kind="variant"):
        if row.product in GALERKIN and row.bin is None:
            total[row.product] = max(total[row.product], row.products or 0)
    return all(short[name] >= 0.99 * total[name] > 0 for name in GALERKIN)


GALERKIN_SPEEDUP = _problems(_galerkin(COORDINATES), _galerkin(PAPER_KERNELS))
#: Quantities by name in `config/claims/spgemm_amg.csv`.
CLAIM_QUANTITIES: ClaimQuantities[Cases[Any]] = {
    "coordinates_most": GALERKIN_SPEEDUP.most(),
    "coordinates_small_rows": replace(
        GALERKIN_SPEEDUP, numerator=lambda case: _galerkin(COORDINATES)(case) if _has_short_rows(case) else None
    ).median(),
    "coordinates_7pt_64": GALERKIN_SPEEDUP.on(CUBE).worst(),
    "setup_7pt_64": _problems(COORDINATE_SET_UP, PAPERS_SET_UP, notes=no_notes).on(CUBE).worst(),
}
