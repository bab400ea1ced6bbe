"""Entries: what a non-zero is.

Each entry has one file in this folder. Every file of the folder is imported here and registers its own entry.
"""

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
    """The algebra of one kind of non-zero, for the host and as C statements for the kernels.

    Attributes
    ----------
    name
        `real`, `complex`, `quaternion`, `block3`, …
    members
        Names of the scalar members of a matrix entry, in storage order.
    vector_members
        Names of the scalar members of a vector entry, in storage order.
    mac
        C statements for ``c += a * b`` on a matrix entry ``a`` and vector entries ``b`` and ``c``.
    expand
        ``expand(values)`` maps ``(nnz, members)`` to the real blocks ``(nnz, k, k)``, k = `size`, so that the
        product with a vector's members in storage order is the block's ordinary matrix-vector product.
    """

    name: str
    members: tuple[str, ...]
    vector_members: tuple[str, ...]
    mac: tuple[str, ...]
    expand: Callable[[Array], Array]

    @property
    def operations(self) -> int:
        """Multiplications and additions of a multiply-accumulate."""
        return sum(statement.count("*") + statement.count("=") for statement in self.mac)

    @property
    def size(self) -> int:
        """k, the rows of the real k×k expansion."""
        return len(self.vector_members)


_REGISTRY: dict[str, Entry] = {}


def register(entry: Entry) -> Entry:
    """Add an entry to the registry and return it."""
    _REGISTRY[entry.name] = entry
    return entry


def entries() -> dict[str, Entry]:
    """All registered entries by name."""
    return dict(_REGISTRY)


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
