"""A problem, and the one file it is kept in."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.entries import get_entry
from repro.errors import ReproError

SCHEMA = 1


@dataclass(frozen=True)
class Problem:
    """One square sparse matrix with compound entries, in CSR with sorted column indices.

    Attributes
    ----------
    name, entry
        Its name in the registry and the name of its entry.
    n
        Rows and columns, counted in entries.
    indptr, indices
        int32 `(n + 1,)` and `(nnz,)`.
    values
        float64 `(nnz, members)`, members in the entry's storage order.
    origin
        Where it came from: source, address, parameters, counts, licence; `stand_in` or `rebuilt` where it is one.
    statistics
        What `repro.problems.statistics.describe` says of the pattern.
    """

    name: str
    entry: str
    n: int
    indptr: NDArray[np.int32]
    indices: NDArray[np.int32]
    values: NDArray[np.float64]
    origin: Mapping[str, Any] = field(default_factory=dict)
    statistics: Mapping[str, Any] = field(default_factory=dict)

    @property
    def nnz(self) -> int:
        """Stored entries."""
        return len(self.indices)

    @property
    def row_lengths(self) -> NDArray[np.int32]:
        """int32 `(n,)`, entries in each row."""
        return np.diff(self.indptr).astype(np.int32)

    def checksum(self) -> str:
        """SHA-256 of entry, sizes, pattern and values: the content, whatever wrapping it came in."""
        digest = hashlib.sha256(f"{self.entry} {self.n} {self.nnz}".encode())
        for array in (self.indptr, self.indices, self.values):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def validate(self) -> Problem:
        """Return the problem itself if it is one that every kernel can run on.

        Raises
        ------
        ReproError
            No entries, NaN or infinite values, indices out of range or not sorted, or arrays that do not fit.
        """
        members = len(get_entry(self.entry).members)
        if self.nnz == 0 or self.n == 0:
            raise ReproError("the matrix has no entries", where=self.name)
        if self.values.shape != (self.nnz, members):
            raise ReproError(
                "values do not fit the entry",
                where=self.name,
                expected=f"({self.nnz}, {members})",
                actual=self.values.shape,
            )
        bad = np.flatnonzero(~np.isfinite(self.values).all(axis=1))
        if bad.size:
            row = int(np.searchsorted(self.indptr, bad[0], side="right")) - 1
            raise ReproError(
                "the matrix has NaN or infinite values",
                where=f"{self.name}, first at row {row}, column {self.indices[bad[0]]} (counted from 0)",
                expected="finite values",
                actual=f"{bad.size} entries that are not",
            )
        if len(self.indptr) != self.n + 1 or self.indptr[-1] != self.nnz:
            raise ReproError("row pointers do not fit the matrix", where=self.name)
        if self.indices.min() < 0 or self.indices.max() >= self.n:
            raise ReproError(
                "column index out of range",
                where=self.name,
                expected=f"0 to {self.n - 1}",
                actual=f"{self.indices.min()} to {self.indices.max()}",
            )
        return self

    def save(self, path: Path) -> None:
        """Write the problem to one `.npz` file, whole or not at all."""
        meta = {
            "schema": SCHEMA,
            "status": "ok",
            "name": self.name,
            "entry": self.entry,
            "n": self.n,
            "origin": dict(self.origin),
            "statistics": dict(self.statistics),
            "checksum": self.checksum(),
        }
        _write(path, meta, indptr=self.indptr, indices=self.indices, values=self.values)

    @classmethod
    def load(cls, path: Path) -> Problem:
        """Read a problem back and check its content against its checksum.

        Raises
        ------
        Unavailable
            The file records that the problem could not be had.
        ReproError
            The file is missing, truncated, of another schema or does not match its checksum.
        """
        meta, arrays = _read(path)
        if meta["status"] == "unavailable":
            raise Unavailable(meta["name"], meta["entry"], meta["reason"])
        problem = cls(
            name=meta["name"],
            entry=meta["entry"],
            n=meta["n"],
            origin=meta["origin"],
            statistics=meta["statistics"],
            **arrays,
        )
        if problem.checksum() != meta["checksum"]:
            raise ReproError(
                "wrong checksum",
                where=path,
                expected=meta["checksum"],
                actual=problem.checksum(),
                todo="delete the file and build it again",
            )
        return problem


class Unavailable(ReproError):
    """A problem that could not be fetched or built, with the reason."""

    def __init__(self, name: str, entry: str, reason: str) -> None:
        self.name, self.entry, self.reason = name, entry, reason
        super().__init__(f"problem {name} is unavailable", actual=reason)


def save_unavailable(path: Path, name: str, entry: str, reason: str) -> None:
    """Write, in place of the problem, the record that it could not be had and why."""
    _write(path, {"schema": SCHEMA, "status": "unavailable", "name": name, "entry": entry, "reason": reason})


def _write(path: Path, meta: Mapping[str, Any], **arrays: NDArray[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with partial.open("wb") as file:
            # mypy reads ``**arrays`` as the keyword ``allow_pickle``
            np.savez(file, meta=np.array(json.dumps(meta)), **arrays)  # type: ignore[arg-type]
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    try:
        with np.load(path) as file:
            meta = json.loads(str(file["meta"]))
            arrays = {name: file[name] for name in file.files if name != "meta"}
    except FileNotFoundError:
        raise ReproError("no such problem file", where=path, todo="build it with `repro problem NAME`") from None
    except Exception as error:  # np.load raises a dozen kinds on a damaged archive
        raise ReproError(
            "the problem file is damaged", where=path, actual=error, todo="delete the file and build it again"
        ) from error
    if meta.get("schema") != SCHEMA:
        raise ReproError(
            "the problem file has another schema",
            where=path,
            expected=SCHEMA,
            actual=meta.get("schema"),
            todo="delete the file and build it again",
        )
    return meta, arrays
