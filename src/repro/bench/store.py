"""Stores rows in JSON lines while a job runs and in one Parquet file when the job is done, and reads them back.

A campaign writes one file for each case, `raw/<study>/<problem>/<precision>/<step>.parquet`, so that jobs can run side
by side. Merging writes one file for each step, `raw/<study>/<step>.parquet`. If both files have rows of a case, the
rows in the case's file are used.

Each Parquet file has checksums of its pages.
"""

from __future__ import annotations

import errno
import json
import os
import re
import threading
import uuid
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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

from repro import containment
from repro.bench.campaign_folder import CampaignFolder, step_file
from repro.bench.records import is_record
from repro.bench.row_tables import Misfit, misfit, other_types, schema_of
from repro.bench.rows import OUTSIDE, REPORT, SCHEMA, TRY_AGAIN, ColumnType, Row, is_valid
from repro.bench.worker import UnableToStore
from repro.containment import ENDING
from repro.errors import ReproError
from repro.filesystem import write_whole
from repro.problems.registry import check_name
from repro.untrusted_files import files_below, open_file, parse_json, read_file, shown
from repro.words import suggestion

#: Compression level of zstd; higher levels take longer without making files smaller.
LEVEL = 19
#: Text columns whose values rarely repeat. All other text and integer columns are dictionary-encoded.
DISTINCT = ("key", "name", "measured_at")
#: Columns for which these Parquet encodings compress better than the plain encoding.
ENCODINGS = {"key": "DELTA_LENGTH_BYTE_ARRAY", "preprocess": "BYTE_STREAM_SPLIT"}
#: Page size in bytes and row-group size in rows; larger than any file, so that each column is stored in one page.
UNLIMITED = 1 << 30
#: Maximum bytes of a file of rows; a search of 3,000 problems needs a tenth of this.
MAX_FILE_BYTES = 8 << 30
#: A file may unpack to at most `ALWAYS` bytes or `RATIO` times its size, whichever is more. Typical files of rows
#: unpack to about 20 times their size.
ALWAYS, RATIO = 1 << 30, 500


def write_table(table: pa.Table, path: Path) -> Path:
    """Write rows atomically to one Parquet file with checksums of its pages. The table needs a column `schema`."""
    table = table.replace_schema_metadata({"schema": str(SCHEMA)})
    stream = pa.BufferOutputStream()
    with pq.ParquetWriter(
        stream,
        table.schema,
        compression="zstd",
        compression_level=LEVEL,
        use_dictionary=[
            field.name
            for field in table.schema
            if field.name not in DISTINCT and (_is_text(field) or pa.types.is_integer(field.type))
        ],
        column_encoding={name: encoding for name, encoding in ENCODINGS.items() if name in table.column_names},
        data_page_size=UNLIMITED,
        max_rows_per_page=UNLIMITED,
        dictionary_pagesize_limit=UNLIMITED,
        write_statistics=False,
        write_page_checksum=True,
    ) as writer:
        writer.write_table(table, row_group_size=UNLIMITED)
    write_whole(path, stream.getvalue().to_pybytes())
    return path


def read_table(path: Path) -> pa.Table:
    """Read a Parquet file without its metadata, and verify its checksums.

    Raises `ReproError`: the file is missing, damaged, not in Parquet format, or would unpack to far more bytes than
    rows need.
    """
    try:
        content = read_file(path, MAX_FILE_BYTES)
    except OSError as error:
        raise _unreadable(path, error.strerror or error) from error
    try:
        # `pq.read_table` is made for large data sets and takes 1.5 times as long; campaigns have thousands of small
        # files.
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
    """Check a file's metadata and raise `ValueError` if the file would unpack to far more bytes than measured rows
    need.
    """
    limit = max(ALWAYS, RATIO * len(content))
    groups = [data.row_group(index) for index in range(data.num_row_groups)]
    whole = max(sum(group.total_byte_size for group in groups), data.num_rows * data.num_columns * 8)
    for index in range(data.num_columns):
        chunks = [group.column(index) for group in groups]
        stored_bytes = sum(chunk.total_uncompressed_size for chunk in chunks)
        whole = max(whole, stored_bytes)
        if (
            chunks
            and chunks[0].physical_type == "BYTE_ARRAY"
            and stored_bytes * sum(c.num_values for c in chunks) > limit
        ):
            if any("DELTA_BYTE_ARRAY" in chunk.encodings for chunk in chunks):
                raise ValueError(
                    f"texts of {chunks[0].path_in_schema} that are written as what differs, which ours are not"
                )
            if any("DICTIONARY" in encoding for chunk in chunks for encoding in chunk.encodings):
                whole += _length_of_texts(content, chunks[0].path_in_schema)
    if whole > limit:
        raise ValueError(
            f"{data.num_rows:,} rows unpack to {whole:,} bytes, and at most {limit:,} are read of such a file"
        )


