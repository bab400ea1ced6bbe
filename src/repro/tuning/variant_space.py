"""Where a variant lies in its space, and how much alike two variants are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Two variants of which one size differs by a factor of two are alike by exp(-1/2) …
OCTAVE = 1.0
#: … and by a half for each word that differs: the format, an order, the kind of schedule.
UNLIKE = 0.5


@dataclass(frozen=True)
class Point:
    """A variant's place in its space: what it is, and how much of it.

    Attributes
    ----------
    group
        What fails mostly fails for its sake: the layout, say.
    words
        What it is, in as many words for each variant of a space.
    numbers
        Binary logarithms of its sizes, as many for each.
    """

    group: str
    words: tuple[str, ...]
    numbers: tuple[float, ...]


#: Reads the text of a variant.
PointOf = Callable[[str], Point]


class Likeness:
    """How much alike the variants of a space are, as a covariance: 1 for the same, towards 0 for the unlike.

    Parameters
    ----------
    points
        The places of n variants.
    """

    def __init__(self, points: Sequence[Point]) -> None:
        codes: dict[str, int] = {}
        self.groups = [point.group for point in points]
        self._words = np.array([[codes.setdefault(word, len(codes)) for word in point.words] for point in points])
        self._numbers = np.array([point.numbers for point in points])
        self._computed: dict[int, Array] = {}

    def words(self) -> Array:
        """Return for each word that some variants have and others lack which have it, 1 or 0: `(words, n)`."""
        columns = [column == code for column in self._words.T for code in np.unique(column)]
        return np.array([has for has in columns if not has.all()], dtype=float).reshape(-1, len(self._words))

    def __call__(self, index: int) -> Array:
        """Return the likeness of all variants to one: `(n,)`, kept for the next time that it is asked for."""
        if index not in self._computed:
            self._computed[index] = self._compute(index)
        return self._computed[index]

    def _compute(self, index: int) -> Array:
        octaves = ((self._numbers - self._numbers[index]) ** 2).sum(axis=1) / (2 * OCTAVE**2)
        differing = (self._words != self._words[index]).sum(axis=1)
        likeness: Array = np.exp(-octaves) * UNLIKE**differing
        return likeness


@lru_cache(maxsize=4)
def likeness_of(space: tuple[str, ...], point_of: PointOf) -> Likeness:
    """Return the likeness of a space of variants, given by their texts; shared between searches of the same."""
    return Likeness([point_of(text) for text in space])
