"""Finding what is missing in a campaign: unavailable problems, modules that do not compile, failed rows.

Measuring jobs also use this module to find stale problems and cases, and to write receipts that list failures.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from repro.bench.campaign_folder import CampaignFolder, step_file
from repro.bench.records import read_problem_of, read_problems
from repro.bench.rows import OUTSIDE, TIMED
from repro.bench.store import distinct_cases, read_case, read_rows, recorded_steps, recorded_studies
from repro.campaign.measurement import drop_repeats, environments_of
from repro.campaign.plan import Plan, ProblemBatches
from repro.campaign.receipts import RunningStep, record_step
from repro.campaign.steps import CHECK, Freshness, building, measuring, until_measured
from repro.codegen.build_cache import Module
from repro.studies import get_study

#: Statuses that count as a failure only for a winner: the row cannot run on this device, or has no reliable time.
HARMLESS = {*TIMED, "unsupported", "unstable", "out_of_memory", "timeout"}
#: Statuses of a rival's row that are not reported; any other status is a failure of the rival.
HARMLESS_OF_RIVALS = {*TIMED, "unsupported"}
#: Columns to read, if present.
COLUMNS = ("problem", "precision", "kind", "name", "status", "message", "tuning", "backend")
CHOICES = "choices"


@dataclass(frozen=True)
class Missing:
    #: Name of the missing thing; `reason` says why it is missing.
    what: str
    reason: str
    #: Whether this is only a remark, and the campaign counts as complete nevertheless.
    remark: bool = False
    #: Study, problem and precision of a case that could not be measured, or whose times were disturbed; the log of its
    #: job says more.
    case: tuple[str, str, str] | None = None

    @property
    def kind(self) -> str:
        """Plural noun for counting: `problems`, `modules`, `cases`, `cases of rivals` or `steps`."""
        first = self.what.split()[0]
        if first.startswith("rival/"):
            return "cases of rivals"
        return {"problem": "problems", "module": "modules"}.get(first, "cases" if " on " in self.what else "steps")

    @property
    def cause(self) -> str:
        """The reason without file names, numbers of rows and names of variants, so that equal causes can be counted."""
        line = re.sub(r"^\d+ rows ", "rows ", self.reason.partition("\n")[0])
        return re.split(r": no \S+/|: \w{16} → |, the first ", line)[0]


def find_missing(plan: Plan, freshness: Freshness | None = None) -> list[Missing]:
    """Return everything that is recorded as missing or failed, and all stale steps of the plan.

    Disturbed times on a CPU are only remarks: other programs share its cores, and some kernels alternate between two
    speeds. `freshness` is the comparison with receipts, if already made.
    """
    missing = [*_missing_problems(plan), *_missing_modules(plan), *_missing_rows(plan)]
    if not plan.config.replay:
        missing += _stale_steps(
            plan, freshness or Freshness(plan), failures_listed=not all(part.remark for part in missing)
        )
    return missing


def find_missing_of_record(folder: CampaignFolder) -> list[Missing]:
    """Return unavailable problems and failed rows of a recorded campaign whose configuration is unknown."""
    problems = read_problems(folder)
    missing = [
        Missing(f"problem {name}", record.get("reason") or "it is not said why")
        for name, record in problems.items()
        if record.get("status", "ok") != "ok"
    ]
    listed_subjects = {part.what for part in missing}
    for study in recorded_studies(folder):
        steps = {step: _rows_by_case(folder.study(study), step) for step in recorded_steps(folder.study(study))}
        for step, cases in steps.items():
            for (problem, precision), rows in cases.items():
                if f"problem {problem}" not in listed_subjects:
                    winners = {row["name"] for row in steps.get(CHOICES, {}).get((problem, precision), ())}
                    missing += failed_rows_missing(f"{study} on {problem}, {precision} ({step})", rows, winners)
    return missing


def merge_equal_causes(missing: Sequence[Missing]) -> list[Missing]:
    """Merge missing things of the same kind and cause into one, which states their number; the order is kept."""
    groups: dict[tuple[str, str, bool], list[Missing]] = {}
    for part in missing:
        groups.setdefault((part.kind, part.cause, part.remark), []).append(part)
    merged_entries = []
    for (kind, cause, remark), parts in groups.items():
        number = len({part.what for part in parts})
        group_entry = Missing(f"{number} {kind}", f"{cause}; the first is {parts[0].what}", remark, parts[0].case)
        merged_entries.append(group_entry if number > 1 else parts[0])
    return merged_entries


def log_of(batches: ProblemBatches, case: tuple[str, str, str]) -> Path | None:
    """Return the log file of the job that measured a case; None without such a job, as after `repro measure`."""
    study, problem, precision = case
    batch = next((batch for batch in batches.measuring if case in batch.cases), None)
    log = f"batches/{batch.name}.log" if batch else f"measure/{study}/{problem}/{precision}.log"
    path = Path(batches.plan.logs, log)
    return path if path.exists() else None


def find_missing_of_case(plan: Plan, study_name: str, problem_name: str, precision: str) -> list[Missing]:
    """Return what is missing in one measured case, as `find_missing` does for all cases."""
    folder = plan.folder.study(study_name)
    rows = {
        Path(step).stem: read_case(folder, Path(step).stem, problem_name, precision)
        for step in plan.case_files(study_name)
    }
    return [*_missing_of_run(plan, (study_name, problem_name, precision), rows)]


def _stale_steps(plan: Plan, freshness: Freshness, failures_listed: bool) -> Iterator[Missing]:
    """Yield stale steps, except of cases and problems in merged files, which have no receipts.

    If some stale steps neither failed nor depend on other stale ones, only these are yielded. Else all stale steps are
    yielded, unless there are cases in merged files, or failures are already listed (`failures_listed`).
    """
    packed = plan.folder.packed_records.exists()
    unreceipted_steps = {
        building(plan, name).name for name in plan.problems if packed and not plan.folder.record(name).exists()
    }
    for study, problem, precision in plan.runs:
        folder, steps = plan.folder, plan.case_files(study)
        case_files = (folder.case(study, problem, precision) / step for step in steps)
        if (folder.study(study) / steps[0]).exists() and not any(path.exists() for path in case_files):
            unreceipted_steps.add(measuring(plan, study, problem, precision).name)
    for name, reason in (freshness.unlike or ({} if failures_listed or unreceipted_steps else freshness.stale)).items():
        if name not in {CHECK, *unreceipted_steps}:
            yield Missing(name, reason)


def _missing_problems(plan: Plan) -> Iterator[Missing]:
    for name in plan.problems:
        record = _record(plan, name)
        if record is None:
            yield Missing(f"problem {name}", "not built")
        elif record.get("status", "ok") != "ok":
            yield Missing(f"problem {name}", record.get("reason") or "it is not said why")


def _missing_modules(plan: Plan) -> Iterator[Missing]:
    for manifest in plan.all_manifests:
        if not os.path.lexists(manifest):
            yield Missing(f"module {manifest}", "not compiled")
        elif (module := Module.load(Path(manifest))).status != "ok":
            yield Missing(f"module {manifest}", module.message or "it is not said why")


def _missing_rows(plan: Plan) -> Iterator[Missing]:
    measured_rows = {
        (study.name, step): _rows_by_case(plan.folder.study(study.name), Path(step).stem, study.problems)
        for study in plan.studies.values()
        for step in plan.case_files(study.name)
    }
    for study, problem, precision in plan.runs:
        steps = {
            Path(step).stem: measured_rows[study, step].get((problem, precision)) for step in plan.case_files(study)
        }
        yield from _missing_of_run(plan, (study, problem, precision), steps)


def _missing_of_run(
    plan: Plan, run: tuple[str, str, str], steps: Mapping[str, Sequence[Mapping[str, Any]] | None]
) -> Iterator[Missing]:
    """Yield what is missing in a case, given the rows of each step (None if a step has no rows)."""
    study, problem, precision = run
    case = f"{study} on {problem}, {precision}"
    rows: dict[Path, Sequence[Mapping[str, Any]]] = {}
    for step, step_rows in steps.items():
        path = step_file(plan.folder.case(study, problem, precision), step)
        if step_rows is not None or path.exists():
            rows[path] = step_rows or []
        else:
            yield Missing(case, f"not measured: no {path}")
    refused_rows = [row for step in rows.values() for row in step if row.get("status") == "unavailable"]
    if not refused_rows:
        yield from _missing_of_case(plan, run, case, rows)
        return
    record = _record(plan, problem)
    if record is not None and record.get("status", "ok") == "ok":  # unavailable problems are already listed
        yield Missing(case, refused_rows[0]["message"], case=run)  # all steps have the same message


def _missing_of_case(
    plan: Plan, run: tuple[str, str, str], case: str, rows: Mapping[Path, Sequence[Mapping[str, Any]]]
) -> Iterator[Missing]:
    """Yield tunings without a winner, and failed rows of each step; `case` is the name of the case in messages."""
    study_name, problem_name, _ = run
    choices = [row for path, step in rows.items() if path.stem == CHOICES for row in step]
    contract, settings = get_study(study_name), plan.studies[study_name].settings
    chooses = CHOICES in contract.outputs and not settings.edges
    required_tunings = contract.tunings(settings, plan.problems[problem_name]) if chooses else ()
    missing_tunings = [
        tuning for tuning in required_tunings if tuning not in {choice.get("tuning") for choice in choices}
    ]
    if missing_tunings and len(rows) == len(plan.case_files(study_name)):
        searched = next(iter(rows.values()))
        untimed_rows = [row for row in searched if row.get("status") not in TIMED]
        reason = "; ".join(_status_lines(untimed_rows)) or "no row that it could be has a time"
        yield Missing(case, f"no winner of {', '.join(missing_tunings)}: {reason}")
    winners = {choice["name"] for choice in choices}
    for path, step in rows.items():
        yield from failed_rows_missing(f"{case} ({path.stem})", step, winners, run)


def _rows_by_case(
    study_folder: Path, step: str, problems: Collection[str] | None = None
) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Return the rows of a step by (problem, precision): all choices, or only rows without a time."""
    rows = read_rows(study_folder, step, problems)
    cases: dict[tuple[str, str], list[dict[str, Any]]] = {case: [] for case in distinct_cases(rows)}
    if step != CHOICES and "status" in rows.column_names:  # drop rows with a time, which can be 100,000
        rows = rows.filter(pc.invert(pc.is_in(rows["status"], pa.array(sorted(TIMED)))))
    for row in rows.select([column for column in COLUMNS if column in rows.column_names]).to_pylist():
        cases[row["problem"], row["precision"]].append(row)
    return cases


