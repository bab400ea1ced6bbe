"""Measuring one problem of a study in one precision: opening devices, loading operands, running the study's steps.

Each case is measured in a separate process, so that a crash loses only one row. An edit of this module or its imports
makes all cases stale, so it does not import the plan or any code for tables.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from shlex import join
from typing import Any

import pyarrow as pa

from repro.bench.campaign_folder import REPEAT, CampaignFolder, step_file
from repro.bench.environment import describe_environment, record
from repro.bench.records import read_problem_of
from repro.bench.rows import OUTSIDE, SCHEMA, Row
from repro.bench.runnable import Operands, Workspace
from repro.bench.store import Store, copy_searches, count_rows, crashed_row, read_table, write_rows, write_table
from repro.bench.trial import Bench, DeviceSamples
from repro.bench.worker import AGAIN, BY_SIGNAL, UNABLE, run_worker
from repro.bench.yardsticks import YARDSTICKS
from repro.campaign.configuration import check_study
from repro.campaign.receipts import code_hash
from repro.codegen.build_cache import MODULES, MissingModule
from repro.codegen.targets import Target, find_gpu
from repro.config.models import Config
from repro.containment import ENDING, Containment, text_of
from repro.devices.base import LaunchError
from repro.devices.device_group import Devices
from repro.devices.locks import DeviceLocks, lock_devices
from repro.devices.selection import identities, open_devices, resolve_device, single_devices
from repro.errors import ReproError
from repro.extensions import is_of_extension
from repro.problems.problem import Problem, Unavailable, load_problem
from repro.studies import CostModel, StepResult, Study, get_study
from repro.tuning.edges import measure_edges
from repro.tuning.search import Choice, ProgressCallback
from repro.tuning.session import Session
from repro.words import TUNED


@dataclass(frozen=True)
class OpenDevices:
    """Open and locked devices with their timing data, shared by the cases of a batch."""

    devices: Devices
    locks: DeviceLocks
    timed: dict[str, DeviceSamples] = field(default_factory=dict)


@contextmanager
def opened_devices_of(config: Config, work: str) -> Iterator[OpenDevices]:
    """Lock and open the configured devices; `work` is shown to other processes that wait for the lock."""
    resolved = resolve_device(config.device)
    with lock_devices(identities(resolved), f"campaign {config.campaign}: {work}") as locks:
        devices = open_devices(resolved)
        try:
            yield OpenDevices(devices, locks)
        finally:
            devices.close()


@contextmanager
def opened_once(config: Config, work: str) -> Iterator[Callable[[], OpenDevices]]:
    """Yield a function that opens the devices at its first call and returns the same devices later, for a batch."""
    with ExitStack() as stack:
        yield cache(lambda: stack.enter_context(opened_devices_of(config, work)))


@contextmanager
def open_bench(
    config: Config,
    study: Study,
    problem_name: str,
    operands: Operands,
    shared_devices: Callable[[], OpenDevices] | None = None,
    turns: int = 1,
) -> Iterator[Bench]:
    """Copy operands to the devices; `shared_devices` returns open devices, and if it is None they are opened here.

    `turns` is the number of processes that share the devices; if it is above 1, this process releases them while it
    packs operands on the host.
    """
    with ExitStack() as stack:
        single_opening = opened_devices_of(config, f"{study.name} {problem_name} {operands.precision}")
        opened_devices = shared_devices() if shared_devices else stack.enter_context(single_opening)
        # not on a CPU, where packing disturbs the measurements of other processes
        lend_locks = (
            opened_devices.locks.lent if turns > 1 and opened_devices.devices.backend == "cuda" else nullcontext
        )
        workspace = Workspace(
            opened_devices.devices, operands, say=partial(print, flush=True), lend=lend_locks, turns=turns
        )
        _load_common(workspace, config.device)
        environment: Mapping[str, Any] = describe_environment(workspace, study.packages)
        timing = config.studies[study.name].timing
        if workspace.device.backend == "cuda" and (model := find_gpu(workspace.device.name)):
            timing = timing.on(model.slowdown(study.cost_models.get("cuda", CostModel()).intensity))
        bench = Bench(
            workspace,
            study_name=study.name,
            problem_name=problem_name,
            timing=timing,
            seed=config.seed,
            own=study.columns,
            environment=record(environment, CampaignFolder.of(config.campaign).environments),
            software=str(environment.get("driver"))
            + ("" if environment.get("blocking", True) else ", stream not blocked"),
            code=code_hash,
            device_samples=opened_devices.timed if shared_devices else None,
            idle=lambda: opened_devices.locks.idle,
        )
        stack.callback(bench.release)
        bench.neighbours.list_other_processes()
        yield bench


def _load_common(workspace: Workspace, device_setting: str) -> None:
    try:
        for device in workspace.devices:
            device.use_common(device.load(workspace.common.binary))
    except LaunchError as error:
        raise ReproError(
            "the common module cannot be loaded",
            where=f"device: {resolve_device(device_setting)}",
            actual=error,
            todo="modules for the CPU are compiled by the OpenCL runtime of opencl:0: measure on that device"
            if workspace.device.backend == "opencl"
            else "compile it again: remove its folder below `modules`",
        ) from None


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
    problem_name: str,
    precision: str,
    progress: ProgressCallback,
    run: str | None = None,
    shared_devices: Callable[[], OpenDevices] | None = None,
    turns: int = 1,
    jobs: int = 1,
) -> list[Path]:
    """Measure a problem in one precision; return the written files, one for each step of the study.

    Rows stored by an earlier, killed run are reused, except failures that may not recur. An unavailable or unsupported
    problem gets one row with the reason. `run` is the id of the run that started this process. `jobs` compilers compile
    modules on demand concurrently.
    """
    check_study(config, study_name)
    study, folder = get_study(study_name), CampaignFolder.of(config.campaign)
    case = folder.case(study_name, problem_name, precision)
    try:
        problem = load_built(folder, problem_name)
    except Unavailable as reason:
        return _write_unavailable(study, problem_name, precision, reason.reason, case)
    apart = _study_apart(study)
    try:
        with apart():
            operands = study.operands(problem, precision, config.seed)
    except ReproError as refusal:
        return _write_unavailable(study, problem_name, precision, str(refusal), case)
    with _session(
        config, study, problem, precision, progress, run, store_path(config, study_name, problem_name, precision),
        operands=operands, shared_devices=shared_devices, turns=turns, jobs=jobs,
    ) as session:  # fmt: skip
        try:
            steps = iter(_steps(study, session))
            paths: list[Path] = []
            while True:
                with apart():
                    step_of_study = next(steps, None)
                if step_of_study is None:
                    return paths
                paths.append(write_step(study, problem_name, precision, *step_of_study, case))
        except MissingModule as error:
            module_keys = study.modules(session.settings, problem.outline(), precision, session.target)
            _refuse_unnamed(study, module_keys, session.target, error)
            raise


def _steps(study: Study, session: Session) -> Iterator[tuple[str, StepResult]]:
    """Return a case's steps: the study's, or the measurement of what lies beyond edges of recorded searches."""
    if not session.settings.edges or study.id_class is None:
        return study.measure(session)
    problem, templates = session.problem.outline(), session.templates
    return measure_edges(
        session,
        study.numbers,
        study.id_class,
        lambda id: study.variant(templates, problem, session.precision, id, session.target),
    )


@contextmanager
def _session(
    config: Config,
    study: Study,
    problem: Problem,
    precision: str,
    progress: ProgressCallback,
    run: str | None,
    store_file: Path,
    *,
    operands: Operands | None = None,
    shared_devices: Callable[[], OpenDevices] | None = None,
    turns: int = 1,
    jobs: int = 1,
    repeated: Any = None,
) -> Iterator[Session]:
    """Open the store and the devices of a case."""
    folder = CampaignFolder.of(config.campaign)
    operands = operands or study.operands(problem, precision, config.seed)
    # compute slow host values before locking the device, so that other processes can measure meanwhile
    _ = operands.operations, operands.columns
    with (
        Store(store_file, run, folder.environments) as store,
        open_bench(config, study, problem.name, operands, shared_devices, turns) as bench,
    ):
        yield Session(
            problem,
            bench,
            store,
            config.studies[study.name],
            config.seed,
            folder,
            progress,
            facts=_facts(folder, problem.name),
            rivals=study.rivals_of(config.rivals),
            templates=Path(config.kernels),
            jobs=jobs if bench.device.backend == "cuda" else 1,  # a CPU's compiler runs here, on all cores
            user_calls=_user_calls(config, study.calls_module, bench.workspace) if study.calls_module else None,
            repeated=repeated,
        )


def _user_calls(config: Config, module: str, workspace: Workspace) -> Any:
    """Return the function for `Session.user_calls` on the campaign's device, the first one if there are several.

    The module is imported by its name, so that no other study's cases become stale when an operator is edited.
    """
    device = single_devices(resolve_device(config.device))[0]
    say, lend = partial(print, flush=True), workspace.device_lent
    return partial(import_module(module).user_calls, device=device, say=say, lend=lend)


def _study_apart(study: Study) -> Callable[[], AbstractContextManager[None]]:
    """Return a context manager in which another package's study is called; for our own studies it does nothing.

    What the study changes in this process is put back and printed. What it raises that is no `Exception` is an error.
    """
    if not is_of_extension(type(study)):
        return nullcontext
    containment = Containment(study.name, captures=False)

    @contextmanager
    def apart() -> Iterator[None]:
        shown_message = containment.message
        try:
            with containment.call():
                yield
        except (*ENDING, Exception):
            raise
        except BaseException as error:
            actual = f"{type(error).__name__}: {text_of(error)}"
            raise ReproError("a study of another package failed", where=f"study {study.name}", actual=actual) from None
        finally:
            if containment.message != shown_message:
                print(f"warning: the study {study.name} {containment.message}", flush=True)
        if containment.beyond_repair:
            raise ReproError(
                "a study of an installed package changed global state that cannot be restored",
                where=f"study {study.name}",
                actual=containment.beyond_repair,
            )

    return apart


#: Maximum number of keys of a study's modules that a message names.
NAMED_KEYS = 4


def _refuse_unnamed(study: Study, module_keys: Sequence[str], target: Target, error: MissingModule) -> None:
    """Raise `ReproError` if the study does not name a missing module among its own, since no step compiles it then."""
    manifest, folder = Path(str(error.where)), MODULES / target.name / study.name
    key = manifest.with_suffix("").relative_to(folder).as_posix() if manifest.is_relative_to(folder) else None
    if key is not None and key not in module_keys:
        nearest_keys = get_close_matches(key, module_keys, n=NAMED_KEYS, cutoff=0)
        raise ReproError(
            "the study loads a module that it did not request",
            where=f"study {study.name}",
            expected=f"a key returned by its `modules`: {', '.join(nearest_keys)}"
            + ", …" * (len(nearest_keys) < len(module_keys)),
            actual=key,
            todo="return its key from `modules`, or load another module",
        ) from None


def load_built(folder: CampaignFolder, name: str) -> Problem:
    """Read a problem that the campaign built; raise `Unavailable` if its file has only a reason, else `ReproError`."""
    path = folder.problem(name)
    if not path.exists():
        command = ["repro", "problem", name, "--output", str(path), "--record", str(folder.record(name))]
        raise ReproError(
            "the problem has not been built",
            where=path,
            todo=f"build it there with `{join(command)}` and the same --config; the workflow does both itself: "
            f"`{join(['snakemake', '--cores', 'all', str(path)])}`",
        )
    return load_problem(path, name)


def _facts(folder: CampaignFolder, name: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the `facts` for each study in a problem's record; empty if there is no record."""
    try:
        return read_problem_of(folder, name).get("facts") or {}
    except FileNotFoundError:
        return {}


