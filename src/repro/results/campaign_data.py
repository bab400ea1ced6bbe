"""Data of a recorded campaign and its cases, from which tables, figures and the report are made.

Rows of a case are selected by their columns, and the fastest of them found by a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, cast

import pandas as pd
import pyarrow as pa

from repro.bench import ncu
from repro.bench.campaign_folder import CampaignFolder
from repro.bench.records import code_of, read_commits, read_environments, read_problems
from repro.bench.row_tables import schema_of, with_later_columns
from repro.bench.rows import CLOCKS, NO_COLUMNS, PRECISIONS, ClockName, ColumnType, RecordedRow
from repro.bench.store import check_measured, read_rows, recorded_studies
from repro.bench.yardsticks import EMPTY, YARDSTICKS
from repro.config.models import Timing
from repro.errors import ReproError
from repro.words import TUNED

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    R_co = TypeVar("R_co", bound=RecordedRow, default=RecordedRow, covariant=True)
else:
    from typing import TypeVar

    R_co = TypeVar("R_co", covariant=True)

NOISY = "noisy: the quartiles of this time are further apart than the protocol allows"


class RecordedChoice(NamedTuple):
    """The variant that a tuning chose by one clock, and the variants that tied with it in the search."""

    tuning: str
    clock: ClockName
    name: str
    ties: tuple[str, ...] = ()

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> RecordedChoice:
        values = {name: row[name] for name in cls._fields}
        return cls(**{**values, "ties": tuple(values["ties"] or ())})


@dataclass(frozen=True)
class ReportedTime(Generic[R_co]):
    """A time of the report phase."""

    name: str
    #: Median time by the requested clock.
    seconds: float
    noisy: bool
    #: Names of variants that tied with this one in the search.
    ties: tuple[str, ...]
    row: R_co
    #: Samples in seconds, grouped by valid round; empty if not recorded.
    rounds: Sequence[Sequence[float]] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        return (NOISY,) if self.noisy else ()

    @property
    def key(self) -> str:
        return self.row.key


@dataclass(frozen=True)
class Selection(Generic[R_co]):
    """A list of recorded rows that can be filtered.

    >>> case.select(kind="solver", layout=("COO", "cCOO")).fastest("graph")  # doctest: +SKIP
    """

    rows: Sequence[R_co]

    def __iter__(self) -> Iterator[R_co]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, predicate: Callable[[R_co], bool] | None = None, /, **columns: object) -> Selection[R_co]:
        """Return the rows that satisfy a predicate and have the given column values.

        Parameters
        ----------
        predicate
            Function that returns whether to keep a row; None keeps all rows.
        columns
            Required value for each named column, or a tuple of allowed values; None stands for an absent value.

        Raises
        ------
        KeyError
            The rows have no such column.
        """
        conditions = [(name, value if isinstance(value, tuple) else (value,)) for name, value in columns.items()]
        rows = [row for row in self.rows if all(row[name] in values for name, values in conditions)]
        return Selection([row for row in rows if predicate(row)] if predicate else rows)

    def fastest(self, clock: ClockName, ties: tuple[str, ...] = ()) -> ReportedTime[R_co] | None:
        """Return the row with the least time by a clock (of equal ones the first by name); None without valid times."""
        times = [(seconds, row.name, row) for row in self.rows if (seconds := row.seconds(clock)) is not None]
        if not times:
            return None
        seconds, name, row = min(times, key=lambda item: item[:2])
        return ReportedTime(name, seconds, row.status == "noisy", ties, row, row.samples(clock))

    @property
    def failure(self) -> str | None:
        """Description of the first row without a valid time, by `failure`; None if all rows have one."""
        return next((failure(row) for row in self.rows if not row.timed), None)


@dataclass(frozen=True)
class Method:
    """A group of comparable rows, represented by the fastest one or a tuning's winner: see `Case.time`."""

    #: Name in the keys of table columns.
    key: str
    #: Printed name.
    title: str
    #: Tuning whose winner is used; if empty, the fastest of the rows selected below.
    tuning: str = ""
    #: Arguments of `Selection.select`: column values and a predicate.
    columns: Mapping[str, object] = field(default_factory=dict, hash=False)
    predicate: Callable[[Any], bool] | None = None
    #: Clock that is always used for this method; None uses the caller's clock.
    clock: ClockName | None = None


