"""The tables of the text beside ours (3.1, 4.1), and our tables of times, errors, memory, searches and targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

from repro.codegen.targets import TARGETS
from repro.config.models import StudySettings
from repro.results.campaign_data import Campaign, fastest_time, one_line
from repro.results.problem_rows import PROBLEM, join_sentences, measurement_note, unavailable_note
from repro.results.published import Published, Record
from repro.results.registry import table
from repro.results.tables import (
    Cell,
    Column,
    Measured,
    Table,
    count,
    digits,
    from_rows,
    percent,
    ratio,
    share,
    speedup,
    target_columns,
    target_line,
    wanted_on,
)
from repro.studies.dg_postprocessing import (
    CELLS_CONTRADICT,
    COUNTED_DEGREE,
    FILTER_CLOCK,
    GATHER,
    HOST_CLOCK,
    MAX_LOCAL_TRIANGLES,
    PAPER,
    PATCHES,
    PRODUCT_CLOCK,
    STUDY,
)
from repro.studies.dg_postprocessing.ids import SPACES, own_region_ids, paper_region_ids, region_point
from repro.studies.dg_postprocessing.metrics import Errors, contour_formula, gauss_points, peak_gflops, region_features
from repro.studies.dg_postprocessing.results import (
    ATOMIC,
    ELEMENT,
    ELEMENT_TUNED,
    FIELD_COLUMNS,
    GIGA,
    METHODS,
    NO_DEVICES,
    OURS,
    POINT,
    POINT_TUNED,
    QUANTITIES,
    REGION_CLOCK,
    Filtering,
    all_filterings,
    convergence_orders,
    device_counts,
    device_speedup,
    device_time,
    digits_cell,
    field_cells,
    field_function,
    filtered_errors,
    filtered_row,
    gain_cell,
    gathered_speedup,
    local_errors,
    local_row,
    method_milli_cell,
    milli_cell,
    missing_errors,
    missing_local_errors,
    ratio_summary,
    scientific_cell,
    target_values,
    test_counts,
    unfiltered_errors,
    width_times,
)
from repro.tuning.evaluation import NOTHING_FOUND, SEEDS, Array, Evaluation, evaluate, sample_note
from repro.tuning.recordings import Recording, recordings

RATED_METHODS = (POINT, ELEMENT, OURS)
COMPARED_METHODS = (POINT, ELEMENT, POINT_TUNED, ELEMENT_TUNED, ATOMIC)


@table(STUDY, "table-filters", title="Filtering, field by field", numbering="ours")
def filters(campaign: Campaign, published: Published) -> Table:
    """A line a field; geometric means and the least of ratios below."""
    fields = all_filterings(campaign, published)
    peaks = any(field.peak for field in fields)
    columns = (
        *FIELD_COLUMNS,
        *(Column(f"{way.key}_ms", way.title, "ms") for way in METHODS),
        Column("chosen", "ours", numeric=False),
        Column("element_over_point", "per element over per point", "speedup"),
        *(Column(f"{way.key}_over_ours", f"ours over {way.title}", "speedup") for way in COMPARED_METHODS),
        *(Column(f"{way.key}_mpoints", way.title, "M points/s") for way in RATED_METHODS),
        *(Column(f"{way.key}_gflops", way.title, "GFLOPS") for way in RATED_METHODS),
        *(Column(f"{way.key}_peak", way.title, "of the peak") for way in RATED_METHODS if peaks),
    )
    rows = [_filter_row(field, peaks) for field in fields]
    caption = [
        "A field filtered at its quadrature points. Per point and per element: the paper’s algorithms, a block or a",
        "patch a multiprocessor and its sizes of cells; tuned: the same with other numbers and sizes; ours: contours,",
        "per point. Atomics: per element without copies, all patches add to one solution by atomic operations, in",
        "any order, so that the last bits of its values differ from launch to launch; those of all other ways do not.",
        "Each with the fastest threads and sizes that the search chose. Speedups are above 1 where the",
        "first is the faster.",
        contour_formula(),
        peak_sentence(fields),
        measurement_note(campaign, FILTER_CLOCK),
        unavailable_note(campaign),
    ]
    keys = ("element_over_point", *(f"{way.key}_over_ours" for way in COMPARED_METHODS))
    return Table(columns, rows, join_sentences(caption), ratio_summary(columns, rows, keys))


def peak_sentence(fields: list[Filtering]) -> str:
    """Return the sentence about the device's largest rate in double precision."""
    peak = next((field.peak for field in fields if field.peak), None)
    if peak is None:
        return "The device’s largest rate in double precision is not known, so that no share of it is printed."
    rate = f"{peak:,.0f}".replace(",", "\N{NO-BREAK SPACE}")
    return f"Of the peak: of {rate} GFLOPS, two operations a cycle and lane at the device’s highest clock."


