"""Building the file of one problem, and its record for tables.

Problems are rebuilt after an edit of this module or its imports, so it does not import measuring code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from repro.config.models import Config, OwnProblem
from repro.errors import ReproError
from repro.filesystem import write_whole
from repro.problems.builder import build, find
from repro.problems.own_problems import describe_file
from repro.problems.problem import Problem, save_unavailable
from repro.problems.registry import MatrixItem, ProblemSpec, Registry
from repro.studies import study_facts


def build_problem(
    name: str, config: Config, path: Path, record: Path | None, registry: Registry | None = None
) -> Problem:
    """Build a problem and write its file; if `record` is given, write everything but arrays to this JSON file."""
    problem = build(name, config, registry)
    _save(lambda: problem.save(path), path)
    if record:
        _write_record(record, record_of(problem))
    return problem


def record_unavailable(
    name: str, config: Config, reason: str, path: Path, record: Path | None, registry: Registry | None = None
) -> None:
    """Write a file with the reason why a problem is unavailable, in place of the problem."""
    item = find(name, config, registry)
    kind, entry = item.kind_of_problem, _entry(item, config)
    _save(lambda: save_unavailable(path, name, kind, entry, reason), path)
    if record:
        status = {"status": "unavailable", "reason": reason}
        _write_record(record, {"name": name, "kind": kind, "entry": entry, **status})


def _entry(item: ProblemSpec | OwnProblem, config: Config) -> str | None:
    """Return the entry type of a matrix as in the plan; `real` if its file is missing; None for other problems."""
    if item.kind_of_problem != "matrix":
        return None
    if isinstance(item, MatrixItem):
        return item.entry
    assert isinstance(item, OwnProblem)  # matrices of the registry state their entry type, so this is a user's file
    try:
        return describe_file(item, config.limits).entry
    except ReproError:
        return item.entry or "real"


def record_of(problem: Problem) -> dict[str, Any]:
    """Return the record of a problem for tables, with the additional data (facts) for each study."""
    return {
        "name": problem.name,
        "kind": problem.kind,
        "status": "ok",
        **problem.summary(),
        "checksum": problem.checksum(),
        "origin": dict(problem.origin),
        "statistics": dict(problem.statistics),
        "facts": study_facts(problem),
    }


def _save(write: Callable[[], None], path: Path) -> None:
    try:
        write()
    except OSError as error:
        raise ReproError(
            "cannot write the problem", where=path, actual=error, todo="free some space, or name another --output"
        ) from None


def _write_record(path: Path, record: Mapping[str, Any]) -> None:
    _save(lambda: write_whole(path, json.dumps(record, indent=1) + "\n"), path)
