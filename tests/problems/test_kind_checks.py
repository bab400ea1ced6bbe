"""What each kind of problem refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from repro.errors import ReproError
from repro.problems.matrix import Matrix
from repro.problems.problem import Problem
from support.sound_problems import (
    BARE,
    EMPTY,
    SOUND,
    SQUARE,
    TETRAHEDRON,
    TRIANGLES,
    UPDATES,
    WIDE,
    column,
    floats,
    ints,
)


@pytest.mark.parametrize("problem", SOUND, ids=lambda problem: problem.name)
def test_sound_problems(problem: Problem) -> None:
    assert problem.validate() is problem


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"entry": "octonion"}, "unknown entry"),
        ({"columns": -1}, "negative size"),
        ({"n": -1, "indptr": ints()}, "negative size"),
        ({"n": 3.0}, "not an integer"),
        ({"n": "3"}, "not an integer"),
        ({"columns": 3.5}, "not an integer"),
        ({"columns": 1 << 31}, "too large"),
        ({"indptr": None}, "row pointers are not an array"),
        ({"indices": None}, "column indices are not an array"),
        ({"indices": np.array(1, np.int32)}, "column indices have the wrong"),
        ({"values": [[1.0], [2.0], [3.0]]}, "values are not an array"),
        ({"n": 4}, r"row pointers have the wrong dtype or shape[\s\S]*int32 \(5,\)[\s\S]*int32 \(4,\)"),
        (
            {"indptr": np.array([0, 2, 2, 3])},
            r"row pointers have the wrong dtype or shape[\s\S]*int32 \(4,\)[\s\S]*int64 \(4,\)",
        ),
        ({"indptr": ints(1, 2, 2, 3)}, r"row pointers are wrong[\s\S]*from 0 to 3[\s\S]*from 1 to 3"),
        ({"indptr": ints(0, 2, 2, 4)}, r"row pointers are wrong[\s\S]*from 0 to 4"),
        ({"indptr": ints(0, 2, 1, 3)}, r"row pointers decrease[\s\S]*first at row 1 "),
        ({"indptr": ints(0, 9, 0, 3)}, r"row pointers decrease[\s\S]*first at row 1 "),
        ({"indices": np.array([0, 2, 1])}, r"column indices have the wrong[\s\S]*int32 \(3,\)[\s\S]*int64 \(3,\)"),
        ({"indices": ints(0, 3, 1)}, r"column index out of range[\s\S]*row 0, column 3 [\s\S]*columns 0 to 2"),
        ({"indices": ints(0, 2, -1)}, r"column index out of range[\s\S]*row 2, column -1 "),
        ({"columns": 2}, r"column index out of range[\s\S]*row 0, column 2 [\s\S]*columns 0 to 1"),
        ({"columns": 0}, r"column index out of range[\s\S]*expected: columns none[\s\S]*3 of 3"),
        ({"indices": ints(2, 0, 1)}, r"not sorted[\s\S]*row 0, column 0 "),
        ({"indices": ints(1, 1, 1)}, r"duplicate entries[\s\S]*row 0, column 1 "),
        ({"values": column(1, 2)}, r"values have the wrong dtype or shape[\s\S]*\(3, 1\)[\s\S]*\(2, 1\)"),
        ({"values": floats(1, 2, 3)}, r"values have the wrong dtype or shape[\s\S]*\(3, 1\)[\s\S]*\(3,\)"),
        ({"entry": "complex"}, r"values have the wrong dtype or shape[\s\S]*\(3, 2\)"),
        ({"values": column(1, 2, 3).astype(np.float32)}, "values have the wrong dtype or shape"),
        ({"values": column(1, np.nan, 3)}, r"NaN or infinite[\s\S]*row 0, column 2 [\s\S]*1 of 3"),
        ({"values": column(1, 2, np.inf)}, r"NaN or infinite[\s\S]*row 2, column 1 "),
    ],
)
def test_matrices_that_are_not_sound(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ReproError, match=said) as caught:
        replace(SQUARE, **changes).validate()
    assert "square" in caught.value.message or changes.get("entry") == "octonion"


def test_columns_may_descend_from_row_to_row() -> None:
    Matrix("toy", "real", 3, ints(0, 0, 2, 3), ints(1, 2, 2), column(1, 1, 1)).validate()
    Matrix("toy", "real", 3, ints(0, 1, 2, 3), ints(2, 1, 0), column(1, 1, 1)).validate()


def test_a_product_needs_a_square_matrix_with_entries() -> None:
    assert SQUARE.require_product() is SQUARE
    for matrix in (EMPTY, BARE):
        with pytest.raises(ReproError, match="the matrix has no entries"):
            matrix.require_product()
    with pytest.raises(ReproError, match=r"the matrix is not square\n  where: wide\n[\s\S]*3 x 7"):
        WIDE.require_product()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"values": column(1, np.nan, 3)}, "the matrix has NaN"),
        ({"indices": ints(1, 1, 1)}, "the matrix has duplicate"),
        ({"batch_pointers": np.empty(0, dtype=np.int64)}, r"batch pointers have the wrong[\s\S]*\(1,\)[\s\S]*\(0,\)"),
        ({"batch_pointers": ints(0, 2, 2, 3)}, "batch pointers have the wrong"),
        ({"batch_pointers": np.array([0, 2])}, r"batch pointers are wrong[\s\S]*from 0 to 3[\s\S]*from 0 to 2"),
        ({"batch_pointers": np.array([0, 2, 1, 3])}, r"batch pointers decrease[\s\S]*first at batch 1 "),
        ({"batch_columns": ints(0, 1)}, r"columns of the batches have the wrong[\s\S]*\(3,\)[\s\S]*\(2,\)"),
        ({"batch_values": column(1, 2, 3)}, r"values of the batches have the wrong[\s\S]*\(3,\)[\s\S]*\(3, 1\)"),
        ({"batch_rows": np.array([0, 1, 2])}, "rows of the batches have the wrong"),
        ({"batch_rows": ints(0, 3, 2)}, r"row of an update out of range[\s\S]*batch 0, entry 1: row 3, column 0 "),
        ({"batch_rows": ints(0, 0, -1)}, r"row of an update out of range[\s\S]*batch 2, entry 0: row -1"),
        ({"batch_columns": ints(0, 5, 0)}, r"column of an update out of range[\s\S]*columns 0 to 4"),
        ({"batch_values": floats(0, 0, np.inf)}, r"an update has NaN[\s\S]*batch 2, entry 0: row 2, column 4 "),
    ],
)
def test_updates_that_are_not_sound(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ReproError, match=said) as caught:
        replace(UPDATES, **changes).validate()
    assert "updates" in str(caught.value.where)


def moved(x: float, y: float) -> NDArray[np.float64]:
    """Return the vertices of the triangles with the third one elsewhere."""
    vertices = TRIANGLES.vertices.copy()
    vertices[3] = x, y
    return vertices


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"vertices": np.zeros((5, 4))}, r"vertices have the wrong shape[\s\S]*\(v, 2 or 3\)[\s\S]*\(5, 4\)"),
        ({"vertices": np.zeros(5)}, "vertices have the wrong shape"),
        ({"vertices": moved(0, 1).astype(np.float32)}, "vertices have the wrong dtype"),
        ({"vertices": np.zeros((5, 3))}, r"cells have the wrong[\s\S]*\(2, 4\)[\s\S]*\(2, 3\)"),
        ({"cells": np.array([[0, 1, 2], [0, 2, 3]])}, r"cells have the wrong[\s\S]*int32[\s\S]*int64"),
        ({"cells": np.empty((0, 3), np.int32), "modes": np.empty((0, 3))}, "the mesh has no cells"),
        ({"cells": np.array([[0, 1, 2], [0, 2, 5]], np.int32)}, r"do not exist[\s\S]*at cell 1 [\s\S]*vertices 0 to 4"),
        ({"cells": np.array([[-1, 1, 2], [0, 2, 3]], np.int32)}, r"do not exist[\s\S]*at cell 0 "),
        ({"degree": -1}, "the degree is negative"),
        ({"degree": 2}, r"modes have the wrong[\s\S]*\(2, 6\)[\s\S]*\(2, 3\)"),
        ({"modes": np.zeros((3, 3))}, r"modes have the wrong[\s\S]*\(2, 3\)[\s\S]*\(3, 3\)"),
        ({"basis": ""}, "the basis has no name"),
        ({"vertices": moved(0, np.nan)}, r"NaN or infinite coordinates[\s\S]*at vertex 3 "),
        ({"modes": np.array([[0, 0, 0], [0, np.inf, 0.0]])}, r"NaN or infinite modes[\s\S]*at cell 1 "),
        ({"vertices": moved(0.5, 0.5)}, r"degenerate cells[\s\S]*at cell 1 [\s\S]*1 of 2"),
        ({"cells": np.array([[0, 1, 2], [3, 2, 3]], np.int32)}, r"degenerate cells[\s\S]*at cell 1 "),
        ({"vertices": moved(1, 0)}, r"inverted cells[\s\S]*at cell 1 [\s\S]*1 of 2"),
    ],
)
def test_fields_that_are_not_sound(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ReproError, match=said) as caught:
        replace(TRIANGLES, **changes).validate()
    assert "triangles" in str(caught.value.where)


def test_an_inverted_tetrahedron() -> None:
    with pytest.raises(ReproError, match=r"inverted cells[\s\S]*at cell 0 "):
        replace(TETRAHEDRON, cells=np.array([[0, 2, 1, 3]], np.int32)).validate()
