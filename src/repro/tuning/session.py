"""One case being measured, a problem of a study in a precision: what the frame offers to a study's steps."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from repro.bench.rows import CLOCKS, TIMED, Row
from repro.bench.runnable import Candidate, Runnable
from repro.bench.store import Store
from repro.bench.trial import Bench
from repro.bench.yardsticks import Copy, Empty, Floor
from repro.codegen.common import streams
from repro.codegen.targets import Target
from repro.config.models import StudySettings
from repro.problems.problem import Problem
from repro.tuning.choose import ranked
from repro.tuning.probe import Probe
from repro.tuning.recordings import FeaturesOf, Machine, load_recordings
from repro.tuning.rounds import shuffled_rounds
from repro.tuning.search import Progress, Search
from repro.tuning.space import PointOf
from repro.tuning.strategies import Strategy
from repro.tuning.strategies.exhaustive import Exhaustive
from repro.tuning.strategies.predicted import Predicted
from repro.tuning.strategies.random_sample import RandomSample

#: Configurations of a device copy: a few are enough to find what the memory does.
COPIES = 4
#: So many of each yardstick are timed again, by each clock.
REPEATED = 2


@dataclass(frozen=True)
class Place:
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
    place: Place
    progress: Progress

    @property
    def precision(self) -> str:
        """`single` or `double`."""
        return self.bench.operands.precision

    @property
    def target(self) -> Target:
        """What modules are compiled for."""
        return self.bench.device.target

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

    def hold(self, candidates: Sequence[Candidate]) -> None:
        """Keep as many packings on the device as half of its memory takes: a search jumps from one to the other."""
        packings = len({candidate.packing for candidate in candidates})
        fitting = self.bench.device.free_bytes() // (2 * max(1, sum(self.bench.operands.least_bytes)))
        self.bench.workspace.resident = max(1, min(packings, fitting))

    def rounds(self, runnables: Sequence[Runnable]) -> list[Row]:
        """Time runnables side by side in shuffled rounds; return the reported rows."""
        self.bench.workspace.drop_packings()  # what a search held would take the room of what is timed side by side
        self.bench.workspace.resident = max(1, len(runnables))
        return shuffled_rounds(self.bench, runnables, self.store, self.seed, self.progress, self._probe)

    @cached_property
    def _probe(self) -> Probe:
        return Probe(self.bench, [Empty(), Copy(streams(self.target)[0])])

    def yardsticks(self) -> list[tuple[Runnable, Row]]:
        """Time what every time is held against: the streaming floor, a device copy, an empty kernel."""
        shapes = streams(self.target)
        floors, copies = [*map(Floor, shapes)], [*map(Copy, shapes[:: len(shapes) // COPIES])]
        empty = [Empty()]
        rows = self._search.exhaustive(floors, "floor")
        rows += self._search.screened(copies, "copy")  # long enough for a few launches to say which is best
        rows += self._search.exhaustive(empty, "empty kernel")
        return list(zip([*floors, *copies, *empty], rows, strict=True))

    def strategy(self, features_of: FeaturesOf, point_of: PointOf, reference: str | None = None) -> Strategy:
        """Return what decides which variants are measured, as the settings ask.

        Parameters
        ----------
        features_of
            What problems are compared by.
        point_of, reference
            See `repro.tuning.strategies.predicted.Predicted`.

        Raises
        ------
        ReproError
            A predicted search has no recorded campaign to learn from.
        """
        settings, device = self.settings, self.bench.device
        if settings.search == "random":
            return RandomSample(settings.budget, self.seed)
        if settings.search == "exhaustive":
            return Exhaustive()
        campaigns = None if settings.training == "all" else settings.training
        machine = Machine(device.n_s, device.target.threads_per_sm, device.l2_bytes)
        record = {**self.problem.summary(), "statistics": self.problem.statistics}
        return Predicted(
            load_recordings(
                self.place.results, self.place.study, device.backend, campaigns, self.place.campaign, features_of
            ),
            features_of(record, self.precision, machine),
            settings.budget,
            point_of,
            reference,
        )


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
