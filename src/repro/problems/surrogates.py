"""Surrogates: synthetic matrices that replace unavailable ones, with equal size and similar row lengths.

Row lengths determine the speed of a sparse format. They are computed from published numbers: the number of entries, and
the number of entries beyond a given width. Columns are placed as in web graphs, social networks or road networks,
uniformly at random, or on a lattice with hubs.
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
#: Exponents and offsets to try for the power law of long rows, in this order, until the standard deviation fits.
EXPONENTS = np.linspace(-6.0, 6.0, 241)
SHIFTS = (0.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
#: Default exponent of the power law, typical for many graphs.
USUAL = 2.0
#: Relative tolerance for the standard deviation and for the number of rows.
TOLERANCE = 0.01
#: Number of bisection steps that determine the decay of the geometric law.
HALVINGS = 60


@dataclass(frozen=True)
class LengthTargets:
    """Wanted properties of the row lengths; `width` separates short rows from long rows."""

    rows: int
    #: Sum of all row lengths.
    nonzeros: int
    #: Length of the shortest row, at most `width`.
    shortest: int
    longest: int
    width: int
    #: Number of entries beyond the first `width` entries of each row: the sum of max(0, length - width).
    overflow: int
    #: Approximate standard deviation of row lengths; None to use the power law with the default exponent.
    spread: float | None = None

    @property
    def reach(self) -> int:
        """Number of entries that the longest row has beyond the width."""
        return max(0, self.longest - self.width)

    @property
    def top(self) -> int:
        """Maximum number of entries within the width in one row."""
        return min(self.width, self.longest)

    @property
    def within(self) -> int:
        """Total number of entries within the width."""
        return self.nonzeros - self.overflow

    @property
    def fewest(self) -> int:
        """Least number of rows longer than `width` that can hold all `overflow` entries, at most `reach` in each."""
        return -(-self.overflow // self.reach) if self.reach else 0

    @property
    def most(self) -> int:
        """Maximum number of rows longer than the width, such that enough entries remain for all other rows."""
        spare_rows = self.within - self.rows * self.shortest
        room = spare_rows // (self.width - self.shortest) if self.width > self.shortest else self.rows
        return min(self.overflow, self.rows, room)

    def check(self) -> None:
        """Raise `ReproError` if no distribution of row lengths meets the targets."""
        fits = self.rows * self.shortest <= self.within <= self.rows * self.top
        has_feasible_tail = (
            self.overflow == 0 if not self.reach else self.reach <= self.overflow and self.fewest <= self.most
        )
        # If no row exceeds the width, the longest row is among the short rows.
        has_feasible_body = bool(self.reach) or self.longest + (self.rows - 1) * self.shortest <= self.nonzeros
        if not (self.rows > 0 and 0 <= self.shortest <= self.top and fits and has_feasible_tail and has_feasible_body):
            raise ReproError(
                "no rows have these lengths",
                expected=f"{self.rows:,} rows of {self.shortest:,} to {self.longest:,} entries, with {self.nonzeros:,}",
                actual=f"{self.overflow:,} of them beyond the first {self.width:,} of their rows",
            )


def row_lengths(targets: LengthTargets) -> Lengths:
    """Return row lengths, longest first, that meet all targets exactly, except an approximate standard deviation.

    Lengths above the width follow a truncated power law, whose exponent is fitted to the standard deviation. Lengths up
    to the width follow a truncated geometric law. Raises `ReproError`: the targets are impossible.
    """
    targets.check()
    count, law = _tail(targets)
    tail_lengths = np.empty(0, np.int64)
    if count:
        tail_lengths = _quantiles(law, count) + 1
        tail_lengths[-1] = targets.reach
        _settle(tail_lengths[:-1], targets.overflow - targets.reach, 1, targets.reach)
    body_rows = targets.rows - count
    total = targets.within - count * targets.width
    steps = targets.top - targets.shortest
    base = np.empty(0, np.int64)
    if body_rows:
        base = _quantiles(_geometric(steps, total / body_rows - targets.shortest), body_rows) + targets.shortest
        if not targets.reach:
            base[-1] = targets.longest
        reserved = 0 if targets.reach else 1
        _settle(base[: body_rows - reserved], total - reserved * targets.longest, targets.shortest, targets.top)
    return np.concatenate([np.sort(tail_lengths + targets.width)[::-1], np.sort(base)[::-1]])


def _tail(targets: LengthTargets) -> tuple[int, Floats]:
    """Return the number of rows longer than the width, and the distribution of their excess over the width."""
    if not targets.reach:
        return 0, np.empty(0)
    best: tuple[float, float, float, float] | None = None
    excess = np.arange(1.0, targets.reach + 1)
    for shift in SHIFTS:
        for exponent in EXPONENTS:
            law = _power(excess + shift, exponent)
            usual_count = targets.overflow / _mean(law, excess)
            count = _tail_rows(targets, law, excess)
            # Exponents for which the number of rows would have to be limited distort the distribution, so they are
            # penalised.
            count_deviation = max(0.0, abs(count - usual_count) / usual_count - TOLERANCE)
            if best is not None and count_deviation > best[0]:
                continue
            if targets.spread is None:
                exponent_distance = round(abs(exponent - USUAL), 6)
            else:
                spread_deviation = abs(_spread(targets, count, law, excess) - targets.spread)
                exponent_distance = max(0.0, spread_deviation - max(0.15, TOLERANCE * targets.spread))
            candidate = (count_deviation, exponent_distance, shift, float(exponent))
            best = candidate if best is None else min(best, candidate)
        if best is not None and best[:2] == (0.0, 0.0):
            break
    assert best is not None
    law = _power(excess + best[2], best[3])
    return _tail_rows(targets, law, excess), law


def _tail_rows(targets: LengthTargets, law: Floats, excess: Floats) -> int:
    """Return the number of rows longer than the width, given the distribution of their excess; clamped to its
    bounds.
    """
    return int(np.clip(round(targets.overflow / _mean(law, excess)), targets.fewest, targets.most))


def _spread(targets: LengthTargets, count: int, law: Floats, excess: Floats) -> float:
    """Return the standard deviation of all row lengths."""
    mean, body_rows = targets.nonzeros / targets.rows, targets.rows - count
    squares = count * _mean(law, (targets.width + excess - mean) ** 2)
    if body_rows:
        steps = targets.top - targets.shortest
        base = _geometric(steps, (targets.within - count * targets.width) / body_rows - targets.shortest)
        squares += body_rows * _mean(base, (np.arange(steps + 1.0) + targets.shortest - mean) ** 2)
    return float((squares / targets.rows) ** 0.5)


def _mean(law: Floats, positions: Floats) -> float:
    """Return the mean of `positions` under a distribution. Not a dot product, which would start costly threads."""
    return float((law * positions).sum())


def _power(positions: Floats, exponent: float) -> Floats:
    """Return power-law probabilities of places."""
    logs = -exponent * np.log(positions)
    share = np.exp(logs - logs.max())
    law: Floats = share / share.sum()
    return law


def _geometric(steps: int, mean: float) -> Floats:
    """Return truncated geometric probabilities of 0, 1, … steps with a given mean; they may rise or fall."""
    positions = np.arange(steps + 1.0)
    low, high = -40.0, 40.0
    share = np.ones(steps + 1)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        logs = middle * positions
        share = np.exp(logs - logs.max())
        share /= share.sum()
        low, high = (middle, high) if _mean(share, positions) < mean else (low, middle)
    return share


def _quantiles(share: Floats, count: int) -> Lengths:
    """Return `count` evenly spaced quantiles of a distribution in ascending order."""
    probabilities = (np.arange(count) + 0.5) / count
    positions = np.searchsorted(np.cumsum(share), probabilities)
    ascending: Lengths = np.minimum(positions, len(share) - 1).astype(np.int64)
    return ascending


def _settle(lengths: Lengths, total: int, low: int, high: int) -> None:
    """Adjust evenly spread lengths by one until their sum is `total`, in several passes if necessary."""
    while difference := total - int(lengths.sum()):
        free_rows = np.flatnonzero(lengths < high if difference > 0 else lengths > low)
        changed_rows = free_rows[
            np.linspace(0, free_rows.size - 1, min(abs(difference), free_rows.size)).astype(np.int64)
        ]
        lengths[changed_rows] += 1 if difference > 0 else -1


Places = NDArray[np.int64]
Family = Literal["web", "social", "road", "uniform"]
#: Function that draws column numbers. Arguments: row numbers, and each entry's position in its row (None in a redraw).
Draw = Callable[[Places, Places | None], Places]

#: Number of entries drawn at once: 32 MB of keys.
BLOCK = 1 << 22
#: Number of consecutive similar rows that share columns in the family `web`.
RUN = 8
#: Family `web`: fraction of entries in nearby columns, maximum distance of nearby columns, and fraction of a row's
#: entries that all rows of a run share.
NEAR_SHARE, NEAR_REACH, SHARED = 0.86, 990, 0.6
#: Probability that a bit of a column number is 1: R-MAT with a, b, c = 0.57, 0.19, 0.19.
BIT_PROBABILITY = 0.24
#: Number of bits drawn at once for a column number, and number of such draws.
DIGIT, DIGITS = 8, 3
#: Number of redraws for colliding entries: first by the rule of the family, then uniformly.
AGAIN, ANYWHERE = 8, 16


def assemble_graph(targets: LengthTargets, columns: int, family: Family, seed: int) -> Assembled:
    """Draw a matrix with exactly the wanted row lengths, and values uniform between -1 and 1.

    Families of columns:

    web
        Most columns are near the diagonal and shared with neighbouring rows; the others are a few popular columns.
    social
        A few columns have most of the entries, as in an R-MAT graph with randomly numbered vertices.
    road
        All columns are close to the row's own node in a grid of all columns, as close as the row length allows.
    uniform
        All columns are equally likely.

    Raises `ReproError`: the row lengths are impossible, or the matrix is too large for 32-bit indices.
    """
    if targets.longest > columns or max(targets.nonzeros, targets.rows, columns) >= 2**31:
        raise ReproError(
            "no such graph exists",
            expected=f"rows of at most {columns:,} entries, and fewer than {2**31:,} in all",
            actual=f"a row of {targets.longest:,}, {targets.nonzeros:,} in all",
        )
    rng = np.random.default_rng(seed)
    # Shuffle rows; in the families `web` and `road`, shuffle runs of rows with similar lengths.
    run = RUN if family in ("web", "road") else 1
    order = (rng.permutation(-(-targets.rows // run))[:, None] * run + np.arange(run)).ravel()
    lengths = row_lengths(targets)[order[order < targets.rows]]
    pointers = np.concatenate([[0], np.cumsum(lengths)])
    draw = _drawing(family, lengths, columns, rng)
    indices = np.empty(targets.nonzeros, np.int32)
    for first, last_row in _blocks(pointers):
        begin, end = pointers[first], pointers[last_row]
        indices[begin:end] = _draw_distinct(first, pointers[first : last_row + 1] - begin, columns, draw, rng)
    values = rng.uniform(-1, 1, targets.nonzeros)
    square = columns == targets.rows
    return Assembled(targets.rows, pointers.astype(np.int32), indices, values[:, None], (), None if square else columns)


def _blocks(pointers: Places) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows whose entries are drawn together; each range has at least one row."""
    first, rows = 0, len(pointers) - 1
    while first < rows:
        last_row = int(np.searchsorted(pointers, pointers[first] + BLOCK, side="right")) - 1
        last_row = min(max(last_row, first + 1), rows)
        yield first, last_row
        first = last_row


