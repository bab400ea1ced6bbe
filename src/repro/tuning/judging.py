"""Judging strategies on recorded campaigns: a strategy asks for times and is given the recorded ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from repro.tuning.recordings import Recording
from repro.tuning.strategies import Strategy
from repro.tuning.strategies.predicted import Predicted
from repro.tuning.strategies.random_sample import RandomSample

#: Random searches that are averaged over.
SEEDS = 20


@dataclass(frozen=True)
class Judged:
    """What strategies of one budget lost on one recorded problem, as shares of the best time.

    Attributes
    ----------
    recording
        The problem.
    tried
        Variants that each of them measured.
    problem_unknown
        Loss of the predicted search that has learnt from all other problems; None where there is none to learn from.
    entry_unknown
        The same without any problem of that entry: of a kind of matrix never seen before.
    random
        Mean loss of random searches.
    """

    recording: Recording
    tried: int
    problem_unknown: float | None
    entry_unknown: float | None
    random: float


def replay(strategy: Strategy, recording: Recording) -> list[str]:
    """Let a strategy search a recorded problem; return what it tried, in order."""
    names = recording.names
    tried = []

    def measure(index: int) -> float | None:
        tried.append(names[index])
        return recording.seconds[names[index]]

    strategy(names, measure)
    return tried


def judge(recordings: Sequence[Recording], budget: float) -> list[Judged]:
    """Replay predicted and random searches on each recorded problem, as if it had not been recorded.

    Parameters
    ----------
    recordings
        Problems that were searched in full, of one space.
    budget
        Share of the space that may be measured.
    """
    return [_judged(each, recordings, budget) for each in recordings]


def _judged(one: Recording, recordings: Sequence[Recording], budget: float) -> Judged:
    sampled = [replay(RandomSample(budget, seed), one) for seed in range(SEEDS)]

    def loss(learnable: Callable[[Recording], bool]) -> float | None:
        others = [each for each in recordings if learnable(each)]
        return one.loss(replay(Predicted(others, one.features, budget), one)) if others else None

    return Judged(
        recording=one,
        tried=len(sampled[0]),
        problem_unknown=loss(lambda each: each.problem != one.problem),
        entry_unknown=loss(lambda each: each.entry != one.entry),
        random=float(np.mean([one.loss(names) for names in sampled])),
    )
