"""What a device does at most in double precision, of those whose lanes are listed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Results in double precision that a multiprocessor gives in a cycle, each of a fused multiplication and addition, by
#: compute capability: CUDA C++ Programming Guide 11, "Throughput of Native Arithmetic Instructions", and from 7.5 on
#: its edition 13, table 30, "Ratio of FP32 to FP64 Throughput", of 64 lanes in single precision (7.5, 8.0) or 128.
LANES = {
    **dict.fromkeys(("sm_50", "sm_52", "sm_53", "sm_61", "sm_62"), 4),
    **dict.fromkeys(("sm_60", "sm_70", "sm_72", "sm_80"), 32),
    **dict.fromkeys(("sm_90", "sm_100"), 64),
    **dict.fromkeys(("sm_75", "sm_86", "sm_87", "sm_89", "sm_103", "sm_110", "sm_120", "sm_121"), 2),
}


def peak_of(environment: Mapping[str, Any]) -> float | None:
    """Return a device's largest rate in double precision, GFLOPS; None of a device that it is not known of.

    Parameters
    ----------
    environment
        A record with `target`, `multiprocessors` and `max_sm_clock_mhz`: two operations a lane and cycle.
    """
    lanes = LANES.get(str(environment.get("target")))
    count, clock = environment.get("multiprocessors"), environment.get("max_sm_clock_mhz")
    return 2e-3 * lanes * count * clock if lanes and count and clock else None
