"""The command `repro batch`: one job of the workflow builds or measures many small problems."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from repro.cli.measurement import Jobs
from repro.cli.options import ConfigFile, Run
from repro.package_data import DEFAULT_CONFIG

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
        _build(problems, config_file)
    elif run is not None:
        _measure(work, problems, config_file, run, jobs)
        return
    else:
        with signals_held():
            _supervise(context, work, problems, config_file, jobs)
    if output is not None:
        from repro.filesystem import write_whole

        write_whole(output, "".join(f"{name}\n" for name in problems))


def _build(names: Sequence[str], config_file: Path) -> None:
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


def _supervise(context: typer.Context, work: str, problems: Sequence[str], config_file: Path, jobs: int) -> None:
    """Run this command in a child process that measures the stale cases, and restart it after crashes."""
    from repro.campaign.completeness import record_case, stale_cases
    from repro.campaign.configuration import check_study, load
    from repro.campaign.measurement import has_disturbed_winner, record_failure, store_path, supervise
    from repro.campaign.plan import plan_of_cases
    from repro.campaign.steps import measuring
    from repro.cli.measurement import measure_case, python, time_again
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


def _measure(work: str, problems: Sequence[str], config_file: Path, run: str, jobs: int) -> None:
    from repro.bench.worker import end_with_parent, restarting
    from repro.campaign.completeness import record_case
    from repro.campaign.configuration import load
    from repro.campaign.measurement import measure, opened_once
    from repro.campaign.plan import plan_of_cases
    from repro.campaign.steps import measuring
    from repro.cli.measurement import record_measurement

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
                    running_step.failed("its winner was not timed again")
                measure(config, study, name, precision, lambda *_: None, run, opened, jobs=jobs)
            elapsed_seconds = time.monotonic() - start_time
            typer.echo(f"{number} of {len(problems)}: {name} {precision}, {elapsed_seconds:.1f} s")
