"""A worker process, which its parent survives: starting it, waiting for it, and its watchdog.

The driver cannot be interrupted. Where a launch never ends, the watchdog ends the process, and another one goes on.
A worker ends with its parent.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import NoReturn

#: Seconds between two looks at the clock; what is guarded takes minutes until it is given up.
INTERVAL = 0.5
#: Intervals that a process which was awake can miss between two looks; what is beyond them it was stopped for.
MISSED = 2
#: Exit code of a process that another has to go on for: EX_TEMPFAIL of sysexits.h.
AGAIN = 75


class ContextLost(Exception):
    """The device's context is lost; only a new process can go on. What happened is stored already."""


def restart(reason: str) -> NoReturn:
    """End this process at once, by the exit code that asks for a new one, which goes on after what is stored."""
    print(f"{reason}; going on in a new process", flush=True)
    sys.stderr.flush()
    os._exit(AGAIN)  # leaving Python's way waits for the device, and for the thread that hangs in its driver


class _Guard:
    """One block of code that is watched.

    Attributes
    ----------
    began
        When.
    expired
        What to call if it takes too long.
    awake
        Seconds so far in which the process could run.
    """

    def __init__(self, expired: Callable[[], None]) -> None:
        self.began, self.expired, self.awake = time.monotonic(), expired, 0.0


class Watchdog:
    """One thread that watches over one block of code after the other; used as a context manager.

    A thread a block would cost more than a short block takes. Time in which the process was stopped, or the machine
    suspended, does not count.

    Parameters
    ----------
    seconds
        How long a block may take.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._interval = min(INTERVAL, seconds / 10)
        self._guarded: _Guard | None = None
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
        """Call `expired` from the thread if the body takes too long; it should store what is known and `restart`."""
        self._guarded = _Guard(expired)
        try:
            yield
        finally:
            self._guarded = None

    def _watch(self) -> None:
        last = time.monotonic()
        while not self._ended.wait(self._interval):
            now = time.monotonic()
            guarded = self._guarded
            if guarded:
                guarded.awake += min(now - max(last, guarded.began), MISSED * self._interval)
                if guarded.awake > self._seconds:
                    self._guarded = None
                    guarded.expired()
            last = now


#: What asks a program to end.
_ENDING = frozenset({signal.SIGINT, signal.SIGTERM})
#: Linux's number for "send me a signal when my parent dies".
_PR_SET_PDEATHSIG = 1
#: Names a worker's parent to it.
_PARENT = "REPRO_PARENT"
#: Seconds between two looks at a worker, should its end go unnoticed.
_LOOK = 1.0


@dataclass(frozen=True)
class End:
    """How a worker ended.

    Attributes
    ----------
    code
        Its exit code; where a signal ended it, that signal's number with a minus.
    asked
        The signal by which this process was asked to end meanwhile; None where it was not.
    """

    code: int
    asked: int | None = None


@contextmanager
def signals_held() -> Iterator[None]:
    """Keep signals that ask to end for `run_worker`, which passes them on.

    Threads take this over from the one that starts them: what starts any is to be imported in the body.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_ENDING, signal.SIGCHLD})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run_worker(command: Sequence[str]) -> End:
    """Run a command to its end, on the same input and output; while signals are held.

    It is asked to end when this process is. What comes from the terminal it gets by itself.

    Parameters
    ----------
    command
        The program's path and its arguments.
    """
    # what this process was started to ignore, by `nohup` say, it still ignores
    ending = {number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN}
    if early := signal.sigtimedwait(ending, 0):  # it came between two workers
        return End(-early.si_signo, early.si_signo)
    sys.stdout.flush()
    sys.stderr.flush()
    environment = {**os.environ, _PARENT: str(os.getpid())}
    child = os.posix_spawn(command[0], list(command), environment, setsigmask=())
    asked = None
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return End(os.waitstatus_to_exitcode(status), asked)
        received = signal.sigtimedwait({*ending, signal.SIGCHLD}, _LOOK)
        if received is not None and received.si_signo in ending:
            asked = received.si_signo
            if received.si_code <= 0:  # sent by a process, not by the terminal to the whole group
                os.kill(child, asked)


def end_with_parent() -> None:
    """Have this process end when its parent does, however that ends, where the system can (Linux)."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.environ.get(_PARENT, str(os.getppid())) != str(os.getppid()):  # it died before it could be waited for
        sys.exit(128 + signal.SIGTERM)
