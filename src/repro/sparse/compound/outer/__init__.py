"""Outer formats: where the entries of each row are stored among the slots of a matrix.

Importing this package registers the formats of all its files, and those of extensions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.codegen.templates import TEXTS
from repro.errors import ReproError
from repro.extensions import LAYOUTS, load_extensions
from repro.plugins import import_all
from repro.problems.matrix import Matrix


@dataclass(frozen=True)
class Slots:
    """Slots of the entries of one matrix in an outer format."""

    #: int32, the kernel's argument `index`, from which the kernel finds the slots of a row.
    index: NDArray[np.int32]
    #: int64 `(nnz,)`, the slot of each entry; entries are in CSR order.
    position: NDArray[np.int64]
    #: The kernel's argument `stride`; 0 if unused.
    stride: int = 0
    #: int32, columns of the slots without an entry, ascending by slot; None: column 0. Kernels that also process
    #: padding read x there, so these columns must be valid, and should be cached. For entries without members, which
    #: have no zero, the column of padding is -1 instead.
    padding: NDArray[np.int32] | None = None
    #: Distance in slots from one entry of a row to the next.
    step: int = 1


@dataclass(frozen=True)
class Outer:
    """An outer format: how the entries of a row are assigned to the slots of a matrix, on the host and in kernels."""

    #: First part of a layout's name: `CSR`, `ELL`, `Sl-16`.
    name: str
    #: `kernels/sparse/compound/<template>.j2`, the device's counterpart of `locate`, has the macros `row_range()` (a
    #: row's first slot, its end, and the step; of a long row of a clustered layout with the argument "long", and of any
    #: of its rows with "any"), `index_size()`, and `padded_rows()` (the rows with slots).
    template: str
    #: ``count(row_lengths, warp)`` returns the number of slots, including padding, and the size of the index, without
    #: packing. Packing checks that 32 bits can address the slots.
    count: Callable[[NDArray[np.int32], int], tuple[int, int]]
    #: ``locate(problem, warp)`` returns the slots of the entries.
    locate: Callable[[Matrix, int], Slots]
    #: Further constants by name, which the template uses.
    constants: Mapping[str, int] = field(default_factory=dict)
    #: The space of its variants: `paper`, or `extended` for formats of this project.
    space: str = "paper"
    #: Whether a row's slots may hold padding; False if the loop over them stops at the row's end.
    padded: bool = True
    #: Whether entries of neighbouring rows are adjacent. If several threads share a row, neighbouring threads then
    #: process neighbouring rows, else neighbouring entries of one row.
    rows_adjacent: bool = True
    #: For packing on the device: rows of a group, all as long as its longest, with the i-th entries of all rows side by
    #: side; 0: all rows, padded to a multiple of the warp, are one group. `index` has the first slot of each group, or,
    #: if all rows are one group and are not `padded`, the length of each row. None: only the host packs the format.
    group_rows: int | None = None
    #: Text of the template, if it is no file.
    macros: str = ""


_REGISTRY: dict[str, Outer] = {}


def register(outer: Outer) -> Outer:
    """Add an outer format to the known ones.

    Raises
    ------
    ReproError
        A format of this name exists, or the name cannot be part of a layout's name.
    """
    registered_format = _REGISTRY.get(outer.name)
    if registered_format is not None:
        raise ReproError(
            "an outer format of this name already exists",
            where=outer.name,
            actual=f"one of the template {registered_format.template}.j2",
        )
    if not re.fullmatch(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*", outer.name):
        raise ReproError("not a valid name for a format", expected="letters, digits, single hyphens", actual=outer.name)
    _REGISTRY[outer.name] = outer
    if outer.macros:
        TEXTS[f"sparse/compound/{outer.template}.j2"] = outer.macros
    return outer


def outer_formats() -> dict[str, Outer]:
    return dict(_REGISTRY)


def rows_of_entries(problem: Matrix) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the row of each entry, and the entry's index within the row, `(nnz,)` each."""
    rows = np.repeat(np.arange(problem.n, dtype=np.int64), problem.row_lengths)
    return rows, np.arange(problem.nnz) - problem.indptr[rows]


