"""Reads problems that a user provides: a Matrix Market file, a mesh, or a mesh with modes of a field as cell data.

To plan a campaign, outlines of problems are made from file names and file headers only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from repro.config.models import FieldFile, Fixed, Limits, OwnProblem
from repro.entries import get_entry
from repro.errors import ReproError
from repro.galerkin import BASES, exchange_last, mode_count
from repro.problems import generators
from repro.problems.assembly import Assembled, Floats, assemble_dirac, elastic_body, fixed_vertices, fold_blocks
from repro.problems.field import MAX_DEGREE, Field
from repro.problems.files import check_entry, locate_own, mesh_checksum, open_plain
from repro.problems.generated_fields import size_of
from repro.problems.matrix_market import (
    ENDINGS,
    ENTRY_OF_FIELD,
    Header,
    is_matrix_market,
    member_of,
    read_header,
    read_matrix,
)
from repro.problems.meshes import (
    FIELD_FORMATS,
    FORMATS,
    TETGEN_PAIR,
    companion,
    companions,
    count_text,
    format_of,
    read_blocks,
    read_group,
    read_surface,
    read_tetrahedra,
    referenced,
    refuse_degenerate,
    stated_vertices,
)
from repro.problems.meshreaders import Cells
from repro.problems.problem import Outline
from repro.problems.registry import (
    Generated,
    GeneratedField,
    Item,
    LocalFile,
    MatrixItem,
    OwnField,
    Recipe,
    Registry,
    Tetmesh,
    own_name,
)

#: Prefix of cell-data names that marks modes; the rest of the name is the polynomial basis.
MODES_PREFIX = "modes_"
#: Maximum relative difference between the total volume of all cells and the volume of their bounding box.
GAPS = 1e-9
#: Maximum deviation of vertices from a plane of constant z, relative to the size of the mesh.
FLAT = 1e-12


def check_field_file(path: Path) -> None:
    """Raise `ReproError` for a file format without cell data."""
    if format_of(path) not in FIELD_FORMATS:
        raise ReproError(
            "a field needs a file format with cell data",
            where=path,
            expected=f"one of {' '.join(FIELD_FORMATS)}, bare, .gz or .xz",
            actual=path.name,
            todo="write mesh and modes with meshio, as in docs/add-a-problem.md, or remove `kind: field`",
        )


def read_field(description: FieldFile, limits: Limits | None = None) -> Field:
    """Read a mesh with the modes of a field. Checksum, counts and notes are stored in the field's `origin`.

    If the file has tetrahedra, they are read, and lines and triangles are ignored. Otherwise triangles in a plane of
    constant z are read. In inverted cells, the last two vertices are swapped and the modes adapted. Cell data are
    `(c,)` for degree 0, or `(c, m)`, where m determines the degree. Raises `ReproError`: the file cannot be read (see
    `repro.problems.meshes.read_surface`), has no cell data, no cells of the right kind, or no valid modes; or cells
    leave gaps or overlap in a periodic domain.
    """
    path, limits = locate_own(description.path), limits or Limits()
    check_field_file(path)
    points, blocks = read_blocks(path, limits, values=True)
    dimension = 3 if any(block.kind == "tetra" and len(block.data) for block in blocks) else 2
    selected_blocks = _simplex_blocks(blocks, dimension, path)
    points, cells, notes = referenced(points, np.concatenate([block.data for block in selected_blocks]), path)
    name, modes = _modes(selected_blocks, description.modes, path)
    basis = _basis(description.basis, name, path)
    degree = _degree(modes, name, dimension, path)
    vertices = points if dimension == 3 else _in_plane(points, path)
    corners = vertices[cells]
    volumes = np.linalg.det(corners[:, 1:] - corners[:, :1]) / math.factorial(dimension)
    refuse_degenerate(np.abs(volumes), corners, dimension, "cells", path)
    is_inverted = volumes < 0
    if is_inverted.any():
        cells[is_inverted, -2:] = cells[is_inverted, -2:][:, ::-1]
        modes[is_inverted] = modes[is_inverted] @ exchange_last(basis, degree, dimension).T
        order = "left-handed" if dimension == 3 else "clockwise"
        cells_were = count_text(int(np.count_nonzero(is_inverted)), "cell was", "cells were")
        notes = (*notes, f"{cells_were} numbered {order}; two vertices of each exchanged")
    if repeated_count := len(vertices) - len(np.unique(vertices, axis=0)):
        notes = (*notes, f"{count_text(repeated_count, 'vertex', 'vertices')} at the place of another kept")
    if description.periodic:
        _refuse_gaps(vertices, float(np.abs(volumes).sum()), path)
    field = Field(path.name, vertices, cells.astype(np.int32), degree, basis, modes, description.periodic)
    origin = {
        "checksum": {"sha256": mesh_checksum(vertices, cells), "state": "own"},
        "counts": {"vertices": len(vertices), "cells": len(cells)},
        "modes": name,
        "notes": list(notes),
    }
    return replace(field, origin=origin)


def _simplex_blocks(blocks: Sequence[Cells], dimension: int, path: Path) -> list[Cells]:
    """Return the blocks of linear simplices; raise `ReproError` if there are none or other cells of this dimension."""
    kind = "tetra" if dimension == 3 else "triangle"
    selected_blocks = [block for block in blocks if block.kind == kind and len(block.data)]
    other_blocks = [
        block for block in blocks if block.kind != kind and block.dimension >= dimension and len(block.data)
    ]
    if selected_blocks and not other_blocks:
        return selected_blocks
    raise ReproError(
        "the mesh of a field has cells other than linear triangles or tetrahedra"
        if other_blocks
        else "the mesh has no cells",
        where=path,
        expected="linear triangles, or linear tetrahedra",
        actual=", ".join(f"{len(block.data)} {block.kind}" for block in blocks if len(block.data)) or "no cells",
        todo="split other cells, and write modes for each part" if other_blocks else "name another file",
    )


def _modes(blocks: Sequence[Cells], mode_name: str | None, path: Path) -> tuple[str, Floats]:
    """Return the name of the cell data that are modes, and the modes `(c, m)`."""
    stored_names = sorted(set.intersection(*(set(block.values) for block in blocks)))
    names = [name for name in stored_names if (name == mode_name if mode_name else name.startswith(MODES_PREFIX))]
    if len(names) != 1:
        raise ReproError(
            "the modes are ambiguous" if names else "the file has no modes",
            where=path,
            expected=f"cell data called {mode_name or MODES_PREFIX + '<basis>'}",
            actual=", ".join(stored_names) or "no cell data",
            todo="name the cell data with `modes:`",
        )
    parts = [block.values[names[0]] for block in blocks]
    return names[0], np.concatenate([part.reshape(len(part), -1) for part in parts])


def _basis(basis_name: str | None, name: str, path: Path) -> str:
    basis = basis_name or name.removeprefix(MODES_PREFIX)
    if basis not in BASES:
        raise ReproError(
            "unknown basis of the modes",
            where=path,
            expected=f"one of {', '.join(BASES)}",
            actual=f"cell data called {name}",
            todo="name the basis with `basis:`, or rename the cell data to modes_<basis>",
        )
    return basis


def _degree(modes: Floats, name: str, dimension: int, path: Path) -> int:
    counts = [mode_count(degree, dimension) for degree in range(MAX_DEGREE + 1)]
    if modes.shape[1] not in counts:
        raise ReproError(
            "no polynomial degree has this number of modes",
            where=f"{path}: {name}",
            expected=f"{', '.join(map(str, counts))} a cell, of degree 0 to {MAX_DEGREE} in {dimension} dimensions",
            actual=modes.shape[1],
        )
    return counts.index(modes.shape[1])


def _in_plane(points: Floats, path: Path) -> Floats:
    """Return x and y of all vertices; z must be constant."""
    height, size = float(np.ptp(points[:, 2])), float(np.ptp(points[:, :2], axis=0).max())
    if height > FLAT * size:
        raise ReproError(
            "the triangles of a field are not in the plane",
            where=path,
            expected="vertices with equal z",
            actual=f"z from {points[:, 2].min():g} to {points[:, 2].max():g}",
            todo="surfaces in space cannot be filtered; name another file",
        )
    return np.ascontiguousarray(points[:, :2])


def _refuse_gaps(vertices: Floats, volume: float, path: Path) -> None:
    box = float(np.prod(np.ptp(vertices, axis=0)))
    if abs(volume - box) > GAPS * box:
        raise ReproError(
            "the cells leave gaps in the box around them" if volume < box else "the cells overlap",
            where=path,
            expected=f"a volume of {box:.12g}, as needed for a periodic domain",
            actual=f"{volume:.12g}",
            todo="repair the mesh; if the domain is not a box, set `periodic: false`",
        )


__all__ = ["OwnOutline", "companions", "describe_file", "entry_of", "outline"]
#: Entry types of matrices that are assembled on a mesh.
OF_MESHES = ("quaternion", "block3")


class OwnOutline(NamedTuple):
    """Properties of a user's matrix that are known before it is built."""

    entry: str
    #: Number of rows and of non-zeros, counted in entries; None if unknown before the build.
    size: tuple[int, int] | None = None
    #: See `Outline.size_from`. The size may change when the build drops zeros, sums repeated entries and mirrors
    #: triangles.
    size_from: str = "stated"
    #: Number of columns, counted in entries; None if it equals the number of rows.
    columns: int | None = None
    #: See `Outline.refused`.
    refused: ReproError | None = None


