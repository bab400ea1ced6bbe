"""`repro measure`, `repro baseline` and `repro select`: the steps that need the device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

StudyName = Annotated[str, typer.Argument(help="A study of the configuration, for example compound_spmv.")]
ProblemName = Annotated[str, typer.Argument(help="A problem that `repro problem` has built.")]
Precision = Annotated[str, typer.Argument(help="single or double.")]
ConfigFile = Annotated[Path, typer.Option("--config", help="Configuration file.")]
DEFAULT_CONFIG = Path("config/config.yaml")


def measure(study: StudyName, problem: ProblemName, precision: Precision, config: ConfigFile = DEFAULT_CONFIG) -> None:
    """Verify and time every variant on one problem; the rows go to search.parquet.

    Every variant is screened with a few launches, then those within reach of the best get the full protocol. A run that
    was killed goes on where it was.

    Example:

        repro measure compound_spmv torus double
    """
    _run("measure", study, problem, precision, config)


def baseline(study: StudyName, problem: ProblemName, precision: Precision, config: ConfigFile = DEFAULT_CONFIG) -> None:
    """Verify and time the baselines, the streaming floor, a device copy and an empty kernel, into baseline.parquet.

    On a GPU the baselines are every routine of cuSPARSE that fits; on the CPU they are SciPy's CSR and BSR.

    Example:

        repro baseline compound_spmv torus double
    """
    _run("baseline", study, problem, precision, config)


def select(study: StudyName, problem: ProblemName, precision: Precision, config: ConfigFile = DEFAULT_CONFIG) -> None:
    """Choose the winners and time them again beside the baselines, in shuffled rounds.

    Schedule tuning alone, layout tuning and joint tuning are answered from the rows of `repro measure`; the answers go
    to choices.parquet, the new times, which nothing was chosen by, to report.parquet.

    Example:

        repro select compound_spmv torus double
    """
    _run("select", study, problem, precision, config)


def _run(step: str, study: str, problem: str, precision: str, config: Path) -> None:
    from repro.bench.watchdog import ContextLost, restart
    from repro.cli.progress import Progress
    from repro.config import load
    from repro.studies import measuring

    action: Callable[..., Any] = getattr(measuring, step)
    try:
        with Progress(f"{step} {problem} {precision}") as progress:
            written = action(load(config), study, problem, precision, progress)
    except ContextLost as lost:
        restart(f"the device's context was lost by {lost}")
    for path in written if isinstance(written, tuple) else (written,):
        typer.echo(f"wrote {path}")