def repeat(
    config: Config, study_name: str, problem_name: str, precision: str, process: int, progress: ProgressCallback
) -> Path | None:
    """Time the kernels of a measured case's headline again, each twice; return the file of rows of this process.

    These are the study's pairs and the winner of its headline's tuning or, if this made no choice, of the first choice.
    Its rows come first. None for a case without a winner. The search is not repeated: its rows are those of the case.
    """
    study, folder = get_study(study_name), CampaignFolder.of(config.campaign)
    case = folder.case(study_name, problem_name, precision)
    steps = {step: _rows_of(step_file(case, step)) for step in ("search", "report", "choices")}
    if not steps["choices"]:
        return None
    headlines = (study.headline, TUNED + study.headline)
    winner = next((row for row in steps["choices"] if row["tuning"] in headlines), steps["choices"][0])["name"]
    pairs = [found for pair in study.pairs if (found := pair.find(steps["report"], steps["choices"]))]
    kernels = {("variant", winner), *((row["kind"], row["name"]) for pair in pairs for row in pair)}
    if config.repeats.device:
        devices = single_devices(resolve_device(config.repeats.device))
        config = config.model_copy(update={"device": devices[process % len(devices)]})
    path = repeat_file(config, study_name, problem_name, precision, process)
    store = path.with_suffix(".jsonl")
    run = copy_searches(store_path(config, study_name, problem_name, precision), store)
    again = (kernels, frozenset(row["name"] for row in steps["search"]))
    problem = load_built(folder, problem_name)
    with _session(config, study, problem, precision, progress, run, store, repeated=again) as session:
        report = next(result for step, result in study.measure(session) if step == "report")
    rows = [replace(row, process=process) for row in report if isinstance(row, Row) and row.kind not in YARDSTICKS]
    return write_rows(sorted(rows, key=lambda row: row.name != winner), study.columns, path)


