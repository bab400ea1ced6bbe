"""Giving up on a launch that never ends: the driver cannot be interrupted, so the process ends and another goes on."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
