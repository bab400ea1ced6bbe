"""Trials of a rival on small matrices, which find wrong results, forbidden writes, memory leaks, crashes and hangs.

Trials run in a separate process. If the process dies or hangs, the current trial has failed; after a crash, a new
process continues with the next trial.
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from repro.bench.rows import PRECISIONS
from repro.bench.runnable import Operands, Workspace, printed
from repro.bench.timing import host_seconds
from repro.bench.trial import FAILURES, skipping
from repro.bench.worker import UNABLE, ContextLost
from repro.codegen.targets import Target
from repro.config.models import Rival, RivalTask
from repro.containment import Containment, text_of
from repro.devices.device_group import Devices
from repro.devices.selection import open_devices
from repro.entries import get_entry
from repro.errors import IncorrectError, ModuleError
from repro.problems.matrix import Matrix
from repro.sparse.expansions import real_expansion
from repro.sparse.operands import make_operands, worst_number
from repro.sparse.rivals.forms import PythonRival, check_compiled, compile_source
from repro.sparse.rivals.runnables import (
    RivalMultiplication,
    RivalProduct,
    RivalRunnable,
    RivalSolution,
    RivalUpdates,
)
from repro.untrusted_files import shown

#: Number of rows of a small matrix: more than a warp, and no multiple of a warp.
ROWS = 75
#: Number of timed launches, of which the fastest counts.
LAUNCHES = 5
#: Number of set-ups and teardowns; memory that grows by at least `LEAK_BYTES` in each of them is a leak.
CYCLES, LEAK_BYTES = 5, 1 << 14
#: Largest number of seconds of a trial; and of a process to open the device, compile a source and import a module.
SECONDS, STARTING = 20.0, 300.0
#: Types of entries in the trials, by task. `pattern` is a matrix of ones that are not stored.
ENTRIES_OF_TASK: Mapping[RivalTask, tuple[str, ...]] = {
    "spmv": ("real", "complex", "quaternion", "block3"),
    "spgemm": ("real",),
    "solve": ("real",),
    "updates": ("real",),
}
#: Number of entries of each batch for the task `updates`.
BATCHES = (1, 200, 0, 40)
#: Tolerance and largest number of iterations for a small linear system.
SOLVED_TO, MAX_ITERATIONS = 1e-8, 1000


@dataclass(frozen=True)
class Trial:
    """A type of entries and a precision with which a rival is tried on small matrices."""

    entry: str
    precision: str

    def __str__(self) -> str:
        return f"{self.entry}, {self.precision}"


@dataclass(frozen=True)
class TrialOutcome:
    """The outcome of a trial; `status` is a status of a result row (`repro.bench.rows.STATUSES`), or one of these:

    `leak`: memory is not released. `compiled`: without a GPU, a source was compiled and not run. `not_tried`: an
    earlier trial hung.
    """

    trial: Trial
    status: str
    #: Message of the failure; empty if there is none.
    message: str = ""
    label: str = ""
    #: Largest ratio of error to bound, seconds of set-up, and seconds of the fastest launch.
    error: float = 0.0
    setup: float = 0.0
    seconds: float = 0.0
    #: What the teardown raised, what the rival printed and what it changed in its process, each once.
    warnings: tuple[str, ...] = ()
    #: Traceback of an exception in Python, from the rival's own code on; empty if there is none.
    trace: str = ""
    #: Whether the rival changed what cannot be put back, so that other trials need another process.
    ends_process: bool = False


def trials_of(rival: Rival) -> list[Trial]:
    """Return the trials of a rival."""
    return [Trial(entry, precision) for entry in ENTRIES_OF_TASK[rival.of] for precision in PRECISIONS]


def small_matrix(entry: str) -> Matrix:
    """Return a random matrix with some empty rows, though not the first or the last row, and one long row."""
    random = np.random.default_rng(5)
    lengths = random.integers(1, 9, ROWS)
    lengths[ROWS // 2], lengths[10:-9:9] = ROWS - 3, 0
    columns = np.concatenate([np.sort(random.choice(ROWS, length, replace=False)) for length in lengths])
    values = random.normal(size=(len(columns), len(get_entry(entry).members)))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return Matrix(f"small/{entry}", entry, ROWS, offsets, columns.astype(np.int32), values)


def try_rival(rival: Rival, trial: Trial, devices: Devices) -> TrialOutcome:
    """Try a rival in this process; a faulty rival may crash the process or hang it."""
    runnable, operands, check = _KINDS[rival.of](rival, trial)
    workspace = Workspace(devices, operands)
    warnings: dict[str, None] = {}  # printed below the outcome, not before it
    runnable.warn = warnings.setdefault  # type: ignore[assignment,method-assign]
    try:
        runnable.pack(workspace)
        runnable.prepare(workspace)
        with runnable.contained():
            error = max(_launch(runnable, workspace, check) for _ in range(2))
            seconds = _timed(runnable, workspace, check)
        outcome = TrialOutcome(trial, "ok", "", runnable.label, error, runnable.setup_seconds or 0.0, seconds)
        if leak := _leak(runnable, workspace):
            outcome = TrialOutcome(trial, "leak", leak, runnable.label)
    except tuple(FAILURES) as failure:
        status = next(status for kind, status in FAILURES.items() if isinstance(failure, kind))
        trace = "".join(getattr(failure, "__notes__", ()))
        outcome = TrialOutcome(trial, status, text_of(failure), runnable.label, trace=trace)
    except ContextLost as failure:
        outcome = TrialOutcome(trial, "launch_error", str(failure), runnable.label)
    try:
        runnable.release()
        workspace.release()
    except ContextLost as failure:
        if outcome.status in ("ok", "leak"):
            outcome = TrialOutcome(trial, "launch_error", str(failure), runnable.label)
    if runnable.remark:
        warnings[f"it {runnable.remark}"] = None
    return replace(outcome, warnings=tuple(warnings), ends_process=bool(runnable.containment.beyond_repair))


def _timed(runnable: RivalRunnable, workspace: Workspace, check: Check) -> float:
    """Return the seconds of the fastest launch; before each, an operand changes, and after it the result is verified.

    Raises `IncorrectError`: a launch did not compute the product of the changed operand, or computed wrong numbers.
    """
    readings = []
    for _ in range(LAUNCHES):
        disturbance = runnable.disturb()
        readings.append(host_seconds(workspace.devices, runnable))
        if disturbance:
            try:
                with runnable.as_left():
                    check(workspace)
            except IncorrectError as wrong:
                raise IncorrectError(f"{skipping(disturbance)}: {wrong}") from None
    try:
        _launch(runnable, workspace, check)
    except IncorrectError as wrong:
        raise IncorrectError(f"right at first, wrong after {LAUNCHES} timed launches: {wrong}") from None
    return min(readings)


#: A trial consists of the runnable, its operands, and a function that returns the last launch's largest ratio of error
#: to bound.
Check = Callable[[Workspace], float]
Prepared = tuple[RivalRunnable, Operands, Check]


def _product(rival: Rival, trial: Trial) -> Prepared:
    operands = make_operands(small_matrix(trial.entry), trial.precision, 1)
    runnable = RivalProduct(rival, trial.entry)

    def check(workspace: Workspace) -> float:
        result = runnable.result()
        assert result is not None
        y = np.empty(operands.reference.size, operands.dtype)
        workspace.device.download(result, y)
        return _compare(y, runnable.arrange(operands.reference), np.abs(runnable.arrange(operands.bound)), "y")

    return runnable, operands, check


class _Factors(RivalMultiplication):
    """A product of two small matrices."""

    def __init__(self, rival: Rival, a: sp.csr_array, b: sp.csr_array) -> None:
        super().__init__(rival)
        self.factors = a, b

    def _factors(self, workspace: Workspace) -> tuple[sp.csr_array, sp.csr_array]:
        return self.factors


def _multiplication(rival: Rival, trial: Trial) -> Prepared:
    operands = make_operands(small_matrix(trial.entry), trial.precision, 1)
    matrix = small_matrix(trial.entry)
    a = sp.csr_array((operands.values.ravel(), matrix.indices, matrix.indptr), shape=matrix.shape)
    b = sp.csr_array(a[:, : ROWS // 2])
    b.sort_indices()
    runnable = _Factors(rival, a, b)
    exact = (a.astype(np.float64) @ b.astype(np.float64)).toarray()
    terms = (abs(a) != 0).astype(np.float64) @ (abs(b) != 0).astype(np.float64)
    eps = float(np.finfo(operands.dtype).eps)
    bound = (terms.toarray() + 1) * eps * (abs(a).astype(np.float64) @ abs(b).astype(np.float64)).toarray()

    def check(workspace: Workspace) -> float:
        return _compare_matrix(runnable.result(), exact, bound, terms.toarray())

    return runnable, operands, check


class _System(RivalSolution):
    """A small system with a symmetric positive definite matrix."""

    def __init__(self, rival: Rival, a: sp.csr_array, right: NDArray[np.floating]) -> None:
        super().__init__(rival)
        self.system = a, right

    def _system(self, workspace: Workspace) -> tuple[sp.csr_array, NDArray[Any], float, int]:
        return *self.system, SOLVED_TO, MAX_ITERATIONS


def _solution(rival: Rival, trial: Trial) -> Prepared:
    operands = make_operands(small_matrix(trial.entry), trial.precision, 1)
    a = sp.csr_array(sp.diags_array([-1.0, 2.5, -1.0], offsets=[-1, 0, 1], shape=(ROWS, ROWS)), dtype=operands.dtype)
    right = np.random.default_rng(2).uniform(-1.0, 1.0, ROWS).astype(operands.dtype)
    runnable = _System(rival, a, right)
    max_residual = (1.1 * SOLVED_TO + 1e3 * float(np.finfo(operands.dtype).eps)) * float(np.linalg.norm(right))

    def check(workspace: Workspace) -> float:
        y = runnable.result().astype(np.float64)
        residual = float(np.linalg.norm(right - a.astype(np.float64) @ y))
        if not residual <= max_residual:
            raise IncorrectError(
                f"the residual is {residual:.3g}, not at most {max_residual:.3g}", residual / max_residual
            )
        return residual / max_residual

    return runnable, operands, check


class _Growth(RivalUpdates):
    """Updates by a rival of a small matrix, with batches that the trial supplies."""

    def __init__(self, rival: Rival, a: sp.csr_array, batches: Sequence[tuple[NDArray[Any], ...]]) -> None:
        super().__init__(rival)
        self.growth = a, batches

    def _growth(self, workspace: Workspace) -> tuple[sp.csr_array, Sequence[tuple[NDArray[Any], ...]]]:
        return self.growth


def _updates(rival: Rival, trial: Trial) -> Prepared:
    matrix = small_matrix(trial.entry)
    operands = make_operands(matrix, trial.precision, 1)
    a = sp.csr_array((operands.values.ravel(), matrix.indices, matrix.indptr), shape=matrix.shape)
    runnable = _Growth(rival, a, _batches(operands.dtype))
    exact, magnitude, terms = a.astype(np.float64).toarray(), abs(a).astype(np.float64).toarray(), np.zeros(a.shape)
    np.add.at(terms, a.nonzero(), 1)
    for rows, columns, values in runnable.growth[1]:
        places = rows, columns
        np.add.at(exact, places, values)
        np.add.at(magnitude, places, np.abs(values))
        np.add.at(terms, places, 1)
    bound = (terms + 1) * float(np.finfo(operands.dtype).eps) * magnitude

    def check(workspace: Workspace) -> float:
        return _compare_matrix(runnable.result(), exact, bound, terms)

    return runnable, operands, check


def _batches(dtype: DTypeLike) -> list[tuple[NDArray[Any], ...]]:
    """Draw batches of (rows, columns, values); some coordinates occur many times."""
    random = np.random.default_rng(7)
    batches: list[tuple[NDArray[Any], ...]] = []
    for count in BATCHES:
        rows, columns = random.integers(0, ROWS, (2, count), dtype=np.int32)
        rows[::5], columns[::5] = ROWS // 2, 3
        batches.append((rows, columns, random.normal(size=count).astype(dtype)))
    return batches


_KINDS: Mapping[RivalTask, Callable[[Rival, Trial], Prepared]] = {
    "spmv": _product,
    "spgemm": _multiplication,
    "solve": _solution,
    "updates": _updates,
}


def _launch(runnable: RivalRunnable, workspace: Workspace, check: Check) -> float:
    """Launch once; return the largest ratio of error to bound, or raise `IncorrectError`."""
    runnable.erase_result(workspace)
    runnable.before()
    runnable.launch()
    workspace.device.synchronize()
    stray_writes = workspace.guards.out_of_bounds_writes()
    try:
        error = check(workspace)
    except IncorrectError as wrong:
        raise IncorrectError("; ".join([str(wrong), *stray_writes])) from None
    if stray_writes:
        raise IncorrectError("; ".join(stray_writes))
    return error


def _compare(result: NDArray[np.floating], exact: NDArray[np.float64], bound: NDArray[np.float64], name: str) -> float:
    """Return the largest ratio of error to bound; if a number is wrong, raise `IncorrectError` with its position."""
    errors = np.abs(result - exact)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(errors == 0, 0.0, errors / bound)
    wrong = ~(errors <= bound)
    if wrong.any():
        worst = worst_number(name, result, exact, bound)
        raise IncorrectError(f"{np.count_nonzero(wrong)} of {result.size} numbers are wrong, the worst: {worst}")
    return float(shares.max())


def _compare_matrix(
    c: sp.csr_array, exact: NDArray[np.float64], bound: NDArray[np.float64], terms: NDArray[np.float64]
) -> float:
    """Compare a sparse matrix, which may omit zeros, with dense arrays; `terms` counts the summands of each entry."""
    if duplicates := c.nnz - sp.csr_array(c.tocoo()).nnz:
        raise IncorrectError(f"{duplicates} entries of c are there twice")
    if surplus := int((np.diff(c.indptr) > np.count_nonzero(terms, axis=1)).sum()):
        raise IncorrectError(f"{surplus} rows of c have entries at places where it has none")
    return _compare(c.toarray(), exact, bound, "c")


def _leak(runnable: RivalRunnable, workspace: Workspace) -> str:
    """Set up, run and tear down several times.

    Return a text that says which memory grows each time, or an empty text.
    """
    readings: list[dict[str, int]] = []
    for _ in range(CYCLES):
        runnable.prepare(workspace)
        with runnable.contained():
            runnable.before()
            runnable.launch()
            workspace.devices.synchronize()
        runnable.release()
        gc.collect()
        readings.append(_used_bytes(workspace))
    for memory in readings[0]:
        growth = np.diff([reading[memory] for reading in readings])
        if (growth >= LEAK_BYTES).all():
            return f"{int(growth[-1]):,} bytes of {memory} memory stay each time it is set up and torn down"
    return ""


def _used_bytes(workspace: Workspace) -> dict[str, int]:
    """Return the bytes of memory that this process holds, by kind, as far as they are known."""
    used_bytes = {} if (host := _host_bytes()) is None else {"host": host}
    return used_bytes if workspace.device.backend == "opencl" else {**used_bytes, "GPU": -workspace.device.free_bytes()}


class _MallocInfo(ctypes.Structure):
    """`struct mallinfo2` of the GNU C library."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks",
                     "keepcost")
    )  # fmt: skip


