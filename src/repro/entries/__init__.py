"""Entries: what a non-zero is. One file each; every file of this folder is imported and registers its own."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from repro.entries.base import Entry, entries, register
from repro.errors import ReproError

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")


def get_entry(name: str) -> Entry:
    """Return the entry of that name.

    Raises
    ------
    ReproError
        There is none.
    """
    known = entries()
    if name not in known:
        raise ReproError("unknown entry", expected=f"one of {', '.join(sorted(known))}", actual=name)
    return known[name]


__all__ = ["Entry", "entries", "get_entry", "register"]
