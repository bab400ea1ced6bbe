"""Rendering of the multigrid modules in a precision."""

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
#: Possible numbers of threads (lanes) per row.
WIDTHS = {"cuda": (1, 2, 4, 8, 16, 32), "opencl": (1,)}
#: Number of threads (lanes) per aggregate.
LANES_OF_AGGREGATE = {"cuda": 8, "opencl": 1}


class SetupCounters(NamedTuple):
    """Index of each int32 counter that stages write for later stages and for the host; the radius is a float64."""

    #: Number of rows with an unusable diagonal; 2³¹ − 1 minus the first of these rows; and whether a diagonal entry is
    #: 0.
    bad: int = 0
    first_bad: int = 1
    zeros: int = 2
    #: Counters [0, 3) are reset by the launch that estimates the spectral radius.
    of_radius: int = 3
    #: Number of aggregates.
    aggregates: int = 3
    #: Numbers of undecided nodes in a round, in the next one, and in the one after that.
    undecided: int = 4
    radius: int = 8
    #: Length of the longest row of P, and later of its transpose; and number of entries of P.
    longest: int = 10
    entries: int = 11
    #: Number of allocated counters, some of them without a name.
    size: int = 16


COUNTERS = SetupCounters()
#: Resident blocks per multiprocessor of a kernel with barriers of all blocks.
SET_UP_BLOCKS_PER_SM = 4


def render_multigrid(templates: Path, key: str, target: Target, owner: str) -> str:
    """Return the source of module `key` (PRECISION/MODULE); `owner` is named in its title and in error messages."""
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
    """Return the number of lanes per row for a mean row length: each lane has about four entries."""
    widths = WIDTHS[target.dialect]
    return next((width for width in widths if 4 * width >= mean), widths[-1])
