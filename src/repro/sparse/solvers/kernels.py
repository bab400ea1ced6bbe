"""Rendering of the kernels of an iterative solver between its products, fused."""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path

from repro.codegen.targets import SCALARS, Target
from repro.codegen.templates import render_template
from repro.errors import ReproError

#: The iterative solvers.
SOLVERS = ("bicgstab",)
#: Threads per block, and blocks per multiprocessor, which are all resident at once.
BLOCK_SIZE = {"cuda": 256, "opencl": 64}
BLOCKS_PER_SM = {"cuda": 4, "opencl": 1}
#: Bytes of a vector load, to which vectors are padded; and loads in flight per thread.
WORD_BYTES = 16
IN_FLIGHT = 4


class State(IntEnum):
    """Index of each number of the state, in doubles."""

    RHO = 0  # (shadow, r)
    RHO_OF_ALPHA = 1  # rho of the iteration of `ALPHA`
    ALPHA = 2
    OMEGA = 3
    STOPPED = 4  # `Reason` at the end of an iteration
    STOPPED_HALFWAY = 5  # `Reason` in the middle of an iteration
    ITERATIONS = 6  # finished iterations


class Reason(IntEnum):
    """Breakdown of the recurrence: the divisor that is zero or not finite."""

    NONE = 0
    RHO = 1
    PROJECTION = 2  # (shadow, A p)
    OMEGA = 3  # (t, s) or (t, t)


def render_solver(templates: Path, solver: str, precision: str, target: Target) -> str:
    """Return the source of a solver's module."""
    if solver not in SOLVERS or precision not in SCALARS:
        raise ReproError(
            "unknown solver or precision",
            expected=f"{'|'.join(SOLVERS)}-{'|'.join(SCALARS)}",
            actual=f"{solver}-{precision}",
        )
    scalar, scalar_bytes = SCALARS[precision]
    return render_template(
        templates,
        f"sparse/{solver}.j2",
        dialect=target.dialect,
        title=f"{solver}: {precision} precision",
        scalar=scalar,
        members="xyzw"[: WORD_BYTES // scalar_bytes],
        n_t=BLOCK_SIZE[target.dialect],
        n_b=BLOCKS_PER_SM[target.dialect],
        in_flight=IN_FLIGHT,
        state={place.name.lower(): place.value for place in State},
        reasons={reason.name.lower(): reason.value for reason in Reason},
    )