def outline(problem: OwnProblem | LocalFile | OwnField, limits: Limits) -> Outline:
    """Return the outline of a user's problem; for errors and refused files see `describe_file`."""
    is_own_problem = isinstance(problem, OwnProblem)
    name = own_name(problem) if isinstance(problem, OwnProblem) else problem.name
    # The key `sets` is left out, since it does not affect the matrix.
    definition = problem.model_dump(mode="json", exclude=None if is_own_problem else {"sets"})
    path = locate_own(problem.path)
    if isinstance(problem, OwnField) or problem.kind_of_problem == "field":
        check_field_file(path)
        return Outline(name, "field", None, definition, (path,), size_by_length(path, "field"), BY_LENGTH)
    file_outline = describe_file(problem, limits)
    is_fixed = isinstance(problem, OwnProblem) and bool(problem.fixed)
    return Outline(
        name,
        problem.kind_of_problem,
        None if problem.updates else file_outline.entry,
        definition,
        companions(path),
        file_outline.size,
        file_outline.size_from,
        columns=file_outline.columns,
        free_body=file_outline.entry == "block3" and not is_fixed and not is_matrix_market(path),
        refused=file_outline.refused,
    )


def describe_file(problem: OwnProblem | LocalFile, limits: Limits | None = None) -> OwnOutline:
    """Return the properties of a problem that the head of its file states: the size and a matrix's entry type.

    A wrong header is stored as `refused` instead of raised, so that the other problems of a campaign can be measured.
    Raises `ReproError`: the file is missing or of an unknown kind, or a mesh's entry type is not specified.
    """
    path = locate_own(problem.path)
    limits = limits or Limits()
    if not is_matrix_market(path):
        entry = entry_of(path, problem.wanted_entry, None)
        suffix = format_of(path)
        if suffix in TETGEN_PAIR:
            companion(path, suffix)
        if rows := stated_vertices(path, limits):
            return OwnOutline(entry, (rows, rows * LENGTHS[entry][1]), BY_VERTICES)
        return OwnOutline(entry, size_by_length(path, entry), BY_LENGTH)
    try:
        with open_plain(path, limits, member_of(path)) as stream:
            header = read_header(stream, path, limits)
        entry = entry_of(path, problem.wanted_entry, header)
    except ReproError as error:
        return OwnOutline(problem.wanted_entry or "real", refused=error)
    k = 1 if entry in ENTRY_OF_FIELD.values() else get_entry(entry).size
    rows, columns = header.rows // k, header.columns // k
    nonzeros = min(header.most, rows * columns) if k > 1 else header.most
    exact = entry == header.field == "pattern" and header.symmetry == "general"
    size_from = "stated" if exact or not nonzeros else "at most"
    return OwnOutline(entry, (rows, nonzeros), size_from, None if rows == columns else columns)


