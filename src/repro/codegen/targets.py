"""Hardware limits of each device generation, which kernels must respect, and the floating-point precisions.

Sources of the NVIDIA limits: for most generations, CUDA Programming Guide 13, section 5.1 "Compute Capabilities",
tables 30 and 31; for generations before 7.5, edition 11 of the guide, table "Technical Specifications per Compute
Capability"; for 8.8, which the guide omits, the file `cuda_occupancy.h` of the toolkit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from repro.errors import ReproError

#: C type and number of bytes of a floating-point number in each precision.
SCALARS = {"single": ("float", 4), "double": ("double", 8)}
DTYPES: dict[str, type[np.floating]] = {"single": np.float32, "double": np.float64}
INDEX_BYTES = 4


#: Maximum static shared memory of a kernel in bytes, on every generation.
STATIC_SHARED = 48 * 1024


@dataclass(frozen=True)
class Target:
    """Hardware limits of one multiprocessor of a device generation."""

    #: Name of the generation: `sm_90`, … for GPUs, or `cpu`.
    name: str
    #: Number of threads in a warp.
    warp: int
    threads_per_block: int
    threads_per_sm: int
    blocks_per_sm: int
    #: Maximum bytes of shared memory per block; above `STATIC_SHARED`, the memory must be dynamic.
    shared_bytes: int = STATIC_SHARED

    @property
    def dialect(self) -> str:
        """Language of the kernels: `cuda` or `opencl`."""
        return "cuda" if self.name.startswith("sm_") else "opencl"


def _nvidia(capability: int, threads_per_sm: int, blocks_per_sm: int, shared_kib: int = 48) -> Target:
    return Target(f"sm_{capability}", 32, 1024, threads_per_sm, blocks_per_sm, shared_kib * 1024)


#: Limits for the CPU, chosen for fully vectorised work-groups and few work-groups per core.
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
    """Return the limits of a device generation; raise `ReproError` for an unknown one."""
    if name not in TARGETS:
        names = ", ".join(sorted(TARGETS, key=lambda n: (n == "cpu", int(re.sub(r"\D", "", n) or 0))))
        raise ReproError(
            "unknown target",
            expected=f"one of {names}",
            actual=name,
            todo="add its limits to codegen/targets.py",
        )
    return TARGETS[name]
