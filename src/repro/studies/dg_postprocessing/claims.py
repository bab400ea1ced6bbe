"""Functions that measure claims of the dissertation's chapters 3 and 4, by the names in the file of claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from repro.results.campaign_data import Campaign, Method
from repro.results.claims import (
    CaseNumber,
    ClaimQuantities,
    JudgedBy,
    Measured,
    MissingCase,
    Quantity,
    StatisticName,
    claims_table,
    load_claims,
)
from repro.results.published import Published, Record
from repro.results.registry import table
from repro.results.significance import ratio_of
from repro.results.tables import Table
from repro.studies.dg_postprocessing import CITED, CUBES, FILTER_CLOCK, PATCHES, STUDY_NAME, results
from repro.studies.dg_postprocessing.ids import WIDTHS, full_width

#: The per-point and the per-element method by which claims are judged.
PAIRS = dict(zip(("as_published", "paper_tuned"), results.PUBLISHED_PAIRS, strict=True))
DEVICE_COUNTS = (2, 4, 8)
#: Size of the per-element method's cells in longest edges (section 3.2.2).
PAPERS_CELL = 0.5
#: Points of the mesh of chapter 4: 4 for P = 1 on each of 6 tetrahedra in each of 10³ hexahedra (section 4.1).
POINTS_OF_MESH = 4 * 6 * 10**3
#: Vector widths whose gain over the full width section 4.4 names.
NAMED_WIDTHS = (8, 12, 16, 18, 32, 80)


class ClaimFields(NamedTuple):
    """The paper's fields, and the variants by which a claim is judged."""

    fields: results.TargetData
    variants: JudgedBy


def _plane_quantity(
    numbers_of: Callable[[results.Filtering, JudgedBy], Measured],
    statistic: StatisticName,
    *,
    degree: int | None = None,
    variance: str | None = None,
) -> Quantity[ClaimFields]:
    """Return a function that measures a number for the paper's fields in the plane, or for one degree or variance."""

    def is_counted(item: Record) -> bool:
        is_on_meshes = item["problem"] not in CUBES.values()
        return (
            is_on_meshes
            and int(item["degree"]) == (degree or int(item["degree"]))
            and variance in (None, item["variance"])
        )

    def measure(data: ClaimFields) -> Measured:
        numbers: list[CaseNumber] = []
        missing_cases: list[MissingCase] = []
        for name in (item["problem"] for item in data.fields.published.tables.get("sizes", []) if is_counted(item)):
            field = data.fields.plane.get(name)
            if field is None:
                missing_cases.append(MissingCase(name, "not in this campaign"))
                continue
            field_numbers = numbers_of(field, data.variants)
            numbers += field_numbers.numbers
            if not field_numbers.numbers:
                reason = field_numbers.empty_reason or field.case.why_untimed()
                missing_cases.append(MissingCase(name, reason))
        return Measured(numbers, missing_cases)

    return Quantity(measure, statistic)


def _element_over_point(field: results.Filtering, variants: JudgedBy) -> Measured:
    """The speedup of the per-element over the per-point method, if both were tuned over the same parameters."""
    if variants not in PAIRS:
        return Measured([])
    pair = PAIRS[variants]
    point, element = (field[method] for method in pair)
    number, unequal = CaseNumber.over(point, element, field.line.problem), field.unequal_settings(*pair)
    if number is None or unequal:
        return Measured([], empty_reason="; ".join(unequal) if number else "")
    return Measured([number])


def _element_rate(field: results.Filtering, variants: JudgedBy) -> Measured:
    """The rate of the per-element method, computed with the operations of the contour method."""
    return _rates(field, PAIRS[variants][1:]) if variants in PAIRS else Measured([])


def _both_rates(field: results.Filtering, variants: JudgedBy) -> Measured:
    """The rates of both methods, as in `_element_rate`; none if only one was timed, so that both have equal weight."""
    methods = PAIRS.get(variants, ())
    return _rates(field, methods if all(field[method] for method in methods) else ())


