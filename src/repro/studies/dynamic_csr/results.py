"""Data that this study's tables and figures share: methods, times of each problem, and measured quantities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

from repro.bench.rows import OUTSIDE, ClockName
from repro.results.campaign_data import Campaign, Case, Method, ReportedTime, Selection
from repro.results.columns import ABBREVIATIONS
from repro.results.comparisons import Comparison
from repro.results.problem_lines import MethodTimes, ProblemLine, problem_lines, times_of
from repro.results.published import Published
from repro.results.shared_artifacts import Contest, register_contests, register_energy
from repro.results.tables import Cell
from repro.studies.dynamic_csr import (
    OUT_OF_MEMORY,
    PRODUCTS_PER_BATCH,
    STUDY_NAME,
    TEXT_READING,
    UNITS,
    number_of,
    precision_of_operations,
)
from repro.studies.dynamic_csr.ids import DynamicRow
from repro.words import EXTENDED, PAPER, PAPER_TUNED, SPACES

DynamicCase = Case[DynamicRow]
Time = ReportedTime[DynamicRow]
TimePair = tuple[Time | None, Time | None]
#: Events, not graphs: before each launch, the matrix is restored to its state before the update; a graph cannot do so.
OPERATION_CLOCK: ClockName = "event"
PRODUCT_CLOCK: ClockName = "graph"
DEVICE_CLOCK: ClockName = "graph"


def published_cell(text: str | None) -> Cell:
    """Return the cell of a published number, exactly as printed in the paper."""
    if text is None:
        return Cell()
    return Cell(number_of(text), "out of memory" if text == OUT_OF_MEMORY else text)


def short_count(number: int | None, units: str, limit: int = 1000) -> Cell:
    """Return the cell of a count, truncated to thousands or a larger unit; counts below `limit` are printed in full."""
    if number is None:
        return Cell()
    fitting = [unit for unit in units if number >= max(limit, UNITS[unit])]
    return Cell(number, f"{number // UNITS[fitting[-1]]}{fitting[-1]}" if fitting else str(number))


def operation_precision(campaign: Campaign) -> str:
    """Return the precision in which updates and conversions are timed."""
    return precision_of_operations(campaign.precisions)


@dataclass(frozen=True)
class Times(MethodTimes[DynamicRow]):
    """The times of one problem in one precision, by events unless another clock is given."""

    clock: ClockName = field(default=OPERATION_CLOCK, kw_only=True)

    @property
    def grown_entries(self) -> int:
        """Number of entries of the matrix after all batches; 0 if it was not recorded."""
        return int(self.facts["nonzeros"] + self.facts.get("batches", {}).get("entries", 0)) if self.facts else 0


def operation_times(campaign: Campaign, lines: Iterable[ProblemLine]) -> list[Times]:
    precision = operation_precision(campaign)
    return [Times(line, DynamicCase(campaign, line.problem, precision)) for line in lines]


def as_published(method: Method) -> Method:
    """Return the published counterpart of one of our methods, or of a further tuned method of the paper.

    Methods of other formats are returned unchanged.
    """
    if "space" not in method.columns:
        return method
    reading = {} if method.columns.get("what") == "product" else {"reading": TEXT_READING}
    key, title = f"{method.key}_published", f"{method.title}, published"
    return replace(method, key=key, title=title, columns={**method.columns, "space": PAPER, **reading})


DEFRAGMENTATION = Method(
    "DCSR_defragment", "DCSR defragmentation", columns={"what": "defragment", "format": "dcsr", "space": EXTENDED}
)
HYB_SORT = Method("HYB_sort", "HYB sort", columns={"what": "sort", "format": "hyb"})


def _conversion(name: str, key: str = "") -> Method:
    source, target = name.lower().split("-")
    columns = {"what": "convert", "format": source, "to_format": target}
    return Method(key or name, name.replace("-", "→"), columns=columns)


#: Source format and target format of each conversion, as in the paper's table.
CONVERSIONS = tuple(map(_conversion, ("COO-CSR", "COO-DCSR", "COO-HYB", "CSR-DCSR", "CSR-HYB", "DCSR-CSR")))
COPY = _conversion("CSR-CSR", "copy")
#: Our fastest product with CSR, in whose times the paper's Table 5.4 counts.
OWN_PRODUCT = Method("product", "CSR product", columns={"kind": "variant", "what": "product", "format": "csr"})

# products ------------------------------------------------------------------------------------------------------------

_PRODUCTS = {"what": "product", "devices": (None, 1)}
_PAPERS = {**_PRODUCTS, "space": (PAPER, PAPER_TUNED)}
_ROUTINES = {"kind": "baseline", "ordering": "natural"}
#: Methods for the paper's products, as published or tuned further: in our own CSR; with segments in both states, each
#: with its best number of threads per row; with rows in bins; in HYB.
CSR = Method("csr", "CSR", columns={**_PAPERS, "format": "csr"})
FRAGMENTED = Method("fragmented", "fragmented", columns={**_PAPERS, "schedule": "vector", "state": "fragmented"})
DEFRAGMENTED = Method(
    "defragmented", "defragmented", columns={**_PAPERS, "schedule": "vector", "state": "defragmented"}
)
ADAPTIVE = Method("adaptive", "ADCSR", columns={**_PAPERS, "schedule": "streams"})
#: The adaptive product with rows in natural order, and with rows sorted by size.
IN_ORDER, BY_SIZE = (
    Method("adaptive", "ADCSR", columns={**ADAPTIVE.columns, "state": state}) for state in ("defragmented", "sorted")
)
HYB_PRODUCT = Method("hyb", "HYB", columns={**_PRODUCTS, "format": "hyb"})
PAPER_PRODUCTS = (CSR, FRAGMENTED, DEFRAGMENTED, ADAPTIVE, HYB_PRODUCT)
LIBRARY_CSR = Method("library_csr", "CSR", columns={**_ROUTINES, "format": "csr"})
LIBRARY = Method("library", "fastest", columns=_ROUTINES)
#: Kinds of the rows of products.
MULTIPLYING = ("variant", "baseline", "rival", OUTSIDE)


def _is_in_one_launch(row: DynamicRow) -> bool:
    return row.schedule != "streams"


OURS = Method(
    "ours",
    "ours",
    columns={**_PRODUCTS, "format": "dcsr"},
    predicate=lambda row: _is_in_one_launch(row) and row.state != "fragmented",
)


@dataclass(frozen=True)
class ProductTimes(Times):
    """The times of the products of one problem in one precision."""

    @cached_property
    def csr_twins(self) -> TimePair:
        """Times of products in our CSR and in dynamic CSR of one segment per row, both by the best schedule of CSR."""
        products = self.case.select(**_PRODUCTS)
        return _twins(products.select(format="csr"), products.select(state="defragmented"), self.clock)

    @cached_property
    def state_twins(self) -> TimePair:
        """Times of products of the fragmented and the defragmented matrix, by the fragmented one's best schedule."""
        products = self.case.select(**_PRODUCTS)
        return _twins(
            products.select(_is_in_one_launch, state="fragmented"),
            products.select(lambda row: not row.exact, state="defragmented"),
            self.clock,
        )

    @property
    def name_in_precision(self) -> str:
        return f"{self.line.problem} ({ABBREVIATIONS[self.case.precision]})"

    def gflops(self, method: Method) -> float | None:
        """Return the rate of a method in GFLOPS, with two operations for each entry of the grown matrix."""
        time = self[method]
        return 1e-9 * float(time.row.operations or 0) / time.seconds if time else None


