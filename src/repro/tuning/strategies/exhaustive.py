"""Try everything: the truth that other strategies are judged by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from repro.tuning.strategies import Measure


@dataclass(frozen=True)
class Exhaustive:
    """Measures the whole space."""

    budget: float = 1.0

    def __call__(self, space: Sequence[str], measure: Measure) -> None:
        """Measure every variant, in the order of the space."""
        for index in range(len(space)):
            measure(index)
