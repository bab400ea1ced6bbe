"""The dissertation's tables beside our numbers (3.1, 4.1), and our tables of times, errors, memory and targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from repro.bench.rows import median_column
from repro.codegen.targets import TARGETS
from repro.config.models import StudySettings
from repro.results.campaign_data import Campaign, Method
from repro.results.claims import target_device_note, targets_table
from repro.results.columns import (
    MEAN_AND_LEAST,
    MEGA,
    PROBLEM,
    count,
    name_of,
    number_cell,
    percent,
    printed_cell,
    ratio,
    share,
    speedup,
)
from repro.results.common_tables import SetupCosts, register_baselines, register_setup_costs
from repro.results.problem_lines import closing_notes, join_sentences, measurement_note, unavailable_note
from repro.results.published import Published, Record
from repro.results.registry import table
from repro.results.tables import Cell, Column, Table, digits, table_of
from repro.sparse.tuning_features import library_of
from repro.studies.dg_postprocessing import (
    CELLS_CONTRADICT,
    CITED,
    COUNTED_DEGREE,
    FILTER_CLOCK,
    GATHER,
    HOST_CLOCK,
    MAX_LOCAL_TRIANGLES,
    PRODUCT_CLOCK,
    STUDY_NAME,
)
from repro.studies.dg_postprocessing.claims import TARGET_QUANTITIES, field_cases, plane_fields
from repro.studies.dg_postprocessing.columns import (
    GIGA,
    KILO,
    L2,
    LARGEST,
    FieldCell,
    error_columns,
    error_gain_cell,
    field_columns,
    function_cell,
    gigabytes_cell,
    local_error_columns,
    method_milli_column,
    method_speedup_column,
    milli_column,
    million_points_cell,
    rate_columns,
    ratio_column,
)
from repro.studies.dg_postprocessing.ids import RegionId, own_region_ids, paper_region_ids
from repro.studies.dg_postprocessing.operands import contour_formula, peak_gflops
from repro.studies.dg_postprocessing.regions import region_features
from repro.studies.dg_postprocessing.results import (
    ATOMIC,
    ELEMENT,
    ELEMENT_TUNED,
    FLOOR,
    LOCAL_H,
    MAKE,
    METHODS,
    NO_DEVICES,
    OURS,
    POINT,
    POINT_TUNED,
    PRECISION,
    REGION_CLOCK,
    Filtering,
    WidthTimes,
    absent_filtering,
    all_filterings,
    device_counts,
    filtered_errors,
    library_product,
    local_errors,
    mean_scale,
    missing_errors,
    missing_local_errors,
    over_devices,
    product,
    published_tests,
    tuned_sentence,
    unfiltered_errors,
    width_times,
)
from repro.studies.dg_postprocessing.study import DgRow
from repro.tuning.recordings import Recording, recordings
from repro.tuning.strategies import NOTHING_FOUND, SEEDS, Array, Evaluation, evaluate, sample_note
from repro.words import PAPER

FILTER_COLUMNS: tuple[Column[Filtering], ...] = (
    *field_columns(lambda field: "" if any(field[method] for method in METHODS) else field.case.why_not()),
    *(method_milli_column(f"{method.key}_ms", method.title, "ms", method) for method in METHODS),
    Column("chosen", "ours", numeric=False, cell=lambda field: name_of(field[OURS])),
    method_speedup_column("element_over_point", "one block", "per element over per point", POINT, ELEMENT),
    method_speedup_column(
        "element_over_point_tuned", "tuned", "per element over per point", POINT_TUNED, ELEMENT_TUNED
    ),
    *(
        method_speedup_column(f"{method.key}_over_ours", method.title, "ours over", method, OURS)
        for method in (POINT_TUNED, ELEMENT_TUNED, ATOMIC)
    ),
    *rate_columns("mpoints", "M points/s", million_points_cell),
    *rate_columns("gflops", "GFLOPS", lambda field, time: number_cell(field.gflops(time))),
)
PEAK_COLUMNS = rate_columns("peak", "of the peak", lambda field, time: percent(field.peak_share(time)))


@table(
    STUDY_NAME, "table-filters", title="Filtering, field by field", numbering="ours", lead=("element_tuned_over_ours",)
)
def filters(campaign: Campaign, published: Published) -> Table:
    """One line for each field: times of the filtering methods and their ratios; means and minima below."""
    fields = all_filterings(campaign, published)
    columns = (*FILTER_COLUMNS, *(PEAK_COLUMNS if any(field.peak for field in fields) else ()))
    caption = [
        "A field filtered at its quadrature points. Per point and per element: the paper’s algorithms as published,",
        "with one block or patch per multiprocessor and its cell sizes; the text leaves the number of threads open.",
        tuned_sentence(fields),
        "Ours: contours, per point; its gain is over the tuned kernels, not over those with one block. Per element",
        "over per point, one block: to the letter, which leaves most of a large device idle. Atomics: per element",
        "without copies; all patches add to one solution by atomic operations, in any order, so the last bits differ",
        "from launch to launch. All other methods are bitwise reproducible. Each method uses its fastest variant in",
        "the search. Speedups are above 1 if the first method is faster.",
        contour_formula(),
        peak_sentence(fields),
        closing_notes(campaign, FILTER_CLOCK),
    ]
    return table_of(columns, fields, join_sentences(caption), MEAN_AND_LEAST)


def peak_sentence(fields: list[Filtering]) -> str:
    """Return the sentence about the device's peak rate in double precision."""
    peak = next((field.peak for field in fields if field.peak), None)
    if peak is None:
        return "The device’s peak rate in double precision is unknown, so no share of it is printed."
    rate = f"{peak:,.0f}".replace(",", "\N{NO-BREAK SPACE}")
    return f"Of the peak: share of {rate} GFLOPS, two operations per cycle and lane at the device’s highest clock."