def product_times(
    campaign: Campaign, published: Published, *precisions: str, clock: ClockName = PRODUCT_CLOCK
) -> list[ProductTimes]:
    """Return the product times of all problems in the given precisions, in the paper's order, then by growing size."""
    return times_of(ProductTimes, campaign, published, precisions, clock=clock)


def _twins(first: Selection[DynamicRow], other_rows: Selection[DynamicRow], clock: ClockName) -> TimePair:
    """Return the fastest time in `first` with a counterpart of the same schedule in `other_rows`, and that one."""

    def schedule(row: DynamicRow) -> tuple[object, ...]:
        return row.schedule, row.width, row.per_thread, row.unroll, row.load

    twins: dict[tuple[object, ...], list[DynamicRow]] = {}
    for row in other_rows:
        twins.setdefault(schedule(row), []).append(row)
    fastest = {key: time for key, rows in twins.items() if (time := Selection(rows).fastest(clock))}
    base = first.select(lambda row: schedule(row) in fastest).fastest(clock)
    return (base, fastest[schedule(base.row)]) if base else (None, None)


#: A time over another, of products, each problem in each precision.
compared_products = partial(Comparison[Any], clock=PRODUCT_CLOCK, name=attrgetter("name_in_precision"))
_compared_twins = partial(compared_products, empty_reason="no two products under one schedule were timed")
DEFRAGMENTED_OVER_CSR = _compared_twins(lambda times: times.csr_twins[1], lambda times: times.csr_twins[0])
FRAGMENTED_OVER_DEFRAGMENTED = _compared_twins(lambda times: times.state_twins[0], lambda times: times.state_twins[1])
LIBRARY_OVER_OURS = compared_products(LIBRARY, OURS, empty_reason="no product of the library and of ours was timed")
LIBRARY_CSR_OVER_OURS = compared_products(LIBRARY_CSR, OURS)


