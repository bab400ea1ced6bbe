"""The jobs of a campaign: which problems share a job, what each needs, and what it requests of a cluster.

Thousands of small problems are hundreds of jobs: a batch is built or measured by one job. A batch leaves one file
when it is made, and rules read this file in place of all that its problems leave, so that Snakemake knows of that
file alone. Whether a problem or a case is stale is decided by its own receipt, as everywhere.

Disk, device memory and time are estimated from sizes that are known before anything is built. A job that exceeds
its request is ended, and one that requests much waits long. So a request is the estimate times a factor, and never
less than a minimum; a repeated attempt requests more (`attempt` of Snakemake's resources). On one machine requests
have no effect. The constants were observed for jobs on two busy cores.

Several processes can share a GPU: while one packs an operand on the host, it lends the GPU to another one, which
measures.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from pathlib import Path

from repro.bench.records import read_problem
from repro.campaign.plan import ModuleGroup, Plan
from repro.codegen.targets import Target
from repro.config.models import StudySettings
from repro.errors import ReproError
from repro.problems.problem import Outline
from repro.studies import CostModel, Workload, get_study

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


#: Yardsticks that get the full protocol, and variants and yardsticks that are timed again beside the library: about.
YARDSTICKS, REPEATED = 10, 14
#: Where no size is known: about that of the generated problems.
ASSUMED_SIZE = (10_000, 150_000)


@dataclass(frozen=True)
class Rates:
    """What the times are reckoned with, stated beside every estimate.

    Those of GPUs are least-squares fits to a campaign on an H200, in the papers' space of `compound_spmv`; what cases
    of a study take longer than that is its own (`repro.studies.CostModel`). Another GPU's bandwidth changes what large
    matrices take, its host what small ones take.

    Attributes
    ----------
    screened, finalist, library
        Bytes of a launch per second: of the average variant, of those near the best, of the library's average routine.
    launch
        Seconds that a launch takes at the least, by events.
    queue
        Seconds that the host takes to queue it, which comes on top.
    variant
        Seconds to verify a variant, and to write its row.
    start
        Seconds until a job measures: Snakemake, Python, device, library.
    host
        Bytes of an operand per second that the host reads and brings into every form that is measured.
    compile
        Seconds to compile a module on one core.
    threads
        Modules of a group that its job compiles at a time.
    module
        Bytes of a module and its source.
    """

    screened: float
    finalist: float
    library: float
    launch: float
    queue: float
    variant: float
    start: float
    host: float
    compile: float
    threads: int
    module: int


RATES = {
    "cuda": Rates(
        1.7e12, 3.6e12, 1.2e12, 6e-6, 6e-6, 8e-4, start=5, host=3e7, compile=5.0, threads=4, module=2_500_000
    ),
    "opencl": Rates(6e9, 6e9, 3e9, 3e-5, 0, 1e-3, start=3, host=3e7, compile=0.4, threads=1, module=300_000),
}
#: Seconds until the first job begins and after the last: the plan, Snakemake, what is out of date.
AROUND = 10.0
#: Seconds until a job that measures nothing does its own.
START_SECONDS = 2.0
#: Seconds to build a problem, and to make a table and a figure in all formats.
PROBLEM_SECONDS, TABLE_SECONDS, FIGURE_SECONDS = 1.5, 0.3, 1.0
#: Non-zeros of a problem that are built in a second beside that: read from a packed file, checked, and written again.
BUILT_PER_SECOND = 1.5e6
#: Seconds that a predicted search takes to read what is recorded and to choose what it tries.
PREDICTED = 3.0


@dataclass(frozen=True)
class Job:
    """One (study, problem, precision); of a batch, which is one job, its first has the seconds until it measures.

    Attributes
    ----------
    what
        What a matrix's non-zeros are, or the kind of problem.
    size, size_from
        Rows and non-zeros, and where they are from: `built`, `stated`, `at most` or `assumed`.
    variants, tried
        How many a search can try, and how many it does.
    operand_bytes
        Of the operand, as the study reckons it; padding takes more.
    seconds
        Expected time on the device.
    """

    study: str
    problem: str
    what: str
    precision: str
    size: tuple[int, int]
    size_from: str
    variants: int
    tried: int
    operand_bytes: int
    seconds: float


@dataclass(frozen=True)
class Estimate:
    """What a campaign needs.

    Attributes
    ----------
    jobs
        One a (study, problem, precision).
    made
        How many jobs build problems, and how many measure.
    modules
        How many modules it needs, and how many of them are not compiled yet.
    compile_seconds, build_seconds, present_seconds
        On one core, of each job: that compiles a group of modules, builds problems, makes tables or figures.
    disk_bytes
        Problems, modules and results.
    device_bytes
        The largest job's, several layouts of its matrix held at a time.
    """

    jobs: tuple[Job, ...]
    made: tuple[int, int]
    modules: tuple[int, int]
    compile_seconds: tuple[float, ...]
    build_seconds: tuple[float, ...]
    present_seconds: tuple[float, ...]
    disk_bytes: int
    device_bytes: int

    def seconds(self, cores: int, devices: int = 1) -> float:
        """Return the expected time of the whole campaign, its parts one after the other.

        Parameters
        ----------
        cores
            For all that does not measure.
        devices
            So many jobs measure at a time, each on a device of its own: on a cluster. One machine measures one.
        """
        beside = (self.compile_seconds, self.build_seconds, self.present_seconds)
        return AROUND + sum(_spread(part, cores) for part in beside) + self.measuring(devices)

    def measuring(self, devices: int = 1) -> float:
        """Return the seconds of measuring alone."""
        return _spread([job.seconds for job in self.jobs], devices)


def _spread(seconds: Sequence[float], cores: int) -> float:
    """Return how long jobs take on some cores: as if evenly dealt out, and as long as the longest at the least."""
    return max(sum(seconds) / cores, max(seconds, default=0.0))


def estimate(plan: Plan, target: Target) -> Estimate:
    """Reckon what a campaign needs that is measured on a device of that target."""
    rates = RATES[target.dialect]
    batches = Batches(plan)
    found = {name: find_size(plan, problem) for name, problem in plan.problems.items()}
    jobs = tuple(reckon(plan, target, *run, run in batches.starting, found[run[1]]) for run in plan.runs)
    sizes = {job.problem: job.size for job in jobs}
    manifests = plan.all_manifests
    groups = [plan.manifests_of(group.study, group.keys) for group in plan.module_groups] + [[plan.common_manifest]]
    absent = [count for paths in groups if (count := sum(not Path(path).exists() for path in paths))]
    presented = [
        START_SECONDS + seconds * len(names)
        for study in plan.studies.values()
        for seconds, names in ((TABLE_SECONDS, study.tables), (FIGURE_SECONDS, study.figures))
        if names
    ]
    # a problem's file has double precision whatever it is measured in
    in_double = ((job.problem, job.operand_bytes * (1 if job.precision == "double" else 2)) for job in jobs)
    problem_bytes = dict(sorted(in_double))
    return Estimate(
        jobs,
        batches.jobs,
        (len(manifests), sum(absent)),
        tuple(START_SECONDS + count * rates.compile / rates.threads for count in absent),
        tuple(START_SECONDS + sum(building_seconds(sizes[name]) for name in names) for names in batches.built_by_job),
        (*presented, START_SECONDS + FIGURE_SECONDS),  # the report
        sum(problem_bytes.values()) + len(manifests) * rates.module + sum(job.tried * 1500 for job in jobs),
        max(4 * job.operand_bytes for job in jobs),
    )


def find_size(plan: Plan, problem: Outline) -> tuple[tuple[int, int], str]:
    """Return rows and non-zeros of a problem, of a field cells and modes of all, and where they are from.

    A damaged record says nothing: the run that asks is what makes it again.
    """
    how = "at most" if problem.at_most else "stated"
    stated = (problem.size, how) if problem.size else (ASSUMED_SIZE, "assumed")
    try:
        record = read_problem(Path(plan.results, "raw", "problems", f"{problem.name}.json"))
    except (FileNotFoundError, ReproError):
        return stated
    n, nnz = record.get("n"), record.get("nnz")
    if record.get("kind") == "field" and "cells" in record:
        n, nnz = record["cells"], record["cells"] * record["modes"]
    return stated if n is None or nnz is None else ((n, nnz), "built")  # it is unavailable


def building_seconds(size: tuple[int, int]) -> float:
    """Reckon the seconds to build a problem of so many rows and non-zeros, without the start of its job."""
    return PROBLEM_SECONDS + size[1] / BUILT_PER_SECOND


def reckon(
    plan: Plan,
    target: Target,
    study: str,
    name: str,
    precision: str,
    starts: bool = True,
    found: tuple[tuple[int, int], str] | None = None,
) -> Job:
    """Reckon what measuring a case needs on a device of that target, by what is known of its size by now.

    Parameters
    ----------
    starts
        Whether its job starts with it: of a batch only the first does.
    found
        What `find_size` returns of the problem, where it was asked already.
    """
    problem, settings = plan.problems[name], plan.studies[study].settings
    size, size_from = found or find_size(plan, problem)
    work = get_study(study).workload(settings, replace(problem, size=size), precision, target)
    pace = get_study(study).paces.get(target.dialect, CostModel())
    in_part = settings.search != "exhaustive" and not work.all_tried
    tried = round(work.variants * (settings.budget if in_part else 1))
    rates = RATES[target.dialect] if starts else replace(RATES[target.dialect], start=0)
    seconds = _seconds(settings, rates, pace, work, tried, target.dialect)
    what = problem.entry or problem.kind
    return Job(study, name, what, precision, size, size_from, work.variants, tried, work.operand_bytes, seconds)


def _seconds(settings: StudySettings, rates: Rates, pace: CostModel, work: Workload, tried: int, backend: str) -> float:
    """Reckon the start, screening, the full protocol by both clocks, the shuffled rounds, and what a study adds."""
    if not work.variants:  # known to be refused
        return 0.0
    timing, moved = settings.timing, work.moved_bytes
    budget = timing.budget(backend)

    def timed(launches: int, bandwidth: float, queue: float = rates.queue) -> float:
        launch = rates.launch + moved / bandwidth
        return min(launches, max(5, budget * min(1, launches / timing.launches) / launch)) * (launch + queue)

    screened = rates.variant + timed(timing.screen_launches, rates.screened)
    in_graphs = timing.search_graph_launches * timing.search_graph_replays
    full = rates.variant + timed(timing.launches, rates.finalist) + timed(in_graphs, rates.finalist, queue=0)
    # the best of each group, by several measures, and those within reach; a search in part may try fewer
    finalists = min(tried, 3 * timing.per_group * work.groups + timing.finalists) + YARDSTICKS

    def repeated(bandwidth: float) -> float:
        graphs = timing.graph_launches * timing.graph_replays
        launches = timing.launches + timing.cold_launches
        return rates.variant + timed(launches, bandwidth) + timed(graphs, bandwidth, queue=0)

    rounds = REPEATED * repeated(rates.finalist) + work.routines * repeated(rates.library)
    launched = moved / rates.host + tried * screened + finalists * full + rounds
    asked = PREDICTED if settings.search == "predicted" and not work.all_tried else 0.0
    packing = work.packing * tried / work.variants
    return rates.start + asked + packing + pace.launches * launched + pace.beside * work.beside


#: How many times longer a job may take than was reckoned, of a GPU and a host that nobody has measured yet.
SLACK = 4
#: Minutes that any job asks for at the least: a file system that many share answers late.
SHORTEST = 10
MIB = 1 << 20
#: MiB of memory of the smallest job that measures, with room for a CUDA context and its libraries; and of all others.
#: The smallest were seen to take 534 on the CPU, and 126.
MEASURING, OTHERS = 4000, 2000
#: Bytes of memory by byte of an operand: to build its problem, and to hold it in all forms that are measured. Seen:
#: 2.6, and from 5 (coordinates) to 64 (products of two matrices) on the CPU, whose memory is the device's as well.
BUILD_MEMORY_FACTOR, MEASURE_MEMORY_FACTOR = 16, 80
#: MiB of each process of a compiler; nvcc was seen to take 172 for a module of 120 kernels.
COMPILER = 1000
#: Bytes of memory and seconds by row of all that are read for tables, figures or the report; and bytes of a row that is
#: recorded. Twice what those of `results/h200`, 140,966, took.
ROW, READING, RECORDED = 14_000, 5e-4, 40


@dataclass(frozen=True)
class Request:
    """What a job asks for.

    Attributes
    ----------
    minutes
        Of wall time.
    megabytes
        Of host memory, in MiB.
    """

    minutes: int
    megabytes: int


class Requests:
    """What the jobs of a plan ask for, each by what is known when it is asked.

    Parameters
    ----------
    plan
        The campaign's.
    batches
        Of that plan.
    """

    def __init__(self, plan: Plan, batches: Batches) -> None:
        self._plan, self._batches = plan, batches
        self._jobs: dict[tuple[str, str, str], Job] = {}

    def building(self, problems: Iterable[str]) -> Request:
        """Return what building problems one after the other asks for.

        Reading one file may take all that the limits allow. A second one of a batch may not: with the limits of fifty a
        job would wait for half a day to be free, to do what takes a minute.
        """
        jobs = [self._job(*run) for name in problems for run in self._runs[name]]
        seconds = sum(map(building_seconds, {job.problem: job.size for job in jobs}.values()))
        largest = max(job.operand_bytes for job in jobs)
        return _request(
            seconds + self._plan.config.limits.seconds / SLACK, OTHERS * MIB + BUILD_MEMORY_FACTOR * largest
        )

    def compiling(self, group: ModuleGroup | None = None) -> Request:
        """Return what compiling a group of modules asks for; without one, the module that all studies share."""
        rates = RATES[self._target.dialect]
        count = len(group.keys) if group else 1
        return _request(count * rates.compile / rates.threads, (OTHERS + rates.threads * COMPILER) * MIB)

    def measuring(self, cases: Iterable[tuple[str, str, str]]) -> Request:
        """Return what measuring cases one after the other asks for; on the CPU the device's memory is the host's."""
        jobs = [self._job(*case) for case in cases]
        largest = max(job.operand_bytes for job in jobs)
        return _request(sum(job.seconds for job in jobs), MEASURING * MIB + MEASURE_MEMORY_FACTOR * largest)

    def presenting(self, study: str) -> Request:
        """Return what a study's tables ask for, or its figures."""
        planned = self._plan.studies[study]
        drawn = TABLE_SECONDS * len(planned.tables) + FIGURE_SECONDS * len(planned.figures)
        return _request(drawn + READING * self._rows[study], OTHERS * MIB + ROW * self._rows[study])

    def concluding(self) -> Request:
        """Return what the report asks for, and the check at the end, which look at all studies."""
        rows = sum(self._rows.values())
        return _request(FIGURE_SECONDS + READING * rows, OTHERS * MIB + ROW * rows)

    @property
    def _target(self) -> Target:
        assert self._plan.target is not None, "a replay measures nothing"
        return self._plan.target

    def _job(self, *run: *tuple[str, str, str]) -> Job:
        """Reckon a case once: Snakemake asks for each resource of a job apart, and more than once."""
        if run not in self._jobs:
            self._jobs[run] = reckon(self._plan, self._target, *run, starts=run in self._batches.starting)
        return self._jobs[run]

    @cached_property
    def _runs(self) -> dict[str, list[tuple[str, str, str]]]:
        """The cases of each problem."""
        runs: dict[str, list[tuple[str, str, str]]] = {}
        for run in self._plan.runs:
            runs.setdefault(run[1], []).append(run)
        return runs

    @cached_property
    def _rows(self) -> dict[str, int]:
        """By study, rows that its tables are made from, at the most."""
        rows = dict.fromkeys(self._plan.studies, 0)
        if self._plan.target is None:
            raw = Path(self._plan.results, "raw")
            for study in rows:
                files = (path for path in self._plan.recorded_files if path.is_relative_to(raw / study))
                rows[study] = sum(path.stat().st_size for path in files) // RECORDED
        else:
            for run in self._plan.runs:
                rows[run[0]] += self._job(*run).tried
        return rows


def _request(seconds: float, nbytes: float) -> Request:
    return Request(SHORTEST + ceil(SLACK * seconds / 60), ceil(nbytes / MIB))


def turns_at(plan: Plan, study: str, limit: int | None) -> int:
    """Return how many processes that measure cases of a study take turns at the devices.

    Parameters
    ----------
    limit
        GPUs that all jobs of this machine may claim at a time, Snakemake's resource `gpu`; None where nobody says, or
        where a cluster gives each job its own.
    """
    return _at_once(plan, limit) if get_study(study).gpu_sharing else 1


def claimed(plan: Plan, study: str, limit: int | None) -> int:
    """Return how many GPUs a job claims that measures cases of a study.

    One of a study that lends nothing leaves room for one other job at the most: some of its times are by the host's
    clock, and those who pack keep the host busy.

    Parameters
    ----------
    limit
        As for `turns_at`.
    """
    return plan.gpus * (1 if get_study(study).gpu_sharing else max(1, _at_once(plan, limit) - 1))


def _at_once(plan: Plan, limit: int | None) -> int:
    return max(1, limit // plan.gpus) if plan.on_gpu and limit else 1
