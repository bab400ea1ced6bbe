"""The two clocks: how many launches, which samples count, and what is reported of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from repro.bench.rows import QUANTILES
from repro.config.models import Protocol
from repro.devices.base import CaptureError, Device

ATTEMPTS = 3
QUARTERS = np.array([0, 0.25, 0.5, 0.75, 1])


@dataclass(frozen=True)
class Effort:
    """How much to time, and how.

    Attributes
    ----------
    launches
        Launches one by one.
    graph_launches, graph_replays
        Launches in a graph and replays of it; 0 for no graph clock.
    cold
        Whether the last-level cache is flushed before each launch.
    screening
        Whether it only finds out what is worth more; such a time is never called noisy, and never reported.
    """

    launches: int
    graph_launches: int = 0
    graph_replays: int = 0
    cold: bool = False
    screening: bool = False


@dataclass(frozen=True)
class Samples:
    """Seconds of each launch by the event clock and per launch of each replay by the graph clock.

    Attributes
    ----------
    event, graph
        float64; `graph` is None where it was not asked for, or cannot be had because `graph_message`.
    graph_launches
        Launches in one graph.
    sm_clock, throttle
        MHz, and why the device held its clock down, as read after the last launch.
    """

    event: NDArray[np.float64]
    graph: NDArray[np.float64] | None = None
    graph_launches: int | None = None
    graph_message: str | None = None
    sm_clock: float | None = None
    throttle: str | None = None

    def join(self, other: Samples) -> Samples:
        """Return the samples of both."""
        graphs = [g for g in (self.graph, other.graph) if g is not None]
        return replace(
            other,
            event=np.concatenate([self.event, other.event]),
            graph=np.concatenate(graphs) if graphs else None,
            throttle=self.throttle or other.throttle,
        )


class TooSlow(Exception):
    """A single launch takes longer than the time-out."""


def screen(protocol: Protocol, cold: bool = False) -> Effort:
    """Return the effort that finds out which variants are worth the full protocol."""
    return Effort(protocol.screen_launches, cold=cold, screening=True)


def full(protocol: Protocol, cold: bool = False) -> Effort:
    """Return the effort that winners are chosen by."""
    return Effort(protocol.launches, protocol.search_graph_launches, protocol.search_graph_replays, cold)


def take_samples(device: Device, launch: Callable[[], None], effort: Effort, protocol: Protocol) -> Samples:
    """Time a launch by both clocks; a sample that was taken while the device was throttled is taken again.

    The protocol's budget is for its full number of launches; fewer have their share of it.

    Raises
    ------
    TooSlow
        One launch alone takes longer than the protocol's time-out.
    """
    budget = protocol.budget(device.backend) * min(1.0, effort.launches / protocol.launches)
    if device.backend == "cuda":
        # A matrix has to get into the cache by its own launches: what leaves nothing there (loads by `cs`) would
        # otherwise profit from what another variant left.
        device.flush()
    fitted = fit(effort, _estimate(device, launch, budget / effort.launches, protocol.timeout), budget)
    for _ in range(ATTEMPTS):
        samples = _sample(device, launch, fitted)
        if samples.throttle is None:
            break
    return samples


def _estimate(device: Device, launch: Callable[[], None], enough: float, timeout: float) -> float:
    """Warm up; return roughly how long a launch takes, in seconds.

    The first one takes longer than the others, so that where it takes no more than `enough` nothing else need be known.
    """
    first = _host_seconds(device, launch)
    if first > timeout:
        raise TooSlow(f"one launch takes {first:.1f} s, the time-out is {timeout:g} s")
    return first if first <= enough else _host_seconds(device, launch)


def _host_seconds(device: Device, launch: Callable[[], None]) -> float:
    device.synchronize()
    start = time.perf_counter()
    launch()
    device.synchronize()
    return time.perf_counter() - start


def fit(effort: Effort, once: float, budget: float) -> Effort:
    """Return an effort that stays within a budget of seconds for each clock, but never below a few samples."""
    once = max(once, 1e-7)
    affordable = max(1, int(budget / once))
    graph_launches = min(effort.graph_launches, max(2, affordable // 5)) if effort.graph_launches else 0
    replays = min(effort.graph_replays, max(5, affordable // max(graph_launches, 1)))
    return replace(
        effort,
        launches=min(effort.launches, max(5, affordable)),
        graph_launches=graph_launches,
        graph_replays=replays,
    )


def _sample(device: Device, launch: Callable[[], None], effort: Effort) -> Samples:
    event = device.time_events(launch, effort.launches, effort.cold)
    graph, message = None, None
    if effort.graph_launches and not effort.cold:  # between the launches of a graph nothing could flush the cache
        try:
            graph = device.time_graph(launch, effort.graph_launches, effort.graph_replays)
        except CaptureError as error:
            message = f"no graph clock: {error}"
    sm_clock, throttle = device.clocks()
    return Samples(event, graph, effort.graph_launches or None, message, sm_clock, throttle)


def quantiles(samples: NDArray[np.float64]) -> dict[str, float]:
    """Return minimum, quartiles, median, maximum and mean."""
    # as np.quantile, which takes longer than a screened variant does
    last = len(samples) - 1
    values = np.interp(last * QUARTERS, np.arange(last + 1), np.sort(samples))
    return dict(zip(QUANTILES, [*map(float, values), float(samples.mean())], strict=True))


def columns(samples: Samples) -> dict[str, float | int | str | None]:
    """Return what a row says of the samples."""
    found: dict[str, float | int | str | None] = {
        "event_launches": len(samples.event),
        "sm_clock": samples.sm_clock,
        "throttle": samples.throttle,
        **{f"event_{name}": value for name, value in quantiles(samples.event).items()},
    }
    if samples.graph is not None:
        found["graph_launches"] = samples.graph_launches
        found |= {f"graph_{name}": value for name, value in quantiles(samples.graph).items()}
    return found


def spread(samples: Samples) -> float:
    """Return the distance of the quartiles in medians, of the steadier clock."""
    spreads = []
    for clock in (samples.event, samples.graph):
        if clock is not None:
            found = quantiles(clock)
            spreads.append((found["q3"] - found["q1"]) / found["median"])
    return min(spreads)
