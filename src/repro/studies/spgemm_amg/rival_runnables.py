"""Rivals of this study: products of two matrices, and the solution of a system to the study's tolerance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import scipy.sparse as sp
from numpy.typing import NDArray

from repro.bench.runnable import Runnable, Workspace
from repro.config.models import Rival
from repro.sparse.rivals.runnables import RivalMultiplication, RivalSolution
from repro.studies.spgemm_amg import TOLERANCE, ProductName
from repro.studies.spgemm_amg.operands import Multiplied, Solves, factor_of, operands_of

#: Most iterations of a rival's solution.
MAX_ITERATIONS = 100_000


class RivalProduct(RivalMultiplication, Multiplied):
    """A product by a rival; it may leave out entries that cancel to zero."""

    drops = True

    def __init__(self, rival: Rival, product: ProductName) -> None:
        Multiplied.__init__(self)
        RivalMultiplication.__init__(self, rival)
        self.product = product
        self.name = f"{self.name}/{product}"

    @property
    def columns(self) -> Mapping[str, Any]:
        setup = {} if self.setup_seconds is None else {"preprocess": self.setup_seconds}
        return {"what": "product", "routine": self.label, "format": "csr", **setup, **super().columns}

    def prepare(self, workspace: Workspace) -> None:
        RivalMultiplication.prepare(self, workspace)
        amount, self.bytes_moved = operands_of(workspace).amount(self.product)
        self._amounts |= amount

    def _factors(self, workspace: Workspace) -> tuple[sp.csr_array, sp.csr_array]:
        a, b = factor_of(workspace, self.product)
        return a, b


class RivalSolver(RivalSolution, Solves):
    """A x = b by a rival, from x = 0 to the study's tolerance."""

    def __init__(self, rival: Rival) -> None:
        Solves.__init__(self)
        RivalSolution.__init__(self, rival)
        self.name = f"{self.name}/solve"

    @property
    def columns(self) -> Mapping[str, Any]:
        setup = {} if self.setup_seconds is None else {"preprocess": self.setup_seconds}
        taken = {} if self.iterations is None else {"iterations": self.iterations}
        return {"what": "solve", "routine": self.label, "format": "csr", **setup, **taken, **self._amounts}

    def prepare(self, workspace: Workspace) -> None:
        RivalSolution.prepare(self, workspace)
        a = operands_of(workspace).a
        self._amounts = {"rows": a.shape[0], "nonzeros": int(a.nnz)}

    def _system(self, workspace: Workspace) -> tuple[sp.csr_array, NDArray[Any], float, int]:
        operands = operands_of(workspace)
        return operands.a, operands.b, TOLERANCE, MAX_ITERATIONS


def rival_products(rivals: Sequence[Rival], product: ProductName) -> list[Runnable]:
    """Return the rivals for one of the study's products."""
    return [RivalProduct(rival, product) for rival in rivals if rival.of == "spgemm"]


def rival_solvers(rivals: Sequence[Rival]) -> list[Runnable]:
    """Return the rivals for the study's system."""
    return [RivalSolver(rival) for rival in rivals if rival.of == "solve"]