#: Numbers of fields to use if no product was timed, so that the table still has its columns.
DEFAULT_FIELD_COUNTS = (1, 4, 16)
MATRIX_LEAD = ("over_library_1", "direct_over_apply_1")


@table(STUDY_NAME, "table-matrix", title="The filter as a matrix", numbering="ours", lead=MATRIX_LEAD)
def matrix(campaign: Campaign, published: Published) -> Table:
    """One line for each field: times of making and applying the filter matrix, and ratios; means and minima below."""
    fields = all_filterings(campaign, published)
    counts = sorted({number for field in fields for number in field.field_counts}) or list(DEFAULT_FIELD_COUNTS)
    caption = [
        "The filter as a matrix, with one block of modes per pair of a point and a triangle, applied to several fields",
        "at once. Direct: the fastest contours kernel. Made in: time to count, allocate and compute the matrix. Direct",
        "over product: filtering that many fields directly, one after the other, over one product. Floor: a kernel",
        "that only reads the bytes of the matrix and a field and writes those of a result; of the floor: its time over",
        "the product’s. Library: its fastest routine for the same matrix as scalars in CSR; the routine is named for",
        "one field. Ours over the library: speedup of our product. Pays from: the number of fields from which making",
        "the matrix and applying it is faster than filtering each field directly; empty if the product is not faster.",
        measurement_note(campaign, PRODUCT_CLOCK),
        f"Direct filtering is timed by the {FILTER_CLOCK} clock, making the matrix by the {HOST_CLOCK} clock.",
        unavailable_note(campaign),
    ]
    return table_of(_matrix_columns(counts), fields, join_sentences(caption), MEAN_AND_LEAST)


