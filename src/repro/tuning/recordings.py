"""What recorded campaigns know: for each problem and precision the times of all variants that were tried."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from repro.bench.records import read_environments, read_problems
from repro.bench.store import read_rows
from repro.codegen.targets import TARGETS
from repro.errors import ReproError

Array = NDArray[np.float64]
COLUMNS = ("problem", "precision", "kind", "name", "status", "message", "protocol", "event_median", "backend",
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


#: Returns what problems are compared by, of a problem's record, a precision and a machine; free of units, so that
#: devices of one kind can be compared too. NaN is what a record does not say, and problems are not compared by it.
FeaturesOf = Callable[[Mapping[str, Any], str, Machine], Array]
#: Says of searched rows, with `COLUMNS` at least, which are of variants that are for another kind of problem: a search
#: with a budget does not try them.
Prune = Callable[[pd.DataFrame], pd.Series]


def prune_nothing(rows: pd.DataFrame) -> pd.Series:
    """Say of no row that a search would not try its variant."""
    return pd.Series(False, index=rows.index)


@dataclass(frozen=True)
class Recording:
    """One problem in one precision, searched before.

    Attributes
    ----------
    problem, precision, backend
        What was searched, and where.
    family
        The kind of problem, within which times tell more of each other: of a matrix its entry.
    features
        What `FeaturesOf` returns of it.
    seconds
        Median by the event clock of each variant that was tried, None where it failed.
    full
        The names that were timed by the full protocol.
    """

    problem: str
    family: str
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

    def among(self, names: Iterable[str]) -> Recording:
        """Return the same of some of its variants alone."""
        kept = {name: self.seconds[name] for name in names}
        return replace(self, seconds=kept, full=self.full & kept.keys())

    def losses(self, names: Iterable[str]) -> Array:
        """Return by what share the fastest so far is slower than the fastest of all, after each of some variants.

        A screened median below the best full one is noise and counts as no loss; infinite as long as all failed.
        """
        times = [np.inf if (seconds := self.seconds[name]) is None else seconds for name in names]
        best = self.seconds[self.fastest]
        assert best is not None
        return np.maximum(np.minimum.accumulate(np.array(times)) / best - 1, 0.0)


def recordings(
    search: pd.DataFrame,
    problems: Mapping[str, Mapping[str, Any]],
    environments: Mapping[str, Mapping[str, Any]],
    features_of: FeaturesOf,
    prune: Prune = prune_nothing,
) -> list[Recording]:
    """Return a recording for each problem and precision of which a search has timed anything.

    Parameters
    ----------
    search
        Rows of the phase `search`, with `COLUMNS` at least.
    problems
        Records by the problem's name; problems without statistics are left out.
    environments
        Environment records by hash.
    features_of
        What problems are compared by.
    prune
        Which rows are left out, because a search of the problem would not try them.
    """
    searched = []
    variants = search[search["kind"] == "variant"]
    variants = variants[~prune(variants)]
    for (problem, precision), rows in variants.groupby(["problem", "precision"], sort=True):
        timed = rows["status"].isin(["ok", "noisy"]) & rows["event_median"].notna()
        record = problems.get(str(problem), {})
        if not record.get("statistics") or not timed.any():
            continue
        first = rows.iloc[0]
        times = zip(rows["name"], rows["event_median"], timed, strict=True)
        machine = Machine.of(environments.get(first["environment"], {}))
        searched.append(
            Recording(
                problem=str(problem),
                family=str(record.get("entry", record.get("kind"))),
                precision=str(precision),
                backend=first["backend"],
                features=features_of(record, str(precision), machine),
                seconds={name: float(median) if ok else None for name, median, ok in times},
                full=frozenset(rows["name"][rows["protocol"] == "full"]),
            )
        )
    return searched


def load_recordings(
    results: Path,
    study: str,
    backend: str,
    campaigns: Sequence[str] | None,
    without: str,
    features_of: FeaturesOf,
    prune: Prune = prune_nothing,
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
    features_of, prune
        See `recordings`.

    Raises
    ------
    ReproError
        A campaign that was asked for is not there, or nothing is recorded of the study on the backend.
    """
    there = sorted(path.parent.name for path in results.glob("[!.]*/raw") if (path / study).is_dir())
    wanted = [name for name in there if name != without] if campaigns is None else list(campaigns)
    for name in wanted:
        if name not in there:
            raise ReproError(
                "no such campaign to learn from",
                where="training",
                expected=f"campaigns with rows of {study}: {', '.join(there) or 'there are none'}",
                actual=name,
            )
    recorded = [one for name in wanted for one in _campaign(results / name / "raw", study, features_of, prune)]
    recorded = [one for one in recorded if one.backend == backend]
    if not recorded:
        raise ReproError(
            "no recorded campaign to learn from",
            where=results,
            expected=f"rows of {study} on {backend} in a campaign other than {without}",
            actual=", ".join(there) or "no campaigns",
            todo="measure a campaign with `search: exhaustive` first",
        )
    return recorded


def _campaign(raw: Path, study: str, features_of: FeaturesOf, prune: Prune) -> tuple[Recording, ...]:
    """Return what a campaign has recorded; a process reads it once, for all the cases of a batch, while it stays."""
    searches = (raw / study).rglob("search.parquet")
    records = (path for folder in ("problems", "environment") for path in (raw / folder).rglob("[!.]*.json"))
    stats = ((path, path.stat()) for path in (*searches, *records))
    return _read(
        raw,
        study,
        features_of,
        prune,
        frozenset((path, at.st_size, at.st_ino, at.st_mtime_ns) for path, at in stats),
    )


@lru_cache(maxsize=16)
def _read(
    raw: Path, study: str, features_of: FeaturesOf, prune: Prune, _files: frozenset[tuple[Path, int, int, int]]
) -> tuple[Recording, ...]:
    rows = read_rows(raw / study, "search")
    if not rows.num_rows:
        return ()
    if missing := [name for name in COLUMNS if name not in rows.column_names]:
        raise ReproError("rows of another schema", where=raw / study, expected=f"columns {', '.join(missing)}")
    search = rows.select(list(COLUMNS)).to_pandas()
    return tuple(recordings(search, read_problems(raw), read_environments(raw), features_of, prune))