def _length_of_texts(content: bytes, path: str) -> int:
    """Return the total bytes of a text column, computed from its dictionary without unpacking the column."""
    file = pq.ParquetFile(pa.BufferReader(content), read_dictionary=[path])
    length = 0
    for part in file.read(columns=[path], use_threads=False).column(0).chunks:
        while pa.types.is_list(part.type) or pa.types.is_large_list(part.type):
            part = part.flatten()  # noqa: PLW2901
        if not pa.types.is_dictionary(part.type):
            raise ValueError(f"{path}: neither texts nor lists of them")
        length += pc.sum(pc.take(pc.binary_length(part.dictionary), part.indices), min_count=0).as_py()
    return length


def _unreadable(path: Path, reason: object) -> ReproError:
    return ReproError(
        "unreadable rows",
        where=path,
        actual=shown(reason),
        todo="delete the file, and the workflow makes it again; if it belongs to a record, restore it from a copy "
        "or from git",
    )


#: Additional keys of each JSON line: the id of the run that stored the row, and a checksum of the line before this key.
_RUN, _CHECKSUM = "_run", "_crc"
#: Maximum number of damaged lines that a message lists.
_NAMED = 5
#: Maximum bytes of a store; a case with all its variants needs some megabytes.
MAX_STORE_BYTES = 4 << 30


class Store:
    """The rows of one job, found by their key. Only one process may write at a time.

    The store is a context manager that locks its file. If a job is killed, the next one continues after the last
    complete line. A row with a status in `repro.bench.rows.TRY_AGAIN` is found only by the run that stored the row;
    later runs measure it again.

    Parameters
    ----------
    path
        The `.jsonl` file.
    run
        Id of the run, equal in all processes of the run; by default a new id.
    environments
        Folder of environment records. Rows whose record is missing or damaged are measured again; None: no check.
    """

    def __init__(self, path: Path, run: str | None = None, environments: Path | None = None) -> None:
        self._path = path.absolute()
        self._environments = environments and environments.absolute()
        self._run = run or uuid.uuid4().hex
        self._rows: dict[str, Row] = {}
        #: Whether a row of a rival is being measured; and whether the note is left to the parent.
        self._in_flight = self._is_noted = False
        self._writing = threading.Lock()

    def __enter__(self) -> Store:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        for path in (self._path, _note_path(self._path), self._path.with_suffix(".lock")):
            os.close(open_file(path, os.O_RDWR | os.O_CREAT))
        self._lock = FileLock(self._path.with_suffix(".lock"))
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            print(f"another process writes to {self._path}; waiting for it", flush=True)
            self._lock.acquire()
        lines = _read_lines(self._path, is_locked=True)
        recorded_environments = {
            name
            for name in {row.environment for _, row in lines}
            if name is None or self._environments is None or is_record(self._environments / f"{name}.json")
        }
        self._rows = {
            row.key: row
            for run, row in lines
            if row.environment in recorded_environments and (run == self._run or row.status not in TRY_AGAIN)
        }
        self._file = self._path.open("a")
        self._note = _note_path(self._path).open("w")
        self._identities = [_identity(file.fileno()) for file in (self._file, self._note)]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_noted:
            return  # the process ends, and the parent reads the note
        try:
            with _name_file_in_errors(self._path):
                self._note.close()
                _note_path(self._path).unlink(missing_ok=True)
                self._file.close()
        finally:
            self._lock.release()

    def get(self, key: str) -> Row | None:
        return self._rows.get(key)

    def add(self, row: Row) -> Row:
        with self._able_to_write(self._path), self._writing:  # the watchdog's thread also adds rows
            self._file.write(_line(row, self._run) + "\n")
            self._file.flush()
        self._rows[row.key] = row
        return row

    @contextmanager
    def journal(self, row: Row) -> Iterator[None]:
        """Save the row that the body is measuring, so that `crashed_row` can report it if the process dies."""
        self._write_note(_line(row, self._run))
        self._in_flight = row.kind == OUTSIDE
        try:
            yield
        except ENDING:  # the rival may have sent the signal
            self._is_noted = self._in_flight
            raise
        finally:
            if not self._is_noted:
                self._write_note("")
                self._in_flight = False

    def _write_note(self, text: str) -> None:
        with self._able_to_write(_note_path(self._path)):
            self._note.seek(0)
            self._note.truncate()
            self._note.write(text)
            self._note.flush()

    @contextmanager
    def _able_to_write(self, path: Path) -> Iterator[None]:
        """Raise `UnableToStore` if a rival has closed or redirected the descriptors, or lowered the size of files."""
        identities = [_identity(file.fileno()) for file in (self._file, self._note)]
        if containment.has_run and identities != self._identities:
            self._is_noted = True
            raise UnableToStore(f"{path}, whose descriptor was closed or redirected")
        try:
            with _name_file_in_errors(path):
                yield
        except OSError as error:
            if self._in_flight and error.errno == errno.EFBIG:
                self._is_noted = True
                raise UnableToStore(f"{path}, which may not grow any more") from None
            raise