def _filter_row(field: Filtering, peaks: bool) -> tuple[Cell, ...]:
    ours = field.time(OURS)
    timed = any(field.time(way) for way in METHODS)
    times = {way: field.time(way) for way in RATED_METHODS}
    return (
        *field_cells(field, "" if timed else field.case.why_not()),
        *(method_milli_cell(field, way) for way in METHODS),
        Cell(ours.name if ours else None),
        speedup(times[POINT], times[ELEMENT]),
        *(speedup(field.time(way), ours) for way in COMPARED_METHODS),
        *(digits_cell(field.million_points(time)) for time in times.values()),
        *(digits_cell(field.gflops(time)) for time in times.values()),
        *(percent(field.peak_share(time)) for time in times.values() if peaks),
    )


#: Numbers of fields where nothing was timed, so that the table has its columns.
DEFAULT_FIELD_COUNTS = (1, 4, 16)


@table(STUDY, "table-matrix", title="The filter as a matrix", numbering="ours")
def matrix(campaign: Campaign, published: Published) -> Table:
    """A line a field; geometric means and the least of ratios below."""
    fields = all_filterings(campaign, published)
    counts = sorted({number for field in fields for number in field.fields}) or list(DEFAULT_FIELD_COUNTS)
    columns = (
        *FIELD_COLUMNS,
        Column("pairs", "pairs"),
        Column("gigabytes", "GB"),
        Column("direct_ms", "direct, ms"),
        Column("make_ms", "ms", "made in"),
        Column("make_over_direct", "over direct", "made in"),
        *(Column(f"apply_{number}_ms", f"{number}", "product with fields, ms") for number in counts),
        *(Column(f"direct_over_apply_{number}", f"{number}", "direct over product, a field") for number in counts),
        Column("sixteen_over_one", f"{counts[-1]} fields over {counts[0]}"),
        Column("floor_ms", "floor, ms"),
        Column("floor_share", "of the floor"),
        *(Column(f"library_{number}_ms", f"{number}", "library’s product, ms") for number in counts),
        *(Column(f"over_library_{number}", f"{number}", "ours over the library") for number in counts),
        Column("routine", "routine", numeric=False),
        Column("pays_from", "pays from field"),
    )
    rows = [_matrix_row(field, counts) for field in fields]
    caption = [
        "The filter as a matrix with a block of modes a pair of a point and a triangle, applied to several fields at",
        "once. Direct: the fastest by contours. Made in: counted, its memory taken, and computed. Direct over product:",
        "of so many fields, one after the other filtered directly. Floor: a kernel that only reads the bytes of the",
        "matrix and of a field and writes those of a result; of the floor: its time over that of the product. Library:",
        "the fastest routine that multiplies with the same matrix as scalars in CSR, the routine that of one field;",
        "ours over the library: how many times as fast our product is. Pays from: the first field that making the",
        "matrix and applying it to one field after the other is faster from than filtering each directly; none where",
        "a product is not faster.",
        measurement_note(campaign, PRODUCT_CLOCK),
        f"Filtering directly by the {FILTER_CLOCK} clock, making by the {HOST_CLOCK} clock.",
        unavailable_note(campaign),
    ]
    keys = tuple(f"{ratios}_{number}" for ratios in ("direct_over_apply", "over_library") for number in counts)
    return Table(columns, rows, join_sentences(caption), ratio_summary(columns, rows, keys))


