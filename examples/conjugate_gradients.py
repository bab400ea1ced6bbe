"""Conjugate gradients on an elasticity matrix: a clamped, bent bar under its own weight.

    python examples/conjugate_gradients.py --cells 14 14 60
    python examples/conjugate_gradients.py --cells 40 40 160 --tuned now
    python examples/conjugate_gradients.py --tuned Pairs-128-AoSoA-AoS@clustered/direct-128-8-u2

The matrix is symmetric to the last bit, so that a variant of pairs may store both of A_ij and A_ji once.

Solves K u = f three times: with SciPy's solver and SciPy's product, with SciPy's solver and the operator, and with all
vectors on the device, where nothing but two numbers an iteration comes back to the host.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import cg

import repro
from repro.errors import ReproError
from repro.operators import SpmvOperator
from repro.problems.assembly import assemble_elasticity
from repro.problems.generators import horn_vertices, lattice_box


@dataclass(frozen=True)
class Solution:
    """What a solver found: the displacements, its iterations, and the seconds of all of them."""

    x: NDArray[Any]
    iterations: int
    seconds: float


def clamped_bar(cells: tuple[int, int, int]) -> tuple[sp.bsr_array, NDArray[Any]]:
    """Return stiffness and load of a bar whose vertices at one end are fixed.

    Without their rows and columns the matrix is positive definite: no rigid motion is left. Rows and columns of the
    others are scaled by the square root of the diagonal, the simplest preconditioner, which leaves the blocks as they
    are.
    """
    lattice, tetrahedra = lattice_box(cells)
    stiffness = assemble_elasticity(horn_vertices(lattice, cells), tetrahedra)
    blocks = stiffness.values.reshape(-1, 3, 3)
    n = stiffness.n
    whole = sp.bsr_array((blocks, stiffness.indices, stiffness.indptr), shape=(3 * n, 3 * n)).tocsr()
    free = np.repeat(lattice[:, 2] > 0, 3)
    inner = whole[free][:, free].tocoo()
    scale = 1 / np.sqrt(inner.diagonal())
    i, j = inner.coords
    inner.data *= scale[i] * scale[j]  # the same factor for both entries of a pair: it stays symmetric to the last bit
    weight = np.tile([0.0, -1.0, 0.0], len(scale) // 3)
    return sp.bsr_array(inner, blocksize=(3, 3)), scale * weight


def solve_on_the_device(A: SpmvOperator, b: NDArray[Any], tolerance: float, most: int) -> Solution:
    """Conjugate gradients (Hestenes and Stiefel 1952) with all vectors on the operator's device."""
    vectors = A.vectors
    x, r, p, q = vectors.zeros(), vectors.put(b), vectors.put(b), vectors.empty()
    A.matvec(p, out=q)
    vectors.axpby(0, p, 1, x)
    residual = vectors.dot(r, r)  # all kernels are compiled and loaded before the clock starts
    start = time.perf_counter()
    limit = tolerance**2 * residual
    iterations = 0
    while residual > limit and iterations < most:
        A.matvec(p, out=q)
        alpha = residual / vectors.dot(p, q)
        vectors.axpby(alpha, p, 1, x)
        vectors.axpby(-alpha, q, 1, r)
        before, residual = residual, vectors.dot(r, r)
        vectors.axpby(1, r, residual / before, p)
        iterations += 1
    return Solution(vectors.get(x), iterations, time.perf_counter() - start)


def solve_on_the_host(A: Any, b: NDArray[Any], tolerance: float, most: int) -> Solution:
    """SciPy's conjugate gradients with any product."""
    counted: list[None] = []
    A @ b
    start = time.perf_counter()
    x, _ = cg(A, b, rtol=tolerance, maxiter=most, callback=lambda _: counted.append(None))
    return Solution(x, len(counted), time.perf_counter() - start)


def main(arguments: list[str] | None = None) -> dict[str, Solution]:
    """Solve, print and return the solutions."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cells", type=int, nargs=3, default=(14, 14, 60), help="cells of the bar")
    parser.add_argument("--tuned", default="default", help="variant, campaign:problem, default or now")
    parser.add_argument("--device", default="auto", help="auto, cuda:N or opencl:N")
    parser.add_argument("--tolerance", type=float, default=1e-5, help="of the residual, relative to the load")
    parser.add_argument("--most", type=int, default=10_000, help="iterations at most")
    options = parser.parse_args(arguments)

    K, f = clamped_bar(tuple(options.cells))
    try:
        A = repro.operator(K, options.tuned, device=options.device)
    except ReproError as error:
        raise SystemExit(f"error: {error}") from None
    print(f"{K.shape[0] // 3} vertices, {K.nnz // 9} blocks of 3x3; {A.name} on {A.device_name}")
    print(f"{'':34}{'iterations':>11}{'residual':>11}{'µs an iteration':>17}")
    ways: dict[str, Callable[[], Solution]] = {
        "SciPy's solver, SciPy's product": lambda: solve_on_the_host(K, f, options.tolerance, options.most),
        "SciPy's solver, the operator": lambda: solve_on_the_host(A, f, options.tolerance, options.most),
        "all on the device": lambda: solve_on_the_device(A, f, options.tolerance, options.most),
    }
    solutions = {}
    for name, solve in ways.items():
        solutions[name] = found = solve()
        residual = np.linalg.norm(f - K @ found.x) / np.linalg.norm(f)
        each = found.seconds / max(found.iterations, 1) * 1e6
        print(f"{name:34}{found.iterations:11}{residual:11.1e}{each:17.1f}")
    return solutions


if __name__ == "__main__":
    main()
