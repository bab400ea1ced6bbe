"""The contract of the study: calls of public functions, which the measuring command passes in, as rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from repro.bench.rows import REPORT, Row
from repro.bench.runnable import Runnable, Workspace
from repro.bench.timing import Samples, full
from repro.bench.trial import FAILURES, Bench
from repro.bench.user_calls import OURS, CallTimes, Seconds, time_calls
from repro.codegen.targets import DTYPES, Target
from repro.config.models import StudySettings, UnusedLayouts, UnusedWeight
from repro.containment import text_of
from repro.problems.matrix import Matrix
from repro.problems.problem import Outline, Problem
from repro.studies import CostModel, StepResult, Study, Workload
from repro.studies.calls import PARTS, REFERENCE, STUDY_NAME
from repro.studies.calls.columns import CallRow
from repro.tuning.session import Session


class CallsSettings(StudySettings):
    layouts: UnusedLayouts = "all"
    memory_weight: UnusedWeight = 0.0


@dataclass(frozen=True)
class CallOperands:
    """What the rows say of a problem; the calls make their operands themselves, and check their results."""

    problem: Problem
    precision: str

    @property
    def checksum(self) -> str:
        return self.problem.checksum()

    @property
    def min_bytes(self) -> tuple[int, int]:
        rows, entries = _size(self.problem)
        return entries * DTYPES[self.precision]().nbytes, rows * DTYPES[self.precision]().nbytes

    @property
    def operations(self) -> int:
        return 2 * _size(self.problem)[1]

    @property
    def columns(self) -> Mapping[str, Any]:
        rows, entries = _size(self.problem)
        return {"rows": rows, "entries": entries}

    def check(self, runnable: Runnable, workspace: Workspace) -> float | None:
        """Nothing is verified here: a call was, before it was timed."""
        return None


def _size(problem: Problem) -> tuple[int, int]:
    if isinstance(problem, Matrix):
        return problem.n, problem.nnz * max(1, problem.values.shape[1])
    modes = problem.arrays()["modes"]
    return len(modes), modes.size


class TimedCall(Runnable):
    """A call that was timed, as the bench names it in a row."""

    kind = "call"
    clocks = ("host",)
    cold = False

    def __init__(self, times: CallTimes) -> None:
        self._times, self.name = times, times.call.name

    @property
    def columns(self) -> Mapping[str, Any]:
        call = self._times.call
        queued = self._times.queued
        seconds = {
            "queued_median": float(np.median(queued)),
            "queued_least": min(queued),
            "queued_largest": max(queued),
        } if queued else {}  # fmt: skip
        return {
            "function": call.function,
            "library": call.library,
            "arrays": call.arrays,
            "result": call.result,
            **seconds,
        }


class Calls(Study):
    """Calls of the package's public functions with arrays of each library, and the libraries' own calls."""

    name = STUDY_NAME
    title = "Calls"
    reference = REFERENCE
    settings = CallsSettings
    kinds = ("matrix", "field")
    columns = CallRow.own_columns()
    outputs = ("report",)
    parts = PARTS
    times_calls = True
    highlights: Mapping[str, str] = {
        "table-calls": "each function, with arrays of each library",
        "figure-calls": "products, from 500 rows to 4 million",
    }
    cost_models: Mapping[str, CostModel] = {
        "cuda": CostModel(case_seconds=8, other_seconds=4, memory=20),
        "opencl": CostModel(case_seconds=15, other_seconds=20),
    }
    # they affect the times of this study alone
    packages = ("cupy-cuda12x", "cupy-cuda13x", "torch")

    def operands(self, problem: Problem, precision: str, seed: int) -> CallOperands:
        return CallOperands(problem, precision)

    def tunings(self, settings: StudySettings, problem: Outline) -> tuple[str, ...]:
        """Nothing is chosen."""
        return ()

    def measure(self, session: Session) -> Iterator[tuple[str, StepResult]]:
        """Time one group of calls after the other."""
        assert session.user_calls is not None
        parts = self.parts_of(session.settings, session.precision)
        rows: list[Row] = []
        for group in session.user_calls(session.problem, session.precision, parts, session.seed):
            session.progress(group.calls[0].function, len(rows), len(rows) + len(group.calls))
            times = time_calls(group.calls, session.seed)
            kernel = None if group.kernel is None else group.kernel()
            rows += [_row(session.bench, item, kernel if item.call.library == OURS else None) for item in times]
        yield "report", rows

    def workload(self, settings: StudySettings, problem: Outline, precision: str, target: Target) -> Workload:
        rows, nonzeros = problem.size or (0, 0)
        matrix = 4 * (rows + 1) + nonzeros * (4 + DTYPES[precision]().nbytes)
        return Workload(1, 1, 0, matrix, matrix)


STUDY = Calls()


def _row(bench: Bench, times: CallTimes, kernel: Seconds | None) -> Row:
    effort, runnable = full(bench.timing), TimedCall(times)
    if times.failure is not None and isinstance(times.failure, tuple(FAILURES)):
        return bench.failure_row(runnable, REPORT, effort, times.failure)
    if times.failure is not None:
        return bench.row(
            runnable, REPORT, effort, "launch_error" if times.call.library == OURS else "unsupported",
            message=f"{type(times.failure).__name__}: {text_of(times.failure)}",
        )  # fmt: skip
    rounds: list[dict[str, Seconds]] = [{"host": seconds} for seconds in times.waited]
    seconds = {"host": np.concatenate(times.waited)}
    if kernel is not None:
        rounds[0]["graph"] = seconds["graph"] = kernel
    samples = Samples(seconds, rounds=len(rounds), joined=tuple(rounds))
    return bench.measured_row(runnable, REPORT, effort, samples, error=times.error)
