"""What was measured of each quantity that was aimed at, field by field; or why nothing was."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from repro.artifacts.data import Campaign
from repro.artifacts.numbers import ratio_of
from repro.artifacts.published import Published, Record
from repro.artifacts.targets import Measured, Missing, Number
from repro.bench.runnable import Clock
from repro.studies.dg_postprocessing.filter_times import (
    DEGREES,
    ELEMENT,
    FAMILIES,
    OURS,
    Filtering,
    all_fields,
)
from repro.studies.dg_postprocessing.paper import COUNTED_DEGREE, CUBES, PRODUCT_CLOCK
from repro.studies.dg_postprocessing.region_space import full_width
from repro.studies.dg_postprocessing.several_times import over, speedup
from repro.studies.dg_postprocessing.shared_cells import MILLI
from repro.studies.dg_postprocessing.width_times import LANE, MATRIX, VECTOR, WidthTimes, width_times

#: The mesh whose times are aimed at, as the text calls its size, and the family of the times on one device.
LARGEST, LOW = "1024k", "low"
#: Fields of the product that is held against the product of one.
MANY = 16
#: Devices over which speed-ups are aimed at.
SEVERAL = (2, 4)
#: Times of a field, in the plane or in space.
F = TypeVar("F", Filtering, WidthTimes)
Wanted = Callable[[Record], bool]


@dataclass(frozen=True)
class Quantity(Generic[F]):
    """How a quantity is measured.

    Attributes
    ----------
    number
        Returns it of a field, None where it has none.
    wanted
        Which of the paper's fields it is of, by their lines in `config/published`.
    statistic
        What is wanted of the numbers.
    at_most
        Whether less is better.
    why_not
        Returns why a field that was measured has none.
    notes
        Returns what is to be said of a field's number.
    """

    number: Callable[[F, Published], float | None]
    wanted: Wanted
    statistic: Literal["median", "worst"] = "worst"
    at_most: bool = False
    why_not: Callable[[F], str] = lambda field: "not timed"
    notes: Callable[[F], tuple[str, ...]] = lambda field: ()


def gather(campaign: Campaign, published: Published) -> dict[str, Measured]:
    """Return what was measured of each quantity, of the paper's fields alone."""
    plane = {field.line.problem: field for field in all_fields(campaign, published)}
    space = {times.line.problem: times for times in width_times(campaign, published)}
    papers = published.tables.get("sizes", [])
    triangles = [item for item in papers if item["problem"] not in CUBES.values()]
    tetrahedra = [item for item in papers if item["problem"] in CUBES.values()]
    return {
        **{name: _measure(quantity, triangles, plane, published) for name, quantity in IN_PLANE.items()},
        **{name: _measure(quantity, tetrahedra, space, published) for name, quantity in IN_SPACE.items()},
    }


def _measure(
    quantity: Quantity[F], papers: Sequence[Record], fields: Mapping[str, F], published: Published
) -> Measured:
    numbers: list[Number] = []
    missing: list[Missing] = []
    for name in (item["problem"] for item in papers if quantity.wanted(item)):
        field = fields.get(name)
        value = quantity.number(field, published) if field else None
        if field is None:
            missing.append(Missing(name, "not in this campaign"))
        elif value is None:
            missing.append(Missing(name, quantity.why_not(field)))
        else:
            numbers.append(Number(value, name, quantity.notes(field)))
    return Measured(numbers, missing)


def counts(field: Filtering | None) -> tuple[int, int] | None:
    """Return the tests per point and per element of a field's record; None where it has none."""
    facts = field.facts if field else {}
    per_point, per_element = facts.get("tests_per_point"), facts.get("tests_per_element")
    return (int(per_point), int(per_element)) if per_point and per_element else None


def _apart(field: Filtering, published: Published) -> float | None:
    ours = counts(field)
    theirs = next((i for i in published.tables.get("tests", []) if i["problem"] == field.line.problem), None)
    if ours is None or theirs is None:
        return None
    printed = int(theirs["per_point"]), int(theirs["per_element"])
    return max(abs(own / other - 1) for own, other in zip(ours, printed, strict=True))


def _tests_ratio(field: Filtering, published: Published) -> float | None:
    ours = counts(field)
    return ours[0] / ours[1] if ours else None


def _ours_milli(field: Filtering, published: Published) -> float | None:
    timed = field.time(OURS)
    return MILLI * timed.seconds if timed else None


def _speedup(devices: int) -> Callable[[Filtering, Published], float | None]:
    return lambda field, _: speedup(field, OURS, devices)


def _not_over(devices: int) -> Callable[[Filtering], str]:
    return lambda field: f"no time over {devices} devices" if over(field, OURS, 1) else _filtered(field)


def _of_degree(*degrees: int) -> Wanted:
    return lambda item: int(item["degree"]) in degrees


