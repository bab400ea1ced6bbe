"""The store: append-only JSON lines while a job runs, one Parquet file when it is done."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import pyarrow as pa
from filelock import FileLock, Timeout

from repro.bench.parquet import write_table
from repro.bench.rows import SCHEMA, ColumnType, Row, schema_of
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
            if data.get("schema") == SCHEMA:
                rows.append(Row.from_dict(data))
        except (ValueError, TypeError, AttributeError, RecursionError):  # no JSON, or no row
            raise ReproError(
                "a line of the store is damaged",
                where=f"{path}:{number}",
                todo="delete the line, or the file to measure everything again",
            ) from None
    return rows


def write_rows(rows: Iterable[Row], own: Mapping[str, ColumnType], path: Path) -> Path:
    """Write rows of a study to one Parquet file, whole or not at all; return the path.

    Parameters
    ----------
    own
        The study's own columns with their types.
    """
    return write_table(pa.Table.from_pylist([row.as_dict() for row in rows], schema=schema_of(own)), path)
