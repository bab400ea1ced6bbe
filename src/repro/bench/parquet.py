"""Parquet files: written as small as rows of measurements get, and read only where no bit of them has changed.

A file has checksums of its pages, which every reader of Parquet can verify, and a digest of the whole among its
metadata: pages are not all of it, and a bit that flips in the footer can make another number of one as well. The digest
is of the file with zeros in the digest's place, as a tar archive's headers have it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from repro.bench.rows import SCHEMA
from repro.errors import ReproError
from repro.reading import read_file, shown
from repro.whole import write_whole

#: zstd's highest ordinary level: the ones above take longer and gain nothing here.
LEVEL = 19
#: Texts that differ from row to row; all other texts, and integers, repeat and are kept as numbers into a dictionary.
DISTINCT = ("key", "name", "measured_at")
#: Columns that compress better split up: random digits apart from their lengths, and each byte of a number by itself.
ENCODINGS = {"key": "DELTA_LENGTH_BYTE_ARRAY", "preprocess": "BYTE_STREAM_SPLIT"}
#: More than any file has, in bytes or rows: a column is one page, compressed in one go.
UNLIMITED = 1 << 30
#: Bytes of a file of rows; a search of 3,000 problems has a tenth of that.
LARGEST = 8 << 30
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
        content = read_file(path, LARGEST)
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
