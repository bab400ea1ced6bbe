"""Entries: what a non-zero is. One file each; every file of this folder is imported and registers its own."""

from __future__ import annotations

from repro.entries.base import Entry, entries, register
from repro.errors import ReproError
from repro.scan import import_all

import_all(__name__, __path__)


def get_entry(name: str) -> Entry:
    """Return the entry of that name.

    Raises
    ------
    ReproError
        There is none.
    """
    registered = entries()
    if name not in registered:
        raise ReproError("unknown entry", expected=f"one of {', '.join(sorted(registered))}", actual=name)
    return registered[name]


__all__ = ["Entry", "entries", "get_entry", "register"]
