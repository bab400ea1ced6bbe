"""The entry types of the studies: 3×3 blocks, complex numbers, patterns without values, quaternions, real numbers."""

import numpy as np

from repro.entries import Array, Entry, register

#: Dense 3×3 blocks, stored row by row, which multiply vectors of 3 numbers.
BLOCK3 = register(
    Entry(
        name="block3",
        members=tuple(f"m{i}{j}" for i in range(3) for j in range(3)),
        vector_members=("x", "y", "z"),
        mac=tuple(
            " ".join(f"c.{row} += a.m{i}{j} * b.{column};" for j, column in enumerate("xyz"))
            for i, row in enumerate("xyz")
        ),
        expand=lambda values: values.reshape(-1, 3, 3),
    )
)


def complex_blocks(values: Array) -> Array:
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
        expand=complex_blocks,
    )
)


def pattern_blocks(values: Array) -> Array:
    """Map entries without members, `(nnz, 0)`, to 1×1 blocks of ones, `(nnz, 1, 1)`."""
    return np.ones((len(values), 1, 1), values.dtype)


#: All entries are 1 and store no value, such as the edges of a graph.
PATTERN = register(
    Entry(name="pattern", members=(), vector_members=("x",), mac=("c.x += b.x;",), expand=pattern_blocks)
)


def quaternion_blocks(values: Array) -> Array:
    """Map quaternions `(nnz, 4)` to real blocks `(nnz, 4, 4)`, by eq. 1 of Mueller-Roemer et al. 2020."""
    w, x, y, z = values.T
    return np.stack([w, -x, -y, -z, x, w, -z, y, y, z, w, -x, z, -y, x, w], axis=1).reshape(-1, 4, 4)


#: w + xi + yj + zk, which multiplies quaternions in vectors from the left.
QUATERNION = register(
    Entry(
        name="quaternion",
        members=("w", "x", "y", "z"),
        vector_members=("w", "x", "y", "z"),
        mac=(
            "c.w += a.w * b.w; c.w -= a.x * b.x; c.w -= a.y * b.y; c.w -= a.z * b.z;",
            "c.x += a.x * b.w; c.x += a.w * b.x; c.x -= a.z * b.y; c.x += a.y * b.z;",
            "c.y += a.y * b.w; c.y += a.z * b.x; c.y += a.w * b.y; c.y -= a.x * b.z;",
            "c.z += a.z * b.w; c.z -= a.y * b.x; c.z += a.x * b.y; c.z += a.w * b.z;",
        ),
        expand=quaternion_blocks,
    )
)


#: Plain real numbers.
REAL = register(
    Entry(
        name="real",
        members=("v",),
        vector_members=("v",),
        mac=("c.v += a.v * b.v;",),
        expand=lambda values: values.reshape(-1, 1, 1),
    )
)
