"""Running a campaign with Snakemake: lock of the run, forced jobs, configuration and environment for jobs.

Receipts instead of file times decide what has to be made: jobs with a stale step are forced, and Snakemake's check of
file times is turned off.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from repro.atomic_write import write_whole
from repro.campaign.configuration import load
from repro.campaign.folders import RESULTS
from repro.campaign.plan import Plan, as_yaml, make_plan
from repro.campaign.receipts import Receipt
from repro.campaign.steps import CHECK, Freshness, receipt_of
from repro.codegen.build_cache import MODULES
from repro.config import read_mapping
from repro.errors import ReproError
from repro.file_locks import describe_process, try_lock, write_holder
from repro.package_data import PACKED, shipped
from repro.untrusted_files import open_file, read_json

#: Lock file that allows one run per results folder; the lock ends with its process, even if that is killed.
LOCK = RESULTS / ".run.lock"
#: Environment variable that tells the jobs of a run the path of its configuration.
RUN = "REPRO_RUN"
#: Snakemake's default start limit: (number of jobs, time span in seconds).
UNASKED = (100, 1)

_held: list[int] = []


def check_configuration_files(words: Sequence[str]) -> None:
    """End a command line of Snakemake with a message if a file of `--configfile` cannot be read.

    Snakemake itself opens these files before it reads the Snakefile, and ends in a traceback. The profiles call this,
    which it reads before.
    """
    named = False
    try:
        for word in words:
            option, _, value = word.partition("=")
            if word.startswith("-"):
                named = option in ("--configfile", "--configfiles")
            path = value if word.startswith("-") else word
            if named and path:
                if not Path(path).exists():
                    raise ReproError(
                        "no such configuration file",
                        where=path,
                        todo="correct the name; all words after --configfile are files, so a target stands before it",
                    )
                read_mapping(Path(path))
    except ReproError as error:
        sys.exit(f"error: {error}")


def begin(plan: Plan, stale: Mapping[str, str]) -> None:
    """Begin a run: lock the folder, write the configuration, and delete outdated artifacts.

    Jobs read the configuration from a file whose name contains its hash. `config.yaml` is for later commands; a replay
    does not change it. The run is refused if `stale` (`Freshness.stale` at planning time) is no longer up to date.
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
            if CHECK in stale:  # the mark is written again by the final check
                Path(plan.results, "complete").unlink(missing_ok=True)
    except OSError as error:
        raise _not_writable(plan, error.strerror) from None
    os.environ[RUN] = str(paths[0].resolve())


def tell_compiled(
    plan: Plan, stale: Mapping[str, str], every: float = 30.0, tell: Callable[[str], None] = print
) -> threading.Thread:
    """Print how many modules are compiled, every so many seconds if there are more, since a job of many takes minutes.

    Modules count from the start of the run on. The thread ends when all are compiled, or with its process.
    """
    began = time.time()
    since = began - 1  # file systems keep times less exactly
    keys = [(of.study, key) for of in plan.module_groups for key in of.keys if f"compile {of.study} {key}" in stale]
    paths = [Path(path) for study, key in keys for path in plan.manifests_of(study, [key])]

    def watch() -> None:
        told = done = 0
        while done < len(paths):
            time.sleep(every)
            done = sum(path.exists() and path.stat().st_mtime >= since for path in paths)
            if told < done < len(paths):
                tell(f"compiled {done} of {len(paths)} modules in {time.time() - began:.0f} s")
                told = done

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def plan_of_run() -> Plan | None:
    """Return the plan of the run that started this job on another machine, None outside of such a job."""
    path = os.environ.get(RUN)
    return make_plan(load(Path(path))) if path else None


def drop_unasked_limit(workflow: Any) -> None:
    """Remove Snakemake's default limit of jobs per second, but keep a limit set by the user.

    With the limit, the scheduler of Snakemake 9.27 wakes up more and more often: 120 jobs took 32 s of CPU time in its
    main process, and 4 s without. A `workflow` object with other attributes is not changed.
    """
    asked = getattr(getattr(workflow, "scheduling_settings", None), "max_jobs_per_timespan", None)
    limit = (getattr(asked, "max_jobs", None), getattr(asked, "timespan", None))
    if limit == UNASKED and getattr(workflow.scheduler, "job_rate_limiter", None) is not None:
        workflow.scheduler.job_rate_limiter = None


def refuse_file_in_the_way(plan: Plan) -> None:
    """Raise an error if a results folder (or a parent) is a file, before Snakemake accesses it."""
    for folder in (Path(plan.results), *Path(plan.results).parents):
        if folder.exists() and not folder.is_dir():
            raise _not_writable(plan, f"{folder} is a file")


def _take_away_artifacts(plan: Plan) -> None:
    """Delete tables and figures of earlier runs that are no longer configured, since nothing updates them."""
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
    """Prevent runs in a results folder while the body changes the rows of a campaign."""
    lock = _take_run_lock(campaign, results / LOCK.name)
    try:
        yield
    finally:
        os.close(lock)


def _take_run_lock(campaign: str, path: Path) -> int:
    """Lock the run file and return its descriptor; closing it or ending the process frees the lock."""
    lock = open_file(path, os.O_RDWR | os.O_CREAT)
    if not try_lock(lock):
        os.close(lock)
        raise ReproError(
            "another run works in this folder",
            where=path.absolute().parents[1],
            actual=_lock_holder(path),
            todo="wait for it to end, or run in another copy of the project; `--dry-run` can be used beside it",
        )
    since = datetime.now().isoformat(" ", "seconds")
    write_holder(lock, {**describe_process(), "campaign": campaign, "since": since})
    return lock


def _lock_holder(path: Path) -> str:
    try:
        holder = read_json(path)
        return "campaign {campaign}, process {pid} of {user} on {host}, since {since}".format(**holder)
    except (OSError, ValueError, KeyError, TypeError):
        return f"whoever holds {path}"


def overrule(dag: Any, plan: Plan, forced: Iterable[Path | str]) -> None:
    """Make Snakemake run the jobs that write `forced`, and ignore the file times of a campaign's outputs.

    Parameters
    ----------
    dag
        Snakemake's graph of jobs, before it selects jobs. Jobs of an enclosing workflow are treated as usual.
    plan
        The plan of the campaign.
    forced
        Outputs of stale steps, and marker files of their batches. Unlike with `--forcerun` these files do not become
        targets, so that a run for one table does not make other tables.
    """
    dag.forcefiles.update(map(str, forced))
    folders = (f"{plan.results}/", f"{plan.figures}/", f"{MODULES}/")
    judge = dag.check_output_mtime

    async def judge_others(job: Any, outputs: Sequence[Path | str]) -> None:
        if not all(str(path).startswith(folders) for path in outputs):
            await judge(job, outputs)

    dag.check_output_mtime = judge_others


#: The line for this package in the environment files, relative to the checkout.
OWN = "- -e ."


def environment_file(on_gpu: bool) -> str:
    """Return `environment.yml`, or `environment-cuda.yml` on a GPU, with the absolute path of this package.

    Snakemake copies the file to another folder, where relative paths would break.
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
