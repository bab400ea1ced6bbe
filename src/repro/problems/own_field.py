"""A user's own field: a local mesh whose cells have the modes of a discontinuous Galerkin field as data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from repro.config.models import FieldFile, Limits
from repro.errors import ReproError
from repro.galerkin.basis import BASES, mode_count
from repro.galerkin.projection import exchange_last
from repro.problems.assembled import Floats
from repro.problems.content import mesh_checksum
from repro.problems.field import Field
from repro.problems.fields import MOST_DEGREE
from repro.problems.files import locate_own
from repro.problems.meshes import read_blocks, referenced, refuse_degenerate
from repro.problems.meshformats import FIELD_FORMATS, format_of
from repro.problems.meshreaders.cells import Cells

#: What the name of cell data starts with that are modes; the basis follows.
MODES = "modes_"
#: How far the cells' total volume may be from that of the box around them, relatively.
GAPS = 1e-9
#: How far the vertices of a mesh in the plane may be from one plane of constant z, in units of its size.
FLAT = 1e-12


def check_field_file(path: Path) -> None:
    """Refuse a file whose format keeps no data of cells.

    Raises
    ------
    ReproError
        It is of another format than `FIELD_FORMATS`.
    """
    if format_of(path) not in FIELD_FORMATS:
        raise ReproError(
            "a field needs a file that keeps data of its cells",
            where=path,
            expected=f"one of {' '.join(FIELD_FORMATS)}, bare, .gz or .xz",
            actual=path.name,
            todo="write mesh and modes with meshio, as docs/add-a-problem.md shows, or leave out `kind: field`",
        )


def read_field(said: FieldFile, limits: Limits | None = None) -> Field:
    """Read a mesh and the modes on it; its name is that of the file, and `origin` has checksum, counts and notes.

    Tetrahedra are read where there are any, with lines and triangles beside them ignored; else triangles in a plane of
    constant z. Cells of negative volume have their last two vertices exchanged and their modes changed to match.

    Parameters
    ----------
    said
        The path, and what the configuration says of the modes: which cell data, which basis, whether the domain is
        periodic. Cell data are `(c,)`, of degree 0, or `(c, m)`; m says the degree.
    limits
        What reading it may take; None: the configuration's defaults.

    Raises
    ------
    ReproError
        The file is missing, of a format without cell data, damaged or truncated, beyond the limits, or ends the process
        that reads it; there are no cells, others than linear ones, or degenerate ones; vertices that do not exist, are
        not finite, or do not lie in a plane; no such modes, of an unknown basis, or so many that no degree has them; or
        the domain is to be periodic and cells leave gaps in the box around them or overlap.
    """
    path, limits = locate_own(said.path), limits or Limits()
    check_field_file(path)
    points, blocks = read_blocks(path, limits, values=True)
    dimension = 3 if any(block.kind == "tetra" and len(block.data) for block in blocks) else 2
    wanted = _wanted(blocks, dimension, path)
    points, cells, notes = referenced(points, np.concatenate([block.data for block in wanted]), path)
    name, modes = _modes(wanted, said.modes, path)
    basis = _basis(said.basis, name, path)
    degree = _degree(modes, name, dimension, path)
    vertices = points if dimension == 3 else _in_plane(points, path)
    corners = vertices[cells]
    volumes = np.linalg.det(corners[:, 1:] - corners[:, :1]) / math.factorial(dimension)
    refuse_degenerate(np.abs(volumes), corners, dimension, "cells", path)
    turned = volumes < 0
    if turned.any():
        cells[turned, -2:] = cells[turned, -2:][:, ::-1]
        modes[turned] = modes[turned] @ exchange_last(basis, degree, dimension).T
        notes = (*notes, f"{np.count_nonzero(turned)} cells were numbered clockwise; two vertices of each exchanged")
    if again := len(vertices) - len(np.unique(vertices, axis=0)):
        notes = (*notes, f"{again} vertices at the place of another kept")
    if said.periodic:
        _refuse_gaps(vertices, float(np.abs(volumes).sum()), path)
    field = Field(path.name, vertices, cells.astype(np.int32), degree, basis, modes, said.periodic)
    origin = {
        "checksum": {"sha256": mesh_checksum(vertices, cells), "state": "own"},
        "counts": {"vertices": len(vertices), "cells": len(cells)},
        "modes": name,
        "notes": list(notes),
    }
    return replace(field, origin=origin)


def _wanted(blocks: Sequence[Cells], dimension: int, path: Path) -> list[Cells]:
    """Return the blocks of linear simplices, after refusing a mesh without, or with other cells of their dimension."""
    kind = "tetra" if dimension == 3 else "triangle"
    wanted = [block for block in blocks if block.kind == kind and len(block.data)]
    others = [block for block in blocks if block.kind != kind and block.dimension >= dimension and len(block.data)]
    if wanted and not others:
        return wanted
    raise ReproError(
        "the mesh of a field has other cells than linear triangles or tetrahedra"
        if others
        else "the mesh has no cells",
        where=path,
        expected="linear triangles, or linear tetrahedra",
        actual=", ".join(f"{len(block.data)} {block.kind}" for block in blocks if len(block.data)) or "no cells",
        todo="split other cells, with modes for each part" if others else "name another file",
    )


def _modes(wanted: Sequence[Cells], asked: str | None, path: Path) -> tuple[str, Floats]:
    """Return the name of the modes and the modes `(c, m)` themselves."""
    there = sorted(set.intersection(*(set(block.values) for block in wanted)))
    names = [name for name in there if (name == asked if asked else name.startswith(MODES))]
    if len(names) != 1:
        raise ReproError(
            "several cell data may be the modes" if names else "the file has no modes",
            where=path,
            expected=f"cell data called {asked or MODES + '<basis>'}",
            actual=", ".join(there) or "no cell data",
            todo="name the cell data by `modes:`",
        )
    parts = [block.values[names[0]] for block in wanted]
    return names[0], np.concatenate([part.reshape(len(part), -1) for part in parts])


def _basis(asked: str | None, name: str, path: Path) -> str:
    basis = asked or name.removeprefix(MODES)
    if basis not in BASES:
        raise ReproError(
            "unknown basis of the modes",
            where=path,
            expected=f"one of {', '.join(BASES)}",
            actual=f"cell data called {name}",
            todo="name the basis by `basis:`, or call the cell data modes_<basis>",
        )
    return basis


def _degree(modes: Floats, name: str, dimension: int, path: Path) -> int:
    counts = [mode_count(degree, dimension) for degree in range(MOST_DEGREE + 1)]
    if modes.shape[1] not in counts:
        raise ReproError(
            "no polynomials of a degree have so many modes",
            where=f"{path}: {name}",
            expected=f"{', '.join(map(str, counts))} a cell, of degree 0 to {MOST_DEGREE} in {dimension} dimensions",
            actual=modes.shape[1],
        )
    return counts.index(modes.shape[1])


def _in_plane(points: Floats, path: Path) -> Floats:
    """Return the first two coordinates of vertices that lie in a plane of constant z."""
    height, size = float(np.ptp(points[:, 2])), float(np.ptp(points[:, :2], axis=0).max())
    if height > FLAT * size:
        raise ReproError(
            "the triangles of a field do not lie in the plane",
            where=path,
            expected="vertices of one z",
            actual=f"z from {points[:, 2].min():g} to {points[:, 2].max():g}",
            todo="surfaces in space have no filter here: name another file",
        )
    return np.ascontiguousarray(points[:, :2])


def _refuse_gaps(vertices: Floats, volume: float, path: Path) -> None:
    box = float(np.prod(np.ptp(vertices, axis=0)))
    if abs(volume - box) > GAPS * box:
        raise ReproError(
            "the cells leave gaps in the box around them" if volume < box else "the cells overlap",
            where=path,
            expected=f"a volume of {box:.12g}, which a periodic domain has",
            actual=f"{volume:.12g}",
            todo="repair the mesh; or, where the domain is no box, set `periodic: false`",
        )
