"""What rows must be like to have been measured: columns of their types, words that there are, numbers that can be.

Rows are read long after they were measured, and where somebody else did: a table would print a time of -1 s, and a
mean of an infinite one would be infinite. What is checked holds for every row that is written (`repro.bench.rows`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, get_args

import pyarrow as pa
import pyarrow.compute as pc

from repro.bench.rows import (
    ALL_CLOCKS,
    LATER,
    PHASES,
    PRECISIONS,
    QUANTILES,
    STATUSES,
    TIMES,
    ColumnType,
    schema_of,
)
from repro.problems.names import flaw
from repro.reading import shown

#: The words of columns that have few.
WORDS: Mapping[str, tuple[str, ...]] = {
    "precision": PRECISIONS,
    "status": STATUSES,
    "phase": PHASES,
    "protocol": ("screen", "full"),
    "cache": ("warm", "cold"),
    "clock": ALL_CLOCKS,
    "backend": ("cuda", "opencl"),
}
#: Columns that have a value in each row, where they are columns at all.
FULL = ("key", "study", "problem", "precision", "kind", "name", "status", "phase", "protocol", "cache", "clock",
        "tuning", "schema")  # fmt: skip
#: Texts that are names, and how long one is at the most.
NAMES = ("key", "study", "problem", "kind", "name", "tuning", "environment")
LONGEST = 1000
ENVIRONMENT = r"[A-Za-z0-9_-]{1,128}"
#: Numbers that count something, and those that measure something that can be 0.
COUNTED = ("bytes", "least_bytes", "operations", "registers", "spills", "discarded",
           *(f"{clock}_launches" for clock in ALL_CLOCKS))  # fmt: skip
MEASURED = ("preprocess", "sm_clock")
#: Which rows are of one thing: of rows, of choices, of what a profiler counted.
IDENTITIES = (
    ("problem", "precision", "phase", "kind", "name", "cache", "protocol"),
    ("problem", "precision", "clock", "tuning"),
    ("problem", "precision", "kind", "name", "profiler"),
)
#: Relative: a mean of equal times may be off by its last digit.
ROUNDING = 1e-9
_CHOICES: Mapping[str, ColumnType] = {"clock": str, "tuning": str}


class Misfit(NamedTuple):
    """What is wrong with rows, and what is expected of them."""

    expected: str
    actual: str


def other_types(rows: pa.Table) -> Misfit | None:
    """Return the first column of rows, of any step, that is of another type than that of all rows; None of none."""
    return next(_of_types(rows), None)


def misfit(rows: pa.Table, study: str) -> Misfit | None:
    """Return the first thing for which rows of a study cannot have been measured; None where there is nothing.

    Parameters
    ----------
    rows
        Of any step, choices and counters among them, of the right types (`other_types`); columns may be missing
        (`other_columns`).
    study
        The study's name, as the folder has it.
    """
    return next(_of_words(rows, study), None) or next(_of_numbers(rows), None) or _doubled(rows)


def other_quantiles(rows: pa.Table) -> Misfit | None:
    """Return the first thing for which quantiles of times cannot be of one sample; None where there is nothing."""
    return next(_of_quantiles(rows), None)


def other_columns(rows: pa.Table, own: Mapping[str, ColumnType]) -> Misfit | None:
    """Return how the columns of a study's rows differ from those that are written; None where they do not.

    Parameters
    ----------
    rows
        Of a step that is neither choices nor counters.
    own
        The study's own columns.
    """
    there, schema = set(rows.column_names), schema_of(own)
    later = {*LATER, *(name for name, kind in own.items() if type(None) in get_args(kind))}
    if missing := [name for name in schema.names if name not in there and name not in later]:
        return Misfit(f"columns {shown(', '.join(missing))}", "none of that name")
    if more := sorted(there - set(schema.names)):
        return Misfit("the columns of all rows and the study's own", f"others as well: {shown(', '.join(more))}")
    for field in schema:
        if field.name in there and not _fits(rows.schema.field(field.name).type, field.type):
            return Misfit(f"{field.name} of type {field.type}", str(rows.schema.field(field.name).type))
    return None


def _of_types(rows: pa.Table) -> Iterator[Misfit]:
    expected = {field.name: field.type for field in schema_of(_CHOICES)}
    for field in rows.schema:
        wanted = expected.get(field.name)
        # what a profiler counted is read from a log, in which all numbers are alike
        whole = wanted is not None and pa.types.is_integer(wanted) and pa.types.is_floating(field.type)
        if wanted is not None and not whole and not _fits(field.type, wanted):
            yield Misfit(f"{field.name} of type {wanted}", shown(field.type))
    for name in FULL:
        if name in rows.column_names and rows[name].null_count:
            yield Misfit(f"a value of {name} in each row", f"none in {rows[name].null_count} rows")


def _fits(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether a column's type is the wanted one, or another width of it; a column can have nothing in it."""
    if pa.types.is_null(kind) or kind == wanted:
        return True
    if pa.types.is_list(wanted):
        return (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and _fits(kind.value_type, wanted.value_type)
    families = (
        (pa.types.is_string, pa.types.is_large_string),
        (pa.types.is_floating,),
        (pa.types.is_integer,),
    )
    return any(any(is_one(kind) for is_one in family) and family[0](wanted) for family in families)


def _of_words(rows: pa.Table, study: str) -> Iterator[Misfit]:
    for name in (*NAMES, *WORDS):
        for word in rows[name].unique().to_pylist() if name in rows.column_names else ():
            if word is not None and (expected := _other_word(name, word, study)):
                yield Misfit(f"{name}: {expected}", shown(repr(word)))


def _other_word(name: str, word: str, study: str) -> str | None:
    """Return what is expected in a column in place of a word; None where it can be there."""
    if name in WORDS:
        return None if word in WORDS[name] else f"one of {', '.join(WORDS[name])}"
    if name == "problem":
        return flaw(word)
    if name == "study":
        return None if word == study else f"{study}, by the folder's name"
    if name == "environment":
        return None if re.fullmatch(ENVIRONMENT, word) else "the name of a record"
    good = 0 < len(word) <= LONGEST and word.isprintable()
    return None if good else f"at most {LONGEST} characters that can be printed"


def _of_numbers(rows: pa.Table) -> Iterator[Misfit]:
    there = set(rows.column_names)
    for name in (name for name in (*COUNTED, *MEASURED, *TIMES) if name in there):
        values = _numbers(rows[name])
        if name in COUNTED and pa.types.is_floating(rows[name].type):
            yield from _where(rows, pc.not_equal(values, pc.floor(values)), f"{name} that is a whole number", name)
        good = pc.and_(pc.is_finite(values), (pc.greater if name in TIMES else pc.greater_equal)(values, 0.0))
        expected = f"{name} that is finite and {'above 0' if name in TIMES else 'not negative'}"
        yield from _where(rows, pc.invert(good), expected, name)
    for name in (f"{clock}_samples" for clock in ALL_CLOCKS if f"{clock}_samples" in there):
        if not pa.types.is_null(rows[name].type):
            samples = _numbers(pc.list_flatten(pc.list_flatten(rows[name])))
            if not pc.all(pc.and_(pc.is_finite(samples), pc.greater_equal(samples, 0.0)), min_count=0).as_py():
                yield Misfit(f"{name} that are finite and not negative", "others among them")


def _of_quantiles(rows: pa.Table) -> Iterator[Misfit]:
    there = set(rows.column_names)
    for clock in ALL_CLOCKS:
        quantiles = [f"{clock}_{quantile}" for quantile in QUANTILES]
        if not there.issuperset(quantiles):
            continue
        lacking = pc.is_null(rows[f"{clock}_median"])
        for name in quantiles:
            other = pc.not_equal(pc.is_null(rows[name]), lacking)
            yield from _where(rows, other, f"{name} where there is a median, and nowhere else", name)
        least, *ordered, most, mean = quantiles
        for below, above in zip((least, *ordered, least, mean), (*ordered, most, mean, most), strict=True):
            more = pc.greater(_numbers(rows[below]), pc.multiply(_numbers(rows[above]), 1 + ROUNDING))
            yield from _where(rows, more, f"{below} that is not above {above}", below)


def _numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.cast(column, pa.float64())


def _where(rows: pa.Table, wrong: pa.ChunkedArray, expected: str, name: str) -> Iterator[Misfit]:
    """Yield a misfit for the first row that is wrong."""
    place = pc.index(wrong, value=True).as_py()
    if place >= 0:
        row = {
            key: rows[key][place].as_py() for key in ("problem", "precision", "name", name) if key in rows.schema.names
        }
        value = row.pop(name)
        yield Misfit(expected, f"{value} in row {place + 1}, {shown(', '.join(map(str, row.values())))}")


def _doubled(rows: pa.Table) -> Misfit | None:
    """Return which rows are of one thing."""
    for identity in IDENTITIES:
        if set(identity) <= set(rows.column_names):
            counts = rows.group_by(list(identity), use_threads=False).aggregate([([], "count_all")])
            if counts.num_rows < rows.num_rows:
                twice: dict[str, Any] = counts.filter(pc.greater(counts["count_all"], 1)).slice(0, 1).to_pylist()[0]
                times = twice.pop("count_all")
                return Misfit("one row of each thing", f"{times} rows of {shown(', '.join(map(str, twice.values())))}")
            return None
    return None
