"""The row: one measured thing, its common columns and a study's own, and the checks that a row must pass.

Rows are read long after they were measured, often on another machine: a table would print a time of -1 s, and the
mean of an infinite time would be infinite. What is checked holds for every row that is written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from types import MappingProxyType, UnionType
from typing import Any, NamedTuple, get_args

import pyarrow as pa
import pyarrow.compute as pc

from repro.problems.registry import flaw
from repro.untrusted_files import shown

SCHEMA = 3

STATUSES = (
    "ok",
    "unsupported",
    "compile_error",
    "launch_error",
    "incorrect",
    "out_of_memory",
    "timeout",
    "noisy",
    "disturbed",
    "unstable",
    "unavailable",
)
#: The statuses of rows that have a time to choose by and to print.
TIMED = ("ok", "noisy")
#: Columns that rows of this schema may lack: those that were recorded before there were any.
LATER = ("discarded", "event_samples", "graph_samples", "host_samples")

#: Failures that another attempt may not end in: a later run tries them again. What cannot be done (`unsupported`) does
#: not change; and `noisy` has its numbers: to time it until it is quiet would be to choose among samples.
TRY_AGAIN = frozenset(
    {"compile_error", "launch_error", "incorrect", "out_of_memory", "timeout", "disturbed", "unstable"}
)
PRECISIONS = ("single", "double")
PHASES = SEARCH, REPORT = ("search", "report")
#: The clocks of a row that anything is chosen by; `host` stands in where a runnable has neither.
CLOCKS = ("event", "graph")
ALL_CLOCKS = (*CLOCKS, "host")
QUANTILES = ("min", "q1", "median", "q3", "max", "mean")
#: The columns that are times, above 0 where there is one.
TIMES = tuple(f"{clock}_{quantile}" for clock in ALL_CLOCKS for quantile in QUANTILES)
#: What a column of a study is; one that there was not always is `str | None`, say, and may be missing in recorded rows.
ColumnType = type[str] | type[int] | type[float] | type[bool] | UnionType
NO_COLUMNS: Mapping[str, ColumnType] = MappingProxyType({})
_ARROW = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
#: Numbers of each round; seven digits are more than any clock has. Lists have the names that Parquet's have.
_ROUNDS = pa.list_(pa.field("element", pa.list_(pa.field("element", pa.float32()))))
_BY_NAME = {kind.__name__: kind for kind in (*_ARROW, list)}


@dataclass
class Row:
    """One line of the store. Times are in seconds, sizes in bytes, absent values None.

    Attributes
    ----------
    key
        Hash of the rendered source, compiler, flags, device model, driver, problem and timing.
    kind
        `variant`, `baseline`, `floor`, `copy` (device copy), `empty` (empty kernel), `solver` (an iterative solver with
        one of the products), or what a study adds.
    name
        Unique within (study, problem, precision): `CSR-AoS-AoS/static-256-4`, `cusparse/spmv-csr-alg1/real`, …
    phase
        `search` (chosen on) or `report` (timed again in shuffled rounds, reported).
    protocol
        `screen` (few launches) or `full`.
    cache
        `warm` or `cold`.
    space
        Of a variant: `paper` or `extended`.
    bytes
        Bytes that the launch has to move at the least.
    least_bytes, operations
        Bytes that any solution has to move, and operations that it has to do: the same for all rows of a problem.
    event_*, graph_*, host_*
        Quantiles over single launches; over replays of a graph, per launch (CPU: over batches, per launch); and over
        launches from an idle device to an idle device. Absent where the runnable has no such clock.
    *_samples
        What the quantiles are of, a list for each round that counts: seconds in the order they were taken, of a long
        round some, evenly spread (`repro.bench.timing.sampled`). Of reported rows alone; absent in those that were
        recorded before samples were kept.
    error
        Largest error over its bound (at most 1 where the status is `ok`).
    registers, spills
        Registers a thread and spilled bytes a thread, as the compiler reported; None on the CPU.
    preprocess
        Seconds of packing or of the library's own analysis, apart from the timed launches.
    throttle
        Why the device held its clock down in every attempt; None where it did not in the last.
    discarded
        Launches and replays that do not count: the stalled ones, and all of a sample that was taken again since the
        device was disturbed or throttled. None where the row has no time, or was recorded before they were counted.
    own
        The study's own columns by name, `stage_<name>` (median seconds of a stage) among them.
    """

    key: str
    study: str
    problem: str
    precision: str
    kind: str
    name: str
    status: str
    phase: str = "search"
    protocol: str = "full"
    cache: str = "warm"
    message: str | None = None
    space: str | None = None
    bytes: int | None = None
    least_bytes: int | None = None
    operations: int | None = None
    event_launches: int | None = None
    event_min: float | None = None
    event_q1: float | None = None
    event_median: float | None = None
    event_q3: float | None = None
    event_max: float | None = None
    event_mean: float | None = None
    graph_launches: int | None = None
    graph_min: float | None = None
    graph_q1: float | None = None
    graph_median: float | None = None
    graph_q3: float | None = None
    graph_max: float | None = None
    graph_mean: float | None = None
    host_launches: int | None = None
    host_min: float | None = None
    host_q1: float | None = None
    host_median: float | None = None
    host_q3: float | None = None
    host_max: float | None = None
    host_mean: float | None = None
    error: float | None = None
    registers: int | None = None
    spills: int | None = None
    preprocess: float | None = None
    device: str | None = None
    device_uuid: str | None = None
    backend: str | None = None
    sm_clock: float | None = None
    throttle: str | None = None
    discarded: int | None = None
    event_samples: list[list[float]] | None = None
    graph_samples: list[list[float]] | None = None
    host_samples: list[list[float]] | None = None
    environment: str | None = None
    measured_at: str | None = None
    schema: int = SCHEMA
    own: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, column: str) -> Any:
        """Return a column of the study's own; None where the row has none."""
        return self.own.get(column)

    def median(self, clock: str) -> float | None:
        """Return the median by a clock, in seconds."""
        value: float | None = getattr(self, f"{clock}_median")
        return value

    @property
    def screened_by(self) -> float | None:
        """The median of the clock that it was screened by: single launches, by events or by the host's clock."""
        return self.event_median if self.event_median is not None else self.host_median

    def as_dict(self) -> dict[str, Any]:
        """Return the row as plain data, a column a key."""
        return {**{name: getattr(self, name) for name in COMMON_COLUMNS}, **self.own}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Row:
        """Read a row back: what is no column of all rows is the study's own."""
        common = {name: value for name, value in data.items() if name in COMMON_COLUMNS}
        return cls(**common, own={name: value for name, value in data.items() if name not in COMMON_COLUMNS})


