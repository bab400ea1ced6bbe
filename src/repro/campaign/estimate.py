"""What a campaign needs: disk, device memory and time, from sizes that are known before anything is built."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from repro.bench.records import read_problem
from repro.campaign.plan import Plan
from repro.codegen.targets import Target
from repro.config.models import StudySettings
from repro.problems.outline import Outline
from repro.studies import Workload, get_study

#: Yardsticks that get the full protocol, and variants and yardsticks that are timed again beside the library: about.
YARDSTICKS, REPEATED = 10, 14
#: Where no size is known: about that of the generated problems.
ASSUMED_SIZE = (10_000, 150_000)


@dataclass(frozen=True)
class Rates:
    """What the times are reckoned with, stated beside every estimate.

    Those of GPUs are least-squares fits to a campaign on an H200 before the recorded one, in the papers' space. They
    reckon three fifths of what the recorded one took to search our space and repeat its winners, and as little as a
    third for one job. Another GPU's bandwidth changes what large matrices take, its host what small ones take.

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
        Seconds until a job measures: Python, device, library.
    host
        Bytes of an operand per second that the host reads and brings into every form that is measured.
    compile
        Seconds to compile a module on one core.
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
    module: int


RATES = {
    "cuda": Rates(1.7e12, 3.6e12, 1.2e12, 6e-6, 6e-6, 8e-4, start=5, host=3e7, compile=5.0, module=2_500_000),
    "opencl": Rates(6e9, 6e9, 3e9, 3e-5, 0, 1e-3, start=2, host=3e7, compile=0.3, module=300_000),
}


@dataclass(frozen=True)
class Job:
    """One (study, problem, precision).

    Attributes
    ----------
    what
        What a matrix's non-zeros are, or the kind of problem.
    size, size_from
        Rows and non-zeros, and where they are from: `built`, `stated`, `at most` or `assumed`.
    variants
        How many a search can try.
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
    operand_bytes: int
    seconds: float


@dataclass(frozen=True)
class Estimate:
    """What a campaign needs.

    Attributes
    ----------
    jobs
        One a (study, problem, precision).
    modules
        How many modules it needs, and how many of them are not compiled yet.
    compile_seconds
        On one core.
    disk_bytes
        Problems, modules and results.
    device_bytes
        The largest job's, several layouts of its matrix held at a time.
    """

    jobs: tuple[Job, ...]
    modules: tuple[int, int]
    compile_seconds: float
    disk_bytes: int
    device_bytes: int

    def seconds(self, cores: int) -> float:
        """Return the expected time of the whole campaign."""
        return self.compile_seconds / cores + sum(job.seconds for job in self.jobs)


def estimate(plan: Plan, target: Target) -> Estimate:
    """Reckon what a campaign needs that is measured on a device of that target."""
    rates = RATES[target.dialect]
    jobs = tuple(_job(plan, rates, target, *run) for run in plan.runs)
    manifests = plan.all_manifests
    absent = [path for path in manifests if not Path(path).exists()]
    # a problem's file has double precision whatever it is measured in
    problem_bytes = {job.problem: 2 * job.operand_bytes for job in jobs}
    return Estimate(
        jobs,
        (len(manifests), len(absent)),
        len(absent) * rates.compile,
        sum(problem_bytes.values()) + len(manifests) * rates.module + sum(job.variants * 1500 for job in jobs),
        max(4 * job.operand_bytes for job in jobs),
    )


def find_size(plan: Plan, problem: Outline) -> tuple[tuple[int, int], str]:
    """Return rows and non-zeros of a problem, of a field cells and modes of all, and where they are from.

    Raises
    ------
    ReproError
        The record of the problem is damaged.
    """
    how = "at most" if problem.at_most else "stated"
    stated = (problem.size, how) if problem.size else (ASSUMED_SIZE, "assumed")
    try:
        record = read_problem(Path(plan.results, "raw", "problems", f"{problem.name}.json"))
    except FileNotFoundError:
        return stated
    n, nnz = record.get("n"), record.get("nnz")
    if record.get("kind") == "field" and "cells" in record:
        n, nnz = record["cells"], record["cells"] * record["modes"]
    return stated if n is None or nnz is None else ((n, nnz), "built")  # it is unavailable


def _job(plan: Plan, rates: Rates, target: Target, study: str, name: str, precision: str) -> Job:
    problem, settings = plan.problems[name], plan.studies[study].settings
    size, size_from = find_size(plan, problem)
    work = get_study(study).workload(settings, replace(problem, size=size), precision, target)
    seconds = _seconds(settings, rates, work, target.dialect)
    what = problem.entry or problem.kind
    return Job(study, name, what, precision, size, size_from, work.variants, work.operand_bytes, seconds)


def _seconds(settings: StudySettings, rates: Rates, work: Workload, backend: str) -> float:
    """Reckon the start, screening, the full protocol by both clocks, and the shuffled rounds."""
    if not work.variants:  # known to be refused
        return 0.0
    timing, moved = settings.timing, work.moved_bytes
    budget = timing.budget(backend)
    variants = round(work.variants * (1 if settings.search == "exhaustive" else settings.budget))

    def timed(launches: int, bandwidth: float, queue: float = rates.queue) -> float:
        launch = rates.launch + moved / bandwidth
        return min(launches, max(5, budget * min(1, launches / timing.launches) / launch)) * (launch + queue)

    screened = rates.variant + timed(timing.screen_launches, rates.screened)
    in_graphs = timing.search_graph_launches * timing.search_graph_replays
    full = rates.variant + timed(timing.launches, rates.finalist) + timed(in_graphs, rates.finalist, queue=0)
    # the best of each group, by several measures, and those within reach
    finalists = 3 * timing.per_group * work.groups + timing.finalists + YARDSTICKS

    def repeated(bandwidth: float) -> float:
        graphs = timing.graph_launches * timing.graph_replays
        launches = timing.launches + timing.cold_launches
        return rates.variant + timed(launches, bandwidth) + timed(graphs, bandwidth, queue=0)

    rounds = REPEATED * repeated(rates.finalist) + work.routines * repeated(rates.library)
    return rates.start + moved / rates.host + variants * screened + finalists * full + rounds
