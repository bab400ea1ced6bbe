"""Running a campaign with Snakemake: lock of the run, forced jobs, configuration, environment and resources of jobs.

Receipts instead of file times decide which steps are made: jobs with a stale step are forced, and Snakemake's check of
file times is turned off.

A resource request to a cluster is the estimate times a factor, at least a minimum, and grows with each retry. A job
that exceeds its request is killed, while a job with a large request waits longer in the queue.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from math import ceil
from pathlib import Path
from textwrap import indent
from types import FrameType
from typing import Any, Literal, NoReturn

import yaml

from repro.bench.campaign_folder import RESULTS
from repro.bench.environment import CHECKOUT, commit_refusal
from repro.bench.worker import BY_SIGNAL
from repro.campaign.configuration import load
from repro.campaign.estimate import (
    FIGURE_SECONDS,
    RATES,
    TABLE_SECONDS,
    Job,
    building_seconds,
    estimate_job,
    module_seconds,
)
from repro.campaign.plan import ModuleGroup, Plan, ProblemBatches, as_yaml, make_plan
from repro.campaign.receipts import Receipt
from repro.campaign.steps import CHECK, Freshness, receipt_of
from repro.codegen.build_cache import MODULES
from repro.codegen.targets import Target
from repro.config import merge, read, read_assignments, read_mapping
from repro.errors import ReproError
from repro.filesystem import describe_process, try_lock, write_holder, write_whole
from repro.package_data import WHEEL_DATA, shipped
from repro.programs import ensure_utf8
from repro.studies import get_study
from repro.untrusted_files import open_file, read_json
from repro.words import nearest_file

#: Lock file that allows one run per results folder; the lock ends with its process, even if that is killed.
LOCK = RESULTS / ".run.lock"
#: Environment variable that tells the jobs of a run the path of its configuration.
RUN_VARIABLE = "REPRO_RUN"
#: Snakemake's default start limit: (number of jobs, time span in seconds).
DEFAULT_START_LIMIT = (100, 1)

_held: list[int] = []


def check_configuration_files(arguments: Sequence[str]) -> None:
    """Exit with a message if a file named by `--configfile` on Snakemake's command line cannot be read.

    Snakemake opens these files before it reads the Snakefile, and would end in a traceback. Our Snakemake profiles call
    this function, since profiles are read first. So would it where it cannot write to the current folder. It also
    starts Snakemake again in UTF-8 mode where that is needed.
    """
    ensure_utf8()
    is_file_list = False
    try:
        if not any(argument.partition("=")[0] in ("--directory", "-d") for argument in arguments):
            refuse_unwritable([SNAKEMAKES_OWN])
        for argument in arguments:
            option, _, value = argument.partition("=")
            if argument.startswith("-"):
                is_file_list = option in ("--configfile", "--configfiles")
            path = value if argument.startswith("-") else argument
            if is_file_list and path:
                if not Path(path).exists():
                    raise ReproError(
                        "no such configuration file",
                        where=path,
                        actual=nearest_file(Path(path)),
                        todo="correct the name; every word after --configfile is a file, so put targets before it",
                    )
                read_mapping(Path(path))
                _check_for_snakemake(Path(path))
    except ReproError as error:
        sys.exit(f"error: {error}")


def _check_for_snakemake(path: Path) -> None:
    """Refuse a file with a word that Snakemake's own reader, by YAML 1.1, cannot read, such as `2020-13-45`."""
    try:
        yaml.load(path.read_bytes(), Loader=yaml.FullLoader)  # a safe loader, and the one that Snakemake uses
    except (yaml.YAMLError, ValueError, LookupError, ArithmeticError, AttributeError, TypeError) as error:
        mark = getattr(error, "problem_mark", None)
        raise ReproError(
            "Snakemake cannot read a word of the configuration file",
            where=f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else path,
            expected="words that YAML 1.1 reads as text, numbers or dates",
            actual=" ".join(str(getattr(error, "problem", error)).split()),
            todo="put the word between quotes",
        ) from None


def files_in_order(workflow: Any) -> list[Path]:
    """Return the configuration files of a Snakemake workflow; later ones lie over earlier ones.

    Those of `--configfile` lie over what a Snakefile names.
    """
    given = [Path(path) for path in workflow.overwrite_configfiles]
    return [*(Path(path) for path in workflow.configfiles if Path(path) not in given), *given]


