"""Cells as files have them, and rows of differing lengths as blocks of cells of one kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from repro.problems.assembled import Floats
from repro.problems.meshreaders.content import Flaw

Numbers = NDArray[np.int64]
#: Points `(p, d)`, and blocks of cells.
Contents = tuple[Floats, list["Cells"]]
LINEAR = {"vertex": 0, "line": 1, "triangle": 2, "quad": 2, "polygon": 2, "tetra": 3}
_OF_SIZE = {1: "vertex", 2: "line", 3: "triangle", 4: "quad"}


@dataclass(frozen=True)
class Cells:
    """Cells of one kind, as meshio calls it: `(c, k)` vertex numbers in `dimension` dimensions.

    `values` are what the file keeps of each, `(c,)` or `(c, m)` by name, where they are asked for. `places` are where
    the cells are in the order of the file, `(c,)`; None: behind those of the blocks before.
    """

    kind: str
    dimension: int
    data: Numbers
    values: Mapping[str, Floats] = field(default_factory=dict)
    places: Numbers | None = None


def split(
    sizes: Numbers,
    corners: Numbers,
    kind_of: Callable[[int, int], tuple[str, int]],
    codes: Numbers | None = None,
    values: Mapping[str, Floats] | None = None,
    first: int = 0,
) -> list[Cells]:
    """Return cells of differing sizes as blocks of one kind and size, each in the order of the file.

    Parameters
    ----------
    sizes
        How many corners each cell has, `(c,)`.
    corners
        Those of all cells, one cell behind the other.
    kind_of
        Gives kind and dimension of cells by code and size.
    codes
        What the format calls each cell's kind, `(c,)`; None: 0.
    values
        Of all cells, `(c,)` or `(c, m)` by name.
    first
        The place of the first cell.
    """
    codes = np.zeros(len(sizes), np.int64) if codes is None else codes
    starts = np.cumsum(sizes) - sizes
    order = np.lexsort((sizes, codes))
    breaks = np.flatnonzero((np.diff(codes[order]) != 0) | (np.diff(sizes[order]) != 0)) + 1
    blocks = []
    for places in np.split(order, breaks) if len(order) else []:
        code, size = int(codes[places[0]]), int(sizes[places[0]])
        whole = len(places) == len(sizes)
        data = corners.reshape(-1, size) if whole and size else corners[starts[places, None] + np.arange(size)]
        kept = {name: of[places] for name, of in (values or {}).items()}
        blocks.append(Cells(*kind_of(code, size), data, kept, places + first))
    return sorted(blocks, key=lambda block: int(places[0]) if (places := block.places) is not None else 0)


def face(_: int, size: int) -> tuple[str, int]:
    """Return kind and dimension of what a format of surfaces calls a face, by the number of its corners."""
    kind = _OF_SIZE.get(size, "polygon")
    return kind, LINEAR[kind]


def renumbered(cells: Numbers, numbers: Numbers, what: str) -> Numbers:
    """Return cells whose corners are counted from 0, of those that name them by any numbers `(p,)`.

    A corner without a vertex is -1.

    Raises
    ------
    Flaw
        Two vertices have one number.
    """
    if not len(numbers):
        return np.full_like(cells, -1)
    if (numbers == np.arange(numbers[0], numbers[0] + len(numbers))).all():
        moved = cells - numbers[0]
        return np.where((moved >= 0) & (moved < len(numbers)), moved, -1)
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    twice = np.flatnonzero(np.diff(ordered) == 0)
    if twice.size:
        raise Flaw(
            f"two {what} of the mesh have the same number",
            expected="a number for each",
            actual=f"{twice.size + 1} that share one, the first is {ordered[twice[0]]}",
        )
    found = np.minimum(np.searchsorted(ordered, cells), len(ordered) - 1)
    return np.where(ordered[found] == cells, order[found], -1)
