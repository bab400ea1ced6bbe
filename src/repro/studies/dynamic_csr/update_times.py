"""What tables and figures of updates share: who is updated, how fast, and what a rebuild would cost instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from repro.artifacts.case import Case, Timed, fastest
from repro.artifacts.data import Campaign
from repro.artifacts.lineup import Line, lineup
from repro.artifacts.published import Published
from repro.bench.rows import TIMED
from repro.sparse.times import baseline
from repro.studies.dynamic_csr.operation_times import CLOCK, precision_of
from repro.studies.dynamic_csr.paper import PRODUCTS, STUDY
from repro.studies.dynamic_csr.shared_cells import facts_of

#: cuSPARSE's sum of two matrices; as `repro.studies.dynamic_csr.geam` has it, which needs a GPU's driver.
GEAM_ROUTINE = "csrgeam2"
BY_HOST = (
    "by the host’s clock, from an idle device to an idle device: events cannot time it, its launches count as well"
)


@dataclass(frozen=True)
class Contestant:
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


DCSR = Contestant("dcsr", "DCSR", "dcsr")
REBUILD = Contestant("rebuild", "CSR rebuilt", "csr")
GEAM = Contestant("geam", "CSR by csrgeam2", "csr", GEAM_ROUTINE)
HYB = Contestant("hyb", "HYB", "hyb")
COO = Contestant("coo", "COO", "coo")
CONTESTANTS = (DCSR, REBUILD, GEAM, HYB, COO)


def about_geam(campaign: Campaign) -> str:
    """Return the sentence on the library's sum of two matrices: what is in its time, or why it has none."""
    if campaign.on_cpu:
        return f"cuSPARSE’s {GEAM_ROUTINE} runs on GPUs alone: it has no time here."
    return f"{GEAM_ROUTINE} waits for counts in between, which is in its time."


class Protocol(NamedTuple):
    """In which order the entries of a batch come, and what becomes of those whose place is there already."""

    order: str
    mode: str

    @property
    def title(self) -> str:
        """In words."""
        order = "by row" if self.order == "sorted" else "any order"
        return f"{order}, {'added' if self.mode == 'add' else 'unique'}"


PROTOCOLS = tuple(Protocol(order, mode) for mode in ("add", "unique") for order in ("any", "sorted"))


def update_of(
    case: Case, contestant: Contestant, what: str, protocol: Protocol | None = None, **columns: Any
) -> Timed | None:
    """Return the fastest update of a format, by events, or by the host's clock where none has a time by these."""
    asked = {"what": what, **(protocol._asdict() if protocol else {}), **columns}
    rows = [row for row in case.rows if contestant.of(row) and asked.items() <= row.items()]
    return fastest(rows, CLOCK) or fastest(rows, "host")


def by_host(timed: Timed | None) -> bool:
    """Return whether a time is the host's clock's."""
    return timed is not None and not timed.row[f"{CLOCK}_median"]


def failure_of(case: Case, contestants: Iterable[Contestant], *whats: str) -> str | None:
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

    line: Line
    case: Case
    sizes: tuple[int, ...]

    def seconds(self, contestant: Contestant, protocol: Protocol, size: int) -> Timed | None:
        """Return the time of a batch."""
        return update_of(self.case, contestant, "batch", protocol, batch=size)

    def rate(self, contestant: Contestant, protocol: Protocol, size: int) -> float | None:
        """Return updates a second."""
        timed = self.seconds(contestant, protocol, size)
        return size / timed.seconds if timed else None

    def has(self, contestant: Contestant) -> bool:
        """Return whether any batch was timed of a format."""
        return any(self.rate(contestant, protocol, size) for protocol in PROTOCOLS for size in self.sizes)


#: Into what dynamic CSR's batches are inserted.
ROOMY = (
    "Rows of dynamic CSR have one segment then, with twice the room that they need for the batch in the mean, and for "
    "16 entries more."
)


def unique_of(by_geam: bool) -> str:
    """Return the sentence that says of which formats there are unique updates."""
    return f"Unique: of dynamic CSR{' and, by row, of csrgeam2' if by_geam else ''} alone."


