"""Strategies: which variants of a space are measured, and in which order. One file each.

A strategy is called with the names of the variants and with what measures one of them, and returns when it has had
enough. It keeps no rows: those are the business of whoever measures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

#: Measures the variant of that place in the space: seconds, or None where it failed.
Measure = Callable[[int], float | None]


class Strategy(Protocol):
    """What decides which variants are measured.

    Attributes
    ----------
    budget
        Share of the space that it measures.
    """

    @property
    def budget(self) -> float:
        """See above."""

    def __call__(self, space: Sequence[str], measure: Measure) -> None:
        """Measure variants of a space, given by their names."""


def allowed(space: Sequence[str], share: float) -> int:
    """Return how many variants of a space a share of it is, at least one."""
    return max(1, int(share * len(space)))


__all__ = ["Measure", "Strategy", "allowed"]
