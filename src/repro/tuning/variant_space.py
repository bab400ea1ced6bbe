"""Measures how alike two variants of a search space are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from repro.bench.variant_id import BaseId, Point

Array = NDArray[np.float64]
Id = TypeVar("Id", bound=BaseId)

#: Likeness falls to exp(-1/2) for variants that differ by a factor of two in one size.
OCTAVE = 1.0
#: Likeness is multiplied by this factor for each different word: format, order, or kind of schedule.
UNLIKE = 0.5


class Likeness:
    """Likeness of variants, used as a covariance: 1 for equal variants, near 0 for very different ones."""

    def __init__(self, points: Sequence[Point]) -> None:
        codes: dict[str, int] = {}
        self.groups = [point.group for point in points]
        self._words = np.array([[codes.setdefault(word, len(codes)) for word in point.words] for point in points])
        self._numbers = np.array([point.numbers for point in points])
        self._computed: dict[int, Array] = {}

    def words(self) -> Array:
        """Return a 0-1 array `(words, n)` that tells which variants have each word; words that all variants have are
        left out.
        """
        columns = [column == code for column in self._words.T for code in np.unique(column)]
        return np.array([has for has in columns if not has.all()], dtype=float).reshape(-1, len(self._words))

    def __call__(self, index: int) -> Array:
        """Return the likeness of each variant to the variant `index`, `(n,)`."""
        if index not in self._computed:
            octaves = ((self._numbers - self._numbers[index]) ** 2).sum(axis=1) / (2 * OCTAVE**2)
            differing = (self._words != self._words[index]).sum(axis=1)
            self._computed[index] = np.exp(-octaves) * UNLIKE**differing
        return self._computed[index]


def read_ids(names: Iterable[str], id_class: type[Id]) -> list[Id]:
    return [id_class.parse(name) for name in names]


@lru_cache(maxsize=4)
def likeness_of(space: tuple[str, ...], id_class: type[BaseId]) -> Likeness:
    """Return the likeness of variants given by their ids as text; cached for searches of one space."""
    return Likeness([id.point for id in read_ids(space, id_class)])
