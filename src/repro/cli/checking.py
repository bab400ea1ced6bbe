"""`repro check`: the end of a run, which fails if anything is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def check(
    config: Annotated[Path, typer.Option(help="Configuration of the campaign.")] = Path("config/config.yaml"),
    keep: Annotated[
        bool, typer.Option("--keep", help="Delete no record: the next run takes them as they are.")
    ] = False,
) -> None:
    """Name every problem, module and row of a campaign that is unavailable or failed; exit with 1 if there is any.

    The records of problems that could not be had and of modules that do not compile are deleted, so that the next run
    tries them again; tables, figures and report stay as they are.

    Example:

        repro check --config results/default/config.yaml
    """
    from repro.campaign.completeness import find_missing
    from repro.campaign.plan import make_plan
    from repro.config import load
    from repro.errors import ReproError

    plan = make_plan(load(config))
    missing = find_missing(plan)
    if not missing:
        typer.echo(f"campaign {plan.config.campaign} is complete")
        return
    for part in missing:
        typer.echo(f"{part.what}: {part.reason}\n", err=True)
        if part.again is not None and not keep:
            part.again.unlink(missing_ok=True)
    raise ReproError(
        f"missing or failed: {len(missing)}",
        where=f"campaign {plan.config.campaign}; all else is in {plan.results} and {plan.figures}",
        todo="see the messages above; the same command tries again what can be tried again",
    )
