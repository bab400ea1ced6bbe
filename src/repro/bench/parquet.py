"""Writing Parquet files, as small as rows of measurements get."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from repro.bench.rows import SCHEMA

#: zstd's highest ordinary level: the ones above take longer and gain nothing here.
LEVEL = 19
#: Texts that differ from row to row; all other texts, and integers, repeat and are kept as numbers into a dictionary.
DISTINCT = ("key", "name", "measured_at")
#: Columns that compress better split up: random digits apart from their lengths, and each byte of a number by itself.
ENCODINGS = {"key": "DELTA_LENGTH_BYTE_ARRAY", "preprocess": "BYTE_STREAM_SPLIT"}
#: More than any file has, in bytes or rows: a column is one page, compressed in one go.
UNLIMITED = 1 << 30


def write_table(table: pa.Table, path: Path, fingerprint: str | None = None) -> Path:
    """Write a table to one Parquet file, whole or not at all; the schema version is in the file's metadata.

    Values and the order of the rows stay as they are; other metadata, pandas' among it, is left out.

    Parameters
    ----------
    table
        Rows, with the schema version in their column `schema`.
    path
        The file; its folder is made.
    fingerprint
        What the rows depend on, as a hash, kept in the file's metadata under that name; None for nothing.

    Returns
    -------
    Path
        The file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        pq.write_table(
            table.replace_schema_metadata(
                {"schema": str(SCHEMA)} | ({} if fingerprint is None else {"fingerprint": fingerprint})
            ),
            partial,
            compression="zstd",
            compression_level=LEVEL,
            use_dictionary=[field.name for field in table.schema if _repeats(field)],
            column_encoding={name: encoding for name, encoding in ENCODINGS.items() if name in table.column_names},
            row_group_size=UNLIMITED,
            data_page_size=UNLIMITED,
            max_rows_per_page=UNLIMITED,
            dictionary_pagesize_limit=UNLIMITED,
            write_statistics=False,
        )
        return partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _repeats(field: pa.Field) -> bool:
    kind = field.type
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return field.name not in DISTINCT and (text or pa.types.is_integer(kind))
