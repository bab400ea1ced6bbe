"""Assembles matrices with compound entries from meshes, or by folding a scalar matrix.

The operators are linear elasticity on tetrahedra (3×3 blocks), the Dirac operator of a triangle mesh (quaternions;
Crane, Pinkall, Schröder: Spin Transformations of Discrete Surfaces, ACM Transactions on Graphics 30(4), 2011), and the
Helmholtz equation with an absorbing boundary (complex numbers). For an elastic body, functions find the fixed vertices
of its mesh and the rigid motions that remain possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from repro.entries import get_entry
from repro.errors import ReproError
from repro.exact_casts import cast
from repro.problems.files import check_entry

if TYPE_CHECKING:
    from repro.config.models import Fixed

Floats = NDArray[np.float64]
Integers = NDArray[np.signedinteger[Any]]


#: Area divided by the squared longest edge, or volume divided by the cubed one, that counts as 0 because of rounding.
DEGENERATE = 1e-12


def longest_edges(corners: Floats) -> Floats:
    """Return the length of the longest edge `(c,)` of each cell; corners are `(c, k, d)`."""
    lengths = np.zeros(len(corners))
    for i in range(corners.shape[1]):
        for j in range(i):
            np.maximum(lengths, np.linalg.norm(corners[:, i] - corners[:, j], axis=1), out=lengths)
    return lengths


@dataclass(frozen=True)
class Assembled:
    """A sparse matrix with compound entries in CSR format, without name and origin."""

    #: Number of rows, counted in entries.
    n: int
    #: `(n + 1,)`
    indptr: NDArray[np.int32]
    #: `(nnz,)`, sorted within each row.
    indices: NDArray[np.int32]
    #: `(nnz, members)`; the members of an entry are in storage order.
    values: Floats
    #: Sentences that explain to readers of the results how the matrix was made.
    notes: tuple[str, ...] = ()
    #: Number of columns, counted in entries; None if it equals the number of rows.
    columns: int | None = None
    #: Whether the real expansion is symmetric and positive semidefinite by construction; False: nothing is known.
    semidefinite: bool = False


@dataclass(frozen=True)
class Pattern:
    """Sparsity pattern of a mesh: the diagonal and all pairs of vertices that share an element.

    Entries whose values sum to zero are kept, so that the number of non-zeros depends only on the mesh.
    """

    #: Number of vertices.
    n: int
    indptr: NDArray[np.int32]
    indices: NDArray[np.int32]
    #: `(nnz, m k k)` matrix of ones that sums the k×k local matrices of m elements. Contributions to (i, j) and (j, i)
    #: are added in equal order, so symmetric or Hermitian local matrices give an exactly symmetric or Hermitian matrix.
    gather: sp.csr_array

    @classmethod
    def of(cls, elements: Integers, n: int) -> Pattern:
        """Build the pattern of elements `(m, k)` on n vertices; raise `ReproError` for too many entries for int32."""
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
        """Sum local matrices `(m, k, k)` to values `(nnz,)`, or local matrices `(m, k, k, members)` to values `(nnz,
        members)`.
        """
        columns = self.gather.shape[1]
        total: Floats = self.gather @ local.reshape(columns, *local.shape[3:])
        return total


def assemble_elasticity(
    vertices: Floats, tetrahedra: Integers, *, young: float | Floats = 1.0, poisson: float = 0.3
) -> Assembled:
    """Assemble the stiffness matrix of an isotropic, linearly elastic body with a free boundary.

    Elements are linear (P1). Each pair of vertices that share a tetrahedron has one 3×3 block in row-major order::

        (K_ij)_ab = ∫ λ ∂_a φ_i ∂_b φ_j + μ ∂_b φ_i ∂_a φ_j + δ_ab μ ∇φ_i · ∇φ_j

    One scalar form for each (a, b) gives the blocks directly. This needs a sixteenth of the memory that assembling the
    3n×3n matrix needs. The null space consists of the six rigid-body motions.

    Parameters
    ----------
    vertices, tetrahedra
        float64 `(v, 3)`, and `(t, 4)` vertex numbers, none degenerate. Every vertex is used.
    young, poisson
        Young's modulus E > 0, one number or `(t,)`, and Poisson's ratio -1 < ν < 1/2; else `ReproError`.
    """
    from skfem import Basis, BilinearForm, ElementTetP1, MeshTet  # slow to import

    if not np.all(np.isfinite(young) & (np.asarray(young) > 0)):
        raise ReproError("Young's modulus is out of range", expected="a positive number", actual=young)
    if not -1 < poisson < 0.5:
        raise ReproError("Poisson's ratio is out of range", expected="above -1 and below 0.5", actual=poisson)
    # A modulus for each element `(t,)` weights local matrices; a single modulus is multiplied with the sum.
    field = young[:, None, None] if isinstance(young, np.ndarray) else None
    common = 1.0 if isinstance(young, np.ndarray) else young
    lame = common * poisson / ((1 + poisson) * (1 - 2 * poisson))
    shear = common / (2 * (1 + poisson))

    # Gradients of linear elements are constant, so one quadrature point is exact.
    mesh = MeshTet(np.ascontiguousarray(vertices.T), np.ascontiguousarray(tetrahedra.T))
    basis = Basis(mesh, ElementTetP1(), intorder=0)
    pattern = Pattern.of(basis.element_dofs.T, len(vertices))
    gradients = np.empty((len(pattern.indices), 3, 3))
    for a in range(3):
        for b in range(3):
            form = BilinearForm(partial(_product, a=a, b=b))
            # scikit-fem's local matrices have the trial function as first index
            local = form.coo_data(basis).tolocal().swapaxes(1, 2)
            gradients[:, a, b] = pattern.sum(local if field is None else field * local)
    blocks = lame * gradients + shear * gradients.swapaxes(1, 2)
    blocks += shear * np.trace(gradients, axis1=1, axis2=2)[:, None, None] * np.eye(3)
    return Assembled(pattern.n, pattern.indptr, pattern.indices, blocks.reshape(-1, 9), semidefinite=True)


def _product(trial: Any, test: Any, _: Any, *, a: int, b: int) -> Any:
    return test.grad[a] * trial.grad[b]


def assemble_dirac(vertices: Floats, faces: Integers, rho: ArrayLike | None = None, *, seed: int = 1) -> Assembled:
    """Assemble the squared Dirac operator (D - ρ)*(D - ρ) on the vertices: quaternions (w, x, y, z).

    An entry is a sum over the faces that contain both vertices i and j::

        E_ij = Σ  -e_i e_j / (4 A) + ρ/6 (e_j - e_i) + A ρ² / 9

    where e_i is the edge vector opposite vertex i as an imaginary quaternion, A is the area of the face, and ρ is the
    curvature potential of the face. Each summand is A d_i* d_j with d_i = e_i / (2 A) + ρ / 3, so the operator is
    Hermitian and positive semidefinite; with ρ = 0 it annihilates constants, because the edges of a face sum to zero.

    Parameters
    ----------
    vertices, faces
        float64 `(v, 3)`, and `(f, 3)` vertex numbers, from `repro.problems.meshes.read_surface`.
    rho
        One finite number, or one per face `(f,)`, in units of an inverse length. None uses `smooth_potential`.
    seed
        Random seed for `smooth_potential`.
    """
    corners = vertices[faces]
    # edges[:, i] is the edge opposite corner i, directed from corner i + 1 to corner i + 2.
    edges = np.roll(corners, -2, axis=1) - np.roll(corners, -1, axis=1)
    area = np.linalg.norm(np.cross(edges[:, 0], edges[:, 1]), axis=1) / 2
    density = smooth_potential(vertices, faces, seed) if rho is None else _values_per_face(rho, len(faces))

    local = np.empty((len(faces), 3, 3, 4))
    for i in range(3):
        for j in range(3):
            # Product of imaginary quaternions: a b = -<a, b> + a × b.
            a, b = edges[:, i], edges[:, j]
            dot = np.einsum("fk,fk->f", a, b)
            local[:, i, j, 0] = dot / (4 * area) + area * density**2 / 9
            local[:, i, j, 1:] = (density / 6)[:, None] * (b - a) - np.cross(a, b) / (4 * area)[:, None]
    pattern = Pattern.of(faces, len(vertices))
    return Assembled(pattern.n, pattern.indptr, pattern.indices, pattern.sum(local), semidefinite=True)


def smooth_potential(vertices: Floats, faces: Integers, seed: int = 1) -> Floats:
    """Return a smooth field `(f,)` at face centroids in units of an inverse length: a sum of random plane waves.

    Wavelengths and amplitude are scaled with the bounding box. The relative weight of the operator's three terms then
    depends neither on the mesh's resolution nor on its units.
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


