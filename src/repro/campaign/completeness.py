"""What is missing from a campaign: problems that could not be had, modules that do not compile, failed rows.

A job that measures a case, or a batch of them, asks here which of its problems and cases are stale, and writes the
receipt of each case with what failed in it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from repro.bench.records import read_problem_of
from repro.bench.rows import TIMED
from repro.bench.store import distinct_cases, read_case, read_rows
from repro.campaign.measurement import environments_of
from repro.campaign.plan import Plan
from repro.campaign.receipts import making
from repro.campaign.steps import CHECK, Freshness, building, measuring, until_measured
from repro.codegen.build_cache import Module
from repro.studies import get_study

#: What a row may say without anything having gone wrong, as long as its case has its winners: that this cannot be run
#: here, or that its time is no good.
HARMLESS = {*TIMED, "unsupported", "unstable", "out_of_memory", "timeout"}
#: What is read of a row, if it has it.
COLUMNS = ("problem", "precision", "name", "status", "message", "tuning", "backend")
CHOICES = "choices"


@dataclass(frozen=True)
class Missing:
    """One thing that a campaign lacks.

    Attributes
    ----------
    what, reason
        Its name, and why it is missing.
    remark
        Whether the campaign is complete without it.
    """

    what: str
    reason: str
    remark: bool = False


def find_missing(plan: Plan, freshness: Freshness | None = None) -> list[Missing]:
    """Return all that the records of a campaign say is missing, and all that is not what its plan asks for.

    A time on a CPU that something disturbed is a remark: a CPU's cores are shared with everything else, some of its
    kernels take either of two times for seconds, and no figure stands on it.

    Parameters
    ----------
    plan
        Of the campaign.
    freshness
        The campaign as it lies on disk, where that was looked at already.

    Raises
    ------
    ReproError
        A record is damaged.
    """
    missing = [*_problems(plan), *_modules(plan), *_rows(plan)]
    if not plan.config.replay:
        missing += _outdated(plan, freshness or Freshness(plan), named=not all(part.remark for part in missing))
    return missing


def find_missing_of_case(plan: Plan, study: str, problem: str, precision: str) -> list[Missing]:
    """Return all that is missing of one case that was measured, as `find_missing` does; no other case is looked at."""
    folder = Path(plan.results, "raw", study)
    rows = {Path(step).stem: read_case(folder, Path(step).stem, problem, precision) for step in plan.steps(study)}
    return [*_of_run(plan, (study, problem, precision), rows)]


def _outdated(plan: Plan, freshness: Freshness, named: bool) -> Iterator[Missing]:
    """Name what is not what its receipt says or the plan asks for; what is kept as a record has no receipt any more.

    Parameters
    ----------
    named
        Whether all that failed is named already, and need not be by its receipt.
    """
    recorded = {measuring(plan, *run).name for run in plan.runs if _is_recorded(plan, *run)}
    for name, reason in (freshness.unlike or ({} if named or recorded else freshness.stale)).items():
        if name not in {CHECK, *recorded}:
            yield Missing(name, reason)


def _is_recorded(plan: Plan, study: str, problem: str, precision: str) -> bool:
    raw = Path(plan.results, "raw", study)
    steps = plan.steps(study)
    own = (raw / problem / precision / step for step in steps)
    return (raw / steps[0]).exists() and not any(path.exists() for path in own)


def _problems(plan: Plan) -> Iterator[Missing]:
    for name in plan.problems:
        record = _record(plan, name)
        if record is None:
            yield Missing(f"problem {name}", "not built")
        elif record.get("status", "ok") != "ok":
            yield Missing(f"problem {name}", record.get("reason") or "it is not said why")


def _modules(plan: Plan) -> Iterator[Missing]:
    for manifest in plan.all_manifests:
        if not os.path.lexists(manifest):
            yield Missing(f"module {manifest}", "not compiled")
        elif (module := Module.load(Path(manifest))).status != "ok":
            yield Missing(f"module {manifest}", module.message or "it is not said why")


def _rows(plan: Plan) -> Iterator[Missing]:
    raw = Path(plan.results, "raw")
    measured = {
        (study, step): _cases(raw / study, Path(step).stem) for study in plan.studies for step in plan.steps(study)
    }
    for study, problem, precision in plan.runs:
        steps = {Path(step).stem: measured[study, step].get((problem, precision)) for step in plan.steps(study)}
        yield from _of_run(plan, (study, problem, precision), steps)


def _of_run(
    plan: Plan, run: tuple[str, str, str], steps: Mapping[str, Sequence[Mapping[str, Any]] | None]
) -> Iterator[Missing]:
    """Name what is missing of a case, by those rows of its steps that may say so; None of a step without any row."""
    study, problem, precision = run
    case = f"{study} on {problem}, {precision}"
    rows: dict[Path, Sequence[Mapping[str, Any]]] = {}
    for step, there in steps.items():
        path = Path(plan.results, "raw", study, problem, precision, f"{step}.parquet")
        if there is not None or path.exists():
            rows[path] = there or []
        else:
            yield Missing(case, f"not measured: no {path}")
    refused = [row for step in rows.values() for row in step if row.get("status") == "unavailable"]
    if not refused:
        yield from _of_case(plan, study, problem, case, rows)
    elif _is_built(plan, problem):  # where the problem could not be had it is named already
        yield Missing(case, refused[0]["message"])  # the files of all steps say so


def _of_case(
    plan: Plan, study: str, problem: str, case: str, rows: Mapping[Path, Sequence[Mapping[str, Any]]]
) -> Iterator[Missing]:
    """Name what went wrong in a case: tunings without a winner, and the rows that failed, by step.

    Parameters
    ----------
    case
        What it is called in a message.
    rows
        Of each step, by its file.
    """
    choices = [row for path, step in rows.items() if path.stem == CHOICES for row in step]
    contract = get_study(study)
    chooses = CHOICES in contract.outputs
    wanted = contract.tunings(plan.studies[study].settings, plan.problems[problem]) if chooses else ()
    unchosen = [tuning for tuning in wanted if tuning not in {choice.get("tuning") for choice in choices}]
    if unchosen and len(rows) == len(plan.steps(study)):
        searched = next(iter(rows.values()))
        lost = [row for row in searched if row.get("status") not in TIMED]
        reason = "; ".join(_counted(lost)) or "no row that it could be has a time"
        yield Missing(case, f"no winner of {', '.join(unchosen)}: {reason}")
    winners = {choice["name"] for choice in choices}
    for path, step in rows.items():
        yield from _failed(f"{case} ({path.stem})", step, winners)


def _cases(study: Path, step: str) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Return by problem and precision the rows of a step, merged or not: the choices, or those without a time."""
    rows = read_rows(study, step)
    cases: dict[tuple[str, str], list[dict[str, Any]]] = {case: [] for case in distinct_cases(rows)}
    if step != CHOICES and "status" in rows.column_names:  # of 100,000 rows that have a time nothing is said
        rows = rows.filter(pc.invert(pc.is_in(rows["status"], pa.array(sorted(TIMED)))))
    for row in rows.select([column for column in COLUMNS if column in rows.column_names]).to_pylist():
        cases[row["problem"], row["precision"]].append(row)
    return cases