def _draw_distinct(first: int, pointers: Places, columns: int, draw: Draw, rng: np.random.Generator) -> Places:
    """Draw sorted, distinct columns for rows from `first` on. `pointers` are relative and begin with 0."""
    rows = np.repeat(np.arange(len(pointers) - 1), np.diff(pointers))
    keys = rows * columns + draw(rows + first, np.arange(len(rows)) - pointers[rows])
    keys.sort()
    for attempt in range(AGAIN + ANYWHERE):
        repeated_places = _repeated_places(keys)
        if not repeated_places.size:
            return keys - rows * columns
        redrawn = rows[repeated_places]
        redrawn_columns = draw(redrawn + first, None) if attempt < AGAIN else rng.integers(columns, size=len(redrawn))
        keys[repeated_places] = redrawn * columns + redrawn_columns
        # Only rows with redrawn entries have to be sorted again.
        is_changed = np.zeros(len(pointers) - 1, bool)
        is_changed[redrawn] = True
        positions = np.flatnonzero(is_changed[rows])
        keys[positions] = np.sort(keys[positions])
    for row in np.unique(rows[_repeated_places(keys)]):
        # The row is nearly full: choose the missing entries among its unused columns.
        begin, end = pointers[row], pointers[row + 1]
        there_are = np.unique(keys[begin:end] - row * columns)
        free_columns = np.setdiff1d(np.arange(columns), there_are, assume_unique=True)
        redrawn_columns = rng.choice(free_columns, end - begin - len(there_are), replace=False)
        keys[begin:end] = row * columns + np.sort(np.concatenate([there_are, redrawn_columns]))
    return keys - rows * columns


