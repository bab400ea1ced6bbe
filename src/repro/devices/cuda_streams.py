"""Streams beside a GPU's own, for kernels that run at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class SideStreams:
    """Streams that wait for the main one and that the main one waits for, so that a graph captures what is on them.

    Parameters
    ----------
    cuda
        `pycuda.driver`.
    main
        The stream that all else is queued on.
    """

    def __init__(self, cuda: Any, main: Any) -> None:
        self._cuda = cuda
        self._main = main
        self._sides: list[Any] = []
        self._events: list[Any] = []

    def take(self, count: int) -> list[Any]:
        """Return so many streams, the main one first; they are made when they are first asked for."""
        while len(self._events) < max(count, 1):
            self._events.append(self._cuda.Event(self._cuda.event_flags.DISABLE_TIMING))
        while len(self._sides) < count - 1:
            self._sides.append(self._cuda.Stream())
        return [self._main, *self._sides[: count - 1]][:count]

    def side_by_side(self, runs: Sequence[Callable[[], None]]) -> Callable[[], None]:
        """Return what queues runs that were bound to the streams of `take(len(runs))`, each to its own."""
        main, (first, *own), sides = self._main, runs, self._sides[: len(runs) - 1]
        begin, *ends = self._events[: len(runs)]

        def queue() -> None:
            begin.record(main)
            for side, run, end in zip(sides, own, ends, strict=True):
                side.wait_for_event(begin)
                run()
                end.record(side)
            first()
            for end in ends:
                main.wait_for_event(end)

        return queue

    def close(self) -> None:
        """Let go of streams and events."""
        self._sides.clear()
        self._events.clear()
