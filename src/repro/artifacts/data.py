"""A recorded campaign: all that tables, figures and the report read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from repro.bench import ncu
from repro.bench.rows import SCHEMA, Row
from repro.errors import ReproError

CHOICE_COLUMNS = ("study", "problem", "entry", "precision", "clock", "tuning", "name", "ties")
COUNTER_COLUMNS = ("study", "problem", "entry", "precision", "kind", "name", "profiler", *ncu.COLUMNS)
PRECISIONS = ("single", "double")
#: The oldest version of the rows that can be read, and what the columns stand for that it does not have.
OLDEST = 1
DEFAULTS = {"space": "paper", "ordering": "natural"}
#: Columns that came later and hold nothing where a file is from before.
LATER = ("per_thread", "chunks", "encodings")
_TYPES = {"str": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
ROWS = pa.schema(
    [(field.name, _TYPES[str(field.type).split(" | ")[0]]) for field in fields(Row)]
    + [(name, pa.string()) for name in DEFAULTS if name not in Row.__annotations__]
)
_DTYPES = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}


@dataclass(frozen=True)
class ProblemRecord:
    """What a campaign recorded of a problem.

    Attributes
    ----------
    name, entry, status, reason
        `status` is `ok` or `unavailable`, then with the reason.
    n, nnz
        Rows and stored entries; None where unavailable.
    origin, statistics
        As in `repro.problems.problem.Problem`.
    memory
        Precision to layout (or `cuSPARSE`) to bytes of the matrix.
    """

    name: str
    entry: str
    status: str = "ok"
    reason: str | None = None
    n: int | None = None
    nnz: int | None = None
    origin: Mapping[str, Any] | None = None
    statistics: Mapping[str, Any] | None = None
    memory: Mapping[str, Mapping[str, int]] | None = None

    @property
    def available(self) -> bool:
        """Whether the problem could be had."""
        return self.status == "ok"

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
        Rows of the two phases, columns of `repro.bench.rows.Row`, one row a name and cache state in each
        (problem, precision); empty frames where nothing was measured. Rows that were recorded before there were
        spaces and orderings count as the papers' space and the natural ordering.
    choices
        Columns `CHOICE_COLUMNS`.
    problems
        Records by name, sorted by name.
    environments
        Environment records by hash.
    counters
        What a profiler counted, columns `COUNTER_COLUMNS`; empty where it was not run.
    """

    name: str
    study: str
    search: pd.DataFrame
    report: pd.DataFrame
    choices: pd.DataFrame
    problems: Mapping[str, ProblemRecord]
    environments: Mapping[str, Mapping[str, Any]]
    counters: pd.DataFrame

    @classmethod
    def load(cls, raw: Path, study: str) -> Campaign:
        """Read `results/<campaign>/raw`; what is not there yet is empty.

        Raises
        ------
        ReproError
            There is no such folder, it holds nothing of the study, a file is damaged or of another schema,
            or times of several devices are mixed.
        """
        if not raw.is_dir():
            raise ReproError("no such campaign", where=raw, todo="measure it first, or name another campaign")
        rows = {phase: _read(raw / study, f"{phase}.parquet") for phase in ("search", "report", "choices")}
        records = _problem_records(raw / "problems")
        problems = _of_study(records, raw, study)
        if not problems and not any(table.num_rows for table in rows.values()):
            known = sorted(p.name for p in raw.iterdir() if p.name not in ("problems", "environment"))
            raise ReproError(
                "the campaign holds nothing of this study",
                where=raw,
                expected=f"one of {', '.join(known)}" if known else "measured rows or built problems",
                actual=study,
            )
        search, report = (_row_frame(rows[phase], raw / study) for phase in ("search", "report"))
        measured = _columns(report, search, ["problem", "entry", "status", "message"]).drop_duplicates("problem")
        for name, entry, status, message in measured.itertuples(index=False):
            if name not in problems:  # measured without its record: it still has a line in the tables
                unavailable = status == "unavailable"
                reason = str(message) if unavailable else None
                problems[name] = ProblemRecord(name, str(entry), "unavailable" if unavailable else "ok", reason)
        campaign = cls(
            name=raw.resolve().parent.name,
            study=study,
            search=search,
            report=report,
            choices=_frame(rows["choices"], CHOICE_COLUMNS, raw / study),
            problems=dict(sorted(problems.items())),
            environments={p.stem: _json(p) for p in sorted((raw / "environment").glob("*.json"))},
            counters=_frame(_read(raw / study, "counters.parquet"), COUNTER_COLUMNS, raw / study),
        )
        campaign._check_one_device()
        return campaign

    def _check_one_device(self) -> None:
        seen = self._devices
        if len(seen) > 1:
            raise ReproError(
                "the campaign mixes times of several devices",
                where=f"campaign {self.name}, study {self.study}",
                expected="one device",
                actual="; ".join(sorted(f"{b}: {d}" for b, d in seen.itertuples(index=False))),
                todo="give each device a campaign of its own",
            )

    @cached_property
    def _devices(self) -> pd.DataFrame:
        return _columns(self.report, self.search, ["backend", "device"]).dropna().drop_duplicates()

    @cached_property
    def _device(self) -> tuple[str | None, str | None]:
        seen = self._devices
        return (str(seen["backend"].iloc[0]), str(seen["device"].iloc[0])) if len(seen) else (None, None)

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

    @property
    def library(self) -> str:
        """The library that the baselines are from."""
        return "SciPy" if self.on_cpu else "cuSPARSE"

    @cached_property
    def precisions(self) -> tuple[str, ...]:
        """The precisions that something was recorded in, single first; both where nothing was."""
        seen = {*self.report["precision"].unique(), *self.search["precision"].unique()}
        return tuple(p for p in PRECISIONS if p in seen) or PRECISIONS

    @cached_property
    def caches(self) -> tuple[str, ...]:
        """The states of the L2 cache before a launch that something was reported in, warm first."""
        measured = (frame.loc[frame["device"].notna(), "cache"] for frame in (self.report, self.search))
        return tuple(sorted(next((set(seen.unique()) for seen in measured if len(seen)), ()), reverse=True))

    @property
    def cache(self) -> str:
        """The state that tables and figures print: `warm` wherever it was measured, as in the papers."""
        return self.caches[0] if self.caches else "unmeasured"

    @property
    def extended(self) -> bool:
        """Whether anything was chosen in a space larger than the papers'."""
        return "extended" in set(self.choices["tuning"])

    def empty_readings(self, clock: str) -> tuple[float, float] | None:
        """Return the least and largest median in seconds that an empty kernel reads; None where it was not timed."""
        empty = (self.report["kind"] == "empty") & (self.report["cache"] == self.cache)
        seconds = self.report.loc[empty, f"{clock}_median"].dropna()
        return (float(seconds.min()), float(seconds.max())) if len(seconds) else None

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

    def paper_rows(self, problem: str, precision: str) -> list[dict[str, Any]]:
        """Rows of the search of the papers' space in the problem's own ordering, in the tables' cache state."""
        return [
            row
            for row in self.search_rows(problem, precision)
            if (row["space"], row["ordering"], row["cache"]) == ("paper", "natural", self.cache)
        ]

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


