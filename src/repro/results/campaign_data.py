"""A recorded campaign, and its cases: all that tables, figures and the report read.

`Campaign` is one study of one campaign on one device, as data frames. `Case` is one problem at one precision: its
winners, baselines and bounds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from types import UnionType
from typing import Any, Literal

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from repro.bench import ncu
from repro.bench.records import read_environments, read_problems
from repro.bench.rows import LATER, NO_COLUMNS, PRECISIONS, TIMED, ColumnType, schema_of
from repro.bench.runnable import ClockName
from repro.bench.store import read_rows, recorded_studies
from repro.bench.yardsticks import EMPTY, YARDSTICKS
from repro.config.models import Timing
from repro.errors import ReproError

CHOICE_COLUMNS = ("study", "problem", "precision", "clock", "tuning", "name", "ties")
COUNTER_COLUMNS = ("study", "problem", "precision", "kind", "name", "profiler", *ncu.COLUMNS)
#: Times that differ by less than this are a tie, unless the campaign's configuration says otherwise.
TIE = float(Timing.model_fields["tie"].default)
#: Cases that a sentence names.
CASES_SHOWN = 12
_DTYPES = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}


@dataclass(frozen=True)
class ProblemRecord:
    """What a campaign recorded of a problem.

    Attributes
    ----------
    name, kind, status, reason
        `status` is `ok` or `unavailable`, then with the reason.
    entry, n, nnz
        Of a matrix what its non-zeros are, its rows and its stored entries; None for other kinds, and the sizes where
        it is unavailable.
    dimension, cells, degree
        Of a field its mesh's dimension and cells, and the degree of its polynomials; None for other kinds, or where it
        is unavailable.
    checksum
        Of the content, as far as it was recorded: two problems of one name may be built of different files.
    origin, statistics
        As in `repro.problems.problem.Problem`.
    facts
        By study what its tables want to know beside that.
    """

    name: str
    kind: str = "matrix"
    status: str = "ok"
    reason: str | None = None
    entry: str | None = None
    n: int | None = None
    nnz: int | None = None
    dimension: int | None = None
    cells: int | None = None
    degree: int | None = None
    checksum: str | None = None
    origin: Mapping[str, Any] | None = None
    statistics: Mapping[str, Any] | None = None
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def available(self) -> bool:
        """Whether the problem could be had."""
        return self.status == "ok"

    def differs(self, other: ProblemRecord) -> bool:
        """Whether another campaign means something else by this name, as far as both say what they mean."""
        mine, theirs = ((one.kind, one.checksum) for one in (self, other))
        return mine != theirs and None not in (self.checksum, other.checksum)

    @property
    def stand_in(self) -> str | None:
        """The problem that this one stands in for, if it is a stand-in and says for which."""
        other = (self.origin or {}).get("stand_in")
        return other if isinstance(other, str) else None

    @property
    def remark(self) -> str | None:
        """What a table has to say beside the name: rebuilt, a stand-in, or unavailable and why."""
        if not self.available:
            return f"unavailable: {one_line(self.reason or 'no reason recorded')}"
        origin = self.origin or {}
        if origin.get("stand_in"):
            return f"stand-in for {self.stand_in}" if self.stand_in else "stand-in"
        if origin.get("rebuilt"):
            return "rebuilt: the papers’ own mesh is not public"
        return None


@dataclass(frozen=True)
class Campaign:
    """One study of one campaign, on one device.

    Attributes
    ----------
    name, study
        The folder's name and the study's.
    search, report
        Rows of the two phases, columns of `repro.bench.rows.Row` and the study's own, one row a name and cache state in
        each (problem, precision); empty frames where nothing was measured.
    choices
        Columns `CHOICE_COLUMNS`.
    problems
        Records by name, sorted by name.
    environments
        Environment records by hash.
    counters
        What a profiler counted, columns `COUNTER_COLUMNS`; empty where it was not run.
    tie
        Share of a time within which another one is a tie, as configured.
    beside
        The same study in other campaigns, on other devices say, whose results stand beside this one's.
    """

    name: str
    study: str
    search: pd.DataFrame
    report: pd.DataFrame
    choices: pd.DataFrame
    problems: Mapping[str, ProblemRecord]
    environments: Mapping[str, Mapping[str, Any]]
    counters: pd.DataFrame
    tie: float = TIE
    beside: tuple[Campaign, ...] = ()

    @classmethod
    def load(
        cls,
        raw: Path,
        study: str,
        own: Mapping[str, ColumnType] = NO_COLUMNS,
        problems: Collection[str] | None = None,
        tie: float = TIE,
        precisions: Collection[str] = PRECISIONS,
    ) -> Campaign:
        """Read `results/<campaign>/raw`; what is not there yet is empty.

        Parameters
        ----------
        raw
            That folder.
        study
            Which study of it.
        own
            The study's own columns, which the frames then have in any case.
        problems
            The names of the study's problems, as configured: rows of others are left out. None: those that it has rows
            of.
        tie
            As configured.
        precisions
            The study's, as configured: rows of others are left out.

        Raises
        ------
        ReproError
            There is no such folder, it holds nothing of the study, a file is damaged or of another schema,
            or times of several devices are mixed.
        """
        if not raw.is_dir():
            raise ReproError("no such campaign", where=raw, todo="measure it first, or name another campaign")
        steps = ("search", "report", "choices", "counters")
        rows = {step: _of_cases(read_rows(raw / study, step), problems, precisions) for step in steps}
        search, report = (_row_frame(rows[step], own, raw / study) for step in ("search", "report"))
        measured = pd.concat([report, search], ignore_index=True).drop_duplicates("problem")
        names = set(measured["problem"]) if problems is None else set(problems)
        records = {name: record for name, record in _problem_records(raw).items() if name in names}
        if not records and not any(table.num_rows for table in rows.values()):
            studies = recorded_studies(raw)
            raise ReproError(
                "the campaign holds nothing of this study",
                where=raw,
                expected=f"one of {', '.join(studies)}" if studies else "measured rows or built problems",
                actual=study,
            )
        for row in measured.to_dict("records"):
            name = str(row["problem"])
            if name not in records:  # measured without its record: it still has a line in the tables
                unavailable = row["status"] == "unavailable"
                entry = row.get("entry")
                records[name] = ProblemRecord(
                    name,
                    status="unavailable" if unavailable else "ok",
                    reason=str(row["message"]) if unavailable else None,
                    entry=None if pd.isna(entry) else str(entry),
                )
        campaign = cls(
            name=raw.resolve().parent.name,
            study=study,
            search=search,
            report=report,
            choices=_frame(rows["choices"], CHOICE_COLUMNS, raw / study),
            problems=dict(sorted(records.items())),
            environments=read_environments(raw),
            counters=_frame(rows["counters"], COUNTER_COLUMNS, raw / study),
            tie=tie,
        )
        campaign._check_one_device()
        return campaign

    def _check_one_device(self) -> None:
        if len(self._devices) > 1:
            raise ReproError(
                "the campaign mixes times of several devices",
                where=f"campaign {self.name}, study {self.study}",
                expected="one device",
                actual="; ".join(sorted(f"{b}: {d}" for b, d in self._devices.itertuples(index=False))),
                todo="give each device a campaign of its own",
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
        """`cuda` or `opencl`; None where nothing was measured."""
        return self._device[0]

    @property
    def device(self) -> str | None:
        """The device's full name; None where nothing was measured."""
        return self._device[1]

    @property
    def on_cpu(self) -> bool:
        """Whether the times are a CPU's, which no GPU time is compared with."""
        return self.backend == "opencl"

    @property
    def column(self) -> str:
        """Title of our column: the GPU's name, `CPU` for OpenCL, `not measured` where nothing was."""
        return "CPU" if self.on_cpu else self.device or "not measured"

    @cached_property
    def sources(self) -> frozenset[str]:
        """Hashes of the code that its rows were measured with, as far as the environment records say."""
        names = _columns(self.report, self.search, ["environment"])["environment"].unique()
        sources = (self.environments.get(str(name), {}).get("source") for name in names)
        return frozenset(str(source) for source in sources if source)

    @cached_property
    def precisions(self) -> tuple[str, ...]:
        """The precisions that something was recorded in, single first; both where nothing was."""
        recorded = {*self.report["precision"].unique(), *self.search["precision"].unique()}
        return tuple(precision for precision in PRECISIONS if precision in recorded) or PRECISIONS

    @cached_property
    def caches(self) -> tuple[str, ...]:
        """The states of the L2 cache before a launch that something was reported in, warm first."""
        measured = (frame.loc[frame["device"].notna(), "cache"] for frame in (self.report, self.search))
        return tuple(sorted(next((set(seen.unique()) for seen in measured if len(seen)), ()), reverse=True))

    @property
    def cache(self) -> str:
        """The state that tables and figures print: `warm` wherever it was measured, as in the papers."""
        return self.caches[0] if self.caches else "unmeasured"

    def empty_readings(self, clock: str) -> tuple[float, float] | None:
        """Return the least and largest median in seconds that an empty kernel reads; None where it was not timed."""
        empty = (
            (self.report["kind"] == EMPTY) & (self.report["cache"] == self.cache) & self.report["status"].isin(TIMED)
        )
        seconds = self.report.loc[empty, f"{clock}_median"].dropna()
        return (float(seconds.min()), float(seconds.max())) if len(seconds) else None

    @cached_property
    def disturbance(self) -> str | None:
        """A sentence that names the cases whose yardsticks were disturbed; None where none were."""
        rows = self.report[self.report["kind"].isin(YARDSTICKS) & (self.report["status"] == "disturbed")]
        cases = [f"{row.problem} ({row.precision})" for row in rows.itertuples()]
        if not cases:
            return None
        names = list(dict.fromkeys(cases))
        more = f" and {len(names) - CASES_SHOWN} more" if len(names) > CASES_SHOWN else ""
        return (
            "Something else used the device: floor, copy or empty kernel were disturbed, so that other times may be "
            f"too long as well, on {', '.join(names[:CASES_SHOWN])}{more}."
        )

    @cached_property
    def _reports(self) -> dict[tuple[str, str], list[dict[str, Any]]]:
        return _by_case(self.report)

    @cached_property
    def _searches(self) -> dict[tuple[str, str], list[dict[str, Any]]]:
        return _by_case(self.search)

    @cached_property
    def _choices(self) -> dict[tuple[str, str], list[dict[str, Any]]]:
        return _by_case(self.choices)

    def report_rows(self, problem: str, precision: str) -> list[dict[str, Any]]:
        """Rows of the report phase, absent values None."""
        return self._reports.get((problem, precision), [])

    def search_rows(self, problem: str, precision: str) -> list[dict[str, Any]]:
        """Rows of the search phase, absent values None."""
        return self._searches.get((problem, precision), [])

    @cached_property
    def _counters(self) -> dict[tuple[str, str], list[dict[str, Any]]]:
        return _by_case(self.counters)

    def counter_rows(self, problem: str, precision: str) -> list[dict[str, Any]]:
        """Rows of `counters.parquet`, absent values None."""
        return self._counters.get((problem, precision), [])

    def choice_rows(self, problem: str, precision: str) -> list[dict[str, Any]]:
        """Rows of `choices.parquet`."""
        return self._choices.get((problem, precision), [])


