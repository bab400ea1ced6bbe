"""What the workflow needs beside the plan: the lock of a run, forced jobs, the environment of its jobs.

One run at a time works in a folder. A run writes its configuration where its jobs and later readers look.

Snakemake decides by times of files what has to be made: a stale output that is dated 1970 is up to date to it, and
a job fails whose inputs are dated later than its outputs, which get the time of the clock. Receipts decide here
instead. So jobs with a stale step are forced, as by `--forcerun`, and no times are looked at when a job has ended.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from repro.atomic_write import write_whole
from repro.campaign.folders import RESULTS
from repro.campaign.plan import Plan, as_yaml, make_plan
from repro.campaign.receipts import Receipt
from repro.campaign.steps import CHECK, Freshness, receipt_of
from repro.codegen.build_cache import MODULES
from repro.config import load
from repro.devices.locks import user_name
from repro.errors import ReproError
from repro.package_data import PACKED, shipped
from repro.untrusted_files import open_file, read_json

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
        What had to be made when it was planned, by `repro.campaign.steps.Freshness.stale`.

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
        _held.append(_take_run_lock(plan.config.campaign, LOCK))
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
def hold_run_lock(campaign: str, results: Path = RESULTS) -> Iterator[None]:
    """Keep runs out of a folder of results while the body changes what one of its campaigns has measured.

    Raises
    ------
    ReproError
        A run works in it.
    """
    lock = _take_run_lock(campaign, results / LOCK.name)
    try:
        yield
    finally:
        os.close(lock)


def _take_run_lock(campaign: str, path: Path) -> int:
    """Take a lock until what is returned is closed, or this process ends."""
    lock = open_file(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise ReproError(
            "another run works in this folder",
            where=path.absolute().parents[1],
            actual=_lock_holder(path),
            todo="wait for it to end, or run in another copy of the project; `--dry-run` can be used beside it",
        ) from None
    me = {"pid": os.getpid(), "user": user_name(), "host": platform.node(), "campaign": campaign}
    os.ftruncate(lock, 0)
    os.write(lock, json.dumps(me | {"since": datetime.now().isoformat(" ", "seconds")}).encode())
    return lock


def _lock_holder(path: Path) -> str:
    """Say whose lock it is, as far as it can be read."""
    try:
        holder = read_json(path)
        return "campaign {campaign}, process {pid} of {user} on {host}, since {since}".format(**holder)
    except (OSError, ValueError, KeyError, TypeError):
        return f"whoever holds {path}"


def overrule(dag: Any, plan: Plan, forced: Iterable[Path | str]) -> None:
    """Let a graph of jobs run those that write what is forced, and judge none of a campaign by times.

    Parameters
    ----------
    dag
        Snakemake's, before it looks what has to be run. Where the campaign is a module of another workflow it holds
        that one's jobs too, which are judged as ever.
    plan
        Of the campaign.
    forced
        Outputs of stale steps, and files of their batches. Unlike those of `--forcerun` they are no targets: of a run
        that asks for one table no other is made.
    """
    dag.forcefiles.update(map(str, forced))
    folders = (f"{plan.results}/", f"{plan.figures}/", f"{MODULES}/")
    judge = dag.check_output_mtime

    async def judge_others(job: Any, outputs: Sequence[Path | str]) -> None:
        if not all(str(path).startswith(folders) for path in outputs):
            await judge(job, outputs)

    dag.check_output_mtime = judge_others


#: What the files ask pip for: this package, by a path that holds where the file lies.
OWN = "- -e ."


def environment_file(on_gpu: bool) -> str:
    """Return the content of `environment.yml`, or on a GPU of `environment-cuda.yml`, that holds wherever it lies.

    Snakemake copies the file to where it deploys, and a relative path would lead from there.

    Raises
    ------
    ReproError
        The package is not run from a checkout, so that conda could not install it.
    """
    path = shipped("environment-cuda.yml" if on_gpu else "environment.yml", here=False)
    if PACKED.is_dir():
        raise ReproError(
            "--sdm conda needs a checkout",
            expected="the package as an editable install of a checkout, from where conda installs it",
            actual="a wheel",
            todo="leave --sdm conda out: jobs then run in the environment that runs Snakemake",
        )
    own = json.dumps(f"-e {shlex.quote(str(path.resolve().parent))}")
    text = path.read_text()
    assert text.count(OWN) == 1
    return text.replace(OWN, f"- {own}")
