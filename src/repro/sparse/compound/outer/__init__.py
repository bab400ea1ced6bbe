"""Outer formats: places of the entries of rows.

Each format has one file; importing this package registers the formats of all files, and those of extensions.
"""

from __future__ import annotations

from repro.errors import ReproError
from repro.extensions import LAYOUTS, load_extensions
from repro.plugins import import_all
from repro.sparse.compound.outer.base import Outer, Slots, outer_formats, register

import_all(__name__, __path__)
load_extensions(LAYOUTS)


def get_outer(name: str) -> Outer:
    formats = outer_formats()
    if name not in formats:
        raise ReproError("unknown outer format", expected=f"one of {', '.join(formats)}", actual=name)
    return formats[name]


__all__ = ["Outer", "Slots", "get_outer", "outer_formats", "register"]
