"""Try what other problems' times speak for, and learn from each time which variant to try next.

A Gaussian process over log times has its prior from recorded problems and learns one time after the other.

The constants were chosen with the campaign `h200` in view. Replays of its searches with other values, each problem
predicted from all others, have a median loss of 0 throughout, and these worst losses:

- `ALIKE` (0.7): in our space 8 % with 0.6 and 0.8 as well, 11 % with 0.5 and 1.0, of `dragon_res2` in single
  precision.
- `WORD` of 0.10, 0.13, 0.16 and 0.20: 8, 8, 8 and 10 % in our space, 5 to 7 % in the papers'.
- `NEAR` of 0.07 and 0.14: 11 and 8 % in our space, 5 and 7 % in the papers'.
- `LEADS`, a look at words that nothing tried has: after a quarter or a third of the budget 8 and 6 %, without it
  8 %. It is from rows that the campaign had before, of a space without pairs. There the worst loss was 17 %
  without it, of `fem/motor_257k` in single precision, 150 MB whose columns are scattered: all of the best variants
  loaded by `cs`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro.errors import ReproError
from repro.tuning.recordings import Recording
from repro.tuning.strategies import Measure, allowed
from repro.tuning.variant_space import Likeness, PointOf, likeness_of

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


class GaussianProcess:
    """Mean and covariance of the log times of n variants of one problem.

    Parameters
    ----------
    mean
        `(n,)`, up to a constant.
    factors
        `(f, n)`: the covariance that is known beforehand is their product.
    likeness
        Returns the likeness of all variants to one, `(n,)`; see `repro.tuning.variant_space.Likeness`.
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


#: A recorded problem tells of a space if it was searched for at least this share of it, and has a time there.
COVERED = 0.5
#: A problem that differs by so many standard deviations in each feature counts exp(-1/2) of one that is the same …
ALIKE = 0.7
#: … and none counts less than this: what other kinds of problems do is better than nothing.
MIN_WEIGHT = 0.05
#: After this share of the budget, words of the space that no variant tried so far has are tried, each once.
LEADS = 0.5


@dataclass(frozen=True)
class Predicted:
    """Bayesian optimisation with a prior from recorded problems.

    Attributes
    ----------
    recordings
        Problems that were searched before.
    features
        Of the problem to search; as `repro.tuning.recordings.FeaturesOf` returns them.
    budget
        Share of the space that may be measured.
    point_of
        Reads the text of a variant.
    reference
        The group that the first variant is taken from, where it has any: every other time is compared with that.
    """

    recordings: Sequence[Recording]
    features: Array
    budget: float
    point_of: PointOf
    reference: str | None = None

    def __call__(self, space: Sequence[str], measure: Measure) -> None:
        """Measure the most promising variant, learn its time, and so on until the budget is spent.

        The first is one of the reference, where there is one. Halfway the words that have not been tried have their
        turn, the variant of the least mean with each: where the recorded problems speak against all of a kind, one look
        tells whether this problem is like them.

        Raises
        ------
        ReproError
            No recorded problem was searched for most of this space.
        """
        likeness = likeness_of(tuple(space), self.point_of)
        belief = prior(space, self.recordings, self.features, likeness)
        reference = np.array([group == self.reference for group in likeness.groups])
        index = belief.fastest(reference if reference.any() else None)
        words = likeness.words().astype(bool)
        tries = allowed(space, self.budget)
        for trial in range(tries):
            belief.observe(index, measure(index))
            words = words[~words[:, index]]
            untried = words.any(axis=0) if trial >= LEADS * tries else np.zeros(len(space), dtype=bool)
            index = belief.fastest(untried) if untried.any() else belief.most_promising()


def prior(space: Sequence[str], recordings: Sequence[Recording], target: Array, likeness: Likeness) -> GaussianProcess:
    """Return what the recorded problems make expect: mean and covariance of their log times over their best.

    Problems count by how alike they are to the one of the features `target`.

    Raises
    ------
    ReproError
        None of them was searched for most of this space, with a time of any of it.
    """
    covering = [recording for recording in recordings if covers(recording, space)]
    if not covering:
        raise ReproError(
            "no recorded campaign has searched this space",
            expected=f"times of at least half of its {len(space)} variants, from {space[0]} to {space[-1]}",
            actual=f"{len(recordings)} recorded problems of other spaces, searched in part, or all failed",
            todo="measure a campaign of this space with `search: exhaustive` first",
        )
    losses = np.array([_losses(recording, space, likeness) for recording in covering])
    weights = _weights(np.array([recording.features for recording in covering]), target)
    mean = weights @ losses
    groups = np.unique(likeness.groups, return_inverse=True)[1]
    factors = np.vstack([np.sqrt(weights)[:, None] * (losses - mean), WORD * likeness.words()])
    return GaussianProcess(mean, factors, likeness, groups)


def covers(recording: Recording, space: Sequence[str]) -> bool:
    """Return whether a recorded problem was searched for enough of a space to tell of it, and not all of it failed."""
    tried = [recording.seconds[name] for name in space if name in recording.seconds]
    return len(tried) >= COVERED * len(space) and any(seconds is not None for seconds in tried)


def _losses(recording: Recording, space: Sequence[str], likeness: Likeness) -> Array:
    """Return each variant's log time over the best; the slowest's where it failed, that of its like where untried."""
    tried = np.array([name in recording.seconds for name in space])
    times = np.array([recording.seconds.get(name) or np.nan for name in space])
    losses: Array = np.log(times / np.nanmin(times))
    losses[tried & np.isnan(losses)] = np.nanmax(losses)
    for index in np.flatnonzero(~tried):
        alike = likeness(int(index))[tried]
        losses[index] = np.average(losses[tried], weights=alike + np.finfo(float).tiny)
    return losses


def _weights(features: Array, target: Array) -> Array:
    """Return how much each problem counts, in sum 1: `(problems,)` from `(problems, features)`.

    Each is compared with the target by the features that both have; NaN is one that is not known.
    """
    stated = np.isfinite(features)
    count = np.maximum(stated.sum(axis=0), 1)
    mean = np.where(stated, features, 0.0).sum(axis=0) / count
    deviation = np.sqrt((np.where(stated, features - mean, 0.0) ** 2).sum(axis=0) / count)
    distance = (features - target) / np.where(deviation > 0, deviation, 1.0)
    shared = np.isfinite(distance)
    squares = np.where(shared, distance, 0.0) ** 2
    far = squares.sum(axis=1) / np.maximum(shared.sum(axis=1), 1)
    weights: Array = np.maximum(np.exp(-far / (2 * ALIKE**2)), MIN_WEIGHT)
    weights /= weights.sum()
    return weights