def _rows_of(path: Path) -> list[dict[str, Any]]:
    return read_table(path).to_pylist() if path.exists() else []


def repeat_file(config: Config, study_name: str, problem_name: str, precision: str, process: int) -> Path:
    """Return the file of the rows of one further process, beside its store."""
    return step_file(
        CampaignFolder.of(config.campaign).store(study_name, problem_name, precision), f"{REPEAT}-{process}"
    )


def join_repeats(config: Config, study_name: str, problem_name: str, precision: str) -> Path:
    """Write `repeat.parquet` of a case from the files of the processes that were successful."""
    case = CampaignFolder.of(config.campaign).case(study_name, problem_name, precision)
    files = [
        repeat_file(config, study_name, problem_name, precision, process) for process in range(config.repeats.processes)
    ]
    tables = [read_table(path) for path in files if path.exists()]
    if not tables:
        return write_step(get_study(study_name), problem_name, precision, REPEAT, [], case)
    return write_table(pa.concat_tables(tables), step_file(case, REPEAT))


def drop_repeats(config: Config, study_name: str, problem_name: str, precision: str) -> None:
    """Remove what further processes of an earlier run have measured of a case, and write `repeat.parquet` without rows.

    They would be no pair with this run's rows.
    """
    folder = CampaignFolder.of(config.campaign).store(study_name, problem_name, precision)
    for path in folder.glob(f"{REPEAT}-*"):
        path.unlink()
    join_repeats(config, study_name, problem_name, precision)