def configuration_of(workflow: Any, config: Mapping[str, Any], files: Sequence[Path]) -> Mapping[str, Any]:
    """Return what the files and `--config` say, as our reader reads them, in place of Snakemake's `config`.

    Snakemake reads files by YAML 1.1, to which 010 is 8 and `on` true, and `--config` with Python's numbers. A workflow
    that takes ours as a module may give another `config`, which is returned if its files have no such words. Raises
    `ReproError`: a file or a key of `--config` cannot be read, or `config` is another and may have words that were
    misread.
    """
    from snakemake.common.configfile import load_configfile
    from snakemake.utils import update_config

    written, taken = read(*files), dict[str, Any]()
    for path in files:
        update_config(taken, load_configfile(path))
    is_as_written = _as_json(written) == _as_json(taken)
    update_config(taken, workflow.config_settings.config)
    if taken == config:
        return merge(written, read_assignments(workflow.config_settings.config_args))
    if not is_as_written:
        raise ReproError(
            "the workflow that uses this one as a module passes a configuration with words that Snakemake misread",
            where=", ".join(map(str, files)),
            expected="`config: config`, or files whose words mean the same by YAML 1.1 and 1.2",
            todo="write such words, as on, yes, 010, 1_000, 12:30 or 1e3, in quotes or in plain digits",
        )
    return config


def _as_json(data: Any) -> str:
    """Return plain data as text, in which 1 is not true; the order of keys does not count."""
    return json.dumps(data, sort_keys=True, default=str)


#: Folder in which Snakemake keeps its records, below the current one.
SNAKEMAKES_OWN = Path(".snakemake")


def refuse_unwritable(folders: Iterable[Path]) -> None:
    """Raise `ReproError` if files cannot be made in one of some folders, which need not exist."""
    for folder in folders:
        existing_folder = next(path for path in (folder, *folder.parents) if path.is_dir())
        if not os.access(existing_folder, os.W_OK | os.X_OK):
            raise ReproError(
                "no permission to write to the folder",
                where=existing_folder.absolute(),
                expected=f"permission to create or change {folder}",
                todo="make it writable, or run the command in another folder",
            )


class Interruption:
    """The signal that asked a run to end, from which the run's exit code follows.

    Snakemake itself exits with 1 after Ctrl-C while jobs run, and in a traceback before that.
    """

    def __init__(self) -> None:
        self._signal: int | None = None
        self._has_begun = False

    def catch_first(self) -> None:
        """Exit at SIGINT with one word until `catch` is called, unless SIGINT is ignored, for example under `nohup`."""
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._end)

    def catch(self) -> None:
        """Let Snakemake's scheduler end its jobs at SIGINT and SIGTERM as it does, and remember the signal."""
        self._has_begun = True
        if callable(end_gracefully := signal.getsignal(signal.SIGTERM)):

            def remember(number: int, frame: FrameType | None) -> None:
                self._signal = number
                end_gracefully(number, frame)

            signal.signal(signal.SIGTERM, remember)

    def _end(self, number: int, frame: FrameType | None) -> NoReturn:
        self._signal = number
        if not self._has_begun:
            print("interrupted", file=sys.stderr)
        sys.exit(BY_SIGNAL + number)  # the scheduler catches this like `KeyboardInterrupt`

    @property
    def exit_code(self) -> int:
        """Exit code of a run that did not make everything."""
        return BY_SIGNAL + self._signal if self._signal else 1


def begin(plan: Plan, stale_steps: Mapping[str, str]) -> None:
    """Begin a run: lock the folder, write the configuration, and delete outdated artifacts.

    Jobs read the configuration from a file whose name contains its hash. `config.yaml` is for later commands; a replay
    does not change it. The run is refused if `stale_steps` (`Freshness.stale` at planning time) is out of date.
    """
    text = as_yaml(plan.config)
    paths = [Path(plan.config_file)]
    if not plan.config.replay:
        paths.append(plan.folder.config)
    try:
        LOCK.parent.mkdir(parents=True, exist_ok=True)
        _held.append(_take_run_lock(plan.config.campaign, LOCK))
        freshness = Freshness(plan)
        refuse_unwritable(dict.fromkeys([Path(plan.logs), *(path.parent for path in freshness.stale_files)]))
        if freshness.stale != stale_steps:
            raise ReproError(
                "the campaign changed since this run was planned",
                where=plan.results,
                actual="another run in this folder ended, or a file was edited",
                todo="run the same command again",
            )
        for path in paths:
            if not path.exists() or path.read_bytes() != text.encode():
                write_whole(path, text)
        if not plan.config.replay:
            _take_away_artifacts(plan)
            if CHECK in stale_steps:  # the final check writes its mark again
                plan.folder.complete.unlink(missing_ok=True)
    except OSError as error:
        raise _not_writable(plan, error.strerror) from None
    os.environ[RUN_VARIABLE] = str(paths[0].resolve())


