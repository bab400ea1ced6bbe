"""What was measured of each quantity that was aimed at in the plane, field by field; or why nothing was."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from repro.artifacts.data import Campaign
from repro.artifacts.numbers import ratio_of
from repro.artifacts.published import Published, Record
from repro.artifacts.targets import Measured, Missing, Number
from repro.studies.dg_postprocessing.filter_times import DEGREES, ELEMENT, OURS, Filtering, all_fields
from repro.studies.dg_postprocessing.paper import COUNTED_DEGREE
from repro.studies.dg_postprocessing.shared_cells import MILLI

#: The mesh whose times are aimed at, as the text calls its size, and its family.
LARGEST, LOW = "1024k", "low"
#: Fields of the product that is held against the product of one.
MANY = 16
NumberOf = Callable[[Filtering, Published], float | None]
Wanted = Callable[[Record], bool]


@dataclass(frozen=True)
class Quantity:
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
    """

    number: NumberOf
    wanted: Wanted
    statistic: Literal["median", "worst"] = "worst"
    at_most: bool = False
    why_not: Callable[[Filtering], str] = lambda field: "not timed"


def gather(campaign: Campaign, published: Published) -> dict[str, Measured]:
    """Return what was measured of each quantity, of the paper's fields alone."""
    fields = {field.line.problem: field for field in all_fields(campaign, published)}
    papers = published.tables.get("sizes", [])
    return {
        name: _measure(quantity, [item for item in papers if quantity.wanted(item)], fields, published)
        for name, quantity in QUANTITIES.items()
    }


def _measure(
    quantity: Quantity, papers: Sequence[Record], fields: Mapping[str, Filtering], published: Published
) -> Measured:
    numbers: list[Number] = []
    missing: list[Missing] = []
    for item in papers:
        name = item["problem"]
        field = fields.get(name)
        value = quantity.number(field, published) if field else None
        if value is not None:
            numbers.append(Number(value, name))
        elif field is None:
            missing.append(Missing(name, "not in this campaign"))
        else:
            missing.append(Missing(name, quantity.why_not(field)))
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


def _of_degree(*degrees: int) -> Wanted:
    return lambda item: int(item["degree"]) in degrees


def _counted(item: Record) -> bool:
    return item["variance"] == LOW and int(item["degree"]) == COUNTED_DEGREE


def _largest(degree: int) -> Wanted:
    return lambda item: (item["variance"], item["printed"], int(item["degree"])) == (LOW, LARGEST, degree)


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


_RATIO = Quantity(_tests_ratio, _counted, why_not=_tests)
#: By their names in `config/targets/dg_postprocessing.csv`.
QUANTITIES: Mapping[str, Quantity] = {
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
    "apply_share": Quantity(lambda field, _: field.copy_share(1), _of_degree(*DEGREES), why_not=_applied),
    "sixteen_over_one": Quantity(
        lambda field, _: ratio_of(field.apply(MANY), field.apply(1)),
        _of_degree(*DEGREES),
        at_most=True,
        why_not=_applied,
    ),
    "make_over_direct": Quantity(
        lambda field, _: ratio_of(field.make, field.time(OURS)), _of_degree(*DEGREES), at_most=True, why_not=_made
    ),
}
