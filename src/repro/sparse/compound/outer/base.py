"""What an outer format has to say of itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from repro.problems.matrix import Matrix


@dataclass(frozen=True)
class Slots:
    """Where the entries of one matrix lie.

    Attributes
    ----------
    index
        int32, what the kernel finds a row's slots by; its argument `index`.
    position
        int64 `(nnz,)`, the slot of each entry, entries in CSR's order.
    stride
        The kernel's argument `stride`; 0 where it has no use for it.
    padding
        int32, columns of the slots that hold no entry, ascending by slot; None: column 0. A kernel that runs over the
        padding reads x there, so that the columns have to be valid and should be in the cache. Entries without members,
        which have no zero, have the column -1 there instead.
    step
        Slots from one entry of a row to the next.
    """

    index: NDArray[np.int32]
    position: NDArray[np.int64]
    stride: int = 0
    padding: NDArray[np.int32] | None = None
    step: int = 1


@dataclass(frozen=True)
class Outer:
    """An outer format.

    Attributes
    ----------
    name
        `CSR`, `ELL`, `Sl-16`, …: the first part of a layout's name.
    template
        `kernels/compound_spmv/<template>.j2` says the same as `locate` for the device: its macros are `slots_of_row()`,
        a row's first slot, its end, and the step; `index_size()`; and `padded_rows()`, the rows that have slots.
    count
        ``count(row_lengths, warp)`` returns how many slots a matrix takes, padding included, and how many numbers its
        index, without packing it. Slots may be more than 32 bits hold: whoever packs checks.
    locate
        ``locate(problem, warp)`` returns where the entries lie.
    constants
        What the template reads beside the names that all templates have.
    space
        The space of variants that it belongs to: `paper`, or `extended` where it is ours.
    padded
        Whether a row's slots may hold no entry; not where the loop over them stops at the row's end.
    rows_adjacent
        Whether neighbouring rows' entries lie side by side: where several threads share a row, neighbouring threads
        then take neighbouring rows, otherwise neighbouring entries of one row.
    """

    name: str
    template: str
    count: Callable[[NDArray[np.int32], int], tuple[int, int]]
    locate: Callable[[Matrix, int], Slots]
    constants: Mapping[str, int] = field(default_factory=dict)
    space: str = "paper"
    padded: bool = True
    rows_adjacent: bool = True


_REGISTRY: dict[str, Outer] = {}


def register(outer: Outer) -> Outer:
    """Add an outer format to the registry and return it."""
    _REGISTRY[outer.name] = outer
    return outer


def outer_formats() -> dict[str, Outer]:
    """All registered outer formats by name."""
    return dict(_REGISTRY)


def rows_of_entries(problem: Matrix) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the row of each entry and its place within the row, both `(nnz,)`."""
    rows = np.repeat(np.arange(problem.n, dtype=np.int64), problem.row_lengths)
    return rows, np.arange(problem.nnz) - problem.indptr[rows]