def _matrix_columns(counts: Sequence[int]) -> tuple[Column[Filtering], ...]:
    one_field, many_fields, last_over_first = (
        product(counts[0]),
        product(counts[-1]),
        f"{counts[-1]} fields over {counts[0]}",
    )

    def over_direct(n: int) -> Column[Filtering]:
        key, group = f"direct_over_apply_{n}", "direct over product, a field"
        return ratio_column(key, f"{n}", group, lambda field: number_cell(field.direct_over_product(n)))

    def no_library(field: Filtering) -> str | None:
        return field.why_no_matrix("library") if field[MAKE] else None

    def routine(field: Filtering) -> Cell:
        time = field[library_product(counts[0])]
        return Cell(time.row.routine if time else None)

    return (
        *field_columns(lambda field: "" if field[MAKE] else field.why_no_matrix()),
        Column("pairs", "pairs", cell=lambda field: count(field.number(lambda row: row.matrix_pairs))),
        Column("gigabytes", "GB", cell=gigabytes_cell),
        method_milli_column("direct_ms", "direct, ms", "", OURS),
        milli_column("make_ms", "ms", "made in", MAKE),
        Column("make_over_direct", "over direct", "made in", cell=lambda field: speedup(field[MAKE], field[OURS])),
        *(milli_column(f"apply_{n}_ms", f"{n}", "product with fields, ms", product(n)) for n in counts),
        *map(over_direct, counts),
        Column("sixteen_over_one", last_over_first, cell=lambda field: speedup(field[many_fields], field[one_field])),
        milli_column("floor_ms", "floor, ms", "", FLOOR),
        Column("floor_share", "of the floor", cell=lambda field: share(field[FLOOR], field[product(1)])),
        *(
            milli_column(f"library_{n}_ms", f"{n}", "library’s product, ms", library_product(n), no_library)
            for n in counts
        ),
        *(
            method_speedup_column(f"over_library_{n}", f"{n}", "ours over the library", library_product(n), product(n))
            for n in counts
        ),
        Column("routine", "routine", numeric=False, cell=routine),
        Column("pays_from", "pays from field", cell=lambda field: count(field.pays_from)),
    )


FIGURE = f"Figure 3.12 of {CITED}"


@table(STUDY_NAME, "table-devices", title="Filtering over several devices", numbering=FIGURE, needs="devices")
def devices(campaign: Campaign, published: Published) -> Table:
    """One line for each field: times and speedups over several devices; means and minima of speedups below."""
    fields = all_filterings(campaign, published)
    numbers = device_counts(fields)

    def reason_of(field: Filtering) -> str:
        is_timed = any(field[over_devices(method, number)] for method in (OURS, ELEMENT) for number in numbers)
        return "" if is_timed or not numbers else "not measured over several devices"

    columns = field_columns(reason_of)
    if numbers:
        columns += (
            milli_column("ours_ms", "ours, ms", "1 device", OURS),
            milli_column("element_ms", "per element, ms", "1 device", ELEMENT),
        )
    for number in numbers:
        columns += _device_columns(number)
    caption = [
        "A field filtered on several devices of one host, and speedups over one device with the same method, timed in",
        "the same rounds. Ours: points are split cell by cell into parts of equal work (counted operations), each",
        "device has the whole field, and values stay where they are computed. Gather: only copying them to the first",
        "device; with it: the speedup of filtering and then gathering. Per element: the paper’s method; each device",
        "has as many patches as a single one would, and a second stage adds up all solutions on the first device.",
        "" if numbers else NO_DEVICES,
        closing_notes(campaign, FILTER_CLOCK),
    ]
    return table_of(columns, fields, join_sentences(caption), MEAN_AND_LEAST, is_empty=not numbers)


def _device_columns(number: int) -> tuple[Column[Filtering], ...]:
    group, own_method, element_method = f"{number} devices", over_devices(OURS, number), over_devices(ELEMENT, number)
    gather = over_devices(OURS, number, GATHER)
    return (
        milli_column(f"ours_{number}_ms", "ours, ms", group, own_method),
        ratio_column(f"ours_{number}", "×", group, lambda field: ratio(field.device_speedup(OURS, number))),
        milli_column(f"gather_{number}_ms", "gather, ms", group, gather),
        ratio_column(f"gathered_{number}", "with it, ×", group, lambda field: ratio(field.gathered_speedup(number))),
        milli_column(f"element_{number}_ms", "per element, ms", group, element_method),
        ratio_column(f"element_{number}", "×", group, lambda field: ratio(field.device_speedup(ELEMENT, number))),
    )


