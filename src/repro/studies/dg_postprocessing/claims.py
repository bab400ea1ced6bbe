"""Functions that measure claims of the dissertation's chapters 3 and 4, by the names in the file of claims."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from repro.results.significance import interval_of_ratio, ratio_of
from repro.results.tables import Table
from repro.studies.dg_postprocessing import CITED, CUBES, PATCHES, STUDY_NAME
from repro.studies.dg_postprocessing.ids import WIDTHS, full_width
from repro.studies.dg_postprocessing.results import (
    ELEMENT,
    LOW_VARIANCE,
    PUBLISHED_PAIRS,
    VECTOR,
    Filtering,
    TargetData,
    Time,
    WidthTimes,
)

#: The per-point and the per-element method by which claims are judged.
PAIRS = dict(zip(("as_published", "paper_tuned"), PUBLISHED_PAIRS, strict=True))
DEVICE_COUNTS = (2, 4, 8)
#: Points of the mesh of chapter 4: 4 for P = 1 on each of 6 tetrahedra in each of 10³ hexahedra (section 4.1).
POINTS_OF_MESH = 4 * 6 * 10**3
#: Vector widths whose gain over the full width section 4.4 names.
NAMED_WIDTHS = (8, 12, 16, 18, 32, 80)


class ClaimFields(NamedTuple):
    """The paper's fields, and the variants by which a claim is judged."""

    fields: TargetData
    variants: JudgedBy


def _plane_quantity(
    numbers_of: Callable[[Filtering, JudgedBy], Measured],
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
                reason = field_numbers.empty_reason or ("not timed" if field.case.is_measured else field.case.why_not())
                missing_cases.append(MissingCase(name, reason))
        return Measured(numbers, missing_cases)

    return Quantity(measure, statistic)


def _element_over_point(field: Filtering, variants: JudgedBy) -> Measured:
    """The speedup of the per-element over the per-point method, if both were tuned over the same parameters."""
    if variants not in PAIRS:
        return Measured([])
    pair = PAIRS[variants]
    point, element = (field[method] for method in pair)
    ratio, unequal = ratio_of(point, element), field.unequal_settings(*pair)
    if ratio is None or unequal:
        return Measured([], empty_reason="; ".join(unequal) if ratio else "")
    return Measured([CaseNumber(ratio, field.line.problem, (), interval_of_ratio(point, element))])


def _element_rate(field: Filtering, variants: JudgedBy) -> Measured:
    """The rate of the per-element method, computed with the operations of the contour method."""
    return _rates(field, PAIRS[variants][1:]) if variants in PAIRS else Measured([])


def _both_rates(field: Filtering, variants: JudgedBy) -> Measured:
    """The rates of both methods, as in `_element_rate`; none if only one was timed, so that both have equal weight."""
    methods = PAIRS.get(variants, ())
    return _rates(field, methods if all(field[method] for method in methods) else ())


def _rates(field: Filtering, methods: Sequence[Method]) -> Measured:
    rates = [(method.title, rate) for method in methods if (rate := field.gflops(field[method]))]
    return Measured([CaseNumber(rate, f"{field.line.problem}, {title}") for title, rate in rates])


def _tests(field: Filtering, variants: JudgedBy) -> Measured:
    return Measured([CaseNumber(field.tests_ratio, field.line.problem)] if field.tests_ratio else [])


def _overhead(data: ClaimFields) -> Measured:
    """The memory overhead of 16 patches on the smallest mesh over that on the largest, for P = 1 and low variance."""
    overheads = {}
    for name, field in data.fields.plane.items():
        overhead = field.overhead(PATCHES)
        if (field.family, field.degree) == (LOW_VARIANCE, 1) and overhead and field.triangles:
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
        if (speedup := field.device_speedup(ELEMENT, devices)) is not None
    ]
    return Measured(numbers, [] if numbers else [MissingCase("all fields", "this campaign ran on one device")])


