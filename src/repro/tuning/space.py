"""Where a variant lies in its space, read from its name, and how much alike two variants are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log2

import numpy as np
from numpy.typing import NDArray

from repro.codegen.coo import SPLITS, Blocking
from repro.formats.layout import Layout

Array = NDArray[np.float64]

#: Two variants whose n_t, n_b, width, unroll or slice differ by a factor of two are alike by exp(-1/2) …
OCTAVE = 1.0
#: … and by a half for each word that differs: the format, an order, the kind of schedule.
UNLIKE = 0.5


@dataclass(frozen=True)
class Point:
    """A variant's place: what it is, and how much of it.

    Attributes
    ----------
    words
        Outer format without its number, inner order, vector order, ordering, kind of schedule, further marks of it; of
        coordinates how chunks are cut, and the cache hint.
    numbers
        Binary logarithms of the rows of a slice (1 for other formats), n_t, n_b, width and unroll; of coordinates of B,
        K and the chunks of a block.
    """

    words: tuple[str, ...]
    numbers: tuple[float, ...]


@lru_cache(maxsize=1 << 15)
def point(name: str) -> Point:
    """Read a variant's name, `Sl-8-AoS-SoA/static-256-4-w4-u2` or `CCOO-aligned/b128-k8-c2-cs`.

    Raises
    ------
    ReproError
        It starts with no layout.
    """
    head, _, tail = name.partition("/")
    if head in SPLITS:
        blocking = Blocking.parse(tail)
        sizes = (blocking.threads, blocking.entries, blocking.chunks)
        return Point((SPLITS[head], blocking.load), tuple(log2(size) for size in sizes))
    layout = Layout.parse(head)
    outer, _, rows = layout.outer.partition("-")
    kind, n_t, n_b, *marks = tail.split("-")
    named = {mark[0]: int(mark[1:]) for mark in marks if re.fullmatch(r"[wu]\d+", mark)}
    others = "-".join(mark for mark in marks if mark[0] not in named)
    numbers = (int(rows or 1), int(n_t), int(n_b), named.get("w", 1), named.get("u", 1))
    words = (outer, layout.inner, layout.vector, layout.ordering, kind, others)
    return Point(words, tuple(log2(number) for number in numbers))


class Likeness:
    """How much alike the variants of a space are, as a covariance: 1 for the same, towards 0 for the unlike.

    Parameters
    ----------
    space
        Names of n variants.
    """

    def __init__(self, space: Sequence[str]) -> None:
        points = [point(name) for name in space]
        codes: dict[str, int] = {}
        self._words = np.array([[codes.setdefault(word, len(codes)) for word in each.words] for each in points])
        self._numbers = np.array([each.numbers for each in points])
        self._known: dict[int, Array] = {}

    def words(self) -> Array:
        """Return for each word that some variants have and others lack which have it, 1 or 0: `(words, n)`."""
        columns = [column == code for column in self._words.T for code in np.unique(column)]
        return np.array([has for has in columns if not has.all()], dtype=float).reshape(-1, len(self._words))

    def __call__(self, index: int) -> Array:
        """Return the likeness of all variants to one: `(n,)`, kept for the next time that it is asked for."""
        if index not in self._known:
            self._known[index] = self._compute(index)
        return self._known[index]

    def _compute(self, index: int) -> Array:
        octaves = ((self._numbers - self._numbers[index]) ** 2).sum(axis=1) / (2 * OCTAVE**2)
        differing = (self._words != self._words[index]).sum(axis=1)
        likeness: Array = np.exp(-octaves) * UNLIKE**differing
        return likeness


@lru_cache(maxsize=4)
def likeness_of(space: tuple[str, ...]) -> Likeness:
    """Return the likeness of a space, shared between searches of the same: judging makes many."""
    return Likeness(space)
