"""Entry type `complex`: complex numbers."""

import numpy as np

from repro.entries import Array, Entry, register


def expand(values: Array) -> Array:
    """Map complex entries `(nnz, 2)` to real blocks ((re, -im), (im, re)), `(nnz, 2, 2)`."""
    re, im = values.T
    return np.stack([re, -im, im, re], axis=1).reshape(-1, 2, 2)


COMPLEX = register(
    Entry(
        name="complex",
        members=("re", "im"),
        vector_members=("re", "im"),
        mac=(
            "c.re += a.re * b.re; c.re -= a.im * b.im;",
            "c.im += a.re * b.im; c.im += a.im * b.re;",
        ),
        expand=expand,
    )
)
