"""Starts worker processes and waits for them; contains the watchdog that runs inside a worker.

A CUDA or OpenCL driver call cannot be interrupted. If a launch hangs, the watchdog ends the worker process, and the
parent starts a new worker that continues the job. A worker also ends when its parent ends.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import monotonic
from types import TracebackType
from typing import NoReturn

from repro.containment import release_streams

#: Seconds between two checks of the time; timeouts are minutes.
POLL_SECONDS = 0.5
#: If a check comes later than this many intervals, the process was suspended, and the excess time is not counted.
MISSED = 2
#: Exit code by which a worker asks its parent for a new worker: EX_TEMPFAIL of sysexits.h.
AGAIN = 75
#: A shell's exit code for a process that a signal ended is this number plus the signal's number.
BY_SIGNAL = 128
#: Exit code of a worker that cannot store its rows any more, since foreign code has changed its process.
UNABLE = 76


class ContextLost(Exception):
    """The device's context is lost. The row is already stored; only a new process can continue."""


def restart(reason: str, code: int = AGAIN) -> NoReturn:
    """End this process at once, with an exit code that asks the parent to start a new worker."""
    release_streams()
    with suppress(OSError, ValueError):
        print(f"{reason}; going on in a new process", flush=True)
        sys.stderr.flush()
    os._exit(code)  # a normal exit would wait for the hung device


class UnableToStore(ContextLost):
    """Foreign code keeps this process from storing rows. The parent stores the row that was noted; see `Store`."""


@contextmanager
def restarting() -> Iterator[None]:
    """End this process, and ask for a new one, if the body fails since only a new process can continue.

    Locks and devices may fail too where they are released meanwhile.
    """
    try:
        yield
    except Exception as failure:
        causes: list[BaseException] = [failure]
        while (cause := causes[-1].__context__) is not None:
            causes.append(cause)
        lost = [cause for cause in causes if isinstance(cause, ContextLost)]
        if not lost:
            raise
        is_unable = any(isinstance(cause, UnableToStore) for cause in lost)
        reason = f"this process or its device cannot be used any more after {lost[-1]}"
        restart(reason, UNABLE if is_unable else AGAIN)


class _Guard:
    """One watched block of code: start time, function to call on timeout, and elapsed seconds without suspension."""

    def __init__(self, expired: Callable[[], None]) -> None:
        self.began, self.expired, self.awake = monotonic(), expired, 0.0


class Watchdog:
    """Calls a function if a block of code takes more than `seconds`. A context manager; one thread watches all blocks.

    Time during which the process or the machine was suspended does not count.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._interval = min(POLL_SECONDS, seconds / 10)
        self._active_guard: _Guard | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Watchdog:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()

    @contextmanager
    def guard(self, expired: Callable[[], None]) -> Iterator[None]:
        """Call `expired` from the watchdog's thread if the body takes too long. `expired` should save the state and
        `restart`.
        """
        self._active_guard = _Guard(expired)
        try:
            yield
        finally:
            self._active_guard = None

    def _watch(self) -> None:
        last = monotonic()
        while not self._ended.wait(self._interval):
            now = monotonic()
            guard = self._active_guard
            if guard:
                guard.awake += min(now - max(last, guard.began), MISSED * self._interval)
                if guard.awake > self._seconds:
                    self._active_guard = None
                    guard.expired()
            last = now


#: Signals that ask a process to end.
_ENDING = frozenset({signal.SIGINT, signal.SIGTERM})
#: Number of the Linux `prctl` option that sends a process a signal when its parent dies.
_PR_SET_PDEATHSIG = 1
#: Environment variable that tells a worker the process id of its parent.
_PARENT = "REPRO_PARENT"
#: Seconds between two checks whether a worker has ended, in case the signal of its end is missed.
_LOOK = 1.0


@dataclass(frozen=True)
class End:
    """A worker's exit code (negative for a signal), and the signal, if any, that asked this process to end."""

    code: int
    asked: int | None = None


@contextmanager
def signals_held() -> Iterator[None]:
    """Block signals that ask this process to end; `run_worker` forwards them to the worker.

    Threads inherit the signal mask when they start, so the body should contain imports of modules that start threads.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_ENDING, signal.SIGCHLD})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run_worker(command: Sequence[str]) -> End:
    """Run a command with this process's input and output, inside `signals_held`. A signal to end is forwarded to it."""
    return run_workers([command])[0]


def run_workers(commands: Sequence[Sequence[str]]) -> list[End]:
    """Run commands at the same time, as `run_worker` does one."""
    # Signals that this process has ignored from its start, for example under `nohup`, stay ignored.
    end_signals = {number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN}
    if pending_signal := signal.sigtimedwait(end_signals, 0):  # a signal arrived between two workers
        return [End(-pending_signal.si_signo, pending_signal.si_signo)] * len(commands)
    sys.stdout.flush()
    sys.stderr.flush()
    environment = {**os.environ, _PARENT: str(os.getpid())}
    children = [os.posix_spawn(command[0], list(command), environment, setsigmask=()) for command in commands]
    codes: dict[int, int] = {}
    requested_signal = None
    while True:
        for child in [child for child in children if child not in codes]:
            ended_pid, status = os.waitpid(child, os.WNOHANG)
            if ended_pid:
                codes[child] = os.waitstatus_to_exitcode(status)
        if len(codes) == len(children):
            if requested_signal is None and (signal_info := signal.sigtimedwait(end_signals, 0)):
                requested_signal = signal_info.si_signo  # it arrived while the worker ended
            return [End(codes[child], requested_signal) for child in children]
        signal_info = signal.sigtimedwait({*end_signals, signal.SIGCHLD}, _LOOK)
        if signal_info is not None and signal_info.si_signo in end_signals:
            requested_signal = signal_info.si_signo
            if signal_info.si_code <= 0:  # sent to this process only; the terminal signals the whole group
                for child in [child for child in children if child not in codes]:
                    os.kill(child, requested_signal)


def end_with_parent() -> None:
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.environ.get(_PARENT, str(os.getppid())) != str(os.getppid()):  # the parent died before `prctl` was called
        sys.exit(128 + signal.SIGTERM)