@table(
    STUDY_NAME,
    "table-errors",
    title="Errors before and after the filter",
    numbering="ours",
    lead=("l2_gain", "max_gain"),
)
def accuracy(campaign: Campaign, published: Published) -> Table:
    """One line for each field: both errors of the dG field and of the filtered field, their orders, and their ratio."""
    fields = all_filterings(campaign, published)
    gains = "dG over filtered"
    columns: tuple[Column[Filtering], ...] = (
        *field_columns(lambda field: "" if filtered_errors(field) else missing_errors(field)),
        Column("function", "function", numeric=False, cell=function_cell),
        Column("mean_edge", "mean edge", cell=lambda field: number_cell(field.facts.get("mean_edge"), spec=".4f")),
        *error_columns("dg", "dG", unfiltered_errors, fields),
        *error_columns("filtered", "filtered", filtered_errors, fields),
        Column("l2_gain", "L²", gains, cell=error_gain_cell(unfiltered_errors, filtered_errors, L2)),
        Column("max_gain", "max", gains, cell=error_gain_cell(unfiltered_errors, filtered_errors, LARGEST)),
    )
    caption = [
        "Errors of a field, the L² projection of a known function, before and after filtering, where h is the longest",
        "edge. They are measured in L² over the domain, by the quadrature whose points are filtered, and as the",
        "maximum at these points. A projection is more accurate there than elsewhere (with finer quadrature its error",
        "in L² is about 1.3 times as large), so gains are understated. The filtered values come from the kernels.",
        "Order: logarithm of the ratio of errors over that of the ratio of mean edges, relative to the next coarser",
        "mesh of the same family and degree in this campaign. dG over filtered: above 1, filtering reduced the error.",
        "A stencil is 3P + 1 longest edges wide: on meshes so coarse that it is as wide as a wave, or with triangles",
        "of very different sizes, the filter also removes parts of the function.",
        unavailable_note(campaign),
    ]
    return table_of(columns, fields, join_sentences(caption))


def _point_cell(column: Callable[[DgRow], int | None]) -> FieldCell:
    return lambda field: number_cell(field.at_point(column))


LOCAL_COLUMNS: tuple[Column[Filtering], ...] = (
    *field_columns(lambda field: "" if local_errors(field) else missing_local_errors(field)),
    Column(
        "longest_edge", "longest edge", "h", cell=lambda field: number_cell(field.facts.get("longest_edge"), spec=".4f")
    ),
    Column("mean_scale", "local, mean", "h", cell=lambda field: number_cell(mean_scale(field), spec=".4f")),
    *local_error_columns("l2", "L² error", L2),
    *local_error_columns("max", "largest error", LARGEST),
    Column("whole_pairs", "one h", "pairs at a point", cell=_point_cell(lambda row: row.pairs)),
    Column("local_pairs", "local h", "pairs at a point", cell=_point_cell(lambda row: row.local_pairs)),
    method_milli_column("whole_ms", "one h", "ms", POINT_TUNED),
    milli_column("local_ms", "local h", "ms", LOCAL_H),
    method_speedup_column("speedup", "one over local", "ms", POINT_TUNED, LOCAL_H),
)


@table(STUDY_NAME, "table-local", title="An h of each point", numbering="ours", lead=("speedup",))
def by_point(campaign: Campaign, published: Published) -> Table:
    """One line for each field whose mesh is small enough to be filtered with a separate h for each point."""
    fields = [field for field in all_filterings(campaign, published) if (field.triangles or 0) <= MAX_LOCAL_TRIANGLES]
    limit_text = f"{MAX_LOCAL_TRIANGLES:,}".replace(",", "\N{NO-BREAK SPACE}")
    caption = [
        "Local h: at a vertex, the longest edge of the triangles around it; linear within a triangle. One h: the",
        "longest edge of the mesh, as in the text. Errors: as in table-errors. Pairs: a point and an image of a",
        "triangle that meets its stencil, averaged over 256 random points. Times: the paper’s per-point method with",
        "tuned cells and blocks, and the same kernel with an h per point. Both clip triangles, because contours on a",
        "device need triangles that are no wider than h. Ratios above 1 favour local h. Only meshes of up to",
        f"{limit_text} triangles are shown.",
        closing_notes(campaign, FILTER_CLOCK),
    ]
    return table_of(LOCAL_COLUMNS, fields, join_sentences(caption))


NO_COUNTS = "its record has no counts: build the problem again"


