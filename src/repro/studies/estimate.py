"""What a campaign needs: disk, device memory and time, from sizes that are known before anything is built."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from repro.baselines import for_problem
from repro.bench.workspace import DTYPES
from repro.codegen.targets import Target
from repro.config.models import Study
from repro.entries import get_entry
from repro.studies.plan import Plan, PlannedProblem
from repro.studies.registry import get_study

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
        Bytes of CSR per second: of the average variant, of those near the best, of the library's average routine.
    launch
        Seconds that a launch takes at the least, by events.
    queue
        Seconds that the host takes to queue it, which comes on top.
    variant
        Seconds to verify a variant, and to write its row.
    start
        Seconds until a job measures: Python, device, library.
    host
        Bytes of CSR per second that are read, packed into all layouts and expanded for the library.
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
    size, size_from
        Rows and non-zeros, and where they are from: `built`, `stated` or `assumed`.
    variants
        Layouts times schedules.
    matrix_bytes
        In CSR; padded layouts take more.
    seconds
        Expected time on the device.
    """

    study: str
    problem: str
    entry: str
    precision: str
    size: tuple[int, int]
    size_from: str
    variants: int
    matrix_bytes: int
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
    problem_bytes = {job.problem: job.size[1] * (4 + 8 * len(get_entry(job.entry).members)) for job in jobs}
    return Estimate(
        jobs,
        (len(manifests), len(absent)),
        len(absent) * rates.compile,
        sum(problem_bytes.values()) + len(manifests) * rates.module + sum(job.variants * 1500 for job in jobs),
        max(4 * job.matrix_bytes for job in jobs),
    )


def find_size(plan: Plan, problem: PlannedProblem) -> tuple[tuple[int, int], str]:
    """Return rows and non-zeros of a problem, and where they are from."""
    try:
        record = json.loads(Path(plan.results, "raw", "problems", f"{problem.name}.json").read_text())
        return (record["n"], record["nnz"]), "built"
    except (OSError, ValueError, KeyError):  # not built yet, or unavailable
        return (problem.size, "stated") if problem.size else (ASSUMED_SIZE, "assumed")


def _job(plan: Plan, rates: Rates, target: Target, study: str, name: str, precision: str) -> Job:
    problem, planned = plan.problems[name], plan.studies[study]
    (rows, nonzeros), size_from = find_size(plan, problem)
    entry = get_entry(problem.entry)
    number = DTYPES[precision]().nbytes
    matrix = 4 * (rows + 1) + nonzeros * (4 + number * len(entry.members))
    module = get_study(study)
    spaces = {
        space: module.layouts(planned.settings, space, problem.entry) for space in module.spaces(planned.settings)
    }
    sizes = [sum(len(module.schedules(target, space, layout)) for layout in found) for space, found in spaces.items()]
    layouts = sum(map(len, spaces.values()))
    seconds = _seconds(
        planned.settings,
        rates,
        matrix + 2 * rows * number * entry.size,
        round(sum(sizes) * (1 if planned.settings.search == "exhaustive" else planned.settings.budget)),
        layouts,
        len(for_problem(problem.entry, target.dialect)),
        target.dialect,
    )
    return Job(study, name, problem.entry, precision, (rows, nonzeros), size_from, sum(sizes), matrix, seconds)


def _seconds(
    settings: Study, rates: Rates, moved: int, variants: int, layouts: int, routines: int, backend: str
) -> float:
    """Reckon the start, screening, the full protocol by both clocks, and the shuffled rounds."""
    protocol = settings.protocol
    budget = protocol.budget(backend)

    def timed(launches: int, bandwidth: float, queue: float = rates.queue) -> float:
        launch = rates.launch + moved / bandwidth
        return min(launches, max(5, budget * min(1, launches / protocol.launches) / launch)) * (launch + queue)

    screened = rates.variant + timed(protocol.screen_launches, rates.screened)
    in_graphs = protocol.search_graph_launches * protocol.search_graph_replays
    full = rates.variant + timed(protocol.launches, rates.finalist) + timed(in_graphs, rates.finalist, queue=0)
    # the best of each kind of schedule and the reference's best schedule in every layout, and those within reach
    finalists = 3 * protocol.per_layout * layouts + protocol.finalists + YARDSTICKS

    def repeated(bandwidth: float) -> float:
        graphs = protocol.graph_launches * protocol.graph_replays
        launches = protocol.launches + protocol.cold_launches
        return rates.variant + timed(launches, bandwidth) + timed(graphs, bandwidth, queue=0)

    rounds = REPEATED * repeated(rates.finalist) + routines * repeated(rates.library)
    return rates.start + moved / rates.host + variants * screened + finalists * full + rounds
