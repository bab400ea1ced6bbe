"""`repro environment`: what a recorded campaign was measured with, in the form that pip takes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RESULTS = Path("results")


def environment(
    campaign: Annotated[
        str, typer.Option("--campaign", metavar="NAME", help="Folder below --results.", show_default=False)
    ],
    record: Annotated[
        str | None, typer.Option("--record", metavar="HASH", help="One environment record.", show_default=False)
    ] = None,
    results: Annotated[Path, typer.Option("--results", metavar="DIR", help="Folder of the results.")] = RESULTS,
) -> None:
    """Print the packages that a campaign was measured with as constraints for pip.

    Comments name what pip does not install: device, driver, CUDA toolkit, compiler, Python. The packages are those that
    times depend on, as the campaign's environment record has them.

    Examples:

        repro environment --campaign h200 > h200.txt

        pip install -c h200.txt -e '.[cuda]'
    """
    from repro.campaign.constraints import constraints_of
    from repro.problems.names import campaign_folder

    typer.echo(constraints_of(campaign_folder(results, campaign) / "raw", record))
