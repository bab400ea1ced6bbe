"""Limits of each device generation, as data: what a kernel may ask for; and the working precisions.

Source of the NVIDIA limits: CUDA Programming Guide 13, section 5.1 "Compute Capabilities", tables 30 and 31; of
generations before 7.5 its edition 11, table "Technical Specifications per Compute Capability"; of 8.8, which the
guide omits, the toolkit's `cuda_occupancy.h`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from repro.errors import ReproError

#: The C type of a number, and its bytes.
SCALARS = {"single": ("float", 4), "double": ("double", 8)}
DTYPES: dict[str, type[np.floating]] = {"single": np.float32, "double": np.float64}
INDEX_BYTES = 4


#: Bytes of shared memory that the text of a kernel may declare, on every generation.
STATIC_SHARED = 48 * 1024


@dataclass(frozen=True)
class Target:
    """What one multiprocessor of a device generation can hold.

    Attributes
    ----------
    name
        `sm_90`, …, or `cpu`.
    warp
        Threads that run in step.
    threads_per_block, threads_per_sm, blocks_per_sm
        Upper limits.
    shared_bytes
        Shared memory of a block at the most; beyond `STATIC_SHARED` a kernel has to be launched with it.
    """

    name: str
    warp: int
    threads_per_block: int
    threads_per_sm: int
    blocks_per_sm: int
    shared_bytes: int = STATIC_SHARED

    @property
    def dialect(self) -> str:
        """The dialect that is compiled for it: `cuda` or `opencl`."""
        return "cuda" if self.name.startswith("sm_") else "opencl"


def _nvidia(capability: int, threads_per_sm: int, blocks_per_sm: int, shared_kib: int = 48) -> Target:
    return Target(f"sm_{capability}", 32, 1024, threads_per_sm, blocks_per_sm, shared_kib * 1024)


#: The limits of the CPU are a choice: work-groups small enough to be vectorised whole, few to a core.
CPU = Target("cpu", warp=16, threads_per_block=64, threads_per_sm=192, blocks_per_sm=3)

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        _nvidia(50, 2048, 32),
        _nvidia(52, 2048, 32),
        _nvidia(53, 2048, 32),
        _nvidia(60, 2048, 32),
        _nvidia(61, 2048, 32),
        _nvidia(62, 2048, 32),
        _nvidia(70, 2048, 32, 96),
        _nvidia(72, 2048, 32, 96),
        _nvidia(75, 1024, 16, 64),
        _nvidia(80, 2048, 32, 163),
        _nvidia(86, 1536, 16, 99),
        _nvidia(87, 1536, 16, 163),
        _nvidia(88, 1536, 16, 99),
        _nvidia(89, 1536, 24, 99),
        _nvidia(90, 2048, 32, 227),
        _nvidia(100, 2048, 32, 227),
        _nvidia(103, 2048, 32, 227),
        _nvidia(110, 1536, 24, 227),
        _nvidia(120, 1536, 24, 99),
        _nvidia(121, 1536, 24, 99),
        CPU,
    )
}


def get_target(name: str) -> Target:
    """Return the limits of that generation.

    Raises
    ------
    ReproError
        The generation is not in the table.
    """
    if name not in TARGETS:
        names = ", ".join(sorted(TARGETS, key=lambda n: (n == "cpu", int(re.sub(r"\D", "", n) or 0))))
        raise ReproError(
            "unknown target",
            expected=f"one of {names}",
            actual=name,
            todo="add its limits to codegen/targets.py",
        )
    return TARGETS[name]
