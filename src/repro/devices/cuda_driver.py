"""Answers of NVIDIA's own bindings of the driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def value(answer: tuple[Any, ...], failure: Callable[[str], Exception]) -> Any:
    """Return what a call of the driver gives beside its error code; None where that is all.

    Raises
    ------
    Exception
        The code is not that of success: what `failure` makes of its name.
    """
    error, *values = answer
    if int(error):
        raise failure(str(error.name))
    return values[0] if values else None
