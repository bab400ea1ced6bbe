"""Estimates of disk, memory and time of a campaign, from problem sizes that are known before anything is built."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from repro.bench.campaign_folder import CampaignFolder
from repro.bench.records import read_problem_of
from repro.campaign.plan import ModuleGroup, Plan, ProblemBatches
from repro.codegen.build_cache import compile_times
from repro.codegen.targets import GpuModel, Target
from repro.codegen.templates import COMMON
from repro.config.models import StudySettings
from repro.errors import ReproError
from repro.problems.problem import Outline
from repro.studies import CostModel, Workload, get_study, study_names

#: Variants of a case that measures beyond edges: winners, and two or more steps from each.
BEYOND_EDGES = 12
#: Assumed numbers in each case: of yardsticks (floors, copies, empty kernels), and of kernels in the shuffled rounds.
YARDSTICKS, REPEATED = 10, 14
#: Numbers of rows and non-zeros that are assumed for a problem of unknown size: a download without a size in the
#: registry.
ASSUMED_SIZE = (10_000, 150_000)
#: Bytes per non-zero in CSR (double value and column index), for studies that do not estimate their workload.
CSR_ENTRY_BYTES = 12


@dataclass(frozen=True)
class Rates:
    """Rates for estimating times; `repro plan` prints the estimates.

    GPU values are least-squares fits to a campaign on an H200 with the papers' variants of `compound_spmv`; each study
    corrects them for its own cases (`repro.studies.CostModel`). Another GPU is slower by `GpuModel.slowdown`.
    """

    #: Memory throughput in bytes per second of average variants, of variants near the best, and of average library
    #: routines.
    screened: float
    finalist: float
    library: float
    #: Time of the shortest launch in seconds, by the event clock.
    launch: float
    #: Additional host time in seconds to queue a launch.
    queue: float
    #: Seconds to verify a variant and to write its row.
    variant_seconds: float
    #: Start-up time of a measuring job in seconds (Snakemake, Python, device, library).
    start: float
    #: Operand bytes per second for the host to read and to pack into all formats.
    host: float
    #: Seconds to compile a module on one core.
    compile: float
    #: Seconds per tried variant to compile its kernel on demand; on the host of a GPU, many compilers run concurrently.
    on_demand: float
    #: Number of modules that a job compiles concurrently.
    threads: int
    #: Size of a compiled module and its source in bytes.
    module: int


RATES = {
    "cuda": Rates(screened=1.7e12, finalist=3.6e12, library=1.2e12, launch=6e-6, queue=6e-6, variant_seconds=8e-4,
                  start=5, host=3e7, compile=5.0, on_demand=0.25, threads=4, module=2_500_000),
    "opencl": Rates(screened=6e9, finalist=6e9, library=3e9, launch=3e-5, queue=0, variant_seconds=1e-3,
                    start=2.5, host=3e7, compile=0.3, on_demand=0.3, threads=1, module=300_000),
}  # fmt: skip
#: Overhead in seconds before the first job and after the last job: planning, Snakemake, receipts.
AROUND = 6.0
#: Start-up time in seconds for jobs that do not measure.
START_SECONDS = 1.2
#: Seconds to build a problem, to make a table and a figure in all formats, to place an artifact into the report, and to
#: check the whole campaign.
PROBLEM_SECONDS, TABLE_SECONDS, FIGURE_SECONDS, PLACED_SECONDS, CHECK_SECONDS = 0.3, 0.2, 0.5, 0.1, 2.5
#: Non-zeros built per second (decompressed, checked and written), in addition to `PROBLEM_SECONDS`.
BUILT_PER_SECOND = 1.5e6
#: Fraction of a GPU's memory available for operands; the context, modules and libraries need the remainder.
USABLE = 0.95
#: Seconds that a `predicted` search needs to read earlier records and choose variants.
PREDICTED = 3.0
#: Contenders and rests in a round that measures energies, and seconds of each beside the configured ones.
ENERGIES, ENERGY_SETTLING = 6, 0.2


@dataclass(frozen=True)
class Job:
    """Estimate for one case; the start-up time of a batch is included in its first case."""

    study: str
    problem: str
    #: Entry type for a matrix, else the kind of problem.
    what: str
    precision: str
    #: Numbers of rows and non-zeros. `size_from` is their source: `built` (from the built problem), a value of
    #: `Outline.size_from`, `assumed` or `refused`.
    size: tuple[int, int]
    size_from: str
    #: Number of variants in the search space, and number that the search tries.
    variants: int
    tried: int
    #: Bytes of the operand without padding, from the study's workload.
    operand_bytes: int
    #: Expected time on the device.
    seconds: float
    #: Device memory while the largest variant or routine runs.
    device_bytes: int
    #: Whether the study estimates its own workload; otherwise one variant on a sparse matrix is assumed.
    is_estimated: bool = True


@dataclass(frozen=True)
class Estimate:
    """Estimated time, disk and device memory for a campaign."""

    #: Estimates of the single cases.
    jobs: tuple[Job, ...]
    #: Number of building jobs and number of measuring jobs.
    made: tuple[int, int]
    #: Number of all modules, and number that must still be compiled.
    modules: tuple[int, int]
    #: Seconds of each job on one core, in three tuples: jobs that compile modules, that build problems, and that make
    #: tables or figures.
    compile_seconds: tuple[float, ...]
    build_seconds: tuple[float, ...]
    present_seconds: tuple[float, ...]
    #: Seconds of the report and of the final check, during which no other job runs.
    conclude_seconds: float
    #: Disk space for problems, modules and results.
    disk_bytes: int
    #: Expected compile times of modules, from which `compile_seconds` was computed.
    compile_times: CompileTimes
    #: For each kind of jobs (compile, measure, show), the summed seconds of a study's jobs, each alone on a core.
    by_study: Mapping[str, Mapping[str, float]]

    @property
    def device_bytes(self) -> int:
        """Device memory for the largest case."""
        return max(job.device_bytes for job in self.jobs)

    def unfit(self, gpu: GpuModel) -> list[Job]:
        """Return the cases that do not fit into a GPU's memory, the largest first."""
        fits = USABLE * gpu.memory_bytes
        oversized_jobs = [job for job in self.jobs if job.device_bytes > fits]
        return sorted(oversized_jobs, key=lambda job: job.device_bytes, reverse=True)

    def seconds(self, cores: int, devices: int = 1) -> float:
        """Return the expected time of a campaign, assuming that its phases run one after the other.

        All work except measuring is spread over `cores`. Each of the `devices` measures one job at a time.
        """
        cpu_seconds = (self.compile_seconds, self.build_seconds, self.present_seconds)
        spread = sum(_spread(part, cores) for part in cpu_seconds)
        return AROUND + spread + self.measuring(devices) + self.conclude_seconds

    def measuring(self, devices: int = 1) -> float:
        return _spread([job.seconds for job in self.jobs], devices)


