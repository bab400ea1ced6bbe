"""Row lengths of a graph that cannot be had, from what is published of them: so many entries, so many beyond a width."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro.errors import ReproError
from repro.problems.assembled import Floats

Lengths = NDArray[np.int64]
#: Exponents of the power law that the lengths beyond the width may have.
EXPONENTS = np.linspace(-6.0, 6.0, 241)
#: The exponent where no standard deviation is asked for: that of many graphs.
USUAL = 2.0
#: Halvings of the interval in which the base's decay is looked for.
HALVINGS = 60


@dataclass(frozen=True)
class Wanted:
    """What is asked of the lengths of rows.

    Attributes
    ----------
    rows, nonzeros
        How many lengths, and their sum.
    shortest, longest
        The least that a row may have, and what the longest has.
    width, overflow
        So many entries lie beyond the first `width` of their rows: the sum of max(0, length - width).
    spread
        The standard deviation to come near to; None: the one of a power law with the usual exponent.
    """

    rows: int
    nonzeros: int
    shortest: int
    longest: int
    width: int
    overflow: int
    spread: float | None = None

    @property
    def reach(self) -> int:
        """Entries of the longest row beyond the width."""
        return max(0, self.longest - self.width)

    @property
    def top(self) -> int:
        """The most entries that a row which is not beyond the width can have."""
        return min(self.width, self.longest)

    @property
    def within(self) -> int:
        """Entries that are not beyond the width."""
        return self.nonzeros - self.overflow

    @property
    def fewest(self) -> int:
        """The fewest rows beyond the width."""
        return -(-self.overflow // self.reach) if self.reach else 0

    @property
    def most(self) -> int:
        """The most rows beyond the width: each has `width` entries within it, and no other row may be too short."""
        spare = self.within - self.rows * self.shortest
        room = spare // (self.width - self.shortest) if self.width > self.shortest else self.rows
        return min(self.overflow, self.rows, room)

    def check(self) -> None:
        """Refuse what no lengths can have.

        Raises
        ------
        ReproError
            There are none.
        """
        fits = self.rows * self.shortest <= self.within <= self.rows * self.top
        beyond = self.overflow == 0 if not self.reach else self.reach <= self.overflow and self.fewest <= self.most
        # without rows beyond the width one of the others is the longest
        alone = bool(self.reach) or self.longest + (self.rows - 1) * self.shortest <= self.nonzeros
        if not (self.rows > 0 and 0 <= self.shortest <= self.top and fits and beyond and alone):
            raise ReproError(
                "no rows have such lengths",
                expected=f"{self.rows:,} rows of {self.shortest:,} to {self.longest:,} entries, {self.nonzeros:,} in all",
                actual=f"{self.overflow:,} of them beyond the first {self.width:,} of their rows",
            )


def row_lengths(wanted: Wanted) -> Lengths:
    """Return lengths of rows that have exactly what is wanted, and come near to the spread; longest first.

    The lengths beyond the width follow a power law, cut off at the longest; its exponent is what the spread decides.
    Those within it follow a geometric law, cut off at the width.

    Raises
    ------
    ReproError
        There are no such lengths.
    """
    wanted.check()
    count, exponent = _tail(wanted)
    beyond = np.empty(0, np.int64)
    if count:
        share = _power(wanted.reach, exponent)
        beyond = _quantiles(share, count) + 1
        beyond[-1] = wanted.reach
        _settle(beyond[:-1], wanted.overflow - wanted.reach, 1, wanted.reach)
    rest = wanted.rows - count
    total = wanted.within - count * wanted.width
    steps = wanted.top - wanted.shortest
    base = np.empty(0, np.int64)
    if rest:
        share = _geometric(steps, total / rest - wanted.shortest)
        base = _quantiles(share, rest) + wanted.shortest
        if not wanted.reach:
            base[-1] = wanted.longest
        held = 0 if wanted.reach else 1
        _settle(base[: rest - held], total - held * wanted.longest, wanted.shortest, wanted.top)
    return np.concatenate([np.sort(beyond + wanted.width)[::-1], np.sort(base)[::-1]])


def _tail(wanted: Wanted) -> tuple[int, float]:
    """Return how many rows are beyond the width, and the exponent of the power law of their excess."""
    if not wanted.reach:
        return 0, USUAL
    mean = wanted.nonzeros / wanted.rows
    best: tuple[float, float, int, float] | None = None
    for exponent in EXPONENTS:
        share = _power(wanted.reach, exponent)
        excess = np.arange(1, wanted.reach + 1)
        usual = wanted.overflow / float(share @ excess)
        count = int(np.clip(round(usual), wanted.fewest, wanted.most))
        squares = count * float(share @ (wanted.width + excess - mean) ** 2)
        rest = wanted.rows - count
        if rest:
            steps = wanted.top - wanted.shortest
            law = _geometric(steps, (wanted.within - count * wanted.width) / rest - wanted.shortest)
            squares += rest * float(law @ (wanted.shortest + np.arange(steps + 1) - mean) ** 2)
        spread = (squares / wanted.rows) ** 0.5
        far = abs(exponent - USUAL) if wanted.spread is None else abs(spread - wanted.spread)
        # a law that needs more or fewer rows than there may be does not keep its shape
        bent = abs(count - usual) / usual
        candidate = (round(max(0.0, bent - 0.01), 3), far, count, float(exponent))
        best = candidate if best is None else min(best, candidate)
    assert best is not None
    return best[2], best[3]


def _power(reach: int, exponent: float) -> Floats:
    """Return the shares of 1, 2, … reach by a power law."""
    logs = -exponent * np.log(np.arange(1, reach + 1))
    share = np.exp(logs - logs.max())
    law: Floats = share / share.sum()
    return law


def _geometric(steps: int, mean: float) -> Floats:
    """Return the shares of 0, 1, … steps by a geometric law of that mean, rising or falling."""
    places = np.arange(steps + 1)
    low, high = -40.0, 40.0
    share = np.ones(steps + 1)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        logs = middle * places
        share = np.exp(logs - logs.max())
        share /= share.sum()
        low, high = (middle, high) if share @ places < mean else (low, middle)
    return share


def _quantiles(share: Floats, count: int) -> Lengths:
    """Return so many places of a law, evenly spread over its distribution, in ascending order."""
    at = (np.arange(count) + 0.5) / count
    places = np.searchsorted(np.cumsum(share), at)
    ascending: Lengths = np.minimum(places, len(share) - 1).astype(np.int64)
    return ascending


def _settle(lengths: Lengths, total: int, low: int, high: int) -> None:
    """Change as few lengths as may be by one, evenly spread, until they have the total, and again if need be."""
    while lacking := total - int(lengths.sum()):
        free = np.flatnonzero(lengths < high if lacking > 0 else lengths > low)
        chosen = free[np.linspace(0, free.size - 1, min(abs(lacking), free.size)).astype(np.int64)]
        lengths[chosen] += 1 if lacking > 0 else -1