def _read(folder: Path, name: str) -> pa.Table:
    """Read all files of a name as one table; a column that only some of them have is null in the others."""
    tables = []
    for path in sorted(folder.rglob(name)):
        try:
            tables.append(pq.read_table(path, use_threads=False, partitioning=None))
        except (ValueError, OSError) as error:
            raise ReproError(
                "unreadable rows",
                where=path,
                actual=one_line(str(error)),
                todo="delete the file and let the workflow make it again",
            ) from error
    filled = [table for table in tables if table.num_rows]
    return pa.concat_tables(filled, promote_options="permissive") if filled else pa.table({})


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


def _row_frame(table: pa.Table, where: Path) -> pd.DataFrame:
    """Check the schema, give the columns their types, and keep the last full row of each name."""
    if not table.num_rows:
        table = ROWS.empty_table()
    found = set(table.column("schema").to_pylist()) if "schema" in table.column_names else {"none"}
    if not found <= set(range(OLDEST, SCHEMA + 1)):
        raise ReproError(
            "rows of another schema",
            where=where,
            expected=f"{OLDEST} to {SCHEMA}" if SCHEMA > OLDEST else SCHEMA,
            actual=", ".join(sorted(map(str, found))),
            todo="measure again with this version, or read them with the version that wrote them",
        )
    for name in (*DEFAULTS, *LATER):
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(table.num_rows, ROWS.field(name).type))
    _missing_columns(table, ROWS.names, where)
    table = table.select(ROWS.names).cast(ROWS)
    for name, value in DEFAULTS.items():
        of_all = name != "space"  # a baseline or a yardstick belongs to no space
        meant = pa.scalar(True) if of_all else pc.equal(table["kind"], "variant")
        filled = pc.if_else(meant, pc.fill_null(table[name], value), table[name])
        table = table.set_column(table.column_names.index(name), name, filled)
    frame: pd.DataFrame = table.to_pandas(types_mapper=_DTYPES.get, ignore_metadata=True)
    # a screened variant may have a full row as well: the full one counts
    order = frame.assign(_full=frame["protocol"] == "full").sort_values(["_full", "measured_at"], kind="stable")
    kept = order.drop_duplicates(["problem", "precision", "kind", "name", "cache"], keep="last").index
    return frame.take(sorted(kept)).reset_index(drop=True)


def _json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ReproError("unreadable record", where=path, actual=error) from error
    if not isinstance(data, dict):
        raise ReproError("unreadable record", where=path, expected="a JSON object", actual=type(data).__name__)
    return data


def _problem_records(folder: Path) -> dict[str, ProblemRecord]:
    known = {field.name for field in fields(ProblemRecord)}
    records = {}
    for path in sorted(folder.rglob("*.json")):
        data = _json(path)
        try:
            record = ProblemRecord(**{key: value for key, value in data.items() if key in known})
        except TypeError as error:
            raise ReproError("unreadable record of a problem", where=path, actual=error) from error
        records[record.name] = record
    return records


def _of_study(records: Mapping[str, ProblemRecord], raw: Path, study: str) -> dict[str, ProblemRecord]:
    """Leave out the problems that only other studies of the campaign have measured."""
    others = [p for p in raw.iterdir() if p.is_dir() and p.name not in ("problems", "environment", study)]
    return {
        name: record
        for name, record in records.items()
        if (raw / study / name).exists() or not any((other / name).exists() for other in others)
    }
