"""A recorded campaign: all that tables, figures and the report read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from repro.bench.rows import SCHEMA, Row
from repro.errors import ReproError

CHOICE_COLUMNS = ("study", "problem", "entry", "precision", "clock", "tuning", "name", "ties")
PRECISIONS = ("single", "double")
_DTYPES = {"float | None": "float64", "int | None": "Int64", "int": "Int64", "bool | None": "boolean"}


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
        Rows of the two phases, columns of `repro.bench.rows.Row`, one row a name in each
        (problem, precision); empty frames where nothing was measured.
    choices
        Columns `CHOICE_COLUMNS`.
    problems
        Records by name, sorted by name.
    environments
        Environment records by hash.
    """

    name: str
    study: str
    search: pd.DataFrame
    report: pd.DataFrame
    choices: pd.DataFrame
    problems: Mapping[str, ProblemRecord]
    environments: Mapping[str, Mapping[str, Any]]

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
        rows = {phase: _frames(raw / study, f"{phase}.parquet") for phase in ("search", "report", "choices")}
        records = _problem_records(raw / "problems")
        problems = _of_study(records, raw, study)
        if not problems and all(frame.empty for frame in rows.values()):
            known = sorted(p.name for p in raw.iterdir() if p.name not in ("problems", "environment"))
            raise ReproError(
                "the campaign holds nothing of this study",
                where=raw,
                expected=f"one of {', '.join(known)}" if known else "measured rows or built problems",
                actual=study,
            )
        search, report = _row_frame(rows["search"]), _row_frame(rows["report"])
        for row in pd.concat([report, search]).itertuples():
            name = str(row.problem)  # a problem measured without its record still has a line in the tables
            if name not in problems:
                unavailable = row.status == "unavailable"
                problems[name] = ProblemRecord(
                    name,
                    str(row.entry),
                    "unavailable" if unavailable else "ok",
                    str(row.message) if unavailable else None,
                )
        campaign = cls(
            name=raw.resolve().parent.name,
            study=study,
            search=search,
            report=report,
            choices=_check(rows["choices"], CHOICE_COLUMNS, raw / study),
            problems=dict(sorted(problems.items())),
            environments={p.stem: _json(p) for p in sorted((raw / "environment").glob("*.json"))},
        )
        campaign._check_one_device()
        return campaign

    def _check_one_device(self) -> None:
        seen = pd.concat([self.report, self.search])[["backend", "device"]].dropna().drop_duplicates()
        if len(seen) > 1:
            raise ReproError(
                "the campaign mixes times of several devices",
                where=f"campaign {self.name}, study {self.study}",
                expected="one device",
                actual="; ".join(sorted(f"{b}: {d}" for b, d in seen.itertuples(index=False))),
                todo="give each device a campaign of its own",
            )

    @cached_property
    def _device(self) -> tuple[str | None, str | None]:
        seen = pd.concat([self.report, self.search])[["backend", "device"]].dropna()
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

    @property
    def precisions(self) -> tuple[str, ...]:
        """The precisions that something was recorded in, single first; both where nothing was."""
        seen = set(self.report["precision"]) | set(self.search["precision"])
        return tuple(p for p in PRECISIONS if p in seen) or PRECISIONS

    @property
    def cache(self) -> str:
        """`warm`, `cold`, or both: the state of the L2 cache before a launch."""
        seen = sorted(set(self.report["cache"].dropna()) | set(self.search["cache"].dropna()))
        return " and ".join(seen) if seen else "unmeasured"

    def empty_readings(self, clock: str) -> tuple[float, float] | None:
        """Return the least and largest median in seconds that an empty kernel reads; None where it was not timed."""
        seconds = self.report.loc[self.report["kind"] == "empty", f"{clock}_median"].dropna()
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

    def choice_rows(self, problem: str, precision: str) -> list[dict[str, Any]]:
        """Rows of `choices.parquet`."""
        return self._choices.get((problem, precision), [])


def one_line(text: str, limit: int = 300) -> str:
    """Return a message as one line of at most `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _by_case(frame: pd.DataFrame) -> dict[tuple[str, str], list[dict[str, Any]]]:
    cases: dict[tuple[str, str], list[dict[str, Any]]] = {}
    plain = frame.astype(object)
    for record in plain.where(plain.notna(), None).to_dict("records"):
        cases.setdefault((record["problem"], record["precision"]), []).append(
            {str(key): value for key, value in record.items()}
        )
    return cases


def _frames(folder: Path, name: str) -> pd.DataFrame:
    frames = []
    for path in sorted(folder.rglob(name)):
        try:
            frames.append(pd.read_parquet(path))
        except (ValueError, OSError) as error:
            raise ReproError(
                "unreadable rows",
                where=path,
                actual=one_line(str(error)),
                todo="delete the file and let the workflow make it again",
            ) from error
    filled = [frame for frame in frames if not frame.empty]
    # the nullable types of the files give way to plain objects, None where there is nothing
    plain = [frame.astype(object).where(frame.notna(), None) for frame in filled]
    return pd.concat(plain, ignore_index=True) if plain else pd.DataFrame()


def _check(frame: pd.DataFrame, columns: tuple[str, ...], where: Path) -> pd.DataFrame:
    if frame.empty:
        return pd.DataFrame({name: pd.Series(dtype=object) for name in columns})
    missing = [name for name in columns if name not in frame]
    if missing:
        raise ReproError("rows of another schema", where=where, expected=f"columns {', '.join(missing)}")
    return frame[list(columns)]


def _row_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Give the columns their types, check the schema, and keep the last full row of each name."""
    names = tuple(field.name for field in fields(Row))
    if not frame.empty and set(frame.get("schema", [])) != {SCHEMA}:
        raise ReproError(
            "rows of another schema",
            expected=SCHEMA,
            actual=", ".join(str(s) for s in sorted(set(frame.get("schema", ["none"])), key=str)),
            todo="measure again with this version, or read them with the version that wrote them",
        )
    frame = _check(frame, names, Path())
    frame = frame.astype({f.name: _DTYPES.get(str(f.type), "object") for f in fields(Row)})
    # a screened variant may have a full row as well: the full one counts
    order = frame.assign(_full=frame["protocol"] == "full").sort_values(["_full", "measured_at"], kind="stable")
    kept = order.drop_duplicates(["problem", "precision", "kind", "name", "cache"], keep="last").index
    return frame.loc[sorted(kept)].reset_index(drop=True)


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