def _values_per_face(rho: ArrayLike, count: int) -> Floats:
    face_values = np.asarray(rho, dtype=np.float64)
    if face_values.shape not in ((), (count,)):
        raise ReproError(
            "rho does not match the mesh", expected=f"one number, or one per face ({count})", actual=face_values.shape
        )
    if not np.isfinite(face_values).all():
        raise ReproError("rho is not finite", expected="finite numbers")
    return np.broadcast_to(face_values, (count,))


def assemble_helmholtz(
    vertices: Floats, elements: Integers, *, wavenumber: float | Floats, loss: float = 0.02
) -> Assembled:
    """Assemble time-harmonic waves in a lossy medium that leave through the boundary: complex numbers (re, im).

    The equation -Δu - k² (1 + i η) u = f with the first-order absorbing (impedance) condition ∂u/∂n = i k u, by
    linear (P1) elements::

        A_ij = ∫ ∇φ_i · ∇φ_j - k² (1 + i η) φ_i φ_j  -  i k ∮ φ_i φ_j

    The matrix is symmetric, not Hermitian.

    Parameters
    ----------
    vertices, elements
        float64 `(v, 3)` and `(t, 4)` tetrahedra, or `(v, 2)` and `(t, 3)` triangles. Every vertex is used.
    wavenumber
        k = 2π / wavelength > 0, one number or `(t,)`. Ten mesh edges per wavelength are accurate enough.
    loss
        η ≥ 0, the loss factor of the medium.
    """
    from skfem import Basis, BilinearForm, ElementTetP1, ElementTriP1, FacetBasis, MeshTet, MeshTri  # slow to import
    from skfem.helpers import dot, grad

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
                "vertices and elements do not match",
                expected="tetrahedra in space or triangles in the plane",
                actual=f"{shape[0]} coordinates, {shape[1]} vertices an element",
            )
    interior, boundary = Basis(mesh, element), FacetBasis(mesh, element)
    mass = BilinearForm(lambda trial, test, _: trial * test)
    stiffness = BilinearForm(lambda trial, test, _: dot(grad(trial), grad(test))).coo_data(interior).tolocal()
    impedance = mass.coo_data(boundary).tolocal(boundary)
    mass = mass.coo_data(interior).tolocal()
    k = wavenumber[:, None, None] if isinstance(wavenumber, np.ndarray) else wavenumber
    local = np.stack([stiffness - k**2 * mass, -(k**2) * loss * mass - k * impedance], axis=-1)
    pattern = Pattern.of(interior.element_dofs.T, len(vertices))
    return Assembled(pattern.n, pattern.indptr, pattern.indices, pattern.sum(local))


