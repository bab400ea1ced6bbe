"""Advection by discontinuous Galerkin, and what the filter makes of its error: order 2P + 1 instead of P + 1.

    python examples/advection_siac.py --degree 2 --cells 8 16 32
    python examples/advection_siac.py --degree 1 --cells 20 40 80 160 --time 2 --device cuda:0

Solves u_t + a · ∇u = 0 on the periodic unit square, cut into N × N squares of two triangles each, with upwind fluxes
and without an error in time; filters the solution with h = 1 / N, and prints the errors of both in L².
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.sparse.linalg import expm_multiply

import repro
from repro.errors import ReproError
from repro.galerkin import collapsed, evaluate, exact_for, exponents, mode_count, to_monomials

Floats = NDArray[np.float64]
VELOCITY = np.array([1.0, 0.5])  # along no edge; a period takes 2
BASIS = "dubiner"  # orthonormal on the reference triangle
PIXELS = 200  # of a side of the maps, at most, if there are fewer squares
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])


class Errors(NamedTuple):
    """Of a solution before and after the filter, in L²."""

    cells: int
    galerkin: float
    filtered: float


def triangles_of(n: int) -> tuple[Floats, NDArray[np.int64]]:
    """Return vertices and triangles of n × n squares: of each the one below its diagonal, then of each that above."""
    y, x = np.meshgrid(*[np.arange(n + 1) / n] * 2, indexing="ij")
    first = (np.arange(n)[:, None] * (n + 1) + np.arange(n)).ravel()
    below = np.stack([first, first + 1, first + n + 2], axis=1)
    above = np.stack([first, first + n + 2, first + n + 1], axis=1)
    return np.stack([x.ravel(), y.ravel()], axis=1), np.concatenate([below, above])


def exact(points: Floats, time: float) -> Floats:
    """Return the solution at points `(…, 2)`: a smooth wave that is carried along."""
    x, y = np.moveaxis(points - time * VELOCITY, -1, 0)
    return np.asarray(np.sin(2 * np.pi * x) * np.cos(2 * np.pi * y))


def images(corners: Floats, reference: Floats) -> Floats:
    """Return where points of the reference triangle `(q, 2)` lie in each triangle: `(t, q, 2)`."""
    return np.asarray(corners[:, :1] + reference @ (corners[:, 1:] - corners[:, :1]))


def projected(corners: Floats, degree: int, time: float) -> Floats:
    """Return the modes of the projection of the solution, `(t, m)`."""
    rule = exact_for(2 * degree + 8, 2)
    return np.asarray((exact(images(corners, rule.points), time) * rule.weights) @ evaluate(BASIS, rule.points, degree))


def semidiscrete(corners: Floats, n: int, degree: int) -> sp.csr_array:
    """Return L of du/dt = L u, of the modes: ∫ u a · ∇φ over triangles less the upwind fluxes over their edges."""
    count, m = len(corners), mode_count(degree, 2)
    sides = corners[:, 1:] - corners[:, :1]
    twice_area = np.linalg.det(sides)
    everywhere = np.arange(count)
    # within: a · ∇φ in reference coordinates
    along = twice_area[:, None] * np.linalg.solve(sides.transpose(0, 2, 1), VELOCITY)
    rule = exact_for(2 * degree, 2)
    powers = exponents(degree, 2)
    slopes = [
        powers[:, axis] * np.prod(rule.points[:, None] ** np.maximum(powers - step, 0), axis=2)
        for axis, step in enumerate(np.eye(2, dtype=int))
    ]
    weighted = rule.weights[:, None] * evaluate(BASIS, rule.points, degree)
    within = np.stack([to_monomials(BASIS, degree, 2) @ slope.T @ weighted for slope in slopes])
    blocks = [(everywhere, everywhere, np.einsum("ta,aij->tij", along, within))]
    # across edges: the neighbour has the same middle, and goes along the edge the other way
    following = np.roll(corners, -1, axis=1)
    middles = np.rint((corners + following) * n).astype(int) % (2 * n)
    order = np.argsort(middles[..., 0] * 2 * n + middles[..., 1], axis=None)
    beside = np.empty(3 * count, int)
    beside[order[0::2]], beside[order[1::2]] = order[1::2], order[0::2]
    neighbour, its_edge = np.divmod(beside.reshape(-1, 3), 3)
    ways = following - corners
    fluxes = VELOCITY[0] * ways[..., 1] - VELOCITY[1] * ways[..., 0]
    line = collapsed(degree + 1)
    traces = np.stack(
        [evaluate(BASIS, CORNERS[e] + line.points * (CORNERS[(e + 1) % 3] - CORNERS[e]), degree) for e in range(3)]
    )
    for edge in range(3):
        tested = traces[edge].T * line.weights
        flux = fluxes[:, edge]
        out, into = everywhere[flux >= 0], everywhere[flux < 0]
        blocks.append((out, out, -flux[out, None, None] * (tested @ traces[edge])))
        upwind = traces[its_edge[into, edge], ::-1]
        blocks.append((into, neighbour[into, edge], -flux[into, None, None] * (tested @ upwind)))
    rows, columns, values = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    values = values / twice_area[rows, None, None]
    i, j = rows[:, None, None] * m + np.arange(m)[:, None], columns[:, None, None] * m + np.arange(m)
    places = (np.broadcast_to(i, values.shape).ravel(), np.broadcast_to(j, values.shape).ravel())
    return sp.csr_array(sp.coo_array((values.ravel(), places), shape=(count * m, count * m)))


def solve(n: int, degree: int, time: float) -> tuple[tuple[Floats, NDArray[np.int64]], Floats]:
    """Return the mesh, and the modes `(t, m)` at a time."""
    mesh = triangles_of(n)
    corners = mesh[0][mesh[1]]
    start = projected(corners, degree, 0.0)
    modes = expm_multiply(time * semidiscrete(corners, n, degree), start.ravel())
    return mesh, modes.reshape(start.shape)


def errors(n: int, degree: int, time: float, device: str) -> Errors:
    """Return both errors, integrated by quadrature."""
    mesh, modes = solve(n, degree, time)
    rule = exact_for(2 * degree + 4, 2)
    there = images(mesh[0][mesh[1]], rule.points)
    with repro.siac(mesh, degree, there.reshape(-1, 2), 1 / n, matrix=False, device=device) as smooth:
        filtered = (smooth @ modes.ravel()).reshape(there.shape[:2])
    galerkin = modes @ evaluate(BASIS, rule.points, degree).T
    wanted, area = exact(there, time), 1 / n**2  # twice a triangle's
    before, after = (np.sqrt(area * ((u - wanted) ** 2 @ rule.weights).sum()) for u in (galerkin, filtered))
    return Errors(n, float(before), float(after))


def values(modes: Floats, n: int, degree: int, points: Floats) -> Floats:
    """Return the unfiltered solution at points `(k, 2)` of the unit square."""
    square = np.clip(np.floor(points * n).astype(int), 0, n - 1)
    x, y = (points * n - square).T
    above = y > x
    reference = np.where(above[:, None], np.stack([x, y - x], axis=1), np.stack([x - y, y], axis=1))
    triangle = above * n * n + square[:, 1] * n + square[:, 0]
    return np.asarray((evaluate(BASIS, reference, degree) * modes[triangle]).sum(axis=1))


def draw(path: Path, n: int, degree: int, time: float, device: str) -> None:
    """Draw the errors over the square, and along a line."""
    mesh, modes = solve(n, degree, time)
    pixels = max(PIXELS // n, 1) * n  # each square has the same
    at = (np.arange(pixels) + 0.5) / pixels
    line = np.stack([np.linspace(0, 1, 8 * pixels), np.full(8 * pixels, 0.37)], axis=1)
    pictures = np.stack(np.meshgrid(at, at), axis=2).reshape(-1, 2)
    places = np.concatenate([pictures, line])
    with repro.siac(mesh, degree, places, 1 / n, matrix=False, device=device) as smooth:
        filtered = smooth @ modes.ravel()
    wanted = exact(places, time)
    both = {"discontinuous Galerkin": values(modes, n, degree, places) - wanted, "filtered": filtered - wanted}
    figure = Figure(figsize=(13, 4), layout="constrained")
    axes = figure.subplots(1, 3)
    largest = np.abs(both["discontinuous Galerkin"]).max()
    for axis, (name, error) in zip(axes, both.items(), strict=False):
        shown: Any = axis.imshow(
            np.log10(np.abs(error[: len(pictures)]).reshape(pixels, pixels) + 1e-300),
            origin="lower", extent=(0, 1, 0, 1), vmin=np.log10(largest) - 4, vmax=np.log10(largest),
        )  # fmt: skip
        axis.set(title=f"{name}: log₁₀ |error|", xlabel="x", ylabel="y")
        axes[2].plot(line[:, 0], error[len(pictures) :], label=name, linewidth=0.8)
    figure.colorbar(shown, ax=axes[:2])
    axes[2].set(title=f"error at y = {line[0, 1]}", xlabel="x", xlim=(0, 1))
    axes[2].legend()
    figure.suptitle(f"P = {degree}, {n} × {n} squares of two triangles, t = {time:g}")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def main(arguments: list[str] | None = None) -> list[Errors]:
    """Solve on each mesh, print and return the errors."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--degree", type=int, default=2, help="P, of the polynomials")
    parser.add_argument("--cells", type=int, nargs="+", default=(8, 16, 32), help="N of each mesh")
    parser.add_argument("--time", type=float, default=0.2, help="until when; the wave is back at 2")
    parser.add_argument("--device", default="auto", help="auto, cuda:N or opencl:N")
    parser.add_argument("--to", type=Path, default=Path("advection_siac.png"), help="the picture, of the last mesh")
    options = parser.parse_args(arguments)

    print(
        f"{'N':>5}{'Galerkin':>12}{'order':>7}{'filtered':>12}{'order':>7}   (theory: {options.degree + 1}, and ",
        end="",
    )
    print(f"{2 * options.degree + 1} at least)")
    table: list[Errors] = []
    try:
        for n in options.cells:
            table.append(errors(n, options.degree, options.time, options.device))
            show(table)
        draw(options.to, options.cells[-1], options.degree, options.time, options.device)
    except ReproError as error:
        raise SystemExit(f"error: {error}") from None
    print(f"{options.to}: both errors on the last mesh")
    return table


def order(coarse: Errors, fine: Errors, field: str) -> float:
    """Return the order of convergence between two meshes."""
    return float(np.log(getattr(coarse, field) / getattr(fine, field)) / np.log(fine.cells / coarse.cells))


def show(table: list[Errors]) -> None:
    """Print the last line."""
    last = table[-1]
    orders = [f"{order(table[-2], last, field):7.2f}" if len(table) > 1 else " " * 7 for field in Errors._fields[1:]]
    print(f"{last.cells:5}{last.galerkin:12.3e}{orders[0]}{last.filtered:12.3e}{orders[1]}", flush=True)


if __name__ == "__main__":
    main()
