"""The transitive closure of a program's graph, as an analysis that asks what can reach what derives it, edge by edge.

Blocks of a program are vertices; control flows from a block to its successors, from a call to the function's first
block, and from its last block back behind the call. Column j of the matrix R has the blocks that reach j. As long as
the product of R and such a column has blocks that the column lacks, these are inserted. The matrix changes after every
few products, so it is kept twice: as `repro.DynamicCSR`, which takes the derived edges in where it lies, and as CSR of
SciPy, which is built anew for each insertion.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import shortest_path

import repro
from repro.errors import ReproError

Vertices = NDArray[np.int64]


class Closing(Protocol):
    """A matrix of ones that edges are added to."""

    def multiply(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the product with vectors `(n, k)`."""

    def insert(self, rows: Vertices, columns: Vertices) -> None:
        """Add edges, those that are there among them."""

    def result(self) -> sp.csr_array:
        """Return the matrix."""


class Dynamic:
    """As dynamic CSR on a device."""

    def __init__(self, edges: sp.csr_array, device: str) -> None:
        self._matrix = repro.DynamicCSR.from_csr(edges, slack=32, device=device)
        self.device_name = self._matrix.device_name

    def multiply(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the product with vectors."""
        return np.stack([self._matrix @ vector for vector in np.ascontiguousarray(vectors.T)], axis=1)

    def insert(self, rows: Vertices, columns: Vertices) -> None:
        """Add edges where they are not there yet."""
        self._matrix.insert(rows, columns, 1.0, mode="unique")

    def result(self) -> sp.csr_array:
        """Bring the matrix to the host."""
        return self._matrix.to_scipy()


class Rebuilt:
    """As CSR on the host, which cannot take anything in."""

    def __init__(self, edges: sp.csr_array) -> None:
        self._matrix = edges.copy()

    def multiply(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the product with vectors."""
        product: NDArray[np.float64] = self._matrix @ vectors
        return product

    def insert(self, rows: Vertices, columns: Vertices) -> None:
        """Build the sum of the matrix and the edges."""
        edges = sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=self._matrix.shape)
        self._matrix = sp.csr_array(self._matrix + edges)
        self._matrix.data[:] = 1

    def result(self) -> sp.csr_array:
        """Return the matrix."""
        return self._matrix


@dataclass(frozen=True)
class Closure:
    """What a fixed point came to.

    Attributes
    ----------
    matrix
        The closure.
    rounds, insertions
        Over all columns that were not complete, and of how many batches.
    products, changes
        Seconds of multiplying and of inserting.
    """

    matrix: sp.csr_array
    rounds: int
    insertions: int
    products: float
    changes: float


def program_graph(functions: int, blocks: int, seed: int) -> sp.csr_array:
    """Return the edges of a made-up program: functions of about so many blocks that branch, loop, call and return."""
    random = np.random.default_rng(seed)
    sizes = random.integers(2, 2 * blocks, functions)
    ends = np.cumsum(sizes)
    starts = ends - sizes
    edges: list[tuple[int, int]] = []
    for function, (start, end) in enumerate(zip(starts, ends, strict=True)):
        for block in range(start, end - 1):
            edges.append((block, block + 1))
            draw = random.uniform()
            if draw < 0.3:  # a branch
                edges.append((block, int(random.integers(block + 1, end))))
            elif draw < 0.4:  # a loop
                edges.append((block, int(random.integers(start, block + 1))))
            elif draw < 0.5 and function + 1 < functions:  # a call of one of the functions that come next
                called = int(random.integers(function + 1, min(function + 5, functions)))
                edges += [(block, int(starts[called])), (int(ends[called]) - 1, block + 1)]
    rows, columns = np.array(edges).T
    matrix = sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=(ends[-1], ends[-1]))
    matrix.data[:] = 1
    return matrix


def close(matrix: Closing, n: int, at_once: int) -> Closure:
    """Insert what products derive until there is nothing new.

    Each column is multiplied until it has all blocks that the product reaches: as R holds the program's edges, nothing
    leads to the column from outside then, and it is complete.

    Parameters
    ----------
    n
        Vertices.
    at_once
        Columns that are multiplied before what they derive is inserted.
    """
    left = np.arange(n)
    rounds = insertions = 0
    products = changes = 0.0
    while len(left):
        rounds += 1
        grown: list[Vertices] = []
        for first in range(0, len(left), at_once):
            of_block = left[first : first + at_once]
            start = time.perf_counter()
            unit = np.zeros((n, len(of_block)))
            unit[of_block, np.arange(len(of_block))] = 1
            there = matrix.multiply(unit)
            derived = matrix.multiply(there) > 0
            lacking = (derived & (there == 0)).any(axis=0)
            products += time.perf_counter() - start
            if not lacking.any():
                continue
            rows, which = np.nonzero(derived[:, lacking])
            start = time.perf_counter()
            matrix.insert(rows, of_block[lacking][which])
            changes += time.perf_counter() - start
            insertions += 1
            grown.append(of_block[lacking])
        left = np.concatenate(grown) if grown else left[:0]
    return Closure(matrix.result(), rounds, insertions, products, changes)


def expected(edges: sp.csr_array) -> NDArray[np.bool_]:
    """Return which vertices are reached in at least one step, by SciPy's search."""
    within: NDArray[np.bool_] = np.isfinite(shortest_path(edges, unweighted=True))
    reached: NDArray[np.bool_] = edges @ within.astype(np.float64) > 0
    return reached


def main(arguments: list[str] | None = None) -> dict[str, Closure]:
    """Close, check, print and return what it came to both ways."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--functions", type=int, default=50, help="functions of the program")
    parser.add_argument("--blocks", type=int, default=12, help="blocks of a function, about")
    parser.add_argument("--columns", type=int, default=16, help="columns multiplied before an insertion")
    parser.add_argument("--seed", type=int, default=1, help="of the program")
    parser.add_argument("--device", default="auto", help="auto, cuda:N or opencl:N")
    options = parser.parse_args(arguments)

    edges = program_graph(options.functions, options.blocks, options.seed)
    n = edges.shape[0]
    try:
        dynamic = Dynamic(edges, options.device)
    except ReproError as error:
        raise SystemExit(f"error: {error}") from None
    # compiled and loaded before the clock starts, on a matrix of its own
    close(Dynamic(edges[:2, :2], options.device), 2, 1)
    ways: dict[str, Callable[[], Any]] = {
        f"dynamic CSR, {dynamic.device_name}": lambda: dynamic,
        "CSR built anew, SciPy": lambda: Rebuilt(edges),
    }
    reached = expected(edges)
    print(f"{n} blocks of {options.functions} functions, {edges.nnz} edges; {reached.sum()} in the closure")
    print(f"{'':44}{'rounds':>8}{'insertions':>12}{'products':>12}{'insertions':>12}")
    closures = {}
    for name, begin in ways.items():
        closures[name] = closure = close(begin(), n, options.columns)
        if ((closure.matrix.toarray() > 0) != reached).any():
            raise SystemExit(f"error: {name}: this is not the closure that scipy.sparse.csgraph has")
        seconds = f"{closure.products:10.3f} s{closure.changes:10.3f} s"
        print(f"{name:44}{closure.rounds:8}{closure.insertions:12}{seconds}")
    ours, theirs = closures.values()
    print(f"SciPy's insertions take {theirs.changes / ours.changes:.2f} times as long; both are the closure of csgraph")
    return closures


if __name__ == "__main__":
    main()
