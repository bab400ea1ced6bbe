"""`repro measure`: what needs the device."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from repro.cli.options import Receipt

StudyName = Annotated[str, typer.Argument(help="A study of the configuration, for example compound_spmv.")]
ProblemName = Annotated[str, typer.Argument(help="A problem that `repro problem` has built.")]
Precision = Annotated[str, typer.Argument(help="single or double.")]
ConfigFile = Annotated[Path, typer.Option("--config", help="Configuration file.")]
DEFAULT_CONFIG = Path("config/config.yaml")


def measure(
    study: StudyName,
    problem: ProblemName,
    precision: Precision,
    config: ConfigFile = DEFAULT_CONFIG,
    receipt: Receipt = False,
) -> None:
    """Verify and time everything on one problem: every variant, the streaming floor, the library's routines.

    Every variant is screened with a few launches, then those within reach of the best get the full protocol
    (search.parquet). A streaming floor, a device copy and an empty kernel are what times are held against
    (baseline.parquet). The winners of each tuning that the study has (choices.parquet) are timed again in shuffled
    rounds, beside the library's routines where the study has any; these times, which nothing was chosen by, are the
    reported ones (report.parquet). A run that was killed goes on where it was.

    The problem has to be built and its modules to be compiled, which the workflow does by itself: `snakemake`.

    Examples:

        repro problem dirac_torus -o results/default/problems/dirac_torus.npz

        repro measure compound_spmv dirac_torus double
    """
    from repro.bench.watchdog import ContextLost, restart
    from repro.campaign import measuring
    from repro.campaign.completeness import find_missing_rows
    from repro.campaign.plan import plan_of_case
    from repro.campaign.receipts import making
    from repro.campaign.steps import measuring as measuring_step
    from repro.cli.progress import Progress
    from repro.config import load

    settings = load(config)
    try:
        if receipt:
            plan = plan_of_case(settings, problem, study)
            step = measuring_step(plan, study, problem, precision)
        with making(step) if receipt else nullcontext() as made, Progress(f"measure {problem} {precision}") as progress:
            written = measuring.measure(settings, study, problem, precision, progress)
            if made:
                made.also(*measuring.environments_of(written))
                for part in find_missing_rows(plan):
                    made.failed(part.reason)
    except ContextLost as lost:
        restart(f"the device's context was lost by {lost}")
    for path in written:
        typer.echo(f"wrote {path}")
