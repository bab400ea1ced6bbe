"""Clustered layouts store rows in another order and leave vectors alone: to an operator they are in natural order."""

import numpy as np
import pytest

import repro
from repro.entries import entries
from repro.problems.generators import KINDS, generate
from repro.problems.matrix import Matrix

pytestmark = pytest.mark.medium

DEVICE = "opencl:0"
VARIANTS = [
    "Sl-8-AoSoA-Padded@clustered/chunk-64-3-w4-u2",
    "Sl-4-AoSoA-SoA@clustered/direct-64-3-w2",
    "CSR-AoSoA-AoS@clustered/dynamic-32-2",
]


@pytest.fixture(scope="module")
def mesh():
    """Elasticity of a box: enough rows for several clusters."""
    made = generate("elasticity_box", cells=(5, 6, 7))
    return Matrix("box", KINDS["elasticity_box"].entry, made.n, made.indptr, made.indices, made.values)


@pytest.mark.parametrize("tuned", VARIANTS)
@pytest.mark.parametrize("entry", sorted(entries()))
def test_a_clustered_product_is_scipys(small_problem, as_scipy, entry, tuned):
    matrix = as_scipy(small_problem(entry))
    x = np.random.default_rng(1).uniform(-1, 1, matrix.shape[1]).astype(matrix.dtype)
    np.testing.assert_allclose(repro.operator(matrix, tuned, device=DEVICE) @ x, matrix @ x, atol=1e-12)


@pytest.mark.parametrize("tuned", VARIANTS)
def test_of_a_mesh_too(mesh, as_scipy, tuned):
    matrix = as_scipy(mesh)
    x = np.random.default_rng(1).uniform(-1, 1, matrix.shape[1])
    A = repro.operator(matrix, tuned, device=DEVICE)
    np.testing.assert_allclose(A @ x, matrix @ x, atol=1e-12)
    np.testing.assert_allclose(A.vectors.get(A @ A.vectors.put(x)), matrix @ x, atol=1e-12)


def test_a_users_vectors_are_taken_where_they_lie(mesh, as_scipy):
    """Of a renumbered matrix they would be copied to another order first."""
    matrix = as_scipy(mesh)
    clustered = repro.operator(matrix, VARIANTS[2], device=DEVICE)
    natural = repro.operator(matrix, VARIANTS[2].replace("@clustered", ""), device=DEVICE)
    x = np.random.default_rng(2).uniform(-1, 1, matrix.shape[1])
    np.testing.assert_allclose((clustered @ natural.vectors.put(x)).get(), matrix @ x, atol=1e-12)
    assert clustered.nbytes == natural.nbytes + 4 * mesh.n