def failed_rows_missing(
    subject: str,
    rows: Sequence[Mapping[str, Any]],
    winners: Container[str],
    case: tuple[str, str, str] | None = None,
) -> Iterator[Missing]:
    """Yield failed rows, counted by status, and each failed row of a rival.

    Rows with a status in `HARMLESS` count only if they are among the `winners`. Compile errors are omitted, since
    `_missing_modules` finds them.
    """
    failed_rows = [
        row
        for row in rows
        if row.get("kind") != OUTSIDE
        and (status := row.get("status") or "ok") not in {*TIMED, "compile_error"}
        and (status not in HARMLESS or row["name"] in winners)
    ]
    # disturbed times on a CPU and failing rivals are only remarks: the campaign still counts as complete
    remarks = [row["status"] == "disturbed" and row.get("backend") == "opencl" for row in failed_rows]
    for remark in (False, True):
        for text in _status_lines(
            [row for row, is_remark in zip(failed_rows, remarks, strict=True) if is_remark is remark]
        ):
            yield Missing(subject, text, remark, case if remark else None)
    for row in rows:
        if row.get("kind") == OUTSIDE and (status := row.get("status") or "ok") not in HARMLESS_OF_RIVALS:
            first = (row.get("message") or "").partition("\n")[0]
            text = status.replace("_", " ")
            yield Missing(f"{row['name']} in {subject}", f"{text}: {first}" if first else text, remark=True)


