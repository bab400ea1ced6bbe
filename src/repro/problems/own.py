"""A user's own problem: a local Matrix Market file or mesh."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from repro.config.models import Limits
from repro.problems.assembled import Assembled
from repro.problems.content import mesh_checksum
from repro.problems.dirac import assemble_dirac
from repro.problems.elasticity import assemble_elasticity
from repro.problems.files import locate_own, open_plain
from repro.problems.fold import fold
from repro.problems.market_header import is_matrix_market, member_of, read_header
from repro.problems.matrixmarket import read_matrix
from repro.problems.meshes import read_surface, read_tetrahedra
from repro.problems.own_header import entry_of


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
