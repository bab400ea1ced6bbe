"""Batches: small problems that one job builds, or measures, so that thousands of them are hundreds of jobs.

A batch leaves one file when it is made, which rules read in the place of all that its problems leave: Snakemake has to
know of that alone. Whether a problem or a case is stale is said by its own receipt, as everywhere.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from functools import cached_property

from repro.campaign.plan import Plan
from repro.problems.outline import Outline

#: Non-zeros of a problem that has to be a job of its own: more than this.
SMALL = 1_000_000
#: What a batch of problems to build is called where that of cases has study and precision.
PROBLEMS = "problems"


@dataclass(frozen=True)
class Batch:
    """Small problems of one job.

    Attributes
    ----------
    what
        `problems`, which are built; or `STUDY/PRECISION`, in which they are measured.
    number
        Its place among those.
    problems
        Names, in the order of the plan.
    """

    what: str
    number: int
    problems: tuple[str, ...]

    @property
    def name(self) -> str:
        """What tells it from the others of a campaign: `compressed_coo/double/0012`."""
        return f"{self.what}/{self.number:04}"

    @property
    def cases(self) -> list[tuple[str, str, str]]:
        """Every (study, problem, precision) that it measures."""
        study, _, precision = self.what.partition("/")
        return [(study, problem, precision) for problem in self.problems] if precision else []

    @property
    def steps(self) -> list[str]:
        """Names of the steps that it makes."""
        if self.what == PROBLEMS:
            return [f"problem {problem}" for problem in self.problems]
        return [f"measure {' '.join(case)}" for case in self.cases]


class Batches:
    """The batches of a campaign, and the files that its jobs read where they are made in batches.

    Parameters
    ----------
    plan
        Of the campaign. With `batch: 1`, and in a replay, there are no batches.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._most = 1 if plan.config.replay else plan.config.batch

    @cached_property
    def building(self) -> list[Batch]:
        """Those of problems to build."""
        return self._dealt(PROBLEMS, self._plan.problems)

    @cached_property
    def measuring(self) -> list[Batch]:
        """Those of cases to measure: of one study and one precision each."""
        return [
            batch
            for study in self._plan.studies.values()
            for precision in study.settings.precisions
            for batch in self._dealt(f"{study.name}/{precision}", study.problems)
        ]

    @cached_property
    def _named(self) -> dict[str, Batch]:
        return {batch.name: batch for batch in (*self.building, *self.measuring)}

    @cached_property
    def _builds(self) -> dict[str, Batch]:
        """Which of them builds a problem."""
        return {problem: batch for batch in self.building for problem in batch.problems}

    def __getitem__(self, name: str) -> Batch:
        return self._named[name]

    @cached_property
    def starting(self) -> frozenset[tuple[str, str, str]]:
        """Every (study, problem, precision) that a job starts with: of a batch the first."""
        return frozenset([*self.alone, *(batch.cases[0] for batch in self.measuring)])

    @property
    def alone(self) -> list[tuple[str, str, str]]:
        """Every (study, problem, precision) that is a job of its own."""
        return [run for run in self._plan.runs if run[1] not in self._builds]

    @property
    def built_by_job(self) -> list[tuple[str, ...]]:
        """The problems that each job builds."""
        alone = ((name,) for name in self._plan.problems if name not in self._builds)
        return [*(batch.problems for batch in self.building), *alone]

    @property
    def jobs(self) -> tuple[int, int]:
        """How many jobs build, and how many measure."""
        return len(self.built_by_job), len(self.measuring) + len(self.alone)

    def stale(self, stale: Container[str]) -> list[str]:
        """Return the files of those batches of which a step is stale, by the names of all that are."""
        return [self.path(batch) for batch in self._named.values() if any(step in stale for step in batch.steps)]

    def path(self, batch: Batch) -> str:
        """Return the file that says that a batch is made."""
        return f"{self._plan.results}/batches/{batch.name}"

    @property
    def matrices(self) -> list[str]:
        """What says of every problem that it is built: its file, or its batch's; none in a replay."""
        return [] if self._plan.config.replay else self._of_problems(self._plan.problems)

    def raw(self, study: str) -> list[str]:
        """Return what a study's artifacts wait for: `Plan.raw`, the batches in the place of what they leave."""
        if not self.building:
            return self._plan.raw(study)
        alone = self._plan.raw(study, [name for name in self._plan.studies[study].problems if name not in self._builds])
        measured = [self.path(batch) for batch in self.measuring if batch.what.startswith(f"{study}/")]
        batches = dict.fromkeys(
            self.path(self._builds[name]) for name in self._plan.studies[study].problems if name in self._builds
        )
        return [*batches, *measured, *alone]

    @cached_property
    def all_raw(self) -> list[str]:
        """Of all studies what `raw` has."""
        return [*dict.fromkeys(path for study in self._plan.studies for path in self.raw(study))]

    def ahead(self, study: str) -> list[str]:
        """Return what the jobs that measure a study wait for; none in a replay."""
        groups = () if self._plan.config.replay else self._plan.module_groups
        modules = [path for of in groups if of.study == study for path in self._plan.manifests_of(study, of.keys)]
        common = [self._plan.common_manifest] if modules else []
        problems = [] if self._plan.config.replay else self._of_problems(self._plan.studies[study].problems)
        return [*problems, *modules, *common]

    @property
    def all_ahead(self) -> list[str]:
        """What all jobs that measure wait for, and any that no study needs."""
        return [*self.matrices, *self._plan.all_manifests]

    def read_by(self, batch: Batch) -> list[str]:
        """Return the files that measuring a batch waits for."""
        manifests = dict.fromkeys(path for case in batch.cases for path in self._plan.manifests(*case))
        return [*self._of_problems(batch.problems), *manifests]

    def _of_problems(self, names: Iterable[str]) -> list[str]:
        files = (
            self.path(self._builds[name]) if name in self._builds else f"{self._plan.results}/problems/{name}.npz"
            for name in names
        )
        return [*dict.fromkeys(files)]

    def _dealt(self, what: str, names: Iterable[str]) -> list[Batch]:
        small = [name for name in names if is_small(self._plan.problems[name])] if self._most > 1 else []
        return [
            Batch(what, number, tuple(small[first : first + self._most]))
            for number, first in enumerate(range(0, len(small), self._most))
        ]


def is_small(problem: Outline) -> bool:
    """Say whether a problem is small: by its size, and where none is known, whether it is generated."""
    if problem.size is None:
        return problem.definition.get("source") == "generated"
    return problem.size[1] <= SMALL
