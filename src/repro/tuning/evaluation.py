"""Evaluates search strategies on recorded campaigns: recorded times replace measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro.bench.variant_id import BaseId
from repro.tuning.recordings import Recording
from repro.tuning.strategies import Predicted, RandomSample, Strategy, covers

#: Number of random searches to average over.
SEEDS = 20
#: Maximum number of recorded problems to evaluate. Each one learns from all others, so the time grows quadratically.
MAX_EVALUATED = 100
#: Loss assigned to a search that has found no working variant.
NOTHING_FOUND = 10.0

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Evaluation:
    """Losses of a predicted and a random search with equal budget on one recorded problem, relative to the best
    time.
    """

    recording: Recording
    #: Loss after each measured variant if all other problems are known; None if there are no other problems.
    problem_unknown: Array | None
    #: Loss after each measured variant if no problem of the problem's family is known.
    family_unknown: Array | None
    #: Loss after each measured variant if all problems are known, but only from other devices; None without such
    #: recordings.
    device_unknown: Array | None
    #: Loss after each measured variant if all other problems are known, but only from other devices; None without such
    #: recordings.
    both_unknown: Array | None
    #: Mean loss of random searches after each variant; infinite losses count as `NOTHING_FOUND`.
    random: Array

    @property
    def tried(self) -> int:
        return len(self.random)


def replay(strategy: Strategy, recording: Recording) -> list[str]:
    """Let a strategy search a recorded problem; return the names of the variants it measured, in order."""
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
    id_class: type[BaseId],
    reference: str | None = None,
    elsewhere: Sequence[Recording] = (),
) -> list[Evaluation]:
    """Replay predicted and random searches on recorded problems; the searched problem's own recording is hidden.

    At most `MAX_EVALUATED` evenly chosen problems of one search space are evaluated; each search learns from all other
    problems. `elsewhere` contains recordings from other devices of the same backend.
    """
    judged = np.linspace(0, len(recordings) - 1, min(len(recordings), MAX_EVALUATED)).round().astype(int)
    return [_evaluate_one(recordings[index], recordings, elsewhere, budget, id_class, reference) for index in judged]


def sample_note(judged: Iterable[Sequence[Evaluation]]) -> str:
    """Return a sentence for a caption if only some recorded problems were evaluated, else an empty text."""
    if all(len(replays) < MAX_EVALUATED for replays in judged):
        return ""
    return f"At most {MAX_EVALUATED} cases of a space are judged, evenly by name; each learns from all others."


def _evaluate_one(
    judged: Recording,
    recordings: Sequence[Recording],
    elsewhere: Sequence[Recording],
    budget: float,
    id_class: type[BaseId],
    reference: str | None,
) -> Evaluation:
    def predicted(recorded: Sequence[Recording], learnable: Callable[[Recording], bool]) -> Array | None:
        others = [other for other in recorded if learnable(other) and covers(other, judged.names)]
        if not others:
            return None
        return judged.losses(replay(Predicted(others, judged.features, budget, id_class, reference), judged))

    sampled = [judged.losses(replay(RandomSample(budget, seed), judged)) for seed in range(SEEDS)]
    return Evaluation(
        recording=judged,
        problem_unknown=predicted(recordings, lambda other: other.problem != judged.problem),
        family_unknown=predicted(recordings, lambda other: other.family != judged.family),
        device_unknown=predicted(elsewhere, lambda other: other.backend == judged.backend),
        both_unknown=predicted(
            elsewhere, lambda other: other.backend == judged.backend and other.problem != judged.problem
        ),
        random=np.minimum(np.mean(sampled, axis=0), NOTHING_FOUND),
    )