def _matrix_row(field: Filtering, counts: list[int]) -> tuple[Cell, ...]:
    make, direct = field.make, field.time(OURS)
    applies = [field.apply(number) for number in counts]
    libraries = [field.library(number) for number in counts]
    of_one = libraries[0]
    why_no_library = (field.why_no_matrix("library"),) if make else ()
    over = [
        number * direct.seconds / timed.seconds if direct and timed else None
        for number, timed in zip(counts, applies, strict=True)
    ]
    nbytes, pays = field.number("matrix_bytes"), field.pays_from
    return (
        *field_cells(field, "" if make else field.why_no_matrix()),
        count(field.number("matrix_pairs")),
        _gigabytes(nbytes),
        method_milli_cell(field, OURS),
        milli_cell(make),
        speedup(make, direct),
        *map(milli_cell, applies),
        *map(digits_cell, over),
        speedup(applies[-1], applies[0]),
        milli_cell(field.floor),
        share(field.floor, field.apply(1)),
        *(milli_cell(timed, why_no_library) for timed in libraries),
        *(speedup(*times) for times in zip(libraries, applies, strict=True)),
        Cell(of_one.row["routine"] if of_one else None),
        count(pays),
    )


def _gigabytes(nbytes: int | None) -> Cell:
    if nbytes is None:
        return Cell()
    value = nbytes / GIGA
    return Cell(value, f"{value:.3f}" if value < 1 else f"{value:.1f}")


@table(STUDY, "table-devices", title="Filtering over several devices", numbering=f"Figure 3.12 of {PAPER}")
def devices(campaign: Campaign, published: Published) -> Table:
    """A line a field; geometric means and the least of speed-ups below."""
    fields = all_filterings(campaign, published)
    numbers = device_counts(fields)
    one = (Column("ours_ms", "ours, ms", "1 device"), Column("element_ms", "per element, ms", "1 device"))
    columns = [*FIELD_COLUMNS, *(one if numbers else ())]
    speedups = []
    for number in numbers:
        group = f"{number} devices"
        columns += [
            Column(f"ours_{number}_ms", "ours, ms", group),
            Column(f"ours_{number}", "×", group),
            Column(f"gather_{number}_ms", "gather, ms", group),
            Column(f"gathered_{number}", "with it, ×", group),
            Column(f"element_{number}_ms", "per element, ms", group),
            Column(f"element_{number}", "×", group),
        ]
        speedups += [f"ours_{number}", f"gathered_{number}", f"element_{number}"]
    rows = [_device_row(field, numbers) for field in fields]
    caption = [
        "A field filtered over several devices of one host, and speed-ups over one of them by the same way, timed in",
        "the same rounds. Ours: the points are dealt cell by cell in parts of equal work, as operations are counted,",
        "all devices have the whole field, and values stay where they are computed. Gather: bringing them to the",
        "first device, by itself; with it: the speed-up of both, one after the other. Per element: the paper’s, with",
        "as many patches a device as one alone has, whose second stage adds up on the first device what all have.",
        "" if numbers else NO_DEVICES,
        measurement_note(campaign, FILTER_CLOCK),
        unavailable_note(campaign),
    ]
    return Table(tuple(columns), rows, join_sentences(caption), ratio_summary(columns, rows, speedups), not numbers)


def _device_row(field: Filtering, numbers: Sequence[int]) -> tuple[Cell, ...]:
    timed = any(device_time(field, OURS, number) or device_time(field, ELEMENT, number) for number in numbers)
    why = "" if timed or not numbers else "not measured over several devices"
    cells = [*field_cells(field, why)]
    if numbers:
        cells += [milli_cell(device_time(field, OURS, 1)), milli_cell(device_time(field, ELEMENT, 1))]
    for number in numbers:
        cells += [
            milli_cell(device_time(field, OURS, number)),
            ratio(device_speedup(field, OURS, number)),
            milli_cell(device_time(field, OURS, number, GATHER)),
            ratio(gathered_speedup(field, number)),
            milli_cell(device_time(field, ELEMENT, number)),
            ratio(device_speedup(field, ELEMENT, number)),
        ]
    return tuple(cells)


#: What errors are of, by the keys of columns.
ERROR_TITLES = {"dg": "dG", "filtered": "filtered"}


