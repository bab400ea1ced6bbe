"""Quantities of the claims of the dissertation's chapters 3 and 4, and of our targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from repro.bench.rows import ClockName
from repro.results.campaign_data import Campaign, Method
from repro.results.claims import ClaimQuantities, register_claims
from repro.results.comparisons import CaseNumber, Cases, Comparison, JudgedBy, Measured, Quantity, no_notes
from repro.results.published import Published, Record
from repro.results.significance import ratio_of
from repro.studies.dg_postprocessing import (
    CITED,
    COUNTED_DEGREE,
    CUBES,
    FILTER_CLOCK,
    PATCHES,
    PRODUCT_CLOCK,
    STUDY_NAME,
    results,
)
from repro.studies.dg_postprocessing.ids import WIDTHS, full_width
from repro.studies.dg_postprocessing.results import ELEMENT, ELEMENT_TUNED, FLOOR, MAKE, OURS, Filtering, WidthTimes

LOW, HIGH = results.FAMILIES
#: The per-point and the per-element method by which claims are judged.
PAIRS = dict(zip(("as_published", "paper_tuned"), results.PUBLISHED_PAIRS, strict=True))
DEVICE_COUNTS = (2, 4, 8)
#: Size of the per-element method's cells in longest edges (section 3.2.2).
PAPERS_CELL = 0.5
#: Points of the mesh of chapter 4: 4 for P = 1 on each of 6 tetrahedra in each of 10³ hexahedra (section 4.1).
POINTS_OF_MESH = 4 * 6 * 10**3
#: Vector widths whose gain over the full width section 4.4 names.
NAMED_WIDTHS = (8, 12, 16, 18, 32, 80)
#: Size of the mesh with target times, as written in the text.
LARGEST_SIZE = "1024k"
#: Number of fields of the product that is compared with a product of one field.
MANY_FIELDS = 16
#: Numbers of devices for which target speed-ups are set.
TARGET_DEVICES = (2, 4)


def field_cases(campaign: Campaign, published: Published, variants: JudgedBy = "none") -> Cases[Any]:
    """Return a campaign's fields in the plane and in space."""
    plane = [replace(field, variants=variants) for field in results.all_filterings(campaign, published)]
    return Cases(campaign, published, [*plane, *results.width_times(campaign, published)], variants)


def plane_fields(cases: Cases[Any]) -> list[Filtering]:
    return [case for case in cases if isinstance(case, Filtering)]


def meshes(*degrees: int, variance: str = "", size: str = "") -> Callable[[Published], list[str]]:
    """Return a function that names the paper's fields in the plane: of some degrees (all), a variance and a size."""

    def counts(item: Record) -> bool:
        is_asked_for = item["variance"] == (variance or item["variance"]) and item["printed"] == (
            size or item["printed"]
        )
        return (
            is_asked_for
            and item["problem"] not in CUBES.values()
            and int(item["degree"]) in (degrees or results.DEGREES)
        )

    return lambda published: [item["problem"] for item in published.tables.get("sizes", []) if counts(item)]


#: A number of the paper's fields in the plane, or in space.
_on_meshes = partial(
    Comparison[Filtering], problems=meshes(), notes=no_notes, reason=lambda field: field.case.why_untimed()
)
_in_space = partial(Comparison[WidthTimes], notes=no_notes)

# claims: plane -------------------------------------------------------------------------------------------------------


def _unequal(field: Filtering) -> tuple[str, ...]:
    """Return a note if both methods were timed, but not tuned over the same parameters."""
    pair = PAIRS.get(field.variants)
    return field.unequal_settings(*pair) if pair and all(field[method] for method in pair) else ()


def _judged(which: int) -> Callable[[Filtering], results.Time | None]:
    """Return the time of the method by which claims are judged: per point (0) or per element (1)."""
    return lambda field: (
        field[PAIRS[field.variants][which]] if field.variants in PAIRS and not _unequal(field) else None
    )


#: The speedup of the per-element over the per-point method, if both were tuned over the same parameters.
ELEMENT_OVER_POINT = _on_meshes(
    _judged(0), _judged(1), reason=lambda field: "; ".join(_unequal(field)) or field.case.why_untimed()
)


