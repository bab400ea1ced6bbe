"""Smoothed aggregation on the host, the reference of the device: settings, set-up and smoothers.

The set-up repeats the steps of the device in NumPy and SciPy: King 2017, Algorithm 8, after Bell, Dalton, Olson:
"Exposing Fine-Grained Parallelism in Algebraic Multigrid Methods", SIAM J. Sci. Comput. 34(4), 2012. Defaults are those
of CUSP 0.5.1, the base of King 2017.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.errors import ReproError, ReproErrorOfValue

#: Largest number of Arnoldi steps: a column of coefficients on the device has a place for each step
#: (`repro.sparse.multigrid.hierarchy.COLUMN_STRIDE`).
MAX_STEPS = 30


@dataclass(frozen=True)
class MultigridSettings:
    """Settings of a hierarchy; a value out of range raises `ReproError`."""

    #: Entries a_ij are strong if |a_ij| > θ √(|a_ii a_jj|).
    theta: float = 0.0
    #: The prolongator is (I − ω/ρ D⁻¹A) T, with the spectral radius ρ of D⁻¹A.
    omega: float = 4 / 3
    #: Matrices of at most this many rows are not coarsened.
    coarsest: int = 100
    #: Maximal number of levels.
    levels: int = 20
    #: Number of Arnoldi steps for the estimate of ρ.
    ritz_steps: int = 8
    #: Coarsening stops if a coarser level would have more than this share of the rows.
    stall: float = 0.9

    def __post_init__(self) -> None:
        limits = {
            "theta": (0 <= self.theta < 1, "from 0 to below 1"),
            "omega": (0 <= self.omega < 2, "from 0, for no smoothing, to below 2"),
            "coarsest": (self.coarsest >= 1, "at least 1"),
            "levels": (self.levels >= 1, "at least 1"),
            "ritz_steps": (1 <= self.ritz_steps <= MAX_STEPS, f"1 to {MAX_STEPS}"),
            "stall": (0 < self.stall <= 1, "above 0, at most 1"),
        }
        for name, (sensible, expected) in limits.items():
            if not sensible:
                raise ReproErrorOfValue(
                    "a multigrid setting is out of range", where=name, expected=expected, actual=getattr(self, name)
                )


#: Bits of the nodes' random keys for the independent set; the node number breaks ties.
KEY_BITS = 30
OUT, UNDECIDED, ROOT = 0, 1, 2
#: Columns of an aggregate's near null space are dropped as dependent if orthogonalisation leaves this share.
DEPENDENT = 1e-10
#: Arnoldi's method ends when a new vector, after orthogonalisation, is shorter than this, by precision: then it is
#: mostly rounding error and may be parallel to earlier vectors. Products with D⁻¹A, whose mean eigenvalue is 1, have
#: lengths around 1.
BREAKDOWN = {"single": 1e-4, "double": 1e-10}
#: An estimate of the spectral radius of D⁻¹A below this is repeated; the radius is at least 1.
MIN_RADIUS = 0.999


@dataclass(frozen=True)
class HostLevel:
    """One level of a hierarchy on the host."""

    a: sp.csr_array
    #: Prolongator P from the next level, and its transpose R; None on the coarsest level.
    p: sp.csr_array | None = None
    r: sp.csr_array | None = None
    #: Aggregate of each node, int32 `(nodes,)`, -1 for nodes without one; None on the coarsest level.
    aggregates: NDArray[np.int32] | None = None


def keys_of(n: int) -> NDArray[np.uint32]:
    """Return a reproducible pseudo-random key for each of n nodes, by the finaliser of MurmurHash3."""
    h = np.arange(n, dtype=np.uint32) + np.uint32(0x9E3779B9)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h ^= h >> np.uint32(shift)
        h *= np.uint32(factor)
    h ^= h >> np.uint32(16)
    return h >> np.uint32(32 - KEY_BITS)


def strong(a: sp.csr_array, theta: float, unknowns: int = 1) -> sp.csr_array:
    """Return the pattern of strong connections between nodes of `unknowns` successive rows, without a diagonal.

    An entry is strong if it is not 0 and |a_ij| > θ √(|a_ii a_jj|). One strong entry connects two nodes.
    """
    entries = a.tocoo()
    diagonal = np.abs(a.diagonal())
    limit = theta * np.sqrt(diagonal[entries.row] * diagonal[entries.col])
    rows, columns = entries.row // unknowns, entries.col // unknowns
    strong_entries = (rows != columns) & (entries.data != 0) & (np.abs(entries.data) > limit)
    nodes = a.shape[0] // unknowns
    connections = sp.csr_array(
        (np.ones(int(strong_entries.sum())), (rows[strong_entries], columns[strong_entries])), shape=(nodes, nodes)
    )
    connections.data[:] = 1
    return connections


def independent_set(connections: sp.csr_array) -> NDArray[np.bool_]:
    """Return a maximal set of nodes whose distances are above two, bool `(n,)`.

    In each round, an undecided node enters the set if it has the largest key within distance two. It is excluded if a
    node within distance two is in the set.
    """
    n = connections.shape[0]
    tuples = (
        (np.uint64(UNDECIDED) << np.uint64(62))
        | (keys_of(n).astype(np.uint64) << np.uint64(32))
        | np.arange(n, dtype=np.uint64)
    )
    while True:
        states = tuples >> np.uint64(62)
        if not (states == UNDECIDED).any():
            roots: NDArray[np.bool_] = states == ROOT
            return roots
        largest = _largest_near(connections, _largest_near(connections, tuples))
        undecided = states == UNDECIDED
        new_roots = undecided & (largest == tuples)
        excluded = undecided & (largest >> np.uint64(62) == ROOT)
        low = tuples & np.uint64((1 << 62) - 1)
        tuples = np.where(new_roots, low | (np.uint64(ROOT) << np.uint64(62)), np.where(excluded, low, tuples))


def _largest_near(connections: sp.csr_array, numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return, for each node, the maximum of `numbers` over the node and its neighbours, `(n,)`."""
    largest = numbers.copy()
    nonempty = np.diff(connections.indptr) > 0
    if nonempty.any():
        starts = connections.indptr[:-1][nonempty]
        near = np.maximum.reduceat(numbers[connections.indices], starts)
        largest[nonempty] = np.maximum(largest[nonempty], near)
    return largest


