"""The start of a run: one at a time in a folder, and its configuration written where its jobs and its readers look."""

from __future__ import annotations

import fcntl
import json
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from repro.campaign.folders import RESULTS
from repro.campaign.freshness import Freshness
from repro.campaign.plan import Plan, as_yaml, make_plan
from repro.campaign.receipts import Receipt
from repro.campaign.steps import CHECK, receipt_of
from repro.config import load
from repro.devices.locking import user_name
from repro.errors import ReproError
from repro.reading import open_file, read_json
from repro.whole import write_whole

#: Held by whoever runs in this folder, for as long as its process lives: a killed run leaves no lock behind.
LOCK = RESULTS / ".run.lock"
#: Names, in the environment of a run's jobs, the file of its configuration.
RUN = "REPRO_RUN"
#: Jobs, and seconds in which Snakemake starts no more than these, where nobody asks for another limit.
UNASKED = (100, 1)

_held: list[int] = []


def begin(plan: Plan, stale: Mapping[str, str]) -> None:
    """Begin a run: keep other runs out of this folder, write the configuration, and take away what holds no more.

    Jobs read it from a file that is named by its content. `config.yaml` is for whoever asks later what the campaign was
    run with; a replay leaves that of the record as it is. A plan that is only looked at never comes here.

    Parameters
    ----------
    plan
        What is run.
    stale
        What had to be made when it was planned, by `repro.campaign.freshness.Freshness.stale`.

    Raises
    ------
    ReproError
        Another run works in this folder, or ended in it since that was planned; or it cannot be written to.
    """
    text = as_yaml(plan.config)
    paths = [Path(plan.config_file)]
    if not plan.config.replay:
        paths.append(Path(plan.results, "config.yaml"))
    try:
        LOCK.parent.mkdir(parents=True, exist_ok=True)
        _held.append(_hold(plan.config.campaign, LOCK))
        if Freshness(plan).stale != stale:
            raise ReproError(
                "the campaign changed since this run was planned",
                where=plan.results,
                actual="another run ended in this folder, or a file was edited",
                todo="give the same command again",
            )
        for path in paths:
            if not path.exists() or path.read_bytes() != text.encode():
                write_whole(path, text)
        if not plan.config.replay:
            _take_away_artifacts(plan)
            if CHECK in stale:  # until it is checked again
                Path(plan.results, "complete").unlink(missing_ok=True)
    except OSError as error:
        raise _not_writable(plan, error.strerror) from None
    os.environ[RUN] = str(paths[0].resolve())


def plan_of_run() -> Plan | None:
    """Return the plan of the run that sent this process to another machine; None where nothing says which it was.

    Raises
    ------
    ReproError
        As `repro.campaign.plan.make_plan`, on this machine.
    """
    path = os.environ.get(RUN)
    return make_plan(load(Path(path))) if path else None


def drop_unasked_limit(workflow: Any) -> None:
    """Take away the limit of jobs a second that Snakemake has by itself; one that was asked for stays.

    For its sake the scheduler wakes itself again a second after each time that it woke while a job is ready, and the
    end of each job starts another such chain: after sixty jobs it looks sixty times a second at all that are ready.
    Seen on Snakemake 9.27, whose main process took 32 s for 120 jobs, and 4 s without the limit.

    Parameters
    ----------
    workflow
        Snakemake's, when its run begins. One of another form is left as it is.
    """
    asked = getattr(getattr(workflow, "scheduling_settings", None), "max_jobs_per_timespan", None)
    limit = (getattr(asked, "max_jobs", None), getattr(asked, "timespan", None))
    if limit == UNASKED and getattr(workflow.scheduler, "job_rate_limiter", None) is not None:
        workflow.scheduler.job_rate_limiter = None


def refuse_file_in_the_way(plan: Plan) -> None:
    """Refuse a file where a folder of results should be, before Snakemake looks into it.

    Raises
    ------
    ReproError
        There is one.
    """
    for folder in (Path(plan.results), *Path(plan.results).parents):
        if folder.exists() and not folder.is_dir():
            raise _not_writable(plan, f"{folder} is a file")


def _take_away_artifacts(plan: Plan) -> None:
    """Take away tables and figures that the last run made and that are asked for no more: they would grow stale."""
    kinds: tuple[Literal["tables", "figures"], ...] = ("tables", "figures")
    for study in plan.studies:
        for kind in kinds:
            asked = [Path(path) for path in plan.artifact_outputs(study, kind)]
            folder = Path(plan.figures if kind == "figures" else Path(plan.results, kind), study)
            receipt = Receipt.load(receipt_of(plan, kind, study))
            for path in map(Path, receipt.outputs if receipt else ()):
                if path.parent == folder and path not in asked:
                    path.unlink(missing_ok=True)


def _not_writable(plan: Plan, actual: object) -> ReproError:
    return ReproError(
        "cannot write to the results folder",
        where=plan.results,
        actual=actual,
        todo="make room or make it writable, or name another campaign",
    )


@contextmanager
def held_alone(campaign: str, results: Path = RESULTS) -> Iterator[None]:
    """Keep runs out of a folder of results while the body changes what one of its campaigns has measured.

    Raises
    ------
    ReproError
        A run works in it.
    """
    lock = _hold(campaign, results / LOCK.name)
    try:
        yield
    finally:
        os.close(lock)


def _hold(campaign: str, path: Path) -> int:
    """Take a lock until what is returned is closed, or this process ends."""
    lock = open_file(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise ReproError(
            "another run works in this folder",
            where=path.absolute().parents[1],
            actual=_holder(path),
            todo="wait for it to end, or run in another copy of the project; `--dry-run` can be used beside it",
        ) from None
    me = {"pid": os.getpid(), "user": user_name(), "host": platform.node(), "campaign": campaign}
    os.ftruncate(lock, 0)
    os.write(lock, json.dumps(me | {"since": datetime.now().isoformat(" ", "seconds")}).encode())
    return lock


def _holder(path: Path) -> str:
    """Say whose lock it is, as far as it can be read."""
    try:
        holder = read_json(path)
        return "campaign {campaign}, process {pid} of {user} on {host}, since {since}".format(**holder)
    except (OSError, ValueError, KeyError, TypeError):
        return f"whoever holds {path}"
