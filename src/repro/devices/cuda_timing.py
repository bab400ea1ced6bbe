"""The two clocks of a GPU: events around single launches, and replays of a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from inspect import unwrap
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from repro.devices.base import LaunchError
from repro.devices.cuda_blocker import Blocker

#: Timed launches that are queued at a time. A group is two events, a launch of at most a few operations, and a flush. A
#: GPU fetches only the first few dozen operations of its queue ahead; the next ones it fetches while they are timed. On
#: an H200 an empty kernel reads 2.69 µs by events with up to 8 groups, as by NVBench, which queues one at a time, but
#: 3.17 µs with 30 and 3.39 µs with 100, and scatters more. Eight or four take the host no longer than a hundred do.
GROUPS = 4
#: Launches of all graphs that are queued at a time, for the same reason; a launch is a node or, with a counter to
#: reset, two.
GRAPH_NODES = 100


class Timer:
    """Times launches on one stream.

    Parameters
    ----------
    cuda
        `pycuda.driver`.
    stream
        What is timed on.
    synchronize
        Waits for the stream; raises `LaunchError`.
    failure
        Makes an error of what the driver calls it.
    """

    def __init__(
        self, cuda: Any, stream: Any, synchronize: Callable[[], None], failure: Callable[[str], Exception]
    ) -> None:
        self._cuda = cuda
        self._stream = stream
        self._synchronize = synchronize
        self._failure = failure
        self._events: list[tuple[Any, Any]] = []
        # how many of a launch fit into the queue of a blocked stream: to find out takes until the blocker gives up
        self._fitting: WeakKeyDictionary[Callable[[], None], int] = WeakKeyDictionary()
        self.blocker: Blocker | None = None

    def events(
        self, launch: Callable[[], None], count: int, before: Callable[[], None] | None = None
    ) -> NDArray[np.float64]:
        """Time single launches, each between two events; `before` runs ahead of the first of them. Seconds."""
        stream = self._stream

        def group(start: Any, end: Any) -> None:
            if before is not None:
                before()
            start.record(stream)
            launch()
            end.record(stream)

        if before is not None:
            before()
        launch()  # unblocked: whatever a library sets up at its first call may wait for the device
        self._synchronize()
        same = unwrap(launch)
        times, self._fitting[same] = self._time(group, count, self._fitting.get(same, GROUPS))
        return times

    def graph(self, launch: Callable[[], None], launches: int, replays: int) -> NDArray[np.float64]:
        """Time replays of a graph of launches; seconds per launch.

        Raises
        ------
        CaptureError
            What is launched cannot be captured.
        """
        from repro.devices.cuda_graph import Graph  # NVIDIA's bindings are an extra

        launch()
        self._synchronize()
        graph = Graph(int(self._stream.handle), launch, launches, self._failure)
        stream = self._stream

        def group(start: Any, end: Any) -> None:
            start.record(stream)
            graph.replay()
            end.record(stream)

        try:
            graph.replay()
            self._synchronize()
            times, _ = self._time(group, replays, max(1, GRAPH_NODES // launches))
            return times / launches
        finally:
            graph.close()

    def stages(
        self, stages: Sequence[Callable[[], None]], count: int, before: Callable[[], None] | None = None
    ) -> NDArray[np.float64]:
        """Time stages of launches, each between two events; seconds, `(count, len(stages))`.

        The stream is not blocked: a stage may wait for it, to read a size back, which would never end.
        """
        samples = [[self._cuda.Event() for _ in range(len(stages) + 1)] for _ in range(count)]
        for start, *ends in samples:
            if before is not None:
                before()
            start.record(self._stream)
            for stage, end in zip(stages, ends, strict=True):
                stage()
                end.record(self._stream)
        self._synchronize()
        times = [[end.time_since(start) for start, end in pairwise(events)] for events in samples]
        return np.array(times, np.float64).reshape(count, len(stages)) * 1e-3

    def _time(self, group: Callable[[Any, Any], None], count: int, batch: int) -> tuple[NDArray[np.float64], int]:
        """Time groups, up to `batch` of them queued while the stream is blocked; fewer if the blocker gives up.

        Returns the times, and how many were queued in the end.
        """
        times = np.empty(count)
        done = 0
        while done < count:
            events = self._some_events(min(batch, count - done))
            # several may be more than the queue holds; then the host waits for the stream, and the stream for the host
            with self.blocker.hold(short=batch > 1) if self.blocker else nullcontext():
                for start, end in events:
                    group(start, end)
            self._synchronize()
            if self.blocker and self.blocker.expired:
                if batch == 1:
                    raise LaunchError(
                        "a launch waits for the device, so that the device cannot be kept from starting it; "
                        "under a profiler or debugger set REPRO_BLOCKING=0"
                    )
                batch = max(1, batch // 4)
                continue
            times[done : done + len(events)] = [end.time_since(start) for start, end in events]
            done += len(events)
        return times * 1e-3, batch

    def _some_events(self, count: int) -> list[tuple[Any, Any]]:
        while len(self._events) < count:
            self._events.append((self._cuda.Event(), self._cuda.Event()))
        return self._events[:count]

    def close(self) -> None:
        """Give events and blocker back."""
        self._events.clear()
        self.blocker = None