# updates -------------------------------------------------------------------------------------------------------------

#: cuSPARSE's sum of two matrices (see `runnables_baselines`); only a GPU with its driver can run it.
GEAM_ROUTINE = "csrgeam2"
BY_HOST = "by the host clock, from an idle device to an idle device, including launches, because events cannot time it"
#: Formats that can be updated; a library routine exists for only one of them.
DCSR = Method("dcsr", "DCSR", columns={"format": "dcsr", "routine": None, "space": EXTENDED})
DCSR_PUBLISHED = as_published(DCSR)
REBUILD = Method("rebuild", "CSR rebuilt", columns={"format": "csr", "routine": None})
GEAM = Method("geam", "CSR by csrgeam2", columns={"format": "csr", "routine": GEAM_ROUTINE})
HYB = Method("hyb", "HYB", columns={"format": "hyb", "routine": None})
COO = Method("coo", "COO", columns={"format": "coo", "routine": None})


def geam_sentence(campaign: Campaign) -> str:
    """Return the sentence on cuSPARSE's sum of two matrices: what its time includes, or why it has no time."""
    if campaign.on_cpu:
        return f"cuSPARSE’s {GEAM_ROUTINE} runs only on GPUs, so it has no time here."
    return f"The time of {GEAM_ROUTINE} includes waiting for counts."


class UpdateProtocol(NamedTuple):
    """The order in which a batch's entries arrive, and what happens to an entry whose place is already occupied."""

    order: str
    mode: str

    @property
    def title(self) -> str:
        order = "by row" if self.order == "sorted" else "any order"
        return f"{order}, {'added' if self.mode == 'add' else 'unique'}"


UPDATE_PROTOCOLS = tuple(UpdateProtocol(order, mode) for mode in ("add", "unique") for order in ("any", "sorted"))
ANY, SORTED, ANY_UNIQUE, SORTED_UNIQUE = UPDATE_PROTOCOLS
#: Updates in which rivals take part, with their names in tables.
CONTESTED = {"stream": "all at once", "insert": "batches of {batch:,}", "batch": "a batch of {batch:,}"}


def _contest(operation: str, title: str, protocol: UpdateProtocol) -> Contest:
    task_columns = {"what": operation, **protocol._asdict()}
    own_method = replace(DCSR, columns={**DCSR.columns, **task_columns})
    library = replace(GEAM, columns={**GEAM.columns, **task_columns}, clock="host")
    task_title = f"{title}, {'by row' if protocol.order == 'sorted' else 'any order'}"
    return Contest(task_title, (own_method,), library, OPERATION_CLOCK, task_columns, ("batch",))


register_energy(STUDY_NAME)
register_contests(
    STUDY_NAME,
    [
        Contest("SpMV", (OURS, ADAPTIVE), LIBRARY, columns={"what": None}),
        *(
            _contest(operation, title, order)
            for operation, title in CONTESTED.items()
            for order in (ANY_UNIQUE, SORTED_UNIQUE)
        ),
    ],
)


def fastest_update(
    case: DynamicCase, format_method: Method, operation: str, protocol: UpdateProtocol, **columns: object
) -> Time | None:
    """Return the fastest update of a format by the event clock, or by the host clock if events timed no update."""
    rows = case.select(what=operation, **format_method.columns, **protocol._asdict(), **columns)
    return rows.fastest(OPERATION_CLOCK) or rows.fastest("host")


def time_notes(time: ReportedTime) -> tuple[str, ...]:
    """Return the notes on a time: whether it is noisy, and whether the event clock could not measure it."""
    return (*time.notes, *((BY_HOST,) if time.row.seconds(OPERATION_CLOCK) is None else ()))


