"""Schedules: how rows are dealt to threads, and the papers' space of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from repro.codegen.targets import Target

KINDS = ("static", "dynamic")


@dataclass(frozen=True, order=True)
class Schedule:
    """How rows are dealt to threads; the grid is n_s·n_b blocks on a device of n_s multiprocessors.

    Attributes
    ----------
    kind
        `static` (grid-stride loop) or `dynamic` (blocks draw n_t rows at a time from an atomic counter).
    n_t
        Threads per block.
    n_b
        Blocks per multiprocessor.
    width
        Threads that share a row (King's logical vector width).
    unroll
        Entries of a row in flight per thread.
    """

    kind: str
    n_t: int
    n_b: int
    width: int = 1
    unroll: int = 1

    def __str__(self) -> str:
        extra = f"-w{self.width}" * (self.width > 1) + f"-u{self.unroll}" * (self.unroll > 1)
        return f"{self.kind}-{self.n_t}-{self.n_b}{extra}"


def _steps(first: int, limit: int) -> list[int]:
    """Return first·2^i and first·3·2^i up to the limit, ascending."""
    powers = [first << i for i in range(32)]
    return sorted(step for step in {*powers, *(3 * p for p in powers)} if step <= limit)


def paper_space(target: Target) -> list[Schedule]:
    """Return every schedule of the papers' space on a target, pruned by the device's limits alone.

    n_t is w·2^i or w·3·2^i for a warp of w threads, n_b is 2^i or 3·2^i (Mueller-Roemer et al. 2020, section 4);
    60 pairs on an `sm_90`.
    """
    return [
        Schedule(kind, n_t, n_b)
        for kind, n_t, n_b in product(
            KINDS, _steps(target.warp, target.threads_per_block), _steps(1, target.blocks_per_sm)
        )
        if n_t * n_b <= target.threads_per_sm
    ]
