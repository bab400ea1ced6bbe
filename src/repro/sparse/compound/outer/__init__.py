"""Outer formats: places of the entries of rows.

Each format has one file; importing this package registers the formats of all files, and those of extensions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from repro.errors import ReproError
from repro.extensions import LAYOUTS, load_extensions
from repro.plugins import import_all
from repro.problems.matrix import Matrix


@dataclass(frozen=True)
class Slots:
    """Places of the entries of one matrix."""

    #: int32, the kernel's argument `index`, by which it finds the slots of a row.
    index: NDArray[np.int32]
    #: int64 `(nnz,)`, the slot of each entry, in CSR's order.
    position: NDArray[np.int64]
    #: The kernel's argument `stride`; 0 if unused.
    stride: int = 0
    #: int32, columns of the slots without an entry, ascending by slot; None: column 0. Kernels that run over the
    #: padding read x there, so that the columns must be valid and should be cached. Entries without members have no
    #: zero, and the column -1 in the padding instead.
    padding: NDArray[np.int32] | None = None
    #: Slots from one entry of a row to the next.
    step: int = 1


@dataclass(frozen=True)
class Outer:
    """An outer format: where the entries of a row lie among the slots of a matrix, on the host and in kernels."""

    #: The first part of a layout's name: `CSR`, `ELL`, `Sl-16`.
    name: str
    #: `kernels/sparse/compound/<template>.j2`, the device's counterpart of `locate`, has the macros `row_range()` (a
    #: row's first slot, its end, and the step), `index_size()`, and `padded_rows()` (the rows with slots).
    template: str
    #: ``count(row_lengths, warp)`` returns the number of slots, padding included, and the size of the index, without
    #: packing. Packing checks that the slots fit into 32 bits.
    count: Callable[[NDArray[np.int32], int], tuple[int, int]]
    #: ``locate(problem, warp)`` returns the places of the entries.
    locate: Callable[[Matrix, int], Slots]
    #: Further names that the template reads.
    constants: Mapping[str, int] = field(default_factory=dict)
    #: The space of its variants: `paper`, or `extended` for ours.
    space: str = "paper"
    #: Whether a row's slots may hold no entry; False where the loop over them stops at the row's end.
    padded: bool = True
    #: Whether entries of neighbouring rows are adjacent. If several threads share a row, neighbouring threads then take
    #: neighbouring rows, otherwise neighbouring entries of one row.
    rows_adjacent: bool = True


_REGISTRY: dict[str, Outer] = {}


def register(outer: Outer) -> Outer:
    """Add an outer format.

    Raises
    ------
    ReproError
        There is one of this name, or the name cannot be part of a layout's.
    """
    there = _REGISTRY.get(outer.name)
    if there is not None:
        raise ReproError(
            "an outer format of this name is there already",
            where=outer.name,
            actual=f"one of the template {there.template}.j2",
        )
    if not re.fullmatch(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*", outer.name):
        raise ReproError("no name of a format", expected="letters, digits, single hyphens", actual=outer.name)
    _REGISTRY[outer.name] = outer
    return outer


def outer_formats() -> dict[str, Outer]:
    return dict(_REGISTRY)


def rows_of_entries(problem: Matrix) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return row and index within the row of each entry, `(nnz,)` each."""
    rows = np.repeat(np.arange(problem.n, dtype=np.int64), problem.row_lengths)
    return rows, np.arange(problem.nnz) - problem.indptr[rows]


def get_outer(name: str) -> Outer:
    formats = outer_formats()
    if name not in formats:
        raise ReproError("unknown outer format", expected=f"one of {', '.join(formats)}", actual=name)
    return formats[name]


import_all(__name__, __path__)
load_extensions(LAYOUTS)
