"""The file of one problem of a campaign, and the record of it that tables read.

The step that builds a problem depends on the code of this module and of what it imports, so it imports nothing that
measures.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from repro.atomic_write import write_whole
from repro.config import Config
from repro.config.models import OwnProblem
from repro.errors import ReproError
from repro.problems.builder import build, find
from repro.problems.own_problems import describe_file
from repro.problems.problem import Problem, save_unavailable
from repro.problems.registry import MatrixItem, Registry, Spec
from repro.studies import study_facts


def build_problem(
    name: str, config: Config, path: Path, record: Path | None, registry: Registry | None = None
) -> Problem:
    """Build a problem into a file; with `record` write all but its arrays to a JSON file as well.

    Parameters
    ----------
    registry
        The configuration's, where it was read already.

    Raises
    ------
    ReproError
        The problem cannot be had or built, or a file cannot be written.
    """
    built = build(name, config, registry)
    _save(lambda: built.save(path), path)
    if record:
        _write_record(record, record_of(built))
    return built


def record_unavailable(
    name: str, config: Config, reason: str, path: Path, record: Path | None, registry: Registry | None = None
) -> None:
    """Write, in place of a problem, that it could not be had and why.

    Parameters
    ----------
    registry
        As for `build_problem`.

    Raises
    ------
    ReproError
        A file cannot be written.
    """
    item = find(name, config, registry)
    kind, entry = item.kind_of_problem, _entry(item, config)
    _save(lambda: save_unavailable(path, name, kind, entry, reason), path)
    if record:
        status = {"status": "unavailable", "reason": reason}
        _write_record(record, {"name": name, "kind": kind, "entry": entry, **status})


def _entry(item: Spec | OwnProblem, config: Config) -> str | None:
    """Return what the entries of a matrix would be, as the plan has it; `real` where even its file is gone."""
    if item.kind_of_problem != "matrix":
        return None
    if isinstance(item, MatrixItem):
        return item.entry
    assert isinstance(item, OwnProblem)  # items of the registry without an entry are no matrices
    try:
        return describe_file(item, config.limits).entry
    except ReproError:
        return item.entry or "real"


def record_of(built: Problem) -> dict[str, Any]:
    """Return what tables need to know of a problem, the facts that studies ask for included."""
    return {
        "name": built.name,
        "kind": built.kind,
        "status": "ok",
        **built.summary(),
        "checksum": built.checksum(),
        "origin": dict(built.origin),
        "statistics": dict(built.statistics),
        "facts": study_facts(built),
    }


def _save(write: Callable[[], None], path: Path) -> None:
    try:
        write()
    except OSError as error:
        raise ReproError(
            "cannot write the problem", where=path, actual=error, todo="make room there, or name another --output"
        ) from None


def _write_record(path: Path, record: Mapping[str, Any]) -> None:
    _save(lambda: write_whole(path, json.dumps(record, indent=1) + "\n"), path)