@table(STUDY, "table-errors", title="Errors before and after the filter", numbering="ours")
def accuracy(campaign: Campaign, published: Published) -> Table:
    """A line a field: both errors of dG and of the filtered field, their orders, and the one over the other."""
    fields = all_filterings(campaign, published)
    columns = (
        *FIELD_COLUMNS,
        Column("function", "function", numeric=False),
        Column("mean_edge", "mean edge"),
        *(
            Column(f"{key}_{column}", text, title)
            for key, title in ERROR_TITLES.items()
            for column, text in (("l2", "L²"), ("l2_order", "L² order"), ("max", "max"), ("max_order", "max order"))
        ),
        Column("l2_gain", "L²", "dG over filtered"),
        Column("max_gain", "max", "dG over filtered"),
    )
    of_before, of_filtered = convergence_orders(fields, unfiltered_errors), convergence_orders(fields, filtered_errors)
    rows = [_error_row(field, of_before, of_filtered) for field in fields]
    caption = [
        "How far a field is from the function that it is the L² projection of, and how far the field that the filter",
        "makes of it, with h the longest edge: in L² over the domain, by the quadrature whose points are filtered at,",
        "and the largest error at these points. A projection errs less there than elsewhere (by finer quadrature its",
        "error in L² is about 1.3 times as large), so that gains are understated. The filtered values are those of",
        "the kernels. Order: the logarithm of the ratio of errors over that of mean edges, against the next coarser",
        "mesh of the same family and degree in this campaign. dG over filtered: above 1 the filter has brought the",
        "field nearer to the function. A stencil is 3P + 1 longest edges wide: on meshes so coarse that it is as wide",
        "as a wave, or whose triangles differ much in size, the filter takes more away than errors.",
        unavailable_note(campaign),
    ]
    return Table(columns, rows, join_sentences(caption))


def _error_row(
    field: Filtering, of_before: Mapping[str, Errors], of_filtered: Mapping[str, Errors]
) -> tuple[Cell, ...]:
    own, after, name = unfiltered_errors(field), filtered_errors(field), field.line.problem
    row = filtered_row(field)
    edge = field.facts.get("mean_edge")
    return (
        *field_cells(field, "" if after else missing_errors(field)),
        Cell(field_function(field), keys=(str(row["key"]),) if row else ()),
        Cell() if edge is None else Cell(edge, f"{edge:.4f}"),
        *_error_cells(own, of_before.get(name)),
        *_error_cells(after, of_filtered.get(name)),
        gain_cell(own.l2 / after.l2 if own and after and after.l2 else None),
        gain_cell(own.largest / after.largest if own and after and after.largest else None),
    )


def _error_cells(errors: Errors | None, order: Errors | None) -> tuple[Cell, ...]:
    return (
        scientific_cell(errors.l2 if errors else None),
        gain_cell(order.l2 if order else None),
        scientific_cell(errors.largest if errors else None),
        gain_cell(order.largest if order else None),
    )


#: The two that are compared, by the keys of columns.
SCALE_TITLES = {"whole": "one h", "local": "local h"}


@table(STUDY, "table-local", title="An h of each point", numbering="ours")
def by_point(campaign: Campaign, published: Published) -> Table:
    """A line a field on a mesh that is not too large for it."""
    fields = [field for field in all_filterings(campaign, published) if (field.triangles or 0) <= MAX_LOCAL_TRIANGLES]
    columns = (
        *FIELD_COLUMNS,
        Column("longest_edge", "longest edge", "h"),
        Column("mean_scale", "local, mean", "h"),
        Column("dg_l2", "dG", "L² error"),
        *(Column(f"{key}_l2", title, "L² error") for key, title in SCALE_TITLES.items()),
        Column("l2_gain", "one over local", "L² error"),
        Column("dg_max", "dG", "largest error"),
        *(Column(f"{key}_max", title, "largest error") for key, title in SCALE_TITLES.items()),
        Column("max_gain", "one over local", "largest error"),
        *(Column(f"{key}_pairs", title, "pairs at a point") for key, title in SCALE_TITLES.items()),
        *(Column(f"{key}_ms", title, "ms") for key, title in SCALE_TITLES.items()),
        Column("speedup", "one over local", "ms"),
    )
    rows = [_local_row(field) for field in fields]
    most = f"{MAX_LOCAL_TRIANGLES:,}".replace(",", "\N{NO-BREAK SPACE}")
    caption = [
        "Local h: at a vertex the longest edge of the triangles around it, linear between the three of a triangle. One",
        "h: the longest edge of the mesh, as the text has it. Errors as in table-errors, pairs as in table-work. Times",
        "are of the paper’s per-point way with tuned cells and blocks, and of the same kernel with an h of each point:",
        "both clip triangles, since contours on a device need triangles that are no wider than h. Above 1 local h is",
        f"the better. Of meshes of up to {most} triangles.",
        measurement_note(campaign, FILTER_CLOCK),
        unavailable_note(campaign),
    ]
    return Table(columns, rows, join_sentences(caption))


