"""Outer formats: where a row's entries lie.

One file each; every file of this folder is imported and registers what it has.
"""

from __future__ import annotations

from repro.errors import ReproError
from repro.plugins import import_all
from repro.sparse.compound.outer.base import Outer, Slots, outer_formats, register

import_all(__name__, __path__)


def get_outer(name: str) -> Outer:
    """Return the outer format of that name.

    Raises
    ------
    ReproError
        There is none.
    """
    formats = outer_formats()
    if name not in formats:
        raise ReproError("unknown outer format", expected=f"one of {', '.join(formats)}", actual=name)
    return formats[name]


__all__ = ["Outer", "Slots", "get_outer", "outer_formats", "register"]