def aggregate(connections: sp.csr_array) -> NDArray[np.int32]:
    """Return the aggregate of each node, int32 `(n,)`; -1 for nodes without strong connections.

    Each root of an independent set forms an aggregate with its neighbours. Nodes at distance two join the adjacent
    aggregate whose root has the largest key.
    """
    n = connections.shape[0]
    isolated = np.diff(connections.indptr) == 0
    roots = independent_set(connections) & ~isolated
    # roots propagate (key, number + 1); 0: no root yet
    node_keys = (keys_of(n).astype(np.uint64) << np.uint64(32)) | (np.arange(n, dtype=np.uint64) + np.uint64(1))
    root_keys = np.where(roots, node_keys, np.uint64(0))
    for _ in range(2):
        root_keys = np.where(root_keys > 0, root_keys, _largest_near(connections, root_keys))
    numbers = np.cumsum(roots) - 1
    root = (root_keys & np.uint64(0xFFFFFFFF)).astype(np.int64) - 1
    return np.where(root_keys > 0, numbers[np.maximum(root, 0)], -1).astype(np.int32)


def tentative(
    aggregates: NDArray[np.int32], near_null: NDArray[np.floating]
) -> tuple[sp.csr_array, NDArray[np.floating]]:
    """Return the tentative prolongator T and the next level's near null space B', with T B' = B.

    `aggregates` is `(n,)`. `near_null` B is `(u n, k)`, with u successive unknowns of a node.
    """
    n, (rows, k) = len(aggregates), near_null.shape
    if not n or rows % n:
        raise ReproErrorOfValue(
            "the near null space has the wrong shape", expected=f"a multiple of {n} rows", actual=rows
        )
    unknowns, count = rows // n, int(aggregates.max(initial=-1)) + 1
    values = np.zeros((rows, k))
    coarse = np.zeros((count * k, k))
    order = np.argsort(aggregates, kind="stable")
    order = order[aggregates[order] >= 0]
    ends = np.searchsorted(aggregates[order], np.arange(count), side="right")
    for i, nodes in enumerate(np.split(order, ends[:-1]) if count else []):
        node_rows = (nodes[:, None] * unknowns + np.arange(unknowns)).ravel()
        q, r = _orthonormal(near_null[node_rows])
        values[node_rows], coarse[i * k : (i + 1) * k] = q, r
    aggregated = np.repeat(aggregates >= 0, unknowns)
    columns = (np.repeat(aggregates, unknowns)[:, None] * k + np.arange(k))[aggregated]
    indptr = np.concatenate([[0], np.cumsum(np.where(aggregated, k, 0))])
    t = sp.csr_array((values[aggregated].ravel(), columns.ravel(), indptr), shape=(rows, count * k))
    return t, coarse


