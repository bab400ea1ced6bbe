"""Search strategies: decide which variants of a space to measure, and in which order.

The prediction of times uses the similarity of variants. Strategies are evaluated on recorded campaigns, whose times
replace measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from repro.bench.variant_id import BaseId, SearchPoint
from repro.errors import ReproError
from repro.tuning.recordings import Recording

Array = NDArray[np.float64]
Id = TypeVar("Id", bound=BaseId)

#: The similarity of two variants falls to exp(-1/2) if they differ by a factor of two in one size.
OCTAVE = 1.0
#: Factor of the similarity for each word in which two variants differ: format, order, or kind of schedule.
UNLIKE = 0.5
#: Number of random searches to average over.
SEEDS = 20
#: Maximum number of recorded problems to evaluate. Each one learns from all others, so the time grows quadratically.
MAX_EVALUATED = 100
#: Loss assigned to a search that has found no working variant.
NOTHING_FOUND = 10.0


class VariantCovariance:
    """Similarity of variants, used as a covariance: 1 for equal variants, near 0 for very different ones."""

    def __init__(self, points: Sequence[SearchPoint]) -> None:
        codes: dict[str, int] = {}
        self.groups = [point.group for point in points]
        self._words = np.array([[codes.setdefault(word, len(codes)) for word in point.words] for point in points])
        self._numbers = np.array([point.numbers for point in points])
        self._computed: dict[int, Array] = {}

    def words(self) -> Array:
        """Return a 0-1 array `(words, n)` that tells which variants have each word, a categorical coordinate.

        Words that all variants have are left out.
        """
        columns = [column == code for column in self._words.T for code in np.unique(column)]
        return np.array([has for has in columns if not has.all()], dtype=float).reshape(-1, len(self._words))

    def __call__(self, index: int) -> Array:
        """Return the similarity of each variant to the variant `index`, `(n,)`."""
        if index not in self._computed:
            octaves = ((self._numbers - self._numbers[index]) ** 2).sum(axis=1) / (2 * OCTAVE**2)
            differing_words = (self._words != self._words[index]).sum(axis=1)
            self._computed[index] = np.exp(-octaves) * UNLIKE**differing_words
        return self._computed[index]


def read_ids(names: Iterable[str], id_class: type[Id]) -> list[Id]:
    return [id_class.parse(name) for name in names]


@lru_cache(maxsize=4)
def variant_covariance(space: tuple[str, ...], id_class: type[BaseId]) -> VariantCovariance:
    """Return the similarities of variants, given their ids as text; cached for searches of one space."""
    return VariantCovariance([id.point for id in read_ids(space, id_class)])


#: Function that measures the variant with the given index; returns seconds, or None if the variant failed.
Measure = Callable[[int], float | None]


class Builder(Protocol):
    """Builds variants before they are measured, several at once."""

    @property
    def width(self) -> int:
        """Number of variants that are built at once."""

    def __call__(self, indices: Sequence[int]) -> None:
        """Build the variants with the given indices and wait for them; variants that are built already cost nothing."""


class Strategy(Protocol):
    """Measures variants of a space until the strategy's budget is used; the caller stores the results."""

    @property
    def budget(self) -> float:
        """Fraction of the space to measure."""

    def __call__(self, space: Sequence[str], measure: Measure, build: Builder | None = None) -> None:
        """Measure variants of a space; `space` contains the names of all variants.

        With `build`, each variant is built before it is measured, together with others that are likely to follow.
        """


def budgeted_count(space: Sequence[str], share: float) -> int:
    """Return the number of variants in a fraction of a space, at least one."""
    return max(1, int(share * len(space)))


@dataclass(frozen=True)
class Exhaustive:
    budget: float = 1.0

    def __call__(self, space: Sequence[str], measure: Measure, build: Builder | None = None) -> None:
        _measure_all(range(len(space)), measure, build)


@dataclass(frozen=True)
class Again:
    """Measures the variants that an earlier process tried; the caller has their rows."""

    names: frozenset[str]
    budget: float = 1.0

    def __call__(self, space: Sequence[str], measure: Measure, build: Builder | None = None) -> None:
        _measure_all([index for index, name in enumerate(space) if name in self.names], measure, build)


@dataclass(frozen=True)
class RandomSample:
    """Measures a random fraction of the space, without repetition."""

    budget: float
    seed: int

    def __call__(self, space: Sequence[str], measure: Measure, build: Builder | None = None) -> None:
        sample = np.random.default_rng(self.seed).permutation(len(space))[: budgeted_count(space, self.budget)]
        _measure_all(sample.tolist(), measure, build)


