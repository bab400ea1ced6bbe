"""Random matrices in CSR that leave no corner of the balanced and compressed formats out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from repro.studies.compressed_coo.coordinate_format import Balanced, Chunking

#: Where columns need more than 16 bits.
WIDE = 70_000
SPECIAL = [0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 5e-324]


class Csr(NamedTuple):
    n: int
    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray


def random_values(random: np.random.Generator, count: int, distinct: int, dtype: type) -> np.ndarray:
    """Return values from a pool: special ones, then any bit patterns, NaNs that carry something included."""
    size = np.dtype(dtype).itemsize
    pool = np.concatenate([np.array(SPECIAL, dtype), np.frombuffer(random.bytes(size * distinct), dtype)])[:distinct]
    return random.choice(pool.view(f"u{size}"), count).view(dtype)


@st.composite
def matrices(draw: st.DrawFn, wide: bool = True) -> Csr:
    """Draw one: empty rows, rows longer than any chunk, one entry, one row, any number of distinct values."""
    row = st.one_of(st.just(0), st.integers(1, 12), st.integers(1, 12), st.integers(60, 5000))
    lengths = draw(st.lists(row, min_size=1, max_size=40))
    many = draw(st.sampled_from([1, 1, 20]))
    if wide and draw(st.booleans()):
        empty = WIDE - many * len(lengths)
        before = draw(st.sampled_from([0, empty // 2, empty]))
        lengths = [0] * before + lengths * many + [0] * (empty - before)
    else:
        lengths = lengths * many
    random = np.random.default_rng(draw(st.integers(0, 99)))
    n, indptr = len(lengths), np.concatenate([[0], np.cumsum(lengths)])
    rows = np.repeat(np.arange(n), lengths)
    # near the diagonal, or anywhere
    reach = draw(st.sampled_from([1, 20, 200, WIDE]))
    columns = np.clip(rows + random.integers(-reach, reach, len(rows)), 0, n - 1)
    columns = columns[np.lexsort((columns, rows))].astype(np.int32)
    distinct = draw(st.sampled_from([1, 3, 256, 257, 5000]))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    return Csr(n, indptr.astype(np.int32), columns, random_values(random, len(columns), distinct, dtype))


chunkings = st.builds(
    Chunking,
    threads=st.sampled_from([64, 128, 256]),
    entries=st.sampled_from([1, 2, 4, 8]),
    split=st.sampled_from(["padded", "unpadded", "aligned"]),
)


def one_chunk(rows: np.ndarray, columns: np.ndarray, values: np.ndarray, chunking: Chunking) -> Balanced:
    """Return a chunk of a larger matrix."""
    assert len(columns) == len(values) == chunking.slots
    n = 1 + max(rows.max(), columns.max())
    return Balanced(n, len(columns), chunking, rows.astype(np.int32), columns.astype(np.int32), values)


def five_point(n: int) -> Csr:
    """Return the matrix of the five-point star with constant coefficients on n×n points."""
    i = np.arange(n * n).reshape(n, n, 1)
    x = np.indices((n, n))[1][..., None]
    step, across = np.array([[-n, -1, 0, 1, n], [0, -1, 0, 1, 0]])
    inside = (i + step >= 0) & (i + step < n * n) & (x + across >= 0) & (x + across < n)
    values = np.broadcast_to([-1.0, -1.0, 4.0, -1.0, -1.0], inside.shape)[inside]
    return _csr(inside.reshape(n * n, -1), (i + step)[inside], values)


def cube(n: int, seed: int = 0) -> Csr:
    """Return the pattern of the 27-point star on n×n×n points with random values."""
    i = np.arange(n**3).reshape(n, n, n, 1)
    near = np.indices((3, 3, 3)).reshape(3, -1) - 1
    place = np.indices((n, n, n))[..., None] + near[:, None, None, None]
    inside = ((place >= 0) & (place < n)).all(axis=0)
    columns = (i + near[0] * n * n + near[1] * n + near[2])[inside]
    return _csr(inside.reshape(n**3, -1), columns, np.random.default_rng(seed).normal(size=len(columns)))


def _csr(inside: np.ndarray, columns: np.ndarray, values: np.ndarray) -> Csr:
    indptr = np.concatenate([[0], np.cumsum(inside.sum(axis=1))])
    return Csr(len(inside), indptr.astype(np.int32), columns.astype(np.int32), values)