def report_compiled(
    plan: Plan, stale_steps: Mapping[str, str], interval: float = 30.0, output: Callable[[str], None] = print
) -> threading.Thread:
    """Start a thread that prints the number of compiled modules every `interval` seconds if it has grown.

    A job that compiles many modules takes minutes. Modules compiled since the call are counted. The thread ends when
    all are compiled, or with its process.
    """
    start_time = time.time()
    earliest_time = start_time - 1  # file systems can round times down
    keys = [
        (group.study, key)
        for group in plan.module_groups
        for key in group.keys
        if f"compile {group.study} {key}" in stale_steps
    ]
    paths = [Path(path) for study, key in keys for path in plan.manifests_of(study, [key])]

    def watch() -> None:
        reported_count = finished_count = 0
        while finished_count < len(paths):
            time.sleep(interval)
            finished_count = sum(path.exists() and path.stat().st_mtime >= earliest_time for path in paths)
            if reported_count < finished_count < len(paths):
                output(f"compiled {finished_count} of {len(paths)} modules in {time.time() - start_time:.0f} s")
                reported_count = finished_count

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


#: End of the line that a measurement prints before it waits for a device.
WAITING = "; waiting"
#: Bytes at the end of a log that can hold this line.
_TAIL = 4096


def report_commit() -> None:
    """Print why the commit of this checkout is not recorded with what is measured, if so."""
    if reason := commit_refusal():
        print(f"the commit of {CHECKOUT} is not recorded: {reason}", file=sys.stderr)


def report_waiting(plan: Plan, interval: float = 5.0, output: Callable[[str], None] = print) -> threading.Event:
    """Start a thread that prints each line by which a measurement says in its log that it waits for a device.

    A line is printed once, while it is the last one of a log. The thread ends with its process, or when the returned
    event is set.
    """
    earliest_time = time.time() - 1  # file systems can round times down
    folders = [Path(plan.logs) / name for name in ("measure", "batches")]
    reported_lines: set[tuple[Path, str]] = set()
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(interval):
            for path in (path for folder in folders for path in folder.rglob("*.log")):
                line = _last_line(path, earliest_time)
                if line.endswith(WAITING) and (path, line) not in reported_lines:
                    reported_lines.add((path, line))
                    output(line)

    threading.Thread(target=watch, daemon=True).start()
    return ended


def _last_line(path: Path, since: float) -> str:
    """Return the last line of a log that was written since a time, else nothing."""
    try:
        with path.open("rb") as log:
            status = os.fstat(log.fileno())
            if status.st_mtime < since:
                return ""
            log.seek(max(0, status.st_size - _TAIL))
            return log.read().decode("utf-8", "replace").rstrip().rpartition("\n")[2]
    except OSError:  # deleted meanwhile
        return ""


#: A failed step in Snakemake's record of a run: its rule, and the file of its log.
_FAILED = re.compile(r"^Error in rule (\S+):\n(?: {4}.*\n)*? {4}log: ([^,\n]+?)(?:,.*)? \(check log", re.MULTILINE)
#: Maximum number of failed steps to print, and of last lines from each step's log.
STEPS_TOLD, LINES_TOLD = 5, 40


#: Last lines of the logs of steps that Ctrl-C ended.
_INTERRUPTED = (["interrupted"], ["KeyboardInterrupt"])


