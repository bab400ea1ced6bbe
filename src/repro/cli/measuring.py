"""`repro measure`: what needs the device."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

StudyName = Annotated[str, typer.Argument(help="A study of the configuration, for example compound_spmv.")]
ProblemName = Annotated[str, typer.Argument(help="A problem that `repro problem` has built.")]
Precision = Annotated[str, typer.Argument(help="single or double.")]
ConfigFile = Annotated[Path, typer.Option("--config", help="Configuration file.")]
DEFAULT_CONFIG = Path("config/config.yaml")


def measure(study: StudyName, problem: ProblemName, precision: Precision, config: ConfigFile = DEFAULT_CONFIG) -> None:
    """Verify and time everything on one problem: every variant, the streaming floor, the library's routines.

    Every variant is screened with a few launches, then those within reach of the best get the full protocol
    (search.parquet). A streaming floor, a device copy and an empty kernel are what times are held against
    (baseline.parquet). The winners of schedule tuning alone, layout tuning and joint tuning (choices.parquet) are timed
    again in shuffled rounds beside every routine of the library that fits (cuSPARSE on a GPU, SciPy on the CPU), warm
    and cold; these times, which nothing was chosen by, are the reported ones (report.parquet). A run that was killed
    goes on where it was.

    Example:

        repro measure compound_spmv torus double
    """
    from repro.bench.watchdog import ContextLost, restart
    from repro.cli.progress import Progress
    from repro.config import load
    from repro.studies import measuring

    try:
        with Progress(f"measure {problem} {precision}") as progress:
            written = measuring.measure(load(config), study, problem, precision, progress)
    except ContextLost as lost:
        restart(f"the device's context was lost by {lost}")
    for path in written:
        typer.echo(f"wrote {path}")
