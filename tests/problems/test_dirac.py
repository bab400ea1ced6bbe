"""The quaternionic Dirac operator: its algebra, its spectrum and the papers' sizes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from repro.entries import get_entry
from repro.errors import ReproError
from repro.problems.assembly import Assembled, assemble_dirac, smooth_potential
from repro.problems.generators import blob
from repro.problems.meshes import read_surface

VERTICES, FACES = blob(60)
RHO = np.linspace(-2, 3, len(FACES))


def real_matrix(matrix: Assembled) -> np.ndarray:
    blocks = get_entry("quaternion").expand(matrix.values)
    return sp.bsr_array((blocks, matrix.indices, matrix.indptr)).toarray()


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    (p, *u), (q, *v) = a, b
    u, v = np.array(u), np.array(v)
    return np.array([p * q - u @ v, *(p * v + q * u + np.cross(u, v))])


def naive(vertices: np.ndarray, faces: np.ndarray, rho: np.ndarray) -> np.ndarray:
    """Sum the three terms face by face, quaternion by quaternion."""
    total = np.zeros((len(vertices), len(vertices), 4))
    one = np.array([1.0, 0, 0, 0])
    for face, density in zip(faces, rho, strict=True):
        p = vertices[face]
        e = [np.array([0, *(p[(k + 2) % 3] - p[(k + 1) % 3])]) for k in range(3)]
        area = np.linalg.norm(np.cross(p[1] - p[0], p[2] - p[0])) / 2
        for i in range(3):
            for j in range(3):
                total[face[i], face[j]] += (
                    -multiply(e[i], e[j]) / (4 * area) + density / 6 * (e[j] - e[i]) + area * density**2 / 9 * one
                )
    return total


def test_equals_the_sum_over_faces_one_by_one() -> None:
    matrix = assemble_dirac(VERTICES, FACES, RHO)
    expected = naive(VERTICES, FACES, RHO)
    rows = np.repeat(np.arange(matrix.n), np.diff(matrix.indptr))
    np.testing.assert_allclose(matrix.values, expected[rows, matrix.indices], atol=1e-12)
    assert len(matrix.indices) == np.count_nonzero(np.abs(expected).any(axis=2))


def test_pattern_is_the_vertex_graph_with_the_diagonal() -> None:
    matrix = assemble_dirac(VERTICES, FACES)
    pairs = {(a, b) for face in FACES.tolist() for a in face for b in face}
    rows = np.repeat(np.arange(matrix.n), np.diff(matrix.indptr)).tolist()
    assert list(zip(rows, matrix.indices.tolist(), strict=True)) == sorted(pairs)
    assert matrix.indptr.dtype == matrix.indices.dtype == np.int32


def test_entries_that_cancel_stay_in_the_pattern() -> None:
    square = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], dtype=float)
    matrix = assemble_dirac(square, np.array([[0, 1, 2], [0, 2, 3]]), 0)
    # the diagonal edge: right angles opposite it, and the imaginary parts of its two faces cancel
    diagonal = matrix.values[matrix.indptr[0] : matrix.indptr[1]][matrix.indices[: matrix.indptr[1]] == 2]
    np.testing.assert_array_equal(diagonal, np.zeros((1, 4)))
    assert len(matrix.indices) == 14


@pytest.mark.parametrize("rho", [0, RHO, None])
def test_exactly_hermitian(rho: object) -> None:
    dense = real_matrix(assemble_dirac(VERTICES, FACES, rho))
    np.testing.assert_array_equal(dense, dense.T)


def test_annihilates_constants_without_potential() -> None:
    dense = real_matrix(assemble_dirac(VERTICES, FACES, 0))
    constants = np.tile(np.eye(4), (len(VERTICES), 1))
    assert np.abs(dense @ constants).max() < 1e-12 * np.abs(dense).max()


@pytest.mark.parametrize(("rho", "kernel"), [(0, 4), (RHO, 0)])
def test_positive_semidefinite(rho: object, kernel: int) -> None:
    spectrum = np.linalg.eigvalsh(real_matrix(assemble_dirac(VERTICES, FACES, rho)))
    assert spectrum[0] > -1e-12 * spectrum[-1]
    assert (spectrum < 1e-10 * spectrum[-1]).sum() == kernel


def test_potential_is_smooth_seeded_and_free_of_units() -> None:
    field = smooth_potential(VERTICES, FACES, seed=1)
    np.testing.assert_array_equal(field, smooth_potential(VERTICES, FACES, seed=1))
    assert not np.allclose(field, smooth_potential(VERTICES, FACES, seed=2))
    np.testing.assert_allclose(smooth_potential(10 * VERTICES, FACES), field / 10)
    vertices, faces = blob(4000)
    fine = smooth_potential(vertices, faces)
    shared = {}
    jumps = []
    for number, face in enumerate(np.sort(faces, axis=1).tolist()):
        for edge in ((face[0], face[1]), (face[0], face[2]), (face[1], face[2])):
            if edge in shared:
                jumps.append(fine[number] - fine[shared[edge]])
            shared[edge] = number
    assert np.abs(jumps).max() < 0.1 * np.ptp(fine)


@pytest.mark.parametrize("rho", [np.zeros(3), [np.nan] * len(FACES)])
def test_refuses_a_potential_that_does_not_fit(rho: object) -> None:
    with pytest.raises(ReproError, match="rho"):
        assemble_dirac(VERTICES, FACES, rho)


@pytest.mark.medium
@pytest.mark.mirror
@pytest.mark.skipif("REPRO_MIRROR" not in os.environ, reason="REPRO_MIRROR is not set")
@pytest.mark.parametrize(
    ("name", "rows", "nonzeros"),
    [
        ("bun_zipper.ply.gz", 34_834, 243_410),
        pytest.param("dragon_dithered.ply.xz", 435_545, 3_049_463, marks=pytest.mark.slow),
    ],
)
def test_published_sizes(name: str, rows: int, nonzeros: int) -> None:
    vertices, faces, _ = read_surface(Path(os.environ["REPRO_MIRROR"], "stanford", name))
    matrix = assemble_dirac(vertices, faces)
    assert (matrix.n, len(matrix.indices)) == (rows, nonzeros)
    assert np.isfinite(matrix.values).all()