def _local_row(field: Filtering) -> tuple[Cell, ...]:
    own, one, local, row = unfiltered_errors(field), filtered_errors(field), local_errors(field), local_row(field) or {}
    timed, whole = fastest_time([row], FILTER_CLOCK) if row else None, field.time(POINT_TUNED)
    points = field.points
    pairs = [
        number / points if number and points else None for number in (field.number("pairs"), row.get("local_pairs"))
    ]
    return (
        *field_cells(field, "" if local else missing_local_errors(field)),
        *(
            Cell() if h is None else Cell(h, f"{h:.4f}")
            for h in (field.facts.get("longest_edge"), row.get("mean_scale"))
        ),
        *(scientific_cell(errors.l2 if errors else None) for errors in (own, one, local)),
        gain_cell(one.l2 / local.l2 if one and local and local.l2 else None),
        *(scientific_cell(errors.largest if errors else None) for errors in (own, one, local)),
        gain_cell(one.largest / local.largest if one and local and local.largest else None),
        *map(digits_cell, pairs),
        method_milli_cell(field, POINT_TUNED),
        milli_cell(timed),
        speedup(whole, timed),
    )


NO_COPIES = "its record has no copies: build the problem again"


@table(STUDY, "table-memory", title="Memory of the per-element way", numbering=f"Figure 3.7 of {PAPER}")
def memory(campaign: Campaign, published: Published) -> Table:
    """A line a field: copies beside one solution over its points, by the number of patches."""
    fields = all_filterings(campaign, published)
    counts = patch_counts(fields)
    columns = (
        *FIELD_COLUMNS,
        Column("spread", "longest over mean edge"),
        *(Column(f"overhead_{count}", f"{count} patches", "copies over points") for count in counts),
        Column("overhead_measured", campaign.column, "copies over points"),
    )
    rows = [_memory_row(field, counts) for field in fields]
    caption = [
        "Memory that the per-element way takes beside one solution: the copies that all patches have of points around",
        f"their triangles, less one of each, over the points. {PATCHES} patches are those of Figure 3.7 of {PAPER},",
        "which prints no number: only that the overhead falls as meshes grow. 132: a patch a multiprocessor of an",
        "H200. These do not depend on the device; the last column is what the paper’s way took on this one, a patch a",
        "multiprocessor. A patch has copies of all points of the cells that its triangles’ stencils reach, so that its",
        "share is about (1 + 4 w)² - 1 for 16 patches and a stencil w wide in a domain of width 1.",
        unavailable_note(campaign),
    ]
    return Table(columns, rows, join_sentences(caption))


def patch_counts(fields: list[Filtering]) -> list[int]:
    """Return the numbers of patches that copies were counted for."""
    counted = {int(count) for field in fields for count in field.facts.get("overhead", {})}
    return sorted(counted) or [PATCHES]


def overhead(field: Filtering, patches: int) -> float | None:
    """Return the copies beside one solution over its points; None where they were not counted."""
    value = field.facts.get("overhead", {}).get(str(patches))
    return None if value is None else float(value)


def _memory_row(field: Filtering, counts: list[int]) -> tuple[Cell, ...]:
    facts, timed = field.facts, field.time(ELEMENT)
    copies = timed.row["copies"] if timed else None
    measured = copies / field.points - 1 if copies and field.points else None
    spread = facts["longest_edge"] / facts["mean_edge"] if facts else None
    return (
        *field_cells(field, "" if facts.get("overhead") else NO_COPIES),
        Cell() if spread is None else Cell(spread, f"{spread:.2f}"),
        *(percent(overhead(field, count)) for count in counts),
        from_rows(percent(measured), timed),
    )


THOUSAND = 1e3
#: What is counted, by its column of a row.
WORK_TITLES = {"pairs": "pairs", "subtriangles": "sub-triangles", "segments": "segments"}


@table(STUDY, "table-work", title="Work at a point", numbering="ours")
def work(campaign: Campaign, published: Published) -> Table:
    """A line a field, numbers of a point in the mean."""
    columns = (
        *FIELD_COLUMNS,
        *(Column(key, title, "at a point") for key, title in WORK_TITLES.items()),
        Column("evaluations", "evaluations", "at a point"),
        Column("kilo_operations", "1000 operations", "at a point"),
        Column("bytes", "bytes at the least", "at a point"),
        Column("intensity", "operations a byte"),
    )
    rows = [_work_row(field) for field in all_filterings(campaign, published)]
    caption = [
        "What filtering at a point takes, in the mean of 256 points drawn at random: pairs of the point and an image",
        "of a triangle that meets its stencil; triangles that clipping to the stencil’s squares leaves of them, which",
        "the paper’s ways integrate on; segments of their edges between knot lines, which contours integrate along,",
        "and evaluations of the integrand there. Bytes at the least: corners and modes of all triangles and all points",
        "read once, a value written.",
        contour_formula(),
        unavailable_note(campaign),
    ]
    return Table(columns, rows, join_sentences(caption))


