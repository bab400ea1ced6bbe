"""The store of rows: JSON lines while a job runs, one Parquet file when it is done, and reading them back.

A campaign is measured into `raw/<study>/<problem>/<precision>/<step>.parquet`, a file for each problem, precision
and step, so that jobs can run side by side; merged, it is `raw/<study>/<step>.parquet`. Where a study has both, a
problem that was measured again counts, and not its rows in the merged file.

A Parquet file has checksums of its pages, which every reader of Parquet can verify, and a digest of the whole file
in its metadata: pages are not the whole file, and one flipped bit in the footer can change a number as well. The
digest is of the file with zeros in place of the digest, as in the headers of a tar archive.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from repro.atomic_write import write_whole
from repro.bench.records import is_record
from repro.bench.rows import SCHEMA, TRY_AGAIN, ColumnType, Misfit, Row, is_valid, misfit, other_types, schema_of
from repro.errors import ReproError
from repro.problems.registry import check_name
from repro.untrusted_files import files_below, open_file, parse_json, read_file, shown

#: zstd's highest ordinary level: the ones above take longer and gain nothing here.
LEVEL = 19
#: Texts that differ from row to row; all other texts, and integers, repeat and are kept as numbers into a dictionary.
DISTINCT = ("key", "name", "measured_at")
#: Columns that compress better split up: random digits apart from their lengths, and each byte of a number by itself.
ENCODINGS = {"key": "DELTA_LENGTH_BYTE_ARRAY", "preprocess": "BYTE_STREAM_SPLIT"}
#: More than any file has, in bytes or rows: a column is one page, compressed in one go.
UNLIMITED = 1 << 30
#: Bytes of a file of rows; a search of 3,000 problems has a tenth of that.
MAX_FILE_BYTES = 8 << 30
#: What rows may unpack to whatever their file's size, in bytes, and otherwise how many times that; ours are 20 times.
ALWAYS, RATIO = 1 << 30, 500
#: What the digest of a file stands behind, in its metadata, where no base64 can have it: of the colon.
MARK = b"repro-sha256:"
DIGITS = 64


def write_table(table: pa.Table, path: Path) -> Path:
    """Write a table to one Parquet file, whole or not at all, with checksums of its pages and a digest of itself.

    The schema version is in the file's metadata.

    Values and the order of the rows stay as they are; other metadata, pandas' among it, is left out.

    Parameters
    ----------
    table
        Rows, with the schema version in their column `schema`.
    path
        The file; its folder is made.

    Returns
    -------
    Path
        The file.
    """
    content = _sealed(_encoded(table.replace_schema_metadata({"schema": str(SCHEMA)})))
    write_whole(path, content)
    return path


def _encoded(table: pa.Table) -> bytes:
    """Return the file that a table makes, zeros in the place of its digest."""
    stream = pa.BufferOutputStream()
    with pq.ParquetWriter(
        stream,
        table.schema,
        compression="zstd",
        compression_level=LEVEL,
        use_dictionary=[field.name for field in table.schema if _repeats(field)],
        column_encoding={name: encoding for name, encoding in ENCODINGS.items() if name in table.column_names},
        data_page_size=UNLIMITED,
        max_rows_per_page=UNLIMITED,
        dictionary_pagesize_limit=UNLIMITED,
        write_statistics=False,
        write_page_checksum=True,
    ) as writer:
        writer.write_table(table, row_group_size=UNLIMITED)
        # not in the table's own metadata, which the file has twice, once in base64
        writer.add_key_value_metadata({"digest": MARK.decode() + "0" * DIGITS})
    content: bytes = stream.getvalue().to_pybytes()
    return content


def _sealed(content: bytes) -> bytes:
    """Return a file with its digest in the place of the zeros."""
    start = content.rindex(MARK) + len(MARK)
    return content[:start] + hashlib.sha256(content).hexdigest().encode() + content[start + DIGITS :]


def read_table(path: Path) -> pa.Table:
    """Read a Parquet file, its metadata apart, and verify that it is what was written.

    A file without a digest or checksums, of another program say, is read as well: of what it has, all is verified.

    Raises
    ------
    ReproError
        It is missing, no Parquet file, damaged, or unpacks to far more than rows do.
    """
    content = _verified(path)
    try:
        # one file, no data set: `pq.read_table` takes half as long again, and campaigns have thousands of small files
        file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
        _refuse_too_much(file.metadata, content)
        table = file.read(use_threads=False)
        table.validate(full=True)
        if len(set(table.column_names)) < table.num_columns:
            raise ValueError("two columns of one name")
    except (pa.ArrowException, ValueError, LookupError, OSError, MemoryError) as error:
        raise _unreadable(path, error) from error
    return table.replace_schema_metadata()


def _refuse_too_much(data: pq.FileMetaData, content: bytes) -> None:
    """Refuse rows that unpack to far more than any that were measured, before they are.

    Raises
    ------
    ValueError
        They do, by the file's metadata; or a text that is written once stands in too many rows.
    """
    most = max(ALWAYS, RATIO * len(content))
    groups = [data.row_group(place) for place in range(data.num_row_groups)]
    whole = max(sum(group.total_byte_size for group in groups), data.num_rows * data.num_columns * 8)
    for place in range(data.num_columns):
        chunks = [group.column(place) for group in groups]
        written = sum(chunk.total_uncompressed_size for chunk in chunks)
        whole = max(whole, written)
        if chunks and chunks[0].physical_type == "BYTE_ARRAY" and written * sum(c.num_values for c in chunks) > most:
            if any("DELTA_BYTE_ARRAY" in chunk.encodings for chunk in chunks):
                raise ValueError(
                    f"texts of {chunks[0].path_in_schema} that are written as what differs, which ours are not"
                )
            if any("DICTIONARY" in encoding for chunk in chunks for encoding in chunk.encodings):
                whole += _length_of_texts(content, chunks[0].path_in_schema)
    if whole > most:
        raise ValueError(
            f"{data.num_rows:,} rows unpack to {whole:,} bytes, and at most {most:,} are read of such a file"
        )


def _length_of_texts(content: bytes, path: str) -> int:
    """Return how many bytes the texts of a column have, without writing out what is there once for many rows."""
    file = pq.ParquetFile(pa.BufferReader(content), read_dictionary=[path])
    length = 0
    for part in file.read(columns=[path], use_threads=False).column(0).chunks:
        while pa.types.is_list(part.type) or pa.types.is_large_list(part.type):
            part = part.flatten()  # noqa: PLW2901
        if not pa.types.is_dictionary(part.type):
            raise ValueError(f"{path}: neither texts nor lists of them")
        length += pc.sum(pc.take(pc.binary_length(part.dictionary), part.indices), min_count=0).as_py()
    return length


def _verified(path: Path) -> bytes:
    """Return the content of a file, which its digest fits if it has one."""
    try:
        content = read_file(path, MAX_FILE_BYTES)
    except OSError as error:
        raise _unreadable(path, error.strerror or error) from error
    if (place := content.rfind(MARK)) < 0:
        return content
    start = place + len(MARK)
    written = content[start : start + DIGITS]
    # in three parts, as one would be a copy
    digest = hashlib.sha256(memoryview(content)[:start])
    digest.update(b"0" * len(written))
    digest.update(memoryview(content)[start + DIGITS :])
    if digest.hexdigest().encode() != written:
        raise _unreadable(path, "bits have changed since it was written: its digest is another one")
    return content


def _unreadable(path: Path, reason: object) -> ReproError:
    return ReproError(
        "unreadable rows",
        where=path,
        actual=shown(reason),
        todo="delete the file and let the workflow make it again; where it is a record's, take it from a copy, "
        "or from git",
    )


def _repeats(field: pa.Field) -> bool:
    kind = field.type
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return field.name not in DISTINCT and (text or pa.types.is_integer(kind))


#: What a line has beside the row's columns: the run that stored it, and, last, the checksum of all before.
_RUN, _CHECKSUM = "_run", "_crc"
#: Numbers of damaged lines that are named.
_NAMED = 5
#: Bytes of a store; the lines of all variants of a case are some megabytes.
MAX_STORE_BYTES = 4 << 30


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
        lines = _read_lines(self._path)
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
    return sum(stored_by == run for stored_by, _ in _read_lines(path, quiet=True))


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


def _read_lines(path: Path, quiet: bool = False) -> list[_Line]:
    """Read rows; drop a torn last line from the file, so that the next row does not continue it.

    Damaged lines are left out and named, unless `quiet`.
    """
    if not path.exists():
        return []
    content = read_file(path, MAX_STORE_BYTES)
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


#: Folders of `raw` that are no study's.
SHARED = ("problems", "environment")
#: The columns that say which case a row is of.
CASE = ("problem", "precision")
#: What a step can be called: it becomes a file, and what is looked for.
STEP = r"[A-Za-z0-9_-]{1,100}"


def case_files(study: Path, step: str) -> list[Path]:
    """Return the files of a step that hold one problem in one precision each, sorted; `study` is `raw/<study>`."""
    return [path for path in files_below(study, f"{step}.parquet") if path.parent != study]


def read_rows(study: Path, step: str) -> pa.Table:
    """Read a step of all problems, merged or not: sorted by problem and precision, and in each as they were written.

    Parameters
    ----------
    study
        `results/<campaign>/raw/<study>`.
    step
        The name of the step, `search` say.

    Returns
    -------
    pa.Table
        Columns of all files, null where a file does not have one; without columns where there is no file.

    Raises
    ------
    ReproError
        A file is damaged, of another schema, or of another problem than its folder says.
    """
    files = case_files(study, step)
    measured = {path.parent.relative_to(study).parts: _read_steps(path, study.name) for path in files}
    for (case, rows), path in zip(measured.items(), files, strict=True):
        if foreign := {_folder(*of) for of in distinct_cases(rows)} - {case}:
            raise ReproError(
                "rows of another problem",
                where=path,
                expected="/".join(case),
                actual=", ".join(sorted("/".join(other) for other in foreign)),
                todo="measure the problem again: its folder says what it is",
            )
    tables = list(measured.values())
    if os.path.lexists(path := study / f"{step}.parquet"):  # a link that leads nowhere is one that is damaged
        kept = _read_steps(path, study.name)
        if measured:
            kept = kept.filter(pa.array([_folder(*of) not in measured for of in cases_of(kept)], pa.bool_()))
        tables.append(kept)
    return join_cases(tables, study / f"**/{step}.parquet")


def join_cases(tables: Sequence[pa.Table], where: Path) -> pa.Table:
    """Return the rows of several tables as one: sorted by problem and precision, and in each case as they were.

    Parameters
    ----------
    tables
        Rows of one step, as `read_rows` returns them; no case in two of them.
    where
        What a message names.

    Returns
    -------
    pa.Table
        Columns of all tables, null where one does not have it; without columns where there is no table.

    Raises
    ------
    ReproError
        A column is of other types in two of them.
    """
    tables = [table for table in tables if table.num_rows] or list(tables[:1])
    if not tables:
        return pa.table({})
    try:
        merged = pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise other_schema(where, "columns of the same types in all files", error) from error
    order = {case: place for place, case in enumerate(sorted(distinct_cases(merged), key=lambda case: _folder(*case)))}
    places = _of_each(merged, order)
    return merged if (np.diff(places) >= 0).all() else merged.take(pa.array(np.argsort(places, kind="stable")))


def cases_of(rows: pa.Table) -> list[tuple[str, str]]:
    """Return the problem and the precision of each row; none of a table without rows, which may have no columns."""
    return list(zip(*(rows[column].to_pylist() for column in CASE), strict=True)) if rows.num_rows else []


def distinct_cases(rows: pa.Table) -> list[tuple[str, str]]:
    """Return the problem and the precision of all rows, each once, in no order."""
    return cases_of(rows.select(CASE).group_by(list(CASE)).aggregate([])) if rows.num_rows else []


def _of_each(rows: pa.Table, numbers: Mapping[tuple[str, str], int]) -> NDArray[np.int64]:
    """Return for each row the number of its case; a campaign has 100,000 rows of some cases."""
    problems, precisions = (rows[column].combine_chunks().dictionary_encode() for column in CASE)
    pairs = product(problems.dictionary.to_pylist(), precisions.dictionary.to_pylist())
    table = np.array([numbers.get(pair, -1) for pair in pairs], np.int64)
    places = problems.indices.to_numpy().astype(np.int64) * len(precisions.dictionary) + precisions.indices.to_numpy()
    of_each: NDArray[np.int64] = table[places]
    return of_each


def recorded_steps(study: Path) -> list[str]:
    """Return the names of the steps that a study has rows of, merged or not; `study` is `raw/<study>`."""
    steps = sorted({path.stem for path in files_below(study, "*.parquet")})
    for step in steps:
        if not re.fullmatch(STEP, step):
            raise ReproError(
                "a file of rows whose name is no step's",
                where=study,
                expected="letters, digits, _ and -, before .parquet",
                actual=shown(repr(step)),
                todo="take it away, or give it the name that it had",
            )
    return steps


def _read_steps(path: Path, study: str) -> pa.Table:
    rows = read_table(path)
    if not rows.num_rows:
        return rows
    for column in CASE:
        if column not in rows.column_names or not _is_text(rows[column]) or rows[column].null_count:
            raise other_schema(
                path, f"in each row a text as its {column}", f"columns {shown(', '.join(rows.column_names))}"
            )
    versions = set(rows["schema"].unique().to_pylist()) if "schema" in rows.column_names else {"none"}
    if versions != {SCHEMA}:
        raise other_schema(path, SCHEMA, shown(", ".join(sorted(map(str, versions)))))
    if other := other_types(rows):
        raise other_schema(path, other.expected, other.actual)
    if wrong := misfit(rows, study):
        raise refuse_rows(path, wrong)
    return rows


def refuse_rows(path: Path, wrong: Misfit) -> ReproError:
    """Return the error that rows cannot have been measured."""
    return ReproError(
        "rows that cannot have been measured",
        where=path,
        expected=wrong.expected,
        actual=wrong.actual,
        todo="measure again; where they are a record's, take the file from a copy, or from git",
    )


def _is_text(column: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))


def other_schema(path: Path, expected: object, actual: object) -> ReproError:
    """Return the error that rows have other columns than those that are read."""
    return ReproError(
        "rows of another schema",
        where=path,
        expected=expected,
        actual=actual,
        todo="measure again with this version, or read them with the version that wrote them",
    )


def _folder(problem: str, precision: str) -> tuple[str, ...]:
    """Return the folder that a case is measured into: the parts of its problem's name, and its precision."""
    return (*problem.split("/"), precision)


def read_case(study: Path, step: str, problem: str, precision: str) -> list[dict[str, Any]]:
    """Read a step of one problem in one precision, merged or not; a row a mapping, absent values None.

    Parameters
    ----------
    study, step
        As `read_rows`.

    Raises
    ------
    ReproError
        As `read_rows`.
    """
    path = study / check_name(problem, study) / precision / f"{step}.parquet"
    rows = _read_steps(path, study.name) if os.path.lexists(path) else read_rows(study, step)
    if not rows.num_rows:
        return []
    return [row for row in rows.to_pylist() if (row["problem"], row["precision"]) == (problem, precision)]


def recorded_studies(raw: Path) -> list[str]:
    """Return the names of the studies that a campaign's `raw` holds anything of."""
    return sorted(path.name for path in raw.iterdir() if path.is_dir() and path.name not in SHARED)


def check_folders(raw: Path, studies: Iterable[str]) -> None:
    """Refuse a campaign that has something else where a folder of a study, or of records, should be.

    Raises
    ------
    ReproError
        It has.
    """
    for name in (*SHARED, *studies):
        if (raw / name).exists() and not (raw / name).is_dir():
            raise ReproError(
                "a file is where a folder should be", where=raw / name, todo="take the folder from a copy, or from git"
            )
