"""How many calls of Python something makes: code without a loop over entries makes about as many for a large matrix."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


def python_calls(function: Callable[[], object]) -> int:
    """Call a function; return the number of calls of functions, Python's and C's, that are made meanwhile."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    earlier = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(earlier)
    return count