def sweeps_of(campaign: Campaign, published: Published) -> list[Sweep]:
    """Return the problems of growing batches that the campaign has, measured or not."""
    sweeps = []
    for line in lineup(campaign, published):
        case = Case(campaign, line.problem, precision_of(campaign))
        rows = [row for row in case.rows if row.get("what") == "batch" and row.get("batch")]
        batches = facts_of(line).get("batches", {})
        if rows or batches.get("least") != batches.get("most"):
            timed = {int(row["batch"]) for row in rows if row["status"] in TIMED}
            sweeps.append(Sweep(line, case, tuple(sorted(timed))))
    return sweeps


# updates and products ------------------------------------------------------------------------------------------------


def iterated(case: Case, contestant: Contestant) -> Timed | None:
    """Return the time of the iterative test, of all batches by row and the products after each; None without one."""
    return update_of(case, contestant, "iterate", _in_order(contestant))


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

    def seconds(self, products: int = PRODUCTS) -> float:
        """Return the time of a batch and of so many products."""
        return self.update + products * self.product


def cost_of(case: Case, contestant: Contestant) -> Cost | None:
    """Return what batches and products of a format take, None without times."""
    record = case.campaign.problems.get(case.problem)
    batches = record.facts.get(STUDY, {}).get("batches", {}).get("count") if record else None
    inserted = update_of(case, contestant, "insert", _in_order(contestant))
    product = product_of(case, contestant)
    if not batches or inserted is None or product is None:
        return None
    return Cost(inserted.seconds / batches, product.seconds, inserted.row.get("batch"), (inserted.key, product.key))


def _in_order(contestant: Contestant) -> Protocol:
    """Return the protocol of batches that come by row: the library's sum leaves an entry once."""
    return Protocol("sorted", "unique" if contestant.routine else "add")


def product_of(case: Case, contestant: Contestant) -> Timed | None:
    """Return the fastest product of the grown matrix by events: of a fragmented one, and of CSR the library's too."""
    rows = [
        row
        for row in case.rows
        if row.get("what") == "product" and row.get("format") == contestant.format and (row.get("devices") or 1) == 1
        and (contestant is not DCSR or row.get("state") == "fragmented")
    ]  # fmt: skip
    library = baseline(case, CLOCK, form="csr") if contestant.format == "csr" else None
    timed = [time for time in (fastest(rows, CLOCK), library) if time]
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

    line: Line
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


def trades_of(campaign: Campaign, published: Published) -> tuple[list[Trade], list[tuple[Line, str]]]:
    """Return the trades of a campaign, of each problem and of each batch of a sweep; and where there are none, why."""
    trades: list[Trade] = []
    missing: list[tuple[Line, str]] = []
    of_sweeps = {sweep.line.problem: sweep for sweep in sweeps_of(campaign, published)}
    for line in lineup(campaign, published):
        if line.record is None:
            continue
        case = Case(campaign, line.problem, precision_of(campaign))
        sweep = of_sweeps.get(line.problem)
        here = list(_of_sweep(sweep)) if sweep else _of_batches(line, case)
        if not here:
            missing.append((line, _why_not(case)))
        trades += here
    return trades, missing


def _of_batches(line: Line, case: Case) -> list[Trade]:
    dynamic = cost_of(case, DCSR)
    rebuilt = [cost for contestant in (REBUILD, GEAM) if (cost := cost_of(case, contestant))]
    if dynamic is None or not rebuilt:
        return []
    rebuild = min(rebuilt, key=Cost.seconds)
    return [
        Trade(
            line, case, dynamic.entries, False,
            dynamic.update, rebuild.update, dynamic.product, rebuild.product, (*dynamic.keys, *rebuild.keys),
        )
    ]  # fmt: skip


def _of_sweep(sweep: Sweep) -> Iterable[Trade]:
    fragmented, csr = (product_of(sweep.case, contestant) for contestant in (DCSR, REBUILD))
    if fragmented is None or csr is None:
        return
    for size in sweep.sizes:
        update = sweep.seconds(DCSR, Protocol("any", "add"), size)
        rebuild = sweep.seconds(REBUILD, Protocol("any", "add"), size)
        if update and rebuild:
            yield Trade(
                sweep.line, sweep.case, size, True,
                update.seconds, rebuild.seconds, fragmented.seconds, csr.seconds,
                tuple(time.key for time in (update, rebuild, fragmented, csr)),
            )  # fmt: skip


def _why_not(case: Case) -> str:
    """Return why a problem has no trade: its own reason where it has one, else what was not timed."""
    if case.measured:
        failure = failure_of(case, (DCSR, REBUILD), "insert", "batch")
        return failure or "updates and products of both were not timed"
    return case.why_not()
