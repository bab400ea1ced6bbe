"""How many times faster than HYB a format is updated: streamed as a whole, and batch by batch."""

from __future__ import annotations

from collections.abc import Callable

from repro.artifacts.case import Case, Timed
from repro.studies.dynamic_csr.update_times import DCSR, HYB, Contestant, Protocol, iterated, update_of

Pair = tuple[Timed | None, Timed | None]


def streamed(order: str) -> Callable[[Case], Pair]:
    """Return what finds HYB's time of a streamed matrix, and that of dynamic CSR."""
    protocol = Protocol(order, "add")
    return lambda case: (update_of(case, HYB, "stream", protocol), update_of(case, DCSR, "stream", protocol))


def iterative(contestant: Contestant) -> Callable[[Case], Pair]:
    """Return what finds HYB's time of the iterative test, and that of a format."""
    return lambda case: (iterated(case, HYB), iterated(case, contestant))
