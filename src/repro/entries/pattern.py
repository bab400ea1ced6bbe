"""Ones: entries that store no value, such as the edges of a graph."""

import numpy as np

from repro.entries import Array, Entry, register


def expand(values: Array) -> Array:
    """Return the blocks ((1)): `(nnz, 0)` to `(nnz, 1, 1)`."""
    return np.ones((len(values), 1, 1), values.dtype)


PATTERN = register(
    Entry(
        name="pattern",
        members=(),
        vector_members=("x",),
        mac=("c.x += b.x;",),
        expand=expand,
    )
)