def _counted(item: Record) -> bool:
    return item["variance"] == LOW and int(item["degree"]) == COUNTED_DEGREE


def _largest(*degrees: int, variance: str = LOW) -> Wanted:
    return lambda item: (item["variance"], item["printed"]) == (variance, LARGEST) and int(item["degree"]) in degrees


def _filtered(field: Filtering) -> str:
    """Return why a field has no time of ours, or of what that is held against."""
    if not field.case.measured:
        return field.case.why_not()
    untimed = [why for way in (OURS, ELEMENT) if field.time(way) is None for why in field.why_not(way)]
    return untimed[0] if untimed else "not timed"


def _peak(field: Filtering) -> str:
    return "the device’s peak is not known" if field.time(OURS) and field.peak is None else _filtered(field)


def _made(field: Filtering) -> str:
    return field.why_no_matrix() if field.time(OURS) else _filtered(field)


def _tests(field: Filtering) -> str:
    return "no counts on its record"


def _applied(field: Filtering) -> str:
    return field.why_no_matrix("apply")


def _over_papers(method: str) -> Callable[[WidthTimes, Published], float | None]:
    """Return what gives the time of the paper's fastest kernel over that of our fastest of a method."""
    return lambda times, _: ratio_of(times.of_method(VECTOR), times.of_method(method))


def _gain(times: WidthTimes, published: Published) -> float | None:
    return times.best_gain[1] if times.best_gain else None


def _gaining(times: WidthTimes) -> tuple[str, ...]:
    return (f"width {times.best_gain[0]} of {full_width(times.degree)}",) if times.best_gain else ()


def _integrated(times: WidthTimes) -> str:
    return "not timed" if times.case.measured else times.case.why_not()


def _streamed(field: Filtering) -> str:
    return field.why_no_matrix("stream") if field.apply(1) else _applied(field)


def _over_library(clock: Clock) -> Callable[[Filtering, Published], float | None]:
    def least(field: Filtering, published: Published) -> float | None:
        overs = [over for fields in field.fields if (over := field.over_library(fields, clock)) is not None]
        return min(overs, default=None)

    return least


def _multiplied(field: Filtering) -> str:
    return field.why_no_matrix("library") if field.apply(1) else _applied(field)


_RATIO = Quantity(_tests_ratio, _counted, why_not=_tests)
#: By their names in `config/targets/dg_postprocessing.csv`: those of triangles, and those of tetrahedra.
IN_PLANE: Mapping[str, Quantity[Filtering]] = {
    "tests_apart": Quantity(_apart, _counted, at_most=True, why_not=_tests),
    "tests_ratio_least": _RATIO,
    "tests_ratio_most": Quantity(_tests_ratio, _counted, at_most=True, why_not=_tests),
    **{
        f"over_element_p{degree}": Quantity(
            lambda field, _: field.over_ours(ELEMENT), _of_degree(degree), "median", why_not=_filtered
        )
        for degree in DEGREES
    },
    "peak_share": Quantity(lambda field, _: field.peak_share(field.time(OURS)), _of_degree(2, 3), why_not=_peak),
    **{
        f"large_p{degree}_ms": Quantity(_ours_milli, _largest(degree), at_most=True, why_not=_filtered)
        for degree in DEGREES
    },
    "apply_share": Quantity(lambda field, _: field.floor_share, _of_degree(*DEGREES), why_not=_streamed),
    "apply_over_library": Quantity(_over_library(PRODUCT_CLOCK), _of_degree(*DEGREES), why_not=_multiplied),
    "event_apply_over_library": Quantity(_over_library("event"), _of_degree(*DEGREES), why_not=_multiplied),
    "sixteen_over_one": Quantity(
        lambda field, _: ratio_of(field.apply(MANY), field.apply(1)),
        _of_degree(*DEGREES),
        at_most=True,
        why_not=_applied,
    ),
    "make_over_direct": Quantity(
        lambda field, _: ratio_of(field.make, field.time(OURS)), _of_degree(*DEGREES), at_most=True, why_not=_made
    ),
    **{
        f"several_{variance}_{devices}": Quantity(
            _speedup(devices), _largest(*DEGREES, variance=variance), why_not=_not_over(devices)
        )
        for variance in FAMILIES
        for devices in SEVERAL
    },
}
IN_SPACE: Mapping[str, Quantity[WidthTimes]] = {
    **{f"gain_p{degree}": Quantity(_gain, _of_degree(degree), why_not=_integrated, notes=_gaining) for degree in CUBES},
    **{
        f"{method}_over_paper_p{degree}": Quantity(_over_papers(method), _of_degree(degree), why_not=_integrated)
        for method in (LANE, MATRIX)
        for degree in CUBES
    },
}
QUANTITIES: Mapping[str, Quantity[Filtering] | Quantity[WidthTimes]] = {**IN_PLANE, **IN_SPACE}