def _work_row(field: Filtering) -> tuple[Cell, ...]:
    def each(column: str) -> float | None:
        number = field.number(column)
        return None if number is None or not field.points else number / field.points

    segments, operations, nbytes = each("segments"), each("operations"), each("least_bytes")
    evaluations = None if segments is None or field.degree is None else segments * gauss_points(field.degree)
    intensity = operations / nbytes if operations is not None and nbytes else None
    return (
        *field_cells(field, "" if field.points else field.case.why_not()),
        *(digits_cell(each(column)) for column in WORK_TITLES),
        digits_cell(evaluations),
        digits_cell(None if operations is None else operations / THOUSAND),
        digits_cell(nbytes),
        digits_cell(intensity),
    )


TEST_TITLES = {"point": "per point", "element": "per element"}
NO_COUNTS = "its record has no counts: build the problem again"


@table(STUDY, "table-3-1", title="Intersection tests", numbering=f"Table 3.1 of {PAPER}")
def tests(campaign: Campaign, published: Published) -> Table:
    """A line a mesh of degree 1: published counts, ours, and ours over the published."""
    theirs = {item["problem"]: item for item in published.tables.get("tests", [])}
    columns = (
        *FIELD_COLUMNS,
        Column("printed", "mesh", "published", numeric=False),
        *(Column(f"published_per_{key}", title, "published") for key, title in TEST_TITLES.items()),
        Column("published_ratio", "ratio", "published"),
        *(Column(f"per_{key}", title, "ours") for key, title in TEST_TITLES.items()),
        Column("ratio", "ratio", "ours"),
        *(Column(f"{key}_over_published", title, "ours over published") for key, title in TEST_TITLES.items()),
    )
    fields = {field.line.problem: field for field in all_filterings(campaign, published)}
    rows = [_test_row(fields.get(name), item) for name, item in theirs.items()]
    rows += [
        _test_row(field, None)
        for name, field in fields.items()
        if name not in theirs and (field.degree == COUNTED_DEGREE or field.degree is None)
    ]
    caption = [
        f"Pairs of a point and a triangle that are tested for intersection, P = {COUNTED_DEGREE}, published in",
        f"Table 3.1 of {PAPER} and ours; they do not depend on the device. Per point: triangles whose centroids lie in",
        "the cells around the stencil, with a halo of one cell; per element: points in the cells around the triangle’s",
        "box (eq. 3.1). Ratio: per point over per element. The text names neither the family of Table 3.1’s meshes nor",
        "its points: with six points a triangle and stencils that wrap, our meshes of low variance give its counts, so",
        "that they stand beside it; the published meshes are not public, and have about as many triangles as ours.",
        CELLS_CONTRADICT,
        unavailable_note(campaign),
    ]
    return Table(columns, rows, join_sentences(caption))


def _test_row(field: Filtering | None, item: Record | None) -> tuple[Cell, ...]:
    """Return a line of a mesh that is published, or in the campaign, or both."""
    ours = test_counts(field)
    theirs = (int(item["per_point"]), int(item["per_element"])) if item else None
    if field:
        first = field_cells(field, "" if ours else NO_COUNTS)
    else:
        assert item is not None
        first = (Cell(item["problem"], notes=("not in this campaign",)), Cell(), Cell(), Cell())
    return (
        *first,
        Cell(item["printed"] if item else None),
        *map(count, theirs or (None, None)),
        Cell(float(item["ratio"]), item["ratio"]) if item else Cell(),
        *map(count, ours or (None, None)),
        _fraction(ours[0] / ours[1] if ours else None),
        *(_fraction(ours[at] / theirs[at] if ours and theirs else None) for at in range(2)),
    )


def _fraction(value: float | None) -> Cell:
    return Cell() if value is None else Cell(value, f"{value:.3f}")


