"""Measuring one problem of a study in one precision: devices, operands, the study's steps, the process.

Devices are opened alone, once for all cases of a batch. A case is measured in a process of its own, so that a crash
costs one row: `supervise` starts that process, and starts it again after a crash or a lost context.

The step that measures depends on the code of this module and of what it imports; it imports neither the plan nor
anything that makes tables.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from repro.bench.environment import describe_environment, record
from repro.bench.rows import SCHEMA, Row
from repro.bench.runnable import Operands
from repro.bench.store import Store, count_rows, crashed_row, read_table, write_rows, write_table
from repro.bench.trial import Bench, DeviceSamples
from repro.bench.worker import AGAIN, run_worker
from repro.bench.workspace import Workspace
from repro.campaign.dependencies import code_hash
from repro.campaign.folders import RESULTS, Folders, check_study
from repro.config.models import Config
from repro.devices.base import LaunchError
from repro.devices.device_group import Devices
from repro.devices.locks import DeviceLocks, lock_devices
from repro.devices.selection import identities, open_devices, resolve_device
from repro.errors import ReproError
from repro.problems.problem import Unavailable
from repro.studies import StepResult, Study, get_study
from repro.tuning.search import Choice, ProgressCallback
from repro.tuning.session import CaseLocation, Session


@dataclass(frozen=True)
class Opened:
    """Devices that are held and open, and what is known of them, which the cases of a batch do not time again."""

    devices: Devices
    held: DeviceLocks
    timed: dict[str, DeviceSamples] = field(default_factory=dict)


@contextmanager
def opened(config: Config, work: str) -> Iterator[Opened]:
    """Open the devices, each of them alone.

    Parameters
    ----------
    work
        What they are held for, as others who wait are told.

    Raises
    ------
    ReproError
        A device is not there or what drives it is missing.
    """
    resolved = resolve_device(config.device)
    with lock_devices(identities(resolved), f"campaign {config.campaign}: {work}") as held:
        devices = open_devices(resolved)
        try:
            yield Opened(devices, held)
        finally:
            devices.close()


@contextmanager
def opened_once(config: Config, work: str) -> Iterator[Callable[[], Opened]]:
    """Give what opens the devices when it is called first, and returns the same after that, for a batch of cases."""
    with ExitStack() as stack:
        yield cache(lambda: stack.enter_context(opened(config, work)))


@contextmanager
def open_bench(
    config: Config,
    study: Study,
    problem: str,
    operands: Operands,
    folders: Folders,
    batch: Callable[[], Opened] | None = None,
    turns: int = 1,
) -> Iterator[Bench]:
    """Open the devices, unless they are given, and bring operands to them.

    Parameters
    ----------
    batch
        Returns what the case shares with others, as `opened_once` gives it; None: the devices are opened for it alone.
    turns
        How many processes take turns at the devices: with others beside it, this one lends them while it packs.

    Raises
    ------
    ReproError
        As `opened`, or the common module is not compiled or not for the devices.
    """
    with ExitStack() as stack:
        alone = opened(config, f"{study.name} {problem} {operands.precision}")
        place = batch() if batch else stack.enter_context(alone)
        # on a CPU, whoever packs disturbs what others measure
        lend = place.held.lent if turns > 1 and place.devices.backend == "cuda" else nullcontext
        workspace = Workspace(place.devices, operands, say=partial(print, flush=True), lend=lend, turns=turns)
        _load_common(workspace, config.device)
        environment: Mapping[str, Any] = describe_environment(workspace, study.packages)
        bench = Bench(
            workspace,
            study=study.name,
            problem=problem,
            timing=config.studies[study.name].timing,
            seed=config.seed,
            own=study.columns,
            environment=record(environment, folders.environments),
            driver=str(environment.get("driver")),
            code=code_hash,
            timed=place.timed if batch else None,
            idle=lambda: place.held.idle,
        )
        stack.callback(bench.release)
        bench.neighbours.look()
        yield bench


def _load_common(workspace: Workspace, wanted: str) -> None:
    try:
        for device in workspace.devices:
            device.use_common(device.load(workspace.common.binary))
    except LaunchError as error:
        raise ReproError(
            "the common module cannot be loaded",
            where=f"device: {resolve_device(wanted)}",
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
    name: str,
    precision: str,
    progress: ProgressCallback,
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
        As for `repro.campaign.measurement.open_bench`.

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
        place = CaseLocation(study_name, config.campaign, RESULTS)
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


def write_step(study: Study, problem: str, precision: str, step: str, given: StepResult, folder: Path) -> Path:
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


#: Signals that a kernel, or a library, ends a process by; the last one Linux, where memory runs out.
CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP, signal.SIGKILL}
#: By which a shell tells a signal's number in an exit code.
BY_SIGNAL = 128


def supervise(command: Sequence[str], store: Callable[[], Path], run: str) -> int:
    """Run the command that measures a case or several, again after each crash and lost context; return its exit code.

    What it tried when it crashed becomes a row, `launch_error`, so that the next process leaves it out. While signals
    are held (`repro.bench.worker.signals_held`).

    Parameters
    ----------
    command
        The program's path and its arguments.
    store
        Returns where it stores its rows: those of the case that is measured when it is asked.
    run
        The id by which it stores them.

    Raises
    ------
    ReproError
        A process crashed, or asked for another, without a row more than there were before: the next would do the same.
    """
    rows = (store(), 0)
    while True:
        end = run_worker(command)
        crash = signal.Signals(-end.code) if end.code < 0 else None
        if end.asked and (crash or end.code == AGAIN):
            return BY_SIGNAL + end.asked
        if crash is not None and crash not in CRASHES:
            return BY_SIGNAL + crash
        if crash is None and end.code != AGAIN:
            return end.code
        if crash is not None:
            _store_crash(store(), run, crash)
        before, rows = rows, (store(), count_rows(store(), run))
        if rows == before:
            raise ReproError(
                "measuring does not get on: its process ended early, and nothing new is stored",
                where=store(),
                actual=_words(crash) if crash else "it asked for a new process",
                todo="see what it said last; if nothing, try `repro launch` with a few variants, or another device",
            )


def _store_crash(path: Path, run: str, crash: signal.Signals) -> None:
    """Store what was tried at a crash, unless its row was stored already."""
    row = crashed_row(path, run)
    tried = f"while {row.name} was tried" if row else "between two rows"
    print(f"the measuring process was {_words(crash)} {tried}; going on in a new one", flush=True)
    if row is None:
        return
    message = f"the process was {_words(crash)}"
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    with Store(path, run) as store:
        if store.get(row.key) is None:
            store.add(replace(row, message=message, measured_at=now))


def _words(crash: signal.Signals) -> str:
    often = ", as Linux does where memory runs out" if crash == signal.SIGKILL else ""
    return f"ended by {crash.name} ({signal.strsignal(crash)}){often}"
