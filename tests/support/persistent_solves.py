"""Solves by a persistent solver on any device, in natural order, and systems for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from repro.codegen.targets import DTYPES
from repro.problems.matrix import Matrix
from repro.sparse.operands import expand
from repro.sparse.solvers.kernels import PERSISTENT_BLOCK_SIZE
from repro.sparse.solvers.persistent import PersistentSolution, PersistentSolver, chip_room
from repro.sparse.solvers.slices import FORMS, LANES, Form, assign_rows, keep_slices
from support.symmetric_problems import symmetric_problem

#: Gives the module of a method, an entry and a precision, loaded on a device.
Load = Callable[[str, str, str], Any]


class PersistentSolve:
    """A persistent solver of a matrix on a device, whose blocks keep slices in `capacity` bytes; None: as many as there
    are. Other keys are those of `keep_slices` and `PersistentSolver`.
    """

    def __init__(
        self, device: Any, load: Load, matrix: Matrix, method: str, precision: str = "double",
        capacity: int | None = None, forms: tuple[Form, ...] = FORMS, **keys: Any,
    ) -> None:  # fmt: skip
        self.device, self.matrix, self.dtype = device, matrix, np.dtype(DTYPES[precision])
        n_t = PERSISTENT_BLOCK_SIZE[device.backend]
        self.slices = assign_rows(matrix, self.dtype, device.sm_count, n_t // LANES)
        program = load(method, matrix.entry, precision)
        room = chip_room(device) if capacity is None else capacity
        self.kept = keep_slices(self.slices, matrix.entry, room, forms)
        kernels = matrix.entry, precision
        self.solver = PersistentSolver(device, program, self.slices, method, kernels, self.kept, **keys)

    def __call__(
        self, b: Any, tolerance: float = 1e-10, max_iterations: int = 500, check_every: int | None = None, x0: Any = 0
    ) -> tuple[PersistentSolution, np.ndarray]:
        """Return the solution for a right side of n·k numbers, and x."""
        shape = self.slices.scale.shape
        for buffer, vector in ((self.solver.b, b), (self.solver.x, x0)):
            natural = np.broadcast_to(np.ravel(vector), shape[0] * shape[1]).reshape(shape).astype(self.dtype)
            self.device.write(buffer, natural[self.slices.rows])
        solution = self.solver.solve(tolerance, max_iterations, check_every)
        ordered, x = np.empty(shape, self.dtype), np.empty(shape, self.dtype)
        self.device.download(self.solver.x, ordered)
        x[self.slices.rows] = ordered
        return solution, x.ravel()


def as_matrix(matrix: Any) -> Matrix:
    """Return a real SciPy or NumPy matrix as a problem."""
    csr = sp.csr_array(matrix, dtype=float)
    csr.sort_indices()
    offsets, columns = csr.indptr.astype(np.int32), csr.indices.astype(np.int32)
    return Matrix("system", "real", csr.shape[0], offsets, columns, csr.data.reshape(-1, 1))


def laplacian(points: int, dimensions: int = 2, shift: float = 0.05) -> Matrix:
    """Return a finite difference Laplacian on a grid, positive definite."""
    one = sp.diags_array([-1.0, 2 + shift, -1.0], offsets=[-1, 0, 1], shape=(points, points))
    matrix = one
    for _ in range(dimensions - 1):
        matrix = sp.kronsum(one, matrix)
    return as_matrix(matrix)


def weighted(points: int, dimensions: int = 3) -> Matrix:
    """Return a Laplacian of a grid whose edges have random weights, positive definite: values repeat in pairs only."""
    adjacent = sp.tril(expand(grid := laplacian(points, dimensions), grid.values), -1).tocoo()
    weights = np.random.default_rng(points).uniform(0.5, 2, adjacent.nnz)
    lower = sp.coo_array((-weights, adjacent.coords), shape=adjacent.shape)
    both = sp.csr_array(lower + lower.T)
    return as_matrix(both + sp.diags_array(0.05 - both.sum(axis=1)))


def uneven(n: int = 900) -> Matrix:
    """Return a symmetric, diagonally dominant matrix whose rows have from 2 to n entries."""
    random = np.random.default_rng(n)
    hubs = sp.coo_array((np.full(n, 0.01), (np.full(n, 7), np.arange(n))), shape=(n, n))
    some = sp.random_array((n, n), density=0.01, rng=random)
    some = some.multiply(np.arange(n)[:, None] < n // 4)
    both = sp.csr_array(some + some.T + hubs + hubs.T)
    return as_matrix(both + sp.diags_array(1 + abs(both).sum(axis=1)))


def dominant(entry: str, kind: str, n: int = 300) -> Matrix:
    """Return a matrix of compound entries whose real expansion is symmetric and positive definite."""
    loose = symmetric_problem(entry, kind, n, diagonal=False)
    rows = np.repeat(np.arange(n), np.diff(loose.indptr))
    largest = abs(expand(loose, loose.values)).sum(axis=1).max()
    unit = np.zeros(loose.values.shape[1])
    unit[{"block3": [0, 4, 8]}.get(entry, [0])] = 1.1 * largest
    i, j = np.append(rows, np.arange(n)), np.append(loose.indices, np.arange(n))
    values = np.concatenate([loose.values, np.tile(unit, (n, 1))])
    order = np.lexsort((j, i))
    indptr = np.append(0, np.cumsum(np.bincount(i, minlength=n)))
    return replace(
        loose, indptr=indptr.astype(np.int32), indices=j[order].astype(np.int32), values=values[order], statistics={}
    ).validate()