def one_line(text: str, limit: int = 300) -> str:
    """Return a message as one line of at most `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _columns(report: pd.DataFrame, search: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    return pd.concat([report[names], search[names]])


def _by_case(frame: pd.DataFrame) -> dict[tuple[str, str], list[dict[str, Any]]]:
    cases: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for record in pa.Table.from_pandas(frame, preserve_index=False).to_pylist():
        cases.setdefault((record["problem"], record["precision"]), []).append(record)
    return cases


def _of_cases(rows: pa.Table, problems: Collection[str] | None, precisions: Collection[str]) -> pa.Table:
    """Return the rows of some problems, all where it is not said which, in some precisions."""
    if not rows.num_rows:
        return rows
    rows = rows.filter(pc.is_in(rows["precision"], pa.array(sorted(precisions), pa.string())))
    if problems is None:
        return rows
    return rows.filter(pc.is_in(rows["problem"], pa.array(sorted(problems), pa.string())))


def _missing_columns(table: pa.Table, columns: Iterable[str], where: Path) -> None:
    missing = [name for name in columns if name not in table.column_names]
    if missing:
        raise ReproError("rows of another schema", where=where, expected=f"columns {', '.join(missing)}")


def _frame(table: pa.Table, columns: Sequence[str], where: Path) -> pd.DataFrame:
    if not table.num_rows:
        return pd.DataFrame({name: pd.Series(dtype=object) for name in columns})
    _missing_columns(table, columns, where)
    frame: pd.DataFrame = table.select(list(columns)).to_pandas(ignore_metadata=True)
    return frame


def _row_frame(table: pa.Table, own: Mapping[str, ColumnType], where: Path) -> pd.DataFrame:
    """Give the columns their types, and keep the last full row of each name."""
    schema = schema_of(own)
    if not table.num_rows:
        table = schema.empty_table()
    for name in [*LATER, *(name for name, kind in own.items() if isinstance(kind, UnionType))]:
        if name not in table.column_names:
            table = table.append_column(schema.field(name), pa.nulls(table.num_rows, schema.field(name).type))
    _missing_columns(table, schema.names, where)
    frame: pd.DataFrame = table.to_pandas(types_mapper=_DTYPES.get, ignore_metadata=True)
    # a screened variant may have a full row as well: the full one counts
    order = frame.assign(_full=frame["protocol"] == "full").sort_values(["_full", "measured_at"], kind="stable")
    kept = order.drop_duplicates(["problem", "precision", "kind", "name", "cache"], keep="last").index
    return frame.take(sorted(kept)).reset_index(drop=True)


def _problem_records(raw: Path) -> dict[str, ProblemRecord]:
    attributes = {item.name for item in fields(ProblemRecord)}
    return {
        name: ProblemRecord(**{key: value for key, value in record.items() if key in attributes})
        for name, record in read_problems(raw).items()
    }


# up to this multiple of an empty kernel's reading a time is mostly launch
NEAR_EMPTY = 2.0
MOSTLY_LAUNCH = (
    f"a time within {NEAR_EMPTY:g}× of an empty kernel’s: mostly launch, its ratios say little by this clock"
)
NOISY = "noisy: the quartiles of this time lie further apart than the protocol allows"


@dataclass(frozen=True)
class ReportedTime:
    """A time of the report phase.

    Attributes
    ----------
    name
        The row's name.
    seconds
        Median by the clock that was asked for.
    noisy
        Whether the row was marked so.
    ties
        Names that the search found within the tie of it.
    row
        The whole row.
    rounds
        Of each round the samples that were kept, in seconds; none where samples were not recorded.
    """

    name: str
    seconds: float
    noisy: bool
    ties: tuple[str, ...]
    row: Mapping[str, Any]
    rounds: Sequence[Sequence[float]] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Note that the time is noisy, where it is."""
        return (NOISY,) if self.noisy else ()

    @property
    def key(self) -> str:
        """The key of the row."""
        return str(self.row["key"])


