"""Matrices of graphs: rows of given lengths, and columns as webs, social networks, roads or chance have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import gcd, isqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from repro.errors import ReproError
from repro.problems.assembled import Assembled
from repro.problems.row_lengths import Lengths, Wanted, row_lengths

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
NEAR, REACH, SHARED = 0.86, 990, 0.6
#: That a bit of a column is one: as R-MAT with a, b, c = 0.57, 0.19, 0.19 has it.
ONE = 0.24
#: Bits of a column that are drawn at once, and how often.
DIGIT, DIGITS = 8, 3
#: Times that entries of a place that is taken are drawn again as the family has it, and then anywhere.
AGAIN, ANYWHERE = 8, 16


def assemble_graph(wanted: Wanted, columns: int, family: Family, seed: int) -> Assembled:
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
        middle, reach = centre(row), np.maximum(REACH, lengths[row])
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
        far = chance >= NEAR
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