class Rate(NamedTuple):
    """A field and a method, whose rate is computed with the operations of the contour method."""

    field: Filtering
    method: Method | None

    @property
    def value(self) -> float | None:
        return self.field.gflops(self.field[self.method]) if self.method else None


def _rates(*which: int) -> Comparison[Rate]:
    """Return the rates of methods (0: per point, 1: per element); none if one was not timed, for equal weights."""

    def parts(field: Filtering) -> list[Rate]:
        pair = PAIRS.get(field.variants)
        rates = [Rate(field, pair[index]) for index in which] if pair else []
        return rates if rates and all(rate.value for rate in rates) else [Rate(field, None)]

    return Comparison[Rate](
        lambda rate: rate.value,
        parts=parts,
        name=lambda rate: f"{rate.field.line.problem}, {rate.method.title}" if rate.method else rate.field.line.problem,
        notes=no_notes,
        reason=lambda rate: rate.field.case.why_untimed(),
    )


def _extreme_sizes(
    cases: Cases[Any], number: Callable[[Filtering], float | None], numerator: int, missing: str
) -> Measured:
    """Return a number of the smallest mesh (0) over that of the largest, or the inverse (1), of low variance, P = 1."""
    fields = [field for field in plane_fields(cases) if (field.family, field.degree) == (LOW, 1) and field.triangles]
    numbers = {field.triangles or 0: (value, field.line.problem) for field in fields if (value := number(field))}
    if len(numbers) < 2:
        return Measured.one(None, "meshes of low variance", f"fewer than two {missing}")
    ends = numbers[min(numbers)], numbers[max(numbers)]
    return Measured.one(ends[numerator][0] / ends[1 - numerator][0], ends[1][1])


def _time_by_size(cases: Cases[Any]) -> Measured:
    """Return the per-element method's time per triangle on the largest mesh over that on the smallest."""
    if cases.variants not in PAIRS:
        return Measured([])

    def seconds(field: Filtering) -> float | None:
        time = field[PAIRS[cases.variants][1]]
        return time.seconds / field.triangles if time and field.triangles else None

    return _extreme_sizes(cases, seconds, 1, "were timed")


def _device_efficiency(cases: Cases[Any]) -> Measured:
    """Return the speed-up of the per-element method over several devices, divided by the number of devices."""
    if cases.variants != "as_published":
        return Measured([])
    numbers = [
        CaseNumber(speedup / devices, f"{field.line.problem}, {devices} devices")
        for field in plane_fields(cases)
        for devices in DEVICE_COUNTS
        if (speedup := field.device_speedup(ELEMENT, devices)) is not None
    ]
    return Measured.any_of(numbers, "all fields", "this campaign ran on one device")


def _compared_speedups(
    mesh: Callable[[Record], str], side: Callable[[Record], str], wanted: Sequence[str], missing: str
) -> Quantity[Cases[Any]]:
    """Return the per-element method's speedup on each wanted side over that on the last.

    Fields are compared that `mesh` gives the same name and `side` different ones.
    """
    *others, base = wanted

    def measure(cases: Cases[Any]) -> Measured:
        fields = {field.line.problem: field for field in plane_fields(cases)}
        speedups: dict[str, dict[str, float]] = {}
        for item in cases.published.tables.get("sizes", []):
            field = fields.get(item["problem"])
            if field and (found := ELEMENT_OVER_POINT.of(field)):
                speedups.setdefault(mesh(item), {})[side(item)] = found.value
        numbers = [
            CaseNumber(of[other] / of[base], f"{name}, {other}" if others[1:] else name)
            for name, of in speedups.items()
            for other in others
            if base in of and other in of
        ]
        return Measured.any_of(numbers, missing, "not timed with both methods")

    return Quantity(measure, "median")


def _per_element_cells(is_papers: bool) -> Callable[[Filtering], results.Time | None]:
    """Return the search's time per element with the paper's size of a cell, or with the best other size."""

    def time(field: Filtering) -> results.Time | None:
        searched = field.case.searched.select(kind="variant", **ELEMENT_TUNED.columns)
        return searched.select(lambda row: (row.cell == PAPERS_CELL) == is_papers).fastest(FILTER_CLOCK)

    return lambda field: time(field) if field.variants == "paper_tuned" else None