def _measure_all(indices: Sequence[int], measure: Measure, build: Builder | None) -> None:
    for number, index in enumerate(indices):
        if build and number % build.width == 0:
            build(indices[number : number + build.width])
        measure(index)


# `NEAR`, `WORD_DEVIATION`, `ALIKE` and `LEADS` were chosen by replaying searches (docs/adr/0031-predicted-search.md).

#: Relative standard deviation of a median over few launches.
MEDIAN_DEVIATION = 0.02
#: Relative standard deviation of an effect that a single variant has on a problem, independent of other variants.
VARIANT_DEVIATION = 0.02
#: Relative standard deviation of an effect that similar variants share on a problem and that recorded problems do not
#: show.
NEAR = 0.10
#: Relative standard deviation of the effect that each word of a variant's id has on a problem.
WORD_DEVIATION = 0.10
#: Standard deviation of the logarithm of a problem's overall speed: almost unknown before the first measured time.
SPEED_DEVIATION = 3.0


class GaussianProcess:
    """Gaussian process model: mean and covariance of the logarithms of times, for n variants on one problem.

    Parameters
    ----------
    mean
        `(n,)`, known except for an additive constant.
    factors
        `(f, n)` matrix F; the prior covariance is F^T F plus the terms of `SPEED_DEVIATION`, `NEAR` and
        `VARIANT_DEVIATION`.
    likeness
        Function that returns the similarity of each variant to a given one, `(n,)`.
    groups
        `(n,)` group numbers; variants of one group, for example of one layout, tend to fail together.
    """

    def __init__(self, mean: Array, factors: Array, likeness: Callable[[int], Array], groups: NDArray[np.intp]) -> None:
        self.mean = mean.copy()
        self._factors = np.vstack([factors, np.full(len(mean), SPEED_DEVIATION)])
        self._likeness = likeness
        self.variance = (self._factors**2).sum(axis=0) + NEAR**2 + VARIANT_DEVIATION**2
        self._learnt = np.empty((0, len(mean)))
        self._tried = np.zeros(len(mean), dtype=bool)
        self._best: float | None = None
        self._groups = groups
        self._failed = np.zeros(groups.max() + 1)  # number of failures minus number of successes in each group

    def fastest(self, among: NDArray[np.bool_] | None = None) -> int:
        """Return the untried variant with the lowest mean; with `among`, the variant with the lowest mean in this
        subset.
        """
        return _first_largest(-self.mean, self._tried if among is None else self._tried | ~among)

    def most_promising(self) -> int:
        """Return the untried variant with the largest expected improvement."""
        return _first_largest(self.promises(), self._tried)

    def promises(self) -> Array:
        """Return the expected improvement on the best time so far, as a share of it, `(n,)`; of tried variants -inf.

        Before the first time it is larger than 0 for groups with the fewest failures only, and in the order of means.
        """
        from scipy.special import ndtr  # slow import, needed only here

        failure_counts = self._failed[self._groups]
        if self._best is None:
            fewest = failure_counts == failure_counts[~self._tried].min(initial=np.inf)
            return np.where(self._tried, -np.inf, np.exp(-self.mean) * fewest)
        deviation = np.sqrt(np.maximum(self.variance, 0) + 1e-12)
        z = (self._best - self.mean) / deviation
        density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
        odds = 0.5 ** np.maximum(failure_counts, 0)  # halve the odds for each failure beyond the successes
        return np.where(self._tried, -np.inf, deviation * (z * ndtr(z) + density) * odds)

    def observe(self, index: int, seconds: float | None) -> None:
        """Update the model with a measured time; None means that the variant failed."""
        self._tried[index] = True
        self._failed[self._groups[index]] += 1 if seconds is None else -1
        if seconds is None:
            return
        value = float(np.log(seconds))
        self._best = value if self._best is None else min(self._best, value)
        covariance = self._factors.T @ self._factors[:, index] + NEAR**2 * self._likeness(index)
        covariance[index] += VARIANT_DEVIATION**2
        covariance -= self._learnt.T @ self._learnt[:, index]
        deviation = np.sqrt(covariance[index] + MEDIAN_DEVIATION**2)
        gain = covariance / deviation
        self.mean += gain * (value - self.mean[index]) / deviation
        self.variance -= gain**2
        self._learnt = np.vstack([self._learnt, gain])


def _first_largest(values: Array, excluded: NDArray[np.bool_]) -> int:
    """Return the index of the first maximum in float32, so that rounding in BLAS does not affect the choice."""
    return int(np.argmax(np.where(excluded, -np.inf, values.astype(np.float32))))