def _status_lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Describe the rows of each status: their number, the first name, and the first line of its message."""
    for status, count in sorted(Counter(row["status"] for row in rows).items()):
        first = next(row for row in rows if row["status"] == status)
        text = f"{count} row{'s' * (count != 1)} {status}, the first {first['name']}"
        yield f"{text}: {first['message'].splitlines()[0]}" if first["message"] else text


def _record(plan: Plan, problem_name: str) -> dict[str, Any] | None:
    try:
        return read_problem_of(plan.folder, problem_name)
    except FileNotFoundError:
        return None


@contextmanager
def record_case(plan: Plan, study_name: str, problem_name: str, precision: str) -> Iterator[RunningStep]:
    """Run the body, which measures a case, then write the case's receipt with all failures.

    The file of further processes' times has no rows until the body writes it.
    """
    step = measuring(plan, study_name, problem_name, precision)
    with record_step(step) as running_step:
        if (study_name, problem_name, precision) in plan.repeated:
            drop_repeats(plan.config, study_name, problem_name, precision)
        yield running_step
        running_step.also(*environments_of(plan.folder, step.outputs))
        for part in find_missing_of_case(plan, study_name, problem_name, precision):
            if not part.remark:
                running_step.failed(part.reason)


def stale_problems(plan: Plan, problems: Sequence[str]) -> list[str]:
    stale_steps = Freshness(plan, [building(plan, name) for name in problems]).stale
    return [name for name in problems if f"problem {name}" in stale_steps]


def stale_cases(plan: Plan, study_name: str, precision: str, problems: Sequence[str]) -> list[str]:
    stale_steps = Freshness(plan, until_measured(plan)).stale
    return [name for name in problems if measuring(plan, study_name, name, precision).name in stale_steps]
