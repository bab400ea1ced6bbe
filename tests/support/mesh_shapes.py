"""A cube as surface and volume, and what tests of the readers of meshes look at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from repro.errors import ReproError
from repro.problems.meshes import read_surface, read_tetrahedra, tetrahedron_volumes

VERTICES = np.array([[x, y, z] for z in (0, 1) for y in (0, 1) for x in (0, 1)], dtype=float)
SQUARES = [[0, 2, 3, 1], [4, 5, 7, 6], [0, 1, 5, 4], [2, 6, 7, 3], [0, 4, 6, 2], [1, 3, 7, 5]]
TRIANGLES = [[a, b, c] for q in SQUARES for a, b, c in (q[:3], [q[0], *q[2:]])]
TETRAHEDRA = np.array([[0, 1, 3, 7], [0, 3, 2, 7], [0, 2, 6, 7], [0, 6, 4, 7], [0, 4, 5, 7], [0, 5, 1, 7]])


def area(path: Path) -> tuple[float, int, tuple[str, ...]]:
    """Return the area of a surface, how many triangles it has, and the notes."""
    vertices, faces, notes = read_surface(path)
    a, b, c = (vertices[faces[:, i]] for i in range(3))
    return round(float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2), 9), len(faces), notes


def volume(path: Path) -> tuple[float, int, tuple[str, ...]]:
    """Return the volume of a mesh, how many tetrahedra it has, and the notes."""
    vertices, cells, notes = read_tetrahedra(path)
    return round(float(tetrahedron_volumes(vertices, cells).sum()), 9), len(cells), notes


def refused(read: Callable[[Path], object], path: Path, message: str) -> None:
    """Hold a reader to a refusal that has all parts and what to do."""
    with pytest.raises(ReproError, match=message) as told:
        read(path)
    assert told.value.where == path
    assert told.value.todo
    assert told.value.actual is not None