def padded_to_warp(n: int, warp: int) -> int:
    """Return a number of rows rounded up to a multiple of the warp."""
    return -(-n // warp) * warp


def grouped(
    name: str, template: str, group_rows: int, constants: Mapping[str, int] | None = None, **properties: Any
) -> Outer:
    """Return a format of groups of `group_rows` rows, see `Outer.group_rows`; `properties` are further fields."""
    count, locate = _grouping(group_rows, properties.get("padded", True), 0)
    return Outer(name, template, count, locate, constants or {}, group_rows=group_rows, **properties)


def with_long_rows(outer: Outer, long_rows: int) -> Outer:
    """Return a format of several rows in a group with the last `long_rows` rows as groups of one row; others as is.

    So a block that computes a long row reads its entries side by side. The other rows have to fill their groups.
    """
    if (outer.group_rows or 1) == 1:
        return outer
    count, locate = _grouping(outer.group_rows or 1, outer.padded, long_rows)
    return replace(outer, count=count, locate=locate)


def _grouping(
    group_rows: int, padded: bool, long_rows: int
) -> tuple[Callable[[NDArray[np.int32], int], tuple[int, int]], Callable[[Matrix, int], Slots]]:
    """Return `Outer.count` and `Outer.locate` of a format of groups whose last `long_rows` rows are groups of one."""

    def count(row_lengths: NDArray[np.int32], warp: int) -> tuple[int, int]:
        *_, sizes = _groups(row_lengths, warp, group_rows, long_rows)
        index = len(sizes) + 1 if group_rows else 1 if padded else len(row_lengths)
        return int(sizes.sum()), index

    def locate(problem: Matrix, warp: int) -> Slots:
        lengths = problem.row_lengths
        if group_rows == 1:  # slots are entries
            return Slots(problem.indptr.astype(np.int32), np.arange(problem.nnz, dtype=np.int64))
        others, group, sizes = _groups(lengths, warp, group_rows, long_rows)
        rows, place_in_row = rows_of_entries(problem)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        is_long, groups = rows >= others, rows // max(group, 1)
        groups = np.where(is_long, others // max(group, 1) + rows - others, groups)
        within = np.where(is_long, place_in_row, place_in_row * group + rows % max(group, 1))
        position = offsets[groups] + within
        padding = _padding_columns(problem, group, offsets, position) if padded else None
        if group_rows:
            return Slots(offsets.astype(np.int32), position, padding=padding, step=group)
        return Slots(np.zeros(1, np.int32) if padded else lengths, position, group, padding, group)

    return count, locate


def _groups(
    row_lengths: NDArray[np.int32], warp: int, group_rows: int, long_rows: int
) -> tuple[int, int, NDArray[np.int64]]:
    """Return the number of rows that are not long, the rows of a group, and the slots of each group, `(groups,)`."""
    n = len(row_lengths) - long_rows
    group = group_rows or padded_to_warp(n, warp)
    longest = np.zeros(-(-n // max(group, 1)) * group, np.int32)
    longest[:n] = row_lengths[:n]
    rows = max(group, 1)
    while rows % 2 == 0:  # by halves: NumPy's maximum of few neighbours is ten times as slow
        longest, rows = np.maximum(longest[::2], longest[1::2]), rows // 2
    widths = longest if rows == 1 else longest.reshape(-1, rows).max(axis=1)
    return n, group, np.concatenate([widths.astype(np.int64) * group, row_lengths[n:]])


def _padding_columns(
    problem: Matrix, group: int, offsets: NDArray[np.int64], position: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Return the column of each slot without an entry: that of its row's last entry, which is cached.

    Empty rows, and those past the last, have their number or the last column.
    """
    free = np.ones(int(offsets[-1]), bool)
    free[position] = False
    slots = np.flatnonzero(free)
    groups = np.searchsorted(offsets, slots, side="right") - 1
    rows = groups * group + (slots - offsets[groups]) % max(group, 1)
    within = np.minimum(rows, problem.n - 1)
    is_filled = (rows < problem.n) & (problem.row_lengths[within] > 0)
    last = problem.indices[np.maximum(problem.indptr[within + 1] - 1, 0)]
    return np.where(is_filled, last, np.minimum(within, problem.shape[1] - 1)).astype(np.int32)


def get_outer(name: str) -> Outer:
    formats = outer_formats()
    if name not in formats:
        raise ReproError("unknown outer format", expected=f"one of {', '.join(formats)}", actual=name)
    return formats[name]


import_all(__name__, __path__)
load_extensions(LAYOUTS)