NOT_SAID = "the device does not say"
KILO_UNIT, MEGA_UNIT, GIGA_UNIT = 1e3, 1e6, 1e9


@table(STUDY, "table-4-1", title="The machine", numbering=f"Table 4.1 of {PAPER}")
def machine(campaign: Campaign, published: Published) -> Table:
    """A line a property: the paper's CPU, its GPU, and the device of the campaign."""
    records = published.tables.get("machine", [])
    cpu, gpu = next(((item["cpu"], item["value"]) for item in records if item["quantity"] == "model"), ("", ""))
    columns = (
        Column("quantity", "", numeric=False),
        Column("unit", "unit", numeric=False),
        Column("cpu", cpu, "published"),
        Column("gpu", gpu, "published"),
        Column("ours", campaign.column, "ours"),
    )
    measured = _device_properties(campaign)
    rows = []
    for item in records:
        if item["quantity"] == "model":
            continue
        value = measured.get(item["quantity"])
        if value is None:
            cell = Cell(notes=(NOT_SAID,))
        else:
            cell = Cell(value, f"{value:.0f}" if value.is_integer() else digits(value))
        head = Cell(item["quantity"]), Cell(item["unit"])
        rows.append((*head, *(Cell(float(item[key]), item[key]) for key in ("cpu", "value")), cell))
    caption = [
        "Published: as printed. Ours: what the device says of itself, the cache its last level; its bandwidth is that",
        "of the fastest copy of the campaign, which reads and writes, and no peak. Clock: the highest; peak: of two",
        "operations a cycle and a lane for double precision. The text has CUDA 5.0 in one place, nvcc 5.5 in another.",
    ]
    return Table(columns, rows, join_sentences(caption))


def _device_properties(campaign: Campaign) -> dict[str, float | None]:
    """Return what is known of the campaign's device, by the quantities of the paper's table."""
    record: Mapping[str, Any] = next(iter(campaign.environments.values()), {})
    copies = campaign.report[(campaign.report["kind"] == "copy") & (campaign.report["status"] == "ok")]
    speeds = (copies["bytes"] / copies[f"{REGION_CLOCK}_median"]).dropna()
    cache = record.get("cache_bytes")
    multiprocessors, clock, peak = record.get("multiprocessors"), record.get("max_sm_clock_mhz"), peak_gflops(record)
    return {
        "multiprocessors": float(multiprocessors) if multiprocessors else None,
        "clock": clock / KILO_UNIT if clock else None,
        "cache": cache / MEGA_UNIT if cache else None,
        "peak, double precision": peak / KILO_UNIT if peak else None,
        "bandwidth": float(speeds.max()) / GIGA_UNIT if len(speeds) else None,
    }


#: A problem counts as searched in full if it has this share of the kernels that fit on the device.
COMPLETE_SHARE = 0.7


def complete_recordings(campaign: Campaign, space: str) -> list[Recording]:
    """Return what was searched in full of a space, `paper` or `extended`, by problem.

    Fields of one degree have kernels in common, and others none. Where the campaign does not say what its device is,
    every search counts.
    """
    records: dict[str, dict[str, Any]] = {
        record.name: {"kind": record.kind, "statistics": record.statistics, "dimension": record.dimension,
                      "cells": record.cells, "degree": record.degree}
        for record in campaign.problems.values() if record.dimension == 3
    }  # fmt: skip
    rows = campaign.search[campaign.search["space"] == space]
    searches = recordings(rows[rows["problem"].isin(list(records))], records, campaign.environments, region_features)
    names = {str(environment.get("target")) for environment in campaign.environments.values()}
    target = next((TARGETS[name] for name in names if name in TARGETS), None)
    ids = paper_region_ids if space == SPACES[0] else own_region_ids

    def fitting(one: Recording) -> int:
        return len(ids(records[one.problem]["degree"], target)) if target else 0

    return [one for one in searches if len(one.seconds) >= COMPLETE_SHARE * fitting(one)]


def evaluated_searches(campaign: Campaign, space: str, budget: float) -> list[Evaluation]:
    """Replay predicted and random searches of a budget on what was searched in full of a space."""
    return evaluate(complete_recordings(campaign, space), budget, region_point)


BUDGET = float(StudySettings.model_fields["budget"].default)
SPACE_TITLES = {"paper": "the paper’s kernels", "extended": "ours"}
NOTHING_TO_LEARN = "no other field of this degree was searched in full: there is nothing to learn from"


