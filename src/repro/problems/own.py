"""A user's own problem: a local Matrix Market file or mesh."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from repro.errors import ReproError
from repro.problems.assembled import Assembled
from repro.problems.content import mesh_checksum
from repro.problems.dirac import assemble_dirac
from repro.problems.elasticity import assemble_elasticity
from repro.problems.fold import fold
from repro.problems.matrixmarket import ENDINGS, is_matrix_market, read_matrix
from repro.problems.meshes import FORMATS, read_surface, read_tetrahedra
from repro.problems.own_header import ENTRIES


def assemble_own(path: Path, entry: str | None, seed: int = 1) -> tuple[str, Assembled, dict[str, Any]]:
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

    Returns
    -------
    entry, assembled, origin
        The entry, the matrix, and what there is to say of the file: `checksum`, `counts`.

    Raises
    ------
    ReproError
        The file is missing, damaged or of an unknown kind, or the entry does not fit it.
    """
    path = path.expanduser()
    if not path.is_file():
        raise ReproError("no such file", where=path, todo="correct the problem's `path:`")
    if is_matrix_market(path):
        file = read_matrix(path)
        entry = entry or ENTRIES[file.field]
        origin = {"checksum": {"sha256": file.checksum(), "state": "own"}, "counts": file.counts}
        return entry, fold(file.matrix, entry, path), origin
    if not any(suffix in FORMATS for suffix in map(str.lower, path.suffixes)):
        raise ReproError(
            "unknown kind of file",
            where=path,
            expected=f"a matrix ({' '.join(ENDINGS)}) or a mesh ({' '.join(FORMATS)}, bare, .gz or .xz)",
            actual=path.name,
        )
    if entry == "quaternion":
        vertices, cells, notes = read_surface(path)
        assembled = assemble_dirac(vertices, cells, seed=seed)
    elif entry == "block3":
        vertices, cells, notes = read_tetrahedra(path)
        assembled = assemble_elasticity(vertices, cells)
    else:
        raise ReproError(
            "a mesh needs an entry that can be computed on it",
            where=path,
            expected="entry: quaternion (a surface) or block3 (tetrahedra)",
            actual=f"entry: {entry}" if entry else "no entry",
            todo="give the problem such an `entry:`",
        )
    origin = {
        "checksum": {"sha256": mesh_checksum(vertices, cells), "state": "own"},
        "counts": {"vertices": len(vertices), "cells": len(cells)},
    }
    return entry, replace(assembled, notes=(*notes, *assembled.notes)), origin
