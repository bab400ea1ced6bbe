"""Small problems of each kind, all of them sound."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from repro.problems.field import Field
from repro.problems.matrix import Matrix, Updates
from repro.problems.problem import Problem


def ints(*numbers: int) -> NDArray[np.int32]:
    return np.array(numbers, dtype=np.int32)


def floats(*numbers: float) -> NDArray[np.float64]:
    return np.array(numbers, dtype=np.float64)


def column(*numbers: float) -> NDArray[np.float64]:
    return floats(*numbers).reshape(-1, 1)


# 1 . 2.5
# .  .  .
# . -3  .
SQUARE = Matrix("square", "real", 3, ints(0, 2, 2, 3), ints(0, 2, 1), column(1, 2.5, -3), origin={"source": "test"})
WIDE = replace(SQUARE, name="wide", columns=7)
EMPTY = Matrix("empty", "real", 0, ints(0), ints(), column())
BARE = Matrix("bare", "complex", 2, ints(0, 0, 0), ints(), np.empty((0, 2)), columns=0)

UPDATES = Updates(
    "updates",
    3,
    SQUARE.indptr,
    SQUARE.indices,
    SQUARE.values,
    np.array([0, 2, 2, 3], dtype=np.int64),
    ints(2, 0, 2),
    ints(4, 0, 4),
    floats(1, 2, 3),
    columns=5,
)
BLANK = Updates("blank", 0, ints(0), ints(), column(), np.zeros(1, dtype=np.int64), ints(), ints(), floats(), columns=4)

# two triangles of the unit square, and a vertex that neither uses
TRIANGLES = Field(
    "triangles",
    np.array([[0.0, 0], [1, 0], [1, 1], [0, 1], [9, 9]]),
    np.array([[0, 1, 2], [0, 2, 3]], dtype=np.int32),
    1,
    "dubiner",
    np.arange(6.0).reshape(2, 3),
    periodic=True,
)
TETRAHEDRON = Field(
    "tetrahedron",
    np.concatenate([np.zeros((1, 3)), np.eye(3)]),
    np.array([[0, 1, 2, 3]], dtype=np.int32),
    2,
    "dubiner",
    np.ones((1, 10)),
    periodic=False,
)

SOUND: tuple[Problem, ...] = (SQUARE, WIDE, EMPTY, BARE, UPDATES, BLANK, TRIANGLES, TETRAHEDRON)