def _orthonormal(block: NDArray[np.floating]) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Return Q and R of a block by Gram-Schmidt; a dependent column of Q is 0."""
    q = np.array(block, dtype=np.float64)
    k = q.shape[1]
    r = np.zeros((k, k))
    for j in range(k):
        before = np.linalg.norm(q[:, j])
        for i in range(j):
            r[i, j] = q[:, i] @ q[:, j]
            q[:, j] -= r[i, j] * q[:, i]
        length = np.linalg.norm(q[:, j])
        if length <= DEPENDENT * before or length == 0:
            q[:, j] = 0
        else:
            r[j, j] = length
            q[:, j] /= length
    return q, r


def spectral_radius(a: sp.csr_array, steps: int) -> float:
    """Return the spectral radius of D⁻¹A, at least 1, estimated by `steps` Arnoldi steps.

    The mean eigenvalue is 1, that of the diagonal. If the estimate is smaller, the start vector was near the null space
    or in an invariant subspace, and another start vector is tried. An unusable diagonal or non-finite numbers raise
    `ReproError`.
    """
    inverse = 1 / checked_diagonal(a)
    n, radius = a.shape[0], 0.0
    for first in (0, n):
        radius = max(radius, _largest_ritz_value(a, inverse, keys_of(2 * n)[first : first + n], steps))
        if radius >= MIN_RADIUS:
            break
    return max(radius, 1.0)


def _largest_ritz_value(a: sp.csr_array, inverse: NDArray[np.floating], keys: NDArray[np.uint32], steps: int) -> float:
    basis = [keys.astype(np.float64) / (1 << KEY_BITS) + 0.5]
    basis[0] /= np.linalg.norm(basis[0])
    h = np.zeros((steps + 1, steps))
    for j in range(steps):
        w = inverse * (a @ basis[j])
        for i in range(j + 1):
            h[i, j] = basis[i] @ w
            w -= h[i, j] * basis[i]
        h[j + 1, j] = np.linalg.norm(w)
        if h[j + 1, j] <= BREAKDOWN["double"]:
            steps = j + 1
            break
        basis.append(w / h[j + 1, j])
    return largest_eigenvalue(h[:steps, :steps])


def largest_eigenvalue(h: NDArray[np.floating]) -> float:
    """Return the largest absolute eigenvalue of a square matrix; non-finite numbers raise `ReproError`."""
    if not np.isfinite(h).all():
        raise not_finite_error()
    return float(np.abs(np.linalg.eigvals(h)).max())


def not_finite_error() -> ReproError:
    """Return the error for products with a matrix that are not finite."""
    return ReproErrorOfValue(
        "multigrid needs finite numbers", where="the matrix", actual="NaN or infinity in a product"
    )


def checked_diagonal(a: sp.csr_array) -> NDArray[np.floating]:
    """Return the diagonal `(n,)`; a missing, zero or non-finite entry raises `ReproError`."""
    diagonal: NDArray[np.floating] = a.diagonal()
    check_diagonal(diagonal)
    return diagonal


def check_diagonal(diagonal: NDArray[np.floating]) -> None:
    """Raise `ReproError` if an entry is zero or not finite."""
    bad = np.flatnonzero(~np.isfinite(diagonal) | (diagonal == 0))
    if len(bad):
        raise bad_diagonal(int(bad[0]), len(bad), float(diagonal[bad[0]]))


def bad_diagonal(row: int, count: int, value: float) -> ReproError:
    """Return the error for `count` unusable diagonal entries, the first of them in `row`."""
    return ReproErrorOfValue(
        f"multigrid needs a diagonal without {'zeros' if value == 0 else 'NaN and infinite numbers'}",
        where=f"row {row}, the first of {count}",
        expected="a number other than 0",
        actual=value,
    )


def prolongator(a: sp.csr_array, t: sp.csr_array, omega: float, radius: float) -> sp.csr_array:
    """Return P = (I − ω/ρ D⁻¹A) T."""
    if not omega:
        return t
    p = sp.csr_array(t - (omega / radius) * (sp.diags_array(1 / checked_diagonal(a)) @ (a @ t)))
    p.sort_indices()
    return p


def set_up(
    a: sp.csr_array,
    near_null: NDArray[np.floating] | None = None,
    unknowns: int = 1,
    settings: MultigridSettings | None = None,
) -> list[HostLevel]:
    """Return the levels of a hierarchy, the finest first.

    `a` is square with a non-zero diagonal. `near_null` is `(n, k)`; None: the constant vector. Each node has `unknowns`
    successive rows.
    """
    settings = settings or MultigridSettings()
    near = np.ones((a.shape[0], 1)) if near_null is None else near_null
    levels: list[HostLevel] = []
    while True:
        nodes = a.shape[0]
        checked_diagonal(a)
        if nodes <= settings.coarsest or len(levels) + 1 == settings.levels:
            break
        aggregates = aggregate(strong(a, settings.theta, unknowns))
        t, coarse = tentative(aggregates, near)
        if not t.shape[1] or t.shape[1] > settings.stall * nodes:
            break
        p = prolongator(a, t, settings.omega, spectral_radius(a, settings.ritz_steps) if settings.omega else 0.0)
        r = sp.csr_array(p.T.tocsr())
        levels.append(HostLevel(a, p, r, aggregates))
        a, near, unknowns = coarse_matrix(a, p, r), coarse, near.shape[1]
    levels.append(HostLevel(a))
    return levels


def coarse_matrix(a: sp.csr_array, p: sp.csr_array, r: sp.csr_array) -> sp.csr_array:
    """Return R (A P), with a 1 on the diagonal of empty rows."""
    coarse = sp.csr_array(r @ sp.csr_array(a @ p))
    empty = np.diff(sp.csr_array(abs(coarse) > 0).indptr) == 0
    coarse = sp.csr_array(coarse + sp.diags_array(empty.astype(coarse.dtype)))
    coarse.sort_indices()
    return coarse


def operator_complexity(levels: list[HostLevel]) -> float:
    return sum(int(level.a.nnz) for level in levels) / max(int(levels[0].a.nnz), 1)


#: Weight of Jacobi smoothing, before it is divided by the spectral radius of D⁻¹A.
JACOBI = 4 / 3
#: A coarsest matrix of at most DENSE_ROWS rows is inverted; for larger ones, COARSE_STEPS Jacobi steps are taken.
DENSE_ROWS, COARSE_STEPS = 1024, 8
SMOOTHERS = ("jacobi", "chebyshev")
SMOOTHER_DEGREES = range(1, 11)
#: Interval of the Chebyshev smoother, as multiples of the spectral radius of D⁻¹A. PyAMG begins at 1/30. With 1/10 and
#: degree 2, conjugate gradients to 1e-8 take 16, 13, 10 and 9 steps instead of 19, 17, 15 and 15, for Poisson's
#: equation on 150² and 26³ points with 5, 9, 7 and 27 points per stencil.
SMOOTHED = (1 / 10, 1.1)


@dataclass(frozen=True)
class Smoother:
    """Smoothing steps x + w D⁻¹ (b - A x) before and after the coarse-grid correction; other names raise `ReproError`.

    `jacobi` is one step with weight 4/3 over the spectral radius of D⁻¹A. `chebyshev` has `degree` steps, one product
    each, whose error polynomial is minimal from 1/10 to 1.1 times the spectral radius (Adams, Brezina, Hu, Tuminaro:
    "Parallel multigrid smoothing: polynomial versus Gauss–Seidel", J. Comput. Phys. 188, 2003; PyAMG begins at 1/30).
    """

    kind: str = "jacobi"
    degree: int = 2

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in SMOOTHERS:
            raise ReproErrorOfValue(
                "unknown smoother", where="smoother", expected=" or ".join(SMOOTHERS), actual=repr(self.kind)
            )
        if self.degree not in SMOOTHER_DEGREES:
            raise ReproErrorOfValue(
                "a multigrid setting is out of range",
                where="degree",
                expected=f"{SMOOTHER_DEGREES[0]} to {SMOOTHER_DEGREES[-1]}",
                actual=self.degree,
            )

    def weights(self, radius: float) -> NDArray[np.float64]:
        """Return the weight of each step, for a spectral radius of D⁻¹A."""
        if self.kind == "jacobi":
            return np.array([JACOBI / radius])
        low, high = (part * radius for part in SMOOTHED)
        angles = np.pi * (np.arange(self.degree) + 0.5) / self.degree
        roots: NDArray[np.float64] = (high + low) / 2 + (high - low) / 2 * np.cos(angles)
        return 1 / roots
