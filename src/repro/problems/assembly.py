"""Assembly: matrices of compound entries from meshes, or folded from a scalar matrix.

The operators are linear elasticity on tetrahedra (3×3 blocks), the Dirac operator of a triangle mesh (quaternions;
Crane, Pinkall, Schröder: Spin Transformations of Discrete Surfaces, ACM Transactions on Graphics 30(4), 2011), and
the Helmholtz equation in the frequency domain with an absorbing boundary (complex numbers). A scalar matrix gets
compound entries by folding, and loses them by unfolding.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
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

from repro.casts import cast
from repro.entries import get_entry
from repro.errors import ReproError

Floats = NDArray[np.float64]
Integers = NDArray[np.signedinteger[Any]]


@dataclass(frozen=True)
class Assembled:
    """A sparse matrix with compound entries, before it has a name and an origin.

    Attributes
    ----------
    n
        Rows, counted in entries.
    indptr, indices
        int32 `(n + 1,)` and `(nnz,)`, columns sorted within each row.
    values
        float64 `(nnz, members)`, members in the entry's storage order.
    notes
        What a reader of the results should know about how the matrix came about, one sentence each.
    columns
        Columns, counted in entries; None: as many as rows.
    """

    n: int
    indptr: NDArray[np.int32]
    indices: NDArray[np.int32]
    values: Floats
    notes: tuple[str, ...] = ()
    columns: int | None = None


@dataclass(frozen=True)
class Pattern:
    """The vertex graph of a mesh with its diagonal: every pair of vertices that share an element.

    Entries stay in the pattern whether or not their values cancel to zero, so that the non-zero count is a
    property of the mesh alone.

    Attributes
    ----------
    n
        Vertices.
    indptr, indices
        int32 CSR arrays, columns sorted within each row.
    gather
        `(nnz, m k k)` matrix of ones that adds the k×k local matrices of m elements up. Contributions to an entry
        are added in the order of the elements, the same for (i, j) as for (j, i): local matrices that are exactly
        symmetric or Hermitian give a matrix that is.
    """

    n: int
    indptr: NDArray[np.int32]
    indices: NDArray[np.int32]
    gather: sp.csr_array

    @classmethod
    def of(cls, elements: Integers, n: int) -> Pattern:
        """Build the pattern of a mesh.

        Parameters
        ----------
        elements
            `(m, k)` vertex numbers, each from 0 to n - 1.
        n
            Vertices.

        Raises
        ------
        ReproError
            More entries than 32-bit indices can count.
        """
        k = elements.shape[1]
        if elements.size * k >= 2**31:
            raise ReproError(
                "the mesh is too large for 32-bit indices",
                expected=f"fewer than {2**31 // k**2} elements",
                actual=len(elements),
            )
        columns = elements.astype(np.int64)
        keys = (columns[:, :, None] * n + columns[:, None, :]).ravel()
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        first = np.flatnonzero(np.diff(keys, prepend=-1))
        starts = np.append(first, len(keys)).astype(np.int32)
        rows, indices = np.divmod(keys[first], n)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])
        gather = sp.csr_array((np.ones(len(keys)), order.astype(np.int32), starts), shape=(len(first), len(keys)))
        return cls(n, indptr.astype(np.int32), indices.astype(np.int32), gather)

    def sum(self, local: Floats) -> Floats:
        """Add local matrices up: `(m, k, k)` to `(nnz,)`, or `(m, k, k, members)` to `(nnz, members)`."""
        columns = self.gather.shape[1]
        total: Floats = self.gather @ local.reshape(columns, *local.shape[3:])
        return total


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


def assemble_dirac(vertices: Floats, faces: Integers, rho: ArrayLike | None = None, *, seed: int = 1) -> Assembled:
    """Assemble the squared Dirac operator (D - ρ)*(D - ρ) on the vertices.

    An entry is a sum over the faces that hold both vertices i and j::

        E_ij = Σ  -e_i e_j / (4 A) + ρ/6 (e_j - e_i) + A ρ² / 9

    with e_i the edge vector opposite vertex i as an imaginary quaternion, A the face's area and ρ its curvature
    potential. Each summand is A d_i* d_j with d_i = e_i / (2 A) + ρ / 3, so the operator is Hermitian and positive
    semidefinite; with ρ = 0 it annihilates constants, because the edges of a face sum to zero.

    Parameters
    ----------
    vertices
        float64 `(v, 3)`.
    faces
        `(f, 3)` vertex numbers. Every vertex belongs to a face and no face has zero area, as
        `repro.problems.meshes.read_surface` ensures.
    rho
        One number, or one a face `(f,)`, in units of an inverse length. None is `smooth_potential`.
    seed
        Seeds `smooth_potential`.

    Returns
    -------
    Assembled
        Quaternions (w, x, y, z), one row a vertex, on the vertex graph of the mesh.

    Raises
    ------
    ReproError
        `rho` has another shape or is not finite.
    """
    corners = vertices[faces]
    # edges[:, i] runs opposite corner i, from corner i + 1 to corner i + 2
    edges = np.roll(corners, -2, axis=1) - np.roll(corners, -1, axis=1)
    area = np.linalg.norm(np.cross(edges[:, 0], edges[:, 1]), axis=1) / 2
    density = smooth_potential(vertices, faces, seed) if rho is None else _per_face(rho, len(faces))

    local = np.empty((len(faces), 3, 3, 4))
    for i in range(3):
        for j in range(3):
            # for imaginary quaternions a b = -<a, b> + a × b
            a, b = edges[:, i], edges[:, j]
            dot = np.einsum("fk,fk->f", a, b)
            local[:, i, j, 0] = dot / (4 * area) + area * density**2 / 9
            local[:, i, j, 1:] = (density / 6)[:, None] * (b - a) - np.cross(a, b) / (4 * area)[:, None]
    pattern = Pattern.of(faces, len(vertices))
    return Assembled(pattern.n, pattern.indptr, pattern.indices, pattern.sum(local))


def smooth_potential(vertices: Floats, faces: Integers, seed: int = 1) -> Floats:
    """Return a smooth field over the face centroids, the sum of a few seeded plane waves.

    The wavelengths are of the size of the surface's bounding box, and the amplitude is its inverse: neither the
    resolution nor the units of the mesh change the relative weight of the three terms on a given shape.

    Returns
    -------
    float64 `(f,)`, in units of an inverse length.
    """
    rng = np.random.default_rng(seed)
    waves = 8
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    size = float(np.linalg.norm(high - low))
    centroids = (vertices[faces].mean(axis=1) - low) / size
    directions = rng.normal(scale=2 * np.pi, size=(3, waves))
    phases = rng.uniform(0, 2 * np.pi, waves)
    field: Floats = np.cos(centroids @ directions + phases).sum(axis=1) / (np.sqrt(waves) * size)
    return field


def _per_face(rho: ArrayLike, count: int) -> Floats:
    given = np.asarray(rho, dtype=np.float64)
    if given.shape not in ((), (count,)):
        raise ReproError(
            "rho does not fit the mesh", expected=f"one number, or one a face ({count})", actual=given.shape
        )
    if not np.isfinite(given).all():
        raise ReproError("rho is not finite", expected="finite numbers")
    return np.broadcast_to(given, (count,))


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


def fold(matrix: sp.csr_array, entry: str, where: object, tolerance: float = 0.0) -> Assembled:
    """Turn a scalar matrix into one with the given entry.

    A real kn×km matrix becomes n×m entries of size k where every k×k block is the expansion of one: a 3n×3m matrix
    n×m blocks, and a 4n×4m matrix n×m quaternions where every 4×4 block has the form of eq. 1 of Mueller-Roemer et al.
    2020. Real and complex matrices stay what they are. A matrix of ones has the entry `pattern`.

    Parameters
    ----------
    matrix
        float64 or complex128, columns sorted.
    entry
        Name of the entry.
    where
        What to name in errors.
    tolerance
        How far a block may be from the expansion of its entry, relative to the block's largest value.

    Raises
    ------
    ReproError
        The values are of another kind, the size is no multiple of the block's, or a block is no such entry.
    """
    is_complex = bool(np.iscomplexobj(matrix.data))
    if is_complex != (entry == "complex"):
        raise ReproError(
            "the matrix does not fit the entry",
            where=where,
            expected="complex values" if entry == "complex" else f"real values for the entry {entry}",
            actual="complex values" if is_complex else "real values",
            todo="give the problem another `entry:`",
        )
    indptr, indices, data = matrix.indptr, matrix.indices, matrix.data
    notes: tuple[str, ...] = ()
    n, columns = matrix.shape
    if entry == "complex":
        values = np.stack([data.real, data.imag], axis=1)
    elif entry == "real":
        values = data.reshape(-1, 1)
    elif entry == "pattern":
        values = _no_values(data, where)
    else:
        k = get_entry(entry).size
        blocks = _blocks(matrix, k, entry, where)
        n, columns = n // k, columns // k
        indptr, indices = blocks.indptr, blocks.indices
        values = _members(blocks, entry, where, tolerance)
        filled = matrix.nnz / max(blocks.data.size, 1)
        size = "{} x {}".format(*matrix.shape)
        notes = (f"folded from a real {size} matrix; {filled:.1%} of the blocks' values are non-zeros",)
    offsets, places = (cast(array, np.int32, str(where)) for array in (indptr, indices))
    values = np.ascontiguousarray(values, np.float64)
    return Assembled(n, offsets, places, values, notes, None if columns == n else columns)


def unfold(assembled: Assembled, entry: str) -> Assembled:
    """Turn a matrix with compound entries into a real one of k×k as many, its entries written out as k×k blocks.

    Zeros within the blocks are left out, as the SuiteSparse collection does.
    """
    k = get_entry(entry).size
    shape = (k * assembled.n, k * (assembled.n if assembled.columns is None else assembled.columns))
    if len(assembled.indices) * k**2 >= 2**31:
        raise ReproError(
            "the matrix written out is too large for 32-bit indices",
            expected=f"fewer than {2**31 // k**2} entries of {entry}",
            actual=len(assembled.indices),
        )
    blocks = get_entry(entry).expand(assembled.values)
    matrix = sp.csr_array(sp.bsr_array((blocks, assembled.indices, assembled.indptr), shape=shape))
    matrix.eliminate_zeros()
    matrix.sort_indices()
    indptr, indices = (cast(array, np.int32, "the matrix written out") for array in (matrix.indptr, matrix.indices))
    columns = None if assembled.columns is None else shape[1]
    return Assembled(shape[0], indptr, indices, matrix.data[:, None], assembled.notes, columns)


def _no_values(
    data: np.ndarray[tuple[int], np.dtype[np.float64]], where: object
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    others = np.flatnonzero(data != 1)
    if others.size:
        raise ReproError(
            "the matrix is no pattern",
            where=where,
            expected="ones alone for the entry pattern",
            actual=f"{others.size} of {len(data)} values are others, the first {data[others[0]]:g}",
            todo="give the problem `entry: real`",
        )
    return np.empty((len(data), 0))


def _blocks(matrix: sp.csr_array, k: int, entry: str, where: object) -> sp.bsr_array:
    for count, what in zip(matrix.shape, ("rows", "columns"), strict=True):
        if count % k:
            raise ReproError(
                f"the matrix cannot be folded into {k} x {k} blocks",
                where=where,
                expected=f"a multiple of {k} {what} for the entry {entry}",
                actual=f"{count} {what}",
                todo="give the problem `entry: real`",
            )
    blocks = sp.bsr_array(matrix, blocksize=(k, k))
    blocks.sort_indices()
    return blocks


def _members(
    blocks: sp.bsr_array, name: str, where: object, tolerance: float
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return the entries that the blocks are expansions of, `(nnz, members)`, after checking that they are."""
    entry = get_entry(name)
    data = np.asarray(blocks.data, dtype=np.float64)
    # which member stands where in a block, and with which factor: (members, k, k)
    form = entry.expand(np.eye(len(entry.members)))
    bare = (form == 1) & (np.count_nonzero(form, axis=0) == 1)
    # for each member the first place, down the columns, where it stands alone
    place = bare.transpose(0, 2, 1).reshape(len(form), -1).argmax(axis=1)
    members = np.ascontiguousarray(data.transpose(0, 2, 1).reshape(len(data), entry.size**2)[:, place])
    excess = np.abs(data - entry.expand(members)).max(axis=(1, 2))
    bad = np.flatnonzero(excess > tolerance * np.abs(data).max(axis=(1, 2)))
    if bad.size:
        row = int(np.searchsorted(blocks.indptr, bad[0], side="right")) - 1
        raise ReproError(
            f"the matrix is no {name} matrix",
            where=f"{where}, first at block row {row}, block column {blocks.indices[bad[0]]} (counted from 0)",
            expected=f"{entry.size} x {entry.size} blocks {_spell(form, entry.members)}",
            actual=f"{bad.size} of {len(data)} blocks of another form, the first {data[bad[0]].tolist()}",
            todo="give the problem `entry: real`",
        )
    return members


def _spell(form: np.ndarray[tuple[int, ...], np.dtype[np.float64]], members: tuple[str, ...]) -> str:
    """Write a block's form as text, rows parted by strokes: w -x -y -z / x w -z y / y z w -x / z -y x w."""
    signs = {1.0: "", -1.0: "-"}

    def place(factors: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> str:
        terms = [f"{signs.get(f, f'{f:g}')}{member}" for f, member in zip(factors, members, strict=True) if f]
        return "+".join(terms) or "0"

    return " / ".join(" ".join(map(place, row)) for row in form.transpose(1, 2, 0))
