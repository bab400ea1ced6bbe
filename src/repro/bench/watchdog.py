"""Giving up on a launch that never ends: the driver cannot be interrupted, so the process is replaced."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import NoReturn


class ContextLost(Exception):
    """The device's context is lost; only a new process can go on. What happened is stored already."""


def restart(reason: str) -> NoReturn:
    """Replace this process by the same command, which goes on after what is stored."""
    print(f"{reason}; going on in a new process", flush=True)
    os.execv(sys.executable, [sys.executable, *sys.argv])


class Watchdog:
    """Calls `expired` from a thread of its own when the guarded block takes too long.

    Parameters
    ----------
    seconds
        How long is too long.
    expired
        What to do then; it should store what is known and `restart`.
    """

    def __init__(self, seconds: float, expired: Callable[[], None]) -> None:
        self._timer = threading.Timer(seconds, expired)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
