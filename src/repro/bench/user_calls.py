"""Times of whole calls of public functions, as a user makes them, by the host's clock.

`queued`: calls one after the other, and one wait for the device at their end, in seconds per call. `waited`: each call
followed by a wait for the device.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from repro.errors import IncorrectError

Seconds = NDArray[np.float64]
#: The library of our own calls.
OURS = "repro"
#: Seconds that the calls of one function, library and protocol take in a round.
BUDGET = 0.02
#: Largest numbers of calls in a round, and calls that warm up.
MAX_QUEUED, MAX_WAITED, WARM_UP = 500, 100, 3
#: Rounds, and rounds of calls that take `LONG` seconds or more.
ROUNDS, LONG_ROUNDS, LONG = 7, 2, 0.2


@dataclass(frozen=True)
class UserCall:
    """One public function, called with arrays of one library."""

    #: What is computed, such as `product`; calls of the same function do the same work.
    function: str
    #: Whose function it is: `OURS`, CuPy, PyTorch or SciPy.
    library: str
    #: Whose arrays are given and returned: CuPy, PyTorch, NumPy, or `own`.
    arrays: str
    #: Whether the result is a `new` array, or is written to `out`.
    result: str
    #: Makes one call, and returns the result.
    run: Callable[[], Any]
    #: Returns when the device has done what was called.
    wait: Callable[[], None]
    #: Returns the ratio of a result's error to its bound.
    error: Callable[[Any], float]

    @property
    def name(self) -> str:
        return f"{self.function}/{self.library}/{self.arrays}/{self.result}".replace(" ", "-")


@dataclass(frozen=True)
class CallGroup:
    """Calls that are timed in the same rounds, and the time of the kernel that ours launch."""

    calls: Sequence[UserCall]
    #: Times the kernel of our calls alone, by the clock `graph`; None if a call is no single kernel.
    kernel: Callable[[], Seconds] | None = None


class CallsOf(Protocol):
    """Gives the calls that a problem allows, group by group; each group's memory is released before the next."""

    def __call__(self, problem: Any, precision: str, functions: Sequence[str], seed: int) -> Iterable[CallGroup]: ...


@dataclass
class CallTimes:
    """What was measured of one call."""

    call: UserCall
    #: Ratio of the error to its bound.
    error: float | None = None
    #: Seconds per call of each round.
    queued: list[float] = field(default_factory=list)
    #: Seconds of each call, by round.
    waited: list[Seconds] = field(default_factory=list)
    failure: Exception | None = None
    #: Calls of a round, by protocol, and rounds.
    n_queued: int = 1
    n_waited: int = 1
    rounds: int = 0

    def attempt(self, work: Callable[..., None], *arguments: Any) -> None:
        """Do part of the work; after an error, which may be any library's, nothing more is done."""
        try:
            work(self, *arguments)
        except Exception as error:
            self.failure, self.rounds = error, 0


def time_calls(calls: Sequence[UserCall], seed: int, budget: float = BUDGET) -> list[CallTimes]:
    """Verify each call, then time all of them in shuffled rounds; a call that fails has the error in place of times."""
    times = [CallTimes(call) for call in calls]
    for item in times:
        item.attempt(_verify, budget)
    generator = np.random.default_rng(seed)
    for number in range(ROUNDS):
        for index in generator.permutation(len(times)):
            if number < times[index].rounds:
                times[index].attempt(_time)
    return times


def _verify(item: CallTimes, budget: float) -> None:
    """Check a result, and choose the numbers of calls and of rounds."""
    call = item.call
    result = call.run()
    call.wait()
    item.error = call.error(result)
    if not item.error <= 1:
        raise IncorrectError(f"the result is off by {item.error:.3g} times its bound", item.error)
    del result
    seconds = inf
    for _ in range(WARM_UP):
        start = time.perf_counter()
        call.run()
        call.wait()
        seconds = min(seconds, time.perf_counter() - start)
        if seconds > LONG:
            break
    fitting = max(1, int(budget / seconds))
    item.n_queued, item.n_waited = min(fitting, MAX_QUEUED), min(fitting, MAX_WAITED)
    item.rounds = LONG_ROUNDS if seconds > LONG else ROUNDS


def _time(item: CallTimes) -> None:
    run, wait, clock = item.call.run, item.call.wait, time.perf_counter
    waited = np.empty(item.n_waited)
    collects = gc.isenabled()
    gc.disable()  # as timeit does
    try:
        run()
        wait()
        start = clock()
        for _ in range(item.n_queued):
            run()
        wait()
        queued = (clock() - start) / item.n_queued
        for index in range(item.n_waited):
            start = clock()
            run()
            wait()
            waited[index] = clock() - start
    finally:
        if collects:
            gc.enable()
    item.queued.append(queued)
    item.waited.append(waited)
