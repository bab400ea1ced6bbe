"""Rendering of the modules of multigrid, in a precision."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from repro.codegen.targets import DTYPES, SCALARS, Target
from repro.codegen.templates import render_template
from repro.sparse.dynamic.kernels import STATE_BUFFER_END
from repro.sparse.elementwise import BLOCK_SIZE, split_key
from repro.sparse.multigrid.reference import BREAKDOWN, DEPENDENT, KEY_BITS, MAX_STEPS, MIN_RADIUS

#: Template of each module in `kernels/sparse/multigrid/`.
TEMPLATES = {
    "setup": "setup",
    "radius": "spectral_radius",
    "aggregation": "aggregation",
    "grouping": "group_sort",
    "smoothing": "smoothing",
    "cycle": "cycle",
}
MODULES = tuple(TEMPLATES)
#: Threads (lanes) for each row.
WIDTHS = {"cuda": (1, 2, 4, 8, 16, 32), "opencl": (1,)}
#: Threads (lanes) for each aggregate (measurements not recorded).
LANES_OF_AGGREGATE = {"cuda": 8, "opencl": 1}


class SetupCounters(NamedTuple):
    """Index of each int32 counter that stages write for later stages and for the host; the radius is a float64."""

    #: Rows whose diagonal cannot be divided by, the first of them, counted down, and whether an entry is 0.
    bad: int = 0
    first_bad: int = 1
    zeros: int = 2
    #: Counters [0, 3), which the launch of the spectral radius resets.
    of_radius: int = 3
    #: Number of aggregates.
    aggregates: int = 3
    #: Undecided nodes of a round, of the next one and of the one after that.
    undecided: int = 4
    radius: int = 8
    #: The longest row of P, later of its transpose; and the entries of P.
    longest: int = 10
    entries: int = 11
    #: Counters that are allocated, some of them without a name.
    size: int = 16


COUNTERS = SetupCounters()
#: Blocks that a multiprocessor holds of a kernel whose blocks wait for each other.
SET_UP_BLOCKS_PER_SM = 4


def render_multigrid(templates: Path, key: str, target: Target, owner: str) -> str:
    """Return the source of module PRECISION/MODULE; `owner` stands in its title and in messages."""
    precision, module = split_key(key, MODULES, owner)
    return render_template(
        templates,
        f"sparse/multigrid/{TEMPLATES[module]}.j2",
        title=f"{owner}: {module}, {precision} precision",
        dialect=target.dialect,
        scalar=SCALARS[precision][0],
        block_size=BLOCK_SIZE[target.dialect],
        widths=WIDTHS[target.dialect],
        lanes_of_aggregate=LANES_OF_AGGREGATE[target.dialect],
        key_bits=KEY_BITS,
        dependent=DEPENDENT,
        max_finite=float(np.finfo(DTYPES[precision]).max),
        breakdown=BREAKDOWN[precision],
        max_steps=MAX_STEPS,
        min_radius=MIN_RADIUS,
        blocks_per_sm=SET_UP_BLOCKS_PER_SM,
        words=COUNTERS,
        state_pointer=STATE_BUFFER_END,
    )


def width_for(target: Target, mean: float) -> int:
    """Return the lanes of a row for a mean row length: each has about four entries."""
    widths = WIDTHS[target.dialect]
    return next((width for width in widths if 4 * width >= mean), widths[-1])