def _identity(number: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(number)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def crashed_row(path: Path, run: str) -> Row | None:
    """Return the row that a run's process was measuring when the process died; the caller fills in the message."""
    try:
        line = _parse(read_file(_note_path(path)))
    except FileNotFoundError:
        return None
    return line.row if isinstance(line, _Line) and line.run == run else None


def copy_searches(source: Path, target: Path) -> str:
    """Write a store with all rows of another one but those of the report phase; return the last run, which has them
    all.
    """
    lines = _read_lines(source)
    kept = [_line(row, run) for run, row in lines if row.phase != REPORT]
    write_whole(target, "".join(f"{line}\n" for line in kept))
    return lines[-1].run if lines else uuid.uuid4().hex


def count_rows(path: Path, run: str) -> int:
    return sum(row_run == run for row_run, _ in _read_lines(path))


def _note_path(path: Path) -> Path:
    return path.with_suffix(".inflight")


@contextmanager
def _name_file_in_errors(path: Path) -> Iterator[None]:
    """Add the file name to an `OSError` raised while writing; the operating system names files only on opening."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


class _Line(NamedTuple):
    run: str
    row: Row


def _line(row: Row, run: str) -> str:
    text = json.dumps({**row.as_dict(), _RUN: run})[:-1]
    return f'{text}, "{_CHECKSUM}": "{zlib.crc32(text.encode()):08x}"}}'


def _parse(line: bytes) -> _Line | str | None:
    """Parse a line. Return None if it has another schema version, and a message if it is damaged."""
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


def _read_lines(path: Path, is_locked: bool = False) -> list[_Line]:
    """Read rows. An incomplete last line and damaged lines are skipped.

    With `is_locked`, the caller holds the store's lock: the incomplete line is removed from the file, and damaged lines
    are reported. Otherwise another process may be writing that line.
    """
    if not path.exists():
        return []
    content = read_file(path, MAX_STORE_BYTES)
    whole = content[: content.rfind(b"\n") + 1]
    if is_locked and len(whole) < len(content):
        with path.open("r+b") as file:
            file.truncate(len(whole))
    parsed_lines = [_parse(line) for line in whole.split(b"\n")[:-1]]
    damaged_lines = [
        f"{path}:{number} ({reason})" for number, reason in enumerate(parsed_lines, 1) if isinstance(reason, str)
    ]
    if is_locked and damaged_lines:
        suffix = f" and {len(damaged_lines) - _NAMED} more" if len(damaged_lines) > _NAMED else ""
        print(f"damaged lines of the store, measured again: {', '.join(damaged_lines[:_NAMED])}{suffix}", flush=True)
    return [line for line in parsed_lines if isinstance(line, _Line)]


def write_rows(rows: Iterable[Row], own: Mapping[str, ColumnType], path: Path) -> Path:
    table = pa.Table.from_pylist([row.as_dict() for row in rows], schema=schema_of(own))
    return write_table(table, path)


#: Columns that identify a case: one problem in one precision.
CASE = ("problem", "precision")
#: Allowed names of steps; they are used in file names and glob patterns.
STEP_NAME = r"[A-Za-z0-9_-]{1,100}"


def case_files(study_folder: Path, step: str) -> list[Path]:
    """Return the sorted files of a step that contain one case each. `study_folder` is the folder `raw/<study>`."""
    merged = step_file(study_folder, step)
    return [path for path in files_below(study_folder, merged.name) if path != merged]


def read_rows(
    study_folder: Path,
    step: str,
    problems: Collection[str] | None = None,
    precisions: Collection[str] | None = None,
) -> pa.Table:
    """Read the rows of a step, merged or not, sorted by problem, precision and order of measurement.

    `study_folder` is the folder `results/<campaign>/raw/<study>`. Rows of other problems and precisions than the given
    ones (None: all) are left out, and their files are not opened. Missing columns are null; a step without files has no
    columns. Raises `ReproError`: a file is damaged, has another schema version, or contains a problem that does not
    match its folder.
    """
    files = [
        path
        for path in case_files(study_folder, step)
        if _is_selected(path.parent.relative_to(study_folder).parts, problems, precisions)
    ]
    tables_by_case = {
        path.parent.relative_to(study_folder).parts: _read_steps(path, study_folder.name) for path in files
    }
    for (case, rows), path in zip(tables_by_case.items(), files, strict=True):
        if foreign := {_folder(*key) for key in distinct_cases(rows)} - {case}:
            raise ReproError(
                "the rows belong to a different problem",
                where=path,
                expected="/".join(case),
                actual=", ".join(sorted("/".join(other) for other in foreign)),
                todo="measure the problem again; the folder is named after it",
            )
    tables = list(tables_by_case.values())
    if os.path.lexists(path := step_file(study_folder, step)):  # a dangling link is reported as damaged
        merged_rows = _read_steps(path, study_folder.name)
        if tables_by_case:
            merged_rows = merged_rows.filter(
                pa.array([_folder(*key) not in tables_by_case for key in cases_of(merged_rows)], pa.bool_())
            )
        tables.append(merged_rows)
    selected_tables = [_rows_of_cases(table, problems, precisions) for table in tables]
    return join_cases(selected_tables, step_file(study_folder / "**", step))


def _is_selected(case: tuple[str, ...], problems: Collection[str] | None, precisions: Collection[str] | None) -> bool:
    *problem_parts, precision = case
    return (problems is None or "/".join(problem_parts) in problems) and (precisions is None or precision in precisions)


def _rows_of_cases(table: pa.Table, problems: Collection[str] | None, precisions: Collection[str] | None) -> pa.Table:
    for column, values in {"precision": precisions, "problem": problems}.items():
        if table.num_rows and values is not None:
            table = table.filter(pc.is_in(table[column], pa.array(sorted(values), pa.string())))
    return table


def join_cases(tables: Sequence[pa.Table], where: Path) -> pa.Table:
    """Concatenate tables of one step with different cases, sorted like `read_rows`; messages name the file `where`."""
    tables = [table for table in tables if table.num_rows] or list(tables[:1])
    if not tables:
        return pa.table({})
    try:
        merged = pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise other_schema(where, "columns of the same types in all files", error) from error
    order = {case: index for index, case in enumerate(sorted(distinct_cases(merged), key=lambda case: _folder(*case)))}
    # Number the cases through dictionaries of the two columns, since 100,000 rows belong to few distinct cases.
    problems, precisions = (merged[column].combine_chunks().dictionary_encode() for column in CASE)
    pairs = product(problems.dictionary.to_pylist(), precisions.dictionary.to_pylist())
    numbers = np.array([order.get(pair, -1) for pair in pairs], np.int64)
    width = len(precisions.dictionary)
    ranks = numbers[problems.indices.to_numpy().astype(np.int64) * width + precisions.indices.to_numpy()]
    return merged if (np.diff(ranks) >= 0).all() else merged.take(pa.array(np.argsort(ranks, kind="stable")))


def cases_of(row_table: pa.Table) -> list[tuple[str, str]]:
    """Return the problem and precision of each row."""
    return list(zip(*(row_table[column].to_pylist() for column in CASE), strict=True)) if row_table.num_rows else []


def distinct_cases(row_table: pa.Table) -> list[tuple[str, str]]:
    return cases_of(row_table.select(CASE).group_by(list(CASE)).aggregate([])) if row_table.num_rows else []


def recorded_steps(study_folder: Path) -> list[str]:
    """Return the names of all steps with rows of a study, merged or not."""
    steps = sorted({path.stem for path in files_below(study_folder, "*.parquet")})
    for step in steps:
        if not re.fullmatch(STEP_NAME, step):
            raise ReproError(
                "a file of rows is not named after a step",
                where=study_folder,
                expected="letters, digits, _ and -, before .parquet",
                actual=shown(repr(step)),
                todo="remove it, or rename it back",
            )
    return steps


def _read_steps(path: Path, study_name: str) -> pa.Table:
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
    if wrong := misfit(rows, study_name):
        raise refuse_rows(path, wrong)
    return rows


def refuse_rows(path: Path, wrong: Misfit) -> ReproError:
    return ReproError(
        "the rows contain impossible values",
        where=path,
        expected=wrong.expected,
        actual=wrong.actual,
        todo="measure again; if they belong to a record, restore the file from a copy or from git",
    )


def _is_text(column: pa.Field | pa.ChunkedArray) -> bool:
    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))


def other_schema(path: Path, expected: object, actual: object) -> ReproError:
    return ReproError(
        "the rows have a different schema",
        where=path,
        expected=expected,
        actual=actual,
        todo="measure again with this version, or read the rows with the version that wrote them",
    )


def _folder(problem_name: str, precision: str) -> tuple[str, ...]:
    """Return the path components of a case's folder: the parts of the problem's name, then the precision."""
    return (*problem_name.split("/"), precision)


def read_case(study_folder: Path, step: str, problem_name: str, precision: str) -> list[dict[str, Any]]:
    """Read the rows of one step for one problem in one precision; absent values are None."""
    path = step_file(study_folder / check_name(problem_name, study_folder) / precision, step)
    rows = _read_steps(path, study_folder.name) if os.path.lexists(path) else read_rows(study_folder, step)
    if not rows.num_rows:
        return []
    return [row for row in rows.to_pylist() if (row["problem"], row["precision"]) == (problem_name, precision)]


def recorded_studies(folder: CampaignFolder) -> list[str]:
    shared = (folder.records, folder.environments)
    return sorted(path.name for path in folder.raw.iterdir() if path.is_dir() and path not in shared)


def check_measured(folder: CampaignFolder, named_by: Path | None = None) -> None:
    """Raise `ReproError` if a campaign has no measured files.

    The message proposes the campaign of most studies among those with reported times, and the nearest name. `named_by`
    is the configuration that names the campaign; None if the user does.
    """
    if folder.raw.is_dir():
        return
    measured = CampaignFolder.measured(folder.path.parent)
    others = [other for other in measured if next(other.raw.rglob("report.parquet"), None)]
    proposed = max(others, key=lambda other: len(recorded_studies(other)), default=None)
    absent_here = "" if any(not other.commits.exists() for other in others) else "; no campaign was measured here"
    raise ReproError(
        "no such campaign",
        where=folder.raw,
        actual=f"{folder.name}, which {named_by} names, since the command names none{absent_here}"
        if named_by
        else f"{folder.name}{suggestion(folder.name, [other.name for other in others])}",
        todo="measure it first"
        + (", or name another campaign" if measured else "")
        + (f", such as {proposed.name}" if proposed else "")
        + ("; `repro list campaigns` prints all" if measured else " with `repro run`"),
    )


def check_folders(folder: CampaignFolder, studies: Iterable[str]) -> None:
    """Raise `ReproError` if a path where a study or records need a folder is not a folder."""
    for path in (folder.records, folder.environments, *map(folder.study, studies)):
        if path.exists() and not path.is_dir():
            raise ReproError(
                "a file is in the place of a folder", where=path, todo="restore the folder from a copy or from git"
            )