def _more_patches(field: Filtering) -> float | None:
    """Return the memory that the most patches add over that of the fewest that were counted."""
    counted = sorted(int(patches) for patches in field.facts.get("overhead", {}))
    fewest, most = (field.overhead(counted[at]) for at in (0, -1)) if len(counted) > 1 else (None, None)
    return most / fewest if fewest and most else None


def _search_widths(degree: int) -> float:
    """Return the width that the per-point method searches, 2s + w, over that per element, s + w (section 3.2.2)."""
    stencil = 3 * degree + 1  # w, in longest edges s
    return (2 + stencil) / (1 + stencil)


def _regions_a_point(degree: int) -> int:
    """Return the tetrahedra that a point's filter meets: 6 in each of 3k + 2 hexahedra a direction (section 4.2)."""
    return 6 * (3 * degree + 2) ** 3


def _rate_by_degree(cases: Cases[Any]) -> Measured:
    """Return the per-element method's largest rate for P = 3 over that for P = 1, at low variance."""
    rates = [replace(_rates(1), problems=meshes(degree, variance=LOW)).measure(cases).numbers for degree in (3, 1)]
    if not all(rates):
        return Measured.one(None, "P = 1 and P = 3", "not both timed")
    cubic, linear = (max(number.value for number in found) for found in rates)
    return Measured.one(cubic / linear, "low variance")


# claims: space -------------------------------------------------------------------------------------------------------


def _on_cubes(
    degree: int, number: Callable[[WidthTimes], float | None], judged_by: JudgedBy = "as_published"
) -> Quantity[Cases[Any]]:
    """Return a number of the paper's mesh of tetrahedra."""
    problems = (CUBES[degree],)
    return _in_space(number, problems=problems, judged_by=(judged_by,), reason=lambda times: "not timed").worst()


def _lead(*widths: int) -> Callable[[WidthTimes], float | None]:
    """Return a function that gives the time of the fastest other width over the time of the fastest of these widths."""

    def fastest(times: WidthTimes, of_widths: Iterable[int]) -> results.Time | None:
        found = [time for width in of_widths if (time := times.of_width(width))]
        return min(found, key=lambda time: time.seconds, default=None)

    def lead_of(times: WidthTimes) -> float | None:
        others = [width for width in WIDTHS[times.degree] if width not in widths]
        return ratio_of(fastest(times, others), fastest(times, widths))

    return lead_of


def _gain(*widths: int) -> Callable[[WidthTimes], float | None]:
    """Return a function that gives the largest gain of some widths over the full width."""

    def gain(times: WidthTimes) -> float | None:
        return max((ratio for width in widths if (ratio := times.gain(width)) is not None), default=None)

    return gain


def _gain_of_best(times: WidthTimes) -> float | None:
    return times.best_gain[1] if times.best_gain else None


def _shared_bytes(times: WidthTimes) -> float | None:
    """Return the shared memory per region with the full width."""
    rows = times.case.searched.select(method=results.VECTOR.key, vector_width=full_width(times.degree))
    sizes = [row.shared_bytes / row.regions_per_block for row in rows if row.shared_bytes and row.regions_per_block]
    return min(sizes, default=None)


def _faster_widths(times: WidthTimes) -> float | None:
    """Return the share of the vector widths above 1 that are faster than no vectorization."""
    none, widths = times.of_width(1), [width for width in WIDTHS[times.degree] if width > 1]
    ratios = [ratio for width in widths if (ratio := ratio_of(none, times.of_width(width))) is not None]
    return sum(ratio > 1 for ratio in ratios) / len(ratios) if ratios else None


