"""Tables of rows in Arrow: their schema, and the checks on what is read from files.

Every row is checked when it is read, so that no table shows a negative or infinite time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from repro.bench.rows import (
    ALL_CLOCKS,
    COMMON_COLUMNS,
    COUNTED,
    LATER_COLUMNS,
    PHASES,
    PRECISIONS,
    SCHEMA,
    STATUSES,
    TIMES,
    ColumnType,
    median_column,
    quantile_columns,
    samples_column,
)
from repro.untrusted_files import shown
from repro.words import name_error

_ARROW = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
#: Arrow type of samples: one list for each round. float32 is more precise than any clock. The field names are
#: Parquet's.
_ROUNDS = pa.list_(pa.field("element", pa.list_(pa.field("element", pa.float32()))))


def schema_of(own: Mapping[str, ColumnType]) -> pa.Schema:
    columns = {**COMMON_COLUMNS, **own}
    metadata = {"schema": str(SCHEMA)}
    return pa.schema([(name, _ARROW.get(kind, _ROUNDS)) for name, kind in columns.items()], metadata=metadata)


def with_later_columns(row_table: pa.Table) -> pa.Table:
    """Return a table of rows with all columns that records from before lack; they are empty."""
    for column in schema_of({}):
        if column.name in LATER_COLUMNS and column.name not in row_table.column_names:
            row_table = row_table.append_column(column, pa.nulls(row_table.num_rows, column.type))
    return row_table


#: Allowed words for each column that has a fixed set of words.
WORDS: Mapping[str, tuple[str, ...]] = {
    "precision": PRECISIONS,
    "status": STATUSES,
    "phase": PHASES,
    "protocol": ("screen", "full"),
    "cache": ("warm", "cold"),
    "clock": ALL_CLOCKS,
    "backend": ("cuda", "opencl"),
}
#: Columns that must not contain nulls; a table may lack the whole column.
FULL = ("key", "study", "problem", "precision", "kind", "name", "status", "phase", "protocol", "cache", "clock",
        "tuning", "schema")  # fmt: skip
#: Columns that contain names, whose length is limited.
NAMES = ("key", "study", "problem", "kind", "name", "tuning", "environment")
MAX_TEXT_LENGTH = 1000
ENVIRONMENT = r"[A-Za-z0-9_-]{1,128}"
MEASURED = ("preprocess", "packing", "sm_clock", *(name for name in LATER_COLUMNS if COMMON_COLUMNS[name] is float))
#: Combinations of columns that must be unique: among rows, among choices, and among profiler results.
IDENTITIES = (
    ("problem", "precision", "phase", "kind", "name", "cache", "protocol", "process"),
    ("problem", "precision", "clock", "tuning"),
    ("problem", "precision", "kind", "name", "profiler"),
)
#: Relative rounding error that checks allow: the mean of equal times may differ in the last digit.
ROUNDING = 1e-9
_CHOICES: Mapping[str, ColumnType] = {"clock": str, "tuning": str}


class Misfit(NamedTuple):
    expected: str
    actual: str


def other_types(row_table: pa.Table) -> Misfit | None:
    """Return the first column whose type differs from the type of this column in `COMMON_COLUMNS`."""
    return next(_type_misfits(row_table), None)


def misfit(row_table: pa.Table, study_name: str) -> Misfit | None:
    """Return the first value that is impossible for a measurement of the study. Columns may be missing."""
    return (
        next(_word_misfits(row_table, study_name), None)
        or next(_number_misfits(row_table), None)
        or _repeated_rows(row_table)
    )


def other_quantiles(row_table: pa.Table) -> Misfit | None:
    """Return the first quantiles that are inconsistent, since no sample can have them."""
    return next(_quantile_misfits(row_table), None)


def other_columns(row_table: pa.Table, own: Mapping[str, ColumnType]) -> Misfit | None:
    """Return the first difference between a step's columns and the columns that the study declares."""
    row_table, schema = with_later_columns(row_table), schema_of(own)
    names = set(row_table.column_names)
    if missing := [name for name in schema.names if name not in names]:
        return Misfit(f"columns {shown(', '.join(missing))}", "none of that name")
    if extra_columns := sorted(names - set(schema.names)):
        return Misfit(
            "the columns of all rows and the study's own", f"others as well: {shown(', '.join(extra_columns))}"
        )
    for column in schema:
        if column.name in names and not _type_fits(row_table.schema.field(column.name).type, column.type):
            return Misfit(f"{column.name} of type {column.type}", str(row_table.schema.field(column.name).type))
    return None


def _type_misfits(row_table: pa.Table) -> Iterator[Misfit]:
    expected = {column.name: column.type for column in schema_of(_CHOICES)}
    for column in row_table.schema:
        declared = expected.get(column.name)
        # Numbers of a profiler's log are always read as floats, also for integer columns.
        whole = declared is not None and pa.types.is_integer(declared) and pa.types.is_floating(column.type)
        if declared is not None and not whole and not _type_fits(column.type, declared):
            yield Misfit(f"{column.name} of type {declared}", shown(column.type))
    for name in FULL:
        if name in row_table.column_names and row_table[name].null_count:
            yield Misfit(f"a value of {name} in each row", f"none in {row_table[name].null_count} rows")


