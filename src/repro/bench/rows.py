"""Defines `Row`, the record of one measurement, and the checks on rows.

Every row is checked when it is read from a file, so that no table shows a negative or infinite time.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, get_args, get_type_hints

import pyarrow as pa
import pyarrow.compute as pc

from repro.errors import ReproError
from repro.problems.registry import name_error
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
#: Statuses of rows with a valid time.
TIMED = ("ok", "noisy")

#: Statuses that are measured again in a later run. Not `unsupported`, which would fail again, and not `noisy`, since
#: repeating a measurement until it is quiet would select among samples.
TRY_AGAIN = frozenset(
    {"compile_error", "launch_error", "incorrect", "out_of_memory", "timeout", "disturbed", "unstable"}
)
PRECISIONS = ("single", "double")
#: Kind of the rows of rivals: kernels from outside the project, which a configuration names.
OUTSIDE = "outside"
PHASES = SEARCH, REPORT = ("search", "report")
#: Clocks by which the fastest variant is chosen. A runnable with neither uses the clock `host`.
CLOCKS = ("event", "graph")
ALL_CLOCKS = (*CLOCKS, "host")
#: `event`: device events around each launch. `graph`: replay of a graph with many launches. `host`: wall time between
#: two idle states of the device, for launches that need the host (to allocate memory or read a size back).
ClockName = Literal["event", "graph", "host"]
QUANTILES = ("min", "q1", "median", "q3", "max", "mean")
#: Names of all time columns; times must be positive.
TIMES = tuple(f"{clock}_{quantile}" for clock in ALL_CLOCKS for quantile in QUANTILES)
#: Type of a study's column.
ColumnType = type[str] | type[int] | type[float] | type[bool]
NO_COLUMNS: Mapping[str, ColumnType] = MappingProxyType({})
_ARROW = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
#: Arrow type of samples: one list for each round. float32 is more precise than any clock. The field names are
#: Parquet's.
_ROUNDS = pa.list_(pa.field("element", pa.list_(pa.field("element", pa.float32()))))
_BY_NAME = {kind.__name__: kind for kind in (*_ARROW, list)}


def median_column(clock: str) -> str:
    return f"{clock}_median"


@dataclass
class Row:
    """One line of the store. Times are in seconds, sizes in bytes, absent values None.

    Attributes
    ----------
    key
        Hash of the rendered source, compiler, flags, device model, driver, problem and timing.
    kind
        `variant`, `baseline`, `floor`, `copy` (device copy), `empty` (empty kernel), `solver` (an iterative solver with
        one of the products), `outside` (a rival: a kernel from outside the project), or a kind that a study adds.
    name
        Unique within (study, problem, precision): `CSR-AoS-AoS/static-256-4`, `cusparse/spmv-csr-alg1/real`, …
    phase
        `search` (the winner is chosen by these times) or `report` (timed again in shuffled rounds, and reported).
    protocol
        `screen` (few launches) or `full`.
    cache
        `warm` or `cold`.
    space
        Of a variant: `paper`, `paper_tuned` or `extended`.
    bytes
        Minimum number of bytes that the launch moves.
    least_bytes, operations
        Minimum numbers of bytes and of operations of any solution; they are the same for all rows of a problem.
    event_*, graph_*, host_*
        Quantiles of the seconds per launch by each clock: of single launches between events; of replays of a graph
        (CPU: of batches of launches); of launches between two idle states of the device. Absent if the runnable lacks
        the clock.
    *_samples
        Samples from which the quantiles are computed: one list of seconds for each valid round, in order of
        measurement; of long rounds an evenly spaced selection (`repro.bench.timing.sampled`). Only in rows of the phase
        `report`.
    error
        Largest ratio of error to bound (at most 1 if the status is `ok`).
    registers, spills
        Registers and spilled bytes per thread, as the compiler reported them; None on the CPU.
    preprocess
        Seconds of preparation before the first launch: of the library's own analysis if a routine measures it, else of
        packing, upload and loading of the kernel, without work that an earlier runnable had already done.
    packing
        Of a variant with a packed operand: host seconds of packing, including work that it shares with other packings
        (clustering, symmetry), even if another variant did it. Without renumbering of the unknowns, and without upload.
    device_uuid
        Identifier of the GPU or, with several devices, of all GPUs.
    throttle
        Reason why the device lowered its clock in every attempt; None if it did not in the last one.
    discarded
        Number of launches and replays that do not count: stalled ones, and all of a sample that was repeated because
        the device was disturbed or throttled. None if the row has no time.
    environment
        Name of the record in `raw/environment`: hash and commit of the sources, driver, compiler, packages.
    measured_at
        Date and time (UTC) at which the row was measured.
    own
        The study's own columns by name; this includes `stage_<name>`, the median seconds of a stage.
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
    packing: float | None = None
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
        """Return a column that only this study has; None if the row lacks it."""
        return self.own.get(column)

    def median(self, clock: str) -> float | None:
        value: float | None = getattr(self, median_column(clock))
        return value

    @property
    def screened_by(self) -> float | None:
        """Median seconds of single launches by the clock `event`, or `host` without events. Screening compares these
        medians.
        """
        return self.event_median if self.event_median is not None else self.host_median

    def as_dict(self) -> dict[str, Any]:
        return {**{name: getattr(self, name) for name in COMMON_COLUMNS}, **self.own}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Row:
        """Make a row from a mapping of columns. Columns that `Row` does not define go to `own`."""
        common = {name: value for name, value in data.items() if name in COMMON_COLUMNS}
        return cls(**common, own={name: value for name, value in data.items() if name not in COMMON_COLUMNS})


