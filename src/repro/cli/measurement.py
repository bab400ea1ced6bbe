"""Commands in the panel "Measuring": `repro measure`, `batch`, `launch` and `counters`."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from repro.cli.options import ConfigFile, Receipt, Run
from repro.config import models
from repro.package_data import DEFAULT_CONFIG

if TYPE_CHECKING:
    from repro.campaign.plan import Plan
    from repro.config.models import Config


StudyName = Annotated[str, typer.Argument(help="A study of the configuration, for example compound_spmv.")]
ProblemName = Annotated[str, typer.Argument(help="A problem that `repro problem` has built.")]
Precision = Annotated[models.Precision, typer.Argument(help="Precision of values and results.")]
RecordFailures = Annotated[
    bool,
    typer.Option(
        "--record-failures",
        help="Write why the problem cannot be measured into the files of all steps; exit with 0. A full disk "
        "still makes the command fail.",
    ),
]
Turns = Annotated[
    int,
    typer.Option(
        "--turns",
        min=1,
        help="Number of processes that take turns at a GPU: this one releases it while packing an operand on the "
        "host, and uses only its share of the memory.",
    ),
]
Jobs = Annotated[
    int,
    typer.Option(
        "--jobs",
        "-j",
        min=1,
        help="Number of concurrent compilers, with `compile: on_demand`.",
    ),
]


def measure(
    context: typer.Context,
    study: StudyName,
    problem: ProblemName,
    precision: Precision,
    config_file: ConfigFile = DEFAULT_CONFIG,
    receipt: Receipt = False,
    record_failures: RecordFailures = False,
    turns: Turns = 1,
    jobs: Jobs = 1,
    repeat: Annotated[
        int | None,
        typer.Option(
            "--repeat",
            min=0,
            metavar="PROCESS",
            help="Only time the kernels of the headline of a measured case again, as the further process of this "
            "number (`repeats` in the configuration).",
        ),
    ] = None,
    run: Run = None,
) -> None:
    """Verify and time everything on one problem: every variant, the streaming floor, the library's routines.

    Every variant is screened with a few launches, then those near the best time get the full protocol (search.parquet).
    A streaming floor, a device copy and an empty kernel are timed for comparison (baseline.parquet). The winners of
    each tuning of the study (choices.parquet) are timed again in shuffled rounds, beside the library's routines. Only
    these times, which did not decide who won, are reported (report.parquet). A killed run continues where it stopped,
    and repeats what failed. Measuring runs in a separate process: a kernel that crashes or hangs loses only its own
    row.

    The kernels of the headline are then timed again in further processes, by default of a study's first case in one
    (`repeats` in the configuration; repeat.parquet); the report states the difference beside its intervals.

    The problem must be built and its modules compiled before, as the workflow (`snakemake`) does. With `compile:
    on_demand`, a search compiles the variants that it tries.

    Examples:

        repro problem dirac_torus -o results/default/problems/dirac_torus.npz

        repro measure compound_spmv dirac_torus double
    """
    from repro.bench.worker import signals_held

    if repeat is not None:
        _repeat(study, problem, precision, repeat, config_file)
        return
    if run is not None:
        _measure(study, problem, precision, config_file, record_failures, turns, jobs, run)
        return
    with signals_held():
        from repro.campaign.configuration import check_study, load
        from repro.campaign.plan import plan_of_cases

        config = load(config_file)
        check_study(config, study)
        arguments = ["--config", str(config_file), "--turns", str(turns), "--jobs", str(jobs)]
        plan = plan_of_cases(config, [problem], study) if receipt else None
        measure_case(context, config, plan, (study, problem, precision), config_file, arguments, record_failures)


def measure_case(
    context: typer.Context,
    config: Config,
    plan: Plan | None,
    case: tuple[str, str, str],
    config_file: Path,
    options: Sequence[str],
    record_failures: bool,
) -> None:
    """Measure a case in child processes, and time the kernels of its headline again if the configuration wants it.

    A case whose winner was disturbed is measured once more. A receipt is written if there is a plan; without one, the
    configuration need not name the problem.
    """
    from repro.campaign.completeness import record_case
    from repro.campaign.measurement import has_disturbed_winner
    from repro.campaign.plan import repeated_cases
    from repro.problems.registry import load_registry

    with record_case(plan, *case) if plan else nullcontext():
        for is_last in (False, True):
            if code := _supervise(context, config, *case, options, record_failures):
                raise typer.Exit(code)
            if is_last or not has_disturbed_winner(config, *case):
                break
            typer.echo("the times of the chosen variant were disturbed: what was disturbed is measured again")
        if case in repeated_cases(config, load_registry(Path(config.registry))):
            time_again(context, config, *case, config_file)


def time_again(
    context: typer.Context, config: Config, study: str, problem: str, precision: str, config_file: Path
) -> None:
    """Time the kernels of a case's headline in further processes, one on each device at a time.

    A failure is printed, and its process has no rows.
    """
    from repro.bench.worker import BY_SIGNAL, run_workers
    from repro.campaign.measurement import drop_repeats, join_repeats
    from repro.devices.selection import resolve_device, single_devices

    drop_repeats(config, study, problem, precision)
    debug = ["--debug"] if context.find_root().params.get("debug") else []
    arguments = ["measure", study, problem, precision, "--config", str(config_file), "--repeat"]
    command = [*python(), "-m", "repro", *debug, *arguments]
    width = len(single_devices(resolve_device(config.repeats.device))) if config.repeats.device else 1
    for first in range(0, config.repeats.processes, width):
        numbers = range(first, min(first + width, config.repeats.processes))
        for number, end in zip(numbers, run_workers([[*command, str(number)] for number in numbers]), strict=True):
            if end.code and end.asked:
                raise typer.Exit(BY_SIGNAL + end.asked)
            if end.code:
                typer.echo(f"{problem} could not be timed again by process {number} of {study}")
    join_repeats(config, study, problem, precision)


def _repeat(study: str, problem: str, precision: str, process: int, config_file: Path) -> None:
    from repro.bench.worker import end_with_parent
    from repro.campaign import measurement
    from repro.campaign.configuration import load
    from repro.cli.console import Progress

    end_with_parent()
    with Progress(f"repeat {problem} {precision}") as progress:
        path = measurement.repeat(load(config_file), study, problem, precision, process, progress)
    typer.echo(f"wrote {path}" if path else "nothing to time again: no kernel was chosen")


def _supervise(
    context: typer.Context,
    config: Config,
    study: str,
    problem: str,
    precision: str,
    options: Sequence[str],
    record_failures: bool,
) -> int:
    """Run this command in a child process that measures, and restart it after crashes; return the exit code."""
    from repro.campaign.measurement import store_path, supervise

    run = uuid.uuid4().hex
    debug = ["--debug"] if context.find_root().params.get("debug") else []
    record = ["--record-failures"] if record_failures else []
    arguments = [study, problem, precision, *options, "--run", run, *record]
    with record_measurement(config, study, problem, precision, record_failures):
        store = store_path(config, study, problem, precision)
        return supervise([*python(), "-m", "repro", *debug, "measure", *arguments], lambda: store, run)
    return 0


def python() -> list[str]:
    """Return the Python command; with `-P` unless `repro` was imported from the current folder."""
    first = Path(sys.path[0] or ".").resolve()
    is_own_checkout = not sys.flags.safe_path and first == Path(__file__).resolve().parents[2]
    return [sys.executable] if is_own_checkout else [sys.executable, "-P"]


def _measure(
    study: str, problem: str, precision: str, config_file: Path, record_failures: bool, turns: int, jobs: int, run: str
) -> None:
    from repro.bench.worker import end_with_parent, restarting
    from repro.campaign import measurement
    from repro.campaign.configuration import load
    from repro.cli.console import Progress

    end_with_parent()
    config = load(config_file)
    with (
        record_measurement(config, study, problem, precision, record_failures),
        Progress(f"measure {problem} {precision}") as progress,
        restarting(),
    ):
        for path in measurement.measure(config, study, problem, precision, progress, run, turns=turns, jobs=jobs):
            typer.echo(f"wrote {path}")


@contextmanager
def record_measurement(config: Config, study: str, problem: str, precision: str, is_recorded: bool) -> Iterator[None]:
    """If `is_recorded`, catch, print and record a failure of the body, so that other problems are still measured."""
    from repro.campaign.measurement import record_failure
    from repro.cli.app import reason_of

    try:
        yield
    except Exception as failure:
        if not is_recorded:
            raise
        reason = reason_of(failure)
        typer.echo(f"error: {reason}", err=True)
        for path in record_failure(config, study, problem, precision, reason):
            typer.echo(f"wrote {path}, which says so")


Runnables = Annotated[
    list[str],
    typer.Argument(
        metavar="RUNNABLE",
        help="Names as in the tables: variants of any space, routines of the library, or `floor`.",
        show_default=False,
    ),
]
Launches = Annotated[int, typer.Option(min=1, help="Number of launches of each kernel.")]


def launch(
    study: StudyName,
    problem: ProblemName,
    precision: Precision,
    runnables: Runnables,
    config_file: ConfigFile = DEFAULT_CONFIG,
    launches: Launches = 4,
    record: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the launches as JSON.", show_default=False)
    ] = None,
) -> None:
    """Prepare and verify the named kernels and routines, then launch each a few times without timing.

    The command is meant to run under a profiler or a sanitizer. An empty kernel is launched before each named one and
    after the last. A variant that is in no compiled module is compiled separately. `floor` is the fastest recorded
    configuration of the streaming kernel, or floor/256-4 if none is recorded.

    Examples:

        repro launch compound_spmv dirac_torus single CSR-AoS-AoS/static-256-4 floor

        compute-sanitizer repro launch compound_spmv fem/nut_37k double CSR-AoSoA-Padded/direct-64-16-w8

        ncu --set full -o nut repro launch compound_spmv fem/nut_37k double cusparse/bsrmv/real3
    """
    import json

    from repro.campaign import profiler
    from repro.campaign.configuration import load

    rows = profiler.launch(load(config_file), study, problem, precision, runnables, launches)
    if record is not None:
        record.write_text(json.dumps([row.as_dict() for row in rows]))
    for row in rows:
        verified = "nothing to verify" if row.error is None else f"verified, error {row.error:.2g} of its bound"
        typer.echo(f"{row.name}: {verified}, launched {launches} times")


def counters(
    study: StudyName,
    problem: ProblemName,
    precision: Precision,
    runnables: Runnables,
    config_file: ConfigFile = DEFAULT_CONFIG,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Parquet file; by default counters.parquet beside the measured rows."),
    ] = None,
    launches: Launches = 4,
) -> None:
    """Run `repro launch` under NVIDIA's profiler `ncu` and store its counters, a row for each named kernel or routine.

    The counters are time on the GPU, bytes from memory and from L2, hit rates, occupancy, stalls, registers, requests
    and sectors: medians over the launches after the first, with a warm cache. Rows with the same names are replaced,
    others are kept; `repro table table-counters` prints them. This needs `ncu` and the permission to read counters.

    Example:

        repro counters compound_spmv fem/nut_37k single CSR-AoS-AoS/static-256-4 floor cusparse/bsrmv/real3
    """
    from repro.campaign.configuration import load
    from repro.campaign.profiler import collect_counters

    path = collect_counters(load(config_file), config_file, study, problem, precision, runnables, launches, output)
    typer.echo(f"wrote {path}")


Work = Annotated[str, typer.Argument(metavar="WHAT", help="`problems`, or a STUDY/PRECISION to measure.")]
Problems = Annotated[list[str], typer.Argument(metavar="PROBLEM", help="Problems of the configuration.")]
Output = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write this file when all problems have been built or measured.")
]


def batch(
    context: typer.Context,
    work: Work,
    problems: Problems,
    config_file: ConfigFile = DEFAULT_CONFIG,
    output: Output = None,
    jobs: Jobs = 1,
    run: Run = None,
) -> None:
    """Build or measure small problems, one after the other in one job; the devices are opened once.

    Each problem or case has its own receipt, as if it were a job of its own. Problems and cases that are up to date are
    skipped. A failure is recorded and does not stop the others. If the command is killed, calling it again continues
    where it stopped. The workflow calls this command if the configuration has `batch:` above 1.

    Examples:

        repro batch problems small/web small/road

        repro batch dynamic_csr/double small/web small/road
    """
    from repro.bench.worker import signals_held

    if work == "problems":
        _build_batch(problems, config_file)
    elif run is not None:
        _measure_batch(work, problems, config_file, run, jobs)
        return
    else:
        with signals_held():
            _supervise_batch(context, work, problems, config_file, jobs)
    if output is not None:
        from repro.filesystem import write_whole

        write_whole(output, "".join(f"{name}\n" for name in problems))


def _build_batch(names: Sequence[str], config_file: Path) -> None:
    from repro.campaign.completeness import stale_problems
    from repro.campaign.configuration import load
    from repro.campaign.plan import plan_of_cases
    from repro.campaign.receipts import record_step
    from repro.campaign.steps import building
    from repro.cli.problems import build_or_record
    from repro.problems.registry import load_registry

    config = load(config_file)
    registry = load_registry(Path(config.registry))
    plan = plan_of_cases(config, names, registry=registry)
    stale_names = stale_problems(plan, names)
    for number, name in enumerate(stale_names, 1):
        path, record = plan.folder.problem(name), plan.folder.record(name)
        with record_step(building(plan, name)) as running_step:
            build_or_record(name, config, path, record, running_step, registry)
        typer.echo(f"{number} of {len(stale_names)}: {name}")


def _parts(work: str) -> tuple[str, str]:
    from repro.codegen.targets import DTYPES
    from repro.errors import ReproError

    study, _, precision = work.partition("/")
    if precision not in DTYPES:
        expected = f"`problems`, or STUDY/PRECISION with one of {', '.join(DTYPES)}"
        raise ReproError("no such batch", where="WHAT", expected=expected, actual=work)
    return study, precision


def _supervise_batch(context: typer.Context, work: str, problems: Sequence[str], config_file: Path, jobs: int) -> None:
    """Run this command in a child process that measures the stale cases, and restart it after crashes."""
    from repro.campaign.completeness import record_case, stale_cases
    from repro.campaign.configuration import check_study, load
    from repro.campaign.measurement import has_disturbed_winner, record_failure, store_path, supervise
    from repro.campaign.plan import plan_of_cases
    from repro.campaign.steps import measuring
    from repro.errors import ReproError

    study, precision = _parts(work)
    config = load(config_file)
    check_study(config, study)
    plan = plan_of_cases(config, problems, study)
    stale_names = stale_cases(plan, study, precision, problems)
    typer.echo(f"{len(stale_names)} of {len(problems)} to measure")
    receipts = {name: measuring(plan, study, name, precision).receipt for name in stale_names}
    for receipt in receipts.values():
        receipt.unlink(missing_ok=True)  # from now on, an existing receipt means that this run has measured the case

    def next_problem() -> str | None:
        return next((name for name in stale_names if not receipts[name].exists()), None)

    def store() -> Path:
        return store_path(config, study, next_problem() or stale_names[-1], precision)

    run = uuid.uuid4().hex
    debug = ["--debug"] if context.find_root().params.get("debug") else []
    options = ["--config", str(config_file), "--jobs", str(jobs), "--run", run]
    command = [*python(), "-m", "repro", *debug, "batch", work, *stale_names, *options]
    while (name := next_problem()) is not None:
        try:
            if code := supervise(command, store, run):
                raise typer.Exit(code)
        except ReproError as failure:
            name = next_problem() or name  # name the case that failed
            typer.echo(f"error: {failure}", err=True)
            with record_case(plan, study, name, precision):
                record_failure(config, study, name, precision, str(failure))
    options = ["--config", str(config_file), "--jobs", str(jobs)]
    for case in [(study, name, precision) for name in stale_names]:
        if has_disturbed_winner(config, *case):
            measure_case(context, config, plan, case, config_file, options, record_failures=True)
        elif case in plan.repeated:
            with record_case(plan, *case):
                time_again(context, config, *case, config_file)


def _measure_batch(work: str, problems: Sequence[str], config_file: Path, run: str, jobs: int) -> None:
    from repro.bench.worker import end_with_parent, restarting
    from repro.campaign.completeness import record_case
    from repro.campaign.configuration import load
    from repro.campaign.measurement import measure, opened_once
    from repro.campaign.plan import plan_of_cases
    from repro.campaign.steps import measuring

    end_with_parent()
    study, precision = _parts(work)
    config = load(config_file)
    plan = plan_of_cases(config, problems, study)
    with opened_once(config, f"{study}, {len(problems)} problems, {precision}") as opened:
        for number, name in enumerate(problems, 1):
            if measuring(plan, study, name, precision).receipt.exists():
                continue  # measured by an earlier process of this run, before a crash
            start_time = time.monotonic()
            with (
                record_case(plan, study, name, precision) as running_step,
                record_measurement(config, study, name, precision, True),
                restarting(),
            ):
                if (study, name, precision) in plan.repeated:
                    # by the parent process, once this one has freed the devices
                    running_step.failed("its kernels were not timed again")
                measure(config, study, name, precision, lambda *_: None, run, opened, jobs=jobs)
            elapsed_seconds = time.monotonic() - start_time
            typer.echo(f"{number} of {len(problems)}: {name} {precision}, {elapsed_seconds:.1f} s")