def update_failure(case: DynamicCase, formats: Iterable[Method], *operations: str) -> str | None:
    """Return the first of these formats with a failed update, and the failure's status; None if no update failed."""
    for format_method in formats:
        for row in case.select(lambda row: not row.timed, what=operations, mode=(None, "add"), **format_method.columns):
            return f"{format_method.title}: {row.status.replace('_', ' ')}"
    return None


class Sweep(NamedTuple):
    """A problem with batches of growing sizes; each batch is inserted alone into the initial matrix."""

    line: ProblemLine
    #: Sizes of the timed batches in ascending order, in entries.
    sizes: tuple[int, ...]


def batch_sweeps(campaign: Campaign, published: Published) -> list[Sweep]:
    """Return the campaign's problems with batches of growing sizes, including problems without measurements."""
    sweeps = []
    for times in operation_times(campaign, problem_lines(campaign, published)):
        rows = times.case.select(lambda row: bool(row.batch), what="batch")
        batches = times.facts.get("batches", {})
        if rows or batches.get("least") != batches.get("most"):
            sizes = {row.batch for row in rows if row.timed and row.batch}
            sweeps.append(Sweep(times.line, tuple(sorted(sizes))))
    return sweeps


def _row_protocol(format_method: Method) -> UpdateProtocol:
    """Return the protocol for batches sorted by row: `unique` for cuSPARSE's sum, which merges duplicate entries."""
    return SORTED_UNIQUE if format_method is GEAM else SORTED


def streaming_pair(protocol: UpdateProtocol, format_method: Method = DCSR) -> Callable[[DynamicCase], TimePair]:
    """Return a function that finds two times of streaming a whole matrix: into HYB, and into `format_method`."""
    return lambda case: (
        fastest_update(case, HYB, "stream", protocol),
        fastest_update(case, format_method, "stream", protocol),
    )


def iterative_pair(format_method: Method) -> Callable[[DynamicCase], TimePair]:
    """Return a function that finds two times of row-sorted batches with products: in HYB, and in `format_method`."""
    return lambda case: (
        fastest_update(case, HYB, "iterate", SORTED),
        fastest_update(case, format_method, "iterate", _row_protocol(format_method)),
    )


# dynamic CSR or a rebuild --------------------------------------------------------------------------------------------

#: Numbers of products after each batch.
PRODUCT_COUNTS = (0, 1, 5, 20, 100)
#: Explanation of the gain and its formula; used in the table's and in the figure's caption.
GAIN_EXPLANATION = (
    "Gain of dynamic CSR over rebuilding CSR with every batch: gain(n) = (R + n C) / (U + n F) with n products after "
    "each batch. U: inserting a batch; R: rebuilding with it; F: a product with the fragmented matrix; C: one with "
    "CSR. Both break even at n = (R − U) / (F − C): with more products dynamic CSR is slower, unless it is "
    "defragmented. For graphs, all batches are inserted one after the other, by row, and U and R are the average time "
    "per batch; R is the faster of counting, summing and copying and of cuSPARSE’s csrgeam2. For sweeps, each batch is "
    "inserted alone, in any order, and R counts, sums and copies. F and C are the fastest products with all batches "
    "inserted, C including the library’s."
)
#: Words printed instead of the break-even number n if there is no such number.
GAIN_WORDS = "Always, never: dynamic CSR is faster, or slower, for every n. From: it is faster for more products."


class Cost(NamedTuple):
    """The time of one batch and of one product after it, for a matrix that grows."""

    #: Seconds per batch: of all batches in sequence by row, over their number, or of one that is inserted alone.
    update: float
    #: Seconds per product with the grown matrix.
    product: float
    #: Number of entries of a batch; None if it is not known.
    entries: int | None
    #: Keys of the rows that these times come from.
    keys: tuple[str, ...]


def update_cost(times: Times, format_method: Method, size: int | None = None) -> Cost | None:
    """Return the cost of a batch and of a product in a format, or of a batch of `size` alone; None without times."""
    batches = 1 if size else times.facts.get("batches", {}).get("count")
    protocol = ANY if size else _row_protocol(format_method)
    insertion = (
        fastest_update(times.case, format_method, "batch", protocol, batch=size)
        if size
        else fastest_update(times.case, format_method, "insert", protocol)
    )
    product = fastest_product(times.case, format_method)
    if not batches or insertion is None or product is None:
        return None
    return Cost(insertion.seconds / batches, product.seconds, insertion.row.batch, (insertion.key, product.key))


