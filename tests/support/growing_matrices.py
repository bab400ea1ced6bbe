"""Growing matrices for tests: empty rows, a dense one, rows around each limit, rectangular ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.problems.matrix import Updates


def growing(
    lengths: Sequence[int] | NDArray[np.integer[Any]],
    columns: int,
    added: int,
    batches: int = 3,
    seed: int = 3,
    name: str = "growing",
) -> Updates:
    """Return a matrix with rows of these lengths, and `added` entries in batches, at random places that may repeat."""
    random = np.random.default_rng(seed)
    rows = len(lengths)
    indices = [np.sort(random.choice(columns, length, replace=False)) for length in lengths]
    pointers = np.linspace(0, added, batches + 1).astype(np.int64)
    return Updates(
        name,
        rows,
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        np.concatenate([np.empty(0, int), *indices]).astype(np.int32),
        random.normal(size=(int(np.sum(lengths)), 1)),
        pointers,
        random.integers(0, rows, added).astype(np.int32),
        random.integers(0, columns, added).astype(np.int32),
        random.normal(size=added),
        columns,
    ).validate()


def around_limits(columns: int = 900, added: int = 400, **keys: Any) -> Updates:
    """Return rows of 0, 1 and 2 entries, of one more and one less than each limit, and a dense one."""
    random = np.random.default_rng(1)
    few = random.integers(0, 12, 300)
    few[::5] = 0
    edges = [1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513]
    return growing([0, 0, *few, *edges, 0, columns, *few[::-1], 0], columns, added, **keys)
