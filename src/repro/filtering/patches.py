"""Patches of triangles, each with a copy of the solution on the cells around it (King 2017, section 3.3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro.filtering.grids import Grid
from repro.filtering.triangulation import Triangulation

Floats = NDArray[np.float64]
#: By how much of its width a stencil is taken to be wider.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Patches:
    """Triangles in patches, and where each patch's copies of points lie.

    Attributes
    ----------
    order
        int32 `(t,)`, triangles patch by patch.
    starts
        int32 `(patches + 1,)`, where each patch begins in `order`.
    tiles
        int32 `(patches, 4)`: x and y of the tile's first cell, numbered on beyond the box; its cells in a row; and
        where its offsets begin.
    offsets
        int32, for each cell of each tile where the copies of its points begin.
    copies
        How many copies there are in all.
    copy_starts, copy_offsets
        int32, for each cell of the grid, wrapped, where the copies of its points begin: patch by patch.
    """

    order: NDArray[np.int32]
    starts: NDArray[np.int32]
    tiles: NDArray[np.int32]
    offsets: NDArray[np.int32]
    copies: int
    copy_starts: NDArray[np.int32]
    copy_offsets: NDArray[np.int32]

    def overhead(self, points: int) -> float:
        """Return the copies beside one solution of so many points, as Figure 3.7 has it."""
        return self.copies / points - 1.0


def parts_of(mesh: Triangulation, count: int) -> list[NDArray[np.int64]]:
    """Cut a mesh into so many parts, at most as many as it has triangles, by recursive bisection."""
    return bisected(mesh.corners.mean(axis=1), min(count, len(mesh.triangles)))


def begins_of(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int32]:
    """Return where each of some parts begins and the last one ends, one behind the other, int32 `(parts + 1,)`."""
    return np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int32)


def patches_of(
    mesh: Triangulation,
    grid: Grid,
    half: float,
    parts: Sequence[NDArray[np.int64]],
    share: tuple[int, int] = (0, 1),
) -> Patches:
    """Lay out the copies of a mesh's patches.

    Parameters
    ----------
    mesh
        A triangulation.
    grid
        Of the points.
    half
        Half of the support's width: how far from a triangle's box a point may be.
    parts
        The triangles of each patch, such as those of `parts_of`.
    share
        Which of how many shares of them are laid out, neighbours that follow each other: a device's.

    Raises
    ------
    ValueError
        There is no patch in that share.
    """
    # a device may round to the next cell what lies on the line between two of them
    half *= 1 + ROUNDING
    at, shares = share
    own = parts[len(parts) * at // shares : len(parts) * (at + 1) // shares]
    if not own:
        raise ValueError(f"{len(parts)} patches for {shares} shares")
    parts = own
    lengths = np.diff(grid.starts).reshape(grid.shape[1], grid.shape[0])
    tiles, offsets, cells = [], [], []
    entries = copies = 0
    for part in parts:
        corners = mesh.corners[part]
        first, last = grid.cells_of(np.stack([corners.min(axis=(0, 1)) - half, corners.max(axis=(0, 1)) + half]))
        across = np.arange(first[0], last[0] + 1) % grid.shape[0]
        along = np.arange(first[1], last[1] + 1) % grid.shape[1]
        sizes = lengths[np.ix_(along, across)].ravel()
        ends = copies + np.cumsum(sizes)
        tiles.append((first[0], first[1], len(across), entries))
        offsets.append(ends - sizes)
        cells.append((along[:, None] * grid.shape[0] + across).ravel())
        entries += len(sizes)
        copies = int(ends[-1])
    cell, offset = np.concatenate(cells), np.concatenate(offsets)
    by_cell = np.argsort(cell, kind="stable")
    counts = np.bincount(cell, minlength=len(grid.starts) - 1)
    return Patches(
        np.concatenate(parts).astype(np.int32),
        begins_of(parts),
        np.array(tiles, np.int32),
        offset.astype(np.int32),
        copies,
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        offset[by_cell].astype(np.int32),
    )


def bisected(positions: Floats, count: int, weights: Floats | None = None) -> list[NDArray[np.int64]]:
    """Cut positions into parts of about equal weight, again and again across the longer side of each.

    Parameters
    ----------
    positions
        float64 `(n, 2)`.
    count
        Parts, 1 to n.
    weights
        float64 `(n,)`, positive; None: all equal.

    Returns
    -------
    list of ndarray
        Numbers of positions, in their order within a part; no part is empty.
    """
    shares = np.ones(len(positions)) if weights is None else weights

    def cut(members: NDArray[np.int64], parts: int) -> list[NDArray[np.int64]]:
        if parts == 1:
            return [np.sort(members)]
        own = positions[members]
        axis = int(np.argmax(np.ptp(own, axis=0)))
        members = members[np.argsort(own[:, axis], kind="stable")]
        left = parts // 2
        before = np.cumsum(shares[members])
        at = int(np.searchsorted(before, before[-1] * left / parts, side="right"))
        at = min(max(at, left), len(members) - (parts - left))
        return [*cut(members[:at], left), *cut(members[at:], parts - left)]

    return cut(np.arange(len(positions)), count)
