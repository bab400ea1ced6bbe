"""Tables of products on one device and over several, and of their set-up costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import attrgetter
from statistics import fmean
from typing import Any

from repro.results.campaign_data import Campaign, Method
from repro.results.columns import (
    MICRO,
    PRECISION,
    PROBLEM,
    add_row_keys,
    microseconds,
    name_of,
    number_cell,
    percent,
    problem_column,
    ratio,
    speedup_column,
    statistics,
    time_column,
)
from repro.results.common_tables import SetupCosts, register_setup_costs
from repro.results.comparisons import Comparison
from repro.results.problem_lines import closing_notes, join_sentences, launch_note, measurement_note, unavailable_note
from repro.results.published import Published
from repro.results.registry import table
from repro.results.significance import geometric_mean, median_of
from repro.results.tables import Cell, Column, Table, table_of
from repro.sparse.tuning_features import library_of, routine_text
from repro.studies.dynamic_csr import (
    CITED,
    STUDY_NAME,
    stated_device_means,
    stated_graph_speedups,
    stated_product_means,
)
from repro.studies.dynamic_csr.results import (
    CSR,
    DEFRAGMENTED_OVER_CSR,
    DEVICE_CLOCK,
    EXCHANGE_TITLES,
    FRAGMENTED_OVER_DEFRAGMENTED,
    LIBRARY,
    LIBRARY_CSR,
    LIBRARY_CSR_OVER_OURS,
    LIBRARY_OVER_OURS,
    NO_DEVICES,
    OPERATION_CLOCK,
    OURS,
    PAPER_PRODUCTS,
    PRODUCT_CLOCK,
    DeviceTimes,
    ProductTimes,
    StepTime,
    device_times,
    product_times,
)

MEAN = statistics(ratio, {"mean": fmean})


def _ratio_column(
    title: str, comparison: Comparison[ProductTimes], worst_of: Callable[[Sequence[float]], float]
) -> Column[ProductTimes]:
    """Return the column of one time over another; `worst_of` picks the largest ratio if small ratios are good."""
    key = title.replace("library’s CSR", "library_csr").replace(" ", "_").lower()
    summary = statistics(ratio, {"geometric mean": geometric_mean, "median": median_of, "worst": worst_of})
    return speedup_column(key, title, "ratios of times", *comparison.sides, summary)


def _product_columns(library: str) -> tuple[Column[ProductTimes], ...]:
    def micro(method: Method, title: str, group: str) -> Column[ProductTimes]:
        return time_column(f"{method.key}_us", title, group, method)

    def routine(method: Method) -> tuple[Column[ProductTimes], ...]:
        def name(case: ProductTimes) -> Cell:
            return name_of(case[method], routine_text)

        return Column(method.key, method.title, library, numeric=False, cell=name), micro(method, "µs", library)

    def variant(case: ProductTimes) -> Cell:
        time = case[OURS]
        reasons = (case.case.why_not(),) if case.line.is_available and not (time or case[CSR]) else ()
        return name_of(time, notes=reasons)

    return (
        PROBLEM,
        PRECISION,
        *(micro(method, method.title, "the paper’s, µs") for method in PAPER_PRODUCTS),
        Column("ours", "variant", "ours", numeric=False, cell=variant),
        Column("ours_us", "µs", "ours", cell=lambda case: microseconds(case[OURS], case.case)),
        *routine(LIBRARY_CSR),
        *routine(LIBRARY),
        _ratio_column("defragmented over CSR", DEFRAGMENTED_OVER_CSR, max),
        _ratio_column("fragmented over defragmented", FRAGMENTED_OVER_DEFRAGMENTED, max),
        _ratio_column("library’s CSR over ours", LIBRARY_CSR_OVER_OURS, min),
        _ratio_column("library over ours", LIBRARY_OVER_OURS, min),
    )


@table(STUDY_NAME, "table-products", title="Products by problem", numbering="ours", lead=("library_over_ours",))
def products(campaign: Campaign, published: Published) -> Table:
    cases = product_times(campaign, published, *campaign.precisions)
    timed_cases = [case for case in cases if case[OURS] or case[CSR]]
    marked_count = sum(case.case.is_mostly_launch(PRODUCT_CLOCK, case[OURS] or case[CSR]) for case in timed_cases)
    caption = [
        "y = A x with the grown matrix, the base and all batches. The paper’s: the best number of threads per row, for",
        "own CSR, for segments as the batches left them, and for one segment per row; ADCSR: rows in bins by their",
        "sizes, one kernel per bin, each on its own stream, in the matrix’s best state; HYB. Ours: the fastest of all",
        f"products in one launch, with one segment per row. {library_of(campaign)}: its fastest routine for CSR and of",
        "any format, with duplicates summed. Ratios of times: defragmented over own CSR, with the schedule that is",
        "fastest for own CSR; fragmented over defragmented, with the one that is fastest for fragmented.",
        stated_product_means(published),
        measurement_note(campaign, PRODUCT_CLOCK),
        launch_note(marked_count, len(timed_cases)),
        unavailable_note(campaign),
    ]
    summary = ("geometric mean", "median", "worst")
    return table_of(_product_columns(library_of(campaign)), cases, join_sentences(caption), summary)


DISTRIBUTION_SENTENCE = (
    "Rows are sorted by size and dealt to the devices in turns, as in the paper. Times are per step, with several "
    "steps in one launch on all devices."
)
SPEEDUPS = statistics(ratio, {"mean": fmean, "worst": min})


def _measured_devices(campaign: Campaign, published: Published) -> tuple[list[DeviceTimes], list[int]]:
    """Return all cases (one for each precision, grouped by problem) and all numbers of devices that were measured."""
    cases = device_times(campaign, published, *campaign.precisions)
    return cases, sorted({count for case in cases for count in case.counts})


def _step_column(key: str, title: str, group: str, step: Callable[[DeviceTimes], StepTime | None]) -> Column[Any]:
    """Return the column of the time of one step, in microseconds."""

    def cell(case: DeviceTimes) -> Cell:
        step_time = step(case)
        return add_row_keys(number_cell(step_time.seconds, MICRO), step_time.reported_time) if step_time else Cell()

    return Column(key, title, group, cell=cell)


DEVICE_NAME = problem_column(lambda case: None if case.counts else "not measured over several devices")


SECTION = f"Section 5.3.4 of {CITED}"


@table(STUDY_NAME, "table-devices", title="Products over several devices", numbering=SECTION, needs="devices")
def devices(campaign: Campaign, published: Published) -> Table:
    cases, counts = _measured_devices(campaign, published)
    single_group = "1 device"
    columns: list[Column[DeviceTimes]] = [
        DEVICE_NAME,
        PRECISION,
        time_column("fastest_us", "fastest, µs", single_group, attrgetter("on_one")),
    ]
    if counts:  # without counts, the baseline was not timed either
        columns += [
            _step_column("one_launch_us", "a launch each, µs", single_group, lambda case: case.alone(1, in_loop=False)),
            _step_column("one_us", "µs", single_group, lambda case: case.alone(1)),
        ]
    for number in counts:
        columns += _speedup_columns(number)
    caption = [
        "y = A x with the grown matrix on several devices of one host, and speedups over one device with the same",
        "schedule; beside it the fastest product on one device with any schedule.",
        DISTRIBUTION_SENTENCE,
        "A launch each: one product per launch, as in the paper. Alone: y stays distributed, and x is on each device",
        "before the clock starts. Exchange: y is sent to all devices, as the next x, in the fastest way. Overlapped:",
        "either each device multiplies its own columns of x while it receives the others, or the product stores each",
        "number of y on all devices (fused), whichever is faster. For both, the unknowns are renumbered before the",
        "clock starts, so that each device’s part is contiguous.",
        "Published for two Tesla K20c, the mean over all graphs without an exchange: "
        f"{', '.join(stated_device_means(published)) or 'nothing'}.",
        stated_graph_speedups(published),
        NO_DEVICES if not counts else "",
        closing_notes(campaign, DEVICE_CLOCK),
    ]
    return table_of(columns, cases, join_sentences(caption), (*SPEEDUPS,), is_empty=not counts)


def _speedup_columns(number: int) -> list[Column[DeviceTimes]]:
    group = f"{number} devices"

    def launches(case: DeviceTimes) -> Cell:
        return ratio(case.launch_speedup(number))

    columns = [Column[DeviceTimes](f"launches_{number}", "a launch each, ×", group, cell=launches, summary=SPEEDUPS)]

    def add(key: str, title: str, step: Callable[[DeviceTimes], StepTime | None]) -> None:
        columns.append(_step_column(f"{key}_{number}_us", f"{title}, µs", group, step))
        columns.append(
            Column(f"{key}_{number}", "×", group, cell=lambda case: ratio(case.speedup(step(case))), summary=SPEEDUPS)
        )

    add("alone", "alone", lambda case: case.alone(number))
    add("exchanged", "exchange", lambda case: case.exchanged(number))
    add("overlapped", "overlapped", lambda case: case.overlapped(number))
    return columns


@table(STUDY_NAME, "table-exchange", title="Bringing a vector to all devices", numbering="ours", needs="devices")
def exchange(campaign: Campaign, published: Published) -> Table:
    cases, counts = _measured_devices(campaign, published)
    columns = (DEVICE_NAME, PRECISION, *(column for number in counts for column in _exchange_columns(number)))
    caption = [
        "A vector that is distributed over the devices is sent to all of them, without a product.",
        "MB: bytes sent by all devices together, each sending its part to every other; GB/s: the rate of the fastest",
        "way. Copies: by the driver; stores: by a kernel that writes into the other devices’ memory; NCCL: its",
        "all-gather. Behind: the fastest way, after a product. During: the faster of two ways, copies while each",
        "device multiplies its own columns, or stores by the product. Cost: the share of a step, in the fastest of all",
        "these ways, that is added to a product whose result stays distributed.",
        NO_DEVICES if not counts else "",
        closing_notes(campaign, DEVICE_CLOCK),
    ]
    return table_of(columns, cases, join_sentences(caption), is_empty=not counts)


def _exchange_columns(number: int) -> tuple[Column[DeviceTimes], ...]:
    group = f"{number} devices"

    def sent_cell(case: DeviceTimes) -> Cell:
        fastest = case.exchange(number)
        sent = 1e-6 * (fastest.row.bytes or 0) / (fastest.row.steps or 1) if fastest else None
        return number_cell(sent) if sent else Cell(sent)

    def rate(case: DeviceTimes) -> Cell:
        fastest = case.exchange(number)
        return number_cell(fastest.rate if fastest else None)

    def way(step: StepTime | None) -> Cell:
        return Cell(step.way) if step else Cell()

    def step_column(way: str, title: str) -> Column[DeviceTimes]:
        return _step_column(f"{way}_{number}_us", f"{title}, µs", group, lambda case: case.exchange(number, way))

    return (
        Column(f"sent_{number}_mb", "MB", group, cell=sent_cell),
        *(step_column(way, title) for way, title in EXCHANGE_TITLES.items()),
        Column(f"rate_{number}", "GB/s", group, cell=rate),
        Column(f"way_{number}", "behind", group, numeric=False, cell=lambda case: way(case.exchanged(number))),
        Column(f"during_{number}", "during", group, numeric=False, cell=lambda case: way(case.overlapped(number))),
        Column(f"cost_{number}", "cost", group, cell=lambda case: percent(case.cost(number))),
    )


ON_DEVICE = "the conversion from CSR on the device, by the event clock"


def _setup_costs(times: ProductTimes) -> SetupCosts:
    ours = times[OURS]
    costs = SetupCosts.packed(times, times[LIBRARY], times[LIBRARY_CSR], ours)
    conversion = times.case.select(what="convert", format="csr", to_format="dcsr").fastest(OPERATION_CLOCK)
    # a conversion leaves the rows in the matrix's order
    if ours and ours.row.state == "defragmented" and conversion:
        return replace(costs, ours_seconds=conversion.seconds, notes=(ON_DEVICE,))
    return costs


register_setup_costs(
    STUDY_NAME,
    library_of,
    lambda campaign, published: product_times(campaign, published, *campaign.precisions),
    _setup_costs,
    PRODUCT_CLOCK,
    setup="Set-up: building the grown matrix from CSR, with one segment per row, on one core of the host, or on the "
    "device if a note states it. It does not include binning the rows.",
)