@dataclass(frozen=True)
class Case:
    """One problem at one precision in a campaign.

    Attributes
    ----------
    campaign, problem, precision
        Which one.
    cache
        State of the L2 cache before a launch; None for the one that tables print, `warm` wherever it was measured.
    """

    campaign: Campaign
    problem: str
    precision: str
    cache: str | None = None

    @property
    def measured(self) -> bool:
        """Whether anything of it was timed for the report."""
        return any(row["status"] in TIMED for row in self.rows)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Rows of the report phase in this cache state."""
        rows = self.campaign.report_rows(self.problem, self.precision)
        cache = self.cache or self.campaign.cache
        return [row for row in rows if row["cache"] == cache]

    @property
    def choices(self) -> list[dict[str, Any]]:
        """What was chosen, by tuning and clock."""
        return self.campaign.choice_rows(self.problem, self.precision)

    def winner(self, tuning: str, clock: ClockName, kind: str = "variant") -> ReportedTime | None:
        """Return the reported time of what was chosen, of a kind; None where there is no choice or no time yet."""
        for choice in self.choices:
            if choice["tuning"] == tuning and choice["clock"] == clock:
                ties = choice["ties"]
                names = () if ties is None else tuple(str(t) for t in ties if t != choice["name"])
                rows = [r for r in self.rows if r["name"] == choice["name"] and r["kind"] == kind]
                return fastest_time(rows, clock, names)
        return None

    def reported_time(self, name: str, clock: ClockName) -> ReportedTime | None:
        """Return the reported time of a variant, None if it has none."""
        return fastest_time([row for row in self.rows if (row["kind"], row["name"]) == ("variant", name)], clock)

    def bound(self, kind: Literal["floor", "copy", "empty"], clock: ClockName) -> ReportedTime | None:
        """Return the fastest streaming kernel, device copy or empty kernel."""
        return fastest_time([row for row in self.rows if row["kind"] == kind], clock)

    def mostly_launch(self, clock: ClockName, *times: ReportedTime | float | None) -> bool:
        """Return whether any of the times (or seconds) is within `NEAR_EMPTY` of what an empty kernel reads."""
        empty = self.bound("empty", clock)
        if empty is None:
            return False
        seconds = [time.seconds if isinstance(time, ReportedTime) else time for time in times if time is not None]
        return any(time <= NEAR_EMPTY * empty.seconds for time in seconds)

    def launch_note(self, clock: ClockName, *times: ReportedTime | float | None) -> tuple[str, ...]:
        """Note that a time is mostly launch, where one is."""
        return (MOSTLY_LAUNCH,) if self.mostly_launch(clock, *times) else ()

    def why_no_floor(self) -> str:
        """Return why there is no time of the floor."""
        statuses = sorted({str(row["status"]) for row in self.rows if row["kind"] == "floor"})
        return f"floor failed: {', '.join(statuses)}" if statuses else "no floor was timed"

    def why_not(self) -> str:
        """Return why there is no time: unavailable, refused by the study, not measured, failed, or not chosen yet."""
        record = self.campaign.problems.get(self.problem)
        if record is not None and not record.available:
            return str(record.remark)
        if not self.rows:
            searched = self.campaign.search_rows(self.problem, self.precision)
            return "searched but not reported yet" if searched else "not measured in this campaign"
        variants = [row for row in self.rows if row["kind"] == "variant"]
        refused = next((row for row in variants if row["status"] == "unavailable"), None)
        if refused:
            return str(refused["message"]).partition("\n")[0]
        if variants and not any(row["status"] in TIMED for row in variants):
            return "failed: " + ", ".join(sorted({row["status"] for row in variants}))
        return "no winner was chosen yet"


def median(row: Mapping[str, Any], clock: ClockName) -> float | None:
    """Return a row's median by a clock in seconds; None where it has no valid time."""
    if row["status"] not in TIMED or not row[f"{clock}_median"]:
        return None
    return float(row[f"{clock}_median"])


def fastest_time(
    rows: Iterable[Mapping[str, Any]], clock: ClockName, ties: tuple[str, ...] = ()
) -> ReportedTime | None:
    """Return the fastest of some rows, None if none of them has a time."""
    timed = [(seconds, str(row["name"]), row) for row in rows if (seconds := median(row, clock)) is not None]
    if not timed:
        return None
    seconds, name, row = min(timed, key=lambda item: item[:2])
    return ReportedTime(name, seconds, row["status"] == "noisy", ties, row, row.get(f"{clock}_samples") or ())
