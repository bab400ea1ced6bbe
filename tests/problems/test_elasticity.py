"""Linear elasticity: against scikit-fem's vector element, the rigid motions and the material's limits."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from skfem import Basis, ElementTetP1, ElementVector, MeshTet, asm
from skfem.models.elasticity import lame_parameters, linear_elasticity

from repro.entries import get_entry
from repro.errors import ReproError
from repro.problems.assembly import Assembled, assemble_elasticity
from repro.problems.generators import horn_vertices, lattice_box

CELLS = (3, 2, 4)
LATTICE, TETS = lattice_box(CELLS)
VERTICES = horn_vertices(LATTICE, CELLS)


def real_matrix(matrix: Assembled) -> np.ndarray:
    blocks = get_entry("block3").expand(matrix.values)
    return sp.bsr_array((blocks, matrix.indices, matrix.indptr)).toarray()


def test_equals_the_vector_element() -> None:
    basis = Basis(MeshTet(VERTICES.T.copy(), TETS.T.copy()), ElementVector(ElementTetP1()))
    expected = asm(linear_elasticity(*lame_parameters(7.0, 0.2)), basis).toarray()
    found = real_matrix(assemble_elasticity(VERTICES, TETS, young=7.0, poisson=0.2))
    np.testing.assert_allclose(found, expected, atol=1e-12 * np.abs(expected).max())


def test_pattern_is_the_vertex_graph() -> None:
    matrix = assemble_elasticity(VERTICES, TETS)
    pairs = {(a, b) for tet in TETS.tolist() for a in tet for b in tet}
    rows = np.repeat(np.arange(matrix.n), np.diff(matrix.indptr)).tolist()
    assert list(zip(rows, matrix.indices.tolist(), strict=True)) == sorted(pairs)
    assert matrix.values.shape == (len(pairs), 9)


def test_symmetric_and_the_null_space_is_the_rigid_motions() -> None:
    dense = real_matrix(assemble_elasticity(VERTICES, TETS, young=2.0, poisson=0.4))
    scale = np.abs(dense).max()
    np.testing.assert_array_equal(dense, dense.T)
    shifts = np.tile(np.eye(3), (len(VERTICES), 1))
    turns = np.stack([np.cross(axis, VERTICES).ravel() for axis in np.eye(3)], axis=1)
    assert np.abs(dense @ np.hstack([shifts, turns])).max() < 1e-12 * scale
    spectrum = np.linalg.eigvalsh(dense)
    assert spectrum[0] > -1e-12 * scale
    assert (spectrum < 1e-9 * scale).sum() == 6


def test_energy_of_a_uniform_stretch() -> None:
    vertices, tets = lattice_box((2, 2, 2))
    young, poisson, strain = 3.0, 0.25, 1e-3
    stretch = np.zeros_like(vertices)
    stretch[:, 2] = strain * vertices[:, 2]
    energy = stretch.ravel() @ real_matrix(assemble_elasticity(vertices, tets, young=young, poisson=poisson))
    # confined stretch: stress is E (1 - ν) / ((1 + ν) (1 - 2 ν)) times the strain, over a volume of 8
    modulus = young * (1 - poisson) / ((1 + poisson) * (1 - 2 * poisson))
    assert energy @ stretch.ravel() == pytest.approx(8 * modulus * strain**2, rel=1e-12)


@pytest.mark.parametrize(
    "material", [{"young": 0}, {"young": np.inf}, {"young": np.nan}, {"poisson": 0.5}, {"poisson": -1.0}]
)
def test_refuses_impossible_materials(material: dict[str, float]) -> None:
    with pytest.raises(ReproError, match="out of range"):
        assemble_elasticity(VERTICES, TETS, **material)
