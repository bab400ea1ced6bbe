"""Matrices to multiply and to set multigrid up for, as problems; for the tests of both kinds of device."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import scipy.sparse as sp

from repro.codegen.targets import DTYPES
from repro.problems.matrix import Matrix
from repro.sparse.device_primitives import ModuleFile
from repro.sparse.multigrid import reference
from repro.sparse.spgemm.kernels import LIMITS
from repro.studies.spgemm_amg.operands import AmgOperands, SolveRunnable, SpgemmRunnable
from repro.studies.spgemm_amg.runnables_products import ChosenKernels, Refill, SingleKernel, StoredRefill, WholeProduct
from repro.studies.spgemm_amg.runnables_setup import LevelSetUp, SetUp, Solution
from repro.studies.spgemm_amg.study import products_of
from support.products_by_shape import five_point

#: A node's block: 3x3, symmetric and positive definite.
BLOCK = np.array([[4.0, 1, 0.5], [1, 3, -1], [0.5, -1, 5]])


def as_problem(matrix: sp.csr_array, name: str = "small") -> Matrix:
    """Return a SciPy matrix as a problem of real numbers."""
    matrix = sp.csr_array(matrix, dtype=np.float64)
    matrix.sort_indices()
    rows, columns = matrix.shape
    return Matrix(
        name,
        "real",
        rows,
        matrix.indptr.astype(np.int32),
        matrix.indices.astype(np.int32),
        matrix.data.reshape(-1, 1),
        columns=columns,
    )


def of_blocks(side: int) -> tuple[Matrix, sp.csr_array]:
    """Return Poisson's equation with three unknowns a node as a problem of blocks, and as the matrix that it is."""
    scalar = five_point(side)
    scalar.sort_indices()
    values = scalar.data[:, None] * BLOCK.reshape(1, 9)
    problem = Matrix(
        "blocks", "block3", side**2, scalar.indptr.astype(np.int32), scalar.indices.astype(np.int32), values
    )
    return problem, sp.csr_array(sp.kron(scalar, BLOCK))


def with_rows_of_all_sizes(seed: int = 4) -> sp.csr_array:
    """Return a square matrix with rows of one entry to hundreds, its diagonal dominant."""
    generator = np.random.default_rng(seed)
    n, lengths = 400, np.minimum(generator.pareto(0.8, 400) * 3 + 1, 250).astype(int)
    off = sp.csr_array(
        (
            generator.uniform(-1, 1, lengths.sum()),
            np.concatenate([np.sort(generator.choice(n, length, replace=False)) for length in lengths]),
            np.concatenate([[0], np.cumsum(lengths)]),
        ),
        shape=(n, n),
    )
    return sp.csr_array(off + sp.diags_array(abs(off).sum(axis=1) + 1.0))


PROBLEMS = {
    "five points": as_problem(five_point(20)),
    "blocks": of_blocks(9)[0],
    "rows of all sizes": as_problem(with_rows_of_all_sizes() + with_rows_of_all_sizes().T),
    "not made coarser": as_problem(five_point(7)),
    "one row": as_problem([[2.0]]),
}


def only_multiplied(a: sp.csr_array, precision: str = "double") -> AmgOperands:
    """Return operands of a matrix that no hierarchy is made for: of A A alone."""
    a = sp.csr_array(a, dtype=DTYPES[precision])
    a.sort_indices()
    return AmgOperands("small", precision, (reference.HostLevel(a),), 1, np.ones((a.shape[0], 1)), 1, "none")


def around_limits() -> tuple[sp.csr_array, list[int]]:
    """Return a square matrix, and how many products its first rows of A A have: around each limit of a bin.

    They have an entry fewer than products. Row i of them meets itself, of two entries, and one other row, whose entries
    meet rows of one entry.
    """
    wanted = sorted(limit + more for limit in LIMITS for more in (-1, 0, 1, 2))
    k, n = len(wanted), 2 * len(wanted) + LIMITS[-1]
    generator = np.random.default_rng(3)
    rows, columns = [np.arange(n), np.arange(k)], [np.arange(n), k + np.arange(k)]
    for i, count in enumerate(wanted):
        columns.append(np.sort(2 * k + generator.choice(n - 2 * k, count - 3, replace=False)))
        rows.append(np.full(count - 3, k + i))
    row, column = np.concatenate(rows), np.concatenate(columns)
    return sp.csr_array((generator.uniform(0.5, 1.5, len(row)), (row, column)), shape=(n, n)), wanted


def runnables(
    built: Mapping[str, ModuleFile], operands: AmgOperands
) -> list[SpgemmRunnable | SetUp | LevelSetUp | SolveRunnable]:
    """Return our runnables of a case except those of bins: each way to each product, set-ups, levels, the solution."""
    products = [runnable for name in operands.products for runnable in products_of(built, name, ChosenKernels())]
    single = {SingleKernel} if "single-exact" in built else set()
    assert {type(runnable) for runnable in products} == {WholeProduct, Refill, StoredRefill} | single
    levels = [LevelSetUp(built, level) for level in range(len(operands.levels) - 1)]
    return [
        *products,
        SetUp(built, "default"),
        SetUp(built, "sort"),
        SetUp(built, "coordinates"),
        *levels,
        Solution(built),
    ]