def failure(row: RecordedRow) -> str:
    """Describe a failed row by its name, its status, and the first line of its message."""
    message = (row.message or "").partition("\n")[0]
    status = "has no time" if row.timed else row.status.replace("_", " ")
    return one_line(f"{row.name}: {status}{f' ({message})' if message else ''}", 160)


def one_line(text: str, limit: int = 300) -> str:
    """Return a message as one line of at most `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


CHOICE_COLUMNS = ("study", "problem", "precision", "clock", "tuning", "name", "ties")
COUNTER_COLUMNS = ("study", "problem", "precision", "kind", "name", "profiler", *ncu.COLUMNS)
#: Default relative difference within which two times are a tie.
TIE = float(Timing.model_fields["tie"].default)
#: Maximum number of cases that a sentence names.
CASES_SHOWN = 12
_DTYPES = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}


#: First word of the remark on an unavailable problem: one that was not downloaded, read or built.
UNAVAILABLE = "unavailable"


def brief_reason(reason: str) -> str:
    """Shorten the reason of a missing time for a figure: for an unavailable problem to the word `unavailable`."""
    return UNAVAILABLE if reason.startswith(UNAVAILABLE) else reason


@dataclass(frozen=True)
class ProblemRecord:
    """A campaign's record of one problem."""

    name: str
    kind: str = "matrix"
    #: `ok`, or `unavailable` with a reason.
    status: str = "ok"
    reason: str | None = None
    #: For a matrix: type of its non-zeros, number of rows, number of stored entries; otherwise or if unavailable None.
    entry: str | None = None
    n: int | None = None
    nnz: int | None = None
    #: For a field: dimension and cells of its mesh, polynomial degree; otherwise or if unavailable None.
    dimension: int | None = None
    cells: int | None = None
    degree: int | None = None
    #: Hash of the content, if recorded; it tells apart problems with the same name from different files.
    checksum: str | None = None
    #: Source of the problem, as in `repro.problems.problem.Problem`.
    origin: Mapping[str, Any] | None = None
    statistics: Mapping[str, Any] | None = None
    #: Additional data for the tables of each study.
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def is_available(self) -> bool:
        return self.status == "ok"

    def differs(self, other: ProblemRecord) -> bool:
        """Return whether the problem has different content in another campaign; False if a checksum is missing."""
        own_content, other_content = ((record.kind, record.checksum) for record in (self, other))
        return own_content != other_content and None not in (self.checksum, other.checksum)

    @property
    def is_own(self) -> bool:
        """Whether the problem is a file of the user's own."""
        return (self.origin or {}).get("source") == "own"

    @property
    def stand_in(self) -> str | None:
        """Name of the papers' problem that this one replaces; None if it is no stand-in."""
        replacement = (self.origin or {}).get("stand_in")
        return replacement if isinstance(replacement, str) else None

    @property
    def remark(self) -> str | None:
        """Note for tables: the problem is rebuilt, a stand-in, or unavailable (with the reason); None otherwise."""
        if not self.is_available:
            return f"{UNAVAILABLE}: {one_line(self.reason or 'no reason recorded')}"
        origin = self.origin or {}
        if origin.get("stand_in"):
            return f"stand-in for {self.stand_in}" if self.stand_in else "stand-in"
        if origin.get("rebuilt"):
            return "rebuilt: the papers’ own mesh is not public"
        return None


