"""Linear elasticity on a tetrahedral mesh, as a matrix of 3×3 blocks."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from skfem import Basis, BilinearForm, ElementTetP1, MeshTet

from repro.errors import ReproError
from repro.problems.assembled import Assembled, Floats, Integers, Pattern


def assemble_elasticity(
    vertices: Floats, tetrahedra: Integers, *, young: float | Floats = 1.0, poisson: float = 0.3
) -> Assembled:
    """Assemble the stiffness matrix of an isotropic, linearly elastic body with a free boundary.

    Linear (P1) elements, one 3×3 block for each pair of vertices that share a tetrahedron::

        (K_ij)_ab = ∫ λ ∂_a φ_i ∂_b φ_j + μ ∂_b φ_i ∂_a φ_j + δ_ab μ ∇φ_i · ∇φ_j

    Scalar forms are assembled, one for each (a, b), rather than the 3n×3n matrix: they give the blocks directly,
    in a sixteenth of the memory. No displacement is prescribed, so the null space is that of the six rigid motions.

    Parameters
    ----------
    vertices
        float64 `(v, 3)`.
    tetrahedra
        `(t, 4)` vertex numbers, none degenerate. Every vertex belongs to one.
    young
        Young's modulus E, in units of pressure: one, or `(t,)` for each tetrahedron its own.
    poisson
        Poisson's ratio ν, above -1 and below 1/2.

    Returns
    -------
    Assembled
        3×3 blocks in row-major order, one row a vertex.

    Raises
    ------
    ReproError
        The material is none: E not positive, or ν outside its range.
    """
    if not np.all(np.isfinite(young) & (np.asarray(young) > 0)):
        raise ReproError("Young's modulus is out of range", expected="a positive number", actual=young)
    if not -1 < poisson < 0.5:
        raise ReproError("Poisson's ratio is out of range", expected="above -1 and below 0.5", actual=poisson)
    # a field of moduli weights the elements' local matrices, one modulus their sum
    field = young[:, None, None] if isinstance(young, np.ndarray) else None
    common = 1.0 if isinstance(young, np.ndarray) else young
    lame = common * poisson / ((1 + poisson) * (1 - 2 * poisson))
    shear = common / (2 * (1 + poisson))

    # gradients of linear elements are constant: one quadrature point is exact
    mesh = MeshTet(np.ascontiguousarray(vertices.T), np.ascontiguousarray(tetrahedra.T))
    basis = Basis(mesh, ElementTetP1(), intorder=0)
    pattern = Pattern.of(basis.element_dofs.T, len(vertices))
    gradients = np.empty((len(pattern.indices), 3, 3))
    for a in range(3):
        for b in range(3):
            form = BilinearForm(partial(_product, a=a, b=b))
            # scikit-fem's local matrices have the trial function first
            local = form.coo_data(basis).tolocal().swapaxes(1, 2)
            gradients[:, a, b] = pattern.sum(local if field is None else field * local)
    blocks = lame * gradients + shear * gradients.swapaxes(1, 2)
    blocks += shear * np.trace(gradients, axis1=1, axis2=2)[:, None, None] * np.eye(3)
    return Assembled(pattern.n, pattern.indptr, pattern.indices, blocks.reshape(-1, 9))


def _product(trial: Any, test: Any, _: Any, *, a: int, b: int) -> Any:
    return test.grad[a] * trial.grad[b]
