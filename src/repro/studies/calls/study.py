"""The contract of the study: it times calls of public functions, which the measuring command passes in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from repro.bench.rows import RecordedRow, Row
from repro.bench.runnable import Runnable, Workspace
from repro.codegen.targets import DTYPES, INDEX_BYTES, Target
from repro.config.models import StudySettings, UnusedLayouts, UnusedWeight
from repro.errors import IncorrectError
from repro.problems.matrix import Matrix
from repro.problems.problem import Outline, Problem
from repro.studies import CostModel, StepResult, Study, Workload
from repro.studies.calls import FUNCTIONS, REFERENCE, STUDY_NAME
from repro.tuning.session import Session


class CallRow(RecordedRow):
    #: Public function, library whose function is called, library of the arrays, and whether the result is a `new` array
    #: or is written to `out`.
    function: str | None
    library: str | None
    arrays: str | None
    result: str | None
    #: Rows and stored entries of the matrix.
    rows: int | None
    entries: int | None
    #: Median seconds of the kernel that the call launches, by the graph clock; None if it launches no fixed sequence.
    kernel_seconds: float | None


class CallsSettings(StudySettings):
    layouts: UnusedLayouts = "all"
    memory_weight: UnusedWeight = 0.0


@dataclass(frozen=True)
class CallOperands:
    """The matrix of a case. The calls make their own operands and know the error of their results."""

    problem: Matrix
    precision: str

    @property
    def checksum(self) -> str:
        return self.problem.checksum()

    @property
    def min_bytes(self) -> tuple[int, int]:
        number, (n, nnz) = DTYPES[self.precision]().nbytes, (self.problem.n, self.problem.nnz)
        return nnz * (number + INDEX_BYTES) + n * number, n * number

    @property
    def operations(self) -> int:
        return 2 * self.problem.nnz

    @property
    def columns(self) -> Mapping[str, Any]:
        return {"rows": self.problem.n, "entries": self.problem.nnz}

    def check(self, runnable: Runnable, workspace: Workspace) -> float | None:
        error: float | None = runnable.error() if runnable.kind == "call" else None  # type: ignore[attr-defined]
        if error is not None and error > 1:
            raise IncorrectError(f"the result is off by {error:.3g} times its bound", error)
        return error


class Calls(Study):
    """Calls of the package's public functions with arrays of each library, and the libraries' own calls."""

    name = STUDY_NAME
    title = "Calls of public functions"
    reference = REFERENCE
    settings = CallsSettings
    entries = ("real",)
    columns = CallRow.own_columns()
    outputs = ("report",)
    parts = FUNCTIONS
    targets = ("quantity", "wanted", "what")
    calls_module = "repro.operators.user_calls"
    highlights: Mapping[str, str] = {
        "table-calls": "each function, with arrays of each library",
        "figure-calls": "products, by the size of the matrix",
    }
    cost_models: Mapping[str, CostModel] = {
        "cuda": CostModel(case_seconds=15, memory=30),
        "opencl": CostModel(case_seconds=12, memory=30),
    }
    # they affect the times of this study alone
    packages = ("cupy-cuda12x", "cupy-cuda13x", "torch")

    def operands(self, problem: Problem, precision: str, seed: int) -> CallOperands:
        assert isinstance(problem, Matrix)
        return CallOperands(problem.require_product(), precision)

    def tunings(self, settings: StudySettings, problem: Outline) -> tuple[str, ...]:
        """Nothing is chosen."""
        return ()

    def measure(self, session: Session) -> Iterator[tuple[str, StepResult]]:
        """Time the calls of one function after the other; those of a function are timed in the same rounds."""
        assert session.user_calls is not None
        parts = self.parts_of(session.settings, session.precision)
        rows: list[Row] = []
        for calls in session.user_calls(session.problem, session.precision, parts, session.seed):
            rows += session.time_in_rounds(calls)
        yield "report", rows

    def workload(self, settings: StudySettings, problem: Outline, precision: str, target: Target) -> Workload:
        rows, nonzeros = problem.size or (0, 0)
        matrix = INDEX_BYTES * (rows + 1) + nonzeros * (INDEX_BYTES + DTYPES[precision]().nbytes)
        return Workload(1, 1, 40, matrix, matrix)


STUDY = Calls()