def _type_fits(kind: pa.DataType, declared: pa.DataType) -> bool:
    """Return whether a column has the wanted type in any bit width, or contains only nulls."""
    if pa.types.is_null(kind) or kind == declared:
        return True
    if pa.types.is_list(declared):
        return (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and _type_fits(
            kind.value_type, declared.value_type
        )
    families = (
        (pa.types.is_string, pa.types.is_large_string),
        (pa.types.is_floating,),
        (pa.types.is_integer,),
    )
    return any(any(predicate(kind) for predicate in family) and family[0](declared) for family in families)


def _word_misfits(row_table: pa.Table, study_name: str) -> Iterator[Misfit]:
    for name in (*NAMES, *WORDS):
        for word in row_table[name].unique().to_pylist() if name in row_table.column_names else ():
            if word is not None and (expected := _misfit_word(name, word, study_name)):
                yield Misfit(f"{name}: {expected}", shown(repr(word)))


def _misfit_word(name: str, word: str, study_name: str) -> str | None:
    """Return a message with the column's allowed words; None if `word` is allowed."""
    if name in WORDS:
        return None if word in WORDS[name] else f"one of {', '.join(WORDS[name])}"
    if name == "problem":
        return name_error(word)
    if name == "study":
        return None if word == study_name else f"{study_name}, by the folder's name"
    if name == "environment":
        return None if re.fullmatch(ENVIRONMENT, word) else "the name of a record"
    good = 0 < len(word) <= MAX_TEXT_LENGTH and word.isprintable()
    return None if good else f"at most {MAX_TEXT_LENGTH} characters that can be printed"


def _number_misfits(row_table: pa.Table) -> Iterator[Misfit]:
    names = set(row_table.column_names)
    for name in (name for name in (*COUNTED, *MEASURED, *TIMES) if name in names):
        values = _numbers(row_table[name])
        if name in COUNTED and pa.types.is_floating(row_table[name].type):
            yield from _misfits_at(
                row_table, pc.not_equal(values, pc.floor(values)), f"{name} that is a whole number", name
            )
        good = pc.and_(pc.is_finite(values), (pc.greater if name in TIMES else pc.greater_equal)(values, 0.0))
        expected = f"{name} that is finite and {'above 0' if name in TIMES else 'not negative'}"
        yield from _misfits_at(row_table, pc.invert(good), expected, name)
    for name in (column for column in map(samples_column, ALL_CLOCKS) if column in names):
        if not pa.types.is_null(row_table[name].type):
            samples = _numbers(pc.list_flatten(pc.list_flatten(row_table[name])))
            if not pc.all(pc.and_(pc.is_finite(samples), pc.greater_equal(samples, 0.0)), min_count=0).as_py():
                yield Misfit(f"{name} that are finite and not negative", "others among them")


def _quantile_misfits(row_table: pa.Table) -> Iterator[Misfit]:
    names = set(row_table.column_names)
    for clock in ALL_CLOCKS:
        quantiles = quantile_columns(clock)
        if not names.issuperset(quantiles):
            continue
        no_median = pc.is_null(row_table[median_column(clock)])
        for name in quantiles:
            other = pc.not_equal(pc.is_null(row_table[name]), no_median)
            yield from _misfits_at(row_table, other, f"{name} where there is a median, and nowhere else", name)
        least, *ordered, maximum, mean = quantiles
        for smaller, larger in zip((least, *ordered, least, mean), (*ordered, maximum, mean, maximum), strict=True):
            inverted = pc.greater(_numbers(row_table[smaller]), pc.multiply(_numbers(row_table[larger]), 1 + ROUNDING))
            yield from _misfits_at(row_table, inverted, f"{smaller} that is not above {larger}", smaller)


def _numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.cast(column, pa.float64())


def _misfits_at(row_table: pa.Table, wrong: pa.ChunkedArray, expected: str, name: str) -> Iterator[Misfit]:
    place = pc.index(wrong, value=True).as_py()
    if place >= 0:
        row = {
            key: row_table[key][place].as_py()
            for key in ("problem", "precision", "name", name)
            if key in row_table.schema.names
        }
        value = row.pop(name)
        yield Misfit(expected, f"{value} in row {place + 1}, {shown(', '.join(map(str, row.values())))}")


def _repeated_rows(row_table: pa.Table) -> Misfit | None:
    """Return a combination of identifying columns that several rows share."""
    row_table = with_later_columns(row_table)
    for identity in IDENTITIES:
        if set(identity) <= set(row_table.column_names):
            counts = row_table.group_by(list(identity), use_threads=False).aggregate([([], "count_all")])
            if counts.num_rows < row_table.num_rows:
                repeated_key: dict[str, Any] = (
                    counts.filter(pc.greater(counts["count_all"], 1)).slice(0, 1).to_pylist()[0]
                )
                times = repeated_key.pop("count_all")
                return Misfit(
                    "one row of each thing", f"{times} rows of {shown(', '.join(map(str, repeated_key.values())))}"
                )
            return None
    return None