TESTS = _on_meshes(lambda field: field.tests_ratio)
#: Quantities by name in `config/claims/dg_postprocessing.csv`.
CLAIM_QUANTITIES: ClaimQuantities[Cases[Any]] = {
    "tests_ratio": replace(TESTS, problems=meshes(1, variance=LOW)).mean(),
    "element_over_point": ELEMENT_OVER_POINT.median(),
    "element_over_point_high": replace(ELEMENT_OVER_POINT, problems=meshes(variance=HIGH)).median(),
    "element_over_point_low_p3": replace(ELEMENT_OVER_POINT, problems=meshes(3, variance=LOW)).median(),
    "element_high_over_low": _compared_speedups(
        lambda item: f"{item['printed']}, P = {item['degree']}",
        lambda item: item["variance"],
        (HIGH, LOW),
        "meshes of both variances",
    ),
    "element_over_degree": _compared_speedups(
        lambda item: f"{item['printed']}, {item['variance']} variance",
        lambda item: f"P = {item['degree']}",
        ("P = 2", "P = 3", "P = 1"),
        "meshes with fields of several degrees",
    ),
    "time_by_size": Quantity(_time_by_size),
    "other_cells": _on_meshes(_per_element_cells(False), _per_element_cells(True)).median(),
    "more_patches": _on_meshes(_more_patches).least(),
    "search_widths": Quantity.constant(_search_widths(1), "P = 1"),
    # read by a test per point, of an element's three modes and three corners, over those per element
    "values_of_a_test": Quantity.constant((3 + 3) / 2, "P = 1"),
    "rate_p3_over_p1": Quantity(_rate_by_degree),
    "gflops_p1": replace(_rates(1), problems=meshes(1, variance=LOW)).most(),
    "gflops_p2": replace(_rates(0, 1), problems=meshes(2, variance=LOW)).geometric_mean(),
    "gflops_p3": replace(_rates(0, 1), problems=meshes(3, variance=LOW)).geometric_mean(),
    # memory of 16 patches on the smallest mesh over that on the largest
    "patch_overhead_ratio": Quantity(
        lambda cases: _extreme_sizes(cases, lambda field: field.overhead(PATCHES), 0, "have their copies counted")
    ),
    "device_efficiency": Quantity(_device_efficiency),
    "regions_a_point": Quantity.constant(_regions_a_point(1), "P = 1"),
    "regions_of_mesh": Quantity.constant(_regions_a_point(1) * POINTS_OF_MESH, "6,000 tetrahedra, 4 points each"),
    **{f"gain_p{degree}_{width}": _on_cubes(degree, _gain(width)) for degree in WIDTHS for width in NAMED_WIDTHS},
    "gain_p2_48_64": _on_cubes(2, _gain(48, 64)),
    "gain_p2_128_144": _on_cubes(2, _gain(128, 144)),
    "gain_of_best_p1": _on_cubes(1, _gain_of_best),
    "gain_of_best_p2": _on_cubes(2, _gain_of_best),
    "faster_widths_p1": _on_cubes(1, _faster_widths),
    "best_width_p1": _on_cubes(1, _lead(18)),
    "best_width_p2": _on_cubes(2, _lead(16)),
    "half_width_p2": _on_cubes(2, _lead(64, 80)),
    "shared_bytes_p1": _on_cubes(1, _shared_bytes, "none"),
    "shared_bytes_p2": _on_cubes(2, _shared_bytes, "none"),
}
register_claims(STUDY_NAME, CITED, CLAIM_QUANTITIES, field_cases)

# targets -------------------------------------------------------------------------------------------------------------


def _tests_deviation(cases: Cases[Any]) -> Measured:
    """Return the larger relative deviation of both published numbers of tests."""
    published = results.published_tests(cases.published)

    def deviation(field: Filtering) -> float | None:
        pairs = zip(field.tests, published[field.line.problem], strict=True) if field.tests else ()
        return max((abs(own / printed - 1) for own, printed in pairs), default=None)

    return (
        replace(COUNTED_TESTS, numerator=deviation).where(lambda field: field.line.problem in published).measure(cases)
    )


def _least_over_library(clock: ClockName) -> Callable[[Filtering], float | None]:
    def least_speedup(field: Filtering) -> float | None:
        products = ((results.library_product(n, clock), results.product(n, clock)) for n in field.field_counts)
        return min((ratio for pair in products if (ratio := field.over(*pair)) is not None), default=None)

    return least_speedup