def _rates(field: results.Filtering, methods: Sequence[Method]) -> Measured:
    rates = [(method.title, rate) for method in methods if (rate := field.gflops(field[method]))]
    return Measured([CaseNumber(rate, f"{field.line.problem}, {title}") for title, rate in rates])


def _tests(field: results.Filtering, variants: JudgedBy) -> Measured:
    return Measured([CaseNumber(field.tests_ratio, field.line.problem)] if field.tests_ratio else [])


def _overhead(data: ClaimFields) -> Measured:
    """The memory overhead of 16 patches on the smallest mesh over that on the largest, for P = 1 and low variance."""
    overheads = {}
    for name, field in data.fields.plane.items():
        overhead = field.overhead(PATCHES)
        if (field.family, field.degree) == (results.LOW_VARIANCE, 1) and overhead and field.triangles:
            overheads[field.triangles] = overhead, name
    if len(overheads) < 2:
        return Measured([], [MissingCase("meshes of low variance", "fewer than two have their copies counted")])
    (small_overhead, _), (large_overhead, name) = overheads[min(overheads)], overheads[max(overheads)]
    return Measured([CaseNumber(small_overhead / large_overhead, name)])


def _device_efficiency(data: ClaimFields) -> Measured:
    """The speed-up of the per-element method over several devices, divided by the number of devices."""
    if data.variants != "as_published":
        return Measured([])
    numbers = [
        CaseNumber(speedup / devices, f"{name}, {devices} devices")
        for name, field in data.fields.plane.items()
        for devices in DEVICE_COUNTS
        if (speedup := field.device_speedup(results.ELEMENT, devices)) is not None
    ]
    return Measured(numbers, [] if numbers else [MissingCase("all fields", "this campaign ran on one device")])


def _space_quantity(
    degree: int, number: Callable[[results.WidthTimes], float | None], variants: JudgedBy = "as_published"
) -> Quantity[ClaimFields]:
    """Return a function that measures a number for the paper's mesh of tetrahedra."""

    def measure(data: ClaimFields) -> Measured:
        if data.variants != variants:
            return Measured([])
        times = data.fields.space.get(CUBES[degree])
        value = number(times) if times else None
        if value is None:
            return Measured([], [MissingCase(CUBES[degree], "not timed" if times else "not in this campaign")])
        return Measured([CaseNumber(value, CUBES[degree])])

    return Quantity(measure)


def _lead(*widths: int) -> Callable[[results.WidthTimes], float | None]:
    """Return a function that gives the time of the fastest other width over the time of the fastest of these widths."""

    def fastest(times: results.WidthTimes, of_widths: Iterable[int]) -> results.Time | None:
        found = [time for width in of_widths if (time := times.of_width(width))]
        return min(found, key=lambda time: time.seconds, default=None)

    def lead_of(times: results.WidthTimes) -> float | None:
        others = [width for width in WIDTHS[times.degree] if width not in widths]
        return ratio_of(fastest(times, others), fastest(times, widths))

    return lead_of


def _gain(width: int) -> Callable[[results.WidthTimes], float | None]:
    return lambda times: times.gain(width)


def _largest_gain(*widths: int) -> Callable[[results.WidthTimes], float | None]:
    def gain(times: results.WidthTimes) -> float | None:
        return max((ratio for width in widths if (ratio := times.gain(width)) is not None), default=None)

    return gain


def _shared_bytes(times: results.WidthTimes) -> float | None:
    """Shared memory per region with the full width."""
    rows = times.case.searched.select(method=results.VECTOR.key, vector_width=full_width(times.degree))
    sizes = [row.shared_bytes / row.regions_per_block for row in rows if row.shared_bytes and row.regions_per_block]
    return min(sizes, default=None)


