"""Supports of an elastic body: which vertices of its mesh are fixed, and which rigid motions are left without them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.config.models import Fixed
from repro.errors import ReproError
from repro.problems.assembly import Assembled, Floats, Integers, assemble_elasticity

Mask = NDArray[np.bool_]
#: Distance from a plane or a box within which a vertex lies in it, relative to the diagonal of the mesh.
CLOSE = 1e-9
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six")


def fixed_vertices(vertices: Floats, fixed: Sequence[Fixed], groups: Mapping[str | int, Floats], path: Path) -> Mask:
    """Return which vertices `(v,)` at least one of the supports holds.

    Parameters
    ----------
    vertices
        `(v, 3)`.
    groups
        Points `(p, 3)` of each physical group that a support names, bit for bit as in the mesh.

    Raises
    ------
    ReproError
        No vertex lies where a support says, or all vertices are fixed.
    """
    held = np.zeros(len(vertices), bool)
    for support in fixed:
        here = _held_by(vertices, support, groups)
        if not here.any():
            low, high = (tuple(map(float, ends)) for ends in (vertices.min(axis=0), vertices.max(axis=0)))
            raise ReproError(
                "no vertex of the mesh is where it is to be fixed",
                where=path,
                expected=f"a place in the mesh, which reaches from {low} to {high}",
                actual=support.model_dump(exclude_none=True),
                todo="correct `fixed:` of the problem",
            )
        held |= here
    if held.all():
        raise ReproError("all vertices of the mesh are fixed", where=path, todo="correct `fixed:` of the problem")
    return held


def _held_by(vertices: Floats, support: Fixed, groups: Mapping[str | int, Floats]) -> Mask:
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    close = CLOSE * float(np.linalg.norm(high - low))
    held = np.ones(len(vertices), bool)
    for axis, place in enumerate((support.x, support.y, support.z)):
        if place is not None:
            at = {"min": low[axis], "max": high[axis]}[place] if isinstance(place, str) else place
            held &= np.abs(vertices[:, axis] - at) <= close
    if support.box is not None:
        first, second = (np.asarray(corner) for corner in support.box)
        held &= ((vertices >= first - close) & (vertices <= second + close)).all(axis=1)
    if support.group is not None:
        rows = np.concatenate([vertices, groups[support.group]])
        places = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
        held &= np.isin(places[: len(vertices)], places[len(vertices) :])
    return held


def rigid_motions(vertices: Floats, cells: Integers, fixed: Mask | None = None) -> int:
    """Return how many rigid motions are left: six for each part of the mesh, fewer where vertices of it are fixed.

    A part is what vertices connect. One fixed vertex leaves three rotations, several on one line leave one.
    """
    corners = cells.shape[1]
    rows, columns = np.repeat(cells[:, 0], corners - 1), cells[:, 1:].ravel()
    graph = sp.coo_array((np.ones(len(rows), bool), (rows, columns)), shape=(len(vertices), len(vertices)))
    count, part = sp.csgraph.connected_components(graph, directed=False)
    left = 6 * int(count)
    if fixed is None:
        return left
    for number in np.unique(part[fixed]):
        held = vertices[fixed & (part == number)]
        spread = held - held[0]
        size = float(np.abs(spread).max())
        rank = int(np.linalg.matrix_rank(spread / size, tol=CLOSE)) if size else 0
        left -= {0: 3, 1: 5}.get(rank, 6)
    return left


def singular_note(motions: int) -> tuple[str, ...]:
    """Return the note on a stiffness matrix with rigid motions in its null space; empty if there are none."""
    if not motions:
        return ()
    number = _NUMBERS[motions] if motions < len(_NUMBERS) else f"{motions:,}"
    return (f"singular: {number} rigid motion{'s' if motions > 1 else ''}",)


def elastic_body(
    vertices: Floats,
    cells: Integers,
    fixed: Mask | None = None,
    *,
    young: float | Floats = 1.0,
    poisson: float = 0.3,
) -> Assembled:
    """Assemble linear elasticity without the rows and columns of fixed vertices, with a note on what is singular.

    Parameters are those of `repro.problems.assembly.assemble_elasticity`; `fixed` is None or `(v,)`.
    """
    assembled = assemble_elasticity(vertices, cells, young=young, poisson=poisson)
    notes = singular_note(rigid_motions(vertices, cells, fixed))
    if fixed is None:
        return replace(assembled, notes=notes)
    notes = (f"{np.count_nonzero(fixed)} of {len(vertices)} vertices fixed", *notes)
    return replace(without_fixed(assembled, fixed), notes=notes)


def without_fixed(assembled: Assembled, fixed: Mask) -> Assembled:
    """Return the matrix without the rows and columns of fixed vertices; the others keep their order."""
    free = ~fixed
    rows = np.repeat(np.arange(assembled.n), np.diff(assembled.indptr))
    kept = free[rows] & free[assembled.indices]
    number = np.cumsum(free, dtype=np.int32) - 1
    counts = np.bincount(number[rows[kept]], minlength=int(free.sum()))
    return replace(
        assembled,
        n=int(free.sum()),
        indptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        indices=number[assembled.indices[kept]].astype(np.int32),
        values=assembled.values[kept],
    )