#: Share of non-zeros among the values of a folded matrix below which a note advises against blocks, and its words.
WORTH_BLOCKS = 0.6
FEW_FILLED = "few of the blocks' values are non-zeros"


def advice_on_blocks(origin: Mapping[str, Any] | None) -> str | None:
    """Return the note of a problem's origin that advises against blocks; None without one."""
    notes = (origin or {}).get("notes") or ()
    return next((str(note) for note in notes if FEW_FILLED in str(note)), None)


def fold_blocks(matrix: sp.csr_array, entry: str, where: object, tolerance: float = 0.0) -> Assembled:
    """Convert a scalar matrix into a matrix with the given entry type.

    A real kn×km matrix becomes n×m entries if every k×k block has the form of the entry type, within `tolerance`
    relative to the block's largest value. Blocks are any 3×3 blocks, or quaternions in the 4×4 form of eq. 1 of
    Mueller-Roemer et al. 2020. Real and complex matrices keep their values. A matrix of ones gets the entry type
    `pattern`. Raises `ReproError`: the values are of another kind, the size is no multiple of the block's, or a block
    is no such entry.
    """
    check_entry(entry, bool(np.iscomplexobj(matrix.data)), matrix.shape, where)
    indptr, indices, data = matrix.indptr, matrix.indices, matrix.data
    notes: tuple[str, ...] = ()
    n, columns = matrix.shape
    if entry == "complex":
        values = np.stack([data.real, data.imag], axis=1)
    elif entry == "real":
        values = data.reshape(-1, 1)
    elif entry == "pattern":
        values = _refuse_values(data, where)
    else:
        k = get_entry(entry).size
        blocks = sp.bsr_array(matrix, blocksize=(k, k))
        blocks.sort_indices()
        n, columns = n // k, columns // k
        indptr, indices = blocks.indptr, blocks.indices
        values = _members(blocks, entry, where, tolerance)
        fill_ratio = matrix.nnz / max(blocks.data.size, 1)
        size = "{} x {}".format(*matrix.shape)
        notes = (f"folded from a real {size} matrix; {fill_ratio:.1%} of the blocks' values are non-zeros",)
        if fill_ratio < WORTH_BLOCKS:
            notes += (f"{FEW_FILLED} ({fill_ratio:.0%}): `entry: real` stores less",)
    offsets, column_indices = (cast(array, np.int32, str(where)) for array in (indptr, indices))
    values = np.ascontiguousarray(values, np.float64)
    return Assembled(n, offsets, column_indices, values, notes, None if columns == n else columns)


