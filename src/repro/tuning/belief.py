"""What is believed of the times of a space's variants: a Gaussian process over log times that learns one by one.

The constants here and in `repro.tuning.strategies.predicted` were chosen with the campaign `h200` in view. Replays of
its searches with other values, each problem with what all others say, have a median loss of 0 throughout, and these
worst losses:

- `ALIKE` (0.7): in our space 8 % with 0.6 and 0.8 as well, 11 % with 0.5 and 1.0, of `dragon_res2` in single precision.
- `WORD` of 0.10, 0.13, 0.16 and 0.20: 8, 8, 8 and 10 % in our space, 5 to 7 % in the papers'.
- `NEAR` of 0.07 and 0.14: 11 and 8 % in our space, 5 and 7 % in the papers'.
- `LEADS`, a look at words that nothing tried has: after a quarter or a third of the budget 8 and 6 %, without it 8 %.
  It is from rows that the campaign had before, of a space without pairs. There the worst loss was 17 % without it, of
  `fem/motor_257k` in single precision, 150 MB whose columns are scattered: all of the best variants loaded by `cs`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Relative standard deviation of a median of a few launches …
NOISE = 0.02
#: … of what a variant does on a problem that no other variant tells of …
ALONE = 0.02
#: … of what it has in common with the variants that are like it, beyond what the recorded problems tell …
NEAR = 0.10
#: … of what each word of their names does on this problem alone, wherever it stands …
WORD = 0.10
#: … and, as a factor of e, of how fast the problem is as a whole: all but unknown before the first time is measured.
WHOLE = 3.0


class Belief:
    """Mean and covariance of the log times of n variants of one problem.

    Parameters
    ----------
    mean
        `(n,)`, up to a constant.
    factors
        `(f, n)`: the covariance that is known beforehand is their product.
    likeness
        Returns the likeness of all variants to one, `(n,)`; see `repro.tuning.space.Likeness`.
    groups
        `(n,)`, equal where the group is: what fails mostly fails for its group's sake, its layout's say.
    """

    def __init__(self, mean: Array, factors: Array, likeness: Callable[[int], Array], groups: NDArray[np.intp]) -> None:
        self.mean = mean.copy()
        self._factors = np.vstack([factors, np.full(len(mean), WHOLE)])
        self._likeness = likeness
        self.variance = (self._factors**2).sum(axis=0) + NEAR**2 + ALONE**2
        self._learnt = np.empty((0, len(mean)))
        self._tried = np.zeros(len(mean), dtype=bool)
        self._best: float | None = None
        self._groups = groups
        self._failed = np.zeros(groups.max() + 1)  # by how many more of a group failed than worked

    def fastest(self, among: NDArray[np.bool_] | None = None) -> int:
        """Return the variant of the least mean, of those that are `among`."""
        return _first_largest(-self.mean, self._tried if among is None else self._tried | ~among)

    def most_promising(self) -> int:
        """Return the untried variant whose improvement on the best time so far is expected to be largest."""
        from scipy.special import ndtr  # slow to import, and needed by one strategy alone

        failed = self._failed[self._groups]
        if self._best is None:
            return self.fastest(failed == failed[~self._tried].min(initial=np.inf))
        deviation = np.sqrt(np.maximum(self.variance, 0) + 1e-12)
        z = (self._best - self.mean) / deviation
        density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
        odds = 0.5 ** np.maximum(failed, 0)  # halved by each failure that no success makes up for
        return _first_largest(deviation * (z * ndtr(z) + density) * odds, self._tried)

    def observe(self, index: int, seconds: float | None) -> None:
        """Learn one time; None where the variant failed."""
        self._tried[index] = True
        self._failed[self._groups[index]] += 1 if seconds is None else -1
        if seconds is None:
            return
        value = float(np.log(seconds))
        self._best = value if self._best is None else min(self._best, value)
        covariance = self._factors.T @ self._factors[:, index] + NEAR**2 * self._likeness(index)
        covariance[index] += ALONE**2
        covariance -= self._learnt.T @ self._learnt[:, index]
        deviation = np.sqrt(covariance[index] + NOISE**2)
        gain = covariance / deviation
        self.mean += gain * (value - self.mean[index]) / deviation
        self.variance -= gain**2
        self._learnt = np.vstack([self._learnt, gain])


def _first_largest(values: Array, without: NDArray[np.bool_]) -> int:
    """Return the first of the largest, to the digits of float32: no linear algebra library's last bits decide."""
    return int(np.argmax(np.where(without, -np.inf, values.astype(np.float32))))
