"""Try everything: the truth that other strategies are judged by."""

from __future__ import annotations

from collections.abc import Sequence

from repro.tuning.strategies import Measure


def exhaustive(space: Sequence[str], measure: Measure) -> None:
    """Measure every variant, in the order of the space."""
    for index in range(len(space)):
        measure(index)
