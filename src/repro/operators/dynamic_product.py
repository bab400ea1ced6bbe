"""The product with a matrix that changes: one launch on the caller's stream, bound anew only if the arrays change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock

from repro.devices.base import Call
from repro.operators.runtime import Runtime
from repro.sparse.dynamic.matrix import DynamicMatrix
from repro.sparse.dynamic.schedules import Schedule
from repro.sparse.dynamic.storage import Storage


class CurrentProduct:
    """y = A x with the arrays that a dynamic matrix has when it is called; implements `Call`.

    A change waits for the device, so a product sees all earlier changes on every stream. A change waits for earlier
    products on other streams than the device's own: each leaves an event there, for which the next change waits. A
    product of one thread waits for the end of a change by another thread.

    Parameters
    ----------
    schedule
        Function that returns the schedule for the matrix as it is.
    bind
        Function that binds the product for a schedule and the arrays of the matrix.
    """

    def __init__(
        self,
        runtime: Runtime,
        matrix: DynamicMatrix,
        schedule: Callable[[], Schedule],
        bind: Callable[[Schedule, Storage], Call],
    ) -> None:
        self._runtime, self._matrix, self._schedule, self._bind = runtime, matrix, schedule, bind
        self._lock = RLock()  # of a thread that needs the device, too, the device's lock is taken first
        self._marks = runtime.marks()
        self._bound: tuple[Storage, Schedule] | None = None
        self._call: Call | None = None

    def __call__(self, stream: int, *addresses: int) -> None:
        with self._lock:
            if self._call is not None:
                self._call(stream, *addresses)
                self._marks.add(stream)
                return
        with self._runtime.after(), self._lock:
            if self._call is None:
                storage, schedule = self._matrix.storage, self._schedule()
                self._call, self._bound = self._bind(schedule, storage), (storage, schedule)
            self._call(stream, *addresses)
            self._marks.add(stream)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Let earlier products end before the body changes the matrix, and let later ones see what it has become.

        The device is locked for this thread.
        """
        with self._lock:
            self._marks.wait()
            try:
                yield
            finally:
                if self._bound is not None and not self._is_current(*self._bound):
                    self.close()

    def _is_current(self, storage: Storage, schedule: Schedule) -> bool:
        return self._matrix.is_intact and self._matrix.storage is storage and self._schedule() == schedule

    def close(self) -> None:
        """Refuse launches with the arrays that are bound; the next product binds those that there are then."""
        with self._lock:
            call, self._call, self._bound = self._call, None, None
            if call is not None:
                call.close()