def _why_untimed(*methods: Method) -> Callable[[Filtering], str]:
    """Return a function that gives the reason why filtering methods have no time."""

    def reason(field: Filtering) -> str:
        if not field.case.is_measured:
            return field.case.why_not()
        return next(filter(None, (field.why_not(method) for method in methods if field[method] is None)), "not timed")

    return reason


def _why_no_product(other_task: str) -> Callable[[Filtering], str]:
    """Return a function that gives the reason for a missing ratio: no product, or no time of the other kind."""
    return lambda field: field.why_no_matrix(other_task if field[results.product(1)] else "apply")


_why_not_filtered = _why_untimed(OURS)
COUNTED_TESTS = replace(
    TESTS, problems=meshes(COUNTED_DEGREE, variance=LOW), reason=lambda field: "no counts on its record"
)
_over_library = partial(_on_meshes, reason=_why_no_product("library"))


def _on_devices(devices: int) -> Comparison[Filtering]:
    def reason(field: Filtering) -> str:
        return f"no time over {devices} devices" if field[OURS] else _why_not_filtered(field)

    return _on_meshes(lambda field: field.device_speedup(OURS, devices), reason=reason)


def _width_note(times: WidthTimes, *ratios: results.Time) -> tuple[str, ...]:
    return (f"width {times.best_gain[0]} of {full_width(times.degree)}",) if times.best_gain else ()


#: Quantities by name in `config/targets/dg_postprocessing.csv`: triangles, then tetrahedra.
IN_PLANE: Mapping[str, Quantity[Cases[Any]]] = {
    "tests_apart": Quantity(_tests_deviation, at_most=True),
    "tests_ratio_least": COUNTED_TESTS.worst(),
    "tests_ratio_most": COUNTED_TESTS.worst(at_most=True),
    **{
        f"over_element_p{degree}": _on_meshes(
            ELEMENT_TUNED, OURS, problems=meshes(degree), reason=_why_untimed(OURS, ELEMENT_TUNED)
        ).median()
        for degree in results.DEGREES
    },
    "peak_share": _on_meshes(
        lambda field: field.peak_share(field[OURS]),
        problems=meshes(2, 3),
        reason=lambda field: (
            "the device’s peak is not known" if field[OURS] and field.peak is None else _why_not_filtered(field)
        ),
    ).worst(),
    **{
        f"large_p{degree}_ms": _on_meshes(
            OURS, unit=results.MILLI, problems=meshes(degree, variance=LOW, size=LARGEST_SIZE), reason=_why_not_filtered
        ).worst(is_time=True)
        for degree in results.DEGREES
    },
    "apply_share": _on_meshes(FLOOR, results.product(1), reason=_why_no_product("stream")).worst(),
    "apply_over_library": _over_library(_least_over_library(PRODUCT_CLOCK)).worst(),
    "event_apply_over_library": _over_library(_least_over_library("event")).worst(),
    "sixteen_over_one": _on_meshes(
        results.product(MANY_FIELDS), results.product(1), reason=lambda field: field.why_no_matrix("apply")
    ).worst(at_most=True),
    "make_over_direct": _on_meshes(
        MAKE, OURS, reason=lambda field: field.why_no_matrix() if field[OURS] else _why_not_filtered(field)
    ).worst(at_most=True),
    **{
        f"several_{variance}_{devices}": replace(
            _on_devices(devices), problems=meshes(variance=variance, size=LARGEST_SIZE)
        ).worst()
        for variance in results.FAMILIES
        for devices in TARGET_DEVICES
    },
}
_cubes = partial(_in_space, reason=lambda times: times.case.why_untimed())
IN_SPACE: Mapping[str, Quantity[Cases[Any]]] = {
    **{
        f"gain_p{degree}": _cubes(_gain_of_best, problems=(problem,), notes=_width_note).worst()
        for degree, problem in CUBES.items()
    },
    **{
        f"{method.key}_over_paper_p{degree}": _cubes(results.VECTOR, method, problems=(problem,)).worst()
        for method in (results.LANE, results.ROWS)
        for degree, problem in CUBES.items()
    },
}
TARGET_QUANTITIES: Mapping[str, Quantity[Cases[Any]]] = {**IN_PLANE, **IN_SPACE}
