"""What a campaign needs: disk, device memory and time, from sizes that are known before anything is built."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from repro.bench.workspace import DTYPES
from repro.codegen.targets import Target
from repro.config.models import Protocol
from repro.entries import get_entry
from repro.studies.plan import Plan, PlannedProblem
from repro.studies.registry import get_study

#: Baselines and configurations of the floor, and what is timed again at the end: about so many.
BASELINES, REPEATED = 30, 30
#: Where no size is known: about that of the generated problems.
ASSUMED_SIZE = (10_000, 150_000)


@dataclass(frozen=True)
class Rates:
    """What the times are reckoned with; orders of magnitude, stated beside every estimate.

    Attributes
    ----------
    bandwidth
        Bytes per second that a variant reaches on average: a slow one takes many times what the best one takes.
    launch
        Seconds that a launch takes at the least.
    variant
        Seconds to verify a variant and to start timing it.
    compile
        Seconds to compile a module on one core.
    module
        Bytes of a module and its source.
    """

    bandwidth: float
    launch: float
    variant: float
    compile: float
    module: int


RATES = {
    "cuda": Rates(bandwidth=4e11, launch=5e-6, variant=3e-3, compile=5.0, module=2_500_000),
    "opencl": Rates(bandwidth=6e9, launch=3e-5, variant=2e-3, compile=0.3, module=300_000),
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
    launch = rates.launch + (matrix + 2 * rows * number * entry.size) / rates.bandwidth
    module = get_study(study)
    spaces = {
        space: module.layouts(planned.settings, space, problem.entry) for space in module.spaces(planned.settings)
    }
    layouts = [(space, layout) for space, found in spaces.items() for layout in found]
    variants = sum(len(module.schedules(target, space, layout)) for space, layout in layouts)
    protocol = planned.settings.protocol
    seconds = _seconds(protocol, protocol.budget(target.dialect), rates, launch, variants, len(layouts))
    return Job(study, name, problem.entry, precision, (rows, nonzeros), size_from, variants, matrix, seconds)


def _seconds(protocol: Protocol, budget: float, rates: Rates, launch: float, variants: int, layouts: int) -> float:
    """Reckon screening, the full protocol by both clocks, and the shuffled rounds."""
    screened = variants * (rates.variant + protocol.screen_launches * launch)
    clocks = (protocol.launches, protocol.graph_launches * protocol.graph_replays)
    full = rates.variant + sum(min(budget, launches * launch) for launches in clocks)
    # the best of both kinds of schedule and the reference's best schedule in every layout, and those within reach
    finalists = (2 * protocol.per_layout + 1) * layouts + protocol.finalists
    return screened + (finalists + BASELINES + REPEATED) * full
