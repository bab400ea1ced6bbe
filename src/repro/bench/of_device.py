"""Times of the device alone, taken once for all cases of a batch: a device copy's, which say nothing of a problem.

A copy of more than a cache holds takes longer than all that is launched of a small problem.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from repro.bench.runnable import Runnable
from repro.bench.timing import Effort, Samples


@dataclass
class Timed:
    """What was found out of one runnable.

    Attributes
    ----------
    preprocess, moved
        Seconds that preparing it took, and the bytes that it moves.
    samples
        Those that count, by effort, in the order in which the first case took them.
    """

    preprocess: float
    moved: int
    samples: dict[Effort, list[Samples]] = field(default_factory=dict)


class OfDevice:
    """The part of one case in what a batch knows of its devices.

    Parameters
    ----------
    timed
        What the cases before it found out, by name; this one adds to it. None: nothing is kept, each sample is taken.
    """

    def __init__(self, timed: dict[str, Timed] | None) -> None:
        self._timed = timed
        self._taken: Counter[tuple[str, Effort]] = Counter()
        self._spared: set[str] = set()

    def spare(self, runnable: Runnable) -> float | None:
        """Return what preparing it took, where it need not be prepared; else None."""
        timed = self._timed.get(runnable.name) if self._timed is not None and runnable.of_device else None
        if timed is None:
            return None
        runnable.moved = timed.moved
        self._spared.add(runnable.name)
        return timed.preprocess

    def is_spared(self, runnable: Runnable) -> bool:
        """Whether it is not prepared, since it need not be."""
        return runnable.of_device and runnable.name in self._spared

    def prepared(self, runnable: Runnable, seconds: float) -> None:
        """Keep what preparing it took."""
        if self._timed is not None and runnable.of_device:
            self._timed.setdefault(runnable.name, Timed(seconds, runnable.moved))

    def sample(
        self, runnable: Runnable, effort: Effort, prepare: Callable[[], float], take: Callable[[], Samples]
    ) -> Samples:
        """Return a case's next sample: as an earlier case took it, else a new one.

        Parameters
        ----------
        prepare, take
            Prepares the runnable, and times it when it is prepared.
        """
        if self._timed is None or not runnable.of_device:
            return take()
        number = self._taken[runnable.name, effort]
        self._taken[runnable.name, effort] += 1
        kept = self._timed[runnable.name].samples.setdefault(effort, [])
        if number < len(kept):
            return kept[number]
        if runnable.name in self._spared:
            self._spared.remove(runnable.name)
            prepare()
        samples = take()
        if not (samples.disturbed or samples.throttle):
            kept.append(samples)
        return samples