def failures(record: Path, *, is_interrupted: bool = False) -> str:
    """Return the last lines from the logs of a run's failed steps; `record` is Snakemake's own log, which names them.

    Snakemake prints the log's name only when the step fails, between the step's inputs and commands. A step that Ctrl-C
    ended has not failed; nor has one that said nothing, if the run `is_interrupted`.
    """
    rules = {log: rule for rule, log in _FAILED.findall(record.read_text("utf-8", "replace"))}
    lines_by_log = {log: _lines(Path(log)) for log in rules}
    ended = (*_INTERRUPTED, []) if is_interrupted else _INTERRUPTED
    rules = {log: rule for log, rule in rules.items() if lines_by_log[log][-1:] not in ended}
    failure_texts = []
    for log, rule in [*rules.items()][:STEPS_TOLD]:
        lines = lines_by_log[log]
        omission_note = [f"… {len(lines) - LINES_TOLD} lines before these"] if len(lines) > LINES_TOLD else []
        log_text = "\n".join([*omission_note, *lines[-LINES_TOLD:]])
        failure_texts.append(f"{rule}, by {log}:\n{indent(log_text, '  ')}".rstrip())
    if omitted_rules := [*rules][STEPS_TOLD:]:
        failure_texts.append(
            f"and {len(omitted_rules)} more: {', '.join(omitted_rules[:STEPS_TOLD])}"
            f"{', …' * (len(omitted_rules) > STEPS_TOLD)}"
        )
    return "\n\n".join(failure_texts)


def _lines(log: Path) -> list[str]:
    try:
        return log.read_text("utf-8", "replace").strip().splitlines()
    except OSError:  # deleted meanwhile
        return []


def plan_of_run() -> Plan | None:
    """Return the plan of the run that started this job on another machine, None outside of such a job."""
    path = os.environ.get(RUN_VARIABLE)
    return make_plan(load(Path(path))) if path else None


def drop_unasked_limit(workflow: Any) -> None:
    """Remove Snakemake's default limit of jobs per second, but keep a limit set by the user.

    With the limit, the scheduler of Snakemake 9.27 wakes up more and more often: 120 jobs took 32 s of CPU time in its
    main process, and 4 s without. A `workflow` object with other attributes is not changed.
    """
    requested_limit = getattr(getattr(workflow, "scheduling_settings", None), "max_jobs_per_timespan", None)
    limit = (getattr(requested_limit, "max_jobs", None), getattr(requested_limit, "timespan", None))
    if limit == DEFAULT_START_LIMIT and getattr(workflow.scheduler, "job_rate_limiter", None) is not None:
        workflow.scheduler.job_rate_limiter = None


def refuse_what_is_in_the_way(plan: Plan, freshness: Freshness | None) -> None:
    """Raise an error if a file is in the place of a folder to write to, or a folder in that of a file to write.

    Snakemake would fail, and no job could write the file.
    """
    files = [LOCK, Path(plan.config_file), plan.folder.config, *(freshness.stale_files if freshness else ())]
    for folder in (Path(plan.results), *Path(plan.results).parents):
        if folder.exists() and not folder.is_dir():
            raise _not_writable(plan, f"{folder} is a file")
    for path in files:
        if path.is_dir():
            raise ReproError("a folder is in the place of a file", where=path, todo="move or delete it")
    for folder in dict.fromkeys(parent for path in files for parent in path.parents):
        if os.path.lexists(folder) and not folder.is_dir():
            raise ReproError("a file is in the place of a folder", where=folder, todo="move or delete it")


def _take_away_artifacts(plan: Plan) -> None:
    """Delete tables and figures of earlier runs that are no longer configured, since no step updates them."""
    kinds: tuple[Literal["tables", "figures"], ...] = ("tables", "figures")
    for study in plan.studies:
        for kind in kinds:
            selected_files = [Path(path) for path in plan.artifact_outputs(study, kind)]
            folder = Path(plan.figures, study) if kind == "figures" else plan.folder.tables(study)
            receipt = Receipt.load(receipt_of(plan, kind, study))
            for path in map(Path, receipt.outputs if receipt else ()):
                if path.parent == folder and path not in selected_files:
                    path.unlink(missing_ok=True)


def _not_writable(plan: Plan, actual: object) -> ReproError:
    return ReproError(
        "cannot write to the folder of results",
        where=plan.results,
        actual=actual,
        todo="free some space, make it writable, or name another campaign",
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
            "another run is active in this folder",
            where=path.absolute().parents[1],
            actual=_lock_holder(path),
            todo="wait until it ends, or run in another copy of the project; `--dry-run` works meanwhile",
        )
    start_time = datetime.now().isoformat(" ", "seconds")
    write_holder(lock, {**describe_process(), "campaign": campaign, "since": start_time})
    return lock