def _spread(seconds: Sequence[float], cores: int) -> float:
    """Return the time to run jobs on some cores: the total divided by `cores`, at least the longest job."""
    return max(sum(seconds) / cores, max(seconds, default=0.0))


def estimate(plan: Plan, target: Target, stale_steps: Container[str] | None = None) -> Estimate:
    """Estimate time, disk and memory for a campaign on a device of the target.

    With `stale_steps` (names of steps), jobs that have none of these take no time.
    """

    def is_due(*steps: str) -> bool:
        return stale_steps is None or any(step in stale_steps for step in steps)

    rates = RATES[target.dialect]
    batches = ProblemBatches(plan)
    problem_sizes = {name: find_size(plan, problem) for name, problem in plan.problems.items()}
    recorded_nbytes = {study: recorded_bytes(study) for study in plan.studies}
    jobs = tuple(
        estimate_job(
            plan, target, *run, run in batches.starting, problem_sizes[run[1]], recorded_nbytes[run[0]].get(run[1:])
        )
        for run in plan.runs
    )
    finished_jobs = {job: not is_due(f"measure {job.study} {job.problem} {job.precision}") for job in jobs}
    jobs = tuple(replace(job, seconds=0.0) if finished_jobs[job] else job for job in jobs)
    sizes = {job.problem: job.size for job in jobs}
    manifests = plan.all_manifests
    times = CompileTimes(target)
    missing_modules = [(group.study, seconds) for group in plan.module_groups if (seconds := times.absent(plan, group))]
    if not Path(plan.common_manifest).exists():
        missing_modules.append((COMMON, [times.pace * rates.compile]))
    presented = [
        (study.name, START_SECONDS + seconds * len(names))
        for study in plan.studies.values()
        for kind, seconds, names in (
            ("tables", TABLE_SECONDS, study.tables),
            ("figures", FIGURE_SECONDS, study.figures),
        )
        if names and is_due(f"{kind} {study.name}")
    ]
    concluding = 2 * START_SECONDS + PLACED_SECONDS * len(plan.artifact_files) + CHECK_SECONDS
    compiled = [(study, START_SECONDS + sum(seconds) / rates.threads) for study, seconds in missing_modules]
    # problem files are stored in double precision
    in_double = ((job.problem, job.operand_bytes * (1 if job.precision == "double" else 2)) for job in jobs)
    problem_bytes = dict(sorted(in_double))
    return Estimate(
        jobs,
        batches.jobs,
        (len(manifests), sum(len(seconds) for _, seconds in missing_modules)),
        tuple(seconds for _, seconds in compiled),
        tuple(
            START_SECONDS + sum(building_seconds(sizes[name]) for name in names)
            for names in batches.built_by_job
            if is_due(*(f"problem {name}" for name in names))
        ),
        tuple(seconds for _, seconds in presented),
        concluding if is_due("report", "check") else 0.0,
        sum(problem_bytes.values()) + len(manifests) * rates.module + sum(job.tried * 1500 for job in jobs),
        times,
        {
            "compile": study_seconds(compiled),
            "measure": study_seconds((job.study, job.seconds) for job in jobs),
            "show": study_seconds(presented),
        },
    )