@table(STUDY, "table-predicted", title="Loss of the predicted search in space", numbering="ours")
def losses(campaign: Campaign, published: Published) -> Table:
    """A line a field on tetrahedra: loss in percent, left out of what the search learns from."""
    replays = {space: evaluated_searches(campaign, space, BUDGET) for space in SPACE_TITLES}
    judged = {space: {one.recording.problem: one for one in replays[space]} for space in SPACE_TITLES}
    columns = [PROBLEM, Column("degree", "P")]
    for space, title in SPACE_TITLES.items():
        columns.append(Column(f"{space}_variants", "kernels", title))
        columns.append(Column(f"{space}_tried", "tried", title))
        columns.append(Column(f"{space}_problem_unknown", "predicted", title))
        columns.append(Column(f"{space}_random", "random", title))
    rows = []
    for item in width_times(campaign, published):
        cases = [judged[space].get(item.line.problem) for space in SPACE_TITLES]
        if any(cases):
            rows.append((item.line.cell, Cell(item.degree), *(cell for case in cases for cell in _search_cells(case))))
    caption = [
        f"By how many percent the fastest kernel that `search: predicted` finds with {100 * BUDGET:g} % of them, at",
        "least one, is slower than the fastest of the exhaustive search, on recorded times. It has learnt from the",
        f"other fields of this campaign with the same degree; random: the mean over {SEEDS} samples of as many,",
        f"{100 * NOTHING_FOUND:g} at the most.",
        "Most times are the screening’s, of few launches; one below the best of the full protocol counts as no loss.",
        sample_note(replays.values()),
        measurement_note(campaign, "event", "the search"),
        "" if rows else "No field on tetrahedra of this campaign was searched in full.",
        unavailable_note(campaign),
    ]
    return Table(tuple(columns), rows, join_sentences(caption))


def _search_cells(one: Evaluation | None) -> tuple[Cell, ...]:
    if one is None:
        return (Cell(), Cell(), Cell(), Cell())
    predicted = Cell(notes=(NOTHING_TO_LEARN,)) if one.problem_unknown is None else _loss_cell(one.problem_unknown)
    return Cell(len(one.recording.seconds)), Cell(one.tried), predicted, _loss_cell(one.random)


def _loss_cell(curve: Array) -> Cell:
    share = float(curve[-1])
    return Cell(round(100 * share, 6), f"{100 * share:.1f}") if np.isfinite(share) else Cell(None, "none works")


#: Letters of a note that names fields without a number.
MAX_NOTE_LETTERS = 500


@table(STUDY, "table-targets", title="Targets, and what was reached", numbering="ours")
def targets(campaign: Campaign, published: Published) -> Table:
    """Each target with the wanted number, the measured one, and the worst field; or why there is none."""
    measured = target_values(campaign, published)
    caption = [
        "What was aimed at and what was reached, on the paper’s thirty fields: meshes of low and of high variance of",
        "five sizes, P = 1, 2, 3. Ours: filtering by contours. The paper’s per-element kernel: a patch a",
        "multiprocessor, its fastest block. The library’s product: its fastest routine for the same matrix as scalars",
        "in CSR. 3D: a list of 2^20 regions of its mesh of cubes, 10 each way. Reported: no number is wanted. Cases:",
        "how many fields have a number; where some have none, a verdict is of the others, and a note names what is",
        "missing.",
        contour_formula(),
        peak_sentence(all_filterings(campaign, published)),
        measurement_note(campaign, FILTER_CLOCK),
        f"Products with the matrix by the {PRODUCT_CLOCK} clock where a line does not say another, making it by the",
        f"{HOST_CLOCK} clock. Of direct filtering no other clock is recorded.",
        wanted_on(campaign),
        unavailable_note(campaign),
    ]
    rows = [_target_row(item, measured[item["quantity"]]) for item in published.targets if item["quantity"] in measured]
    return Table(target_columns(campaign), rows, join_sentences(caption))


def _target_row(item: Record, measured: Measured) -> tuple[Cell, ...]:
    """Return the line of a target."""
    quantity = QUANTITIES[item["quantity"]]
    return target_line(
        item,
        measured.numbers,
        at_most=quantity.at_most,
        statistic=median if quantity.statistic == "median" else None,
        cases=measured.cases,
        missing=one_line(measured.why_not, MAX_NOTE_LETTERS),
    )
