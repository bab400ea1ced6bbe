"""What is missing from a campaign: problems that could not be had, modules that do not compile, rows that failed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro.bench.recorded import read_rows
from repro.campaign.plan import Plan
from repro.errors import ReproError

#: What a row may say without anything having gone wrong: that this cannot be run here, or that its time is no good.
HARMLESS = frozenset({"ok", "unsupported", "out_of_memory", "timeout", "noisy", "unstable"})
#: What is read of a row, if it has it.
COLUMNS = ("problem", "precision", "name", "status", "message")


@dataclass(frozen=True)
class Missing:
    """One thing that a campaign lacks.

    Attributes
    ----------
    what, reason
        Its name, and why it is missing.
    again
        File to delete so that the next run tries it again; None where only an edit can help.
    """

    what: str
    reason: str
    again: Path | None = None


def find_missing(plan: Plan) -> list[Missing]:
    """Return all that the records of a campaign say is missing.

    Raises
    ------
    ReproError
        A record is damaged.
    """
    return [*_problems(plan), *_modules(plan), *_rows(plan)]


def _problems(plan: Plan) -> Iterator[Missing]:
    for name in plan.problems:
        record = _record(plan, name)
        if record is None:
            yield Missing(f"problem {name}", "not built")
        elif record["status"] != "ok":
            yield Missing(f"problem {name}", record["reason"], Path(plan.results, "problems", f"{name}.npz"))


def _modules(plan: Plan) -> Iterator[Missing]:
    for manifest in plan.all_manifests:
        module = _read(Path(manifest))
        if module is None:
            yield Missing(f"module {manifest}", "not compiled")
        elif module["status"] != "ok":
            yield Missing(f"module {manifest}", module["message"], Path(manifest))


def _rows(plan: Plan) -> Iterator[Missing]:
    raw = Path(plan.results, "raw")
    measured = {
        (study, step): _cases(raw / study, Path(step).stem) for study in plan.studies for step in plan.steps(study)
    }
    for study, problem, precision in plan.runs:
        case = f"{study} on {problem}, {precision}"
        for step in plan.steps(study):
            path = raw / study / problem / precision / step
            rows = measured[study, step].get((problem, precision), [])
            if not (rows or path.exists()):
                yield Missing(case, f"not measured: no {path}")
                continue
            refused = next((row for row in rows if row.get("status") == "unavailable"), None)
            if refused:  # the files of all steps say so; where the problem could not be had it is named already
                if _is_built(plan, problem):
                    yield Missing(case, refused["message"])
                break
            yield from _failed(f"{case} ({path.stem})", rows)


def _cases(study: Path, step: str) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Return the rows of a step, merged or not, by problem and precision."""
    rows = read_rows(study, step)
    cases: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows.select([column for column in COLUMNS if column in rows.column_names]).to_pylist():
        cases.setdefault((row["problem"], row["precision"]), []).append(row)
    return cases


def _failed(what: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[Missing]:
    """Count the rows that failed by their status; modules that do not compile are named already."""
    failed = [row for row in rows if row.get("status", "ok") not in HARMLESS | {"compile_error"}]
    for status, count in sorted(Counter(row["status"] for row in failed).items()):
        first = next(row for row in failed if row["status"] == status)
        words = f"{count} rows {status}, the first {first['name']}"
        yield Missing(what, f"{words}: {first['message']}" if first["message"] else words)


def _is_built(plan: Plan, problem: str) -> bool:
    record = _record(plan, problem)
    return record is not None and record["status"] == "ok"


def _record(plan: Plan, problem: str) -> dict[str, Any] | None:
    return _read(Path(plan.results, "raw", "problems", f"{problem}.json"))


def _read(path: Path) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ReproError(
            "a record is damaged", where=path, actual=error, todo="delete it and run the campaign again"
        ) from None
    return record
