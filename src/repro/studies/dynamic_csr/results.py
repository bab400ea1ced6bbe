"""What tables and figures of this study are made from: times of products, updates, conversions, and devices.

Each section finds the rows of a quantity in a case, compares formats with each other, and has the cells that
several tables share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

from repro.bench.rows import TIMED
from repro.bench.runnable import ClockName
from repro.results.campaign_data import Campaign, Case, ReportedTime, fastest_time, median
from repro.results.problem_rows import ProblemRow, ours, problem_rows
from repro.results.published import Published, Record
from repro.results.tables import Cell, from_rows, microseconds, ratio
from repro.sparse.baseline_times import fastest_baseline
from repro.studies.dynamic_csr import (
    OUT_OF_MEMORY,
    PRODUCTS_PER_BATCH,
    STUDY,
    UNITS,
    number_of,
    precision_of_operations,
    stated_record,
)


def published_cell(text: str | None) -> Cell:
    """Return the cell of a number as printed."""
    if text is None:
        return Cell()
    return Cell(number_of(text), "out of memory" if text == OUT_OF_MEMORY else text)


def short_count(number: int | None, units: str, limit: int = 1000) -> Cell:
    """Return the cell of a count, cut off to the largest of some units; in full below a limit."""
    if number is None:
        return Cell()
    fitting = [unit for unit in units if number >= max(limit, UNITS[unit])]
    return Cell(number, f"{number // UNITS[fitting[-1]]}{fitting[-1]}" if fitting else str(number))


def recorded_facts(line: ProblemRow) -> Mapping[str, Any]:
    """Return what the record of a problem holds for this study; empty where there is none."""
    return line.record.facts.get(STUDY, {}) if line.record else {}


#: What an update changes is put back before each launch, which no replayed batch can do.
OPERATION_CLOCK: ClockName = "event"
#: Of a table that prints published numbers and ours of a campaign with other problems.
OWN_MEANS = "A mean is over the problems of its own column: the published are of all the paper’s graphs, ours of ours."


def operation_precision(campaign: Campaign) -> str:
    """Return the precision that these tables print: the one that operations are timed in."""
    return precision_of_operations(campaign.precisions)


def fastest_operation(case: Case, **columns: str) -> ReportedTime | None:
    """Return the fastest row with these values of columns, None if none has a time."""
    rows = [row for row in case.rows if all(row.get(name) == value for name, value in columns.items())]
    return fastest_time(rows, OPERATION_CLOCK)


def time_ratio(operation: ReportedTime | None, base: ReportedTime | None) -> float | None:
    """Return the time of an operation over that of what it is measured by."""
    return operation.seconds / base.seconds if operation and base else None


def problem_records(
    campaign: Campaign, published: Published, file: str
) -> Iterator[tuple[ProblemRow, Record | None, Case]]:
    """Yield the problems of a table, what a published file has of each, and each as it was timed."""
    theirs = {item["problem"]: item for item in published[file]}
    precision = operation_precision(campaign)
    for line in problem_rows(campaign, published):
        yield line, theirs.get(line.published or ""), Case(campaign, line.problem, precision)


def ratio_row(
    line: ProblemRow,
    theirs: Iterable[str | None],
    ours: Iterable[ReportedTime | None],
    base: ReportedTime | None,
    lacking: str,
) -> tuple[Cell, ...]:
    """Return the cells of a problem: its name, what is printed of it, our times over that of a base, and that one.

    Parameters
    ----------
    line
        The problem.
    theirs
        Numbers as printed, None where there is none.
    ours
        The operations that are measured by the base.
    base
        None where it was not timed.
    lacking
        What the name is told then, of a problem that could be had.
    """
    name = line.cell
    if base is None and line.record is not None and line.record.available:
        name = Cell(name.value, name.text, (*name.notes, lacking))
    return (
        name,
        *map(published_cell, theirs),
        *(ratio_cell(operation, base) for operation in ours),
        microseconds(base),
    )


def ratio_cell(operation: ReportedTime | None, base: ReportedTime | None) -> Cell:
    """Return the cell of an operation's time over what it is measured by, marked where the operation's is noisy.

    What it is measured by has a column, and its mark there.
    """
    value = time_ratio(operation, base)
    if value is None:
        return Cell()
    return from_rows(Cell(value, f"{value:.2f}", operation.notes if operation else ()), operation)


def mean_line(rows: list[tuple[Cell, ...]], columns: int) -> list[tuple[Cell, ...]]:
    """Return a line with the means of the first columns behind the name, over what is there."""
    if not rows:
        return []
    cells: list[Cell] = [Cell("mean")]
    for place in range(1, len(rows[0])):
        values = [float(value) for row in rows if (value := row[place].value) is not None] if place <= columns else []
        cells.append(ratio(fmean(values)) if values else Cell())
    return [tuple(cells)]


PRODUCT_CLOCK: ClockName = "graph"
#: What the paper's text states of the products, by its name in `config/published`.
FRAGMENTED = "time of a fragmented product over a defragmented one, mean"
DEFRAGMENTED = "time of a defragmented product over CSR, mean"
ADAPTIVE = "speedup of the adaptive product over HYB, mean"
#: The columns that two variants of one schedule have in common.
SCHEDULE_COLUMNS = ("schedule", "width", "per_thread", "unroll", "load")
RowFilter = Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True)
class ProductTimes:
    """The times of one problem at one precision by one clock, None where there is none.

    Attributes
    ----------
    line, case
        Which.
    csr, fragmented, defragmented
        The paper's product by vectors: own CSR, and segments in both states, each with the best number of threads.
    adaptive
        The paper's product by bins, in its best state.
    hyb
        The product of HYB.
    ours
        The fastest product of the segments in one launch, each row in one segment.
    library_csr, library
        The library's fastest routine for CSR, and of all.
    csr_twins
        Own CSR, and one segment a row, under the schedule that is the fastest for own CSR.
    state_twins
        The fragmented matrix, and one segment a row, under the schedule that is the fastest for the fragmented one.
    """

    line: ProblemRow
    case: Case
    csr: ReportedTime | None
    fragmented: ReportedTime | None
    defragmented: ReportedTime | None
    adaptive: ReportedTime | None
    hyb: ReportedTime | None
    ours: ReportedTime | None
    library_csr: ReportedTime | None
    library: ReportedTime | None
    csr_twins: tuple[ReportedTime, ReportedTime] | None
    state_twins: tuple[ReportedTime, ReportedTime] | None

    def gflops(self, timed: ReportedTime | None) -> float | None:
        """Return two operations for each entry of the grown matrix, over the time, in units of 10^9 a second."""
        return 1e-9 * float(timed.row["operations"]) / timed.seconds if timed else None

    @property
    def size(self) -> int:
        """Operations of a product; 0 where nothing was timed."""
        return max((int(row["operations"] or 0) for row in self.case.rows), default=0)


def product_times(
    campaign: Campaign, published: Published, precision: str, clock: ClockName = PRODUCT_CLOCK
) -> list[ProductTimes]:
    """Return all of a campaign at one precision, in the paper's order, then by growing size."""
    return [product_times_of(line, precision, campaign, clock) for line in ours(campaign, published)]