BY_LENGTH, BY_VERTICES = "by length", "by vertices"
#: Typical file size of a mesh in bytes per vertex, cells included (for a field per cell), and typical number of
#: non-zeros of a row (modes of a cell).
LENGTHS = {"quaternion": (100, 7), "block3": (280, 14), "field": (150, 4)}
#: Suffixes of compressed files, and their typical compression ratio.
PACKED_ENDINGS, COMPRESSED = (".gz", ".xz", ".vtu"), 3


def size_by_length(path: Path, subject: str) -> tuple[int, int]:
    """Guess the size of a problem on a mesh (an entry type, or `field`) from the length of the mesh's files."""
    nbytes = sum(
        file.stat().st_size * (COMPRESSED if file.suffix in PACKED_ENDINGS else 1) for file in companions(path)
    )
    entries_per_row, row_entries = LENGTHS[subject]
    rows = max(1, nbytes // entries_per_row)
    return rows, rows * row_entries


def entry_of(path: Path, entry: str | None, header: Header | None) -> str:
    """Return the entry type of a user's problem, from the configuration or else from the Matrix Market header.

    Raises `ReproError`: the kind of file is unknown, or the entry type does not match the file or is not specified.
    """
    if header is not None:
        check_entry(entry or header.entry, header.field == "complex", (header.rows, header.columns), path)
        return entry or header.entry
    if format_of(path) is None:
        raise ReproError(
            "unknown type of file",
            where=path,
            expected=f"a matrix ({' '.join(ENDINGS)}) or a mesh ({' '.join(FORMATS)}, bare, .gz or .xz)",
            actual=path.name,
            todo="convert it to one of these, for example with scipy.io.mmwrite or meshio (docs/inputs.md)",
        )
    if entry not in OF_MESHES:
        raise ReproError(
            "a mesh needs an entry to compute, since the file does not define one",
            where=path,
            expected="entry: quaternion (a surface) or block3 (tetrahedra)",
            actual=f"entry: {entry}" if entry else "no entry",
            todo="add `entry: quaternion` for a surface, `entry: block3` for a tetrahedral mesh",
        )
    return entry


def assemble_own(
    path: Path | str,
    entry: str | None,
    seed: int = 1,
    limits: Limits | None = None,
    fixed: Sequence[Fixed] = (),
) -> tuple[str, Assembled, dict[str, Any]]:
    """Build a matrix from a local file; return entry type, matrix, and `checksum` and `counts` of the file.

    Raises `ReproError`: the file is missing, damaged, beyond the limits or of an unknown kind, or the entry type does
    not match it.

    Parameters
    ----------
    path
        A Matrix Market file or a mesh. A matrix is folded if the entry type requires this. On a surface mesh, the Dirac
        operator (`quaternion`) is assembled; on a tetrahedral mesh, linear elasticity (`block3`).
    entry
        Entry type. None is allowed for a matrix file, whose header then determines `real`, `complex` or `pattern`.
    seed
        Seed for the random curvature potential of the Dirac operator.
    fixed
        Supports that fix vertices of a tetrahedral mesh; the rows and columns of these vertices are left out.
    """
    path, limits = locate_own(path), limits or Limits()
    if fixed and is_matrix_market(path):
        raise ReproError(
            "only vertices of a mesh can be fixed",
            where=path,
            expected=f"a tetrahedral mesh ({' '.join(FORMATS)})",
            actual="a matrix",
            todo="remove `fixed:`, or remove rows and columns when you make the matrix",
        )
    if is_matrix_market(path):
        with open_plain(path, limits, member_of(path)) as stream:
            entry = entry_of(path, entry, read_header(stream, path, limits))
        file = read_matrix(path, limits, distinct=entry == "pattern")
        origin = {"checksum": {"sha256": file.checksum(), "state": "own"}, "counts": file.counts}
        folded_matrix = fold_blocks(file.matrix, entry, path)
        return entry, replace(folded_matrix, notes=(*file.notes, *folded_matrix.notes)), origin
    entry = entry_of(path, entry, None)
    if entry == "quaternion":
        vertices, cells, notes = read_surface(path, limits)
        assembled_matrix = assemble_dirac(vertices, cells, seed=seed)
    else:
        vertices, cells, notes = read_tetrahedra(path, limits)
        groups = {
            support.group: read_group(path, limits, support.group) for support in fixed if support.group is not None
        }
        fixed_nodes = fixed_vertices(vertices, fixed, groups, path) if fixed else None
        assembled_matrix = elastic_body(vertices, cells, fixed_nodes)
    origin = {
        "checksum": {"sha256": mesh_checksum(vertices, cells), "state": "own"},
        "counts": {"vertices": len(vertices), "cells": len(cells)},
    }
    return entry, replace(assembled_matrix, notes=(*notes, *assembled_matrix.notes)), origin


def planned(item: Item | OwnProblem, registry: Registry, limits: Limits) -> Outline:
    """Return the outline of a registered problem or a user's problem; for errors see `outline`."""
    if isinstance(item, (OwnProblem, LocalFile, OwnField)):
        return outline(item, limits)
    size, size_from = (item.published.rows, item.published.nonzeros) if item.published else None, "stated"
    if isinstance(item, GeneratedField):
        size = size_of(item.kind, item.parameters)
    elif isinstance(item, Generated) and size is None:
        size = generators.size_of(item.kind, item.parameters)
        size_from = "at most" if size and generators.KINDS[item.kind].at_most else "stated"
    # The key `sets` is left out, since it does not affect the matrix.
    definition = item.model_dump(mode="json", exclude={"sets"})
    if inputs := getattr(item, "inputs", ()):
        definition["made from"] = [registry.find(name).model_dump(mode="json", exclude={"sets"}) for name in inputs]
    columns = item.published.columns if item.published and item.published.columns != item.published.rows else None
    entry = item.entry if isinstance(item, MatrixItem) and item.kind_of_problem == "matrix" else None
    free_body = entry == "block3" and isinstance(item, (Tetmesh, Recipe))
    return Outline(
        item.name, item.kind_of_problem, entry, definition, (), size, size_from, columns=columns, free_body=free_body
    )
