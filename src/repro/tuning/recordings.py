"""Reads the times of all variants that recorded campaigns measured, for each problem and precision."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.campaign_folder import CampaignFolder
from repro.bench.rows import median_column
from repro.codegen.targets import TARGETS
from repro.errors import ReproError

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]
TIME = median_column("event")
COLUMNS = ("problem", "precision", "kind", "name", "status", "message", "protocol", TIME, "backend",
           "environment")  # fmt: skip


@dataclass(frozen=True)
class Machine:
    """Properties of a device that affect the time of a variant."""

    sm_count: int = 1
    threads_per_sm: int = 1
    cache_bytes: int = 1

    @classmethod
    def of(cls, environment: Mapping[str, Any]) -> Machine:
        """Read the properties from an environment record; a property that no record contains is 1."""
        target = TARGETS.get(str(environment.get("target")))
        return cls(
            int(environment.get("multiprocessors") or 1),
            target.threads_per_sm if target else 1,
            int(environment.get("cache_bytes") or 1),
        )


#: Function that computes a problem's features from its record, precision and device. Features have no units, so that
#: devices can be compared too. A NaN feature is unknown and is ignored in comparisons.
FeaturesOf = Callable[[Mapping[str, Any], str, Machine], Array]
#: Function that marks variants meant for another kind of problem, which a search with a budget skips. Its argument has
#: at least the columns `COLUMNS`.
Prune = Callable[["pd.DataFrame"], "pd.Series"]


def prune_nothing(frame: pd.DataFrame) -> pd.Series:
    import pandas as pd  # slow to import, and each command that compiles imports this module

    return pd.Series(False, index=frame.index)


@dataclass(frozen=True, eq=False)  # compared by identity, as recordings are keys of cached results
class Recording:
    """Recorded search of one problem in one precision."""

    problem: str
    #: Kind of problem, such as the entry type of a matrix; times of one family resemble each other more.
    family: str
    precision: str
    backend: str
    #: Features as returned by `FeaturesOf`.
    features: Array
    #: Median event time of each measured variant, or None if the variant failed.
    seconds: Mapping[str, float | None]
    #: Names of the variants that were timed with the full protocol.
    full: frozenset[str] = field(default=frozenset())

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the measured variants: the space that was searched."""
        return tuple(self.seconds)

    @cached_property
    def fastest(self) -> str:
        """Name of the variant that the search chose: the fastest one timed with the full protocol, or else the fastest
        of all.
        """
        known_seconds = {name: seconds for name, seconds in self.seconds.items() if seconds is not None}
        finalists = {name: known_seconds[name] for name in known_seconds if name in self.full} or known_seconds
        return min(finalists, key=lambda name: finalists[name])

    def among(self, names: Iterable[str]) -> Recording:
        chosen_seconds = {name: self.seconds[name] for name in names}
        return replace(self, seconds=chosen_seconds, full=self.full & chosen_seconds.keys())

    def losses(self, names: Iterable[str]) -> Array:
        """Return the relative loss of the fastest variant so far, after each of a sequence of measured variants.

        The loss is relative to the best time, and infinite until a variant works. A screened median below the best
        fully timed median is noise and counts as zero loss.
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
    """Return one recording for each problem and precision that has a time in the phase `search`.

    `problems` contains problem records by name, and `environments` environment records by hash. Problems without
    statistics are left out.
    """
    recorded_searches = []
    variants = search[search["kind"] == "variant"]
    variants = variants[~prune(variants)]
    for (problem, precision), rows in variants.groupby(["problem", "precision"], sort=True):
        has_time = rows["status"].isin(["ok", "noisy"]) & rows[TIME].notna()
        record = problems.get(str(problem), {})
        if not record.get("statistics") or not has_time.any():
            continue
        first = rows.iloc[0]
        times = zip(rows["name"], rows[TIME], has_time, strict=True)
        machine = Machine.of(environments.get(first["environment"], {}))
        recorded_searches.append(
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
    return recorded_searches


def load_recordings(
    results: Path,
    study_name: str,
    backend: str,
    campaigns: Sequence[str] | None,
    excluded: str,
    features_of: FeaturesOf,
    prune: Prune = prune_nothing,
) -> list[Recording]:
    """Read the recordings of a study on a backend from the given campaigns, or from all campaigns except `excluded`.

    The campaign `excluded` is being measured; using its rows would make results depend on the order of its jobs.

    Raises
    ------
    ReproError
        A given campaign is missing, or no campaign has rows of this study on this backend.
    """
    recorded_campaigns = [
        folder.name for folder in CampaignFolder.measured(results) if folder.study(study_name).is_dir()
    ]
    requested_campaigns = (
        [name for name in recorded_campaigns if name != excluded] if campaigns is None else list(campaigns)
    )
    for name in requested_campaigns:
        if name not in recorded_campaigns:
            raise ReproError(
                "no such campaign to learn from",
                where="training",
                expected=f"campaigns with rows of {study_name}: {', '.join(recorded_campaigns) or 'there are none'}",
                actual=name,
            )
    found_recordings = [
        recording
        for name in requested_campaigns
        for recording in _campaign(CampaignFolder.of(name, results), study_name, features_of, prune)
    ]
    found_recordings = [recording for recording in found_recordings if recording.backend == backend]
    if not found_recordings:
        raise ReproError(
            "no recorded campaign to learn from",
            where=results,
            expected=f"rows of {study_name} on {backend} in a campaign other than {excluded}",
            actual=", ".join(_describe_lack(results, name) for name in requested_campaigns) or "no campaigns",
            todo="measure a campaign with `search: exhaustive` first",
        )
    return found_recordings


def _describe_lack(results: Path, campaign: str) -> str:
    """Return a campaign's name for a message; if it has no problem records, add that a search cannot learn from it."""
    records = CampaignFolder.of(campaign, results).records
    return campaign if any(records.rglob("[!.]*.json")) else f"{campaign} without {records}"


def _campaign(folder: CampaignFolder, study_name: str, features_of: FeaturesOf, prune: Prune) -> tuple[Recording, ...]:
    """Return the recordings of a campaign, cached until the campaign's files change."""
    stats = ((path, path.stat()) for path in folder.training_files(study_name))
    return _read(
        folder,
        study_name,
        features_of,
        prune,
        frozenset((path, stat.st_size, stat.st_ino, stat.st_mtime_ns) for path, stat in stats),
    )


@lru_cache(maxsize=16)
def _read(
    folder: CampaignFolder,
    study_name: str,
    features_of: FeaturesOf,
    prune: Prune,
    _files: frozenset[tuple[Path, int, int, int]],
) -> tuple[Recording, ...]:
    # which need packages of campaigns, and operators, which have records of their own, do without
    from repro.bench.records import read_environments, read_problems
    from repro.bench.store import read_rows

    study_folder = folder.study(study_name)
    rows = read_rows(study_folder, "search")
    if not rows.num_rows:
        return ()
    if missing := [name for name in COLUMNS if name not in rows.column_names]:
        raise ReproError("rows have a different schema", where=study_folder, expected=f"columns {', '.join(missing)}")
    search = rows.select(list(COLUMNS)).to_pandas()
    return tuple(recordings(search, read_problems(folder), read_environments(folder), features_of, prune))