def product_times_of(
    line: ProblemRow, precision: str, campaign: Campaign, clock: ClockName = PRODUCT_CLOCK
) -> ProductTimes:
    """Return where the products stand on one problem at one precision, each the fastest by a clock."""
    case = Case(campaign, line.problem, precision)
    # on one device: those on several say how many
    rows = [row for row in case.rows if row["what"] == "product" and (row.get("devices") or 1) == 1]

    def best(rule: RowFilter) -> ReportedTime | None:
        return fastest_time([row for row in rows if rule(row)], clock)

    def by_vectors(state: str) -> ReportedTime | None:
        return best(lambda row: _of_paper(row) and row["schedule"] == "vector" and row["state"] == state)

    return ProductTimes(
        line=line,
        case=case,
        csr=best(lambda row: _of_paper(row) and row["format"] == "csr"),
        fragmented=by_vectors("fragmented"),
        defragmented=by_vectors("defragmented"),
        adaptive=best(lambda row: _of_paper(row) and row["schedule"] == "streams"),
        hyb=best(lambda row: row["format"] == "hyb"),
        ours=best(
            lambda row: row["format"] == "dcsr" and row["schedule"] != "streams" and row["state"] != "fragmented"
        ),
        library_csr=fastest_baseline(case, clock, form="csr"),
        library=fastest_baseline(case, clock),
        csr_twins=_twins(rows, clock, lambda row: row["format"] == "csr", lambda row: row["state"] == "defragmented"),
        state_twins=_twins(
            rows,
            clock,
            lambda row: row["state"] == "fragmented" and row["schedule"] != "streams",
            lambda row: row["state"] == "defragmented" and not row["exact"],
        ),
    )


