"""Matrices that leave no part of compressed sliced ELLPACK out, shared by the tests on the CPU and on the GPU."""

from __future__ import annotations

import numpy as np

from repro.problems.matrix import Matrix

#: Columns of an entry less its row's number, at random up to so far, by the bits of the codes that these make.
REACH = {8: 100, 16: 20_000, 32: 200_000}


def matrix(name: str, lengths: np.ndarray, columns: np.ndarray, values: str = "distinct") -> Matrix:
    """Return a matrix with rows of those lengths."""
    random, count = np.random.default_rng(3), len(columns)
    numbers = random.choice([1.0, -0.25, 4.0], count) if values == "repeat" else random.normal(size=count)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return Matrix(name, "real", len(lengths), indptr, columns.astype(np.int32), numbers[:, None])


def scattered(lengths: np.ndarray, reach: int) -> np.ndarray:
    """Return ascending columns of rows, at most so far from the row where there are as many."""
    random, n = np.random.default_rng(2), len(lengths)
    columns = []
    for row in np.flatnonzero(lengths):
        length = lengths[row]
        first = np.clip(row - reach, 0, max(0, n - 2 * reach - length))
        columns.append(first + np.sort(random.choice(min(n, 2 * reach + length), length, replace=False)))
    return np.concatenate(columns)


def coded(bits: int, values: str) -> Matrix:
    """Return a matrix with many steps whose codes need `bits` bits; for wide codes, rows have few, distant entries."""
    n, length = {8: (500, 9), 16: (50_000, 9), 32: (400_000, 3)}[bits]
    lengths = np.zeros(n, int)
    lengths[n // 2 : n // 2 + 128] = np.arange(128) % 2 + length
    return matrix(f"codes of {bits}", lengths, scattered(lengths, REACH[bits]), values)


def star(n: int, values: str = "distinct") -> Matrix:
    """Return the pattern of a seven-point star on a box whose rows are no multiple of a slice's."""
    rows = np.arange(n)
    columns = rows[:, None] + np.array([-41, -7, -1, 0, 1, 7, 41])
    there = (columns >= 0) & (columns < n)
    return matrix(f"star {n}", there.sum(axis=1), columns[there], values)


def uneven() -> Matrix:
    """Return rows of very different lengths: sorted windows, pieces, rows of one piece and of several."""
    random = np.random.default_rng(0)
    lengths = random.integers(0, 30, 2600)
    lengths[[5, 700, 1500, 2599]] = 2500, 300, 1024, 1025
    return matrix("uneven", lengths, scattered(lengths, 300))


def problems() -> dict[str, Matrix]:
    """Return matrices that leave no part of the format out."""
    found = [coded(bits, values) for bits in REACH for values in ("distinct", "repeat")]
    named = {f"{problem.name}, {('distinct', 'repeat')[i % 2]}": problem for i, problem in enumerate(found)}
    lengths = np.zeros(40, int)
    lengths[17] = 1
    return {
        **named,
        "no codes": star(515),
        "no codes, repeat": star(515, "repeat"),
        "fewer rows than a slice": star(5),
        "uneven": uneven(),
        "one entry": matrix("one entry", lengths, np.array([39])),
        "one row": matrix("one row", np.ones(1, int), np.zeros(1)),
    }


PROBLEMS = problems()