def _count_columns(published: Published) -> tuple[Column[Filtering], ...]:
    records = {item["problem"]: item for item in published.tables.get("tests", [])}
    published_counts = published_tests(published)

    def pair(key: str, group: str, cell: Callable[[Filtering, int], Cell]) -> tuple[Column[Filtering], ...]:
        return (
            Column(key.format("point"), "per point", group, cell=lambda field: cell(field, 0)),
            Column(key.format("element"), "per element", group, cell=lambda field: cell(field, 1)),
        )

    def published_count(field: Filtering, index: int) -> Cell:
        counts = published_counts.get(field.line.problem)
        return count(counts[index] if counts else None)

    def quotient_cell(field: Filtering, index: int) -> Cell:
        own_counts, counts = field.tests, published_counts.get(field.line.problem)
        return number_cell(own_counts[index] / counts[index] if own_counts and counts else None, spec=".3f")

    def printed_mesh(field: Filtering) -> Cell:
        item = records.get(field.line.problem)
        return Cell(item["printed"] if item else None)

    def printed_ratio(field: Filtering) -> Cell:
        item = records.get(field.line.problem)
        return printed_cell(item["ratio"] if item else None)

    return (
        *field_columns(lambda field: "" if field.tests else NO_COUNTS),
        Column("printed", "mesh", "published", numeric=False, cell=printed_mesh),
        *pair("published_per_{}", "published", published_count),
        Column("published_ratio", "ratio", "published", cell=printed_ratio),
        *pair("per_{}", "ours", lambda field, which: count(field.tests[which] if field.tests else None)),
        Column("ratio", "ratio", "ours", cell=lambda field: number_cell(field.tests_ratio, spec=".3f")),
        *pair("{}_over_published", "ours over published", quotient_cell),
    )


@table(STUDY_NAME, "table-3-1", title="Intersection tests", numbering=f"Table 3.1 of {CITED}")
def tests(campaign: Campaign, published: Published) -> Table:
    """One line for each mesh of degree 1: published number of intersection tests, our number, and their ratio."""
    published_counts = published_tests(published)
    fields_by_problem = {field.line.problem: field for field in all_filterings(campaign, published)}
    fields = [fields_by_problem.get(name) or absent_filtering(campaign, name) for name in published_counts]
    fields += [
        field
        for name, field in fields_by_problem.items()
        if name not in published_counts and (field.degree == COUNTED_DEGREE or field.degree is None)
    ]
    caption = [
        f"Pairs of a point and a triangle that are tested for intersection, P = {COUNTED_DEGREE}: published in",
        f"Table 3.1 of {CITED}, and ours; they do not depend on the device. Per point: triangles with centroids in",
        "the cells around the stencil, with a halo of one cell; per element: points in the cells around the triangle’s",
        "box (eq. 3.1). Ratio: per point over per element. The text names neither the mesh family nor the points of",
        "Table 3.1. With six points per triangle and stencils that wrap around, our meshes of low variance reproduce",
        "its counts, so they are compared; the published meshes are not public, but have about as many triangles.",
        CELLS_CONTRADICT,
        unavailable_note(campaign),
    ]
    return table_of(_count_columns(published), fields, join_sentences(caption))


NOT_SAID = "the device does not say"


@table(STUDY_NAME, "table-4-1", title="The machine", numbering=f"Table 4.1 of {CITED}")
def machine(campaign: Campaign, published: Published) -> Table:
    """One line for each property: the paper's CPU, its GPU, and the device of the campaign."""
    records = published.tables.get("machine", [])
    cpu, gpu = next(((item["cpu"], item["value"]) for item in records if item["quantity"] == "model"), ("", ""))
    device_properties = _device_properties(campaign)

    def own_cell(item: Record) -> Cell:
        value = device_properties.get(item["quantity"])
        if value is None:
            return Cell(notes=(NOT_SAID,))
        return Cell(value, f"{value:.0f}" if value.is_integer() else digits(value))

    columns = (
        Column[Record]("quantity", "", numeric=False, cell=lambda item: Cell(item["quantity"])),
        Column[Record]("unit", "unit", numeric=False, cell=lambda item: Cell(item["unit"])),
        Column[Record]("cpu", cpu, "published", cell=lambda item: printed_cell(item["cpu"])),
        Column[Record]("gpu", gpu, "published", cell=lambda item: printed_cell(item["value"])),
        Column[Record]("ours", campaign.column, "ours", cell=own_cell),
    )
    caption = [
        "Published: as printed. Ours: as the device reports it. Cache: the last level. Bandwidth: not the peak, but",
        "that of the campaign’s fastest copy, which reads and writes. Clock: the maximum. Peak: two operations per",
        "cycle and lane for double precision. The text names CUDA 5.0 in one place and nvcc 5.5 in another.",
    ]
    return table_of(columns, [item for item in records if item["quantity"] != "model"], join_sentences(caption))


