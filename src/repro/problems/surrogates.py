"""Surrogates: matrices in place of those that cannot be had, with their size and row lengths.

Row lengths decide how fast a layout is. They are derived from what is published: the number of entries, and how
many rows exceed a width. Columns are placed as in webs, social networks or roads, at random, or on a lattice with
hubs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, gcd, isqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from repro.errors import ReproError
from repro.problems.assembly import Assembled, Floats

Lengths = NDArray[np.int64]
#: Exponents of the power law that the lengths beyond the width may have, and how far it may be moved from 1; tried in
#: this order until the spread is near.
EXPONENTS = np.linspace(-6.0, 6.0, 241)
SHIFTS = (0.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
#: The exponent where no standard deviation is asked for: that of many graphs.
USUAL = 2.0
#: As near as need be, relatively, to the spread, and to the number of rows that a law asks for.
TOLERANCE = 0.01
#: Halvings of the interval in which the base's decay is looked for.
HALVINGS = 60


@dataclass(frozen=True)
class LengthTargets:
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


def row_lengths(wanted: LengthTargets) -> Lengths:
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


def _tail(wanted: LengthTargets) -> tuple[int, Floats]:
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
            bent = max(0.0, abs(count - usual) / usual - TOLERANCE)
            if best is not None and bent > best[0]:
                continue
            if wanted.spread is None:
                far = round(abs(exponent - USUAL), 6)
            else:
                apart = abs(_spread(wanted, count, law, excess) - wanted.spread)
                far = max(0.0, apart - max(0.15, TOLERANCE * wanted.spread))
            candidate = (bent, far, shift, float(exponent))
            best = candidate if best is None else min(best, candidate)
        if best is not None and best[:2] == (0.0, 0.0):
            break
    assert best is not None
    law = _power(excess + best[2], best[3])
    return _rows_beyond(wanted, law, excess), law


def _rows_beyond(wanted: LengthTargets, law: Floats, excess: Floats) -> int:
    """Return how many rows are beyond the width if their excess follows a law, as far as so many can be."""
    return int(np.clip(round(wanted.overflow / _mean(law, excess)), wanted.fewest, wanted.most))


def _spread(wanted: LengthTargets, count: int, law: Floats, excess: Floats) -> float:
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


Places = NDArray[np.int64]
Family = Literal["web", "social", "road", "uniform"]
#: Takes rows, and which of its row's entries each is (None where one is drawn again), and returns columns.
Draw = Callable[[Places, Places | None], Places]

#: Entries that are drawn at a time: 32 MB of keys.
BLOCK = 1 << 22
#: Rows of like length that follow each other where rows have neighbours, and that share lists of columns on the web.
RUN = 8
#: Of the web: the share of entries that lead to near columns, how far these are, and the share of a row's entries that
#: all rows of its run have.
NEAR_SHARE, NEAR_REACH, SHARED = 0.86, 990, 0.6
#: That a bit of a column is one: as R-MAT with a, b, c = 0.57, 0.19, 0.19 has it.
ONE = 0.24
#: Bits of a column that are drawn at once, and how often.
DIGIT, DIGITS = 8, 3
#: Times that entries of a place that is taken are drawn again as the family has it, and then anywhere.
AGAIN, ANYWHERE = 8, 16


def assemble_graph(wanted: LengthTargets, columns: int, family: Family, seed: int) -> Assembled:
    """Draw a graph's matrix with exactly the row lengths that are wanted.

    Families of columns:

    web
        Most are near the row's own place, and neighbouring rows have many in common; the others lead to few places
        again and again.
    social
        Few columns have most of the entries, as in a R-MAT graph of which the vertices are numbered at random.
    road
        All are near in a grid of the columns, as close as the row's length lets them be.
    uniform
        All are alike.

    Values are uniform between -1 and 1.

    Parameters
    ----------
    wanted
        Rows, non-zeros, and what is asked of the row lengths.
    columns
        At least as many as the longest row has entries.
    family
        How columns are drawn.
    seed
        Seeds all that is random.

    Raises
    ------
    ReproError
        There are no such lengths, or the matrix is too large for 32-bit indices.
    """
    if wanted.longest > columns or max(wanted.nonzeros, wanted.rows, columns) >= 2**31:
        raise ReproError(
            "there is no such graph",
            expected=f"rows of at most {columns:,} entries, and fewer than {2**31:,} in all",
            actual=f"a row of {wanted.longest:,}, {wanted.nonzeros:,} in all",
        )
    rng = np.random.default_rng(seed)
    lengths = _arrange(row_lengths(wanted), RUN if family in ("web", "road") else 1, rng)
    pointers = np.concatenate([[0], np.cumsum(lengths)])
    draw = _drawing(family, lengths, columns, rng)
    indices = np.empty(wanted.nonzeros, np.int32)
    for first, last in _blocks(pointers):
        begin, end = pointers[first], pointers[last]
        indices[begin:end] = _draw_distinct(first, pointers[first : last + 1] - begin, columns, draw, rng)
    values = rng.uniform(-1, 1, wanted.nonzeros)
    square = columns == wanted.rows
    return Assembled(wanted.rows, pointers.astype(np.int32), indices, values[:, None], (), None if square else columns)


def _arrange(lengths: Lengths, run: int, rng: np.random.Generator) -> Lengths:
    """Put lengths in a random order in which runs of like ones stay together."""
    runs = -(-len(lengths) // run)
    places = (rng.permutation(runs)[:, None] * run + np.arange(run)).ravel()
    arranged: Lengths = lengths[places[places < len(lengths)]]
    return arranged


def _blocks(pointers: Places) -> Iterator[tuple[int, int]]:
    """Give ranges of rows with so many entries that they are drawn at once; at least a row."""
    first, rows = 0, len(pointers) - 1
    while first < rows:
        last = int(np.searchsorted(pointers, pointers[first] + BLOCK, side="right")) - 1
        last = min(max(last, first + 1), rows)
        yield first, last
        first = last


def _draw_distinct(first: int, pointers: Places, columns: int, draw: Draw, rng: np.random.Generator) -> Places:
    """Return the columns of rows from `first` on, sorted and distinct in each; pointers begin with 0."""
    rows = np.repeat(np.arange(len(pointers) - 1), np.diff(pointers))
    keys = rows * columns + draw(rows + first, np.arange(len(rows)) - pointers[rows])
    keys.sort()
    for attempt in range(AGAIN + ANYWHERE):
        again = _repeated(keys)
        if not again.size:
            return keys - rows * columns
        of = rows[again]
        anew = draw(of + first, None) if attempt < AGAIN else rng.integers(columns, size=len(of))
        keys[again] = of * columns + anew
        # the rows' entries lie where they lay, so that sorting those of the changed rows will do
        there = np.zeros(len(pointers) - 1, bool)
        there[of] = True
        places = np.flatnonzero(there[rows])
        keys[places] = np.sort(keys[places])
    for row in np.unique(rows[_repeated(keys)]):
        # nearly full: take what is missing from the columns that it does not have
        begin, end = pointers[row], pointers[row + 1]
        there_are = np.unique(keys[begin:end] - row * columns)
        free = np.setdiff1d(np.arange(columns), there_are, assume_unique=True)
        anew = rng.choice(free, end - begin - len(there_are), replace=False)
        keys[begin:end] = row * columns + np.sort(np.concatenate([there_are, anew]))
    return keys - rows * columns


def _repeated(keys: Places) -> Places:
    """Return the places of sorted keys that are those before them."""
    return np.flatnonzero(keys[1:] == keys[:-1]) + 1


def _drawing(family: Family, lengths: Lengths, columns: int, rng: np.random.Generator) -> Draw:
    """Return what draws the columns of a family."""
    rows = len(lengths)

    def centre(row: Places) -> Places:
        return row * columns // rows

    def uniform(row: Places, nth: Places | None) -> Places:
        return rng.integers(columns, size=len(row))

    def social(row: Places, nth: Places | None) -> Places:
        return _popular(rng.random(len(row)), columns)

    def web(row: Places, nth: Places | None) -> Places:
        chance, where = rng.random(len(row)), rng.random(len(row))
        middle, reach = centre(row), np.maximum(NEAR_REACH, lengths[row])
        offset = 2 * where - 1
        if nth is not None:
            run = row // RUN
            shared = rng.random(len(row)) < SHARED
            entry = 2 * (run[shared] * columns + nth[shared])
            chance[shared], where[shared] = _mix(entry), _mix(entry + 1)
            middle[shared] = centre(run[shared] * RUN)
            offset = 2 * where - 1
            # most links lead to the next pages
            offset *= np.abs(offset)
        drawn = _reflect(middle + (offset * reach).astype(np.int64), columns)
        far = chance >= NEAR_SHARE
        drawn[far] = _popular(where[far], columns)
        return drawn

    def road(row: Places, nth: Places | None) -> Places:
        side = isqrt(columns)
        # a square of twice as many places as the row has entries
        reach = np.ceil((np.sqrt(2 * lengths[row]) - 1) / 2).astype(np.int64) + 1
        steps = np.rint((2 * rng.random((2, len(row))) - 1) * reach).astype(np.int64)
        return _reflect(centre(row) + steps[0] * side + steps[1], columns)

    families: dict[Family, Draw] = {"web": web, "social": social, "road": road, "uniform": uniform}
    return families[family]


def _reflect(places: Places, columns: int) -> Places:
    """Return places, those beyond an end as far within it."""
    places = np.abs(places)
    beyond = places >= columns
    places[beyond] = 2 * (columns - 1) - places[beyond]
    return places % columns


def _popular(chance: NDArray[np.float64], columns: int) -> Places:
    """Return columns of which few are drawn often: as R-MAT draws them bit by bit, then numbered at random.

    Equal chances, from 0 to before 1, give equal columns.
    """
    table = _digits()
    digits, rest = [], chance
    for _ in range(DIGITS):
        rest = rest * len(table)
        digit = rest.astype(np.int64)
        rest = rest - digit
        digits.append(table[digit])
    for digit in reversed(digits):
        rest = (rest + digit) / (1 << DIGIT)
    drawn = np.minimum((rest * columns).astype(np.int64), columns - 1)
    return drawn * _coprime(columns) % columns


def _digits() -> NDArray[np.int64]:
    """Return digits, each as often among 65536 as so many bits of a R-MAT column make it."""
    ones = np.array([digit.bit_count() for digit in range(1 << DIGIT)])
    shares = np.cumsum(ONE**ones * (1 - ONE) ** (DIGIT - ones))
    ends = np.rint(shares * (1 << 16)).astype(np.int64)
    return np.repeat(np.arange(1 << DIGIT), ends - np.append(0, ends[:-1]))


def _coprime(columns: int) -> int:
    """Return a factor that takes neighbouring columns far apart, and no two to the same."""
    factor = max(1, round(0.618 * columns))
    while gcd(factor, columns) > 1:
        factor += 1
    return factor


def _mix(numbers: Places) -> NDArray[np.float64]:
    """Return the same random number, from 0 to before 1, for the same number: by multiplying and folding."""
    mixed = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


LATTICE_REACH = 2  # lattice steps to the farthest node that an ordinary one is coupled with, in each direction
MIN_HUB = 0.25  # the hub of the shortest row, relative to the longest
NOISE = 0.3  # of a pair, in the score
LOSS = 0.02  # imaginary part of the diagonal, relative to the real one

Pairs = NDArray[np.int64]


def assemble_lookalike(rows: int, nonzeros: int, *, longest: int, hubs: int, spread: float, seed: int) -> Assembled:
    """Couple the nodes of a cubic lattice at random, with hubs, to an exact number of rows and non-zeros.

    Nodes are numbered along the lattice, so columns have the locality of a mesh's. Of the pairs of nodes i and j within
    `REACH` those with the highest scores w_i + w_j - d²/2 + g are coupled: w ~ N(0, spread²) is a node's weight, d the
    distance, and g Gumbel noise of scale `NOISE`, a pair's own. The spread of the weights thus makes that of the row
    lengths from one node to the next, which decides how much a sliced layout pads. A hub is coupled with the nodes
    nearest to it, as a port or a rigid link of a finite-element model is.

    The pattern is symmetric and has all of the diagonal. Values are symmetric too, decay with the distance, and are
    small beside the diagonal.

    Parameters
    ----------
    rows, nonzeros
        Of the matrix. Their difference is even, because the pattern is symmetric.
    longest
        Entries in the longest row, the first hub's; more than an ordinary node has within reach.
    hubs
        How many there are, at least one; their rows' lengths fall evenly to a quarter of the longest.
    spread
        Standard deviation of the weights.
    seed
        Seeds all that is random.

    Raises
    ------
    ReproError
        There is no such matrix: the difference is odd, the hubs do not fit, or so many non-zeros do not.
    """
    rng = np.random.default_rng(seed)
    if (nonzeros - rows) % 2:
        raise ReproError(
            "a symmetric pattern with a full diagonal has an even number of other entries",
            expected=f"{rows} rows and an even number more of non-zeros",
            actual=f"{nonzeros} non-zeros",
        )
    if longest + hubs > rows:
        raise ReproError(
            "the hubs do not fit into the matrix",
            expected=f"at most {rows} hubs and entries in the longest row together",
            actual=f"{hubs} and {longest}",
        )
    lattice = _lattice(rows)
    centres = rng.choice(rows, hubs, replace=False)
    lengths = np.linspace(longest, MIN_HUB * longest, hubs).round().astype(int)
    pairs = _hub_pairs(lattice, centres, lengths)
    wanted = (nonzeros - rows) // 2 - len(pairs)
    near = _near_pairs(lattice)
    near = near[~np.isin(near, centres).any(axis=1)]
    if not 0 <= wanted <= len(near):
        raise ReproError(
            "so many non-zeros do not fit the nodes within reach",
            expected=f"{rows + 2 * len(pairs)} to {rows + 2 * (len(pairs) + len(near))} non-zeros",
            actual=nonzeros,
        )
    weights = rng.normal(scale=spread, size=rows)
    scores = weights[near].sum(axis=1) - _squared(lattice, near) / 2 + rng.gumbel(scale=NOISE, size=len(near))
    chosen = near[np.argpartition(scores, len(near) - wanted)[len(near) - wanted :]] if wanted else near[:0]
    return _symmetric(lattice, np.concatenate([pairs, chosen]), rng)


def _lattice(rows: int) -> NDArray[np.int64]:
    """Return the places of the first so many nodes of a cubic lattice, int64 `(rows, 3)`."""
    side = ceil(rows ** (1 / 3))
    k = np.arange(rows)
    return np.stack([k // side**2, k // side % side, k % side], axis=1)


def _near_pairs(lattice: NDArray[np.int64]) -> Pairs:
    """Return every pair of nodes within `REACH`, the lower number first: `(pairs, 2)`."""
    rows, side = len(lattice), int(lattice.max()) + 1
    steps = np.indices((2 * LATTICE_REACH + 1,) * 3).reshape(3, -1).T - LATTICE_REACH
    pairs = []
    for step in steps[len(steps) // 2 + 1 :]:  # the half of them that lead to higher numbers
        there = lattice + step
        inside = ((there >= 0) & (there < side)).all(axis=1)
        here = np.flatnonzero(inside)
        other = here + int(step @ [side**2, side, 1])
        kept = other < rows
        pairs.append(np.stack([here[kept], other[kept]], axis=1))
    return np.concatenate(pairs)


def _hub_pairs(lattice: NDArray[np.int64], centres: NDArray[np.int64], lengths: NDArray[np.int64]) -> Pairs:
    """Couple each hub with the nodes nearest to it, other hubs excepted."""
    pairs = [np.empty((0, 2), np.int64)]
    for centre, length in zip(centres, lengths, strict=True):
        distances = ((lattice - lattice[centre]) ** 2).sum(axis=1)
        distances[centres] = np.iinfo(np.int64).max
        nearest = np.argsort(distances, kind="stable")[: length - 1]
        pairs.append(np.stack([np.full(len(nearest), centre), nearest], axis=1))
    return np.sort(np.concatenate(pairs), axis=1)


def _squared(lattice: NDArray[np.int64], pairs: Pairs) -> NDArray[np.int64]:
    apart: NDArray[np.int64] = ((lattice[pairs[:, 0]] - lattice[pairs[:, 1]]) ** 2).sum(axis=1)
    return apart


def _symmetric(lattice: NDArray[np.int64], pairs: Pairs, rng: np.random.Generator) -> Assembled:
    """Give the pairs, and the diagonal, complex values that are symmetric, and sort them into rows."""
    n = len(lattice)
    size = 1 / (1 + _squared(lattice, pairs))
    coupled = rng.uniform(-1, 1, (len(pairs), 2)) * size[:, None]
    total = 1 + 2 * np.bincount(pairs.ravel(), np.repeat(size, 2), n)
    diagonal = np.stack([total, LOSS * total], axis=1)

    every = np.arange(n)
    rows = np.concatenate([every, pairs[:, 0], pairs[:, 1]])
    columns = np.concatenate([every, pairs[:, 1], pairs[:, 0]])
    values: Floats = np.concatenate([diagonal, coupled, coupled])
    order = np.argsort(rows * n + columns)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])
    return Assembled(n, indptr.astype(np.int32), columns[order].astype(np.int32), values[order])