def _host_bytes() -> int | None:
    """Return the bytes of unreleased `malloc` memory; None if the C library cannot say."""
    try:
        function = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError):
        return None
    function.restype = _MallocInfo
    info = function()
    return int(info.uordblks + info.hblkhd)


def try_apart(
    rival: Rival,
    device: str,
    seconds: float = SECONDS,
    begun: Callable[[Trial], None] = lambda trial: None,
    report: Callable[[TrialOutcome], None] = lambda outcome: None,
) -> list[TrialOutcome]:
    """Try a rival on all small matrices, in separate processes; after a trial that hangs, the others are skipped.

    Parameters
    ----------
    device
        `cuda:N` or `opencl:N`.
    seconds
        Largest number of seconds of one trial, without compiling and importing.
    begun, report
        Functions called with each trial before it starts, and with its outcome.
    """
    trials = trials_of(rival)
    outcomes: list[TrialOutcome] = []
    while len(outcomes) < len(trials):
        for outcome in _served(rival, device, trials[len(outcomes) :], seconds, begun):
            report(outcome)
            outcomes.append(outcome)
        if outcomes[-1].status == "timeout":
            break
    for trial in trials[len(outcomes) :]:
        begun(trial)
        outcomes.append(TrialOutcome(trial, "not_tried", "the one before it did not end"))
        report(outcomes[-1])
    return outcomes


