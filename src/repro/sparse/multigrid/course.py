"""How a solution comes along: residuals that are computed where something is claimed, and when it is at an end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: Steps of conjugate gradients from one residual that is computed, rather than updated, to the next.
COMPUTED_EVERY = 50
#: A residual that is so many times the updated one has drifted away from it.
DRIFT = 2
#: Part of the residual computed last at which it is computed again.
NEXT = 0.1
#: Part of the least residual below which another one is progress, and how often in a row there may be none.
PROGRESS, MOST_IDLE = 0.5, 2


@dataclass(frozen=True)
class Solved:
    """What an iteration came to.

    Attributes
    ----------
    residuals
        Euclidean norms of b - A x, the one at the start first. The last one is computed from x with sums in double
        precision; which others are, the method says.
    converged
        Whether the last one is as small as was asked for.
    reached
        The last one over the norm of b, which neither overflows nor underflows.
    rounding
        Where it did not converge: about what rounding x leaves of the residual, over the norm of b.
    """

    residuals: list[float]
    converged: bool
    reached: float
    rounding: float | None = None


class Course:
    """The residuals of conjugate gradients, which update theirs from step to step.

    An updated residual goes on shrinking where that of x cannot: x is rounded in each step, and no update knows of it.
    Thus the residual is computed from x before it counts as small enough, and every `COMPUTED_EVERY` steps.

    Parameters
    ----------
    first
        The residual at the start.
    wanted
        How small it has to be.
    floor
        The residual that hardly any solution comes below; it is computed there if not before.

    Attributes
    ----------
    residuals
        One at the start and one for each step.
    drifted
        Whether an updated residual was found to be another than that of x.
    hovers
        Whether so many steps came no further, for whatever reason.
    stalled
        Whether what was begun anew with the computed residual again and again came no further.
    """

    def __init__(self, first: float, wanted: float, floor: float) -> None:
        self.residuals = [first]
        self.drifted = self.hovers = self.stalled = False
        self._wanted, self._next = wanted, max(wanted, floor)
        self._computed = 0  # the step whose residual was computed last
        self._idle, self._least = 0, np.inf

    @property
    def steps(self) -> int:
        """How many there were."""
        return len(self.residuals) - 1

    @property
    def converged(self) -> bool:
        """Whether the last residual was computed, and is small enough."""
        return self._computed == self.steps and self.residuals[-1] <= self._wanted

    def goes_on(self, most: int) -> bool:
        """Say whether another step is of use, after so many at the most."""
        return not (self.converged or self.stalled) and self.steps < most and bool(np.isfinite(self.residuals[-1]))

    def take_updated(self, residual: float) -> None:
        """Take the updated residual after another step."""
        self.residuals.append(residual)

    def is_due(self, most: int) -> bool:
        """Say whether the last residual has to be computed."""
        late = self.steps - self._computed >= COMPUTED_EVERY or self.steps >= most
        return late or not self._next < self.residuals[-1] < np.inf

    def take_computed(self, residual: float) -> bool:
        """Take the last residual as it was computed, and say whether the updated one has drifted away from it.

        Those since the one computed before are raised to it then. What x was off in each step adds up, so that each was
        off by no more than the last.
        """
        drifted = not residual <= DRIFT * self.residuals[-1]
        late = self.steps - self._computed >= COMPUTED_EVERY
        self.hovers = late and residual > PROGRESS * self.residuals[self._computed]
        if drifted:
            for step in range(self._computed + 1, self.steps):
                self.residuals[step] = max(self.residuals[step], residual)
            self._idle = self._idle + 1 if residual > PROGRESS * self._least else 0
            self._least = min(self._least, residual)
            self.stalled = self._idle >= MOST_IDLE
            self.drifted = True
        self.residuals[-1], self._computed = residual, self.steps
        self._next = max(self._wanted, NEXT * residual)
        return drifted