def _repeated_places(keys: Places) -> Places:
    """Return the positions of sorted keys that equal the previous key."""
    return np.flatnonzero(keys[1:] == keys[:-1]) + 1


def _drawing(family: Family, lengths: Lengths, columns: int, rng: np.random.Generator) -> Draw:
    """Return the function that draws columns for a family."""
    rows = len(lengths)

    def centre(row: Places) -> Places:
        return row * columns // rows

    def uniform(row: Places, nth: Places | None) -> Places:
        return rng.integers(columns, size=len(row))

    def social(row: Places, nth: Places | None) -> Places:
        return _popular_columns(rng.random(len(row)), columns)

    def web(row: Places, nth: Places | None) -> Places:
        chance, position = rng.random(len(row)), rng.random(len(row))
        middle, distance = centre(row), np.maximum(NEAR_REACH, lengths[row])
        offset = 2 * position - 1
        if nth is not None:
            run = row // RUN
            shared = rng.random(len(row)) < SHARED
            entry = 2 * (run[shared] * columns + nth[shared])
            chance[shared], position[shared] = _mix(entry), _mix(entry + 1)
            middle[shared] = centre(run[shared] * RUN)
            offset = 2 * position - 1
            # Squaring makes small distances likely: most links lead to nearby pages.
            offset *= np.abs(offset)
        columns_drawn = _reflect(middle + (offset * distance).astype(np.int64), columns)
        is_far = chance >= NEAR_SHARE
        columns_drawn[is_far] = _popular_columns(position[is_far], columns)
        return columns_drawn

    def road(row: Places, nth: Places | None) -> Places:
        side = isqrt(columns)
        # Half the side of a square with twice as many places as the row has entries.
        distance = np.ceil((np.sqrt(2 * lengths[row]) - 1) / 2).astype(np.int64) + 1
        steps = np.rint((2 * rng.random((2, len(row))) - 1) * distance).astype(np.int64)
        return _reflect(centre(row) + steps[0] * side + steps[1], columns)

    families: dict[Family, Draw] = {"web": web, "social": social, "road": road, "uniform": uniform}
    return families[family]


