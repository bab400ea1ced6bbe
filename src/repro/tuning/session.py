"""One case being measured, a problem of a study in a precision: what the frame offers to a study's steps."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from repro.bench.records import read_problem
from repro.bench.rows import CLOCKS, TIMED, Row
from repro.bench.runnable import Candidate, Runnable
from repro.bench.store import Store
from repro.bench.trial import Bench
from repro.bench.yardsticks import DeviceCopy, Empty, Floor
from repro.codegen.targets import Target
from repro.codegen.templates import Stream, streams
from repro.config.models import StudySettings
from repro.problems.problem import Problem
from repro.tuning.recordings import FeaturesOf, Machine, Prune, load_recordings, prune_nothing
from repro.tuning.rounds import Probe, shuffled_rounds
from repro.tuning.search import ProgressCallback, Search, ranked
from repro.tuning.strategies import Strategy
from repro.tuning.strategies.exhaustive import Exhaustive
from repro.tuning.strategies.predicted import Predicted
from repro.tuning.strategies.random_sample import RandomSample
from repro.tuning.variant_space import PointOf

#: Configurations of a device copy: a few are enough to find what the memory does.
COPIES = 4
#: On the CPU the probe of a case copies so many times what any solution moves, and so many bytes at the least.
PROBE_FACTOR, MIN_PROBE_BYTES = 16, 1 << 20
#: So many of each yardstick are timed again, by each clock.
REPEATED = 2


@dataclass(frozen=True)
class CaseLocation:
    """Where a campaign's case belongs: its study, the campaign's name, and the folder of all campaigns."""

    study: str
    campaign: str
    results: Path


@dataclass(frozen=True)
class Session:
    """An open case.

    Attributes
    ----------
    problem
        What is measured.
    bench, store
        What it is measured on, and where rows go; what a killed job stored is not measured again.
    settings, seed
        As configured.
    place
        Whose case it is.
    progress
        Told how far each stage is.
    """

    problem: Problem
    bench: Bench
    store: Store
    settings: StudySettings
    seed: int
    place: CaseLocation
    progress: ProgressCallback

    @property
    def precision(self) -> str:
        """`single` or `double`."""
        return self.bench.operands.precision

    @property
    def target(self) -> Target:
        """What modules are compiled for."""
        return self.bench.device.target

    @property
    def streams(self) -> list[Stream]:
        """The configurations of the streaming kernels: a floor is the fastest of them."""
        return streams(self.target)

    @cached_property
    def _search(self) -> Search:
        return Search(self.bench, self.store, self.settings.cache == "cold", self.progress)

    def exhaustive(self, runnables: Sequence[Runnable], what: str) -> list[Row]:
        """Try every runnable; return a row each, of the full protocol where it got that far."""
        return self._search.exhaustive(runnables, what)

    def screened(self, runnables: Sequence[Runnable], what: str) -> list[Row]:
        """Try every runnable with a few launches; return a row each."""
        return self._search.screened(runnables, what)

    def search(
        self,
        strategy: Strategy,
        candidates: Sequence[Candidate],
        what: str,
        also: Callable[[Sequence[Row]], Container[str]] = lambda rows: (),
    ) -> list[Row]:
        """Try what a strategy asks for; see `repro.tuning.search.Search.by`."""
        return self._search.by(strategy, candidates, what, also)

    def keep_packed(self, candidates: Sequence[Candidate]) -> None:
        """Keep as many packings on the device as half of its memory takes: each is needed several times.

        Processes that take turns have a part each of that half.
        """
        workspace = self.bench.workspace
        workspace.resident = max(1, len({candidate.packing for candidate in candidates}))
        workspace.packing_bytes = self.bench.device.free_bytes() // (2 * workspace.turns)

    def rounds(self, runnables: Sequence[Runnable]) -> list[Row]:
        """Time runnables side by side in shuffled rounds; return the reported rows."""
        workspace = self.bench.workspace
        workspace.drop_packings()  # what a search held would take the room of what is timed side by side
        workspace.resident, workspace.packing_bytes = max(1, len(runnables)), None
        return shuffled_rounds(self.bench, runnables, self.store, self.seed, self.progress, self._probe)

    @cached_property
    def _probe(self) -> Probe:
        least = None
        if self.bench.device.backend == "opencl":
            least = max(MIN_PROBE_BYTES, PROBE_FACTOR * sum(self.bench.operands.least_bytes))
        return Probe(self.bench, [Empty(), DeviceCopy(self.streams[0], least)])

    @property
    def _record(self) -> Path:
        """Where the campaign has the problem's record."""
        return self.place.results / self.place.campaign / "raw" / "problems" / f"{self.problem.name}.json"

    def yardsticks(self) -> list[tuple[Runnable, Row]]:
        """Time what every time is held against: the streaming floor, a device copy, an empty kernel."""
        shapes = self.streams
        floors, copies = [*map(Floor, shapes)], [*map(DeviceCopy, shapes[:: len(shapes) // COPIES])]
        empty = [Empty()]
        rows = self._search.exhaustive(floors, "floor")
        rows += self._search.screened(copies, "copy")  # long enough for a few launches to say which is best
        rows += self._search.exhaustive(empty, "empty kernel")
        return list(zip([*floors, *copies, *empty], rows, strict=True))

    def strategy(
        self,
        features_of: FeaturesOf,
        point_of: PointOf,
        reference: str | None = None,
        prune: Prune = prune_nothing,
    ) -> Strategy:
        """Return what decides which variants are measured, as the settings ask.

        Parameters
        ----------
        features_of
            What problems are compared by.
        point_of, reference
            See `repro.tuning.strategies.predicted.Predicted`.
        prune
            See `repro.tuning.recordings.recordings`.

        Raises
        ------
        ReproError
            A predicted search has no recorded campaign to learn from.
        """
        settings, device, place = self.settings, self.bench.device, self.place
        if settings.search == "random":
            return RandomSample(settings.budget, self.seed)
        if settings.search == "exhaustive":
            return Exhaustive()
        campaigns = None if settings.training == "all" else settings.training
        machine = Machine(device.n_s, device.target.threads_per_sm, device.l2_bytes)
        record = {**self.problem.summary(), "statistics": self.problem.statistics, "facts": _facts_in(self._record)}
        return Predicted(
            load_recordings(place.results, place.study, device.backend, campaigns, place.campaign, features_of, prune),
            features_of(record, self.precision, machine),
            settings.budget,
            point_of,
            reference,
        )


def _facts_in(record: Path) -> Mapping[str, Any]:
    """Return what studies noted of a problem when it was built, by study; nothing where that left no record."""
    return (read_problem(record).get("facts") or {}) if record.exists() else {}


def fastest_yardsticks(yardsticks: Sequence[tuple[Runnable, Row]]) -> list[Runnable]:
    """Return the fastest of each kind by each clock: those that are timed again beside the winners."""
    of_kind: dict[str, list[Row]] = {}
    for _, row in yardsticks:
        of_kind.setdefault(row.kind, []).append(row)
    names = {
        row.name
        for rows in of_kind.values()
        for clock in CLOCKS
        for row in (ranked(rows, clock) or _disturbed(rows))[:REPEATED]
    }
    return [runnable for runnable, row in yardsticks if row.name in names]


def _disturbed(rows: Sequence[Row]) -> list[Row]:
    """Return the disturbed rows where no other has a time: when they are timed again they may not be disturbed."""
    return [] if any(row.status in TIMED for row in rows) else [row for row in rows if row.status == "disturbed"]
