"""What tables of targets share: a line a target, with what was wanted and what was reached."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column
from repro.artifacts.published import Record

#: What the wanted numbers of `config/targets` were set for.
WANTED_ON = "NVIDIA H200"
#: Cases that are named of those without a number for the same reason.
SHOWN = 5


class Number(NamedTuple):
    """What was measured of one case: the number, the case's name, and what is to be said of it."""

    value: float
    case: str
    notes: tuple[str, ...] = ()


class Missing(NamedTuple):
    """A case without a number, why it has none, and how many numbers it would have."""

    case: str
    reason: str
    numbers: int = 1


class Measured(NamedTuple):
    """What was measured of a quantity: numbers, and the cases without one."""

    numbers: list[Number]
    missing: list[Missing]

    @property
    def cases(self) -> int:
        """How many numbers are wanted."""
        return len(self.numbers) + sum(item.numbers for item in self.missing)

    @property
    def why_not(self) -> str:
        """The cases without a number, the first few of those with the same reason; empty where all have one."""
        by_reason: dict[str, list[str]] = {}
        for item in self.missing:
            by_reason.setdefault(item.reason, []).append(item.case)
        return "; ".join(f"{_some(cases)}: {reason}" for reason, cases in by_reason.items())


def _some(cases: Sequence[str]) -> str:
    more = len(cases) - SHOWN
    return ", ".join(cases[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def target_columns(campaign: Campaign) -> tuple[Column, ...]:
    """Return the columns: the target, what was wanted and measured, a verdict, the cases and the worst of them."""
    return (
        Column("target", "target", numeric=False),
        Column("wanted", "wanted"),
        Column("measured", "measured", campaign.column),
        Column("reached", "reached", campaign.column, numeric=False),
        Column("cases", "cases", campaign.column),
        Column("worst", "worst", campaign.column),
        Column("worst_case", "worst case, or why there is none", campaign.column, numeric=False),
    )


def target_line(
    item: Record,
    numbers: Sequence[Number],
    *,
    at_most: bool,
    statistic: Callable[[Iterable[float]], float | None] | None = None,
    cases: int | None = None,
    missing: str = "",
    notes: tuple[str, ...] = (),
) -> tuple[Cell, ...]:
    """Return the line of a target, the cells of `target_columns`.

    Parameters
    ----------
    item
        The target: what it is of, and the number that is wanted; empty where it is only reported.
    numbers
        What was measured, case by case.
    at_most
        Whether the wanted number may not be exceeded, or else is to be reached.
    statistic
        What is wanted of the numbers; None: the worst of them.
    cases
        How many numbers are wanted; None: as many as there are.
    missing
        Which cases have none, and why.
    notes
        What is to be said of the number.
    """
    wanted, limit = float(item["wanted"]) if item["wanted"] else None, "≤" if at_most else "≥"
    asked = Cell(None, "reported") if wanted is None else Cell(wanted, f"{limit} {item['wanted']}")
    heads = Cell(item["what"].replace("'", "’")), asked
    if not numbers:
        return (*heads, Cell(), Cell(None, " "), Cell(0), Cell(), Cell(missing))
    worst = (max if at_most else min)(numbers, key=lambda number: number.value)
    of_all = statistic(number.value for number in numbers) if statistic else None
    value = worst.value if of_all is None else of_all
    if wanted is None:
        verdict = Cell(None, " ")
    else:
        verdict = Cell("yes" if (value <= wanted if at_most else value >= wanted) else "no")
    count = len(numbers)
    partly = Cell(count, f"{count} of {cases}", (f"no number of {missing}",))
    return (
        *heads,
        Cell(value, f"{value:.2f}", notes),
        verdict,
        partly if missing and cases is not None else Cell(count),
        Cell(worst.value, f"{worst.value:.2f}"),
        Cell(worst.case, notes=worst.notes),
    )


def wanted_on(campaign: Campaign) -> str:
    """Return the sentence about what was wanted of another device than the campaign's; empty where it was of this."""
    if campaign.on_cpu:
        return "What was wanted is for a GPU: the CPU’s numbers are a rehearsal."
    return f"What was wanted was set for an {WANTED_ON}." if campaign.device not in (None, WANTED_ON) else ""
