"""The Helmholtz equation in the frequency domain with an absorbing boundary, as a complex matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from skfem import (
    Basis,
    BilinearForm,
    ElementTetP1,
    ElementTriP1,
    FacetBasis,
    MeshTet,
    MeshTri,
)
from skfem.helpers import dot, grad

from repro.errors import ReproError
from repro.problems.assembled import Assembled, Floats, Integers, Pattern


def assemble_helmholtz(
    vertices: Floats, elements: Integers, *, wavenumber: float | Floats, loss: float = 0.02
) -> Assembled:
    """Assemble time-harmonic waves in a lossy medium that leave through the boundary.

    The equation -Δu - k² (1 + i η) u = f with the first-order absorbing (impedance) condition ∂u/∂n = i k u, by
    linear (P1) elements::

        A_ij = ∫ ∇φ_i · ∇φ_j - k² (1 + i η) φ_i φ_j  -  i k ∮ φ_i φ_j

    The matrix is symmetric, not Hermitian.

    Parameters
    ----------
    vertices
        float64 `(v, 3)`, or `(v, 2)` for a plane domain.
    elements
        `(t, 4)` tetrahedra, or `(t, 3)` triangles in the plane. Every vertex belongs to one.
    wavenumber
        k = 2π over the wavelength, in units of an inverse length: one, or `(t,)` for each element its own. About ten
        edges a wavelength are resolved well.
    loss
        η, the loss factor of the medium.

    Returns
    -------
    Assembled
        Complex numbers (re, im), one row a vertex, on the vertex graph of the mesh.

    Raises
    ------
    ReproError
        The wavenumber is not positive, the loss is negative, or dimension and elements do not fit.
    """
    if not np.all(np.isfinite(wavenumber) & (np.asarray(wavenumber) > 0)):
        raise ReproError("the wavenumber is out of range", expected="a positive number", actual=wavenumber)
    if not (np.isfinite(loss) and loss >= 0):
        raise ReproError("the loss factor is out of range", expected="zero or more", actual=loss)
    arrays = np.ascontiguousarray(vertices.T), np.ascontiguousarray(elements.T)
    match (vertices.shape[1], elements.shape[1]):
        case (3, 4):
            mesh, element = MeshTet(*arrays), ElementTetP1()
        case (2, 3):
            mesh, element = MeshTri(*arrays), ElementTriP1()
        case shape:
            raise ReproError(
                "vertices and elements do not fit together",
                expected="tetrahedra in space or triangles in the plane",
                actual=f"{shape[0]} coordinates, {shape[1]} vertices an element",
            )
    interior, boundary = Basis(mesh, element), FacetBasis(mesh, element)
    stiffness, mass = (BilinearForm(form).coo_data(interior).tolocal() for form in (_stiffness, _mass))
    impedance = BilinearForm(_mass).coo_data(boundary).tolocal(boundary)
    k = wavenumber[:, None, None] if isinstance(wavenumber, np.ndarray) else wavenumber
    local = np.stack([stiffness - k**2 * mass, -(k**2) * loss * mass - k * impedance], axis=-1)
    pattern = Pattern.of(interior.element_dofs.T, len(vertices))
    return Assembled(pattern.n, pattern.indptr, pattern.indices, pattern.sum(local))


def _stiffness(trial: Any, test: Any, _: Any) -> Any:
    return dot(grad(trial), grad(test))


def _mass(trial: Any, test: Any, _: Any) -> Any:
    return trial * test