def has_disturbed_winner(config: Config, study_name: str, problem_name: str, precision: str) -> bool:
    """Return whether a measured case chose a variant whose reported times were all disturbed."""
    case = CampaignFolder.of(config.campaign).case(study_name, problem_name, precision)
    paths = [step_file(case, step) for step in ("choices", "report")]
    if not all(path.is_file() for path in paths):
        return False
    choices, report = (read_table(path).to_pylist() for path in paths)
    disturbed_names = {row["name"] for row in report if row["status"] == "disturbed" and row["cache"] == "warm"}
    return any(choice["name"] in disturbed_names for choice in choices)


def record_failure(config: Config, study_name: str, problem_name: str, precision: str, reason: str) -> list[Path]:
    """Write the files of a case with one row that states the reason why the case was not measured."""
    case = CampaignFolder.of(config.campaign).case(study_name, problem_name, precision)
    return _write_unavailable(get_study(study_name), problem_name, precision, reason, case)


def store_path(config: Config, study_name: str, problem_name: str, precision: str) -> Path:
    """Return the path of the file that stores the rows of a case while it is measured."""
    return CampaignFolder.of(config.campaign).store(study_name, problem_name, precision) / "rows.jsonl"


def write_step(
    study: Study, problem_name: str, precision: str, step: str, step_result: StepResult, folder: Path
) -> Path:
    path = step_file(folder, step)
    choices = [choice for choice in step_result if isinstance(choice, Choice)]
    rows = [row for row in step_result if isinstance(row, Row)]
    if step != "choices":
        return write_rows(rows, study.columns, path)
    case = {"study": study.name, "problem": problem_name, "precision": precision, "schema": SCHEMA}
    choice_rows = [
        {**case, "clock": choice.clock, "tuning": choice.tuning, "name": choice.name, "ties": list(choice.ties)}
        for choice in choices
    ]
    return write_table(pa.Table.from_pylist(choice_rows, schema=CHOICES), path)


