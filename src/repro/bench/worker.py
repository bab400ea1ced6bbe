"""A process that does the work of another, which survives its crash: starting it, waiting for it, ending with it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

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
