"""How many times faster than HYB a format is updated: streamed as a whole, and batch by batch."""

from __future__ import annotations

from collections.abc import Callable

from repro.artifacts.case import Case
from repro.studies.dynamic_csr.update_times import DCSR, HYB, Contestant, Protocol, iterated, update_of


def streamed(order: str) -> Callable[[Case], float | None]:
    """Return what computes HYB's time of a streamed matrix over that of dynamic CSR."""
    protocol = Protocol(order, "add")

    def number(case: Case) -> float | None:
        ours, theirs = (update_of(case, contestant, "stream", protocol) for contestant in (DCSR, HYB))
        return theirs.seconds / ours.seconds if ours and theirs else None

    return number


def iterative(contestant: Contestant) -> Callable[[Case], float | None]:
    """Return what computes HYB's time of the iterative test over that of a format."""

    def number(case: Case) -> float | None:
        ours, theirs = (iterated(case, of) for of in (contestant, HYB))
        return theirs.seconds / ours.seconds if ours and theirs else None

    return number
