"""Entry type `quaternion`: w + xi + yj + zk, which multiplies quaternions in vectors from the left."""

import numpy as np

from repro.entries import Array, Entry, register


def expand(values: Array) -> Array:
    """Map quaternions `(nnz, 4)` to real blocks `(nnz, 4, 4)`, by eq. 1 of Mueller-Roemer et al. 2020."""
    w, x, y, z = values.T
    return np.stack([w, -x, -y, -z, x, w, -z, y, y, z, w, -x, z, -y, x, w], axis=1).reshape(-1, 4, 4)


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
        expand=expand,
    )
)
