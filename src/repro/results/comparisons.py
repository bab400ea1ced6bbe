"""Quantities as data: a time over another, case by case, and a statistic of it over the cases.

Claims (`config/claims`) and targets (`config/targets`) name quantities. A study lists them:

    SPEEDUP = Comparison(LIBRARY, OURS)
    CLAIM_QUANTITIES = {"mean": SPEEDUP.geometric_mean(), "least_large": SPEEDUP.where(is_large).least()}

A number that is no such ratio is a function of a case, given to `Comparison` in place of both times, or a function of
all cases, given to `Quantity`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any, Generic, Literal, NamedTuple, TypeVar, cast

from repro.bench.rows import ClockName
from repro.results.campaign_data import Campaign, Method, ReportedTime
from repro.results.columns import Pick, picked
from repro.results.published import Published
from repro.results.significance import (
    MIN_SAMPLES,
    Interval,
    geometric_mean,
    interval_of_ratio,
    interval_of_statistic,
    scaled_interval,
)
from repro.results.tables import Sample

#: Maximum number of cases that a note names for one reason of a missing number.
MAX_CASES_NAMED = 5
ABSENT = "not in this campaign"
C = TypeVar("C")
D = TypeVar("D")
#: What is compared: a method, whose time is `case[method]`, or a function of the case; it returns a time, a number, a
#: number with its own name and notes, or None if there is none.
Side = Method | Callable[[C], "ReportedTime[Any] | CaseNumber | float | None"]
#: Statistic over cases that is compared with the wanted value; `mean` is the geometric mean.
StatisticName = Literal["worst", "mean", "arithmetic mean", "median", "most", "least", "sum"]
#: Which kernel variants a claim is judged by: the papers' exact ones, the papers' with further tuning, ours, or none
#: if the claim does not depend on a kernel.
JudgedBy = Literal["as_published", "paper_tuned", "ours", "none"]


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
    #: Remarks on the case, for example that its problem is a stand-in.
    notes: tuple[str, ...] = ()


class Measured(NamedTuple):
    """Measured numbers of a quantity, cases without a number, and notes on all of them."""

    numbers: Sequence[CaseNumber]
    missing: Sequence[MissingCase] = ()
    notes: tuple[str, ...] = ()
    #: Message if there are neither numbers nor missing cases.
    empty_reason: str = ""

    @classmethod
    def one(cls, value: float | None, case: str, reason: str = "") -> Measured:
        """Return a single number of all cases; without a value, the reason why `case` has none."""
        if value is None:
            return cls([], [MissingCase(case, reason)] if reason else [])
        return cls([CaseNumber(value, case)])

    @classmethod
    def any_of(cls, numbers: Sequence[CaseNumber], case: str, reason: str) -> Measured:
        """Return the numbers; if there are none, the reason why `case` has none."""
        return cls(numbers, [] if numbers else [MissingCase(case, reason)])

    @property
    def cases(self) -> int:
        return len(self.numbers) + sum(item.numbers for item in self.missing)

    @property
    def sample(self) -> Sample:
        return Sample(tuple(number.value for number in self.numbers), self.cases)

    @property
    def missing_reasons(self) -> str:
        """Text with the reasons of missing numbers and the first few cases for each; empty if none is missing."""
        by_reason: dict[str, list[str]] = {}
        for item in self.missing:
            by_reason.setdefault(item.reason, []).append(item.case)
        reasons = []
        for reason, cases in by_reason.items():
            remainder = f" and {len(cases) - MAX_CASES_NAMED} more" if len(cases) > MAX_CASES_NAMED else ""
            reasons.append(f"{', '.join(cases[:MAX_CASES_NAMED])}{remainder}: {reason}")
        return "; ".join(reasons) if self.numbers or reasons else self.empty_reason


_STATISTICS: Mapping[str, Callable[[Iterable[float]], float | None]] = {
    "mean": geometric_mean,
    "median": median,
    "arithmetic mean": fmean,
    "most": max,
    "least": min,
    "sum": sum,
}


@dataclass(frozen=True)
class Quantity(Generic[D]):
    """A quantity that targets and claims name: how it is computed from the cases of a campaign."""

    #: Function that computes the numbers from a study's data of a campaign.
    measure: Callable[[D], Measured]
    statistic: StatisticName = "worst"
    #: Whether the wanted value is an upper bound; otherwise it is a lower bound.
    at_most: bool = False
    #: Whether the quantity is a time; then the wanted value is larger on a slower device (`TIME_ALLOWANCES`).
    is_time: bool = False

    @classmethod
    def constant(cls, value: float, case: str) -> Quantity[Any]:
        """Return a quantity that follows from definitions, not from measurements."""
        return Quantity(lambda data: Measured.one(value, case))

    def worst(self, numbers: Sequence[CaseNumber]) -> CaseNumber:
        """Return the largest number if the wanted value is an upper bound, else the smallest; there is at least one."""
        return (max if self.at_most else min)(numbers, key=lambda number: number.value)

    def value(self, numbers: Sequence[CaseNumber]) -> float:
        """Return the statistic of one or more numbers."""
        statistic = _STATISTICS.get(self.statistic)
        value = statistic(number.value for number in numbers) if statistic else None
        return self.worst(numbers).value if value is None else value

    def interval(self, numbers: Sequence[CaseNumber]) -> Interval | None:
        """Return the confidence interval of `value`; None for a sum.

        It is the interval of the case that gives the value, or for other statistics a bootstrap over the cases.
        """
        statistic = _STATISTICS.get(self.statistic)
        if len(numbers) == 1 or statistic is None or self.statistic in ("most", "least"):
            value = self.value(numbers)
            return next((number.interval for number in numbers if number.value == value), None)
        return None if self.statistic == "sum" else interval_of_statistic([case.value for case in numbers], statistic)

    def range(self, numbers: Sequence[CaseNumber]) -> Interval | None:
        """Return the least and the largest of several cases that are too few for an interval of their mean."""
        if not 1 < len(numbers) < MIN_SAMPLES or self.statistic not in ("mean", "arithmetic mean", "median"):
            return None
        values = [number.value for number in numbers]
        return min(values), max(values)


@dataclass(frozen=True)
class Cases(Generic[C]):
    """The cases of a campaign, the papers' numbers, and the kernels by which claims are judged."""

    campaign: Campaign
    published: Published
    cases: Sequence[C]
    variants: JudgedBy = "none"
    #: If `cases` are of the papers' problems alone: those of all problems, for `Comparison.on_all_problems`.
    every: Sequence[C] = ()

    def __iter__(self) -> Iterator[C]:
        return iter(self.cases)