def _of_paper(row: Mapping[str, Any]) -> bool:
    return bool(row["space"] == "paper")


def _twins(
    rows: list[dict[str, Any]], clock: ClockName, first: RowFilter, other: RowFilter
) -> tuple[ReportedTime, ReportedTime] | None:
    """Return the fastest of the first that has twins, and the fastest of those: others of the same schedule."""
    others: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if other(row):
            others.setdefault(_schedule_key(row), []).append(row)
    base = fastest_time(
        [row for row in rows if first(row) and fastest_time(others.get(_schedule_key(row), []), clock)], clock
    )
    twin = fastest_time(others[_schedule_key(base.row)], clock) if base else None
    return (base, twin) if base and twin else None


def _schedule_key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in SCHEDULE_COLUMNS)


def stated_product_means(published: Published) -> str:
    """Return the sentence with what the paper's text states of all products, empty where nothing is published."""
    records = [stated_record(published, quantity) for quantity in (FRAGMENTED, DEFRAGMENTED, ADAPTIVE)]
    values = [f"{record['value']}×" for record in records if record]
    if len(values) < len(records):
        return ""
    return (
        f"Published, K20c, in the mean of all graphs: a fragmented product takes {values[0]} the time of a "
        f"defragmented one, that one {values[1]} the time of CSR’s, and ADCSR is {values[2]} as fast as HYB; single "
        "times are in the paper’s bars alone."
    )


#: cuSPARSE's sum of two matrices, as in `runnables_baselines`, which needs a GPU's driver.
GEAM_ROUTINE = "csrgeam2"
BY_HOST = (
    "by the host’s clock, from an idle device to an idle device: events cannot time it, its launches count as well"
)


