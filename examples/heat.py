"""Heat that spreads over a mesh, in many time steps: a system with the same matrix in each, solved on the chip.

    python examples/heat.py --points 4000 --steps 50
    python examples/heat.py --points 200000 --steps 1000 --device cuda:0

Linear finite elements on triangles of a disc, whose rim is kept cold; implicit Euler steps (M + dt K) u' = M u by
conjugate gradients, begun at the step before. Once with SciPy's solver and product, once with all on the device.
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
from scipy.spatial import Delaunay

import repro


@dataclass(frozen=True)
class Cooled:
    """The disc after all steps: temperatures `(n,)`, iterations of all steps, and seconds."""

    temperature: NDArray[Any]
    iterations: int
    seconds: float


def disc(points: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return vertices `(v, 2)` of a spiral that fills the unit disc evenly, and triangles `(t, 3)` of them.

    The spiral's turns follow the golden ratio, so that no two triangles are alike.
    """
    number = np.arange(points) + 0.5
    radius, angle = np.sqrt(number / points), np.pi * (1 + np.sqrt(5)) * number
    vertices = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    order = np.lexsort((vertices[:, 0], np.floor(vertices[:, 1] * np.sqrt(points) / 4)))  # neighbours lie together
    vertices = vertices[order]
    return vertices, Delaunay(vertices).simplices


def assemble(vertices: NDArray[Any], triangles: NDArray[Any]) -> tuple[sp.csr_array, sp.csr_array]:
    """Return stiffness and mass of linear elements."""
    corners = vertices[triangles]
    edges = np.roll(corners, -2, axis=1) - np.roll(corners, -1, axis=1)  # opposite to each corner
    areas = 0.5 * np.abs(edges[:, 0, 0] * edges[:, 1, 1] - edges[:, 0, 1] * edges[:, 1, 0])
    stiff = np.einsum("tic,tjc->tij", edges, edges) / (4 * areas[:, None, None])
    heavy = areas[:, None, None] / 12 * (1 + np.eye(3))
    i, j = np.repeat(triangles, 3, axis=1), np.tile(triangles, 3)
    shape = (len(vertices), len(vertices))
    stiffness, mass = (
        sp.csr_array(sp.coo_array((values.reshape(len(triangles), 9).ravel(), (i.ravel(), j.ravel())), shape=shape))
        for values in (stiff, heavy)
    )
    return stiffness, mass


def cool(
    begin: NDArray[Any], mass: sp.csr_array, steps: int, solve: Callable[[NDArray[Any], NDArray[Any]], tuple[Any, int]]
) -> Cooled:
    """Do all time steps; `solve` takes right side and first guess, and returns the solution and its iterations."""
    u, iterations, start = begin, 0, time.perf_counter()
    for _ in range(steps):
        u, count = solve(mass @ u, u)
        iterations += count
    return Cooled(u, iterations, time.perf_counter() - start)


def main(arguments: list[str] | None = None) -> dict[str, Cooled]:
    """Cool the disc both ways, print and return what came of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--points", type=int, default=4000, help="vertices of the mesh")
    parser.add_argument("--steps", type=int, default=50, help="time steps")
    parser.add_argument("--seconds", type=float, default=0.05, help="of all steps, where 0.17 cool the disc by e")
    parser.add_argument("--tolerance", type=float, default=1e-8, help="of the residual, relative to the right side")
    parser.add_argument("--device", default="auto", help="auto, cuda:N or opencl:N")
    options = parser.parse_args(arguments)
    vertices, triangles = disc(options.points)
    rim = np.linalg.norm(vertices, axis=1) > 1 - 1 / np.sqrt(options.points)
    stiffness, mass = (matrix[~rim][:, ~rim] for matrix in assemble(vertices, triangles))
    matrix = sp.csr_array(mass + options.seconds / options.steps * stiffness)
    begin = np.ones(matrix.shape[0])

    def by_scipy(right: NDArray[Any], guess: NDArray[Any]) -> tuple[Any, int]:
        iterations = []
        scale = sp.diags_array(1 / matrix.diagonal())
        x, failed = cg(matrix, right, x0=guess, rtol=options.tolerance, M=scale, callback=iterations.append)
        assert not failed
        return x, len(iterations)

    with repro.operator(matrix, device=options.device) as operator:
        solver = operator.solver("cg")

        def on_chip(right: NDArray[Any], guess: NDArray[Any]) -> tuple[Any, int]:
            return solver.solve(right, guess, rtol=options.tolerance), solver.iterations

        print(f"{matrix.shape[0]} unknowns, {matrix.nnz} entries, {options.steps} steps on {operator.device_name}")
        print(f"of the matrix's {solver.nbytes / 1e6:.1f} MB {solver.kept / 1e6:.1f} stay in shared memory")
        cooled = {
            "SciPy": cool(begin, mass, options.steps, by_scipy),
            "on the chip": cool(begin, mass, options.steps, on_chip),
        }
    for name, result in cooled.items():
        hottest = result.temperature.max()
        print(f"{name:12} {result.seconds:8.3f} s, {result.iterations} iterations, hottest {hottest:.6f}")
    return cooled


if __name__ == "__main__":
    main()
