"""What a campaign needs: disk, device memory and time, from sizes that are known before anything is built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from repro.bench.records import read_problem
from repro.campaign.batches import Batches
from repro.campaign.plan import Plan
from repro.codegen.targets import Target
from repro.config.models import StudySettings
from repro.errors import ReproError
from repro.problems.outline import Outline
from repro.studies import Pace, Workload, get_study

#: Yardsticks that get the full protocol, and variants and yardsticks that are timed again beside the library: about.
YARDSTICKS, REPEATED = 10, 14
#: Where no size is known: about that of the generated problems.
ASSUMED_SIZE = (10_000, 150_000)


@dataclass(frozen=True)
class Rates:
    """What the times are reckoned with, stated beside every estimate.

    Those of GPUs are least-squares fits to a campaign on an H200, in the papers' space of `compound_spmv`; what cases
    of a study take longer than that is its own (`repro.studies.Pace`). Another GPU's bandwidth changes what large
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
START = 2.0
#: Seconds to build a problem, and to make a table and a figure in all formats.
PROBLEM, TABLE, FIGURE = 1.5, 0.3, 1.0
#: Non-zeros of a problem that are built in a second beside that: read from a packed file, checked, and written again.
BUILT = 1.5e6
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
        START + seconds * len(names)
        for study in plan.studies.values()
        for seconds, names in ((TABLE, study.tables), (FIGURE, study.figures))
        if names
    ]
    # a problem's file has double precision whatever it is measured in
    in_double = ((job.problem, job.operand_bytes * (1 if job.precision == "double" else 2)) for job in jobs)
    problem_bytes = dict(sorted(in_double))
    return Estimate(
        jobs,
        batches.jobs,
        (len(manifests), sum(absent)),
        tuple(START + count * rates.compile / rates.threads for count in absent),
        tuple(START + sum(building_seconds(sizes[name]) for name in names) for names in batches.built_by_job),
        (*presented, START + FIGURE),  # the report
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
    return PROBLEM + size[1] / BUILT


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
    pace = get_study(study).paces.get(target.dialect, Pace())
    in_part = settings.search != "exhaustive" and not work.all_tried
    tried = round(work.variants * (settings.budget if in_part else 1))
    rates = RATES[target.dialect] if starts else replace(RATES[target.dialect], start=0)
    seconds = _seconds(settings, rates, pace, work, tried, target.dialect)
    what = problem.entry or problem.kind
    return Job(study, name, what, precision, size, size_from, work.variants, tried, work.operand_bytes, seconds)


def _seconds(settings: StudySettings, rates: Rates, pace: Pace, work: Workload, tried: int, backend: str) -> float:
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