def _reflect(positions: Places, columns: int) -> Places:
    """Reflect places that exceed either end back into the range."""
    positions = np.abs(positions)
    is_beyond = positions >= columns
    positions[is_beyond] = 2 * (columns - 1) - positions[is_beyond]
    return positions % columns


def _popular_columns(chance: NDArray[np.float64], columns: int) -> Places:
    """Convert random numbers in [0, 1) to columns with R-MAT's popularity, bit by bit, then renumber columns at random.

    Equal random numbers give equal columns.
    """
    table = _digits()
    digits, fraction = [], chance
    for _ in range(DIGITS):
        fraction = fraction * len(table)
        digit = fraction.astype(np.int64)
        fraction = fraction - digit
        digits.append(table[digit])
    for digit in reversed(digits):
        fraction = (fraction + digit) / (1 << DIGIT)
    drawn_columns = np.minimum((fraction * columns).astype(np.int64), columns - 1)
    return drawn_columns * _coprime(columns) % columns


def _digits() -> NDArray[np.int64]:
    """Return a table of 65536 digits; each digit is as frequent as in R-MAT's column numbers."""
    ones = np.array([digit.bit_count() for digit in range(1 << DIGIT)])
    shares = np.cumsum(BIT_PROBABILITY**ones * (1 - BIT_PROBABILITY) ** (DIGIT - ones))
    ends = np.rint(shares * (1 << 16)).astype(np.int64)
    return np.repeat(np.arange(1 << DIGIT), ends - np.append(0, ends[:-1]))


