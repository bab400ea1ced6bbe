"""What was measured of each quantity that was aimed at, case by case; or why nothing was."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from repro.artifacts.case import Timed, fastest
from repro.artifacts.data import Campaign
from repro.artifacts.numbers import ratio_of
from repro.artifacts.published import Published
from repro.artifacts.targets import Measured, Missing, Number
from repro.bench.runnable import Clock
from repro.studies.spgemm_amg.paper import PRODUCTS
from repro.studies.spgemm_amg.shared_cells import MILLI
from repro.studies.spgemm_amg.times import (
    COORDINATES,
    EVENT,
    LIBRARY,
    OURS,
    REFILL,
    REUSE,
    ProblemTimes,
    ProductTimes,
    all_times,
)

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
    numbers: list[Number] = []
    missing: list[Missing] = []
    for name in names:
        case = times.get(name)
        if case is None or not case.case.measured:
            missing.append(Missing(name, _why_not(case), len(PRODUCTS)))
            continue
        for product in PRODUCTS:
            of_product = case.product(product)
            title, value = f"{name}, {of_product.title}", number(of_product)
            if value is None:
                missing.append(Missing(title, _failure(of_product) or "not timed"))
            else:
                numbers.append(Number(value, title))
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
    numbers: list[Number] = []
    missing: list[Missing] = []
    for name in only or names:
        case = times.get(name)
        measured = number(case) if case else None
        if measured:
            numbers.append(Number(measured[0], name, measured[1]))
        else:
            missing.append(Missing(name, _why_not(case)))
    return Measured(numbers, missing)


def _why_not(case: ProblemTimes | None) -> str:
    if case is None:
        return "not in this campaign"
    return "not timed" if case.case.measured else case.case.why_not()


def _whole_over_reuse(times: ProductTimes) -> float | None:
    return ratio_of(times.time(REUSE), times.time(OURS))


def _over_ours(base: Callable[[ProductTimes], Timed | None]) -> Callable[[ProductTimes], float | None]:
    return lambda times: ratio_of(base(times), times.time(OURS))


def _millis(timed: Timed | None) -> tuple[float, tuple[str, ...]] | None:
    return (MILLI * timed.seconds, timed.notes) if timed else None


def _set_up(case: ProblemTimes) -> tuple[float, tuple[str, ...]] | None:
    return _millis(case.set_up("default"))


def _set_up_over(case: ProblemTimes) -> tuple[float, tuple[str, ...]] | None:
    ratio = ratio_of(case.set_up("coordinates"), case.set_up("default"))
    return (ratio, ()) if ratio else None


def _solution(case: ProblemTimes) -> tuple[float, tuple[str, ...]] | None:
    return _millis(case.solution)


def _numeric(clock: Clock) -> Callable[[ProductTimes], float | None]:
    return lambda times: ratio_of(fastest(times.of(REUSE), clock), fastest(times.of(REFILL), clock))


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