def _lock_holder(path: Path) -> str:
    try:
        holder = read_json(path)
        return "campaign {campaign}, process {pid} of {user} on {host}, since {since}".format(**holder)
    except (OSError, ValueError, KeyError, TypeError):
        return f"whoever holds {path}"


def overrule(dag: Any, plan: Plan, forced_targets: Iterable[Path | str]) -> None:
    """Make Snakemake run the jobs that write `forced_targets`, and ignore the file times of a campaign's outputs.

    Parameters
    ----------
    dag
        Snakemake's graph of jobs, before it selects jobs. Jobs of an enclosing workflow are treated as usual.
    plan
        The plan of the campaign.
    forced_targets
        Outputs of stale steps, and marker files of their batches. Unlike with `--forcerun` these files do not become
        targets, so that a run for one table does not make other tables.
    """
    dag.forcefiles.update(map(str, forced_targets))
    folders = (f"{plan.results}/", f"{plan.figures}/", f"{MODULES}/")
    judge = dag.check_output_mtime

    async def judge_others(job: Any, outputs: Sequence[Path | str]) -> None:
        if not all(str(path).startswith(folders) for path in outputs):
            await judge(job, outputs)

    dag.check_output_mtime = judge_others


#: The line in the environment files that installs this package from a relative path.
OWN_PACKAGE = "- -e ."


def environment_file(for_gpu: bool) -> str:
    """Return `environment.yml`, or `environment-cuda.yml` on a GPU, with the absolute path of this package.

    Snakemake copies the file to another folder, where relative paths would break.
    """
    path = shipped("environment-cuda.yml" if for_gpu else "environment.yml", here=False)
    if WHEEL_DATA.is_dir():
        raise ReproError(
            "--sdm conda needs a checkout",
            expected="an editable install of the package from a checkout, which conda can install",
            actual="a wheel",
            todo="omit --sdm conda; jobs then run in Snakemake's own environment",
        )
    own_package = json.dumps(f"-e {shlex.quote(str(path.resolve().parent))}")
    text = path.read_text()
    assert text.count(OWN_PACKAGE) == 1
    return text.replace(OWN_PACKAGE, f"- {own_package}")


#: Requested time / estimated time, to allow for slower GPUs and hosts.
TIME_FACTOR = 4
#: Minutes added to each requested time, since shared file systems can be slow.
SHORTEST = 10
MIB = 1 << 20
#: Constant part of the requested memory in MiB: of measuring jobs (with CUDA context and libraries), and of other jobs.
#: The smallest observed values are 534 (measuring on a CPU) and 126.
MEASURING, OTHERS = 4000, 2000
#: Host memory per byte of the operand, for building and for measuring (all formats). Observed values are 2.6 for
#: building, and for measuring on a CPU (host memory = device memory) 5 (COO) to 64 (products of two matrices).
BUILD_MEMORY_FACTOR, MEASURE_MEMORY_FACTOR = 16, 80
#: Memory in MiB for one compiler process; nvcc used 172 for a module with 120 kernels.
COMPILER = 1000
#: Memory in bytes and seconds to read one row for tables, figures or the report; bytes per row on disk. The values are
#: twice those observed for the 140,966 rows in `results/h200`.
ROW_BYTES, READING, RECORDED = 14_000, 5e-4, 40


@dataclass(frozen=True)
class Request:
    """Resources that a job requests from the cluster."""

    #: Wall time in minutes.
    minutes: int
    #: Host memory in MiB.
    megabytes: int


