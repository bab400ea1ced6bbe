"""What was measured of each quantity that was aimed at, case by case; or why nothing was."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Literal, NamedTuple

from repro.artifacts.case import Case, Timed
from repro.artifacts.data import Campaign
from repro.artifacts.lineup import ABBREVIATIONS, Line, ours
from repro.artifacts.numbers import ratio_of
from repro.artifacts.published import Published
from repro.artifacts.targets import Number
from repro.bench.runnable import Clock
from repro.studies.dynamic_csr.device_times import devices_of
from repro.studies.dynamic_csr.operation_times import CLOCK, precision_of, timed
from repro.studies.dynamic_csr.product_times import CLOCK as PRODUCT_CLOCK
from repro.studies.dynamic_csr.product_times import ProductTimes, all_times
from repro.studies.dynamic_csr.shared_cells import facts_of
from repro.studies.dynamic_csr.update_times import (
    BY_HOST,
    DCSR,
    HYB,
    REBUILD,
    Protocol,
    by_host,
    sweeps_of,
    update_of,
)

#: The problem that the rates are wanted of: 2^20 rows, entries in uniformly drawn ones.
RANDOM = "large/sweep_uniform"
#: The largest batches that a rebuild is held against.
MOST_REBUILT = 30_000
BILLION, MICRO = 1e9, 1e6
#: The clocks that products are compared by: what is aimed at, and what is told beside it.
PRODUCT_CLOCKS: tuple[Clock, ...] = (PRODUCT_CLOCK, "event")


class Measured(NamedTuple):
    """What was measured of a quantity: numbers, why there are none, and what is to be said of them all."""

    numbers: list[Number]
    missing: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Records:
    """What the numbers are made from: the lines of a campaign, their cases, and the products by clock."""

    campaign: Campaign
    published: Published
    cases: list[tuple[Line, Case]]
    products: Mapping[Clock, list[ProductTimes]]


@dataclass(frozen=True)
class Quantity:
    """How a quantity is measured.

    Attributes
    ----------
    measure
        Returns its numbers.
    statistic
        What is wanted of them: one number for all, or the worst.
    at_most
        Whether less is better.
    """

    measure: Callable[[Records], Measured]
    statistic: Literal["mean", "median", "worst"] = "worst"
    at_most: bool = False


def gather(campaign: Campaign, published: Published) -> dict[str, Measured]:
    """Return what was measured of each quantity."""
    lines = ours(campaign, published)
    cases = [(line, Case(campaign, line.problem, precision_of(campaign))) for line in lines]
    products = {
        clock: [item for precision in campaign.precisions for item in all_times(campaign, published, precision, clock)]
        for clock in PRODUCT_CLOCKS
    }
    records = Records(campaign, published, cases, products)
    return {name: quantity.measure(records) for name, quantity in QUANTITIES.items()}


# updates -------------------------------------------------------------------------------------------------------------


def _batches(
    sizes: Iterable[int], protocols: Iterable[Protocol], number: Callable[[int, float], float], records: Records
) -> Measured:
    """Measure batches of random entries, each alone."""
    numbers: list[Number] = []
    absent = []
    case = Case(records.campaign, RANDOM, precision_of(records.campaign))
    for size in sizes:
        for protocol in protocols:
            batch = update_of(case, DCSR, "batch", protocol, batch=size)
            if batch:
                name = f"{RANDOM}, {size:,}, {protocol.title}"
                numbers.append(Number(number(size, batch.seconds), name, _notes(batch)))
            else:
                absent.append(f"{size:,} ({protocol.title})")
    why = "not in this campaign" if RANDOM not in records.campaign.problems else None
    if why is None and not case.measured:
        why = case.why_not()
    missing = f"{RANDOM}: {why or 'no batch of ' + ' or '.join(absent) + ' was timed'}"
    # a worst one of some is none of all
    return Measured([] if absent else numbers, missing)


def _rate(size: int, seconds: float) -> float:
    return size / seconds / BILLION


def _over_hybrid(records: Records) -> Measured:
    """Measure streaming into HYB over streaming into dynamic CSR, by row; in any order is told beside it."""
    by_order: dict[str, list[Number]] = {}
    sweeps = _sweeps(records)
    for order in ("sorted", "any"):
        by_order[order] = [
            Number(theirs.seconds / dynamic.seconds, *_named(line, theirs, dynamic))
            for line, case in records.cases
            if line.problem not in sweeps
            and (dynamic := update_of(case, DCSR, "stream", Protocol(order, "add")))
            and (theirs := update_of(case, HYB, "stream", Protocol(order, "add")))
        ]
    others = by_order["any"]
    notes = (f"entries in any order: {fmean(number.value for number in others):.2f}",) if others else ()
    return Measured(by_order["sorted"], "no matrix was streamed by row into both", notes)


def _over_rebuild(least: int, records: Records) -> Measured:
    """Measure rebuilding CSR over inserting, wherever both were timed with batches that are small enough."""
    numbers = []
    sweeps = _sweeps(records)
    for line, case in records.cases:
        if entries_of(line) < least:
            continue
        for order in ("any", "sorted"):
            protocol = Protocol(order, "add")
            asked = [("batch", size) for size in _sizes(case, "batch")]
            if line.problem not in sweeps:  # whose batches are of all sizes
                asked += [("insert", size) for size in _sizes(case, "insert")]
            for what, size in asked:
                dynamic = update_of(case, DCSR, what, protocol, batch=size)
                rebuilt = update_of(case, REBUILD, what, protocol, batch=size)
                if dynamic and rebuilt:
                    name, notes = _named(line, dynamic, rebuilt)
                    label = f"{name}, batches of {size:,}, {protocol.title}"
                    numbers.append(Number(rebuilt.seconds / dynamic.seconds, label, notes))
    return Measured(numbers, f"no batch of up to {MOST_REBUILT:,} was timed with both")


def _sweeps(records: Records) -> set[str]:
    """Return the problems whose batches are of growing sizes."""
    return {sweep.line.problem for sweep in sweeps_of(records.campaign, records.published)}


def _sizes(case: Case, what: str) -> list[int]:
    """Return the batches of an update's rows that a rebuild is held against."""
    sizes = {int(row["batch"]) for row in case.rows if row.get("what") == what and row.get("batch")}
    return sorted(size for size in sizes if size <= MOST_REBUILT)


