"""What a matrix that grows can be asked to be: its shape, its dtype, its room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from repro.errors import ReproError
from repro.problems.matrix import MOST
from repro.sparse.dynamic.layout import MOST_ENTRIES, SEGMENTS
from repro.sparse.dynamic.matrix import GROWTH

#: The least room that a new segment has beside its entries, and limits of what can be asked for.
LEAST_SLACK, MOST_SLACK, MOST_SEGMENTS = 4, 1 << 20, 64


@dataclass(frozen=True)
class Room:
    """How much room a matrix has, as `DynamicCSR` explains it."""

    segments: int = SEGMENTS
    slack: int | None = None
    capacity: int | None = None
    width: int = 0

    def __post_init__(self) -> None:
        whole_number(self.segments, "segments", 1, MOST_SEGMENTS)
        whole_number(self.width, "width", 0, MOST_ENTRIES)
        if self.slack is not None:
            whole_number(self.slack, "slack", 0, MOST_SLACK)
        if self.capacity is not None:
            whole_number(self.capacity, "capacity", 0, MOST_ENTRIES)

    def slack_of(self, entries: int, rows: int) -> int:
        """Return the slack for so many entries at first: that asked for, or the mean length of a row."""
        return max(LEAST_SLACK, -(-entries // max(rows, 1))) if self.slack is None else self.slack

    def for_entries(self, entries: int) -> int:
        """Return the capacity for so many entries at first: that asked for, or half as much again."""
        return max(entries, min(int(GROWTH * entries), MOST_ENTRIES)) if self.capacity is None else self.capacity


def check_shape(shape: Any, segments: int) -> tuple[int, int]:
    """Return the shape of a matrix, if there can be one.

    Raises
    ------
    ReproError
    """
    try:
        rows, columns = shape
    except (TypeError, ValueError):
        raise ReproError(
            "this is no shape of a matrix", where="shape", expected="two whole numbers", actual=shape
        ) from None
    return (
        whole_number(rows, "shape[0], rows", 0, MOST_ENTRIES // segments),
        whole_number(columns, "shape[1], columns", 0, MOST),
    )


def whole_number(value: Any, what: str, least: int, most: int) -> int:
    """Return a whole number of a user's within limits.

    Raises
    ------
    ReproError
    """
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or not least <= value <= most:
        raise ReproError(
            "this is no such number",
            where=what,
            expected=f"a whole number from {least:,} to {most:,}",
            actual=repr(value),
        )
    return int(value)


def real_number(value: Any, what: str, least: float = -np.inf) -> float:
    """Return a real number of a user's that is finite and not below a limit.

    Raises
    ------
    ReproError
    """
    real = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    try:
        number = float(value) if real else np.nan
    except OverflowError:
        number = np.inf
    if not (np.isfinite(number) and number >= least):
        limit = "" if least == -np.inf else f" of at least {least:g}"
        expected = f"a finite real number{limit}"
        raise ReproError("this is no such number", where=what, expected=expected, actual=repr(value))
    return number


def one_of(word: Any, what: str, words: tuple[str, ...]) -> None:
    """Refuse a word that is none of these.

    Raises
    ------
    ReproError
    """
    if not isinstance(word, str) or word not in words:
        raise ReproError(f"unknown {what}", where=what, expected=" or ".join(words), actual=repr(word))
