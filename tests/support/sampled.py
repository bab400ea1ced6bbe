"""The marker `sampled(n)`: of a function's parameter sets n are tested in each run, the others are exhaustive."""

from __future__ import annotations

from collections import defaultdict

import pytest


def mark_unsampled(items: list[pytest.Item]) -> None:
    """Mark as exhaustive what `sampled` leaves out: all but n parameter sets, evenly spread, first and last included.

    Sets that are exhaustive anyway do not count.
    """
    functions = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled") and not item.get_closest_marker("exhaustive"):
            functions[item.nodeid.partition("[")[0]].append(item)
    for sets in functions.values():
        marker = sets[0].get_closest_marker("sampled")
        assert marker is not None
        [count] = marker.args
        kept = {round(i * (len(sets) - 1) / max(count - 1, 1)) for i in range(count)}
        for place, item in enumerate(sets):
            if place not in kept:
                item.add_marker(pytest.mark.exhaustive)