def _coprime(columns: int) -> int:
    """Return a factor that is coprime to the number of columns; multiplying by it scatters neighbouring columns."""
    factor = max(1, round(0.618 * columns))
    while gcd(factor, columns) > 1:
        factor += 1
    return factor


def _mix(numbers: Places) -> NDArray[np.float64]:
    """Hash numbers to random numbers in [0, 1)."""
    mixed = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


LATTICE_REACH = 2  # maximum distance of coupled ordinary nodes along each lattice axis
MIN_HUB = 0.25  # length of the shortest hub row, relative to the longest
NOISE = 0.3  # scale of the random noise in the score of a node pair
LOSS = 0.02  # ratio of the imaginary to the real part of the diagonal

Pairs = NDArray[np.int64]


def assemble_lookalike(rows: int, nonzeros: int, *, longest: int, hubs: int, spread: float, seed: int) -> Assembled:
    """Couple the nodes of a cubic lattice at random, with hubs, into a matrix with exact numbers of rows and non-zeros.

    Nodes are numbered along the lattice, so that columns have the locality of a mesh. Of the pairs of nodes i and j
    within `LATTICE_REACH`, those with the highest scores w_i + w_j - d²/2 + g are coupled: w ~ N(0, spread²) is a
    node's weight, d the distance of the pair, and g Gumbel noise of scale `NOISE`. A larger spread of weights makes row
    lengths of neighbouring nodes differ more, which increases the padding of sliced layouts. A hub is coupled with the
    nodes nearest to it, like a port or a rigid link of a finite-element model. Pattern and values are symmetric. Values
    decay with the distance and are much smaller than the diagonal. Raises `ReproError`: no such matrix exists: the
    difference is odd, or there is no room for the hubs or the non-zeros.

    Parameters
    ----------
    rows, nonzeros
        Size of the matrix. The difference must be even, because the pattern is symmetric.
    longest
        Number of entries in the first hub's row; must exceed the maximum for ordinary nodes.
    hubs
        Number of hubs; the row lengths of hubs decrease linearly to a quarter of `longest`.
    spread
        Standard deviation of the weights.
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
            "the hubs do not fit in the matrix",
            expected=f"at most {rows} hubs and entries in the longest row together",
            actual=f"{hubs} and {longest}",
        )
    side, k = ceil(rows ** (1 / 3)), np.arange(rows)
    lattice = np.stack([k // side**2, k // side % side, k % side], axis=1)
    centres = rng.choice(rows, hubs, replace=False)
    lengths = np.linspace(longest, MIN_HUB * longest, hubs).round().astype(int)
    pairs = _hub_pairs(lattice, centres, lengths)
    pair_count = (nonzeros - rows) // 2 - len(pairs)
    near_pairs = _near_pairs(lattice)
    near_pairs = near_pairs[~np.isin(near_pairs, centres).any(axis=1)]
    if not 0 <= pair_count <= len(near_pairs):
        raise ReproError(
            "the nodes within reach cannot hold this many non-zeros",
            expected=f"{rows + 2 * len(pairs)} to {rows + 2 * (len(pairs) + len(near_pairs))} non-zeros",
            actual=nonzeros,
        )
    weights = rng.normal(scale=spread, size=rows)
    scores = (
        weights[near_pairs].sum(axis=1)
        - _squared_distances(lattice, near_pairs) / 2
        + rng.gumbel(scale=NOISE, size=len(near_pairs))
    )
    drawn_pairs = (
        near_pairs[np.argpartition(scores, len(near_pairs) - pair_count)[len(near_pairs) - pair_count :]]
        if pair_count
        else near_pairs[:0]
    )
    return _symmetric_pattern(lattice, np.concatenate([pairs, drawn_pairs]), rng)


def _near_pairs(lattice: NDArray[np.int64]) -> Pairs:
    """Return all pairs of nodes within `LATTICE_REACH`, `(pairs, 2)`, with the lower number first."""
    rows, side = len(lattice), int(lattice.max()) + 1
    steps = np.indices((2 * LATTICE_REACH + 1,) * 3).reshape(3, -1).T - LATTICE_REACH
    pairs = []
    for step in steps[len(steps) // 2 + 1 :]:  # only steps to higher node numbers
        neighbours = lattice + step
        is_inside = ((neighbours >= 0) & (neighbours < side)).all(axis=1)
        sources = np.flatnonzero(is_inside)
        targets = sources + int(step @ [side**2, side, 1])
        is_row = targets < rows
        pairs.append(np.stack([sources[is_row], targets[is_row]], axis=1))
    return np.concatenate(pairs)


def _hub_pairs(lattice: NDArray[np.int64], centres: NDArray[np.int64], lengths: NDArray[np.int64]) -> Pairs:
    """Couple each hub with the nodes nearest to it, except other hubs."""
    pairs = [np.empty((0, 2), np.int64)]
    for centre, length in zip(centres, lengths, strict=True):
        distances = ((lattice - lattice[centre]) ** 2).sum(axis=1)
        distances[centres] = np.iinfo(np.int64).max
        nearest = np.argsort(distances, kind="stable")[: length - 1]
        pairs.append(np.stack([np.full(len(nearest), centre), nearest], axis=1))
    return np.sort(np.concatenate(pairs), axis=1)


def _squared_distances(lattice: NDArray[np.int64], pairs: Pairs) -> NDArray[np.int64]:
    squared_distances: NDArray[np.int64] = ((lattice[pairs[:, 0]] - lattice[pairs[:, 1]]) ** 2).sum(axis=1)
    return squared_distances


def _symmetric_pattern(lattice: NDArray[np.int64], pairs: Pairs, rng: np.random.Generator) -> Assembled:
    """Assign values to node pairs, equal in both directions, and to the diagonal; sort the entries by rows."""
    n = len(lattice)
    size = 1 / (1 + _squared_distances(lattice, pairs))
    coupled = rng.uniform(-1, 1, (len(pairs), 2)) * size[:, None]
    total = 1 + 2 * np.bincount(pairs.ravel(), np.repeat(size, 2), n)
    diagonal = np.stack([total, LOSS * total], axis=1)

    all_rows = np.arange(n)
    rows = np.concatenate([all_rows, pairs[:, 0], pairs[:, 1]])
    columns = np.concatenate([all_rows, pairs[:, 1], pairs[:, 0]])
    values: Floats = np.concatenate([diagonal, coupled, coupled])
    order = np.argsort(rows * n + columns)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])
    return Assembled(n, indptr.astype(np.int32), columns[order].astype(np.int32), values[order])