def _defragmentation(least: int, records: Records) -> Measured:
    """Measure the bytes that defragmentation moves in a second over those of a copy."""
    numbers = []
    for line, case in records.cases:
        defragmentation = timed(case, what="defragment", format="dcsr")
        copy = case.bound("copy", CLOCK)
        if entries_of(line) >= least and defragmentation and copy and defragmentation.row["bytes"]:
            speeds = [float(item.row["bytes"]) / item.seconds for item in (defragmentation, copy)]
            numbers.append(Number(speeds[0] / speeds[1], *_named(line, defragmentation, copy)))
    return Measured(numbers, f"no matrix of {least:,} entries and more has a time of both")


# products ------------------------------------------------------------------------------------------------------------


def _products(
    ratio: Callable[[ProductTimes], float | None],
    missing: str,
    records: Records,
    sweeps: bool = True,
    clock: Clock = PRODUCT_CLOCK,
) -> Measured:
    """Measure a ratio of products; without sweeps where it is wanted of graphs that have grown by a tenth."""
    left_out = set() if sweeps else _sweeps(records)
    numbers = [
        Number(value, f"{times.line.problem} ({ABBREVIATIONS[times.case.precision]})", _remark(times.line))
        for times in records.products[clock]
        if times.line.problem not in left_out and (value := ratio(times)) is not None
    ]
    return Measured(numbers, missing)


def _over_csr(times: ProductTimes) -> float | None:
    return times.csr_twins[1].seconds / times.csr_twins[0].seconds if times.csr_twins else None


def _over_defragmented(times: ProductTimes) -> float | None:
    return times.state_twins[0].seconds / times.state_twins[1].seconds if times.state_twins else None


def _over_ours(times: ProductTimes) -> float | None:
    return ratio_of(times.library, times.ours)