class Requests:
    """Resource requests for the jobs of a plan, from the problem sizes known at the time of the call."""

    def __init__(self, plan: Plan, batches: ProblemBatches) -> None:
        self._plan, self._batches = plan, batches
        self._jobs: dict[tuple[str, str, str], Job] = {}

    def building(self, problems: Iterable[str]) -> Request:
        """Return the request for building problems one after the other.

        The time is the expected time of all problems plus one time limit (`limits.seconds`). One limit per problem is
        far too much: a job with fifty problems would wait half a day in the queue and run for a minute.
        """
        jobs = [self._job(*run) for name in problems for run in self._runs[name]]
        seconds = sum(map(building_seconds, {job.problem: job.size for job in jobs}.values()))
        largest_bytes = max(job.operand_bytes for job in jobs)
        return _request(
            seconds + self._plan.config.limits.seconds / TIME_FACTOR, OTHERS * MIB + BUILD_MEMORY_FACTOR * largest_bytes
        )

    def compiling(self, group: ModuleGroup | None = None) -> Request:
        """Return the request for compiling a group of modules, or (None) the module common to all studies."""
        rates = RATES[self._target.dialect]
        keys = group.keys if group else ()
        dialect = self._target.dialect
        seconds = sum(module_seconds(group.study, key, dialect) for key in keys) if group else rates.compile
        return _request(seconds / rates.threads, (OTHERS + rates.threads * COMPILER) * MIB)

    def measuring(self, cases: Iterable[tuple[str, str, str]]) -> Request:
        """Return the request for measuring cases one after the other (on a CPU, operands are in host memory)."""
        jobs = [self._job(*case) for case in cases]
        largest_bytes = max(job.operand_bytes for job in jobs)
        return _request(sum(job.seconds for job in jobs), MEASURING * MIB + MEASURE_MEMORY_FACTOR * largest_bytes)

    def presenting(self, study_name: str) -> Request:
        """Return the request for a study's tables or figures."""
        study = self._plan.studies[study_name]
        artifact_seconds = TABLE_SECONDS * len(study.tables) + FIGURE_SECONDS * len(study.figures)
        return _request(
            artifact_seconds + READING * self._rows[study_name], OTHERS * MIB + ROW_BYTES * self._rows[study_name]
        )

    def concluding(self) -> Request:
        """Return the request for the report or the final check, which read the rows of all studies."""
        rows = sum(self._rows.values())
        return _request(FIGURE_SECONDS + READING * rows, OTHERS * MIB + ROW_BYTES * rows)

    @property
    def _target(self) -> Target:
        assert self._plan.target is not None, "a replay measures nothing"
        return self._plan.target

    def _job(self, *run: *tuple[str, str, str]) -> Job:
        """Estimate a case and cache the result, since Snakemake asks for each resource separately and repeatedly."""
        if run not in self._jobs:
            self._jobs[run] = estimate_job(self._plan, self._target, *run, starts=run in self._batches.starting)
        return self._jobs[run]

    @cached_property
    def _runs(self) -> dict[str, list[tuple[str, str, str]]]:
        runs: dict[str, list[tuple[str, str, str]]] = {}
        for run in self._plan.runs:
            runs.setdefault(run[1], []).append(run)
        return runs

    @cached_property
    def _rows(self) -> dict[str, int]:
        """Upper bound of the number of rows for each study."""
        rows = dict.fromkeys(self._plan.studies, 0)
        if self._plan.target is None:
            for study in rows:
                folder = self._plan.folder.study(study)
                files = (path for path in self._plan.recorded_files if path.is_relative_to(folder))
                rows[study] = sum(path.stat().st_size for path in files) // RECORDED
        else:
            for run in self._plan.runs:
                rows[run[0]] += self._job(*run).tried
        return rows


def _request(seconds: float, nbytes: float) -> Request:
    return Request(SHORTEST + ceil(TIME_FACTOR * seconds / 60), ceil(nbytes / MIB))


def processes_per_device(plan: Plan, study_name: str, limit: int | None) -> int:
    """Return the number of measuring processes of a study that share the devices.

    `limit` is the value of Snakemake's resource `gpu` on this machine; None if it is not set, or if a cluster gives
    each job its own GPUs.
    """
    return _at_once(plan, limit) if get_study(study_name).gpu_sharing else 1


def claimed_gpus(plan: Plan, study_name: str, limit: int | None) -> int:
    """Return the amount of Snakemake's resource `gpu` that a measuring job takes; `limit` as in `processes_per_device`.

    Beside a job of a study without GPU sharing, only one other job may run. More jobs would keep the host busy with
    packing and disturb the study's times by the host clock.
    """
    return plan.gpus * (1 if get_study(study_name).gpu_sharing else max(1, _at_once(plan, limit) - 1))


def _at_once(plan: Plan, limit: int | None) -> int:
    return max(1, limit // plan.gpus) if plan.on_gpu and limit else 1
