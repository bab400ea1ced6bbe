"""The row: one measured thing, the columns that all rows have, and those of a study beside them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from types import MappingProxyType, UnionType
from typing import Any, get_args

import pyarrow as pa

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
        and all(_fits(value, COMMON_COLUMNS.get(name)) for name, value in data.items())
        and data["status"] in STATUSES
        and data.get("phase", PHASES[0]) in PHASES
        and all(data.get(name) is None or 0 < data[name] < math.inf for name in TIMES)
    )


def _fits(value: object, kind: ColumnType | type[list[list[float]]] | None) -> bool:
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