def fastest_product(case: DynamicCase, format_method: Method) -> Time | None:
    """Return the fastest product of the grown matrix by events: fragmented, or in CSR (library included)."""
    fragmented = {"state": "fragmented", "space": SPACES} if format_method is DCSR else {}
    product_format = REBUILD if format_method is GEAM else format_method
    times = [case.select(**{**_PRODUCTS, **product_format.columns, **fragmented}).fastest(OPERATION_CLOCK)]
    if product_format is REBUILD:
        times.append(case.time(LIBRARY_CSR, OPERATION_CLOCK))
    return min((time for time in times if time), key=lambda time: time.seconds, default=None)


class RebuildTradeoff(NamedTuple):
    """The costs of a batch and of products after it: in dynamic CSR, and in CSR that is rebuilt for each batch."""

    line: ProblemLine
    dynamic: Cost
    rebuilt: Cost
    #: Keys of the rows that these times come from.
    keys: tuple[str, ...]

    def gain(self, products: int) -> float:
        """Return how many times faster dynamic CSR is for a given number of products per batch."""
        rebuilt, dynamic = (cost.update + products * cost.product for cost in (self.rebuilt, self.dynamic))
        return rebuilt / dynamic

    @property
    def crossover(self) -> float | None:
        """Number of products per batch for which both formats take the same time; None if one is always faster."""
        saving, surcharge = self.rebuilt.update - self.dynamic.update, self.dynamic.product - self.rebuilt.product
        return saving / surcharge if saving * surcharge > 0 else None

    @property
    def in_words(self) -> str:
        """Describe in words for which numbers of products per batch dynamic CSR is faster."""
        is_faster_update = self.rebuilt.update >= self.dynamic.update
        if self.crossover is None:
            return "always" if is_faster_update and self.rebuilt.product >= self.dynamic.product else "never"
        number = f"{self.crossover:,.0f}".replace(",", "\N{NO-BREAK SPACE}") if self.crossover >= 1 else "< 1"
        return number if is_faster_update else f"from {number}"


def rebuild_trades(campaign: Campaign, published: Published) -> tuple[list[RebuildTradeoff], list[tuple[Times, str]]]:
    """Return one trade for each problem and for each batch of a sweep, and the reason for each missing trade."""
    trades: list[RebuildTradeoff] = []
    missing_trades: list[tuple[Times, str]] = []
    sweeps = {sweep.line.problem: sweep.sizes for sweep in batch_sweeps(campaign, published)}
    lines = [line for line in problem_lines(campaign, published) if line.record is not None]
    for times in operation_times(campaign, lines):
        sizes: Sequence[int | None] = sweeps.get(times.line.problem, (None,))
        found = [trade for size in sizes if (trade := _rebuild_trade(times, size))]
        trades += found
        if not found:
            reason = times.case.why_not()
            if times.case.is_measured:
                failure = update_failure(times.case, (DCSR, REBUILD), "insert", "batch")
                reason = failure or "updates and products of both were not timed"
            missing_trades.append((times, reason))
    return trades, missing_trades


def _rebuild_trade(times: Times, size: int | None) -> RebuildTradeoff | None:
    dynamic = update_cost(times, DCSR, size)
    rebuilt = [
        cost for method in ((REBUILD,) if size else (REBUILD, GEAM)) if (cost := update_cost(times, method, size))
    ]
    if dynamic is None or not rebuilt:
        return None
    fastest = min(rebuilt, key=lambda cost: cost.update + PRODUCTS_PER_BATCH * cost.product)
    keys = zip(dynamic.keys, fastest.keys, strict=True) if size else (dynamic.keys, fastest.keys)
    return RebuildTradeoff(times.line, dynamic, fastest, tuple(chain.from_iterable(keys)))


# several devices -----------------------------------------------------------------------------------------------------

#: Sentence for a campaign without times over several devices.
NO_DEVICES = "This campaign ran on one device, so there are no times on several."
#: How the result of a product is sent to all devices, with the names used in tables.
EXCHANGE_TITLES = {"copies": "copies", "stores": "stores", "nccl": "NCCL"}
#: How the result is sent to all devices while the product is still running.
OVERLAPPED_TITLES = {"overlapped": "copies", "fused": "stores"}


