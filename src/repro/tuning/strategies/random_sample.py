"""Try a few at random: what any cleverer strategy has to beat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from repro.tuning.strategies import Measure, allowed


@dataclass(frozen=True)
class RandomSample:
    """Measures a share of the space, drawn without repetition."""

    budget: float
    seed: int

    def __call__(self, space: Sequence[str], measure: Measure) -> None:
        """Measure variants in a random order until the budget is spent."""
        for index in np.random.default_rng(self.seed).permutation(len(space))[: allowed(space, self.budget)]:
            measure(int(index))
