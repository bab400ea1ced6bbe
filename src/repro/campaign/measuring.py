"""Measuring one problem of a study in one precision: open, operands, the study's steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from repro.bench.parquet import read_table, write_table
from repro.bench.rows import SCHEMA, Row
from repro.bench.store import Store, write_rows
from repro.campaign.folders import RESULTS, Folders, check_study
from repro.campaign.session import Opened, open_bench
from repro.config.models import Config
from repro.errors import ReproError
from repro.problems.problem import Unavailable
from repro.studies import Given, Study, get_study
from repro.tuning.choose import Choice
from repro.tuning.search import Progress
from repro.tuning.session import Place, Session

CHOICES = pa.schema(
    [
        *((name, pa.string()) for name in ("study", "problem", "precision", "clock", "tuning", "name")),
        ("ties", pa.list_(pa.string())),
        ("schema", pa.int64()),
    ],
    metadata={"schema": str(SCHEMA)},
)


def measure(
    config: Config,
    study_name: str,
    name: str,
    precision: str,
    progress: Progress,
    run: str | None = None,
    batch: Callable[[], Opened] | None = None,
    turns: int = 1,
) -> list[Path]:
    """Measure a problem in one precision; return the paths of all that was written, a file a step of the study.

    Rows that an earlier, killed run stored are not measured again, unless another attempt may end otherwise. A problem
    that could not be had, or that the study cannot take, becomes one row that says so.

    Parameters
    ----------
    progress
        Told how far it is.
    run
        The id of the run that this process is a part of; None where it is all of it.
    batch, turns
        As for `repro.campaign.session.open_bench`.

    Raises
    ------
    ReproError
        A study or a baseline that there is not, a problem that is not built, a module that is not compiled, or a device
        that cannot be opened.
    """
    check_study(config, study_name)
    study, folders = get_study(study_name), Folders(config, study_name, name, precision)
    try:
        problem = folders.load_problem()
    except Unavailable as reason:
        return _write_unavailable(study, name, precision, reason.reason, folders.raw)
    try:
        operands = study.operands(problem, precision, config.seed)
    except ReproError as refusal:
        return _write_unavailable(study, name, precision, str(refusal), folders.raw)
    # what every row says of operands may take a while on the host, and others may measure meanwhile
    _ = operands.operations, operands.columns
    with (
        Store(store_path(config, study_name, name, precision), run, folders.environments) as store,
        open_bench(config, study, name, operands, folders, batch, turns) as bench,
    ):
        place = Place(study_name, config.campaign, RESULTS)
        settings = config.studies[study_name]
        session = Session(problem, bench, store, settings, config.seed, place, progress)
        return [write_step(study, name, precision, step, rows, folders.raw) for step, rows in study.measure(session)]


def record_failure(config: Config, study_name: str, name: str, precision: str, reason: str) -> list[Path]:
    """Write, in place of what was measured of a case, why it could not be; return the paths, a file a step."""
    study, folders = get_study(study_name), Folders(config, study_name, name, precision)
    return _write_unavailable(study, name, precision, reason, folders.raw)


def store_path(config: Config, study: str, name: str, precision: str) -> Path:
    """Return where the rows of a case are stored while it is measured."""
    return Folders(config, study, name, precision).store / "rows.jsonl"


def write_step(study: Study, problem: str, precision: str, step: str, given: Given, folder: Path) -> Path:
    """Write the rows or the choices of one step to `<step>.parquet`."""
    path = folder / f"{step}.parquet"
    choices = [choice for choice in given if isinstance(choice, Choice)]
    rows = [row for row in given if isinstance(row, Row)]
    if step != "choices":
        return write_rows(rows, study.columns, path)
    case = {"study": study.name, "problem": problem, "precision": precision, "schema": SCHEMA}
    table = pa.Table.from_pylist([case | _plain(choice) for choice in choices], schema=CHOICES)
    return write_table(table, path)


def environments_of(steps: Sequence[Path]) -> list[Path]:
    """Return the environment records that the rows of a case, in the files of its steps, are linked to."""
    tables = [read_table(path) for path in steps if path.stem != "choices"]
    linked = {name for table in tables for name in table["environment"].unique().to_pylist() if name}
    raw = RESULTS / steps[0].relative_to(RESULTS).parts[0] / "raw"
    return [raw / "environment" / f"{name}.json" for name in sorted(linked)]


def _plain(choice: Choice) -> dict[str, object]:
    return {"clock": choice.clock, "tuning": choice.tuning, "name": choice.name, "ties": list(choice.ties)}


def _write_unavailable(study: Study, problem: str, precision: str, reason: str, folder: Path) -> list[Path]:
    """Write the files of all steps, each but the choices with the row of a problem that could not be measured."""
    row = Row(
        key=f"unavailable {problem}",
        study=study.name,
        problem=problem,
        precision=precision,
        kind="variant",
        name="-",
        status="unavailable",
        phase="report",
        message=reason,
    )
    rows: Sequence[Row] = [row]
    return [
        write_step(study, problem, precision, step, [] if step == "choices" else rows, folder) for step in study.outputs
    ]
