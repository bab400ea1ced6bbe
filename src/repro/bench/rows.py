"""Defines `Row`, the record of one measurement, and the checks on rows.

Every row is checked when it is read from a file, so that no table shows a negative or infinite time.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Self, get_args, get_type_hints

from repro.errors import ReproError

SCHEMA = 3

STATUSES = (
    "ok", "unsupported", "compile_error", "launch_error", "incorrect", "out_of_memory", "timeout", "noisy", "disturbed",
    "unstable", "unavailable",
)  # fmt: skip
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
#: Ends the name of a kernel that is timed a second time in the same rounds, as if it were another one.
AGAIN = " again"
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
_TYPES = (str, int, float, bool)
_BY_NAME: Mapping[str, Any] = {kind.__name__: kind for kind in (*_TYPES, list)}


#: Columns whose values must be 0 or more: counts and some measured numbers.
COUNTED = ("bytes", "least_bytes", "operations", "registers", "spills", "discarded",
           "energy_launches", "rounds", "process", *(f"{clock}_launches" for clock in ALL_CLOCKS))  # fmt: skip


def median_column(clock: str) -> str:
    return f"{clock}_median"


def samples_column(clock: str) -> str:
    return f"{clock}_samples"


def quantile_columns(clock: str) -> list[str]:
    return [f"{clock}_{quantile}" for quantile in QUANTILES]


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
    energy_task, energy_of
        Of a row whose energy was measured: the task among several of a study, and whose solution this is: `ours`,
        `papers`, `papers_tuned`, `library`, `floor`, or the name of a rival.
    energy_joules, energy_joules_min, energy_joules_max
        Joules of one launch, as the median over the shuffled rounds, the least and the largest.
    energy_seconds, energy_launches
        Seconds of one launch while the energy was measured (median), and number of launches in all rounds.
    energy_watts, energy_idle_watts
        Power of the device during these launches, and of the idle device right before and after (medians).
    rounds
        Number of shuffled rounds that were timed for a row of the phase `report`, with those that do not count.
    process
        Of a row of `repeat.parquet`: number of the further process that measured it, from 0. None in records from
        before there were several.
    error
        Largest ratio of error to bound (at most 1 if the status is `ok`).
    registers, spills
        Registers and spilled bytes per thread, as the compiler reported them; None on the CPU.
    preprocess
        Seconds of preparation before the first launch: of the library's own analysis if a routine measures it, else of
        upload and loading of the kernel, and of packing unless it is done before (`packing`).
    packing
        Of a variant with a packed operand: seconds of packing, on the host or, until the device is idle, on the device,
        including work that it shares with other packings (clustering, symmetry), even if another variant did it.
        Without renumbering of the unknowns, and without upload.
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
    energy_task: str | None = None
    energy_of: str | None = None
    energy_joules: float | None = None
    energy_joules_min: float | None = None
    energy_joules_max: float | None = None
    energy_seconds: float | None = None
    energy_launches: int | None = None
    energy_watts: float | None = None
    energy_idle_watts: float | None = None
    rounds: int | None = None
    process: int | None = None
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
    energy_task: str | None
    energy_of: str | None
    energy_joules: float | None
    energy_joules_min: float | None
    energy_joules_max: float | None
    energy_seconds: float | None
    energy_launches: int | None
    energy_watts: float | None
    energy_idle_watts: float | None
    rounds: int | None
    process: int | None

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
        return self.get(samples_column(clock)) or []

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
#: Columns that records from before they were measured lack.
LATER_COLUMNS = tuple(name for name in COMMON_COLUMNS if name.startswith("energy_") or name in ("rounds", "process"))
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
        return type(value) in _TYPES
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
            f"the study does not declare the columns {', '.join(undeclared)}",
            expected=f"the columns of all rows, or its own: {', '.join(own) or '(it has none)'}",
            todo="declare them in the study's `columns`: in a class of its rows, whose `own_columns()` these are, by a "
            f"field such as `{undeclared[0]}: int | None`",
        )
    return (
        {name: value for name, value in columns.items() if name not in own},
        {name: value for name, value in columns.items() if name in own},
    )
