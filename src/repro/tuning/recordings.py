"""What recorded campaigns know: for each problem and precision the times of all variants that were tried."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import NDArray

from repro.bench.workspace import DTYPES
from repro.codegen.targets import TARGETS
from repro.entries import get_entry
from repro.errors import ReproError

Array = NDArray[np.float64]
COLUMNS = ("problem", "entry", "precision", "kind", "name", "status", "protocol", "event_median", "backend",
           "environment")  # fmt: skip


@dataclass(frozen=True)
class Machine:
    """What of a device a time depends on: multiprocessors, threads that each holds, bytes of the last-level cache."""

    n_s: int = 1
    threads_per_sm: int = 1
    cache_bytes: int = 1

    @classmethod
    def of(cls, environment: Mapping[str, Any]) -> Machine:
        """Read an environment record; what it does not say is 1, the same for all problems of its campaign."""
        target = TARGETS.get(str(environment.get("target")))
        return cls(
            int(environment.get("multiprocessors") or 1),
            target.threads_per_sm if target else 1,
            int(environment.get("cache_bytes") or 1),
        )


def features(statistics: Mapping[str, Any], entry: str, precision: str, machine: Machine) -> Array:
    """Return what problems are compared by, free of units so that devices of one kind can be compared too: `(9,)`.

    Logarithms of rows per thread that the device can hold, mean length of a row, longest over mean row, bytes of the
    matrix (CSR-AoS) over those of the cache, entry's bytes, members, vector members and number's bytes; median
    bandwidth as a share of the rows (2020 paper, equation 3).
    """
    kind, number = get_entry(entry), np.dtype(DTYPES[precision]).itemsize
    rows, nonzeros = max(statistics["rows"], 1), max(statistics["nonzeros"], 1)
    entry_bytes = len(kind.members) * number
    logarithms = np.log2([
        rows / (machine.n_s * machine.threads_per_sm),
        nonzeros / rows,
        max(statistics["ell_factor"], 1.0),
        (nonzeros * (entry_bytes + 4) + rows * 4) / machine.cache_bytes,
        entry_bytes,
        len(kind.members),
        kind.size,
        number,
    ])  # fmt: skip
    return np.append(logarithms, statistics["bandwidth_percent"]["median"] / 100)


@dataclass(frozen=True)
class Recording:
    """One problem in one precision, searched before.

    Attributes
    ----------
    problem, entry, precision, backend
        What was searched, and where.
    features
        See `features`.
    seconds
        Median by the event clock of each variant that was tried, None where it failed.
    full
        The names that were timed by the full protocol.
    """

    problem: str
    entry: str
    precision: str
    backend: str
    features: Array
    seconds: Mapping[str, float | None]
    full: frozenset[str] = field(default=frozenset())

    @property
    def names(self) -> tuple[str, ...]:
        """All variants that were tried."""
        return tuple(self.seconds)

    @cached_property
    def fastest(self) -> str:
        """What the search chose: the fastest of those timed in full, else of all."""
        timed = {name: seconds for name, seconds in self.seconds.items() if seconds is not None}
        finalists = {name: timed[name] for name in timed if name in self.full} or timed
        return min(finalists, key=lambda name: finalists[name])

    def losses(self, names: Iterable[str]) -> Array:
        """Return by what share the fastest so far is slower than the fastest of all, after each of some variants.

        A screened median below the best full one is noise and counts as no loss; infinite as long as all failed.
        """
        times = [np.inf if (seconds := self.seconds[name]) is None else seconds for name in names]
        best = self.seconds[self.fastest]
        assert best is not None
        return np.maximum(np.minimum.accumulate(np.array(times)) / best - 1, 0.0)


def recordings(
    search: pd.DataFrame, problems: Mapping[str, Mapping[str, Any]], environments: Mapping[str, Mapping[str, Any]]
) -> list[Recording]:
    """Return a recording for each problem and precision of which a search has timed anything.

    Parameters
    ----------
    search
        Rows of the phase `search`, with `COLUMNS` at least.
    problems
        Statistics by the problem's name; problems without are left out.
    environments
        Environment records by hash.
    """
    found = []
    variants = search[search["kind"] == "variant"]
    for (problem, precision), rows in variants.groupby(["problem", "precision"], sort=True):
        timed = rows["status"].isin(["ok", "noisy"]) & rows["event_median"].notna()
        if str(problem) not in problems or not timed.any():
            continue
        first = rows.iloc[0]
        times = zip(rows["name"], rows["event_median"], timed, strict=True)
        machine = Machine.of(environments.get(first["environment"], {}))
        found.append(
            Recording(
                problem=str(problem),
                entry=first["entry"],
                precision=str(precision),
                backend=first["backend"],
                features=features(problems[str(problem)], first["entry"], str(precision), machine),
                seconds={name: float(median) if ok else None for name, median, ok in times},
                full=frozenset(rows["name"][rows["protocol"] == "full"]),
            )
        )
    return found


def load_recordings(
    results: Path, study: str, backend: str, campaigns: Sequence[str] | None, without: str
) -> list[Recording]:
    """Read what campaigns have recorded of a study on a backend.

    Parameters
    ----------
    results
        The folder of all campaigns.
    campaigns
        Those to read; None for all that there are.
    without
        The campaign that is being measured: it does not learn from itself, or its jobs' order would matter.

    Raises
    ------
    ReproError
        A campaign that was asked for is not there, or nothing is recorded of the study on the backend.
    """
    there = sorted(path.parent.name for path in results.glob("*/raw") if (path / study).is_dir())
    wanted = [name for name in there if name != without] if campaigns is None else list(campaigns)
    for name in wanted:
        if name not in there:
            raise ReproError(
                "no such campaign to learn from",
                where="training",
                expected=f"campaigns with rows of {study}: {', '.join(there) or 'there are none'}",
                actual=name,
            )
    found = [each for name in wanted for each in _campaign(results / name / "raw", study) if each.backend == backend]
    if not found:
        raise ReproError(
            "no recorded campaign to learn from",
            where=results,
            expected=f"rows of {study} on {backend} in a campaign other than {without}",
            actual=", ".join(there) or "no campaigns",
            todo="measure a campaign with `search: exhaustive` first",
        )
    return found


def _campaign(raw: Path, study: str) -> list[Recording]:
    frames = []
    for path in sorted((raw / study).rglob("search.parquet")):
        held = set(pq.read_schema(path).names)
        if held >= set(COLUMNS):  # else a problem that could not be had
            frames.append(pd.read_parquet(path, columns=list(COLUMNS)))
    frames = [frame for frame in frames if frame["event_median"].notna().any()]
    if not frames:
        return []
    problems = {}
    for path in sorted((raw / "problems").rglob("*.json")):
        record = json.loads(path.read_text())
        if record.get("statistics"):
            problems[record["name"]] = record["statistics"]
    environments = {path.stem: json.loads(path.read_text()) for path in (raw / "environment").glob("*.json")}
    return recordings(pd.concat(frames, ignore_index=True), problems, environments)
