"""Matrices that have chunks of a given encoding, shared by the tests on the CPU and on the GPU."""

from __future__ import annotations

import numpy as np

from repro.problems.matrix import Matrix

ENCODINGS = [
    f"{rows}/{columns}/{values}"
    for rows in ("none", "8", "16")
    for columns in ("8", "16", "32")
    for values in ("plain", "table")
]
#: Columns that the entries of a chunk are spread over, by the bits of an offset.
REACH = {"8": 256, "16": 60_000, "32": 70_000}
FIRST = 512


def possible(encoding: str, threads: int, entries: int) -> bool:
    """Say whether a chunk can have the encoding: 256 columns hold one row of 256 entries, 256 rows need 8 bits."""
    rows, columns, _ = encoding.split("/")
    slots = threads * entries
    return slots > 256 if rows == "16" else slots <= 256 or (rows, columns) != ("none", "8")


def encoded(encoding: str, threads: int, entries: int) -> Matrix:
    """Return a matrix of 70,000 rows of K entries each, but for those that fill three chunks of the encoding.

    These start at a chunk's first slot. Rows `none`: each is a chunk; `8`: of K entries; `16`: of one entry. Values
    `table`: few are distinct.
    """
    rows, columns, values = encoding.split("/")
    random, n, reach = np.random.default_rng(7), REACH["32"], REACH[columns]
    length = {"none": threads * entries, "8": entries, "16": 1}[rows]
    special = 3 * threads * entries // length
    lengths = np.full(n, entries)
    lengths[FIRST : FIRST + special] = length
    lengths[-5:] = 0
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.arange(indptr[-1]) - np.repeat(indptr[:-1], lengths)
    indices += np.minimum(np.repeat(np.arange(n), lengths), n - length - entries)
    if length == 1:  # by turns at both ends
        spread = np.arange(special) % 2 * (reach - 1)
    else:
        spread = np.tile(np.linspace(0, reach - 1, length).astype(int), special)
    indices[indptr[FIRST] : indptr[FIRST + special]] = spread
    count = int(indptr[-1])
    numbers = random.choice([1.0, -0.25, 4.0], count) if values == "table" else random.normal(size=count)
    return Matrix(f"encoded/{encoding}", "real", n, indptr.astype(np.int32), indices.astype(np.int32), numbers[:, None])