def _compared_speedups(
    mesh: Callable[[Record], str], side: Callable[[Record], str], wanted: Sequence[str], missing: str
) -> Quantity[ClaimFields]:
    """Return a function that measures the per-element method's speedup on each wanted side over that on the last.

    Fields are compared that `mesh` gives the same name and `side` different ones.
    """
    *others, base = wanted

    def measure(data: ClaimFields) -> Measured:
        speedups: dict[str, dict[str, float]] = {}
        for item in data.fields.published.tables.get("sizes", []):
            field = data.fields.plane.get(item["problem"])
            if field and (found := _element_over_point(field, data.variants).numbers):
                speedups.setdefault(mesh(item), {})[side(item)] = found[0].value
        numbers = [
            CaseNumber(of[other] / of[base], f"{name}, {other}" if others[1:] else name)
            for name, of in speedups.items()
            for other in others
            if base in of and other in of
        ]
        return Measured(numbers, [] if numbers else [MissingCase(missing, "not timed with both methods")])

    return Quantity(measure, "median")


def _time_by_size(data: ClaimFields) -> Measured:
    """Return the per-element method's time per triangle on the largest mesh over that on the smallest, for P = 1."""
    if data.variants not in PAIRS:
        return Measured([])
    method = PAIRS[data.variants][1]
    times = {
        field.triangles: (time.seconds / field.triangles, name)
        for name, field in data.fields.plane.items()
        if (field.family, field.degree) == (results.LOW_VARIANCE, 1) and field.triangles and (time := field[method])
    }
    if len(times) < 2:
        return Measured([], [MissingCase("meshes of low variance", "fewer than two were timed")])
    (small, _), (large, name) = times[min(times)], times[max(times)]
    return Measured([CaseNumber(large / small, name)])


def _other_cells(field: results.Filtering, variants: JudgedBy) -> Measured:
    """Return the search's time with the best other size of a cell over that with the paper's, per element."""
    if variants != "paper_tuned":
        return Measured([])
    searched = field.case.searched.select(kind="variant", **results.ELEMENT_TUNED.columns)
    other = searched.select(lambda row: row.cell != PAPERS_CELL).fastest(FILTER_CLOCK)
    papers = searched.select(cell=PAPERS_CELL).fastest(FILTER_CLOCK)
    number = CaseNumber.over(other, papers, field.line.problem)
    return Measured([number] if number else [])


def _more_patches(field: results.Filtering, variants: JudgedBy) -> Measured:
    """Return the memory that the most patches add over that of the fewest that were counted."""
    counted = sorted(int(patches) for patches in field.facts.get("overhead", {}))
    fewest, most = (field.overhead(counted[at]) for at in (0, -1)) if len(counted) > 1 else (None, None)
    return Measured([CaseNumber(most / fewest, field.line.problem)] if fewest and most else [])


def _search_widths(degree: int) -> float:
    """Return the width that the per-point method searches, 2s + w, over that per element, s + w (section 3.2.2)."""
    stencil = 3 * degree + 1  # w, in longest edges s
    return (2 + stencil) / (1 + stencil)


def _values_of_a_test(degree: int) -> float:
    """Return the values that a test reads per point, of an element's modes and corners, over those per element."""
    return ((degree + 1) * (degree + 2) / 2 + 3) / 2


def _rate_by_degree(data: ClaimFields) -> Measured:
    """The per-element method's largest rate for P = 3 over that for P = 1, at low variance."""
    rates = [_plane_quantity(_element_rate, "most", degree=degree, variance=results.LOW_VARIANCE) for degree in (3, 1)]
    numbers = [rate.measure(data).numbers for rate in rates]
    if not all(numbers):
        return Measured([], [MissingCase("P = 1 and P = 3", "not both timed")])
    cubic, linear = (max(number.value for number in found) for found in numbers)
    return Measured([CaseNumber(cubic / linear, "low variance")])


def _regions_a_point(degree: int) -> int:
    """Return the tetrahedra that a point's filter meets: 6 in each of 3k + 2 hexahedra a direction (section 4.2)."""
    return 6 * (3 * degree + 2) ** 3


