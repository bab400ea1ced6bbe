"""Smoothed aggregation on the host, which the device is verified against: settings, set-up, V-cycle and CG.

The set-up does what the device does, step by step, in NumPy and SciPy. It is that of King 2017, Algorithm 8, which
is that of Bell, Dalton, Olson: "Exposing Fine-Grained Parallelism in Algebraic Multigrid Methods", SIAM J. Sci.
Comput. 34(4), 2012. The defaults of the settings are those of CUSP 0.5.1, on which King 2017 built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.errors import ReproError

#: Steps of Arnoldi's process, a column of whose numbers is read at once.
MAX_STEPS = 30


@dataclass(frozen=True)
class MultigridSettings:
    """How a hierarchy is made.

    Attributes
    ----------
    theta
        Entries a_ij count as strong where |a_ij| > θ √(|a_ii a_jj|).
    omega
        The prolongator is (I − ω/ρ D⁻¹A) T, ρ the spectral radius of D⁻¹A.
    coarsest
        A matrix of so few rows is not made coarser.
    levels
        The most levels.
    ritz_steps
        Steps of Arnoldi's process by which ρ is estimated.
    stall
        A level that would have more than this part of the rows of the one before is not made.

    Raises
    ------
    ReproError
        A number makes no sense.
    """

    theta: float = 0.0
    omega: float = 4 / 3
    coarsest: int = 100
    levels: int = 20
    ritz_steps: int = 8
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
                raise ReproError(
                    "a setting of multigrid makes no sense", where=name, expected=expected, actual=getattr(self, name)
                )


#: Nodes of an independent set are drawn by keys of so many bits; equal ones are told apart by their number.
KEY_BITS = 30
OUT, UNDECIDED, ROOT = 0, 1, 2
#: Columns of the near null space of an aggregate that are so small beside the largest are left out.
DEPENDENT = 1e-10
#: An estimate of the spectral radius of D⁻¹A below this is wrong by more than rounding.
MIN_RADIUS = 0.999


@dataclass(frozen=True)
class HostLevel:
    """One level of a hierarchy.

    Attributes
    ----------
    a
        Its matrix.
    p, r
        The prolongator from the next level, and its transpose; None on the coarsest.
    aggregates
        The aggregate of each node, -1 for none; None on the coarsest.
    """

    a: sp.csr_array
    p: sp.csr_array | None = None
    r: sp.csr_array | None = None
    aggregates: NDArray[np.int32] | None = None


def keys_of(n: int) -> NDArray[np.uint32]:
    """Return a key for each of n nodes that looks random and is the same each time: the finaliser of MurmurHash3."""
    h = np.arange(n, dtype=np.uint32) + np.uint32(0x9E3779B9)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h ^= h >> np.uint32(shift)
        h *= np.uint32(factor)
    h ^= h >> np.uint32(16)
    return h >> np.uint32(32 - KEY_BITS)


def strong(a: sp.csr_array, theta: float, unknowns: int = 1) -> sp.csr_array:
    """Return the strong connections of a matrix's nodes, none to itself, as a pattern of ones.

    An entry is strong where it is not 0 and |a_ij| > θ √(|a_ii a_jj|); two nodes are connected where one of their
    unknowns is.

    Parameters
    ----------
    unknowns
        Of a node, one after the other.
    """
    entries = a.tocoo()
    diagonal = np.abs(a.diagonal())
    limit = theta * np.sqrt(diagonal[entries.row] * diagonal[entries.col])
    rows, columns = entries.row // unknowns, entries.col // unknowns
    kept = (rows != columns) & (entries.data != 0) & (np.abs(entries.data) > limit)
    nodes = a.shape[0] // unknowns
    connections = sp.csr_array((np.ones(int(kept.sum())), (rows[kept], columns[kept])), shape=(nodes, nodes))
    connections.data[:] = 1
    return connections


def independent_set(connections: sp.csr_array) -> NDArray[np.bool_]:
    """Return a maximal set of nodes no two of which are within a distance of two.

    In each round a node that is undecided becomes one of them if no other within that distance has a larger key, and is
    out if one of them is there.
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
        own = undecided & (largest == tuples)
        out = undecided & (largest >> np.uint64(62) == ROOT)
        low = tuples & np.uint64((1 << 62) - 1)
        tuples = np.where(own, low | (np.uint64(ROOT) << np.uint64(62)), np.where(out, low, tuples))


