"""Campaigns that were never measured, written as a run writes them; and the names of the recorded ones."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from repro.bench.campaign_folder import CampaignFolder
from repro.bench.rows import CLOCKS, NO_COLUMNS, SCHEMA, ColumnType, Row, split_columns
from repro.bench.store import write_rows, write_table
from repro.campaign.measurement import CHOICES
from repro.results.campaign_data import Campaign

DEVICES = {"cuda": "NVIDIA H200", "opencl": "Some_CPU @ 2.00GHz (x86)"}
#: Quantiles of a time in parts of its median.
QUANTILES = {"min": 0.9, "q1": 0.98, "median": 1.0, "q3": 1.02, "max": 2.0, "mean": 1.1}
#: What a clock reads of a launch that takes a second by the event clock.
READS = {"event": 1.0, "graph": 0.8, "host": 3.0}


class Recorder:
    """Writes the raw folder of a campaign of one study below `root`: rows, choices, problems, an environment.

    Parameters
    ----------
    root
        Where `results` is made.
    backend
        `cuda` or `opencl`.
    study, own
        The study's name, and the columns of its own.
    """

    def __init__(
        self, root: Path, backend: str = "cuda", study: str = "made_up", own: Mapping[str, ColumnType] = NO_COLUMNS
    ) -> None:
        self.results = root / "results"
        self.campaign = f"synthetic-{backend}"
        self.backend, self.device = backend, DEVICES[backend]
        self.study, self.own = study, own
        self.problems: set[str] = set()

    @property
    def folder(self) -> CampaignFolder:
        return CampaignFolder.of(self.campaign, self.results)

    @property
    def raw(self) -> Path:
        return self.folder.raw

    def row(
        self,
        problem: str,
        precision: str,
        kind: str,
        name: str,
        micro: float | None,
        clocks: Iterable[str] = CLOCKS,
        **columns: Any,
    ) -> Row:
        """Return a row of a time in microseconds by the event clock, or without one; `own` columns are told apart."""
        times = {
            f"{clock}_{quantile}": micro * 1e-6 * READS[clock] * share
            for clock in (clocks if micro is not None else ())
            for quantile, share in QUANTILES.items()
        }
        common, own = split_columns(columns, self.own)
        return Row(**{
            "key": f"{name}-{precision}", "study": self.study, "problem": problem, "precision": precision,
            "kind": kind, "name": name, "status": "ok", "measured_at": "2024-05-01T00:00:00", "bytes": 3_000_000,
            "least_bytes": 2_000_000, "device": self.device, "device_uuid": "u", "backend": self.backend,
            "environment": "e0", **times, **common,
        }, own=own)  # fmt: skip

    def unavailable(self, problem: str, precision: str, reason: str) -> Row:
        """Return the row of a problem that could not be had."""
        return Row("k", self.study, problem, precision, "variant", "-", "unavailable", phase="report", message=reason)

    def case_folder(self, problem: str, precision: str) -> Path:
        """Where the files of a case lie."""
        return self.folder.case(self.study, problem, precision)

    def write(self, problem: str, precision: str, step: str, rows: Iterable[Row]) -> Path:
        """Write the rows of a step."""
        self.problems.add(problem)
        return write_rows(rows, self.own, self.case_folder(problem, precision) / f"{step}.parquet")

    def choose(self, problem: str, precision: str, chosen: Mapping[tuple[str, str], tuple[str, list[str]]]) -> Path:
        """Write the choices: by tuning and clock the winner and its ties."""
        common = {"study": self.study, "problem": problem, "precision": precision, "schema": SCHEMA}
        choices = [
            {**common, "clock": clock, "tuning": tuning, "name": name, "ties": ties}
            for (tuning, clock), (name, ties) in chosen.items()
        ]
        return write_table(
            pa.Table.from_pylist(choices, schema=CHOICES), self.case_folder(problem, precision) / "choices.parquet"
        )

    def record(self, problem: str, **content: Any) -> Path:
        """Write the record of a problem."""
        self.problems.add(problem)
        path = self.raw / "problems" / f"{problem}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"name": problem, "kind": "matrix", "status": "ok", **content}))
        return path

    def environment(self) -> None:
        """Write the one environment record."""
        path = self.raw / "environment" / "e0.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"device": self.device, "backend": self.backend, "commit": "abc", "dirty": False,
                                    "cache_bytes": 60 << 20,
                                    "flags": ["-O3", "--std=c++17"], "packages": {"numpy": "2.0"}}))  # fmt: skip

    def configure(self, **studies: Mapping[str, Any]) -> None:
        """Write the campaign's configuration, as a run leaves it: JSON is YAML."""
        self.raw.mkdir(parents=True, exist_ok=True)
        path = self.raw.parent / "config.yaml"
        path.write_text(json.dumps({"campaign": self.campaign, "studies": studies}))

    def load(self) -> Campaign:
        """Read the campaign as if all problems that were written were configured."""
        return Campaign.load(self.folder, self.study, self.own, self.problems)


