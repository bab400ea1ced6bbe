"""The store: append-only JSON lines while a job runs, one Parquet file when it is done."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import pandas as pd
from filelock import FileLock, Timeout

from repro.bench.rows import SCHEMA, Row
from repro.errors import ReproError


class Store:
    """The rows of one job, one writer at a time; what was measured before is found again by its key.

    Used as a context manager, which holds a lock on the file. A job that is killed leaves its lines; the next one reads
    them, but for a torn last line, and goes on.

    Parameters
    ----------
    path
        The `.jsonl` file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: dict[str, Row] = {}

    def __enter__(self) -> Store:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(self._path.with_suffix(".lock"))
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            print(f"another process writes to {self._path}; waiting for it", flush=True)
            self._lock.acquire()
        self._rows = {row.key: row for row in _read(self._path)}
        self._file = self._path.open("a")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with _named(self._path):
                self._file.close()
        finally:
            self._lock.release()

    def get(self, key: str) -> Row | None:
        """Return the row of that key, if it was measured before."""
        return self._rows.get(key)

    def add(self, row: Row) -> Row:
        """Append a row; it is on its way to the disk before this returns."""
        with _named(self._path):
            self._file.write(json.dumps(row.as_dict()) + "\n")
            self._file.flush()
        self._rows[row.key] = row
        return row


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Add the file's name to a failed write: the system's error has it for opening a file only."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def _read(path: Path) -> Iterable[Row]:
    """Read rows; drop a torn last line from the file, so that the next row does not continue it."""
    if not path.exists():
        return []
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        with path.open("r+b") as file:
            file.truncate(len(whole))
    rows = []
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            data = json.loads(line)
        except ValueError:
            raise ReproError(
                "a line of the store is damaged",
                where=f"{path}:{number}",
                todo="delete the line, or the file to measure everything again",
            ) from None
        if data.get("schema") == SCHEMA:
            rows.append(Row(**data))
    return rows


def write_parquet(rows: Iterable[Row], path: Path) -> Path:
    """Write rows to one Parquet file, whole or not at all; the schema version is in a column and in the metadata."""
    return write_frame(pd.DataFrame([row.as_dict() for row in rows]).astype(_dtypes()), path)


def write_frame(frame: pd.DataFrame, path: Path) -> Path:
    """Write a frame to one Parquet file, whole or not at all; return the path."""
    frame.attrs["schema"] = SCHEMA
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        frame.to_parquet(partial, compression="zstd", index=False)
        return partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _dtypes() -> dict[str, str]:
    """Return the nullable column types that the row's annotations stand for."""
    kinds = {"str": "string", "int": "Int64", "float": "Float64", "bool": "boolean"}
    return {name: kinds[str(kind).split(" | ")[0]] for name, kind in Row.__annotations__.items()}