#: A recorded problem is used only if its search tried at least this fraction of the space, with at least one time.
MIN_TRIED_SHARE = 0.5
#: If a feature differs by this many standard deviations, a recorded problem's weight falls by the factor exp(-1/2).
ALIKE = 0.7
#: Minimum weight of a recorded problem before normalisation: even another kind of problem is better than none.
MIN_WEIGHT = 0.05
#: Number of pairs of a recording and a space whose times are kept: an evaluation asks for each pair many times.
LEARNED = 1 << 11
#: After this fraction of the budget, each word that no measured variant has is tried once.
LEADS = 0.5


@dataclass(frozen=True)
class Predicted:
    """Bayesian optimisation with a prior computed from recorded problems."""

    recordings: Sequence[Recording]
    #: Features of the searched problem, as returned by `repro.tuning.recordings.FeaturesOf`.
    features: Array
    #: Maximum fraction of the space to measure.
    budget: float
    id_class: type[BaseId]
    #: Group from which the first variant is taken, if the space has this group; other times are compared with it.
    reference: str | None = None

    def __call__(self, space: Sequence[str], measure: Measure, build: Builder | None = None) -> None:
        """Measure the most promising variant, update the model, and repeat until the budget is used.

        The first variant belongs to the reference group, if there is one. From the fraction `LEADS` of the budget on,
        variants with a word (a categorical coordinate, `SearchPoint.words`) that no measured variant has come first,
        those with the lowest predicted time before others. A variant that is not built yet is built together with those
        that are the most promising now. Building does not affect which variants are measured.

        Raises
        ------
        ReproError
            No recorded problem covers enough of this space.
        """
        if not space:
            return
        likeness = variant_covariance(tuple(space), self.id_class)
        belief = prior(space, self.recordings, self.features, likeness)
        reference = np.array([group == self.reference for group in likeness.groups])
        index = belief.fastest(reference if reference.any() else None)
        tries = budgeted_count(space, self.budget)
        words, built = likeness.words().astype(bool), set[int]()
        for trial in range(tries):
            if build and index not in built:
                by_promise = np.argsort(-belief.promises(), kind="stable").tolist()
                batch = [index, *(each for each in by_promise if each not in {index, *built})][: build.width]
                build(batch)
                built.update(batch)
            belief.observe(index, measure(index))
            words = words[~words[:, index]]
            leads = words.any(axis=0) & (trial >= LEADS * tries)
            index = belief.fastest(leads) if leads.any() else belief.most_promising()


def prior(
    space: Sequence[str],
    recordings: Sequence[Recording],
    target: Array,
    likeness: VariantCovariance,
    least: float = MIN_TRIED_SHARE,
) -> GaussianProcess:
    """Compute the prior from recorded problems, weighted by the similarity of their features to `target`.

    The prior consists of the mean and covariance factors of log times relative to the best. It raises `ReproError` if
    no recorded problem covers the share `least` of this space.
    """
    space = tuple(space)
    usable_recordings = [recording for recording in recordings if covers_space(recording, space, least)]
    if not usable_recordings:
        raise ReproError(
            "no recorded campaign searched this space",
            expected=f"times of at least half of its {len(space)} variants, from {space[0]} to {space[-1]}",
            actual=f"{len(recordings)} recorded problems of other spaces, searched in part, or without successful rows",
            todo="measure a campaign of this space with `search: exhaustive` first",
        )
    losses = np.array([_losses(recording, space, likeness) for recording in usable_recordings])
    weights = likeness_weights(np.array([recording.features for recording in usable_recordings]), target)
    mean = weights @ losses
    groups = np.unique(likeness.groups, return_inverse=True)[1]
    factors = np.vstack([np.sqrt(weights)[:, None] * (losses - mean), WORD_DEVIATION * likeness.words()])
    return GaussianProcess(mean, factors, likeness, groups)


@lru_cache(maxsize=LEARNED)
def covers_space(recording: Recording, space: tuple[str, ...], least: float = MIN_TRIED_SHARE) -> bool:
    """Return whether a recorded search tried enough of a space and has at least one time."""
    tried_seconds = [recording.seconds[name] for name in space if name in recording.seconds]
    return len(tried_seconds) >= least * len(space) and any(seconds is not None for seconds in tried_seconds)


@lru_cache(maxsize=LEARNED)
def _losses(recording: Recording, space: tuple[str, ...], likeness: VariantCovariance) -> Array:
    """Return log times relative to the best, `(n,)`.

    A failed variant gets the slowest time, and an untried variant a mean of similar variants.
    """
    tried_mask = np.array([name in recording.seconds for name in space])
    times = np.array([recording.seconds.get(name) or np.nan for name in space])
    losses: Array = np.log(times / np.nanmin(times))
    losses[tried_mask & np.isnan(losses)] = np.nanmax(losses)
    for index in np.flatnonzero(~tried_mask):
        alike = likeness(int(index))[tried_mask]
        losses[index] = np.average(losses[tried_mask], weights=alike + np.finfo(float).tiny)
    return losses