def _every(case: object) -> bool:
    return True


def _problem_of(case: Any) -> str:
    return str(case.line.problem)


def _remarks_of(case: Any, *times: ReportedTime) -> tuple[str, ...]:
    remarks: tuple[str, ...] = case.line.remarks
    return remarks


def no_notes(case: Any, *times: ReportedTime) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True)
class Comparison(Generic[C]):
    """A time over another, case by case: how many times as fast the second is as the first."""

    numerator: Side[C]
    #: None: the numerator is the number.
    denominator: Side[C] | None = None
    #: Factor by which the number is multiplied.
    unit: float = 1.0
    #: Names of the problems that count, in this order, absent ones as missing; of the papers, a function of their
    #: numbers; empty: all problems.
    problems: Sequence[str] | Callable[[Published], Sequence[str]] = ()
    counts_every: bool = False
    #: Function that returns what is compared of a case, such as its products; None: the case itself.
    parts: Callable[[Any], Iterable[C]] | None = None
    #: How many numbers are missing of an absent problem.
    numbers: int = 1
    #: Clock of the times; None: that of the cases.
    clock: ClockName | None = None
    #: Function that returns whether a case counts: see `where`.
    counts: Callable[[C], bool] = _every
    #: Kernels by which claims are judged that the numbers are of; empty: of any.
    judged_by: tuple[JudgedBy, ...] = ()
    #: Functions that return the name of a case, and the notes on its number, which was made of some times.
    name: Callable[[C], str] = _problem_of
    notes: Callable[..., tuple[str, ...]] = _remarks_of
    #: Function that returns the reason why a case has no number; None leaves out such cases.
    reason: Callable[[C], str | MissingCase] | None = None
    #: What is missing if there are neither numbers nor reasons: a case, or without one the reason alone.
    empty: MissingCase | None = None
    empty_reason: str = ""

    @property
    def sides(self) -> tuple[Pick, Pick]:
        """Both times, for a table's column (`columns.speedup_column`)."""
        if self.denominator is None:
            raise ValueError("a number is no comparison of two times")
        return cast("tuple[Pick, Pick]", (self.numerator, self.denominator))

    def by(self, clock: ClockName) -> Comparison[C]:
        return replace(self, clock=clock)

    def on(self, *problems: str) -> Comparison[C]:
        """Return the same of the named problems alone."""
        return replace(self, problems=problems)

    def on_all_problems(self) -> Comparison[C]:
        """Return the same of all problems, also those of no paper, such as generated ones."""
        return replace(self, problems=(), counts_every=True)

    def where(self, *conditions: Callable[[C], bool]) -> Comparison[C]:
        """Return the same of fewer cases: those that fulfil all conditions."""
        return replace(self, counts=lambda case: self.counts(case) and all(holds(case) for holds in conditions))

    def of(self, case: C) -> CaseNumber | None:
        """Return the number of one case."""
        above: Any = picked(cast("Pick", self.numerator), case)
        below: Any = picked(cast("Pick", self.denominator), case) if self.denominator else 1.0
        if above is None or below is None:
            return None
        if isinstance(above, CaseNumber):
            return above
        times = [side for side in (above, below) if isinstance(side, ReportedTime)]
        interval = scaled_interval(interval_of_ratio(*times), self.unit) if len(times) > 1 else None
        value = self.unit * (_seconds(above) / _seconds(below))
        return CaseNumber(value, self.name(case), self.notes(case, *times), interval)

    def _counted(self, cases: Cases[Any]) -> Iterator[C | MissingCase]:
        """Yield the compared cases, and the named problems that are absent."""
        names = self.problems(cases.published) if callable(self.problems) else self.problems
        by_name = {case.line.problem: case for case in cases} if names else {}
        every = (self.counts_every and cases.every) or cases
        for case in [by_name.get(name, name) for name in names] if self.problems else every:
            if isinstance(case, str):
                yield MissingCase(case, ABSENT, self.numbers)
                continue
            parts: Iterable[Any] = self.parts(case) if self.parts else [case]
            for part in parts:
                if self.counts(part):
                    yield replace(part, clock=self.clock) if self.clock else part

    def measure(self, cases: Cases[Any]) -> Measured:
        """Return the numbers of all cases that count, and the reasons why others have none."""
        if self.judged_by and cases.variants not in self.judged_by:
            return Measured([])
        numbers, missing = [], []
        for case in self._counted(cases):
            if isinstance(case, MissingCase):
                missing.append(case)
            elif number := self.of(case):
                numbers.append(number)
            elif self.reason and (reason := self.reason(case)):
                missing.append(reason if isinstance(reason, MissingCase) else MissingCase(self.name(case), reason))
        if self.empty and not numbers and not missing:
            missing = [self.empty]
        return Measured(numbers, missing, empty_reason=self.empty_reason)

    def worst(self, *, at_most: bool = False, is_time: bool = False) -> Quantity[Cases[C]]:
        """Return the least number; the largest if the wanted value is an upper bound (`at_most`), as that of a time."""
        return Quantity(self.measure, at_most=at_most or is_time, is_time=is_time)

    def median(self, *, at_most: bool = False) -> Quantity[Cases[C]]:
        return Quantity(self.measure, "median", at_most)

    def mean(self) -> Quantity[Cases[C]]:
        """Return the arithmetic mean."""
        return Quantity(self.measure, "arithmetic mean")

    def geometric_mean(self) -> Quantity[Cases[C]]:
        return Quantity(self.measure, "mean")

    def least(self) -> Quantity[Cases[C]]:
        return Quantity(self.measure, "least")

    def most(self) -> Quantity[Cases[C]]:
        return Quantity(self.measure, "most")

    def total(self) -> Quantity[Cases[C]]:
        return Quantity(self.measure, "sum")

    def share(self, holds: Callable[[float], bool] = lambda number: number > 1) -> Quantity[Cases[C]]:
        """Return the share of cases whose number fulfils a condition: by default, that the second time is shorter."""
        return Quantity(lambda cases: self.answers(cases, holds), "arithmetic mean")

    def count(self, holds: Callable[[float], bool]) -> Quantity[Cases[C]]:
        """Return how many cases have a number that fulfils a condition."""
        return Quantity(lambda cases: self.answers(cases, holds), "sum")

    def answers(self, cases: Cases[C], holds: Callable[[float], bool]) -> Measured:
        """Return 1 for each case whose number fulfils a condition, and 0 for each other."""
        measured = self.measure(cases)
        answers = [number._replace(value=float(holds(number.value)), interval=None) for number in measured.numbers]
        return measured._replace(numbers=answers)


def _seconds(side: ReportedTime[Any] | float) -> float:
    return side.seconds if isinstance(side, ReportedTime) else side
