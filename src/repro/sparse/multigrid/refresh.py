"""New values of a hierarchy whose patterns stay, from new values of its finest matrix: one launch of all levels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise

import numpy as np

from repro.devices.base import PART_ALIGNMENT, Device
from repro.sparse.device_primitives import Load, Repeated, keep
from repro.sparse.dynamic.storage import Storage
from repro.sparse.elementwise import Launch, in_order
from repro.sparse.multigrid.hierarchy import Coarsening, DeviceLevel, LevelLaunches, has_prolongator_kernel
from repro.sparse.multigrid.kernels import COUNTERS
from repro.sparse.multigrid.reference import MultigridSettings
from repro.sparse.spgemm.binned_rows import Factors
from repro.sparse.spgemm.multiplication import Destinations, Multiplication


def refresh_on(
    device: Device, load: Load, levels: Sequence[DeviceLevel], settings: MultigridSettings | None = None
) -> list[DeviceLevel]:
    """Return levels, set up as `refreshable`, after new values in the finest matrix.

    Aggregates, tentative prolongators and patterns stay, whatever the new strong connections are. Diagonals, radii and
    values of P, R and coarser matrices are recomputed in place. For equal aggregates the result is that of a new set-up
    but for rounding. After a `ReproError` the values are of no use. The finest level keeps what the next refresh needs.
    """
    made = levels[0].refresh
    refresh = made if isinstance(made, Refresh) else Refresh(device, load, levels, settings or MultigridSettings())
    try:
        return refresh(levels)
    except BaseException:
        if made is None:
            refresh.release()
        raise


class Refresh:
    """The launches of a refresh, bound to the memory of its levels.

    Products are computed by stored destinations, and all launches become a graph at the end of the first call. Where
    rows are too long for destinations, products take the way of a numeric phase without a plan, launch by launch.
    """

    def __init__(self, device: Device, load: Load, levels: Sequence[DeviceLevel], settings: MultigridSettings) -> None:
        self._device, self._load = device, load
        with device.pooling(), ExitStack() as held:
            self._run = run = LevelLaunches(device, load, levels[0].a.dtype, held)
            self._multiplication = Multiplication(device, load, run.dtype)
            self._words = run.numbers(len(levels) * PART_ALIGNMENT // 4, np.int32)
            product = self._products(levels, held)
            self._steps: list[Coarsening] = []
            launches: list[Launch] = []
            for at, level in enumerate(levels):
                words = run.keep(device.part(self._words, at * PART_ALIGNMENT, 4 * COUNTERS.size))
                step = Coarsening(run, self._multiplication.whole, settings, words)
                self._steps.append(step)
                if level.p is None:
                    launches.append(step.take_diagonal(level))
                else:
                    launches += [step.measure(level), step.refill(level, levels[at + 1].a, product)]
            whole = in_order(launches)
            self._launch: Launch = keep(held, Repeated(device, whole, behind_first=True)) if self._stored else whole
            self._held = held.pop_all()

    def _products(self, levels: Sequence[DeviceLevel], held: ExitStack) -> Callable[[Factors, Storage], Launch]:
        """Return what binds products: to stored destinations where all rows of all products have them."""
        plans: dict[int, Destinations] = {}
        with ExitStack() as planned:
            for level, coarser in pairwise(levels):
                for factors, c in products_of(level, coarser.a):
                    plan = plans[id(c)] = keep(planned, Destinations(self._device, self._load, factors, c))
                    if plan.unplanned:
                        # a row without them may change the order of its columns, which later products rely on
                        self._stored = False
                        return self._bind_refill
            held.push(planned.pop_all())
        self._stored = True
        return lambda factors, c: plans[id(c)].bind(factors, c, held)

    def _bind_refill(self, factors: Factors, c: Storage) -> Launch:
        def refill() -> None:
            with self._multiplication.refilled(factors, c) as launch:
                launch()

        return refill

    def __call__(self, levels: Sequence[DeviceLevel]) -> list[DeviceLevel]:
        """Recompute all values; return the levels. The finest level keeps a reference to this object."""
        self._launch()
        words = self._run.download(self._words, len(levels) * PART_ALIGNMENT // 4, np.int32)
        refreshed: list[DeviceLevel] = []
        for step, level, of_level in zip(self._steps, levels, words.reshape(len(levels), -1), strict=True):
            facts = step.facts(level, of_level)
            refreshed.append(level if level.p is None else replace(level, radius=facts.checked_radius()))
        refreshed[0] = replace(refreshed[0], refresh=self)
        return refreshed

    @property
    def captured(self) -> bool:
        """Whether the launches are a graph."""
        return isinstance(self._launch, Repeated) and self._launch.captured

    def release(self) -> None:
        """Release the memory; a second call has no effect."""
        self._held.close()


def products_of(level: DeviceLevel, coarse: Storage) -> list[tuple[Factors, Storage]]:
    """Return the factors of each product and its result: A T and P, A P and A P, R (A P) and the next level's matrix.

    The first is left out where a kernel of its own makes P.
    """
    t, p, r, ap = level.t, level.p, level.r, level.ap
    assert t is not None and p is not None and r is not None and ap is not None
    tentative = [] if has_prolongator_kernel(level.a) else [(Factors(level.a, t), p)]
    return [*tentative, (Factors(level.a, p), ap), (Factors(r, ap), coarse)]