def likeness_weights(features: Array, target: Array) -> Array:
    """Return normalised weights of problems, `(problems,)`, from features `(problems, features)`; NaN means unknown."""
    known_mask = np.isfinite(features)
    count = np.maximum(known_mask.sum(axis=0), 1)
    mean = np.where(known_mask, features, 0.0).sum(axis=0) / count
    deviation = np.sqrt((np.where(known_mask, features - mean, 0.0) ** 2).sum(axis=0) / count)
    distance = (features - target) / np.where(deviation > 0, deviation, 1.0)
    shared = np.isfinite(distance)
    squares = np.where(shared, distance, 0.0) ** 2
    far = squares.sum(axis=1) / np.maximum(shared.sum(axis=1), 1)
    weights: Array = np.maximum(np.exp(-far / (2 * ALIKE**2)), MIN_WEIGHT)
    weights /= weights.sum()
    return weights


@dataclass(frozen=True)
class Evaluation:
    """Losses of a predicted and a random search with equal budget on one recorded problem, relative to the best time.

    Predicted searches differ in the recordings that they learn from. A field holds the loss after each measured
    variant, and None if there are no such recordings.
    """

    recording: Recording
    #: Learned from all other problems.
    problem_unknown: Array | None
    #: Learned from the problems of other families.
    family_unknown: Array | None
    #: Learned from all problems on other devices.
    device_unknown: Array | None
    #: Learned from all other problems on other devices.
    both_unknown: Array | None
    #: Mean loss of random searches after each variant; infinite losses count as `NOTHING_FOUND`.
    random: Array

    @property
    def tried(self) -> int:
        return len(self.random)


def replay(strategy: Strategy, recording: Recording) -> list[str]:
    """Let a strategy search a recorded problem; return the names of the variants it measured, in order."""
    names = recording.names
    tried_names = []

    def measure(index: int) -> float | None:
        tried_names.append(names[index])
        return recording.seconds[names[index]]

    strategy(names, measure)
    return tried_names


def evaluate(
    recordings: Sequence[Recording],
    budget: float,
    id_class: type[BaseId],
    reference: str | None = None,
    elsewhere: Sequence[Recording] = (),
) -> list[Evaluation]:
    """Replay predicted and random searches on recorded problems; the searched problem's own recording is hidden.

    At most `MAX_EVALUATED` evenly chosen problems of one search space are evaluated; each search learns from all other
    problems. `elsewhere` contains recordings from other devices of the same backend.
    """
    evaluated_indices = np.linspace(0, len(recordings) - 1, min(len(recordings), MAX_EVALUATED)).round().astype(int)
    return [
        _evaluate_one(recordings[index], recordings, elsewhere, budget, id_class, reference)
        for index in evaluated_indices
    ]


def sample_note(evaluations: Iterable[Sequence[Evaluation]]) -> str:
    """Return a sentence for a caption if only some recorded problems were evaluated, else an empty text."""
    if all(len(replays) < MAX_EVALUATED for replays in evaluations):
        return ""
    return f"At most {MAX_EVALUATED} cases of a space are judged, evenly by name; each learns from all others."


def _evaluate_one(
    held_out: Recording,
    recordings: Sequence[Recording],
    elsewhere: Sequence[Recording],
    budget: float,
    id_class: type[BaseId],
    reference: str | None,
) -> Evaluation:
    def predicted(available: Sequence[Recording], learnable: Callable[[Recording], bool]) -> Array | None:
        usable_recordings = [other for other in available if learnable(other) and covers_space(other, held_out.names)]
        if not usable_recordings:
            return None
        return held_out.losses(
            replay(Predicted(usable_recordings, held_out.features, budget, id_class, reference), held_out)
        )

    random_losses = [held_out.losses(replay(RandomSample(budget, seed), held_out)) for seed in range(SEEDS)]
    return Evaluation(
        recording=held_out,
        problem_unknown=predicted(recordings, lambda other: other.problem != held_out.problem),
        family_unknown=predicted(recordings, lambda other: other.family != held_out.family),
        device_unknown=predicted(elsewhere, lambda other: other.backend == held_out.backend),
        both_unknown=predicted(
            elsewhere, lambda other: other.backend == held_out.backend and other.problem != held_out.problem
        ),
        random=np.minimum(np.mean(random_losses, axis=0), NOTHING_FOUND),
    )