def _largest_near(connections: sp.csr_array, numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return of each node the largest number of itself and its neighbours."""
    largest = numbers.copy()
    filled = np.diff(connections.indptr) > 0
    if filled.any():
        starts = connections.indptr[:-1][filled]
        near = np.maximum.reduceat(numbers[connections.indices], starts)
        largest[filled] = np.maximum(largest[filled], near)
    return largest


def aggregate(connections: sp.csr_array) -> NDArray[np.int32]:
    """Return the aggregate of each node: int32 `(n,)`, -1 for those without a strong connection.

    Each node of an independent set has one, with its neighbours; then theirs take the one whose root has the largest
    key of those that they touch.
    """
    n = connections.shape[0]
    alone = np.diff(connections.indptr) == 0
    roots = independent_set(connections) & ~alone
    # a root's own number, larger with its key, goes from node to node; 0 is none
    own = (keys_of(n).astype(np.uint64) << np.uint64(32)) | (np.arange(n, dtype=np.uint64) + np.uint64(1))
    taken = np.where(roots, own, np.uint64(0))
    for _ in range(2):
        taken = np.where(taken > 0, taken, _largest_near(connections, taken))
    numbers = np.cumsum(roots) - 1
    root = (taken & np.uint64(0xFFFFFFFF)).astype(np.int64) - 1
    return np.where(taken > 0, numbers[np.maximum(root, 0)], -1).astype(np.int32)


def tentative(
    aggregates: NDArray[np.int32], near_null: NDArray[np.floating]
) -> tuple[sp.csr_array, NDArray[np.floating]]:
    """Return the tentative prolongator T and the near null space of the next level, T times which is that of this one.

    Parameters
    ----------
    aggregates
        Of each node, `(n,)`.
    near_null
        `(u n, k)`, u unknowns of a node one after the other: vectors that the matrix nearly takes to 0.

    Raises
    ------
    ReproError
        There are not as many rows as unknowns.
    """
    n, (rows, k) = len(aggregates), near_null.shape
    if not n or rows % n:
        raise ReproError("the near null space does not fit", expected=f"a multiple of {n} rows", actual=rows)
    unknowns, count = rows // n, int(aggregates.max(initial=-1)) + 1
    values = np.zeros((rows, k))
    coarse = np.zeros((count * k, k))
    order = np.argsort(aggregates, kind="stable")
    order = order[aggregates[order] >= 0]
    ends = np.searchsorted(aggregates[order], np.arange(count), side="right")
    for i, nodes in enumerate(np.split(order, ends[:-1]) if count else []):
        own = (nodes[:, None] * unknowns + np.arange(unknowns)).ravel()
        q, r = _orthonormal(near_null[own])
        values[own], coarse[i * k : (i + 1) * k] = q, r
    inside = np.repeat(aggregates >= 0, unknowns)
    columns = (np.repeat(aggregates, unknowns)[:, None] * k + np.arange(k))[inside]
    indptr = np.concatenate([[0], np.cumsum(np.where(inside, k, 0))])
    t = sp.csr_array((values[inside].ravel(), columns.ravel(), indptr), shape=(rows, count * k))
    return t, coarse


def _orthonormal(block: NDArray[np.floating]) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Return Q and R of a block by Gram and Schmidt; a column that the ones before it span is 0 in Q."""
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
    """Return the estimate of the spectral radius of D⁻¹A by so many steps of Arnoldi's process, at least 1.

    The mean of the eigenvalues is 1, that of the diagonal. Where the estimate is below, the process began with a vector
    that D⁻¹A takes next to nothing, or within a space that it does not leave, and is done once more with another.

    Raises
    ------
    ReproError
        A row has no diagonal entry, or a 0 there; or the matrix has numbers that are not finite.
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
        if h[j + 1, j] < 1e-12 * max(1.0, abs(h[: j + 1, j]).max()):
            steps = j + 1
            break
        basis.append(w / h[j + 1, j])
    return largest_eigenvalue(h[:steps, :steps])


def largest_eigenvalue(h: NDArray[np.floating]) -> float:
    """Return the absolute value of the largest eigenvalue of what Arnoldi's process left.

    Raises
    ------
    ReproError
        It has numbers that are not finite, as the matrix has then.
    """
    if not np.isfinite(h).all():
        raise ReproError("multigrid needs finite numbers", where="the matrix", actual="NaN or infinity in a product")
    return float(np.abs(np.linalg.eigvals(h)).max())


def checked_diagonal(a: sp.csr_array) -> NDArray[np.floating]:
    """Return the diagonal.

    Raises
    ------
    ReproError
        One of its entries is missing, 0, or no number.
    """
    diagonal: NDArray[np.floating] = a.diagonal()
    bad = np.flatnonzero(~np.isfinite(diagonal) | (diagonal == 0))
    if len(bad):
        raise ReproError(
            "multigrid needs a diagonal without zeros",
            where=f"row {bad[0]}, the first of {len(bad)}",
            expected="a number other than 0",
            actual=diagonal[bad[0]],
        )
    return diagonal


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

    Parameters
    ----------
    a
        A square matrix, its diagonal without zeros.
    near_null
        `(n, k)`; None: the constant vector.
    unknowns
        Of a node, one after the other.

    Raises
    ------
    ReproError
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
    """Return R A P, computed as R (A P), with a 1 on the diagonal where a column of P is 0: nothing meets it."""
    coarse = sp.csr_array(r @ sp.csr_array(a @ p))
    empty = np.diff(sp.csr_array(abs(coarse) > 0).indptr) == 0
    coarse = sp.csr_array(coarse + sp.diags_array(empty.astype(coarse.dtype)))
    coarse.sort_indices()
    return coarse


def operator_complexity(levels: list[HostLevel]) -> float:
    """Return the entries of all levels over those of the finest."""
    return sum(int(level.a.nnz) for level in levels) / max(int(levels[0].a.nnz), 1)


#: The weight of Jacobi's method, over the spectral radius of D⁻¹A.
JACOBI = 4 / 3
#: A coarsest matrix of so many rows is inverted; of more rows so many steps of Jacobi's method are done instead.
DENSE_ROWS, COARSE_STEPS = 1024, 8
SMOOTHERS = ("jacobi", "chebyshev")
SMOOTHER_DEGREES = range(1, 11)
#: Where the polynomial of Chebyshev's smoother is small, over the spectral radius of D⁻¹A. PyAMG begins at 1/30. With
#: 1/10 conjugate gradients to 1e-8 take 16, 13, 10 and 9 steps at degree 2, not 19, 17, 15 and 15, for Poisson's
#: equation on 150² and 26³ points by 5, 9, 7 and 27 points.
INTERVAL = (1 / 10, 1.1)


@dataclass(frozen=True)
class Smoother:
    """What smooths before and after the coarser levels: steps x + w D⁻¹ (b - A x), each with a weight of its own.

    Attributes
    ----------
    kind
        `jacobi`: one step with the weight 4/3 over the spectral radius of D⁻¹A. `chebyshev`: so many steps as the
        degree; what they leave of an error is the polynomial in D⁻¹A that is 1 at 0 and smallest over an interval, from
        1/10 to 1.1 times the spectral radius (Adams, Brezina, Hu, Tuminaro: "Parallel multigrid smoothing: polynomial
        versus Gauss–Seidel", J. Comput. Phys. 188, 2003; PyAMG begins at 1/30).
    degree
        Of the polynomial of `chebyshev`, a product with the matrix each.

    Raises
    ------
    ReproError
        There is no such smoother.
    """

    kind: str = "jacobi"
    degree: int = 2

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in SMOOTHERS:
            raise ReproError(
                "unknown smoother", where="smoother", expected=" or ".join(SMOOTHERS), actual=repr(self.kind)
            )
        if self.degree not in SMOOTHER_DEGREES:
            raise ReproError(
                "a setting of multigrid makes no sense",
                where="degree",
                expected=f"{SMOOTHER_DEGREES[0]} to {SMOOTHER_DEGREES[-1]}",
                actual=self.degree,
            )

    def weights(self, radius: float) -> NDArray[np.float64]:
        """Return the weight of each step, for a spectral radius of D⁻¹A."""
        if self.kind == "jacobi":
            return np.array([JACOBI / radius])
        low, high = (part * radius for part in INTERVAL)
        angles = np.pi * (np.arange(self.degree) + 0.5) / self.degree
        roots: NDArray[np.float64] = (high + low) / 2 + (high - low) / 2 * np.cos(angles)
        return 1 / roots


class Cycle:
    """V(1, 1), and the pseudo-inverse of the coarsest matrix unless that is large.

    Parameters
    ----------
    levels
        The finest first.
    steps
        Steps of Arnoldi's process for each spectral radius.
    smoother
        What smooths.
    """

    def __init__(self, levels: Sequence[HostLevel], steps: int = 8, smoother: Smoother | None = None) -> None:
        self._levels, smoother = levels, smoother or Smoother()
        coarsest = levels[-1].a
        dense = coarsest.shape[0] <= DENSE_ROWS
        self._pseudo_inverse = np.linalg.pinv(coarsest.toarray()) if dense else None
        self._steps = [
            [weight / level.a.diagonal() for weight in smoother.weights(spectral_radius(level.a, steps))]
            for level in levels[:-1]
        ]
        if not dense:
            weight = JACOBI / spectral_radius(coarsest, steps)
            self._steps.append(COARSE_STEPS * [weight / coarsest.diagonal()])

    def __call__(self, b: NDArray[np.floating], at: int = 0) -> NDArray[np.floating]:
        """Return an approximation of A⁻¹ b."""
        level = self._levels[at]
        if level.p is None or level.r is None:
            return self._solve_coarsest(b)
        x = self._smoothed(at, b, np.zeros_like(b))
        x = x + level.p @ self(level.r @ (b - level.a @ x), at + 1)
        return self._smoothed(at, b, x)

    def _smoothed(self, at: int, b: NDArray[np.floating], x: NDArray[np.floating]) -> NDArray[np.floating]:
        for step in self._steps[at]:
            x = x + step * (b - self._levels[at].a @ x)
        return x

    def _solve_coarsest(self, b: NDArray[np.floating]) -> NDArray[np.floating]:
        if self._pseudo_inverse is not None:
            solution: NDArray[np.floating] = self._pseudo_inverse @ b
            return solution
        return self._smoothed(len(self._levels) - 1, b, np.zeros_like(b))
