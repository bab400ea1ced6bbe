"""Try what other problems' times speak for, and learn from each time which to try next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro.errors import ReproError
from repro.tuning.belief import WORD, Belief
from repro.tuning.recordings import Recording
from repro.tuning.space import Likeness, PointOf, likeness_of
from repro.tuning.strategies import Measure, allowed

Array = NDArray[np.float64]

#: A recorded problem tells of a space if it was searched for at least this share of it, and has a time there.
COVERED = 0.5
#: A problem that differs by so many standard deviations in each feature counts exp(-1/2) of one that is the same …
ALIKE = 0.7
#: … and none counts less than this: what other kinds of problems do is better than nothing.
LEAST = 0.05
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


def prior(space: Sequence[str], recordings: Sequence[Recording], target: Array, likeness: Likeness) -> Belief:
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
    return Belief(mean, factors, likeness, groups)


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
    weights: Array = np.maximum(np.exp(-far / (2 * ALIKE**2)), LEAST)
    weights /= weights.sum()
    return weights