def compile_alone(
    rival: Rival,
    target: Target,
    begun: Callable[[Trial], None] = lambda trial: None,
    report: Callable[[TrialOutcome], None] = lambda outcome: None,
) -> list[TrialOutcome]:
    """Compile a source on a host without GPU, once for trials that need the same binary.

    `begun` and `report` are as in `try_apart`.
    """
    alike: dict[tuple[str, int], Trial] = {}
    for trial in trials_of(rival):
        alike.setdefault((trial.precision, _block(rival, trial)), trial)
    outcomes = []
    for (precision, block), trial in alike.items():
        begun(trial)
        try:
            check_compiled(rival, target, precision, block)
            outcome = TrialOutcome(trial, "compiled", f"compiles for {target.name}; not run: no GPU")
        except ModuleError as error:
            outcome = TrialOutcome(trial, "compile_error", str(error))
        report(outcome)
        outcomes.append(outcome)
    return outcomes


def _block(rival: Rival, trial: Trial) -> int:
    return real_expansion(trial.entry).size if rival.format == "bsr" else 1


def _served(
    rival: Rival, device: str, trials: Sequence[Trial], seconds: float, begun: Callable[[Trial], None]
) -> Iterator[TrialOutcome]:
    """Yield the outcomes of trials in one process, up to the trial that ends the process, if one does."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(rival, device, list(trials), sender), daemon=True)
    process.start()
    sender.close()
    try:
        for number, trial in enumerate(trials):
            begun(trial)
            # before its first outcome, the process reports that it is ready
            for limit in (max(STARTING, seconds), seconds)[number > 0 :]:
                if not receiver.poll(limit):
                    yield TrialOutcome(trial, "timeout", f"it did not end within {limit:g} s")
                    return
                try:
                    outcome = receiver.recv()
                except EOFError:
                    process.join()
                    yield TrialOutcome(trial, "launch_error", _ended(process.exitcode or 0))
                    return
            yield outcome
            if outcome.ends_process:
                return
    finally:
        process.kill()
        process.join()


def _ended(code: int) -> str:
    if code == UNABLE:
        return (
            "it changes what cannot be put back: closes or redirects descriptors of its process, or lowers its limits"
        )
    if code >= 0:
        return f"the process was ended by exit({code})"
    return f"the process was ended by {signal.Signals(-code).name} ({signal.strsignal(-code)})"


def _serve(rival: Rival, device: str, trials: Sequence[Trial], connection: Connection) -> None:
    devices = open_devices(device)
    empty = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(empty, number)  # for what a rival's threads print between its calls
    containment, pipe = Containment(f"rival/{rival.name}"), os.fstat(connection.fileno())
    with suppress(*FAILURES):  # the trial reports the failure
        if rival.python is not None:
            with containment.call():
                PythonRival(rival.python, rival.of)
        elif rival.source is not None and devices.first.backend == "cuda":
            for precision, block in dict.fromkeys((trial.precision, _block(rival, trial)) for trial in trials):
                compile_source(rival, devices.first.target, precision, block)
    if containment.beyond_repair:
        os._exit(UNABLE)
    for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT):
        signal.signal(number, signal.SIG_DFL)  # Intel's OpenCL would report a rival's crash as its own bug
    first_warnings = [
        *map(printed, containment.lines),
        *(f"when imported it {change}" for change in containment.changes),
    ]

    def send(outcome: TrialOutcome | None) -> None:
        try:
            if not os.path.samestat(os.fstat(connection.fileno()), pipe):
                os._exit(UNABLE)
            connection.send(outcome)
        except OSError:
            os._exit(UNABLE)

    send(None)
    for trial in trials:
        try:
            outcome = try_rival(rival, trial, devices)
        except Exception as bug:
            outcome = TrialOutcome(trial, "launch_error", shown(text_of(bug)), trace=traceback.format_exc())
        send(replace(outcome, warnings=(*first_warnings, *outcome.warnings)))
        first_warnings = []
        if outcome.ends_process:
            break
    os._exit(0)  # whatever threads and exit functions the rival has left
