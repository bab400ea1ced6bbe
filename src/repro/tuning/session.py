"""The session of a case: the object through which the steps of a study measure one problem in one precision."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from repro.bench.campaign_folder import CampaignFolder
from repro.bench.rows import CLOCKS, TIMED, Row
from repro.bench.runnable import Candidate, Runnable
from repro.bench.store import Store
from repro.bench.trial import Bench
from repro.bench.variant_id import BaseId
from repro.bench.yardsticks import DeviceCopy, Empty, Floor
from repro.codegen.targets import Target
from repro.codegen.templates import StreamConfig, streams
from repro.config.models import Rival, StudySettings, Timing
from repro.problems.problem import Problem
from repro.tuning.final_timing import Probe, shuffled_rounds, twin_of
from repro.tuning.recordings import FeaturesOf, Machine, Prune, load_recordings, prune_nothing
from repro.tuning.search import Choice, Compilation, ProgressCallback, Search, pick, rank_rows
from repro.tuning.strategies import Again, Exhaustive, Predicted, RandomSample, Strategy

#: Number of device-copy configurations to time; a few suffice to find the bandwidth.
COPIES = 4
#: On the CPU, the probe copies this multiple of a solution's bytes, but at least this number of bytes.
PROBE_FACTOR, MIN_PROBE_BYTES = 16, 1 << 20
#: Number of yardsticks of each kind and for each clock that are timed again.
REPEATED = 2


@dataclass(frozen=True)
class Session:
    """An open case: one problem in one precision on the devices. Rows that a killed job has stored are reused."""

    problem: Problem
    bench: Bench
    store: Store
    settings: StudySettings
    seed: int
    #: Folder of the campaign that is measured.
    campaign: CampaignFolder
    #: Function that is called with the name of an activity, the number of finished steps, and the total number of
    #: steps.
    progress: ProgressCallback
    #: By study: facts in the problem's record that only this study needs.
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: Kernels from outside the project for this study; they are timed in the same rounds as the winners.
    rivals: Sequence[Rival] = ()
    #: Folder of the templates, for modules that are compiled on demand.
    templates: Path = Path("kernels")
    #: In a further process (`repro.config.models.Repeats`): kind and name of what it times in the shuffled rounds, each
    #: twice, and the names of the variants that the first process tried.
    repeated: tuple[Container[tuple[str, str]], frozenset[str]] | None = None
    #: Number of modules that are compiled at once.
    jobs: int = 1
    #: Function of problem, precision, names of functions and seed that yields lists of calls of public functions; None
    #: for a study without `Study.calls_module`.
    user_calls: Callable[[Problem, str, Sequence[str], int], Iterator[Sequence[Runnable]]] | None = None

    @property
    def precision(self) -> str:
        return self.bench.operands.precision

    @property
    def timing(self) -> Timing:
        """The configured timing, with a longer timeout for a slow GPU (`Timing.on`)."""
        return self.bench.timing

    @property
    def target(self) -> Target:
        return self.bench.device.target

    @property
    def streams(self) -> list[StreamConfig]:
        """Configurations of the streaming kernel for this device."""
        return streams(self.target)

    @cached_property
    def _search(self) -> Search:
        return Search(self.bench, self.store, self.settings.cache == "cold", self.progress, self.jobs)

    def measure_all(self, runnables: Sequence[Runnable], subject: str) -> list[Row]:
        return self._search.measure_all(runnables, subject)

    def screen_candidates(self, runnables: Sequence[Runnable], subject: str) -> list[Row]:
        return self._search.screen_candidates(runnables, subject)

    def search(
        self,
        strategy: Strategy,
        candidates: Sequence[Candidate],
        subject: str,
        further_finalists: Callable[[Sequence[Row]], Container[str]] = lambda rows: (),
    ) -> list[Row]:
        """Measure the variants that a strategy requests; see `repro.tuning.search.Search.search`."""
        return self._search.search(strategy, candidates, subject, further_finalists)

    def compile(self, runnables: Sequence[Runnable]) -> None:
        """Compile the modules of runnables that are compiled on demand, several at once."""
        Compilation(self.bench, runnables, self.jobs)(range(len(runnables)))

    def keep_packed(self, candidates: Sequence[Candidate]) -> None:
        """Keep packed operands that are needed repeatedly, in at most half of the device's memory.

        Processes that take turns on the device share this half.
        """
        workspace = self.bench.workspace
        workspace.kept_packings = max(1, len({candidate.packing for candidate in candidates}))
        workspace.packing_bytes = self.bench.device.free_bytes() // (2 * workspace.turns)

    def time_in_rounds(self, runnables: Sequence[Runnable]) -> list[Row]:
        if self.repeated:
            runnables = [runnable for runnable in runnables if (runnable.kind, runnable.name) in self.repeated[0]]
            runnables += [twin_of(runnable) for runnable in runnables]
            if not runnables:
                return []
        workspace = self.bench.workspace
        workspace.drop_packings()  # free device memory for the runnables
        workspace.kept_packings, workspace.packing_bytes = max(1, len(runnables)), None
        return shuffled_rounds(self.bench, runnables, self.store, self.seed, self.progress, self._probe)

    @cached_property
    def _probe(self) -> Probe:
        least = None
        if self.bench.device.backend == "opencl":
            least = max(MIN_PROBE_BYTES, PROBE_FACTOR * sum(self.bench.operands.min_bytes))
        return Probe(self.bench, [Empty(), DeviceCopy(self.streams[0], least)])

    def yardsticks(self) -> list[tuple[Runnable, Row]]:
        """Time the streaming floor, a device copy and an empty kernel, as references for other times."""
        shapes = self.streams
        floors, copies = [*map(Floor, shapes)], [*map(DeviceCopy, shapes[:: len(shapes) // COPIES])]
        empty = [Empty()]
        rows = self._search.measure_all(floors, "floor")
        rows += self._search.screen_candidates(copies, "copy")  # copies take long, so few launches suffice
        rows += self._search.measure_all(empty, "empty kernel")
        return list(zip([*floors, *copies, *empty], rows, strict=True))

    def time_all(
        self, variants: Sequence[Candidate], baselines: Sequence[Runnable] = ()
    ) -> Iterator[tuple[str, Sequence[Row] | Sequence[Choice]]]:
        """Take the four steps of a study with few variants; yield the name of each step with its rows or choices.

        `search` times all variants, and `baseline` the yardsticks. `report` times variants, baselines and the fastest
        yardsticks again in the same rounds. `choices` has the fastest variant by each clock, under the tuning `joint`.
        """
        rows = self.measure_all(variants, "variants")
        yield "search", rows
        yardsticks = self.yardsticks()
        yield "baseline", [row for _, row in yardsticks]
        yield "report", self.time_in_rounds([*variants, *fastest_yardsticks(yardsticks), *baselines])
        yield "choices", pick(rows, self.timing.tie, lambda timed, clock: {"joint": timed})

    def strategy(
        self,
        features_of: FeaturesOf,
        id_class: type[BaseId],
        reference: str | None = None,
        prune: Prune = prune_nothing,
    ) -> Strategy:
        """Return the search strategy that the configuration selects.

        See `repro.tuning.strategies.Predicted` for `id_class` and `reference`, and `repro.tuning.recordings` for
        `features_of` and `prune`.

        Raises
        ------
        ReproError
            The strategy `predicted` was selected, but there is no recorded campaign.
        """
        settings, device, campaign = self.settings, self.bench.device, self.campaign
        if self.repeated:
            return Again(self.repeated[1])
        if settings.search == "random":
            return RandomSample(settings.budget, self.seed)
        if settings.search == "exhaustive":
            return Exhaustive()
        campaigns = None if settings.training == "all" else settings.training
        machine = Machine(device.sm_count, device.target.threads_per_sm, device.l2_bytes)
        record = {**self.problem.summary(), "statistics": self.problem.statistics, "facts": self.facts}
        return Predicted(
            load_recordings(
                campaign.path.parent,
                self.bench.study_name,
                device.backend,
                campaigns,
                campaign.name,
                features_of,
                prune,
            ),
            features_of(record, self.precision, machine),
            settings.budget,
            id_class,
            reference,
        )


def fastest_yardsticks(yardsticks: Sequence[tuple[Runnable, Row]]) -> list[Runnable]:
    """Return the fastest yardsticks of each kind by each clock; they are timed again together with the winners."""
    rows_by_kind: dict[str, list[Row]] = {}
    for _, row in yardsticks:
        rows_by_kind.setdefault(row.kind, []).append(row)
    names = {
        row.name
        for rows in rows_by_kind.values()
        for clock in CLOCKS
        # disturbed rows if no row has a valid time: timing them again may succeed
        for row in (
            rank_rows(rows, clock)
            or [row for row in rows if row.status == "disturbed" and not any(one.status in TIMED for one in rows)]
        )[:REPEATED]
    }
    return [runnable for runnable, row in yardsticks if row.name in names]
