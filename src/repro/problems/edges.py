"""Edges of cells, against which areas and volumes are held."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Area divided by the squared longest edge, or volume divided by the cubed one, that counts as 0 because of rounding.
DEGENERATE = 1e-12


def longest_edges(corners: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the length of the longest edge `(c,)` of each cell; corners are `(c, k, d)`."""
    lengths = np.zeros(len(corners))
    for i in range(corners.shape[1]):
        for j in range(i):
            np.maximum(lengths, np.linalg.norm(corners[:, i] - corners[:, j], axis=1), out=lengths)
    return lengths
