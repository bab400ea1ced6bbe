"""Timing by the host's clock, from an idle device to an idle device."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray


def time_host(
    launch: Callable[[], None],
    count: int,
    synchronize: Callable[[], None],
    before: Callable[[], None] | None = None,
) -> NDArray[np.float64]:
    """Time launches, each with the wait for its end; seconds, `(count,)`.

    Parameters
    ----------
    synchronize
        Waits until nothing is queued any more.
    before
        Runs ahead of each launch, outside the timed region, as does the wait for what it queued.
    """
    return time_stages([launch], count, synchronize, before)[:, 0]


def time_stages(
    stages: Sequence[Callable[[], None]],
    count: int,
    synchronize: Callable[[], None],
    before: Callable[[], None] | None = None,
) -> NDArray[np.float64]:
    """Time launches stage by stage, each stage with the wait for its end; seconds, `(count, len(stages))`."""
    readings = np.empty((count, len(stages) + 1))
    for sample in readings:
        if before is not None:
            before()
        synchronize()
        sample[0] = time.perf_counter()
        for number, stage in enumerate(stages, 1):
            stage()
            synchronize()
            sample[number] = time.perf_counter()
    return np.diff(readings, axis=1)
