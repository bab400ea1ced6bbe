"""Entry type `pattern`: all entries are 1 and store no value, such as the edges of a graph."""

import numpy as np

from repro.entries import Array, Entry, register


def expand(values: Array) -> Array:
    """Map entries without members, `(nnz, 0)`, to 1×1 blocks of ones, `(nnz, 1, 1)`."""
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