def environments_of(folder: CampaignFolder, steps: Sequence[Path]) -> list[Path]:
    """Return the environment records of a campaign that the rows of a case's files refer to."""
    tables = [read_table(path) for path in steps if path.stem != "choices"]
    environment_names = {name for table in tables for name in table["environment"].unique().to_pylist() if name}
    return [folder.environment(name) for name in sorted(environment_names)]


def _write_unavailable(study: Study, problem_name: str, precision: str, reason: str, folder: Path) -> list[Path]:
    """Write the files of all steps with one row that gives the reason; the file `choices` has no rows."""
    row = Row(
        key=f"unavailable {problem_name}",
        study=study.name,
        problem=problem_name,
        precision=precision,
        kind="variant",
        name="-",
        status="unavailable",
        phase="report",
        message=reason,
    )
    rows: Sequence[Row] = [row]
    return [
        write_step(study, problem_name, precision, step, [] if step == "choices" else rows, folder)
        for step in study.outputs
    ]


#: Signals that indicate a crash in a kernel or library; Linux sends SIGKILL if memory runs out.
CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP, signal.SIGKILL}


def supervise(command: Sequence[str], store: Callable[[], Path], run: str) -> int:
    """Run a measuring command, and restart it after each crash or lost CUDA context; return its exit code.

    A process that exits while it measures counts as crashed, since the code of a rival may call `exit`. The kernel or
    routine that crashed gets a row with status `launch_error`, so that the next process skips it. The caller must hold
    signals (`repro.bench.worker.signals_held`).

    Parameters
    ----------
    command
        The program's path and its arguments.
    store
        Function that returns the file with the stored rows of the current case.
    run
        Id of the run, as stored in the rows.
    """
    rows = (store(), 0)
    while True:
        end = run_worker(command)
        crash, row = signal.Signals(-end.code) if end.code < 0 else None, crashed_row(store(), run)
        if end.asked and (crash or end.code in (AGAIN, BY_SIGNAL + end.asked)):
            return BY_SIGNAL + end.asked
        if crash is not None and crash not in CRASHES and not (row and row.kind == OUTSIDE):
            return BY_SIGNAL + crash
        if crash is None and end.code not in (AGAIN, UNABLE) and row is None:
            return end.code
        if end.code != AGAIN:
            _store_crash(store(), run, _ending(end.code))
        rows_before, rows = rows, (store(), count_rows(store(), run))
        if rows == rows_before:
            raise ReproError(
                "measuring makes no progress: its process ended early and stored nothing new",
                where=store(),
                actual="it asked for a new process" if end.code == AGAIN else _ending(end.code),
                todo="read its last output; or try `repro launch` with a few variants, or another device",
            )


def _store_crash(path: Path, run: str, ending: str) -> None:
    """Store a failure row for the kernel or routine that was running at a crash, unless it already has a row."""
    row = crashed_row(path, run)
    moment = f"while {row.name} was tried" if row else "between two rows"
    print(f"the measuring process was {ending} {moment}; going on in a new one", flush=True)
    if row is None:
        return
    message = f"the process was {ending}"
    timestamp = datetime.now(UTC).isoformat(timespec="milliseconds")
    with Store(path, run) as store:
        if store.get(row.key) is None:
            store.add(replace(row, message=message, measured_at=timestamp))


def _ending(code: int) -> str:
    """Describe the end of a process from its exit code: by which signal, or with which code."""
    if code == UNABLE:
        return "kept from storing rows: its descriptors were closed or redirected, or its files may not grow any more"
    by_handled_signal = code - BY_SIGNAL in (signal.SIGINT, signal.SIGTERM)
    if code >= 0 and not by_handled_signal:
        return f"ended by exit({code})"
    crash = signal.Signals(code - BY_SIGNAL if by_handled_signal else -code)
    often = ", as Linux does where memory runs out" if crash == signal.SIGKILL else ""
    return f"ended by {crash.name} ({signal.strsignal(crash)}){often}"