@dataclass(frozen=True)
class UpdatedFormat:
    """A format that is updated.

    Attributes
    ----------
    key, label
        In a table's file, and as printed.
    format, routine
        Of its rows; no routine where it is not a library's.
    """

    key: str
    label: str
    format: str
    routine: str | None = None

    def of(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row is its."""
        return row.get("format") == self.format and row.get("routine") == self.routine


DCSR = UpdatedFormat("dcsr", "DCSR", "dcsr")
REBUILD = UpdatedFormat("rebuild", "CSR rebuilt", "csr")
GEAM = UpdatedFormat("geam", "CSR by csrgeam2", "csr", GEAM_ROUTINE)
HYB = UpdatedFormat("hyb", "HYB", "hyb")
COO = UpdatedFormat("coo", "COO", "coo")
UPDATED_FORMATS = (DCSR, REBUILD, GEAM, HYB, COO)


def geam_sentence(campaign: Campaign) -> str:
    """Return the sentence on the library's sum of two matrices: what is in its time, or why it has none."""
    if campaign.on_cpu:
        return f"cuSPARSE’s {GEAM_ROUTINE} runs on GPUs alone: it has no time here."
    return f"{GEAM_ROUTINE} waits for counts in between, which is in its time."


class UpdateProtocol(NamedTuple):
    """In which order the entries of a batch come, and what becomes of those whose place is there already."""

    order: str
    mode: str

    @property
    def title(self) -> str:
        """In words."""
        order = "by row" if self.order == "sorted" else "any order"
        return f"{order}, {'added' if self.mode == 'add' else 'unique'}"


UPDATE_PROTOCOLS = tuple(UpdateProtocol(order, mode) for mode in ("add", "unique") for order in ("any", "sorted"))


def fastest_update(
    case: Case, contestant: UpdatedFormat, what: str, protocol: UpdateProtocol | None = None, **columns: Any
) -> ReportedTime | None:
    """Return the fastest update of a format, by events, or by the host's clock where none has a time by these."""
    asked = {"what": what, **(protocol._asdict() if protocol else {}), **columns}
    rows = [row for row in case.rows if contestant.of(row) and asked.items() <= row.items()]
    return fastest_time(rows, OPERATION_CLOCK) or fastest_time(rows, "host")


def is_host_timed(timed: ReportedTime | None) -> bool:
    """Return whether a time is the host's clock's."""
    return timed is not None and not timed.row[f"{OPERATION_CLOCK}_median"]


def update_failure(case: Case, contestants: Iterable[UpdatedFormat], *whats: str) -> str | None:
    """Return which of some formats could not be updated in one of some ways, and its status; None where all could."""
    for contestant in contestants:
        for row in case.rows:
            asked = contestant.of(row) and row.get("what") in whats and row.get("mode") in (None, "add")
            if asked and row["status"] not in TIMED:
                return f"{contestant.label}: {row['status'].replace('_', ' ')}"
    return None


# batches of growing sizes --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sweep:
    """A problem whose batches are of growing sizes, each inserted alone into the matrix before the first.

    Attributes
    ----------
    line, case
        Which.
    sizes
        Entries of the batches that anything was timed of, growing.
    """

    line: ProblemRow
    case: Case
    sizes: tuple[int, ...]

    def seconds(self, contestant: UpdatedFormat, protocol: UpdateProtocol, size: int) -> ReportedTime | None:
        """Return the time of a batch."""
        return fastest_update(self.case, contestant, "batch", protocol, batch=size)

    def rate(self, contestant: UpdatedFormat, protocol: UpdateProtocol, size: int) -> float | None:
        """Return updates a second."""
        timed = self.seconds(contestant, protocol, size)
        return size / timed.seconds if timed else None

    def has(self, contestant: UpdatedFormat) -> bool:
        """Return whether any batch was timed of a format."""
        return any(self.rate(contestant, protocol, size) for protocol in UPDATE_PROTOCOLS for size in self.sizes)


#: Into what dynamic CSR's batches are inserted.
CAPACITY_SENTENCE = (
    "Rows of dynamic CSR have one segment then, with twice the room that they need for the batch in the mean, and for "
    "16 entries more."
)


def unique_sentence(by_geam: bool) -> str:
    """Return the sentence that says of which formats there are unique updates."""
    return f"Unique: of dynamic CSR{' and, by row, of csrgeam2' if by_geam else ''} alone."


def batch_sweeps(campaign: Campaign, published: Published) -> list[Sweep]:
    """Return the problems of growing batches that the campaign has, measured or not."""
    sweeps = []
    for line in problem_rows(campaign, published):
        case = Case(campaign, line.problem, operation_precision(campaign))
        rows = [row for row in case.rows if row.get("what") == "batch" and row.get("batch")]
        batches = recorded_facts(line).get("batches", {})
        if rows or batches.get("least") != batches.get("most"):
            timed = {int(row["batch"]) for row in rows if row["status"] in TIMED}
            sweeps.append(Sweep(line, case, tuple(sorted(timed))))
    return sweeps


# updates and products ------------------------------------------------------------------------------------------------


def iterative_update(case: Case, contestant: UpdatedFormat) -> ReportedTime | None:
    """Return the time of the iterative test, of all batches by row and the products after each; None without one."""
    return fastest_update(case, contestant, "iterate", _row_protocol(contestant))


class Cost(NamedTuple):
    """What a batch and a product of a matrix that grows take.

    Attributes
    ----------
    update
        Seconds of a batch: of all of them one after the other, by row, over their number.
    product
        Seconds of a product of the grown matrix.
    entries
        Of a batch; None where it is not known.
    keys
        Of the rows that these are from.
    """

    update: float
    product: float
    entries: int | None
    keys: tuple[str, ...]

    def seconds(self, products: int = PRODUCTS_PER_BATCH) -> float:
        """Return the time of a batch and of so many products."""
        return self.update + products * self.product


def update_cost(case: Case, contestant: UpdatedFormat) -> Cost | None:
    """Return what batches and products of a format take, None without times."""
    record = case.campaign.problems.get(case.problem)
    batches = record.facts.get(STUDY, {}).get("batches", {}).get("count") if record else None
    inserted = fastest_update(case, contestant, "insert", _row_protocol(contestant))
    product = fastest_product(case, contestant)
    if not batches or inserted is None or product is None:
        return None
    return Cost(inserted.seconds / batches, product.seconds, inserted.row.get("batch"), (inserted.key, product.key))


def _row_protocol(contestant: UpdatedFormat) -> UpdateProtocol:
    """Return the protocol of batches that come by row: the library's sum leaves an entry once."""
    return UpdateProtocol("sorted", "unique" if contestant.routine else "add")


def fastest_product(case: Case, contestant: UpdatedFormat) -> ReportedTime | None:
    """Return the fastest product of the grown matrix by events: of a fragmented one, and of CSR the library's too."""
    rows = [
        row
        for row in case.rows
        if row.get("what") == "product" and row.get("format") == contestant.format and (row.get("devices") or 1) == 1
        and (contestant is not DCSR or row.get("state") == "fragmented")
    ]  # fmt: skip
    library = fastest_baseline(case, OPERATION_CLOCK, form="csr") if contestant.format == "csr" else None
    timed = [time for time in (fastest_time(rows, OPERATION_CLOCK), library) if time]
    return min(timed, key=lambda time: time.seconds, default=None)


# dynamic CSR or a rebuild --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trade:
    """What a batch and the products after it cost, in seconds, in dynamic CSR and in CSR that is made again.

    Attributes
    ----------
    line, case
        Of which problem.
    entries
        Of a batch; None where it is not known.
    alone
        Whether the batch is one of a sweep, else all of the problem's come one after the other.
    update, rebuild
        Of a batch.
    fragmented, csr
        Of a product.
    keys
        Of the rows that these are from.
    """

    line: ProblemRow
    case: Case
    entries: int | None
    alone: bool
    update: float
    rebuild: float
    fragmented: float
    csr: float
    keys: tuple[str, ...]

    def gain(self, products: int) -> float:
        """Return how many times faster dynamic CSR is with so many products a batch."""
        return (self.rebuild + products * self.csr) / (self.update + products * self.fragmented)

    @property
    def crossover(self) -> float | None:
        """Products a batch at which both take the same time; None where the same is always the faster."""
        saved, surcharge = self.rebuild - self.update, self.fragmented - self.csr
        if saved * surcharge <= 0:
            return None
        return saved / surcharge

    @property
    def in_words(self) -> str:
        """Up to, or from, how many products a batch dynamic CSR is the faster."""
        if self.crossover is None:
            return "always" if self.rebuild >= self.update and self.csr >= self.fragmented else "never"
        number = f"{self.crossover:,.0f}".replace(",", "\N{NO-BREAK SPACE}") if self.crossover >= 1 else "< 1"
        return number if self.rebuild > self.update else f"from {number}"


def rebuild_trades(campaign: Campaign, published: Published) -> tuple[list[Trade], list[tuple[ProblemRow, str]]]:
    """Return the trades of a campaign, of each problem and of each batch of a sweep; and where there are none, why."""
    trades: list[Trade] = []
    missing: list[tuple[ProblemRow, str]] = []
    of_sweeps = {sweep.line.problem: sweep for sweep in batch_sweeps(campaign, published)}
    for line in problem_rows(campaign, published):
        if line.record is None:
            continue
        case = Case(campaign, line.problem, operation_precision(campaign))
        sweep = of_sweeps.get(line.problem)
        here = list(_sweep_trades(sweep)) if sweep else _batch_trades(line, case)
        if not here:
            missing.append((line, _missing_trade(case)))
        trades += here
    return trades, missing


def _batch_trades(line: ProblemRow, case: Case) -> list[Trade]:
    dynamic = update_cost(case, DCSR)
    rebuilt = [cost for contestant in (REBUILD, GEAM) if (cost := update_cost(case, contestant))]
    if dynamic is None or not rebuilt:
        return []
    rebuild = min(rebuilt, key=Cost.seconds)
    return [
        Trade(
            line, case, dynamic.entries, False,
            dynamic.update, rebuild.update, dynamic.product, rebuild.product, (*dynamic.keys, *rebuild.keys),
        )
    ]  # fmt: skip


def _sweep_trades(sweep: Sweep) -> Iterable[Trade]:
    fragmented, csr = (fastest_product(sweep.case, contestant) for contestant in (DCSR, REBUILD))
    if fragmented is None or csr is None:
        return
    for size in sweep.sizes:
        update = sweep.seconds(DCSR, UpdateProtocol("any", "add"), size)
        rebuild = sweep.seconds(REBUILD, UpdateProtocol("any", "add"), size)
        if update and rebuild:
            yield Trade(
                sweep.line, sweep.case, size, True,
                update.seconds, rebuild.seconds, fragmented.seconds, csr.seconds,
                tuple(time.key for time in (update, rebuild, fragmented, csr)),
            )  # fmt: skip


def _missing_trade(case: Case) -> str:
    """Return why a problem has no trade: its own reason where it has one, else what was not timed."""
    if case.measured:
        failure = update_failure(case, (DCSR, REBUILD), "insert", "batch")
        return failure or "updates and products of both were not timed"
    return case.why_not()


TimePair = tuple[ReportedTime | None, ReportedTime | None]


def streaming_pair(order: str) -> Callable[[Case], TimePair]:
    """Return what finds HYB's time of a streamed matrix, and that of dynamic CSR."""
    protocol = UpdateProtocol(order, "add")
    return lambda case: (fastest_update(case, HYB, "stream", protocol), fastest_update(case, DCSR, "stream", protocol))


def iterative_pair(contestant: UpdatedFormat) -> Callable[[Case], TimePair]:
    """Return what finds HYB's time of the iterative test, and that of a format."""
    return lambda case: (iterative_update(case, HYB), iterative_update(case, contestant))


DEVICE_CLOCK: ClockName = "graph"
#: Said where nothing was measured.
NO_DEVICES = "This campaign ran on one device: there is no time over several."
#: Devices by the word that the published numbers have for them.
DEVICE_NUMBERS = {"two": 2, "four": 4, "eight": 8}
#: The graphs whose speed-ups the paper's text states one by one.
STATED_GRAPHS = ("internet", "enron")
#: The ways in which a result gets to all devices, and how tables name them.
EXCHANGE_TITLES = {"copies": "copies", "stores": "stores", "nccl": "NCCL"}
#: The ways in which that happens during the product.
OVERLAPPED_TITLES = {"overlapped": "copies", "fused": "stores"}


class StepTime(NamedTuple):
    """The time of one step of a launch, seconds, and the row that it is of."""

    seconds: float
    row: Mapping[str, Any]

    @property
    def reported_time(self) -> ReportedTime:
        """The same as tables and their notes take times."""
        return ReportedTime(str(self.row["name"]), self.seconds, self.row["status"] == "noisy", (), self.row)

    @property
    def way(self) -> str:
        """How the result got to all devices."""
        return {**EXCHANGE_TITLES, **OVERLAPPED_TITLES}.get(self.row["exchange"], "")

    @property
    def rate(self) -> float:
        """Bytes of a launch over its time, GB/s."""
        return float(1e-9 * self.row["bytes"] / (self.seconds * self.row["steps"]))


@dataclass(frozen=True)
class DeviceTimes:
    """The times over several devices of one problem at one precision.

    Attributes
    ----------
    line, case
        Which.
    rows
        Of the kind `several`, with a time.
    """

    line: ProblemRow
    case: Case
    rows: tuple[Mapping[str, Any], ...]

    @property
    def counts(self) -> list[int]:
        """Over how many devices something was timed, beside the one of the baseline."""
        return sorted({int(row["devices"]) for row in self.rows} - {1})

    @property
    def variant(self) -> ReportedTime | None:
        """The fastest of all products of dynamic CSR on one device, whatever its schedule: what a user has there."""
        wanted = ("variant", "product", "dcsr")
        return fastest_time(
            (row for row in self.case.rows if (row["kind"], row["what"], row["format"]) == wanted), DEVICE_CLOCK
        )

    def alone(self, devices: int, repeated: bool = True) -> StepTime | None:
        """Return the product whose result stays distributed: steps that follow each other in a launch, or one."""
        return self._fastest("product", ("none",), devices, repeated)

    def exchanged(self, devices: int) -> StepTime | None:
        """Return the product whose result is brought to all devices before the next, in the fastest way."""
        return self._fastest("product", tuple(EXCHANGE_TITLES), devices, True)

    def overlapped(self, devices: int) -> StepTime | None:
        """Return the product during which results are brought to all devices, in the faster of two ways."""
        return self._fastest("product", tuple(OVERLAPPED_TITLES), devices, True)

    def exchange(self, devices: int, way: str | None = None) -> StepTime | None:
        """Return the exchange without a product, in one way or in the fastest."""
        return self._fastest("exchange", (way,) if way else tuple(EXCHANGE_TITLES), devices, True)

    def speedup(self, step: StepTime | None, repeated: bool = True) -> float | None:
        """Return how many times faster a step is than the product on one device, launched in the same manner."""
        base = self.alone(1, repeated)
        return base.seconds / step.seconds if base and step else None

    def cost(self, devices: int) -> float | None:
        """Return the share of a step with an exchange, in the fastest way, that is no product alone."""
        alone = self.alone(devices)
        steps = [step for step in (self.exchanged(devices), self.overlapped(devices)) if step]
        if alone is None or not steps:
            return None
        fastest = min(step.seconds for step in steps)
        return 1 - alone.seconds / fastest

    def _fastest(self, what: str, ways: tuple[str, ...], devices: int, repeated: bool) -> StepTime | None:
        steps = [
            StepTime(seconds / row["steps"], row)
            for row in self.rows
            if (row["what"], row["devices"], row["steps"] > 1) == (what, devices, repeated)
            and row["exchange"] in ways
            and (seconds := median(row, DEVICE_CLOCK)) is not None
        ]
        return min(steps, key=lambda step: step.seconds, default=None)


def device_times(campaign: Campaign, published: Published, precision: str) -> list[DeviceTimes]:
    """Return all of a campaign at one precision, in the paper's order, then by growing size."""
    return [device_times_of(line, Case(campaign, line.problem, precision)) for line in ours(campaign, published)]


def device_times_of(line: ProblemRow, case: Case) -> DeviceTimes:
    """Return the times of one case."""
    rows = tuple(row for row in case.rows if row["kind"] == "several" and median(row, DEVICE_CLOCK) is not None)
    return DeviceTimes(line, case, rows)


def stated_speedups(published: Published, problem: str | None) -> list[tuple[int, str]]:
    """Return the paper's speed-ups of a problem with iterations within the kernel, by the number of devices."""
    quantities = {
        f"speedup of {word} GPUs, iterations within the kernel, {problem}": n for word, n in DEVICE_NUMBERS.items()
    }
    return [
        (quantities[item["quantity"]], item["value"])
        for item in published.tables.get("text", [])
        if problem and item["quantity"] in quantities
    ]


def stated_graph_speedups(published: Published) -> str:
    """Return the sentence with the paper's speed-ups of single graphs, empty where nothing is published."""
    words = []
    for problem in STATED_GRAPHS:
        points = stated_speedups(published, problem)
        if points:
            words.append(f"{problem} {', '.join(f'{value} over {devices}' for devices, value in points)}")
    return f"Published of Tesla M2090, iterations within the kernel: {'; '.join(words)}." if words else ""