def _space_quantity(
    degree: int, number: Callable[[WidthTimes], float | None], variants: JudgedBy = "as_published"
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


def _lead(width: int) -> Callable[[WidthTimes], float | None]:
    """Return a function that gives the time of the fastest other width over the time of the given width."""

    def lead_of(times: WidthTimes) -> float | None:
        other_times = [
            time
            for other_width in WIDTHS[times.degree]
            if other_width != width and (time := times.of_width(other_width))
        ]
        fastest: Time | None = min(other_times, key=lambda time: time.seconds, default=None)
        return ratio_of(fastest, times.of_width(width))

    return lead_of


def _gain(width: int) -> Callable[[WidthTimes], float | None]:
    return lambda times: times.gain(width)


def _largest_gain(*widths: int) -> Callable[[WidthTimes], float | None]:
    def gain(times: WidthTimes) -> float | None:
        return max((ratio for width in widths if (ratio := times.gain(width)) is not None), default=None)

    return gain


def _shared_bytes(times: WidthTimes) -> float | None:
    """Shared memory per region with the full width."""
    rows = times.case.searched.select(method=VECTOR.key, vector_width=full_width(times.degree))
    sizes = [row.shared_bytes / row.regions_per_block for row in rows if row.shared_bytes and row.regions_per_block]
    return min(sizes, default=None)


def _over_variance(data: ClaimFields) -> Measured:
    """The per-element method's speedup at high variance over that at low variance, for each degree and mesh size."""
    speedups: dict[str, dict[str, CaseNumber]] = {}
    for item in data.fields.published.tables.get("sizes", []):
        field = data.fields.plane.get(item["problem"])
        if field and (numbers := _element_over_point(field, data.variants).numbers):
            speedups.setdefault(f"{item['printed']}, P = {item['degree']}", {})[item["variance"]] = numbers[0]
    pairs = {name: (of["high"].value, of[LOW_VARIANCE].value) for name, of in speedups.items() if len(of) > 1}
    numbers = [CaseNumber(high / low, name) for name, (high, low) in pairs.items()]
    missing = [] if numbers else [MissingCase("meshes of both variances", "not timed with both methods")]
    return Measured(numbers, missing)


def _rate_by_degree(data: ClaimFields) -> Measured:
    """The per-element method's largest rate for P = 3 over that for P = 1, at low variance."""
    rates = [_plane_quantity(_element_rate, "most", degree=degree, variance=LOW_VARIANCE) for degree in (3, 1)]
    numbers = [rate.measure(data).numbers for rate in rates]
    if not all(numbers):
        return Measured([], [MissingCase("P = 1 and P = 3", "not both timed")])
    cubic, linear = (max(number.value for number in found) for found in numbers)
    return Measured([CaseNumber(cubic / linear, "low variance")])


def _regions_a_point(degree: int) -> int:
    """Return the tetrahedra that a point's filter meets: 6 in each of 3k + 2 hexahedra a direction (section 4.2)."""
    return 6 * (3 * degree + 2) ** 3


def _faster_widths(times: WidthTimes) -> float | None:
    """Return the share of the vector widths above 1 that are faster than no vectorization."""
    none, widths = times.of_width(1), [width for width in WIDTHS[times.degree] if width > 1]
    ratios = [ratio for width in widths if (ratio := ratio_of(none, times.of_width(width))) is not None]
    return sum(ratio > 1 for ratio in ratios) / len(ratios) if ratios else None


def _gain_of_best(times: WidthTimes) -> float | None:
    return times.best_gain[1] if times.best_gain else None


QUANTITIES: ClaimQuantities[ClaimFields] = {
    "tests_ratio": _plane_quantity(_tests, "arithmetic mean", degree=1, variance=LOW_VARIANCE),
    "element_over_point_low_p3": _plane_quantity(_element_over_point, "median", degree=3, variance=LOW_VARIANCE),
    "element_over_point_high": _plane_quantity(_element_over_point, "median", variance="high"),
    "element_over_point": _plane_quantity(_element_over_point, "median"),
    "element_high_over_low": Quantity(_over_variance, "median"),
    "rate_p3_over_p1": Quantity(_rate_by_degree),
    "gflops_p1": _plane_quantity(_element_rate, "most", degree=1, variance=LOW_VARIANCE),
    "gflops_p2": _plane_quantity(_both_rates, "mean", degree=2, variance=LOW_VARIANCE),
    "gflops_p3": _plane_quantity(_both_rates, "mean", degree=3, variance=LOW_VARIANCE),
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
    "gain_p2_48_64": _space_quantity(2, _largest_gain(48, 64)),
    "shared_bytes_p1": _space_quantity(1, _shared_bytes, "none"),
    "shared_bytes_p2": _space_quantity(2, _shared_bytes, "none"),
}


@table(STUDY_NAME, "table-claims", title="The paper’s claims, and the verdict on each", numbering=f"text of {CITED}")
def claims(campaign: Campaign, published: Published) -> Table:
    def data(source: Campaign, variants: JudgedBy) -> ClaimFields:
        return ClaimFields(TargetData.of(source, published), variants)

    return claims_table(campaign, load_claims(STUDY_NAME), QUANTITIES, data)
