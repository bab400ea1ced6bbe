"""Numbers that tables are made of."""

from __future__ import annotations

from collections.abc import Iterable
from math import exp, log
from statistics import median

from repro.artifacts.case import Timed


def ratio_of(base: Timed | None, over: Timed | None) -> float | None:
    """Return how many times faster `over` is than `base`, None if either is missing."""
    return base.seconds / over.seconds if base and over else None


def geometric_mean(values: Iterable[float | None]) -> float | None:
    """Return the geometric mean of the numbers that are there, None of none."""
    numbers = [value for value in values if value]
    return exp(sum(map(log, numbers)) / len(numbers)) if numbers else None


def median_of(values: Iterable[float | None]) -> float | None:
    """Return the median of the numbers that are there, None of none."""
    numbers = [value for value in values if value is not None]
    return median(numbers) if numbers else None