@dataclass(frozen=True)
class Campaign:
    """The data of one study in one campaign, measured on one device."""

    #: Name of the campaign's folder.
    name: str
    study: str
    #: Rows of the search and report phases: one row for each problem, precision, name and cache state.
    search: pd.DataFrame
    report: pd.DataFrame
    #: Chosen variants, with columns `CHOICE_COLUMNS`.
    choices: pd.DataFrame
    problems: Mapping[str, ProblemRecord]
    #: Environment records by their hash.
    environments: Mapping[str, Mapping[str, Any]]
    #: Hashes of the environment records for each version of our code, named as by `repro.bench.records.code_of`.
    codes: Mapping[str, Sequence[str]]
    #: Rows of what further processes timed again, with the columns of `report`; empty if there are none.
    repeat: pd.DataFrame
    #: Profiler counters, with columns `COUNTER_COLUMNS`; empty if no profiler was run.
    counters: pd.DataFrame
    #: Configured relative difference within which two times are a tie.
    tie: float = TIE
    #: The same study in other campaigns (for example on other devices), to be shown next to this one.
    beside: tuple[Campaign, ...] = ()
    #: The same study in a campaign on the same model of GPU with the papers' kernels exactly as published; its rows
    #: judge the claims that concern these kernels.
    as_published: Campaign | None = None
    #: The same study in a later campaign on the same model of GPU, whose main number the report names.
    later: Campaign | None = None

    def only(self, problems: Collection[str]) -> Campaign:
        """Return the campaign with these problems only."""
        frames = ("search", "report", "choices", "repeat", "counters")
        kept = {name: (frame := getattr(self, name))[frame.problem.isin(list(problems))] for name in frames}
        return replace(self, problems={name: self.problems[name] for name in self.problems if name in problems}, **kept)

    @classmethod
    def load(
        cls,
        folder: CampaignFolder,
        study_name: str,
        study_columns: Mapping[str, ColumnType] = NO_COLUMNS,
        problems: Collection[str] | None = None,
        tie: float = TIE,
        precisions: Collection[str] = PRECISIONS,
    ) -> Campaign:
        """Read a study of a campaign; missing files give empty frames with all columns.

        Only rows of the given problems (None: all) and precisions are kept. Raises `ReproError` if the folder is
        missing or has no data of the study, a file is damaged or has another schema, or times of several devices are
        mixed.
        """
        check_measured(folder)
        rows_folder = folder.study(study_name)
        steps = ("search", "report", "repeat", "choices", "counters")
        rows = {step: read_rows(rows_folder, step, problems, precisions) for step in steps}
        search, report, repeat = (
            _row_frame(rows[step], study_columns, rows_folder) for step in ("search", "report", "repeat")
        )
        measured_rows = pd.concat([report, search], ignore_index=True).drop_duplicates("problem")
        names = set(measured_rows.problem) if problems is None else set(problems)
        records = read_problem_records(folder, names)
        if not records and not any(table.num_rows for table in rows.values()):
            studies = recorded_studies(folder)
            raise ReproError(
                "the campaign has no results of this study",
                where=folder.raw,
                expected=f"one of {', '.join(studies)}" if studies else "measured rows or built problems",
                actual=study_name,
            )
        for row in map(RecordedRow, cast("list[dict[str, Any]]", measured_rows.to_dict("records"))):
            name = row.problem
            if name not in records:  # make a minimal record, so that the problem has a line in the tables
                unavailable = row.status == "unavailable"
                entry = getattr(row, "entry", None)
                records[name] = ProblemRecord(
                    name,
                    status="unavailable" if unavailable else "ok",
                    reason=str(row.message) if unavailable else None,
                    entry=None if pd.isna(entry) else str(entry),
                )
        environments = read_environments(folder)
        campaign = cls(
            name=folder.raw.resolve().parent.name,
            study=study_name,
            search=search,
            report=report,
            repeat=repeat,
            choices=_frame(rows["choices"], CHOICE_COLUMNS, rows_folder),
            problems=dict(sorted(records.items())),
            environments=environments,
            codes=code_of(environments, read_commits(folder)),
            counters=_frame(rows["counters"], COUNTER_COLUMNS, rows_folder),
            tie=tie,
        )
        campaign._check_one_device()
        return campaign

    def _check_one_device(self) -> None:
        if len(self._devices) > 1:
            raise ReproError(
                "the campaign contains times of several devices",
                where=f"campaign {self.name}, study {self.study}",
                expected="one device",
                actual="; ".join(sorted(f"{b}: {d}" for b, d in self._devices.itertuples(index=False))),
                todo="use one campaign per device",
            )

    @cached_property
    def _devices(self) -> pd.DataFrame:
        return _columns(self.report, self.search, ["backend", "device"]).dropna().drop_duplicates()

    @cached_property
    def _device(self) -> tuple[str | None, str | None]:
        first = next(self._devices.itertuples(index=False, name=None), None)
        return (str(first[0]), str(first[1])) if first else (None, None)

    @property
    def backend(self) -> str | None:
        """`cuda` or `opencl`; None if nothing was measured."""
        return self._device[0]

    @property
    def device(self) -> str | None:
        """Full name of the device; None if nothing was measured."""
        return self._device[1]

    @property
    def main_precision(self) -> str:
        """Precision of artifacts that show a single one: double, as in the papers, if it was measured."""
        return self.precisions[-1]

    @property
    def on_cpu(self) -> bool:
        """Whether the times were measured on a CPU; these are not compared with GPU times."""
        return self.backend == "opencl"

    @property
    def column(self) -> str:
        """Column title for this campaign: name of the GPU, `CPU` for OpenCL, or `not measured`."""
        return "CPU" if self.on_cpu else self.device or "not measured"

    @cached_property
    def sources(self) -> frozenset[str]:
        """Hashes of the code versions that measured the rows, as far as recorded."""
        names = _columns(self.report, self.search, ["environment"]).environment.unique()
        sources = (self.environments.get(str(name), {}).get("source") for name in names)
        return frozenset(str(source) for source in sources if source)

    @cached_property
    def precisions(self) -> tuple[str, ...]:
        """Precisions with recorded rows, single first; both if there are no rows."""
        recorded_names = {*self.report.precision.unique(), *self.search.precision.unique()}
        return tuple(precision for precision in PRECISIONS if precision in recorded_names) or PRECISIONS

    @cached_property
    def caches(self) -> tuple[str, ...]:
        """Measured states of the L2 cache before a launch, warm first."""
        cache_columns = (frame[frame.device.notna()].cache for frame in (self.report, self.search))
        return tuple(sorted(next((set(caches.unique()) for caches in cache_columns if len(caches)), ()), reverse=True))

    @property
    def cache(self) -> str:
        """Cache state of the times in tables and figures: `warm` as in the papers, if measured."""
        return self.caches[0] if self.caches else "unmeasured"

    def empty_readings(self, clock: str) -> tuple[float, float] | None:
        """Return the smallest and largest median time of an empty kernel in seconds; None if it was not timed."""
        readings = [row.seconds(clock) for row in self.reported.select(kind=EMPTY, cache=self.cache)]
        seconds = [reading for reading in readings if reading is not None]
        return (min(seconds), max(seconds)) if seconds else None

    @cached_property
    def disturbance(self) -> str | None:
        """Sentence that names cases with disturbed yardstick times (`YARDSTICKS`); None if there are none."""
        rows = self.report[self.report.kind.isin(YARDSTICKS) & (self.report.status == "disturbed")]
        cases = [f"{row.problem} ({row.precision})" for row in rows.itertuples()]
        if not cases:
            return None
        names = list(dict.fromkeys(cases))
        remainder = f" and {len(names) - CASES_SHOWN} more" if len(names) > CASES_SHOWN else ""
        return (
            "Other programs used the device: floor, copy or empty kernel were disturbed, so other times may be too "
            f"long as well, on {', '.join(names[:CASES_SHOWN])}{remainder}."
        )

    @cached_property
    def _reports(self) -> dict[tuple[str, str], list[RecordedRow]]:
        return _by_case(self.report)

    @cached_property
    def _searches(self) -> dict[tuple[str, str], list[RecordedRow]]:
        return _by_case(self.search)

    @cached_property
    def reported(self) -> Selection[RecordedRow]:
        """All rows of the report phase, case by case."""
        return Selection([row for rows in self._reports.values() for row in rows])

    @cached_property
    def repeated(self) -> Selection[RecordedRow]:
        """What further processes timed again; of the first case the winner is the first row."""
        return Selection([row for rows in _by_case(self.repeat).values() for row in rows])

    @cached_property
    def searched(self) -> Selection[RecordedRow]:
        """All rows of the search phase, case by case."""
        return Selection([row for rows in self._searches.values() for row in rows])

    @cached_property
    def choices_by_case(self) -> dict[tuple[str, str], list[RecordedChoice]]:
        return {case: [RecordedChoice.of(row) for row in rows] for case, rows in _by_case(self.choices).items()}

    @cached_property
    def _tunings(self) -> frozenset[str]:
        return frozenset(choice.tuning for choices in self.choices_by_case.values() for choice in choices)

    def tuning(self, name: str) -> str:
        """Return the name under which this campaign recorded a tuning over the paper's kernels.

        A campaign that searched the published kernels records `name`. One that searched only their further tuned
        versions records `tuned_<name>`.
        """
        tuned_name = TUNED + name
        return tuned_name if name not in self._tunings and tuned_name in self._tunings else name

    @cached_property
    def _counters(self) -> dict[tuple[str, str], list[RecordedRow]]:
        return _by_case(self.counters)

    def report_rows(self, problem_name: str, precision: str) -> list[RecordedRow]:
        return self._reports.get((problem_name, precision), [])

    def search_rows(self, problem_name: str, precision: str) -> list[RecordedRow]:
        return self._searches.get((problem_name, precision), [])

    def counter_rows(self, problem_name: str, precision: str) -> list[RecordedRow]:
        return self._counters.get((problem_name, precision), [])