class RecordedRow(dict[str, Any]):
    """A row read from a file: columns are attributes, and absent values are None.

    Each study declares its columns in a subclass as `name: type | None`. Subclasses cannot add methods, because all
    rows of a campaign share this class.
    """

    key: str
    study: str
    problem: str
    precision: str
    kind: str
    name: str
    status: str
    phase: str
    protocol: str
    cache: str
    message: str | None
    space: str | None
    bytes: int | None
    least_bytes: int | None
    operations: int | None
    error: float | None
    registers: int | None
    spills: int | None
    preprocess: float | None
    packing: float | None
    device: str | None
    device_uuid: str | None
    backend: str | None
    environment: str | None
    measured_at: str | None

    if not TYPE_CHECKING:

        def __getattr__(self, column):
            if column in self:
                return self[column]
            if column in self.own_columns():
                return None
            raise AttributeError(f"no column {column}")

    @classmethod
    def of(cls, row: Row) -> Self:
        return cls(row.as_dict())

    @property
    def timed(self) -> bool:
        return self["status"] in TIMED

    def seconds(self, clock: str) -> float | None:
        """Return the median time by a clock in seconds; None if the row has no valid time."""
        median = self[median_column(clock)] if self.timed else None
        return float(median) if median else None

    def samples(self, clock: str) -> list[list[float]]:
        return self.get(f"{clock}_samples") or []

    @classmethod
    @functools.cache
    def own_columns(cls) -> Mapping[str, ColumnType]:
        """Return the type of each column that a study's subclass declares, in the form of `Study.columns`."""
        common = get_type_hints(RecordedRow)
        return {name: get_args(kind)[0] for name, kind in get_type_hints(cls).items() if name not in common}


#: Type of each column that the rows of all studies have.
COMMON_COLUMNS: dict[str, ColumnType | type[list[list[float]]]] = {
    item.name: _BY_NAME[str(item.type).split(" | ")[0].partition("[")[0]] for item in fields(Row) if item.name != "own"
}
#: Columns without a default.
_REQUIRED = [item.name for item in fields(Row) if item.default is MISSING and item.default_factory is MISSING]


def is_valid(data: Mapping[str, Any]) -> bool:
    """Return whether the data form a valid row.

    Columns must have their types, status and phase must be known, and times must be positive.
    """
    return (
        all(data.get(name) is not None for name in _REQUIRED)
        and all(_value_fits(value, COMMON_COLUMNS.get(name)) for name, value in data.items())
        and data["status"] in STATUSES
        and data.get("phase", PHASES[0]) in PHASES
        and all(data.get(name) is None or 0 < data[name] < math.inf for name in TIMES)
    )


def _value_fits(value: object, kind: ColumnType | type[list[list[float]]] | None) -> bool:
    """Return whether a value is None or has the column's type; an int is accepted as a float."""
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
    """Split columns into common columns and the study's own; raise `ReproError` for an undeclared column."""
    undeclared = [name for name in columns if name not in COMMON_COLUMNS and name not in own]
    if undeclared:
        raise ReproError(
            f"columns that the study does not declare: {', '.join(undeclared)}",
            expected=f"those of all rows, or its own: {', '.join(own) or '(it has none)'}",
            todo="declare them in the study's `columns`: in a class of its rows, whose `own_columns()` these are, by a "
            f"field such as `{undeclared[0]}: int | None`",
        )
    return (
        {name: value for name, value in columns.items() if name not in own},
        {name: value for name, value in columns.items() if name in own},
    )


def schema_of(own: Mapping[str, ColumnType]) -> pa.Schema:
    columns = {**COMMON_COLUMNS, **own}
    metadata = {"schema": str(SCHEMA)}
    return pa.schema([(name, _ARROW.get(kind, _ROUNDS)) for name, kind in columns.items()], metadata=metadata)


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
#: Columns whose values must be 0 or more: counts and some measured numbers.
COUNTED = ("bytes", "least_bytes", "operations", "registers", "spills", "discarded",
           *(f"{clock}_launches" for clock in ALL_CLOCKS))  # fmt: skip
MEASURED = ("preprocess", "packing", "sm_clock")
#: Combinations of columns that must be unique: among rows, among choices, and among profiler results.
IDENTITIES = (
    ("problem", "precision", "phase", "kind", "name", "cache", "protocol"),
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
    names, schema = set(row_table.column_names), schema_of(own)
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
    for name in (f"{clock}_samples" for clock in ALL_CLOCKS if f"{clock}_samples" in names):
        if not pa.types.is_null(row_table[name].type):
            samples = _numbers(pc.list_flatten(pc.list_flatten(row_table[name])))
            if not pc.all(pc.and_(pc.is_finite(samples), pc.greater_equal(samples, 0.0)), min_count=0).as_py():
                yield Misfit(f"{name} that are finite and not negative", "others among them")


def _quantile_misfits(row_table: pa.Table) -> Iterator[Misfit]:
    names = set(row_table.column_names)
    for clock in ALL_CLOCKS:
        quantiles = [f"{clock}_{quantile}" for quantile in QUANTILES]
        if not names.issuperset(quantiles):
            continue
        no_median = pc.is_null(row_table[f"{clock}_median"])
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
