"""`repro plan`: what a campaign will do, before it does it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

WIDE = 250


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
    import sys

    from rich.console import Console
    from rich.table import Table

    from repro.campaign.estimate import RATES, estimate
    from repro.campaign.freshness import Freshness
    from repro.campaign.plan import make_plan
    from repro.cli.progress import duration
    from repro.config import load

    # in a pipe a line a thing, however long, for grep
    out = Console(soft_wrap=True, highlight=False, width=None if sys.stdout.isatty() else WIDE)
    planned = make_plan(load(*(files or [Path("config/config.yaml")])))
    if planned.target is None:
        out.print(f"replay of {planned.results}: {len(planned.artifact_files)} tables and figures, nothing is measured")
        return
    cores = cores or len(os.sched_getaffinity(0))
    needs = estimate(planned, planned.target)
    table = Table("study", "problem", "what", "precision", "rows", "non-zeros", "size", "variants", "expected")
    for job in needs.jobs:
        rows, nonzeros = (f"{number:,}" for number in job.size)
        time = duration(job.seconds)
        table.add_row(
            job.study, job.problem, job.what, job.precision, rows, nonzeros, job.size_from, f"{job.variants:,}", time
        )
    rates = RATES[planned.target.dialect]
    total, absent = needs.modules
    out.print(f"campaign {planned.config.campaign} on {planned.device} ({planned.target.name})")
    out.print(table)
    out.print(f"modules        {total}, {absent} of them to compile, on {cores} cores")
    out.print(f"variants       {sum(job.variants for job in needs.jobs):,}")
    out.print(f"artifacts      {len(planned.artifact_files)}")
    freshness = Freshness(planned)
    out.print(f"steps          {freshness.total}, {len(freshness.stale)} of them to make")
    for line in freshness.described():
        out.print(f"               out of date: {line}")
    out.print(f"disk           about {_size(needs.disk_bytes)}, inputs that are downloaded aside")
    out.print(f"device memory  about {_size(needs.device_bytes)}")
    out.print(f"expected       about {duration(needs.seconds(cores))}")
    out.print(
        f"\nReckoned with {rates.screened / 1e9:g} GB/s for the average variant, {rates.finalist / 1e9:g} for those "
        f"near the best, {rates.library / 1e9:g} for the library; {rates.launch * 1e6:g} µs a launch, "
        f"{rates.variant * 1e3:g} ms a variant, {rates.start:g} s a job, {rates.compile:g} s to compile a module. "
        "Sizes are `built` (known exactly), `stated` (by the registry or the file's header), "
        "`at most` (a bound by the header alone) or `assumed`. What is measured or compiled already is not done again, "
        "and what is known to be refused, such as a matrix that is not square, has no variants."
    )


def _size(nbytes: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if nbytes < 1024:
            return f"{nbytes:.3g} {unit}"
        nbytes /= 1024
    return f"{nbytes:.3g} GiB"
