"""`repro check`: the end of a run, which fails if anything is missing."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer


def check(
    config: Annotated[Path, typer.Option(help="Configuration of the campaign.")] = Path("config/config.yaml"),
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write this file where nothing is missing.")
    ] = None,
) -> None:
    """Name all of a campaign that is unavailable, failed or out of date; exit with 1 if there is anything.

    A campaign is complete where each of its files was made from what the configuration asks for now, by the receipts
    beside them, nothing was changed since, and nothing failed. What failed is tried again by the next run. A time on a
    CPU that something else disturbed is named too, but the campaign is complete without it.

    Example:

        repro check --config results/default/config.yaml
    """
    from repro.campaign.completeness import find_missing
    from repro.campaign.freshness import Freshness
    from repro.campaign.plan import make_plan
    from repro.campaign.receipts import making
    from repro.config import load
    from repro.errors import ReproError

    plan = make_plan(load(config))
    freshness = None if plan.config.replay else Freshness(plan)
    named = find_missing(plan, freshness)
    for part in named:
        typer.echo(f"{part.what}: {part.reason}\n", err=True)
    missing = [part for part in named if not part.remark]
    if not missing:
        words = f"campaign {plan.config.campaign} is complete"
        if output is not None:
            # a receipt is of what a step writes: of a file elsewhere there is none
            steps = freshness.steps[-1:] if freshness else ()
            own = [step for step in steps if output.absolute() in (path.absolute() for path in step.outputs)]
            with making(own[0]) if own else nullcontext():
                output.write_text(f"{words}\n")
        typer.echo(words)
        return
    raise ReproError(
        f"missing or failed: {len(missing)}",
        where=f"campaign {plan.config.campaign}; all else is in {plan.results} and {plan.figures}",
        todo="see the messages above; the same command tries again what can be tried again",
    )
