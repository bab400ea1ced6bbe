"""Helmholtz with an absorbing boundary: against scikit-fem's matrices and against a plane wave."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from skfem import Basis, ElementTetP1, ElementTriP1, FacetBasis, MeshTet, MeshTri
from skfem.models.poisson import laplace, mass

from repro.errors import ReproError
from repro.problems.assembly import Assembled, assemble_helmholtz
from repro.problems.generators import disk, horn_vertices, lattice_box

CELLS = (3, 2, 4)


def complex_matrix(matrix: Assembled) -> sp.csr_array:
    values = matrix.values[:, 0] + 1j * matrix.values[:, 1]
    return sp.csr_array((values, matrix.indices, matrix.indptr))


def space() -> tuple[np.ndarray, np.ndarray]:
    lattice, tets = lattice_box(CELLS)
    return horn_vertices(lattice, CELLS), tets


@pytest.mark.parametrize(("shape", "kinds"), [(space(), (MeshTet, ElementTetP1)), (disk(2), (MeshTri, ElementTriP1))])
def test_equals_the_sum_of_its_terms(shape, kinds) -> None:
    (vertices, elements), (mesh_kind, element) = shape, kinds
    mesh = mesh_kind(vertices.T.copy(), elements.T.copy())
    interior, boundary = Basis(mesh, element()), FacetBasis(mesh, element())
    k, loss = 3.0, 0.1
    expected = (
        laplace.assemble(interior) - k**2 * (1 + 1j * loss) * mass.assemble(interior) - 1j * k * mass.assemble(boundary)
    ).toarray()
    found = complex_matrix(assemble_helmholtz(vertices, elements, wavenumber=k, loss=loss)).toarray()
    np.testing.assert_allclose(found, expected, atol=1e-13 * np.abs(expected).max())


def test_symmetric_and_not_hermitian_on_the_vertex_graph() -> None:
    vertices, tets = space()
    matrix = assemble_helmholtz(vertices, tets, wavenumber=2.0)
    dense = complex_matrix(matrix).toarray()
    np.testing.assert_array_equal(dense, dense.T)
    assert np.abs(dense - dense.conj().T).max() > 1e-3 * np.abs(dense).max()
    assert len(matrix.indices) == len({(a, b) for tet in tets.tolist() for a in tet for b in tet})


def test_a_radiating_boundary_lets_a_plane_wave_pass() -> None:
    """A duct driven at one end: the amplitude is the same everywhere, where a reflection would make it vary."""
    cells = (120, 2, 2)
    lattice, tets = lattice_box(cells)
    vertices = lattice / 40
    matrix = complex_matrix(assemble_helmholtz(vertices, tets, wavenumber=2 * np.pi, loss=0.0))
    # the duct's walls do not absorb: remove their share of the boundary term
    mesh = MeshTet(vertices.T.copy(), tets.T.copy())
    walls = mesh.facets_satisfying(lambda x: np.any(np.isclose(x[1:], 0) | np.isclose(x[1:], 0.05), axis=0))
    matrix = matrix + 2j * np.pi * mass.assemble(FacetBasis(mesh, ElementTetP1(), facets=walls))
    load = np.zeros(len(vertices), dtype=complex)
    driven = mesh.facets_satisfying(lambda x: np.isclose(x[0], 0))
    load += mass.assemble(FacetBasis(mesh, ElementTetP1(), facets=driven)) @ np.ones(len(vertices))
    amplitude = np.abs(sp.linalg.spsolve(matrix.tocsc(), load))
    assert np.ptp(amplitude) < 0.02 * amplitude.mean()


@pytest.mark.parametrize("values", [{"wavenumber": 0.0}, {"wavenumber": np.nan}, {"wavenumber": 1.0, "loss": -1.0}])
def test_refuses_values_out_of_range(values: dict[str, float]) -> None:
    with pytest.raises(ReproError, match="out of range"):
        assemble_helmholtz(*space(), **values)


@pytest.mark.wording
def test_refuses_a_surface_in_space() -> None:
    vertices, tets = space()
    with pytest.raises(ReproError, match=r"(?s)do not match.*3 coordinates, 3 vertices"):
        assemble_helmholtz(vertices, tets[:, :3], wavenumber=1.0)