def _device_properties(campaign: Campaign) -> dict[str, float | None]:
    """Return the known properties of the campaign's device, keyed by the quantities in the paper's table."""
    record: Mapping[str, Any] = next(iter(campaign.environments.values()), {})
    copies = campaign.report[(campaign.report.kind == "copy") & (campaign.report.status == "ok")]
    speeds = (copies.bytes / copies[median_column(REGION_CLOCK)]).dropna()
    cache = record.get("cache_bytes")
    multiprocessors, clock, peak = record.get("multiprocessors"), record.get("max_sm_clock_mhz"), peak_gflops(record)
    return {
        "multiprocessors": float(multiprocessors) if multiprocessors else None,
        "clock": clock / KILO if clock else None,
        "cache": cache / MEGA if cache else None,
        "peak, double precision": peak / KILO if peak else None,
        "bandwidth": float(speeds.max()) / GIGA if len(speeds) else None,
    }


#: A search counts as complete if it timed at least this share of the kernels that fit on the device.
COMPLETE_SHARE = 0.7


def complete_recordings(campaign: Campaign, space: str) -> list[Recording]:
    """Return the complete searches of a space, `paper` or `extended`, for each problem.

    Only fields of the same degree have kernels in common. If the campaign does not record its device, every search
    counts as complete.
    """
    records: dict[str, dict[str, Any]] = {
        record.name: {"kind": record.kind, "statistics": record.statistics, "dimension": record.dimension,
                      "cells": record.cells, "degree": record.degree}
        for record in campaign.problems.values() if record.dimension == 3
    }  # fmt: skip
    rows = campaign.search[(campaign.search.space == space) & campaign.search.problem.isin(list(records))]
    searches = recordings(rows, records, campaign.environments, region_features)
    names = {str(environment.get("target")) for environment in campaign.environments.values()}
    target = next((TARGETS[name] for name in names if name in TARGETS), None)
    ids = paper_region_ids if space == PAPER else own_region_ids

    def fitting(recording: Recording) -> int:
        record = records[recording.problem]
        return len(ids(record["degree"], target)) if target else 0

    return [recording for recording in searches if len(recording.seconds) >= COMPLETE_SHARE * fitting(recording)]


BUDGET = float(StudySettings.model_fields["budget"].default)
SPACE_TITLES = {"paper": "the paper’s kernels", "extended": "ours"}
NOTHING_TO_LEARN = "no other field of this degree was searched in full: there is nothing to learn from"


@table(STUDY_NAME, "table-predicted", title="Loss of the predicted search in space", numbering="ours")
def losses(campaign: Campaign, published: Published) -> Table:
    """One line for each field on tetrahedra: loss in percent of a search that does not learn from this field."""
    replays = {space: evaluate(complete_recordings(campaign, space), BUDGET, RegionId) for space in SPACE_TITLES}
    replays_by_space = {
        space: {replay.recording.problem: replay for replay in replays[space]} for space in SPACE_TITLES
    }
    columns: tuple[Column[WidthTimes], ...] = (
        PROBLEM,
        Column("degree", "P", cell=lambda item: Cell(item.degree)),
        *(column for space in SPACE_TITLES for column in _search_columns(space, replays_by_space[space])),
    )
    items = [
        item
        for item in width_times(campaign, published)
        if any(item.line.problem in replays_by_space[space] for space in SPACE_TITLES)
    ]
    caption = [
        "Loss in percent, on recorded times, of the fastest kernel that `search: predicted` finds with",
        f"{100 * BUDGET:g} % of all kernels, at least one, compared with an exhaustive search. It learns from the",
        f"other fields of this campaign with the same degree. Random: the mean over {SEEDS} random samples of that",
        f"size, {100 * NOTHING_FOUND:g} at most. Most times are from screening, with few launches; a time below the",
        "best of the full protocol is no loss.",
        sample_note(replays.values()),
        measurement_note(campaign, "event", "the search"),
        "" if items else "No field on tetrahedra of this campaign was searched in full.",
        unavailable_note(campaign),
    ]
    return table_of(columns, items, join_sentences(caption))


