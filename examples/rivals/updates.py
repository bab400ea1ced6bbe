"""A rival in Python whose matrix gets batches of entries: SciPy's own addition of two matrices, on the CPU.

A configuration names it as `python: "examples/rivals/updates.py:SciPySum"` with `of: updates`. `setup` gets a
`repro.sparse.rivals.problem.RivalProblem`, `update` adds a `RivalBatch` and is timed, `run` says what the matrix is.
"""

from __future__ import annotations

from typing import Any


class SciPySum:
    """A + B for each batch B, which SciPy first brings into rows."""

    def __init__(self) -> None:
        import scipy

        self.name, self.version = "SciPy", scipy.__version__
        self._problem: Any = None
        self._matrix: Any = None

    def setup(self, problem: Any) -> None:
        import scipy.sparse

        if problem.device is not None:
            raise NotImplementedError("SciPy is for the CPU")
        a = problem.a
        self._problem = problem
        self._matrix = scipy.sparse.csr_array((a.values, a.indices, a.offsets), shape=a.shape)

    def update(self, batch: Any) -> None:
        import scipy.sparse

        places = batch.rows, batch.columns
        self._matrix = self._matrix + scipy.sparse.coo_array((batch.values, places), shape=self._matrix.shape).tocsr()

    def run(self) -> None:
        c = self._matrix
        self._problem.c = c.indptr, c.indices, c.data

    def teardown(self) -> None:
        self._problem = self._matrix = None
