"""Who works with a device: one thread at a time, and no process that was forked from the one that opened it."""

from __future__ import annotations

import atexit
import os
from contextlib import AbstractContextManager
from threading import RLock
from typing import Any, NoReturn, Protocol
from weakref import WeakSet

from repro.errors import ReproError

#: Seconds that the end of the interpreter waits for what a thread has a device do.
LONGEST = 10.0


class _Shared(Protocol):
    """What threads share: a device, or a queue beside its own.

    Attributes
    ----------
    name
        Of the device.
    exclusive
        Held by the thread that works with it.
    """

    name: str
    exclusive: AbstractContextManager[object]


class _Lost:
    """In the place of the lock in a forked process: neither CUDA nor an OpenCL of threads outlives a fork."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> NoReturn:
        raise ReproError(
            "the device was opened before this process was forked, and is of no use in it",
            where=self._name,
            expected=f"the process that opened it; this one is {os.getpid()}",
            todo="make operators and vectors in the process that uses them, or start processes by `spawn`, as "
            'multiprocessing.get_context("spawn") does',
        )

    def __exit__(self, *error: object) -> None: ...


_opened: WeakSet[Any] = WeakSet()


def exclusive_use(shared: _Shared) -> AbstractContextManager[object]:
    """Return a lock for who works with a device or a queue: for one thread, which may take it again."""
    _opened.add(shared)
    return RLock()


def _lose() -> None:
    for shared in list(_opened):
        shared.exclusive = _Lost(shared.name)


def _keep_for_good() -> None:
    """Take all devices when the interpreter ends, once what is under way is done.

    A daemon thread ends there in the middle of a call, and a C++ library below it takes the whole process along; one
    that waits for a lock does no harm.
    """
    for shared in list(_opened):
        if not isinstance(shared.exclusive, _Lost):
            shared.exclusive.acquire(timeout=LONGEST)


os.register_at_fork(after_in_child=_lose)
atexit.register(_keep_for_good)
