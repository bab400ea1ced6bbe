"""Entries: the types of a matrix's non-zeros. Files in this folder register types; all are imported here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro.errors import ReproError
from repro.plugins import import_all

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Entry:
    """The algebra of one type of non-zero, in NumPy for the host and as C statements for the kernels."""

    name: str
    #: Names of the scalar members of a matrix entry, in storage order.
    members: tuple[str, ...]
    #: Names of the scalar members of a vector entry, in storage order.
    vector_members: tuple[str, ...]
    #: C statements that compute `c += a * b`, for a matrix entry `a` and vector entries `b` and `c`.
    mac: tuple[str, ...]
    #: Maps entries `(nnz, members)` to real blocks `(nnz, k, k)`; block times vector equals entry times vector entry.
    expand: Callable[[Array], Array]

    @property
    def operations(self) -> int:
        """Number of multiplications and additions in one `c += a * b`."""
        return sum(statement.count("*") + statement.count("=") for statement in self.mac)

    @property
    def size(self) -> int:
        """Number k of rows of the real k×k block that represents an entry."""
        return len(self.vector_members)


_REGISTRY: dict[str, Entry] = {}


def register(entry: Entry) -> Entry:
    """Add an entry to the registry and return it."""
    _REGISTRY[entry.name] = entry
    return entry


def entries() -> dict[str, Entry]:
    return dict(_REGISTRY)


import_all(__name__, __path__)


def get_entry(name: str) -> Entry:
    registered = entries()
    if name not in registered:
        raise ReproError("unknown entry", expected=f"one of {', '.join(sorted(registered))}", actual=name)
    return registered[name]


__all__ = ["Entry", "entries", "get_entry", "register"]
