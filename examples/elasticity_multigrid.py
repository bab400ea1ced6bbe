"""Multigrid on an elasticity matrix: what the motions of a rigid body, given to the set-up, are worth.

    python examples/elasticity_multigrid.py --cells 14 14 60
    python examples/elasticity_multigrid.py --cells 40 40 160 --device cuda:0

Solves K u = f for a clamped, bent bar under its own weight by conjugate gradients: with Jacobi's preconditioner, and
with multigrid that is told nothing, the three translations, or all six motions of a rigid body.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import cg

import repro
from repro.errors import ReproError
from repro.problems.assembly import assemble_elasticity
from repro.problems.generators import horn_vertices, lattice_box


@dataclass(frozen=True)
class Solution:
    """What a way of solving came to.

    Attributes
    ----------
    x
        The displacements.
    iterations
        Steps of conjugate gradients.
    set_up, solve
        Seconds.
    complexity
        Entries of all levels over those of the finest.
    """

    x: NDArray[Any]
    iterations: int
    set_up: float
    solve: float
    complexity: float


def clamped_bar(cells: tuple[int, int, int]) -> tuple[sp.csr_array, NDArray[Any], NDArray[Any]]:
    """Return stiffness and load of a bar whose vertices at one end are fixed, and where the others are, `(v, 3)`."""
    lattice, tetrahedra = lattice_box(cells)
    vertices = horn_vertices(lattice, cells)
    stiffness = assemble_elasticity(vertices, tetrahedra)
    n, blocks = stiffness.n, stiffness.values.reshape(-1, 3, 3)
    whole = sp.bsr_array((blocks, stiffness.indices, stiffness.indptr), shape=(3 * n, 3 * n)).tocsr()
    free = lattice[:, 2] > 0
    kept = np.repeat(free, 3)
    weight = np.tile([0.0, -1.0, 0.0], int(free.sum()))
    return sp.csr_array(whole[kept][:, kept]), weight, vertices[free]


def rigid_motions(vertices: NDArray[Any], rotations: bool = True) -> NDArray[Any]:
    """Return the translations of vertices, and the rotations about their centre, `(3 v, 3 or 6)`."""
    x, y, z = (vertices - vertices.mean(axis=0)).T
    zero = np.zeros_like(x)
    turned = [(zero, -z, y), (z, zero, -x), (-y, x, zero)] if rotations else []
    columns = [np.stack(motion, axis=1).ravel() for motion in turned]
    return np.column_stack([np.tile(np.eye(3), (len(x), 1)), *columns])


def main(arguments: list[str] | None = None) -> dict[str, Solution]:
    """Solve, print and return the solutions."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cells", type=int, nargs=3, default=(14, 14, 60), help="cells of the bar")
    parser.add_argument("--device", default="auto", help="auto, cuda:N or opencl:N")
    parser.add_argument("--tolerance", type=float, default=1e-8, help="of the residual, relative to the load")
    parser.add_argument("--most", type=int, default=2000, help="iterations at most")
    options = parser.parse_args(arguments)

    K, f, vertices = clamped_bar(tuple(options.cells))
    ways = {
        "multigrid, constants": None,
        "multigrid, three translations": rigid_motions(vertices, rotations=False),
        "multigrid, six rigid motions": rigid_motions(vertices),
    }
    print(f"{len(vertices)} vertices, {K.nnz} entries")
    print(f"{'':32}{'iterations':>11}{'residual':>10}{'set-up, s':>11}{'solve, s':>10}{'complexity':>12}")
    solutions = {"Jacobi's preconditioner": solve_with_jacobi(K, f, options.tolerance, options.most)}
    show("Jacobi's preconditioner", solutions["Jacobi's preconditioner"], K, f)
    for name, motions in ways.items():
        start = time.perf_counter()
        try:
            ml = repro.amg(K, motions, unknowns=1 if motions is None else 3, device=options.device)
        except ReproError as error:
            raise SystemExit(f"error: {error}") from None
        made = time.perf_counter()
        residuals: list[float] = []
        x = ml.solve(f, rtol=options.tolerance, maxiter=options.most, residuals=residuals)
        seconds = made - start, time.perf_counter() - made
        solutions[name] = Solution(x, len(residuals) - 1, *seconds, ml.operator_complexity())
        show(name, solutions[name], K, f)
    return solutions


def solve_with_jacobi(K: sp.csr_array, f: NDArray[Any], tolerance: float, most: int) -> Solution:
    """SciPy's conjugate gradients with the diagonal."""
    counted: list[None] = []
    start = time.perf_counter()
    inverse = sp.diags_array(1 / K.diagonal())
    x, _ = cg(K, f, rtol=tolerance, maxiter=most, M=inverse, callback=lambda _: counted.append(None))
    return Solution(x, len(counted), 0.0, time.perf_counter() - start, 1.0)


def show(name: str, solution: Solution, K: sp.csr_array, f: NDArray[Any]) -> None:
    """Print a line."""
    residual = np.linalg.norm(f - K @ solution.x) / np.linalg.norm(f)
    numbers = f"{solution.iterations:11}{residual:10.1e}{solution.set_up:11.3f}{solution.solve:10.3f}"
    print(f"{name:32}{numbers}{solution.complexity:12.2f}", flush=True)


if __name__ == "__main__":
    main()
