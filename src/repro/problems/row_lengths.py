"""Row lengths of a graph that cannot be had, from what is published: so many entries, so many beyond a width."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro.errors import ReproError
from repro.problems.assembled import Floats

Lengths = NDArray[np.int64]
#: Exponents of the power law that the lengths beyond the width may have, and how far it may be moved from 1; tried in
#: this order until the spread is near.
EXPONENTS = np.linspace(-6.0, 6.0, 241)
SHIFTS = (0.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
#: The exponent where no standard deviation is asked for: that of many graphs.
USUAL = 2.0
#: As near as need be, relatively, to the spread, and to the number of rows that a law asks for.
NEAR = 0.01
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
        The least that a row may have, at most the width, and what the longest has.
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
                expected=f"{self.rows:,} rows of {self.shortest:,} to {self.longest:,} entries, with {self.nonzeros:,}",
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
    count, law = _tail(wanted)
    beyond = np.empty(0, np.int64)
    if count:
        beyond = _quantiles(law, count) + 1
        beyond[-1] = wanted.reach
        _settle(beyond[:-1], wanted.overflow - wanted.reach, 1, wanted.reach)
    rest = wanted.rows - count
    total = wanted.within - count * wanted.width
    steps = wanted.top - wanted.shortest
    base = np.empty(0, np.int64)
    if rest:
        base = _quantiles(_geometric(steps, total / rest - wanted.shortest), rest) + wanted.shortest
        if not wanted.reach:
            base[-1] = wanted.longest
        held = 0 if wanted.reach else 1
        _settle(base[: rest - held], total - held * wanted.longest, wanted.shortest, wanted.top)
    return np.concatenate([np.sort(beyond + wanted.width)[::-1], np.sort(base)[::-1]])


def _tail(wanted: Wanted) -> tuple[int, Floats]:
    """Return how many rows are beyond the width, and the law of their excess over it."""
    if not wanted.reach:
        return 0, np.empty(0)
    best: tuple[float, float, float, float] | None = None
    excess = np.arange(1.0, wanted.reach + 1)
    for shift in SHIFTS:
        for exponent in EXPONENTS:
            law = _power(excess + shift, exponent)
            usual = wanted.overflow / _mean(law, excess)
            count = _rows_beyond(wanted, law, excess)
            # a law that needs more or fewer rows than there may be does not keep its shape
            bent = max(0.0, abs(count - usual) / usual - NEAR)
            if best is not None and bent > best[0]:
                continue
            if wanted.spread is None:
                far = round(abs(exponent - USUAL), 6)
            else:
                apart = abs(_spread(wanted, count, law, excess) - wanted.spread)
                far = max(0.0, apart - max(0.15, NEAR * wanted.spread))
            candidate = (bent, far, shift, float(exponent))
            best = candidate if best is None else min(best, candidate)
        if best is not None and best[:2] == (0.0, 0.0):
            break
    assert best is not None
    law = _power(excess + best[2], best[3])
    return _rows_beyond(wanted, law, excess), law


def _rows_beyond(wanted: Wanted, law: Floats, excess: Floats) -> int:
    """Return how many rows are beyond the width if their excess follows a law, as far as so many can be."""
    return int(np.clip(round(wanted.overflow / _mean(law, excess)), wanted.fewest, wanted.most))


def _spread(wanted: Wanted, count: int, law: Floats, excess: Floats) -> float:
    """Return the standard deviation that all rows will have."""
    mean, rest = wanted.nonzeros / wanted.rows, wanted.rows - count
    squares = count * _mean(law, (wanted.width + excess - mean) ** 2)
    if rest:
        steps = wanted.top - wanted.shortest
        base = _geometric(steps, (wanted.within - count * wanted.width) / rest - wanted.shortest)
        squares += rest * _mean(base, (np.arange(steps + 1.0) + wanted.shortest - mean) ** 2)
    return float((squares / wanted.rows) ** 0.5)


def _mean(law: Floats, places: Floats) -> float:
    """Return the mean of places by a law; no product of vectors, whose threads cost more than they save here."""
    return float((law * places).sum())


def _power(places: Floats, exponent: float) -> Floats:
    """Return the shares of places by a power law."""
    logs = -exponent * np.log(places)
    share = np.exp(logs - logs.max())
    law: Floats = share / share.sum()
    return law


def _geometric(steps: int, mean: float) -> Floats:
    """Return the shares of 0, 1, … steps by a geometric law of that mean, rising or falling."""
    places = np.arange(steps + 1.0)
    low, high = -40.0, 40.0
    share = np.ones(steps + 1)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        logs = middle * places
        share = np.exp(logs - logs.max())
        share /= share.sum()
        low, high = (middle, high) if _mean(share, places) < mean else (low, middle)
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
