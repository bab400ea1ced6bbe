"""A user's own problems: a local Matrix Market file, a mesh, or a mesh with the modes of a field as data.

An outline is read from a file's name and first lines, without building the problem; a plan shows outlines of a
user's own problems and of those in the registry.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from repro.config.models import FieldFile, Limits, OwnProblem
from repro.entries import get_entry
from repro.errors import ReproError
from repro.galerkin.basis import BASES, mode_count
from repro.galerkin.quadrature import exchange_last
from repro.problems.assembly import Assembled, Floats, assemble_dirac, assemble_elasticity, fold
from repro.problems.field import MAX_DEGREE, Field, size_of
from repro.problems.files import locate_own, mesh_checksum, open_plain
from repro.problems.matrix_market import ENDINGS, ENTRIES, Header, is_matrix_market, member_of, read_header, read_matrix
from repro.problems.meshes import (
    FIELD_FORMATS,
    FORMATS,
    TETGEN_PAIR,
    companion,
    companions,
    format_of,
    read_blocks,
    read_surface,
    read_tetrahedra,
    referenced,
    refuse_degenerate,
)
from repro.problems.meshreaders import Cells
from repro.problems.problem import Outline
from repro.problems.registry import GeneratedField, Item, MatrixItem, Own, OwnField, Registry, own_name

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
    counts = [mode_count(degree, dimension) for degree in range(MAX_DEGREE + 1)]
    if modes.shape[1] not in counts:
        raise ReproError(
            "no polynomials of a degree have so many modes",
            where=f"{path}: {name}",
            expected=f"{', '.join(map(str, counts))} a cell, of degree 0 to {MAX_DEGREE} in {dimension} dimensions",
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


__all__ = ["Said", "companions", "describe_file", "entry_of", "outline"]
#: The entries that are computed on a mesh.
OF_MESHES = ("quaternion", "block3")


class Said(NamedTuple):
    """What is known of a user's own problem before it is built.

    Attributes
    ----------
    entry
        What its non-zeros are; the build gives the same.
    size
        Rows and non-zeros, counted in entries; None where only building it tells.
    at_most
        Whether the non-zeros may be fewer: zeros are dropped, entries that come twice are added up, those of a half
        are written once or twice, and blocks are filled.
    columns
        Columns, counted in entries; None: as many as rows.
    """

    entry: str
    size: tuple[int, int] | None = None
    at_most: bool = False
    columns: int | None = None


def outline(problem: OwnProblem | Own | OwnField, limits: Limits) -> Outline:
    """Return what is known of a user's own problem, registered or not, before it is built.

    Raises
    ------
    ReproError
        As `describe`; or the file of a field is not there, or of a format that keeps no data of cells.
    """
    own = isinstance(problem, OwnProblem)
    name = own_name(problem) if isinstance(problem, OwnProblem) else problem.name
    # being in a set is no property of the matrix
    definition = problem.model_dump(mode="json", exclude=None if own else {"sets"})
    path = locate_own(problem.path)
    if isinstance(problem, OwnField) or problem.kind_of_problem == "field":
        check_field_file(path)
        return Outline(name, "field", None, definition, (path,))
    said = describe_file(problem, limits)
    return Outline(
        name,
        problem.kind_of_problem,
        None if problem.updates else said.entry,
        definition,
        companions(path),
        said.size,
        at_most=said.at_most,
        columns=said.columns,
    )


def describe_file(problem: OwnProblem | Own, limits: Limits | None = None) -> Said:
    """Return what a file says of the problem.

    Of a Matrix Market file, packed or not, no more is read than `limits.header` bytes, unpacked; of a mesh nothing.

    Raises
    ------
    ReproError
        The file is not there, cannot be read or is of no kind that can; neither the configuration nor the file says
        what its entries are; or the build would refuse what its first lines say.
    """
    path = locate_own(problem.path)
    limits = limits or Limits()
    if not is_matrix_market(path):
        entry = entry_of(path, problem.wanted_entry, None)
        suffix = format_of(path)
        if suffix in TETGEN_PAIR:
            companion(path, suffix)
        return Said(entry)
    with open_plain(path, limits, member_of(path)) as stream:
        header = read_header(stream, path, limits)
    entry = entry_of(path, problem.wanted_entry, header)
    k = 1 if entry in ENTRIES.values() else get_entry(entry).size
    rows, columns = header.rows // k, header.columns // k
    nonzeros = min(header.most, rows * columns) if k > 1 else header.most
    exact = entry == header.field == "pattern" and header.symmetry == "general"
    return Said(entry, (rows, nonzeros), not exact and nonzeros > 0, None if rows == columns else columns)


def entry_of(path: Path, entry: str | None, header: Header | None) -> str:
    """Return what the entries of a problem are, by its configuration or the file's header: the plan and the build ask.

    Parameters
    ----------
    path, entry
        As the configuration has them.
    header
        Of a Matrix Market file; None for every other.

    Raises
    ------
    ReproError
        The file is of an unknown kind, the entry does not fit it, or nothing says what it is.
    """
    if header is not None:
        header.check_entry(entry or header.entry, path)
        return entry or header.entry
    if format_of(path) is None:
        raise ReproError(
            "unknown kind of file",
            where=path,
            expected=f"a matrix ({' '.join(ENDINGS)}) or a mesh ({' '.join(FORMATS)}, bare, .gz or .xz)",
            actual=path.name,
        )
    if entry not in OF_MESHES:
        raise ReproError(
            "a mesh needs an entry that can be computed on it, since the file does not say what its entries are",
            where=path,
            expected="entry: quaternion (a surface) or block3 (tetrahedra)",
            actual=f"entry: {entry}" if entry else "no entry",
            todo="add `entry: quaternion` for a surface, `entry: block3` for a tetrahedral mesh",
        )
    return entry


def assemble_own(
    path: Path | str, entry: str | None, seed: int = 1, limits: Limits | None = None
) -> tuple[str, Assembled, dict[str, Any]]:
    """Build a problem from a local file.

    Parameters
    ----------
    path
        A Matrix Market file, whose matrix, be it rectangular or empty, is folded where the entry asks for it; or a
        mesh, whose matrix is the Dirac operator (`quaternion`, a surface) or linear elasticity (`block3`, tetrahedra).
    entry
        What its non-zeros are; for a matrix None means what its header says, `real`, `complex` or `pattern`.
    seed
        That of the Dirac operator's curvature potential.
    limits
        What reading the file may take; None: the configuration's defaults.

    Returns
    -------
    entry, assembled, origin
        The entry, as `own_header.describe` says it, the matrix, and what there is to say of the file: `checksum`,
        `counts`.

    Raises
    ------
    ReproError
        The file is missing, damaged, beyond the limits or of an unknown kind, or the entry does not fit it.
    """
    path, limits = locate_own(path), limits or Limits()
    if is_matrix_market(path):
        with open_plain(path, limits, member_of(path)) as stream:
            entry = entry_of(path, entry, read_header(stream, path, limits))
        file = read_matrix(path, limits, distinct=entry == "pattern")
        origin = {"checksum": {"sha256": file.checksum(), "state": "own"}, "counts": file.counts}
        folded = fold(file.matrix, entry, path)
        return entry, replace(folded, notes=(*file.notes, *folded.notes)), origin
    entry = entry_of(path, entry, None)
    if entry == "quaternion":
        vertices, cells, notes = read_surface(path, limits)
        assembled = assemble_dirac(vertices, cells, seed=seed)
    else:
        vertices, cells, notes = read_tetrahedra(path, limits)
        assembled = assemble_elasticity(vertices, cells)
    origin = {
        "checksum": {"sha256": mesh_checksum(vertices, cells), "state": "own"},
        "counts": {"vertices": len(vertices), "cells": len(cells)},
    }
    return entry, replace(assembled, notes=(*notes, *assembled.notes)), origin


def planned(item: Item | OwnProblem, registry: Registry, limits: Limits) -> Outline:
    """Return what is known of a problem.

    Parameters
    ----------
    item
        The problem, registered or the configuration's own.
    registry
        Where those are found that it is made from.
    limits
        How much of a user's file may be read.

    Raises
    ------
    ReproError
        As `repro.problems.own_problems.outline`.
    """
    if isinstance(item, (OwnProblem, Own, OwnField)):
        return outline(item, limits)
    size = (item.published.rows, item.published.nonzeros) if item.published else None
    if isinstance(item, GeneratedField):
        size = size_of(item.kind, item.parameters)
    # being in a set is no property of the matrix
    definition = item.model_dump(mode="json", exclude={"sets"})
    if inputs := getattr(item, "inputs", ()):
        definition["made from"] = [registry.find(name).model_dump(mode="json", exclude={"sets"}) for name in inputs]
    columns = item.published.columns if item.published and item.published.columns != item.published.rows else None
    entry = item.entry if isinstance(item, MatrixItem) and item.kind_of_problem == "matrix" else None
    return Outline(item.name, item.kind_of_problem, entry, definition, size=size, columns=columns)
