"""Targets: wanted values of quantities (`config/targets`), compared with the measured values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from repro.results.campaign_data import Campaign, one_line
from repro.results.published import Published, Record
from repro.results.significance import Interval, geometric_mean, interval_of_statistic
from repro.results.tables import Cell, Column, Table

#: Device for which the wanted values in `config/targets` were set.
WANTED_ON = "NVIDIA H200"
#: Printed in place of a wanted value on any other device.
NO_TARGET = "no target for this device"
#: Most cases that a note names for one reason of a missing number.
SHOWN = 5
#: Most characters of a note on cases without a number.
MAX_NOTE_LETTERS = 500
D = TypeVar("D")
#: Statistic over cases that is compared with the wanted value; `mean` is the geometric mean.
StatisticName = Literal["worst", "mean", "arithmetic mean", "median", "most", "least", "sum"]


class CaseNumber(NamedTuple):
    """The measured number of one case, with notes."""

    value: float
    case: str
    notes: tuple[str, ...] = ()
    #: Confidence interval of the number; None if no samples were recorded.
    interval: Interval | None = None


class MissingCase(NamedTuple):
    """A case without a number, the reason, and how many numbers are missing."""

    case: str
    reason: str
    numbers: int = 1
    #: Remarks on the case, such as that it is a stand-in.
    notes: tuple[str, ...] = ()


class Measured(NamedTuple):
    """Measured numbers of a quantity, cases without a number, and notes on all of them."""

    numbers: Sequence[CaseNumber]
    missing: Sequence[MissingCase] = ()
    notes: tuple[str, ...] = ()
    #: Message if there are neither numbers nor missing cases.
    nothing: str = ""

    @property
    def cases(self) -> int:
        return len(self.numbers) + sum(item.numbers for item in self.missing)

    @property
    def why_not(self) -> str:
        """Text with the reasons of missing numbers and the first few cases for each; empty if none is missing."""
        by_reason: dict[str, list[str]] = {}
        for item in self.missing:
            by_reason.setdefault(item.reason, []).append(item.case)
        reasons = []
        for reason, cases in by_reason.items():
            more = f" and {len(cases) - SHOWN} more" if len(cases) > SHOWN else ""
            reasons.append(f"{', '.join(cases[:SHOWN])}{more}: {reason}")
        return "; ".join(reasons) if self.numbers or reasons else self.nothing


@dataclass(frozen=True)
class Quantity(Generic[D]):
    """Definition of a quantity in `config/targets`."""

    #: Function that computes the numbers from a study's data of a campaign.
    measure: Callable[[D], Measured]
    statistic: StatisticName = "worst"
    #: Whether the wanted value is an upper bound; otherwise it is a lower bound.
    at_most: bool = False

    def worst(self, numbers: Sequence[CaseNumber]) -> CaseNumber:
        """Return the largest number if the wanted value is an upper bound, else the smallest; there is at least one."""
        return (max if self.at_most else min)(numbers, key=lambda number: number.value)

    def value(self, numbers: Sequence[CaseNumber]) -> float:
        """Return the statistic of one or more numbers."""
        statistic = _STATISTICS.get(self.statistic)
        value = statistic(number.value for number in numbers) if statistic else None
        return self.worst(numbers).value if value is None else value

    def interval(self, numbers: Sequence[CaseNumber]) -> Interval | None:
        """Return the interval of the value: of the case that it is from, or by bootstrap; None for a sum."""
        statistic = _STATISTICS.get(self.statistic)
        if len(numbers) == 1 or statistic is None or self.statistic in ("most", "least"):
            value = self.value(numbers)
            return next((number.interval for number in numbers if number.value == value), None)
        return None if self.statistic == "sum" else interval_of_statistic([one.value for one in numbers], statistic)


_STATISTICS: Mapping[str, Callable[[Iterable[float]], float | None]] = {
    "mean": geometric_mean,
    "median": median,
    "arithmetic mean": fmean,
    "most": max,
    "least": min,
    "sum": sum,
}


def target_columns(campaign: Campaign) -> tuple[Column, ...]:
    """Return the columns: target, wanted value, measured value, verdict, number of cases, worst case."""
    return (
        Column("target", "target", numeric=False),
        Column("wanted", "wanted"),
        Column("measured", "measured", campaign.column),
        Column("reached", "reached", campaign.column, numeric=False),
        Column("cases", "cases", campaign.column),
        Column("worst", "worst", campaign.column),
        Column("worst_case", "worst case, or why there is none", campaign.column, numeric=False),
    )


def targets_table(
    campaign: Campaign, published: Published, quantities: Mapping[str, Quantity[D]], data: D, caption: str
) -> Table:
    """Return the table of a study's targets; targets without a quantity of the same name are omitted."""
    rows = [
        target_cells(item, quantity, quantity.measure(data), has_targets(campaign))
        for item in published.targets
        if (quantity := quantities.get(item["quantity"])) is not None
    ]
    return Table(target_columns(campaign), rows, caption)


def target_cells(item: Record, quantity: Quantity[Any], measured: Measured, held: bool) -> tuple[Cell, ...]:
    """Return the table line (`target_columns`) for a target; without a wanted value it has no verdict.

    `held` is the result of `has_targets`.
    """
    numbers, missing = measured.numbers, one_line(measured.why_not, MAX_NOTE_LETTERS)
    wanted, limit = float(item["wanted"]) if item["wanted"] and held else None, "≤" if quantity.at_most else "≥"
    asked = wanted_cell(item, held) if wanted is None else Cell(wanted, f"{limit} {item['wanted']}")
    heads = Cell(item["what"].replace("'", "’")), asked
    if not numbers:
        return (*heads, Cell(), Cell(None, " "), Cell(0), Cell(), Cell(missing) if missing else Cell(None, " "))
    worst, value = quantity.worst(numbers), quantity.value(numbers)
    verdict = Cell(None, " ")
    if wanted is not None:
        verdict = Cell("yes" if (value <= wanted if quantity.at_most else value >= wanted) else "no")
    count = len(numbers)
    partly = Cell(count, f"{count} of {measured.cases}", (f"no number of {missing}",))
    return (
        *heads,
        Cell(value, f"{value:.2f}", measured.notes),
        verdict,
        partly if missing else Cell(count),
        Cell(worst.value, f"{worst.value:.2f}"),
        Cell(worst.case, notes=worst.notes),
    )


def has_targets(campaign: Campaign) -> bool:
    """Return whether wanted values are for the campaign's device; also if it is not recorded."""
    return campaign.device in (None, WANTED_ON)


def wanted_cell(item: Record, held: bool) -> Cell:
    """Return the cell of the wanted value as it is written in `config/targets`; `held` is as in `target_cells`."""
    if not item["wanted"]:
        return Cell(None, "reported")
    return Cell(float(item["wanted"]), item["wanted"]) if held else Cell(None, NO_TARGET)


def wanted_on(campaign: Campaign) -> str:
    """Return a sentence that there are wanted values for another device alone; empty on this device."""
    if campaign.on_cpu:
        return f"What was wanted was set for an {WANTED_ON}: the CPU’s numbers are a rehearsal."
    return "" if has_targets(campaign) else f"What was wanted was set for an {WANTED_ON}, and for no other device."