def _devices(devices: int, exchange: str, least: int, records: Records) -> Measured:
    """Measure the fastest product on one device over one of the steps on several."""
    numbers = []
    for line, case in records.cases:
        if entries_of(line) < least:
            continue
        times = devices_of(line, case)
        step = times.overlapped(devices) if exchange == "overlapped" else times.alone(devices)
        alone = times.alone(1)
        ones = [one for one in (times.variant, alone.timed if alone else None) if one]
        if step and ones:
            one = min(ones, key=lambda timed: timed.seconds)
            numbers.append(Number(one.seconds / step.seconds, *_named(line, one, step.timed)))
    way = "with the exchange overlapped" if exchange == "overlapped" else "without an exchange"
    missing = f"no matrix of {least:,} entries and more has times on one device and, {way}, on {devices} devices"
    return Measured(numbers, missing)


# words ---------------------------------------------------------------------------------------------------------------


def entries_of(line: Line) -> int:
    """Return the entries of a grown matrix; 0 where they are not on record."""
    facts = facts_of(line)
    return int(facts["nonzeros"] + facts.get("batches", {}).get("entries", 0)) if facts else 0


def _remark(line: Line) -> tuple[str, ...]:
    return (line.record.remark,) if line.record and line.record.remark else ()


def _named(line: Line, *times: Timed) -> tuple[str, tuple[str, ...]]:
    """Return the name of a case, and the remarks on its problem and its times."""
    return line.problem, (*_remark(line), *dict.fromkeys(note for time in times for note in _notes(time)))


def _notes(time: Timed) -> tuple[str, ...]:
    """Return what is to be said of a time."""
    return (*time.notes, *((BY_HOST,) if by_host(time) else ()))


_ANY, _ANY_UNIQUE, _SORTED = Protocol("any", "add"), Protocol("any", "unique"), Protocol("sorted", "add")
_TWINS = "no two products under one schedule were timed"
_LIBRARY = "no product of the library and of ours was timed"
#: By their names in `config/targets/dynamic_csr.csv`.
QUANTITIES: Mapping[str, Quantity] = {
    "random_1e6_rate": Quantity(partial(_batches, (10**6,), (_ANY,), _rate)),
    "random_1e7_rate": Quantity(partial(_batches, (10**7,), (_ANY,), _rate)),
    "unique_rate": Quantity(partial(_batches, (10**6, 10**7), (_ANY_UNIQUE,), _rate)),
    "batch_1e3_micro": Quantity(
        partial(_batches, (1000,), (_ANY,), lambda size, seconds: seconds * MICRO), at_most=True
    ),
    "sorted_1e7_rate": Quantity(partial(_batches, (10**7,), (_SORTED,), _rate)),
    "hybrid_mean": Quantity(_over_hybrid, "mean"),
    "rebuild_worst": Quantity(partial(_over_rebuild, 8 * 10**6)),
    "defragmented_median": Quantity(partial(_products, _over_csr, _TWINS), "median", at_most=True),
    "defragmented_worst": Quantity(partial(_products, _over_csr, _TWINS), at_most=True),
    "fragmented_median": Quantity(partial(_products, _over_defragmented, _TWINS, sweeps=False), "median", at_most=True),
    "fragmented_worst": Quantity(partial(_products, _over_defragmented, _TWINS, sweeps=False), at_most=True),
    "library_worst": Quantity(partial(_products, _over_ours, _LIBRARY)),
    "library_median": Quantity(partial(_products, _over_ours, _LIBRARY), "median"),
    "event_defragmented_median": Quantity(partial(_products, _over_csr, _TWINS, clock="event"), "median", at_most=True),
    "event_fragmented_median": Quantity(
        partial(_products, _over_defragmented, _TWINS, sweeps=False, clock="event"), "median", at_most=True
    ),
    "event_library_median": Quantity(partial(_products, _over_ours, _LIBRARY, clock="event"), "median"),
    "defragmentation_worst": Quantity(partial(_defragmentation, 10**7)),
    "devices_2_worst": Quantity(partial(_devices, 2, "none", 10**7)),
    "devices_4_worst": Quantity(partial(_devices, 4, "none", 10**7)),
    "overlapped_2_worst": Quantity(partial(_devices, 2, "overlapped", 5 * 10**7)),
    "overlapped_4_worst": Quantity(partial(_devices, 4, "overlapped", 5 * 10**7)),
}