def unfold(assembled: Assembled, entry: str) -> Assembled:
    """Expand compound entries to k×k blocks of a real matrix and drop the zeros inside blocks."""
    k = get_entry(entry).size
    shape = (k * assembled.n, k * (assembled.n if assembled.columns is None else assembled.columns))
    if len(assembled.indices) * k**2 >= 2**31:
        raise ReproError(
            "the expanded matrix is too large for 32-bit indices",
            expected=f"fewer than {2**31 // k**2} entries of {entry}",
            actual=len(assembled.indices),
        )
    blocks = get_entry(entry).expand(assembled.values)
    matrix = sp.csr_array(sp.bsr_array((blocks, assembled.indices, assembled.indptr), shape=shape))
    matrix.eliminate_zeros()
    matrix.sort_indices()
    indptr, indices = (cast(array, np.int32, "the matrix written out") for array in (matrix.indptr, matrix.indices))
    columns = None if assembled.columns is None else shape[1]
    values = matrix.data[:, None]
    return Assembled(shape[0], indptr, indices, values, assembled.notes, columns, assembled.semidefinite)


def _refuse_values(
    data: np.ndarray[tuple[int], np.dtype[np.float64]], where: object
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    unequal_entries = np.flatnonzero(data != 1)
    if unequal_entries.size:
        raise ReproError(
            "the matrix is not a pattern",
            where=where,
            expected="only ones for the entry pattern",
            actual=f"{unequal_entries.size} of {len(data)} values differ, the first is {data[unequal_entries[0]]:g}",
            todo="set `entry: real` for the problem",
        )
    return np.empty((len(data), 0))


def _members(
    blocks: sp.bsr_array, name: str, where: object, tolerance: float
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Convert blocks to entries `(nnz, members)`; raise `ReproError` if a block does not have the form of the entry
    type.
    """
    entry = get_entry(name)
    data = np.asarray(blocks.data, dtype=np.float64)
    # `(members, k, k)`: the coefficient of each member at each place in a block.
    form = entry.expand(np.eye(len(entry.members)))
    bare = (form == 1) & (np.count_nonzero(form, axis=0) == 1)
    # For each member, the first place in column-major order that depends only on this member.
    positions = bare.transpose(0, 2, 1).reshape(len(form), -1).argmax(axis=1)
    members = np.ascontiguousarray(data.transpose(0, 2, 1).reshape(len(data), entry.size**2)[:, positions])
    deviations = np.abs(data - entry.expand(members)).max(axis=(1, 2))
    deviating = np.flatnonzero(deviations > tolerance * np.abs(data).max(axis=(1, 2)))
    if deviating.size:
        row = int(np.searchsorted(blocks.indptr, deviating[0], side="right")) - 1
        raise ReproError(
            f"the matrix is not a {name} matrix",
            where=f"{where}, first at block row {row}, block column {blocks.indices[deviating[0]]} (counted from 0)",
            expected=f"{entry.size} x {entry.size} blocks {_spell(form, entry.members)}",
            actual=f"{deviating.size} of {len(data)} blocks differ, the first is {data[deviating[0]].tolist()}",
            todo="set `entry: real` for the problem",
        )
    return members


def _spell(form: np.ndarray[tuple[int, ...], np.dtype[np.float64]], members: tuple[str, ...]) -> str:
    """Format the form of a block, such as: w -x -y -z / x w -z y / y z w -x / z -y x w."""
    signs = {1.0: "", -1.0: "-"}

    def place(factors: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> str:
        terms = [f"{signs.get(f, f'{f:g}')}{member}" for f, member in zip(factors, members, strict=True) if f]
        return "+".join(terms) or "0"

    return " / ".join(" ".join(map(place, row)) for row in form.transpose(1, 2, 0))


Mask = NDArray[np.bool_]
#: Vertices within this distance of a plane or a box count as inside, relative to the diagonal of the mesh.
CLOSE = 1e-9
#: First word of the note on a singular stiffness matrix, and last words of the note on fixed vertices, which are left
#: out.
SINGULAR, HELD = "singular: ", "vertices fixed"
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six")


def fixed_vertices(vertices: Floats, fixed: Sequence[Fixed], groups: Mapping[str | int, Floats], path: Path) -> Mask:
    """Return the mask `(v,)` of the vertices that at least one of the supports `fixed` contains.

    Raises `ReproError`: a support contains no vertex, or all vertices are fixed.

    Parameters
    ----------
    vertices
        `(v, 3)`.
    groups
        Points `(p, 3)` of each physical group that a support names, bitwise equal to vertices of the mesh.
    """
    is_fixed = np.zeros(len(vertices), bool)
    for support in fixed:
        support_mask = _vertices_of_support(vertices, support, groups)
        if not support_mask.any():
            low, high = (tuple(map(float, ends)) for ends in (vertices.min(axis=0), vertices.max(axis=0)))
            raise ReproError(
                "no vertex of the mesh is at the fixed place",
                where=path,
                expected=f"a place in the mesh, which reaches from {low} to {high}",
                actual=support.model_dump(exclude_none=True),
                todo="correct the problem's `fixed:`",
            )
        is_fixed |= support_mask
    if is_fixed.all():
        raise ReproError("all vertices of the mesh are fixed", where=path, todo="correct the problem's `fixed:`")
    return is_fixed


def _vertices_of_support(vertices: Floats, support: Fixed, groups: Mapping[str | int, Floats]) -> Mask:
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    tolerance = CLOSE * float(np.linalg.norm(high - low))
    fixed_mask = np.ones(len(vertices), bool)
    for axis, place in enumerate((support.x, support.y, support.z)):
        if place is not None:
            coordinate = {"min": low[axis], "max": high[axis]}[place] if isinstance(place, str) else place
            fixed_mask &= np.abs(vertices[:, axis] - coordinate) <= tolerance
    if support.box is not None:
        first, second = (np.asarray(corner) for corner in support.box)
        fixed_mask &= ((vertices >= first - tolerance) & (vertices <= second + tolerance)).all(axis=1)
    if support.group is not None:
        rows = np.concatenate([vertices, groups[support.group]])
        group_of = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
        fixed_mask &= np.isin(group_of[: len(vertices)], group_of[len(vertices) :])
    return fixed_mask


def rigid_motions(vertices: Floats, cells: Integers, fixed: Mask | None = None) -> int:
    """Return the dimension of the space of rigid motions: six for each connected part of the mesh without fixed
    vertices.

    Cells that share a vertex are connected. A part with one fixed vertex has three rotations, with several on one line
    one rotation, else none.
    """
    corners = cells.shape[1]
    rows, columns = np.repeat(cells[:, 0], corners - 1), cells[:, 1:].ravel()
    graph = sp.coo_array((np.ones(len(rows), bool), (rows, columns)), shape=(len(vertices), len(vertices)))
    count, part = sp.csgraph.connected_components(graph, directed=False)
    remaining_motions = 6 * int(count)
    if fixed is None:
        return remaining_motions
    for number in np.unique(part[fixed]):
        points = vertices[fixed & (part == number)]
        spread = points - points[0]
        size = float(np.abs(spread).max())
        rank = int(np.linalg.matrix_rank(spread / size, tol=CLOSE)) if size else 0
        remaining_motions -= {0: 3, 1: 5}.get(rank, 6)
    return remaining_motions


def singular_note(motions: int) -> tuple[str, ...]:
    """Return the note on a stiffness matrix with rigid motions in its null space; empty if there are none."""
    if not motions:
        return ()
    number = _NUMBERS[motions] if motions < len(_NUMBERS) else f"{motions:,}"
    return (f"{SINGULAR}{number} rigid motion{'s' if motions > 1 else ''}",)


def definiteness(notes: Iterable[str]) -> str:
    """Describe, from its notes, whether a matrix that is positive semidefinite by construction is even definite."""
    notes = [*notes]
    for note in notes:
        if note.startswith(SINGULAR):
            return f"semidefinite, {note}"
    return "definite (held)" if any(note.endswith(HELD) for note in notes) else "semidefinite or definite"


def elastic_body(
    vertices: Floats,
    cells: Integers,
    fixed: Mask | None = None,
    *,
    young: float | Floats = 1.0,
    poisson: float = 0.3,
) -> Assembled:
    """Assemble linear elasticity without the rows and columns of fixed vertices, with a note if the matrix is singular.

    Parameters are those of `repro.problems.assembly.assemble_elasticity`; `fixed` is None or `(v,)`.
    """
    assembled = assemble_elasticity(vertices, cells, young=young, poisson=poisson)
    notes = singular_note(rigid_motions(vertices, cells, fixed))
    if fixed is None:
        return replace(assembled, notes=notes)
    notes = (f"{np.count_nonzero(fixed)} of {len(vertices)} {HELD}", *notes)
    return replace(without_fixed(assembled, fixed), notes=notes)


def without_fixed(assembled: Assembled, fixed: Mask) -> Assembled:
    """Return the matrix without the rows and columns of fixed vertices; the others keep their order."""
    is_free = ~fixed
    rows = np.repeat(np.arange(assembled.n), np.diff(assembled.indptr))
    is_kept = is_free[rows] & is_free[assembled.indices]
    number = np.cumsum(is_free, dtype=np.int32) - 1
    counts = np.bincount(number[rows[is_kept]], minlength=int(is_free.sum()))
    return replace(
        assembled,
        n=int(is_free.sum()),
        indptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        indices=number[assembled.indices[is_kept]].astype(np.int32),
        values=assembled.values[is_kept],
    )