def _failed(what: str, rows: Sequence[Mapping[str, Any]], winners: Container[str]) -> Iterator[Missing]:
    """Count the rows that failed by their status; modules that do not compile are named already.

    Parameters
    ----------
    winners
        Names of rows that have to have a time.
    """
    failed = [
        row
        for row in rows
        if (status := row.get("status") or "ok") not in TIMED
        and status != "compile_error"
        and (status not in HARMLESS or row["name"] in winners)
    ]
    for remark in (False, True):
        for words in _counted([row for row in failed if _is_remark(row) is remark]):
            yield Missing(what, words, remark)


def _is_remark(row: Mapping[str, Any]) -> bool:
    return row["status"] == "disturbed" and row.get("backend") == "opencl"


def _counted(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Say how many rows there are of each status, with the first one's name and the first line of its message."""
    for status, count in sorted(Counter(row["status"] for row in rows).items()):
        first = next(row for row in rows if row["status"] == status)
        words = f"{count} rows {status}, the first {first['name']}"
        yield f"{words}: {first['message'].splitlines()[0]}" if first["message"] else words


def _is_built(plan: Plan, problem: str) -> bool:
    record = _record(plan, problem)
    return record is not None and record.get("status", "ok") == "ok"


def _record(plan: Plan, problem: str) -> dict[str, Any] | None:
    try:
        return read_problem_of(Path(plan.results, "raw", "problems"), problem)
    except FileNotFoundError:
        return None


@contextmanager
def making_case(plan: Plan, study: str, problem: str, precision: str) -> Iterator[None]:
    """Let the body measure a case, and write the receipt of it in the end, which names what failed.

    Parameters
    ----------
    plan
        Of the campaign, or of its part that has the case.
    """
    step = measuring(plan, study, problem, precision)
    with making(step) as made:
        yield
        made.also(*environments_of(step.outputs))
        for part in find_missing_of_case(plan, study, problem, precision):
            if not part.remark:
                made.failed(part.reason)


def stale_problems(plan: Plan, problems: Sequence[str]) -> list[str]:
    """Return those of some problems that have to be built."""
    stale = Freshness(plan, [building(plan, name) for name in problems]).stale
    return [name for name in problems if f"problem {name}" in stale]


def stale_cases(plan: Plan, study: str, precision: str, problems: Sequence[str]) -> list[str]:
    """Return those of some problems that have to be measured in a study and a precision."""
    stale = Freshness(plan, until_measured(plan)).stale
    return [name for name in problems if measuring(plan, study, name, precision).name in stale]
