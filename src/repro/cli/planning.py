"""`repro plan`: what a campaign will do, before it does it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from repro.campaign.estimate import Estimate

#: Columns of the names of what a campaign needs.
NAMES = 15
#: Up to so many cases have a line each, unless it is said otherwise.
EACH = 200
#: GPUs of a cluster for which the time is told as well.
GPUS = (2, 4, 8)


def plan(
    files: Annotated[
        list[Path] | None,
        typer.Option(
            "--config", help="A configuration file in place of config/config.yaml; see `repro config --help`."
        ),
    ] = None,
    cores: Annotated[
        int | None, typer.Option(min=1, help="Cores to compile on; all of this machine's by default.")
    ] = None,
    each: Annotated[
        bool | None,
        typer.Option(
            "--each/--summary",
            help=f"A line for each case, or one for all of an entry and precision; by default that above {EACH} cases.",
        ),
    ] = None,
) -> None:
    """Print what a campaign will compile and measure, and the disk, device memory and time it will take.

    Examples:

        repro plan

        repro plan --config config/paper.yaml --cores 16

        repro plan --config config/h200.yaml --summary
    """
    import os

    from repro.campaign.estimate import RATES, estimate
    from repro.campaign.freshness import Freshness
    from repro.campaign.plan import make_plan
    from repro.cli.columns import in_columns, terminal_width
    from repro.cli.progress import duration
    from repro.config import load

    planned = make_plan(load(*(files or [Path("config/config.yaml")])))
    if planned.target is None:
        _say(f"replay of {planned.results}: {len(planned.artifact_files)} tables and figures, nothing is measured")
        return
    cores = cores or len(os.sched_getaffinity(0))
    needs = estimate(planned, planned.target)
    heads, rows = _each(needs) if each or (each is None and len(needs.jobs) <= EACH) else _summary(needs)
    rates = RATES[planned.target.dialect]
    total, absent = needs.modules
    _say(f"campaign {planned.config.campaign} on {planned.device} ({planned.target.name})")
    typer.echo()
    for line in in_columns(heads, rows, terminal_width()):
        typer.echo(line)
    typer.echo()
    _say(f"{total}, {absent} of them to compile, on {cores} cores", "modules")
    variants, tried = (sum(counts) for counts in zip(*((job.variants, job.tried) for job in needs.jobs), strict=True))
    _say(f"{variants:,}{f', {tried:,} of them to try' if tried < variants else ''}", "variants")
    _say(f"{len(planned.artifact_files)}", "artifacts")
    most = planned.config.batch
    batched = f"; small problems in batches of up to {most}" if most > 1 else ""
    _say(f"{needs.made[0]} that build, {needs.made[1]} that measure{batched}", "jobs")
    freshness = Freshness(planned)
    _say(f"{freshness.total}, {len(freshness.stale)} of them to make", "steps")
    for line in freshness.described():
        _say(f"out of date: {line}", " ")
    _say(f"about {_size(needs.disk_bytes)}, inputs that are downloaded aside", "disk")
    _say(f"about {_size(needs.device_bytes)}", "device memory")
    _say(f"about {duration(needs.seconds(cores))}", "expected")
    if planned.on_gpu and len(needs.jobs) > 1:
        _say(on_a_cluster(needs, cores), " ")
    typer.echo()
    _say(
        f"Reckoned with {rates.screened / 1e9:g} GB/s for the average variant, {rates.finalist / 1e9:g} for those "
        f"near the best, {rates.library / 1e9:g} for the library; {rates.launch * 1e6:g} µs a launch, "
        f"{rates.variant * 1e3:g} ms a variant, {rates.start:g} s a job, {rates.compile:g} s to compile a module; "
        "what each study takes beside that is from measured campaigns. "
        "Sizes are `built` (known exactly), `stated` (by the registry or the file's header), "
        "`at most` (a bound by the header alone) or `assumed`. What is measured or compiled already is not done again, "
        "and what is known to be refused, such as a matrix that is not square, has no variants."
    )


def on_a_cluster(needs: Estimate, cores: int) -> str:
    """Say how long a campaign takes where several GPUs measure, a job each."""
    from repro.cli.progress import duration

    times = (f"{duration(needs.seconds(cores, gpus))} on {gpus}" for gpus in GPUS)
    return f"on GPUs of a cluster that measure a case each: {', '.join(times)}"


def _each(needs: Estimate) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return heads and rows of a table with a line for each case."""
    from repro.cli.progress import duration

    rows = []
    for job in needs.jobs:
        size = (*(f"{number:,}" for number in job.size), job.size_from)
        time = duration(job.seconds)
        rows.append((job.problem, job.what, job.precision, f"{job.variants:,}", time, *size, job.study))
    return ["problem", "what", "precision", "variants", "expected", "rows", "non-zeros", "size", "study"], rows


def _summary(needs: Estimate) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return heads and rows of a table with a line for all cases of a study, an entry and a precision."""
    from statistics import median

    from repro.cli.progress import duration

    alike: dict[tuple[str, str, str], list[float]] = {}
    for job in needs.jobs:
        alike.setdefault((job.study, job.what, job.precision), []).append(job.seconds)
    rows = [
        (*what, f"{len(seconds):,}", *map(duration, (median(seconds), max(seconds), sum(seconds))))
        for what, seconds in alike.items()
    ]
    return ["study", "what", "precision", "cases", "median", "longest", "expected"], rows


def _say(text: str, name: str = "") -> None:
    """Print a line of what a campaign needs, or one without a name."""
    from repro.cli.columns import terminal_width, wrapped

    for line in wrapped(text, terminal_width(), f"{name:{NAMES}}" if name else "", NAMES if name else 0):
        typer.echo(line)


def _size(nbytes: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if nbytes < 1024:
            return f"{nbytes:.3g} {unit}"
        nbytes /= 1024
    return f"{nbytes:.3g} GiB"
