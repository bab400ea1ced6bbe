"""Products over several devices of one host, and what it takes to bring their results to all of them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from repro.artifacts.cells import digits, from_rows, micro, percent, ratio
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import ABBREVIATIONS, PROBLEM, measured_on, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.studies.dynamic_csr.device_times import (
    CLOCK,
    NOTHING,
    WAYS,
    DeviceTimes,
    Step,
    device_times,
    stated_of_graphs,
)
from repro.studies.dynamic_csr.paper import PAPER, STUDY

DEALT = (
    "Rows are sorted by their sizes and dealt to the devices in turns, as in the paper; times are of a step, where "
    "several follow each other in a launch of all devices."
)


@table(STUDY, "table-devices", title="Products over several devices", numbering=f"Section 5.3.4 of {PAPER}")
def devices(campaign: Campaign, published: Published) -> Table:
    """A line a problem and precision: times and speed-ups of the product alone, with the exchange, and overlapped."""
    cases, counts = _measured(campaign, published)
    columns = [PROBLEM, Column("precision", "precision", numeric=False)]
    columns.append(Column("variant_us", "fastest variant, µs", "1 device"))
    if counts:  # else the baseline was not timed either
        columns += [Column("one_launch_us", "a launch each, µs", "1 device"), Column("one_us", "µs", "1 device")]
    for count in counts:
        group = f"{count} devices"
        columns.append(Column(f"launches_{count}", "a launch each, ×", group))
        for key, title in (("alone", "alone"), ("exchanged", "exchange"), ("overlapped", "overlapped")):
            columns.append(Column(f"{key}_{count}_us", f"{title}, µs", group))
            columns.append(Column(f"{key}_{count}", "×", group))
    caption = [
        "y = A x with the grown matrix over several devices of one host, and speed-ups over one device by the same",
        "schedule; beside it the fastest of all variants on one device.",
        DEALT,
        "A launch each: the product as the only step of a launch, as in the paper. Alone: y stays distributed, and x",
        "is on each device before the clock starts. Exchange: y is brought to all devices, as the next x, in the",
        "fastest way. Overlapped: either the columns of x that a device has itself are multiplied while copies of the",
        "others are under way, or the product stores each number of y to all devices (fused), whichever is faster.",
        "For both the unknowns are renumbered before the clock starts, so that the part of each device is contiguous.",
        f"Published of two Tesla K20c, the mean of all graphs without an exchange: {_published(published)}.",
        stated_of_graphs(published),
        NOTHING if not counts else "",
        measured_on(campaign, CLOCK),
        unavailable(campaign),
    ]
    rows = [_times(case, counts) for case in cases]
    return Table(tuple(columns), rows, sentences(caption), _summary(rows, columns) if counts else [], not counts)


@table(STUDY, "table-exchange", title="Bringing a vector to all devices", numbering="ours")
def exchange(campaign: Campaign, published: Published) -> Table:
    """A line a problem and precision: the exchange alone in each way, its rate, and what it adds to a product."""
    cases, counts = _measured(campaign, published)
    columns = [PROBLEM, Column("precision", "precision", numeric=False)]
    for count in counts:
        group = f"{count} devices"
        columns.append(Column(f"sent_{count}_mb", "MB", group))
        columns += [Column(f"{way}_{count}_us", f"{title}, µs", group) for way, title in WAYS.items()]
        columns += [Column(f"rate_{count}", "GB/s", group), Column(f"way_{count}", "behind", group, numeric=False)]
        columns.append(Column(f"during_{count}", "during", group, numeric=False))
        columns.append(Column(f"cost_{count}", "cost", group))
    caption = [
        "A vector of which each device has a part is brought to all devices, without a product.",
        "MB: what all devices send together, each its part to each of the others; GB/s: of the fastest way. Copies by",
        "the driver; stores: a kernel that writes into the memory of the others; NCCL: its all-gather. Behind: the",
        "fastest way behind a product. During: the faster of two ways, copies while the columns are multiplied that a",
        "device has itself, or stores by the product. Cost: the share of a step, in the fastest of all these ways, by",
        "which it is longer than the product whose result stays distributed.",
        NOTHING if not counts else "",
        measured_on(campaign, CLOCK),
        unavailable(campaign),
    ]
    rows = [_exchanges(case, counts) for case in cases]
    return Table(tuple(columns), rows, sentences(caption), nothing=not counts)


def _measured(campaign: Campaign, published: Published) -> tuple[list[DeviceTimes], list[int]]:
    """Return all cases, the precisions of a problem side by side, and over how many devices any was measured."""
    by_precision = [device_times(campaign, published, precision) for precision in campaign.precisions]
    cases = [case for cases in zip(*by_precision, strict=True) for case in cases]
    return cases, sorted({count for case in cases for count in case.counts})


def _named(case: DeviceTimes) -> tuple[Cell, Cell]:
    there = case.line.record is not None and case.line.record.available
    name = case.line.cell
    if there and not case.counts:
        name = Cell(name.value, name.text, (*name.notes, "not measured over several devices"))
    return name, Cell(case.case.precision, ABBREVIATIONS[case.case.precision])


def _times(case: DeviceTimes, counts: Sequence[int]) -> tuple[Cell, ...]:
    cells = [*_named(case), micro(case.variant)]
    if counts:
        cells += [_micro(case.alone(1, repeated=False)), _micro(case.alone(1))]
    for count in counts:
        cells.append(ratio(case.speedup(case.alone(count, repeated=False), repeated=False)))
        for step in (case.alone(count), case.exchanged(count), case.overlapped(count)):
            cells += [_micro(step), ratio(case.speedup(step))]
    return tuple(cells)


def _exchanges(case: DeviceTimes, counts: Sequence[int]) -> tuple[Cell, ...]:
    cells = [*_named(case)]
    for count in counts:
        fastest, behind, during = case.exchange(count), case.exchanged(count), case.overlapped(count)
        sent = 1e-6 * fastest.row["bytes"] / fastest.row["steps"] if fastest else None
        cells.append(Cell(sent, digits(sent)) if sent else Cell(sent))
        cells += [_micro(case.exchange(count, way)) for way in WAYS]
        cells.append(Cell(fastest.rate, digits(fastest.rate)) if fastest else Cell())
        cells += [Cell(step.way) if step else Cell() for step in (behind, during)]
        cells.append(percent(case.cost(count)))
    return tuple(cells)


def _micro(step: Step | None) -> Cell:
    """Return the time of a step in microseconds."""
    return from_rows(Cell(1e6 * step.seconds, digits(1e6 * step.seconds)), step.timed) if step else Cell()


def _summary(rows: Sequence[tuple[Cell, ...]], columns: Sequence[Column]) -> list[tuple[Cell, ...]]:
    """Return the mean and the worst speed-up of each column of them."""
    lines: list[list[Cell]] = [[Cell("mean")], [Cell("worst")]]
    for place, column in enumerate(columns[1:], 1):
        speedups = column.numeric and not column.key.endswith("_us")
        values = [float(row[place].value or 0) for row in rows if row[place].value is not None] if speedups else []
        lines[0].append(ratio(fmean(values)) if values else Cell())
        lines[1].append(ratio(min(values)) if values else Cell())
    return [tuple(line) for line in lines]


def _published(published: Published) -> str:
    records = [item for item in published.tables.get("text", []) if item["quantity"] == "speedup of two GPUs, mean"]
    return ", ".join(f"{item['value']} in {item['precision']} precision" for item in records) or "nothing"
