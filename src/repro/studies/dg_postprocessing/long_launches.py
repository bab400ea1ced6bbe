"""How long a launch of a way to filter takes, roughly, before there is any: on a large mesh it may be minutes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repro.bench.runnable import Unsupported
from repro.studies.dg_postprocessing.peak import peak_of

#: The share of the largest rate in double precision that the operations of contours are done at, by way and degree 0 to
#: 3, at the least: blocks for each multiprocessor as in the paper, on an H200.
SHARES = {
    "point": (0.004, 0.004, 0.010, 0.025),
    "element": (0.012, 0.012, 0.030, 0.070),
    "atomic": (0.012, 0.012, 0.030, 0.070),
    "edges": (0.100, 0.150, 0.300, 0.400),
}
#: Launches that timing a way takes at the least: some that are checked, and some in rounds.
LAUNCHES = 6


def predicted_seconds(way: str, degree: int, operations: int, environment: Mapping[str, Any]) -> float | None:
    """Return how long a launch takes about; None on a device whose peak is not known.

    Parameters
    ----------
    way, degree
        What filters, and k.
    operations
        Of contours, whatever the way does itself.
    environment
        The device's record; see `peak_of`.
    """
    peak = peak_of(environment)
    return operations / (1e9 * peak * SHARES[way][degree]) if peak else None


def refuse_long(seconds: float | None, timeout: float) -> None:
    """Refuse a launch of which not even a few can be timed.

    Raises
    ------
    Unsupported
        It takes too long.
    """
    if seconds is not None and LAUNCHES * seconds > timeout:
        raise Unsupported(
            f"a launch takes about {seconds:.2g} s, and {LAUNCHES} would outlast the time-out, {timeout:g} s"
        )
