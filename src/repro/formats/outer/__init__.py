"""Outer formats: where a row's entries lie.

One file each; every file of this folder is imported and registers what it has.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from repro.errors import ReproError
from repro.formats.outer.base import Outer, Slots, outer_formats, register

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")


def get_outer(name: str) -> Outer:
    """Return the outer format of that name.

    Raises
    ------
    ReproError
        There is none.
    """
    known = outer_formats()
    if name not in known:
        raise ReproError("unknown outer format", expected=f"one of {', '.join(known)}", actual=name)
    return known[name]


__all__ = ["Outer", "Slots", "get_outer", "outer_formats", "register"]