def study_seconds(seconds: Iterable[tuple[str, float]]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for study, job_seconds in seconds:
        sums[study] = sums.get(study, 0.0) + job_seconds
    return sums


def module_seconds(study_name: str, key: str, dialect: str) -> float:
    """Return the seconds to compile a module on one core of the machine on which `RATES` were fitted."""
    key_seconds = get_study(study_name).cost_models.get(dialect, CostModel()).compile
    return next((seconds for begin, seconds in key_seconds.items() if key.startswith(begin)), RATES[dialect].compile)


#: Seconds of compiling that count beside those measured on a machine, at the pace of `RATES`. A few small modules take
#: mostly the compiler's start: three of `make demo` would make our space three times as long.
START_COMPILING = 20.0
#: Prefix of the groups of modules that hold a single kernel, which are compiled on demand.
SINGLE_KERNEL_GROUPS = "single/"


class CompileTimes:
    """Expected seconds to compile modules: the mean measured on this machine, else `RATES` times its `pace`."""

    def __init__(self, target: Target) -> None:
        self._dialect = target.dialect
        measured_seconds = compile_times(target.name)
        self._mean = {group: fmean(seconds) for group, seconds in measured_seconds.items() if seconds}
        measured_modules = [
            (study, group)
            for study, group in self._mean
            if study in study_names() and not group.startswith(SINGLE_KERNEL_GROUPS)
        ]
        measured_total = sum(sum(measured_seconds[module]) for module in measured_modules)
        modelled_total = sum(
            len(measured_seconds[module]) * module_seconds(module[0], f"{module[1]}/", self._dialect)
            for module in measured_modules
        )
        #: Number of compilations whose times this machine has recorded.
        self.measured = sum(len(measured_seconds[module]) for module in measured_modules)
        #: Factor by which compiling takes longer on this machine than by `RATES`.
        self.pace = (measured_total + START_COMPILING) / (modelled_total + START_COMPILING)

    def seconds(self, study_name: str, key: str) -> float:
        mean = self._mean.get((study_name, key.rpartition("/")[0]))
        return self.pace * module_seconds(study_name, key, self._dialect) if mean is None else mean

    def absent(self, plan: Plan, group: ModuleGroup) -> list[float]:
        """Return the expected seconds for each module of a group that is not compiled yet."""
        paths = zip(group.keys, plan.manifests_of(group.study, group.keys), strict=True)
        return [self.seconds(group.study, key) for key, path in paths if not Path(path).exists()]


def count_steps(plan: Plan, stale_steps: Container[str] | None = None) -> dict[str, int]:
    """Return the number of jobs that Snakemake will run, for each kind of work; `stale_steps` (names of steps) limits
    the count to jobs with a stale step.

    The rule `all` counts as one, as in Snakemake's own count.
    """
    batches = ProblemBatches(plan)

    def count(jobs: Iterable[Iterable[str]]) -> int:
        return sum(stale_steps is None or any(step in stale_steps for step in steps) for steps in jobs)

    artifact_steps = [
        [f"{kind} {name}"]
        for name, study in plan.studies.items()
        for kind in ("tables", "figures")
        if getattr(study, kind)
    ]
    counts = {
        "build": count([f"problem {name}" for name in names] for names in batches.built_by_job),
        "compile": count(
            [
                *([f"compile {modules.study} {key}" for key in modules.keys] for modules in plan.module_groups),
                ["compile common"],
            ]
        ),
        "measure": count(
            [*(batch.steps for batch in batches.measuring), *([f"measure {' '.join(run)}"] for run in batches.alone)]
        ),
        "show and check": count([*artifact_steps, ["report"], ["check"]]),
    }
    counts["show and check"] += any(counts.values())
    return counts


def recorded_bytes(study_name: str) -> dict[tuple[str, str], int]:
    """Return the most device memory in bytes that a row of any campaign records, by case (problem, precision).

    The memory of a row is the larger of the peak during a product and the matrix in the row's format, plus the least
    bytes of the case's operands.
    """
    import pyarrow as pa  # slow to import, and the workflow imports this module at each start
    import pyarrow.compute as pc

    from repro.bench.rows import TIMED
    from repro.bench.store import read_rows

    largest_bytes: dict[tuple[str, str], int] = {}
    for campaign in CampaignFolder.measured():
        for step in ("search", "report"):
            try:
                rows = read_rows(campaign.study(study_name), step)
            except ReproError:  # `repro check` reports a damaged record
                continue
            columns = [name for name in ("peak_bytes", "matrix_bytes") if name in rows.column_names]
            if not columns or "least_bytes" not in rows.column_names:
                continue
            timed_rows = rows.filter(pc.is_in(rows["status"], pa.array(sorted(TIMED))))
            row_bytes = pc.max_element_wise(*(pc.cast(timed_rows[name], pa.float64()) for name in columns))
            total = pc.add(
                pc.fill_null(row_bytes, 0), pc.cast(pc.fill_null(timed_rows["least_bytes"], 0), pa.float64())
            )
            cases = (
                timed_rows.select(["problem", "precision"])
                .append_column("bytes", total)
                .group_by(["problem", "precision"])
            )
            for row in cases.aggregate([("bytes", "max")]).to_pylist():
                case = (row["problem"], row["precision"])
                largest_bytes[case] = max(largest_bytes.get(case, 0), int(row["bytes_max"]))
    return largest_bytes


def find_size(plan: Plan, problem: Outline) -> tuple[tuple[int, int], str]:
    """Return the numbers of rows and non-zeros (of a field: cells and modes of all cells), and their source as in
    `Job.size_from`.

    Damaged problem records are ignored, since a run rebuilds them.
    """
    if problem.refused:
        return (0, 0), "refused"
    stated_size = (problem.size, problem.size_from) if problem.size else (ASSUMED_SIZE, "assumed")
    try:
        record = read_problem_of(plan.folder, problem.name)
    except (FileNotFoundError, ReproError):
        return stated_size
    n, nnz = record.get("n"), record.get("nnz")
    if record.get("kind") == "field" and "cells" in record:
        n, nnz = record["cells"], record["cells"] * record["modes"]
    return stated_size if n is None or nnz is None else ((n, nnz), "built")  # None: unavailable problem


def building_seconds(size: tuple[int, int]) -> float:
    """Return the expected seconds to build a problem of this size, without the job's start-up time."""
    return PROBLEM_SECONDS + size[1] / BUILT_PER_SECOND


def estimate_job(
    plan: Plan,
    target: Target,
    study_name: str,
    name: str,
    precision: str,
    starts: bool = True,
    problem_size: tuple[tuple[int, int], str] | None = None,
    recorded_nbytes: int | None = None,
) -> Job:
    """Estimate one case on a device of the target.

    `starts` adds the job's start-up time, which only the first case of a batch has. `problem_size` is the result of
    `find_size`, if known, and `recorded_nbytes` the case's device memory by `recorded_bytes`.
    """
    problem, settings = plan.problems[name], plan.studies[study_name].settings
    size, size_from = problem_size or find_size(plan, problem)
    if problem.refused:
        stated_workload: Workload | None = Workload(0, 0, 0, 0, 0)
    else:
        stated_workload = get_study(study_name).workload(settings, replace(problem, size=size), precision, target)
    nbytes = size[1] * CSR_ENTRY_BYTES
    work = stated_workload or Workload(variants=1, groups=1, routines=0, operand_bytes=nbytes, bytes_moved=nbytes)
    first = (name, precision) == (plan.studies[study_name].problems[0], settings.precisions[0])
    cost_models = get_study(study_name).cost_models
    cost_model = cost_models.get(target.dialect, CostModel())
    partial_search = settings.search != "exhaustive" and not work.all_tried
    tried_variants = round(work.variants * (settings.budget if partial_search else 1))
    if settings.edges:  # all are timed in the rounds, without yardsticks and routines
        tried_variants = min(work.variants, BEYOND_EDGES)
        work = replace(work, groups=BEYOND_EDGES, routines=0)
    rates = RATES[target.dialect] if starts else replace(RATES[target.dialect], start=0)
    slowdown = plan.gpu.slowdown(cost_model.intensity) if plan.gpu else 1.0
    seconds = _seconds(settings, rates, cost_model, work, tried_variants, target.dialect, slowdown)
    on_demand = settings.edges or get_study(study_name).compiles_on_demand(settings)
    seconds += rates.on_demand * tried_variants if on_demand else 0
    seconds += RATES[target.dialect].start if first and work.variants else 0  # a winner is timed again
    problem_kind = problem.entry or problem.kind
    return Job(
        *(study_name, name, problem_kind, precision, size, size_from),
        variants=work.variants,
        tried=tried_variants,
        operand_bytes=work.operand_bytes,
        seconds=seconds,
        # formats are the same on a CPU, but more rows were recorded on GPUs
        device_bytes=recorded_nbytes or round(cost_models.get("cuda", cost_model).memory * work.operand_bytes),
        is_estimated=stated_workload is not None,
    )


def _seconds(
    settings: StudySettings,
    rates: Rates,
    cost_model: CostModel,
    work: Workload,
    tried_variants: int,
    backend: str,
    slowdown: float,
) -> float:
    """Return the seconds to measure a case: start-up, screening, full protocol by both clocks, repeated rounds, other
    work.

    Kernels take `slowdown` times as long as on the device of `rates`. The other work is scaled alike, since most of it
    runs on the device.
    """
    if not work.variants:  # the study refuses this case
        return 0.0
    timing, bytes_moved = settings.timing, work.bytes_moved
    budget = timing.budget(backend)

    def launch_seconds(launches: int, bandwidth: float, queue: float = rates.queue) -> float:
        launch = rates.launch + slowdown * bytes_moved / bandwidth
        return min(launches, max(5, budget * min(1, launches / timing.launches) / launch)) * (launch + queue)

    screening_seconds = rates.variant_seconds + launch_seconds(timing.screen_launches, rates.screened)
    in_graphs = timing.search_graph_launches * timing.search_graph_replays
    full = (
        rates.variant_seconds
        + launch_seconds(timing.launches, rates.finalist)
        + launch_seconds(in_graphs, rates.finalist, queue=0)
    )
    # finalists are the best variants of each group by several criteria, and others near the best time
    finalists = min(tried_variants, 3 * timing.per_group * work.groups + timing.finalists) + YARDSTICKS

    def repetition_seconds(bandwidth: float) -> float:
        graphs = timing.graph_launches * timing.graph_replays
        launches = timing.launches + timing.cold_launches
        return rates.variant_seconds + launch_seconds(launches, bandwidth) + launch_seconds(graphs, bandwidth, queue=0)

    rounds = REPEATED * repetition_seconds(rates.finalist) + work.routines * repetition_seconds(rates.library)
    launched = bytes_moved / rates.host + tried_variants * screening_seconds + finalists * full + rounds
    prediction_seconds = PREDICTED if settings.search == "predicted" and not work.all_tried else 0.0
    packing = work.packing * tried_variants / work.variants
    other_seconds = cost_model.case_seconds + slowdown * cost_model.other_seconds * work.other_work
    if timing.energy_seconds and backend == "cuda":
        other_seconds += timing.rounds * ENERGIES * (timing.energy_seconds + ENERGY_SETTLING)
    return rates.start + prediction_seconds + packing + cost_model.launches * launched + other_seconds