class StepTime(NamedTuple):
    """The time of one step of a launch in seconds, and the row that contains it."""

    seconds: float
    row: DynamicRow

    @property
    def reported_time(self) -> Time:
        """This time as a `Time`, the type that tables and their notes take."""
        return Time(str(self.row.name), self.seconds, self.row.status == "noisy", (), self.row)

    @property
    def way(self) -> str:
        """How the result was sent to all devices."""
        return {**EXCHANGE_TITLES, **OVERLAPPED_TITLES}.get(self.row.exchange or "", "")

    @property
    def rate(self) -> float:
        """Bytes of one launch divided by its time, GB/s."""
        return float(1e-9 * (self.row.bytes or 0) / (self.seconds * (self.row.steps or 1)))


@dataclass(frozen=True)
class DeviceTimes(Times):
    """The times of one problem in one precision over several devices."""

    clock: ClockName = field(default=DEVICE_CLOCK, kw_only=True)

    @cached_property
    def rows(self) -> Selection[DynamicRow]:
        """Rows that have a time."""
        return self.case.select(lambda row: row.seconds(self.clock) is not None, kind="several")

    @property
    def counts(self) -> list[int]:
        """Numbers of devices with a time, apart from the baseline's single device."""
        return sorted({row.devices for row in self.rows if row.devices} - {1})

    @property
    def on_one(self) -> Time | None:
        """The fastest product of dynamic CSR on one device, which is the baseline of speedups over several devices.

        Its schedule may be any, including that of several devices, and a launch may have one or several steps.
        """
        steps = (self.alone(1, in_loop) for in_loop in (False, True))
        times = [step.reported_time for step in steps if step]
        if variant := self.case.select(kind="variant", what="product", format="dcsr").fastest(self.clock):
            times.append(variant)
        return min(times, key=lambda time: time.seconds, default=None)

    def alone(self, devices: int, in_loop: bool = True) -> StepTime | None:
        """Return the step time of a product whose result stays distributed; `in_loop`: launches of several steps."""
        return self._fastest("product", ("none",), devices, in_loop)

    def exchanged(self, devices: int) -> StepTime | None:
        """Return the step time of a product and an exchange that sends its result to all devices in the fastest way."""
        return self._fastest("product", tuple(EXCHANGE_TITLES), devices)

    def overlapped(self, devices: int) -> StepTime | None:
        """Return the step time of a product that overlaps with the exchange of results, in the faster of two ways."""
        return self._fastest("product", tuple(OVERLAPPED_TITLES), devices)

    def exchange(self, devices: int, way: str | None = None) -> StepTime | None:
        """Return the step time of an exchange without a product, in the given way or in the fastest."""
        return self._fastest("exchange", (way,) if way else tuple(EXCHANGE_TITLES), devices)

    def speedup(self, step: StepTime | None, in_loop: bool = True) -> float | None:
        """Return how many times faster a step is than the product on one device, launched in the same manner."""
        base = self.alone(1, in_loop)
        return base.seconds / step.seconds if base and step else None

    def launch_speedup(self, devices: int) -> float | None:
        """Return the speed-up of a launch that consists of a single product."""
        return self.speedup(self.alone(devices, in_loop=False), in_loop=False)

    def cost(self, devices: int) -> float | None:
        """Return the exchange's share of the time of a step that is a product and its fastest exchange."""
        single_step = self.alone(devices)
        steps = [step.seconds for step in (self.exchanged(devices), self.overlapped(devices)) if step]
        return 1 - single_step.seconds / min(steps) if single_step and steps else None

    def _fastest(self, operation: str, ways: tuple[str, ...], devices: int, in_loop: bool = True) -> StepTime | None:
        steps = [
            StepTime(seconds / row.steps, row)
            for row in self.rows.select(what=operation, devices=devices, exchange=ways)
            if row.steps and (row.steps > 1) == in_loop and (seconds := row.seconds(self.clock)) is not None
        ]
        return min(steps, key=lambda step: step.seconds, default=None)


def device_times(campaign: Campaign, published: Published, *precisions: str) -> list[DeviceTimes]:
    """Return the device times of all problems in the given precisions, in the paper's order, then by growing size."""
    return times_of(DeviceTimes, campaign, published, precisions)
