"""Launching a few runnables by name, for profilers and sanitizers: nothing is timed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from repro.bench.rows import Row
from repro.bench.timing import Effort
from repro.bench.trial import FAILURES
from repro.bench.yardsticks import Empty
from repro.campaign.folders import Folders, check_study
from repro.campaign.named import find_runnables
from repro.campaign.session import open_bench
from repro.codegen.common import COMMON, render_common
from repro.codegen.compile import MODULES, compile_module
from repro.codegen.precisions import DTYPES
from repro.codegen.targets import Target
from repro.config.models import Config
from repro.devices.open import resolve_device, target_of
from repro.errors import ReproError
from repro.problems.outline import Outline
from repro.problems.problem import Problem, Unavailable
from repro.studies import get_study


def launch(
    config: Config, study_name: str, name: str, precision: str, names: Sequence[str], launches: int
) -> list[Row]:
    """Prepare and verify each runnable, then launch them one after the other, so many times each.

    The empty kernel is launched before each and after the last: it marks in a profile where one begins.

    Returns
    -------
    A row a runnable in the order of their launches; without times.

    Raises
    ------
    ReproError
        Study, problem, precision or a runnable that there is not; or a runnable that cannot be run, is wrong, or writes
        outside of what is its own.
    """
    check_study(config, study_name)
    if precision not in DTYPES:
        raise ReproError("unknown precision", expected=f"one of {', '.join(DTYPES)}", actual=precision)
    study, folders = get_study(study_name), Folders(config, study_name, name, precision)
    try:
        problem = folders.load_problem()
    except Unavailable as reason:
        raise ReproError("the problem is unavailable", where=name, actual=reason.reason) from None
    target = target_of(resolve_device(config.device))
    runnables = find_runnables(config, study_name, outline_of(problem), precision, names, target, folders.study)
    _compile_common(config, target)
    rows = []
    with open_bench(config, study, name, study.operands(problem, precision, config.seed), folders) as bench:
        bench.workspace.resident = len(runnables)
        for runnable in runnables:
            try:
                bench.prepare(runnable)
                error = bench.check(runnable)
            except tuple(FAILURES) as failure:
                raise ReproError("a runnable cannot be launched", where=runnable.name, actual=failure) from None
            rows.append(bench.row(runnable, "search", Effort(launches), "ok", error=error))
        marker = Empty()
        bench.prepare(marker)
        for runnable in runnables:
            marker.launch()
            try:
                for _ in range(launches):
                    runnable.before()
                    runnable.launch()
                bench.devices.synchronize()
                bench.workspace.guards.check()
            except tuple(FAILURES) as failure:
                raise ReproError("a launch failed", where=runnable.name, actual=failure) from None
        marker.launch()
        bench.devices.synchronize()
        for runnable in runnables:
            runnable.release()
    return rows


def outline_of(problem: Problem) -> Outline:
    """Return what would be known of a built problem before it was built."""
    return Outline(problem.name, problem.kind, entry=problem.summary().get("entry"))


def _compile_common(config: Config, target: Target) -> None:
    """Compile the module that every campaign needs where no campaign has done so yet."""
    manifest = MODULES / target.name / f"{COMMON}.json"
    if not manifest.exists():
        compile_module(render_common(Path(config.kernels), target), target, manifest)
