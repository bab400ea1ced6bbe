"""Evaluation of strategies on recorded campaigns: a strategy asks for times and gets the recorded ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro.tuning.recordings import Recording
from repro.tuning.strategies import Strategy
from repro.tuning.strategies.predicted import Predicted, covers
from repro.tuning.strategies.random_sample import RandomSample
from repro.tuning.variant_space import PointOf

#: Random searches that are averaged over.
SEEDS = 20
#: Recorded problems that are judged at the most; what all learn from makes the time to judge all of them a square.
MAX_EVALUATED = 100
#: Loss of a search that has not found a variant that works.
NOTHING_FOUND = 10.0

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Evaluation:
    """What strategies of one budget lost on one recorded problem, as shares of the best time.

    Attributes
    ----------
    recording
        The problem.
    problem_unknown
        Loss of the predicted search after each variant, learning from all other problems; None where there are none.
    family_unknown
        The same without any problem of that family: for a kind of problem never seen before.
    device_unknown, both_unknown
        The same, learning from campaigns on other devices alone: from all of them, and without that problem; None where
        there are none.
    random
        Mean loss of random searches after each variant; an infinite one counts as `NOTHING`.
    """

    recording: Recording
    problem_unknown: Array | None
    family_unknown: Array | None
    device_unknown: Array | None
    both_unknown: Array | None
    random: Array

    @property
    def tried(self) -> int:
        """Variants that each search has measured."""
        return len(self.random)


def replay(strategy: Strategy, recording: Recording) -> list[str]:
    """Let a strategy search a recorded problem; return what it tried, in order."""
    names = recording.names
    tried = []

    def measure(index: int) -> float | None:
        tried.append(names[index])
        return recording.seconds[names[index]]

    strategy(names, measure)
    return tried


def evaluate(
    recordings: Sequence[Recording],
    budget: float,
    point_of: PointOf,
    reference: str | None = None,
    elsewhere: Sequence[Recording] = (),
) -> list[Evaluation]:
    """Replay predicted and random searches on each recorded problem, as if it had not been recorded.

    Of more than `MOST_JUDGED` so many are judged, evenly in the order that they come in; each learns from all others.

    Parameters
    ----------
    recordings
        Problems that were searched in full, of one space.
    budget
        Share of the space that may be measured.
    point_of, reference
        See `repro.tuning.strategies.predicted.Predicted`.
    elsewhere
        What was recorded on other devices of the same backend.
    """
    judged = np.linspace(0, len(recordings) - 1, min(len(recordings), MAX_EVALUATED)).round().astype(int)
    return [_evaluate_one(recordings[at], recordings, elsewhere, budget, point_of, reference) for at in judged]


def sample_note(judged: Iterable[Sequence[Evaluation]]) -> str:
    """Return what a caption says where not all recorded problems were judged; nothing where they were."""
    if all(len(replays) < MAX_EVALUATED for replays in judged):
        return ""
    return f"At most {MAX_EVALUATED} cases of a space are judged, evenly by name; each learns from all others."


def _evaluate_one(
    one: Recording,
    recordings: Sequence[Recording],
    elsewhere: Sequence[Recording],
    budget: float,
    point_of: PointOf,
    reference: str | None,
) -> Evaluation:
    def predicted(recorded: Sequence[Recording], learnable: Callable[[Recording], bool]) -> Array | None:
        others = [other for other in recorded if learnable(other) and covers(other, one.names)]
        if not others:
            return None
        return one.losses(replay(Predicted(others, one.features, budget, point_of, reference), one))

    sampled = [one.losses(replay(RandomSample(budget, seed), one)) for seed in range(SEEDS)]
    return Evaluation(
        recording=one,
        problem_unknown=predicted(recordings, lambda other: other.problem != one.problem),
        family_unknown=predicted(recordings, lambda other: other.family != one.family),
        device_unknown=predicted(elsewhere, lambda other: other.backend == one.backend),
        both_unknown=predicted(elsewhere, lambda other: other.backend == one.backend and other.problem != one.problem),
        random=np.minimum(np.mean(sampled, axis=0), NOTHING_FOUND),
    )