def _search_columns(space: str, replays: Mapping[str, Evaluation]) -> tuple[Column[WidthTimes], ...]:
    def column(key: str, title: str, cell: Callable[[Evaluation], Cell]) -> Column[WidthTimes]:
        def of_field(item: WidthTimes) -> Cell:
            evaluation = replays.get(item.line.problem)
            return cell(evaluation) if evaluation else Cell()

        return Column(f"{space}_{key}", title, SPACE_TITLES[space], cell=of_field)

    return (
        column("variants", "kernels", lambda evaluation: Cell(len(evaluation.recording.seconds))),
        column("tried", "tried", lambda evaluation: Cell(evaluation.tried)),
        column("problem_unknown", "predicted", lambda evaluation: _loss_cell(evaluation.problem_unknown)),
        column("random", "random", lambda evaluation: _loss_cell(evaluation.random)),
    )


def _loss_cell(curve: Array | None) -> Cell:
    if curve is None:
        return Cell(notes=(NOTHING_TO_LEARN,))
    loss = float(curve[-1])
    return Cell(round(100 * loss, 6), f"{100 * loss:.1f}") if np.isfinite(loss) else Cell(None, "none works")


@table(STUDY_NAME, "table-targets", title="Targets, and what was reached", numbering="ours")
def targets(campaign: Campaign, published: Published) -> Table:
    """One line for each target: wanted number, measured number and worst field; or the reason why none was measured."""
    cases = field_cases(campaign, published)
    fields = plane_fields(cases)
    caption = [
        "Goals and measurements on the paper’s thirty fields: meshes of low and high variance of five sizes, with",
        "P = 1, 2, 3. Ours: filtering by contours. The paper’s per-element kernel, tuned: with the fastest patches,",
        "threads and cells that were tried.",
        tuned_sentence(fields),
        "The library’s product: its fastest routine for the same matrix as scalars in CSR.",
        "3D: a list of 2^20 regions of its mesh of 10 × 10 × 10 cubes. Reported: there is no goal. Cases: the number",
        "of fields with a value; if some have none, the verdict covers the others, and a note names the missing ones.",
        contour_formula(),
        peak_sentence(fields),
        measurement_note(campaign, FILTER_CLOCK),
        f"Products with the matrix are timed by the {PRODUCT_CLOCK} clock unless a line names another, making it by",
        f"the {HOST_CLOCK} clock. For direct filtering no other clock is recorded.",
        target_device_note(campaign),
        unavailable_note(campaign),
    ]
    return targets_table(campaign, published, TARGET_QUANTITIES, cases, join_sentences(caption))


def _setup_costs(field: Filtering) -> SetupCosts:
    library_time, setup_time = field[library_product(1)], field[MAKE]
    return SetupCosts(
        field.line.cell,
        PRECISION,
        library=library_time,
        csr=library_time,
        ours=field[product(1)],
        ours_seconds=setup_time.seconds if setup_time else None,
        library_seconds=None,  # the library's rows include the time of making and expanding the matrix
    )


register_setup_costs(
    STUDY_NAME,
    library_of,
    all_filterings,
    _setup_costs,
    PRODUCT_CLOCK,
    setup=f"Set-up: building the filter’s matrix on the device, by the {HOST_CLOCK} clock, as if the library’s existed "
    "already; a product is with one field. table-matrix shows when the matrix pays off compared with filtering "
    "without one.",
)


def _baseline_or_layout(row: DgRow) -> str | None:
    return row.way or row.method or row.name.removesuffix(f"-{row.fields}")


TASKS = (
    Method("filter", "filtering", columns={"kind": "variant", "what": "filter"}),
    *(
        Method(f"product_{n}", f"product with {n} field{'s' * (n > 1)}",
               columns={"fields": n, "what": ("apply", "library")})
        for n in DEFAULT_FIELD_COUNTS
    ),
    Method("regions", "integrating regions", columns={"what": "regions"}),
)  # fmt: skip
register_baselines(STUDY_NAME, TASKS, _baseline_or_layout)
