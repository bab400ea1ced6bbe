"""A plugin of pytest by which coverage is measured of the first three tests of each function.

Coverage doubles the time of a test. Of the lines that a function's tests run, the first three, with their parameters,
run almost all; the others repeat them with other entries, precisions and layouts. So they run untraced, and the tests
with coverage take little longer than those without.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator

import pytest

#: How many tests of a function coverage is measured of.
TRACED = 3
_runs: Counter[str] = Counter()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Run a test without the tracer of coverage where three of its function have run with it."""
    function, tracer = item.nodeid.partition("[")[0], sys.gettrace()
    _runs[function] += 1
    if tracer is None or _runs[function] <= TRACED:
        return (yield)
    sys.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(tracer)
