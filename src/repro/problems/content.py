"""What a file holds, apart from its wrapping: unpacking, and the checksum of the content.

The same matrix comes as `.mtx`, `.mtx.gz` and inside a `.tar.gz`, and the same mesh from several sites, so a
checksum of a file says little. Ours are of the content: a matrix in CSR with sorted columns and no explicit
zeros, a mesh as its vertices and cells.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.config.models import Limits
from repro.errors import ReproError
from repro.problems.files import open_plain
from repro.reading import read_json
from repro.whole import write_whole


def unpack(path: Path, member: str | None = None, limits: Limits | None = None) -> bytes:
    """Return a file's bytes without the compression and the archive around them, as `files.open_plain` gives them.

    Raises
    ------
    ReproError
        As `files.open_plain`.
    """
    with open_plain(path, limits or Limits(), member) as stream:
        return stream.read()


def matrix_checksum(matrix: sp.csr_array) -> str:
    """SHA-256 of a matrix in CSR with sorted columns and no explicit zeros, the same on every machine."""
    kind = "complex" if np.iscomplexobj(matrix.data) else "real"
    rows, columns = matrix.shape
    size = f"{rows}" if rows == columns else f"{rows} {columns}"
    digest = hashlib.sha256(f"matrix {kind} {size} {matrix.nnz}".encode())
    digest.update(matrix.indptr.astype("<i8").tobytes())
    digest.update(matrix.indices.astype("<i8").tobytes())
    values = matrix.data + 0.0  # makes a zero of a -0, which not every program writes as such
    digest.update(values.astype("<c16" if kind == "complex" else "<f8").tobytes())
    return digest.hexdigest()


def mesh_checksum(vertices: NDArray[np.float64], cells: NDArray[np.integer[Any]]) -> str:
    """SHA-256 of a mesh: its vertices rounded to single precision, as PLY keeps them, and its cells."""
    digest = hashlib.sha256(f"mesh {len(vertices)} {len(cells)}".encode())
    digest.update((vertices + 0.0).astype("<f4").tobytes())
    digest.update(cells.astype("<i8").tobytes())
    return digest.hexdigest()


def record_path(cache: Path, name: str) -> Path:
    """Return the file that keeps what is known of a fetched problem."""
    return cache / "records" / f"{name}.json"


def read_record(cache: Path, name: str) -> dict[str, Any]:
    """Return what is known of a problem's file: `address`, `fetched_at`, `details`, `sha256`; empty if nothing."""
    try:
        record = read_json(record_path(cache, name))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def update_record(cache: Path, name: str, fields: Mapping[str, Any]) -> None:
    """Add to what is known of a problem's file.

    Raises
    ------
    ReproError
        The folder cannot be written to.
    """
    path = record_path(cache, name)
    try:
        write_whole(path, json.dumps({**read_record(cache, name), **fields}, indent=1) + "\n")
    except OSError as error:
        raise ReproError(
            "cannot write to the download folder", where=path, actual=error, todo="set fetch.cache to another folder"
        ) from None


def check_content(name: str, sha256: str, pinned: str | None, cache: Path, where: object) -> dict[str, str]:
    """Compare a content's checksum with the registry's, or else with the one recorded at first use.

    Returns
    -------
    dict
        `sha256` and `state`: `pinned` (the registry's) or `unpinned` (as at first use).

    Raises
    ------
    ReproError
        They differ.
    """
    expected = pinned or read_record(cache, name).get("sha256")
    if expected not in (None, sha256):
        raise ReproError(
            "wrong checksum",
            where=where,
            expected=f"{expected} ({'registry' if pinned else 'recorded at first use'})",
            actual=sha256,
            todo="delete the file and fetch it again"
            + ("" if pinned else f"; if the new content is right, delete {record_path(cache, name)} too"),
        )
    if pinned is None and expected is None:
        update_record(cache, name, {"sha256": sha256, "first_used_at": now()})
    return {"sha256": sha256, "state": "pinned" if pinned else "unpinned"}


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
