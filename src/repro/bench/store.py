"""The store: append-only JSON lines while a job runs, one Parquet file when it is done."""

from __future__ import annotations

import json
import os
import threading
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import pyarrow as pa
from filelock import FileLock, Timeout

from repro.bench.parquet import write_table
from repro.bench.records import is_record
from repro.bench.rows import SCHEMA, TRY_AGAIN, ColumnType, Row, is_valid, schema_of
from repro.reading import open_file, parse_json, read_file

#: What a line has beside the row's columns: the run that stored it, and, last, the checksum of all before.
_RUN, _CHECKSUM = "_run", "_crc"
#: Numbers of damaged lines that are named.
_NAMED = 5
#: Bytes of a store; the lines of all variants of a case are some megabytes.
LARGEST = 4 << 30


class Store:
    """The rows of one job, one writer at a time; what was measured before is found again by its key.

    Used as a context manager, which holds a lock on the file. A job that is killed leaves its lines; the next one reads
    them, but for a torn last line and what is damaged, and goes on. What another attempt may end otherwise
    (`repro.bench.rows.TRY_AGAIN`) is found by the run that stored it alone: the next run tries it again.

    Parameters
    ----------
    path
        The `.jsonl` file.
    run
        The run's id, the same in all processes that it takes; None for a run of its own.
    environments
        Folder of the environment records; a row whose record is gone or damaged is not found. None: not looked at.
    """

    def __init__(self, path: Path, run: str | None = None, environments: Path | None = None) -> None:
        self._path = path
        self._environments = environments
        self._run = run or uuid.uuid4().hex
        self._rows: dict[str, Row] = {}
        self._writing = threading.Lock()

    def __enter__(self) -> Store:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        for path in (self._path, _note_of(self._path), self._path.with_suffix(".lock")):
            os.close(open_file(path, os.O_RDWR | os.O_CREAT))
        self._lock = FileLock(self._path.with_suffix(".lock"))
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            print(f"another process writes to {self._path}; waiting for it", flush=True)
            self._lock.acquire()
        lines = _read(self._path)
        recorded = {name for name in {row.environment for _, row in lines} if self._has_record(name)}
        self._rows = {
            row.key: row
            for run, row in lines
            if row.environment in recorded and (run == self._run or row.status not in TRY_AGAIN)
        }
        self._file = self._path.open("a")
        self._note = _note_of(self._path).open("w")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with _named(self._path):
                self._note.close()
                _note_of(self._path).unlink(missing_ok=True)
                self._file.close()
        finally:
            self._lock.release()

    def _has_record(self, environment: str | None) -> bool:
        if environment is None or self._environments is None:
            return True
        return is_record(self._environments / f"{environment}.json")

    def get(self, key: str) -> Row | None:
        """Return the row of that key, if it was measured before and is not to be tried again."""
        return self._rows.get(key)

    def add(self, row: Row) -> Row:
        """Append a row; it is on its way to the disk before this returns."""
        with _named(self._path), self._writing:  # a watchdog adds from a thread of its own
            self._file.write(_line(row, self._run) + "\n")
            self._file.flush()
        self._rows[row.key] = row
        return row

    @contextmanager
    def in_flight(self, row: Row) -> Iterator[None]:
        """Note what the body tries, so that `crashed_row` finds it where the process does not survive.

        Parameters
        ----------
        row
            What is to be stored then, but for the message.
        """
        self._write_note(_line(row, self._run))
        try:
            yield
        finally:
            self._write_note("")

    def _write_note(self, text: str) -> None:
        with _named(_note_of(self._path)):
            self._note.seek(0)
            self._note.truncate()
            self._note.write(text)
            self._note.flush()


def crashed_row(path: Path, run: str) -> Row | None:
    """Return the row of what a run's process tried when it died, by the note that `Store.in_flight` left.

    Parameters
    ----------
    path
        The `.jsonl` file; no process of the run may write to it any more.
    run
        The run's id; what another left is none of its business.
    """
    try:
        line = _parse(read_file(_note_of(path)))
    except FileNotFoundError:
        return None
    return line.row if isinstance(line, _Line) and line.run == run else None


def count_rows(path: Path, run: str) -> int:
    """Return how many rows a run has stored so far."""
    return sum(stored_by == run for stored_by, _ in _read(path, quiet=True))


def _note_of(path: Path) -> Path:
    return path.with_suffix(".inflight")


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Add the file's name to a failed write: the system's error has it for opening a file only."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


class _Line(NamedTuple):
    """What a line holds: a row, and the run that stored it."""

    run: str
    row: Row


def _line(row: Row, run: str) -> str:
    text = json.dumps({**row.as_dict(), _RUN: run})[:-1]
    return f'{text}, "{_CHECKSUM}": "{zlib.crc32(text.encode()):08x}"}}'


def _parse(line: bytes) -> _Line | str | None:
    """Return what a line holds; None for a row of another schema, and for what is damaged a word on how."""
    try:
        data = parse_json(line, finite=False)
        schema = data["schema"]
    except (ValueError, TypeError, KeyError):
        return "no row"
    if schema != SCHEMA:
        return None
    if _CHECKSUM not in data:
        return "without a checksum"
    checksum, run = data.pop(_CHECKSUM), data.pop(_RUN, None)
    text = line[: line.rfind(f', "{_CHECKSUM}"'.encode())]
    if f"{zlib.crc32(text):08x}" != checksum:
        return "not what its checksum is of"
    if not (isinstance(run, str) and is_valid(data)):
        return "no valid row"
    return _Line(run, Row.from_dict(data))


def _read(path: Path, quiet: bool = False) -> list[_Line]:
    """Read rows; drop a torn last line from the file, so that the next row does not continue it.

    Damaged lines are left out and named, unless `quiet`.
    """
    if not path.exists():
        return []
    content = read_file(path, LARGEST)
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        with path.open("r+b") as file:
            file.truncate(len(whole))
    parsed = [_parse(line) for line in whole.split(b"\n")[:-1]]
    damaged = [f"{path}:{number} ({what})" for number, what in enumerate(parsed, 1) if isinstance(what, str)]
    if damaged and not quiet:
        more = f" and {len(damaged) - _NAMED} more" if len(damaged) > _NAMED else ""
        print(f"damaged lines of the store, measured again: {', '.join(damaged[:_NAMED])}{more}", flush=True)
    return [line for line in parsed if isinstance(line, _Line)]


def write_rows(rows: Iterable[Row], own: Mapping[str, ColumnType], path: Path) -> Path:
    """Write rows of a study to one Parquet file, whole or not at all; return the path.

    Parameters
    ----------
    own
        The study's own columns with their types.
    """
    table = pa.Table.from_pylist([row.as_dict() for row in rows], schema=schema_of(own))
    return write_table(table, path)
