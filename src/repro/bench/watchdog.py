"""Giving up on a launch that never ends: the driver cannot be interrupted, so the process is replaced."""

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


class ContextLost(Exception):
    """The device's context is lost; only a new process can go on. What happened is stored already."""


def restart(reason: str) -> NoReturn:
    """Replace this process by the same command, which goes on after what is stored."""
    print(f"{reason}; going on in a new process", flush=True)
    os.execv(sys.executable, [sys.executable, *sys.argv])


class Watchdog:
    """One thread that watches over one block of code after the other; used as a context manager.

    A thread a block would cost more than a short block takes.

    Parameters
    ----------
    seconds
        How long a block may take.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._guarded: tuple[float, Callable[[], None]] | None = None
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
        self._guarded = time.monotonic() + self._seconds, expired
        try:
            yield
        finally:
            self._guarded = None

    def _watch(self) -> None:
        while not self._ended.wait(min(INTERVAL, self._seconds / 4)):
            guarded = self._guarded
            if guarded and time.monotonic() > guarded[0]:
                self._guarded = None
                guarded[1]()
