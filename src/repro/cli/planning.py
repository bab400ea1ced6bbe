"""`repro plan`: what a campaign will do, before it does it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

#: Columns of the names of what a campaign needs.
NAMES = 15


def plan(
    files: Annotated[
        list[Path] | None,
        typer.Option(
            "--config", help="A configuration file in place of config/config.yaml; see `repro config --help`."
        ),
    ] = None,
    cores: Annotated[int | None, typer.Option(help="Cores to compile on; all of this machine's by default.")] = None,
) -> None:
    """Print what a campaign will compile and measure, and the disk, device memory and time it will take.

    Examples:

        repro plan

        repro plan --config config/paper.yaml --cores 16
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
    heads = ["problem", "what", "precision", "variants", "expected", "rows", "non-zeros", "size", "study"]
    rows = []
    for job in needs.jobs:
        size = (*(f"{number:,}" for number in job.size), job.size_from)
        time = duration(job.seconds)
        rows.append((job.problem, job.what, job.precision, f"{job.variants:,}", time, *size, job.study))
    rates = RATES[planned.target.dialect]
    total, absent = needs.modules
    _say(f"campaign {planned.config.campaign} on {planned.device} ({planned.target.name})")
    typer.echo()
    for line in in_columns(heads, rows, terminal_width()):
        typer.echo(line)
    typer.echo()
    _say(f"{total}, {absent} of them to compile, on {cores} cores", "modules")
    _say(f"{sum(job.variants for job in needs.jobs):,}", "variants")
    _say(f"{len(planned.artifact_files)}", "artifacts")
    freshness = Freshness(planned)
    _say(f"{freshness.total}, {len(freshness.stale)} of them to make", "steps")
    for line in freshness.described():
        _say(f"out of date: {line}", " ")
    _say(f"about {_size(needs.disk_bytes)}, inputs that are downloaded aside", "disk")
    _say(f"about {_size(needs.device_bytes)}", "device memory")
    _say(f"about {duration(needs.seconds(cores))}", "expected")
    typer.echo()
    _say(
        f"Reckoned with {rates.screened / 1e9:g} GB/s for the average variant, {rates.finalist / 1e9:g} for those "
        f"near the best, {rates.library / 1e9:g} for the library; {rates.launch * 1e6:g} µs a launch, "
        f"{rates.variant * 1e3:g} ms a variant, {rates.start:g} s a job, {rates.compile:g} s to compile a module. "
        "Sizes are `built` (known exactly), `stated` (by the registry or the file's header), "
        "`at most` (a bound by the header alone) or `assumed`. What is measured or compiled already is not done again, "
        "and what is known to be refused, such as a matrix that is not square, has no variants."
    )


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