def _columns(report: pd.DataFrame, search: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    return pd.concat([report[names], search[names]])


def _by_case(frame: pd.DataFrame) -> dict[tuple[str, str], list[RecordedRow]]:
    cases: dict[tuple[str, str], list[RecordedRow]] = {}
    for row in map(RecordedRow, pa.Table.from_pandas(frame, preserve_index=False).to_pylist()):
        cases.setdefault((row.problem, row.precision), []).append(row)
    return cases


def _missing_columns(table: pa.Table, columns: Iterable[str], where: Path) -> None:
    missing_names = [name for name in columns if name not in table.column_names]
    if missing_names:
        raise ReproError(
            "the rows have a different schema",
            where=where,
            expected=f"columns {', '.join(missing_names)}",
            todo="read the rows with the version that measured them, or measure again",
        )


def _frame(table: pa.Table, columns: Sequence[str], where: Path) -> pd.DataFrame:
    if not table.num_rows:
        return pd.DataFrame({name: pd.Series(dtype=object) for name in columns})
    _missing_columns(table, columns, where)
    frame: pd.DataFrame = table.select(list(columns)).to_pandas(ignore_metadata=True)
    return frame


#: Columns that name a row of a phase.
_IDENTITY = ["problem", "precision", "kind", "name", "cache", "process"]


def _row_frame(table: pa.Table, study_columns: Mapping[str, ColumnType], where: Path) -> pd.DataFrame:
    """Convert rows to a frame, keeping for each name and process the last fully timed row, else the last row."""
    schema = schema_of(study_columns)
    if not table.num_rows:
        table = schema.empty_table()
    table = with_later_columns(table)
    _missing_columns(table, schema.names, where)
    frame: pd.DataFrame = table.to_pandas(types_mapper=_DTYPES.get, ignore_metadata=True)
    # a variant can have a screening row and a fully timed row; sort the full one last, so that it is kept
    order = frame.assign(_full=frame.protocol == "full").sort_values(["_full", "measured_at"], kind="stable")
    kept_rows = order.drop_duplicates(_IDENTITY, keep="last").index
    return frame.take(sorted(kept_rows)).reset_index(drop=True)


def read_problem_records(folder: CampaignFolder, names: Container[str]) -> dict[str, ProblemRecord]:
    attributes = {item.name for item in fields(ProblemRecord)}
    return {
        name: ProblemRecord(**{key: value for key, value in record.items() if key in attributes})
        for name, record in read_problems(folder, names).items()
    }


# a time of at most this multiple of an empty kernel's time is mostly launch overhead
NEAR_EMPTY = 2.0
MOSTLY_LAUNCH = (
    f"a time within {NEAR_EMPTY:g}× of an empty kernel’s: mostly launch overhead; its ratios mean little by this clock"
)


@dataclass(frozen=True)
class Case(Generic[R_co]):
    """One problem in one precision of a campaign.

    `R_co` is the class that declares the columns of a study's rows.
    """

    campaign: Campaign
    problem: str
    precision: str
    #: State of the L2 cache before a launch; None selects `Campaign.cache`.
    cache: str | None = None

    @property
    def is_measured(self) -> bool:
        """Whether the case has any time of the report phase."""
        return any(row.timed for row in self.rows)

    @property
    def rows(self) -> list[R_co]:
        """Rows of the report phase in this cache state."""
        rows = cast("list[R_co]", self.campaign.report_rows(self.problem, self.precision))
        cache = self.cache or self.campaign.cache
        return [row for row in rows if row.cache == cache]

    @property
    def searched(self) -> Selection[R_co]:
        """Rows of the search phase, in all cache states."""
        return Selection(cast("list[R_co]", self.campaign.search_rows(self.problem, self.precision)))

    @property
    def choices(self) -> list[RecordedChoice]:
        return self.campaign.choices_by_case.get((self.problem, self.precision), [])

    def select(self, predicate: Callable[[R_co], bool] | None = None, /, **columns: object) -> Selection[R_co]:
        """Return some rows of the report phase, as `Selection.select` does."""
        return Selection(self.rows).select(predicate, **columns)

    def time(self, method: Method, clock: ClockName = "graph") -> ReportedTime[R_co] | None:
        """Return the time of a method, by the method's clock if it has one; None if there is no time."""
        clock = method.clock or clock
        if method.tuning:
            return self.winner(method.tuning, clock)
        return self.select(method.predicate, **method.columns).fastest(clock)

    def why_no_time(self, method: Method, clock: ClockName = "graph") -> str | None:
        """Return why a method has no time: the failure of its first row, or that it was not tried, timed or chosen.

        None if the whole case has no time; tables print this reason, `why_not`, as a note on the case's name
        (`MethodTimes.name`).
        """
        if not self.is_measured:
            return None
        if method.tuning:
            return self.why_not()
        reported = self.select(method.predicate, **method.columns)
        searched = self.searched.select(method.predicate, **method.columns)
        if not reported and searched.fastest(method.clock or clock):
            return f"{method.title}: timed in the search, but not among those timed again"
        rows = Selection([*reported, *searched])
        untimed = f"not timed by the {method.clock or clock} clock" if rows else "not tried"
        return rows.failure or f"{method.title}: {untimed}"

    def winner(self, tuning: str, clock: ClockName, kind: str = "variant") -> ReportedTime[R_co] | None:
        """Return the reported time of a tuning's chosen variant; None if there is no choice or no time yet.

        `tuning` is resolved by `Campaign.tuning`.
        """
        tuning = self.campaign.tuning(tuning)
        choice = next(
            (candidate for candidate in self.choices if (candidate.tuning, candidate.clock) == (tuning, clock)), None
        )
        if choice is None:
            return None
        ties = tuple(name for name in choice.ties if name != choice.name)
        return self.select(name=choice.name, kind=kind).fastest(clock, ties)

    def faster_than(self, choice: ReportedTime, clock: ClockName) -> ReportedTime[R_co] | None:
        """Return the fastest other variant of the report phase, if it contradicts the search's choice; else None.

        A variant contradicts the choice if its times scatter little (status `ok`), it keeps the same order of the
        unknowns, and it is faster by more than the campaign's `tie`. Tables name it beside the choice. It does not
        replace the choice, since the least of several noisy times is biased low.
        """
        quiet_rows, order = self.select(kind=choice.row.kind, status="ok"), choice.row.get("ordering")
        other = Selection([row for row in quiet_rows if row.get("ordering") == order]).fastest(clock)
        return other if other and self.is_faster(other, choice) else None

    def is_faster(self, other: ReportedTime | None, choice: ReportedTime | None) -> bool:
        """Return whether `other` is faster than `choice` by more than the campaign's relative difference `tie`."""
        return other is not None and choice is not None and other.seconds * (1 + self.campaign.tie) < choice.seconds

    def reported_time(self, name: str, clock: ClockName) -> ReportedTime[R_co] | None:
        return self.select(kind="variant", name=name).fastest(clock)

    def bound(self, kind: Literal["floor", "copy", "empty"], clock: ClockName) -> ReportedTime[R_co] | None:
        return self.select(kind=kind).fastest(clock)

    def is_mostly_launch(self, clock: ClockName, *times: ReportedTime | float | None) -> bool:
        """Return whether any time is at most `NEAR_EMPTY` times the time of an empty kernel."""
        empty = self.bound("empty", clock)
        if empty is None:
            return False
        seconds = [time.seconds if isinstance(time, ReportedTime) else time for time in times if time is not None]
        return any(time <= NEAR_EMPTY * empty.seconds for time in seconds)

    def launch_note(self, clock: ClockName, *times: ReportedTime | float | None) -> tuple[str, ...]:
        """Return the note that a time is mostly launch overhead; empty if none of the times is."""
        return (MOSTLY_LAUNCH,) if self.is_mostly_launch(clock, *times) else ()

    def why_no_floor(self) -> str:
        statuses = sorted({row.status for row in self.select(kind="floor")})
        return f"floor failed: {', '.join(statuses)}" if statuses else "no floor was timed"

    def why_untimed(self) -> str:
        """Return why one of the case's times is missing: that it was not timed, or that nothing of the case was."""
        return "not timed" if self.is_measured else self.why_not()

    def why_not(self) -> str:
        """Return why there is no time: unavailable, refused by the study, not measured, failed, or not chosen."""
        record = self.campaign.problems.get(self.problem)
        if record is not None and not record.is_available:
            return str(record.remark)
        if not self.rows:
            return "searched but not reported yet" if self.searched else "not measured in this campaign"
        variants = self.select(kind="variant")
        refused_row = next((row for row in variants if row.status == "unavailable"), None)
        if refused_row:
            return str(refused_row.message).partition("\n")[0]
        if variants and not any(row.timed for row in variants):
            return "failed: " + ", ".join(sorted({row.status for row in variants}))
        return self._missing_choice_reason() if self.choices else "no winner was chosen yet"

    def _missing_choice_reason(self) -> str:
        """Return why a finished search chose no winner, or one without a time."""
        for choice in self.choices:
            reported = self.select(name=choice.name)
            if not any(row.timed for row in reported):
                statuses = ", ".join(sorted({row.status for row in reported}))
                return f"the chosen variant has no time: {statuses or 'not reported'}"
        tunings = {clock: {choice.tuning for choice in self.choices if choice.clock == clock} for clock in CLOCKS}
        clock_without_choice = next(
            (clock for clock in CLOCKS if tunings[clock] < set().union(*tunings.values())), None
        )
        if clock_without_choice is None:
            return "no variant to choose from was timed"
        if self.searched.select(kind="variant", status="disturbed"):
            return f"by the {clock_without_choice} clock no timing was quiet enough; run again on a quieter machine"
        return f"no variant to choose from was timed by the {clock_without_choice} clock"