#: The columns that all rows have, with their types.
COMMON_COLUMNS: dict[str, ColumnType | type[list[list[float]]]] = {
    item.name: _BY_NAME[str(item.type).split(" | ")[0].partition("[")[0]] for item in fields(Row) if item.name != "own"
}
#: Those that no row can do without.
_REQUIRED = [item.name for item in fields(Row) if item.default is MISSING and item.default_factory is MISSING]


def is_valid(data: Mapping[str, Any]) -> bool:
    """Return whether plain data are those of a row: every column of its type, status and phase among those there are.

    Parameters
    ----------
    data
        As `Row.as_dict` returns them; what is no column of all rows only has to be a text, a number or a truth value.
    """
    return (
        all(data.get(name) is not None for name in _REQUIRED)
        and all(_value_fits(value, COMMON_COLUMNS.get(name)) for name, value in data.items())
        and data["status"] in STATUSES
        and data.get("phase", PHASES[0]) in PHASES
        and all(data.get(name) is None or 0 < data[name] < math.inf for name in TIMES)
    )


def _value_fits(value: object, kind: ColumnType | type[list[list[float]]] | None) -> bool:
    """Return whether a value is absent or of a column's type; a whole number is a float too."""
    if value is None:
        return True
    if kind is None:
        return type(value) in _ARROW
    if kind is list:
        return isinstance(value, list) and all(
            isinstance(part, list) and all(type(number) in (float, int) for number in part) for part in value
        )
    return type(value) is kind or (kind is float and type(value) is int)


def split_columns(columns: Mapping[str, Any], own: Mapping[str, ColumnType]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return which of some columns all rows have, and which are the study's own.

    Raises
    ------
    KeyError
        One is neither.
    """
    unknown = [name for name in columns if name not in COMMON_COLUMNS and name not in own]
    if unknown:
        raise KeyError(f"columns that the study does not declare: {', '.join(unknown)}")
    return (
        {name: value for name, value in columns.items() if name not in own},
        {name: value for name, value in columns.items() if name in own},
    )


def schema_of(own: Mapping[str, ColumnType]) -> pa.Schema:
    """Return the Parquet schema of a study's rows: the columns of all rows, then its own."""
    columns = {**COMMON_COLUMNS, **own}
    metadata = {"schema": str(SCHEMA)}
    kinds = {name: get_args(kind)[0] if isinstance(kind, UnionType) else kind for name, kind in columns.items()}
    return pa.schema([(name, _ARROW.get(kind, _ROUNDS)) for name, kind in kinds.items()], metadata=metadata)


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
MAX_TEXT_LENGTH = 1000
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
    for column in schema:
        if column.name in there and not _type_fits(rows.schema.field(column.name).type, column.type):
            return Misfit(f"{column.name} of type {column.type}", str(rows.schema.field(column.name).type))
    return None


def _of_types(rows: pa.Table) -> Iterator[Misfit]:
    expected = {field.name: field.type for field in schema_of(_CHOICES)}
    for column in rows.schema:
        wanted = expected.get(column.name)
        # what a profiler counted is read from a log, in which all numbers are alike
        whole = wanted is not None and pa.types.is_integer(wanted) and pa.types.is_floating(column.type)
        if wanted is not None and not whole and not _type_fits(column.type, wanted):
            yield Misfit(f"{column.name} of type {wanted}", shown(column.type))
    for name in FULL:
        if name in rows.column_names and rows[name].null_count:
            yield Misfit(f"a value of {name} in each row", f"none in {rows[name].null_count} rows")


def _type_fits(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether a column's type is the wanted one, or another width of it; a column can have nothing in it."""
    if pa.types.is_null(kind) or kind == wanted:
        return True
    if pa.types.is_list(wanted):
        return (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and _type_fits(
            kind.value_type, wanted.value_type
        )
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
    good = 0 < len(word) <= MAX_TEXT_LENGTH and word.isprintable()
    return None if good else f"at most {MAX_TEXT_LENGTH} characters that can be printed"


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
