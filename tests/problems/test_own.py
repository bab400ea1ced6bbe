from __future__ import annotations

import gzip
from pathlib import Path

import meshio
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from repro.errors import ReproError
from repro.problems.own_problems import assemble_own

CORNERS = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=float)
FACES = np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]])


@pytest.fixture
def surface(tmp_path: Path) -> Path:
    path = tmp_path / "tetrahedron.ply"
    meshio.write_points_cells(path, CORNERS, [("triangle", FACES)])
    return path


@pytest.fixture
def solid(tmp_path: Path) -> Path:
    path = tmp_path / "tetrahedron.vtk"
    meshio.write_points_cells(path, CORNERS, [("tetra", np.array([[0, 1, 2, 3]]))])
    return path


def matrix(tmp_path: Path, values: np.ndarray, name: str = "mine.mtx") -> Path:
    path = tmp_path / "mine.mtx"
    scipy.io.mmwrite(path, sp.coo_array(values))
    if name.endswith(".gz"):
        (tmp_path / name).write_bytes(gzip.compress(path.read_bytes()))
    return tmp_path / name


@pytest.mark.parametrize("name", ["mine.mtx", "mine.mtx.gz"])
@pytest.mark.parametrize(("dtype", "entry"), [(float, "real"), (complex, "complex")])
def test_a_matrix_says_itself_what_its_entries_are(tmp_path: Path, name: str, dtype: type, entry: str) -> None:
    found, assembled, origin = assemble_own(matrix(tmp_path, 2 * np.eye(5, dtype=dtype), name), None)
    assert found == entry
    assert (assembled.n, assembled.values[0, 0]) == (5, 2)
    assert origin["counts"]["nonzeros"] == 5
    assert len(origin["checksum"]["sha256"]) == 64


def test_a_file_without_values_is_a_pattern_and_has_no_entry_twice(tmp_path: Path) -> None:
    path = tmp_path / "graph.mtx"
    path.write_text("%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 3\n")
    entry, assembled, origin = assemble_own(path, None)
    assert (entry, assembled.values.shape, origin["counts"]["stored"]) == ("pattern", (3, 0), 2)
    assert assemble_own(path, "real")[1].values.tolist() == [[1], [1], [1]]
    path.write_text("%%MatrixMarket matrix coordinate pattern general\n3 3 3\n2 1\n2 1\n3 3\n")
    assert assemble_own(path, "real")[1].values.ravel().tolist() == [2, 1]
    for entry in (None, "pattern"):
        with pytest.raises(ReproError, match=r"entry of a pattern occurs twice.*\n.*line 4[\s\S]*entry: real"):
            assemble_own(path, entry)


def test_entries_that_come_twice_are_added_up_and_said(tmp_path: Path) -> None:
    path = tmp_path / "twice.mtx"
    path.write_text("%%MatrixMarket matrix coordinate real general\n2 2 4\n1 1 1\n1 1 2\n2 2 0\n2 1 4\n")
    _, assembled, origin = assemble_own(path, None)
    assert assembled.notes == ("1 explicit zeros dropped", "1 duplicate entries added up")
    assert (assembled.values.ravel().tolist(), origin["counts"]["duplicates"]) == ([3, 4], 1)


def test_a_matrix_is_folded_when_the_entry_asks_for_it(tmp_path: Path) -> None:
    entry, assembled, _ = assemble_own(matrix(tmp_path, np.kron(np.eye(2), np.arange(1.0, 10).reshape(3, 3))), "block3")
    assert (entry, assembled.n) == ("block3", 2)
    assert assembled.values[1].tolist() == list(range(1, 10))
    with pytest.raises(ReproError, match="4 x 4 blocks"):
        assemble_own(tmp_path / "mine.mtx", "quaternion")


@pytest.mark.parametrize(
    ("shape", "entry", "size"), [((6, 9), "block3", (2, 3)), ((2, 5), None, (2, 5)), ((0, 0), None, (0, None))]
)
def test_a_matrix_may_be_rectangular_or_empty(
    tmp_path: Path, shape: tuple[int, int], entry: str | None, size: tuple[int, int | None]
) -> None:
    _, assembled, origin = assemble_own(matrix(tmp_path, np.ones(shape)), entry)
    assert (assembled.n, assembled.columns) == size
    assert origin["counts"]["nonzeros"] == np.prod(shape)


def test_a_surface_becomes_a_dirac_operator(surface: Path) -> None:
    entry, assembled, origin = assemble_own(surface, "quaternion")
    assert (entry, assembled.n, assembled.values.shape) == ("quaternion", 4, (16, 4))
    assert origin["counts"] == {"vertices": 4, "cells": 4}
    other = assemble_own(surface, "quaternion", seed=2)[1]
    assert not np.array_equal(other.values, assembled.values)


def test_tetrahedra_become_elasticity(solid: Path) -> None:
    entry, assembled, _ = assemble_own(solid, "block3")
    assert (entry, assembled.n, assembled.values.shape) == ("block3", 4, (16, 9))


@pytest.mark.wording
@pytest.mark.parametrize("entry", [None, "real", "complex"])
def test_a_mesh_needs_an_entry_that_fits(surface: Path, entry: str | None) -> None:
    with pytest.raises(ReproError, match=r"a mesh needs an entry[\s\S]*quaternion"):
        assemble_own(surface, entry)


@pytest.mark.wording
def test_a_surface_has_no_tetrahedra(surface: Path) -> None:
    with pytest.raises(ReproError, match="the mesh has no tetrahedra"):
        assemble_own(surface, "block3")


@pytest.mark.parametrize(("name", "said"), [("none.mtx", "no such file"), ("notes.txt", "unknown type of file")])
def test_files_that_do_not_do(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(ReproError, match=said):
        assemble_own(tmp_path / name, "real")