FAST, CLOSE, SLOW, BROKEN = "fast/1", "close/1", "slow/1", "broken/1"
SEARCHED = {FAST: 10.0, CLOSE: 10.05, SLOW: 14.0, BROKEN: None}
REPORTED = {FAST: 10.0, SLOW: 21.0}
LIBRARY, UNSUPPORTED = "library/one", "library/two"
OTHERS = {LIBRARY: 15.0, "floor/256-4": 8.0, "floor/128-1": 16.0, "copy": 1000.0, "empty": 3.3}
KINDS = {"library": "baseline"}
PRECISIONS = ("single", "double")


class SmallCampaign(Recorder):
    """Writes it: `case` by `case`, or `all` of some problems."""

    def timed(self, problem: str, precision: str, kind: str, name: str, micro: float | None, **columns: Any) -> Row:
        scaled = None if micro is None else micro * (1.5 if precision == "double" else 1.0)
        failed = {"status": "launch_error", "message": "too many\nresources"} if micro is None else {}
        return self.row(problem, precision, kind, name, scaled, **{**failed, **columns})

    def search(self, problem: str, precision: str) -> list[Row]:
        return [self.timed(problem, precision, "variant", name, micro) for name, micro in SEARCHED.items()]

    def report(self, problem: str, precision: str, clocks: Iterable[str] = CLOCKS) -> list[Row]:
        told = {"phase": "report", "clocks": clocks}
        rows = [self.timed(problem, precision, "variant", name, micro, **told) for name, micro in REPORTED.items()]
        for name, micro in OTHERS.items():
            kind = name.split("/")[0]
            rows.append(self.timed(problem, precision, KINDS.get(kind, kind), name, micro, **told))
        unsupported = {"status": "unsupported", "message": "needs_a_newer & library"}
        return [*rows, self.timed(problem, precision, "baseline", UNSUPPORTED, None, **unsupported, **told)]

    def case(self, problem: str, precision: str) -> None:
        self.write(problem, precision, "search", self.search(problem, precision))
        self.write(problem, precision, "report", self.report(problem, precision))
        chosen = {"joint": (FAST, [CLOSE]), "schedule": (SLOW, [])}
        self.choose(problem, precision, {(t, clock): answer for clock in CLOCKS for t, answer in chosen.items()})

    def all(self, *problems: str) -> Campaign:
        """Write and read a whole campaign."""
        self.environment()
        for problem in problems:
            self.record(problem, entry="real", n=1000, nnz=7000)
            for precision in PRECISIONS:
                self.case(problem, precision)
        return self.load()


REPOSITORY = Path(__file__).parents[2]
RESULTS = REPOSITORY / "results"


def recorded_campaigns(*, configured: bool = False) -> list[str]:
    """Return the names of all that have rows, and notes of how these were recorded.

    Parameters
    ----------
    configured
        Those alone that a configuration replays.
    """
    names = re.findall(r"^!results/([^/]+)/$", (REPOSITORY / ".gitignore").read_text("utf-8"), re.MULTILINE)
    kept = [
        name for name in sorted(names) if (RESULTS / name / "NOTES.md").exists() and (RESULTS / name / "raw").exists()
    ]
    return [name for name in kept if not configured or (REPOSITORY / f"config/{name}.yaml").exists()]


def studies_of(campaign: str) -> list[str]:
    """Return the studies that a recorded campaign has rows of."""
    return sorted({path.parent.name for path in (RESULTS / campaign).glob("raw/*/*.parquet")})