def _faster_widths(times: results.WidthTimes) -> float | None:
    """Return the share of the vector widths above 1 that are faster than no vectorization."""
    none, widths = times.of_width(1), [width for width in WIDTHS[times.degree] if width > 1]
    ratios = [ratio for width in widths if (ratio := ratio_of(none, times.of_width(width))) is not None]
    return sum(ratio > 1 for ratio in ratios) / len(ratios) if ratios else None


def _gain_of_best(times: results.WidthTimes) -> float | None:
    return times.best_gain[1] if times.best_gain else None


QUANTITIES: ClaimQuantities[ClaimFields] = {
    "tests_ratio": _plane_quantity(_tests, "arithmetic mean", degree=1, variance=results.LOW_VARIANCE),
    "element_over_point_low_p3": _plane_quantity(
        _element_over_point, "median", degree=3, variance=results.LOW_VARIANCE
    ),
    "element_over_point_high": _plane_quantity(_element_over_point, "median", variance="high"),
    "element_over_point": _plane_quantity(_element_over_point, "median"),
    "element_high_over_low": _compared_speedups(
        lambda item: f"{item['printed']}, P = {item['degree']}",
        lambda item: item["variance"],
        ("high", results.LOW_VARIANCE),
        "meshes of both variances",
    ),
    "element_over_degree": _compared_speedups(
        lambda item: f"{item['printed']}, {item['variance']} variance",
        lambda item: f"P = {item['degree']}",
        ("P = 2", "P = 3", "P = 1"),
        "meshes with fields of several degrees",
    ),
    "time_by_size": Quantity(_time_by_size),
    "other_cells": _plane_quantity(_other_cells, "median"),
    "more_patches": _plane_quantity(_more_patches, "least"),
    "search_widths": Quantity(lambda data: Measured([CaseNumber(_search_widths(1), "P = 1")])),
    "values_of_a_test": Quantity(lambda data: Measured([CaseNumber(_values_of_a_test(1), "P = 1")])),
    "rate_p3_over_p1": Quantity(_rate_by_degree),
    "gflops_p1": _plane_quantity(_element_rate, "most", degree=1, variance=results.LOW_VARIANCE),
    "gflops_p2": _plane_quantity(_both_rates, "mean", degree=2, variance=results.LOW_VARIANCE),
    "gflops_p3": _plane_quantity(_both_rates, "mean", degree=3, variance=results.LOW_VARIANCE),
    "patch_overhead_ratio": Quantity(_overhead),
    "device_efficiency": Quantity(_device_efficiency),
    "regions_a_point": Quantity(lambda data: Measured([CaseNumber(_regions_a_point(1), "P = 1")])),
    "regions_of_mesh": Quantity(
        lambda data: Measured([CaseNumber(_regions_a_point(1) * POINTS_OF_MESH, "6,000 tetrahedra, 4 points each")])
    ),
    **{f"gain_p{degree}_{width}": _space_quantity(degree, _gain(width)) for degree in WIDTHS for width in NAMED_WIDTHS},
    "gain_p2_128_144": _space_quantity(2, _largest_gain(128, 144)),
    "faster_widths_p1": _space_quantity(1, _faster_widths),
    "gain_of_best_p1": _space_quantity(1, _gain_of_best),
    "gain_of_best_p2": _space_quantity(2, _gain_of_best),
    "best_width_p1": _space_quantity(1, _lead(18)),
    "best_width_p2": _space_quantity(2, _lead(16)),
    "half_width_p2": _space_quantity(2, _lead(64, 80)),
    "gain_p2_48_64": _space_quantity(2, _largest_gain(48, 64)),
    "shared_bytes_p1": _space_quantity(1, _shared_bytes, "none"),
    "shared_bytes_p2": _space_quantity(2, _shared_bytes, "none"),
}


@table(STUDY_NAME, "table-claims", title="The paper’s claims, and the verdict on each", numbering=f"text of {CITED}")
def claims(campaign: Campaign, published: Published) -> Table:
    def data(source: Campaign, variants: JudgedBy) -> ClaimFields:
        return ClaimFields(results.TargetData.of(source, published), variants)

    return claims_table(campaign, load_claims(STUDY_NAME), QUANTITIES, data)
