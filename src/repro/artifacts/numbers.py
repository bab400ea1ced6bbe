"""Numbers that tables are made of."""

from __future__ import annotations

from collections.abc import Iterable
from math import exp, log
from statistics import median

from repro.artifacts.case import Timed
from repro.artifacts.significance import Interval, relative_interval


def ratio_of(base: Timed | None, over: Timed | None) -> float | None:
    """Return how many times faster `over` is than `base`, None if either is missing."""
    return base.seconds / over.seconds if base and over else None


def interval_of(timed: Timed | None) -> Interval | None:
    """Return the interval of a time in seconds; None without samples of several rounds."""
    factors = relative_interval(timed.rounds) if timed else None
    return (timed.seconds * factors[0], timed.seconds * factors[1]) if timed and factors else None


def interval_of_ratio(base: Timed | None, over: Timed | None) -> Interval | None:
    """Return the interval of `ratio_of`; None without samples of several rounds of both."""
    ratio = ratio_of(base, over)
    factors = relative_interval(base.rounds, over.rounds) if base and over else None
    return (ratio * factors[0], ratio * factors[1]) if ratio and factors else None


def scaled(interval: Interval | None, factor: float) -> Interval | None:
    """Return an interval in another unit."""
    return (interval[0] * factor, interval[1] * factor) if interval else None


def geometric_mean(values: Iterable[float | None]) -> float | None:
    """Return the geometric mean of the numbers that are there, None of none."""
    numbers = [value for value in values if value]
    return exp(sum(map(log, numbers)) / len(numbers)) if numbers else None


def median_of(values: Iterable[float | None]) -> float | None:
    """Return the median of the numbers that are there, None of none."""
    numbers = [value for value in values if value is not None]
    return median(numbers) if numbers else None
