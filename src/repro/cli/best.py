"""The command `repro best`: the kernel that won on each problem of a campaign, and the lines that take it away."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from repro.cli.options import DEFAULT_RESULTS, Results

if TYPE_CHECKING:
    from repro.campaign.winners import Winner


def best(
    campaign: Annotated[
        str | None,
        typer.Argument(
            metavar="[CAMPAIGN]",
            help="A measured campaign: a folder below --results; that of --config by default.",
            show_default=False,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON, times in seconds.")] = False,
    study: Annotated[
        str | None, typer.Option("--study", help="A study of the campaign; by default all that choose a kernel.")
    ] = None,
    results: Results = DEFAULT_RESULTS,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", metavar="FILE", help="Names the campaign and its problems.", show_default=False),
    ] = None,
) -> None:
    """Say which kernel won on each problem, beside the library, and how to take it to C++ and to Python.

    Times are medians of the shuffled rounds, with a warm cache. A winner leaves the unknowns in their order. What an
    operator of Python runs is the fastest kernel that takes vectors as NumPy, CuPy and PyTorch have them.

    Examples:

        repro best mine

        repro best mine --json
    """
    from repro.campaign.artifacts import Asked
    from repro.campaign.winners import as_json, find_winners, studies_without

    asked = Asked.of(campaign, results, config, beside=())
    winners = find_winners(asked, study)
    if json:
        typer.echo(as_json(winners))
        return
    print_winners(winners)
    for name, table in studies_without(asked, study):
        typer.echo(f"\n{name} chooses no single kernel a problem: its times are in {table}")


def print_winners(winners: Sequence[Winner]) -> None:
    """Print a table of winners, and for each problem the lines that take its kernels away."""
    from repro.campaign.winners import HEADS, table_rows, ways_out
    from repro.cli.console import in_columns, terminal_width

    for number, line in enumerate(in_columns(HEADS, table_rows(winners), terminal_width()) if winners else ()):
        typer.echo(line if number else typer.style(line, bold=True))
    for problem, lines in ways_out(winners):
        typer.echo(f"\n{typer.style(problem, bold=True)}")
        for line in lines:
            typer.echo(f"    {line}")


def print_end_of_run(campaign: str) -> None:
    """Print the winners on the user's own files, the first ones where there are many; nothing if there are none."""
    from repro.campaign.artifacts import Asked
    from repro.campaign.winners import SHOWN, find_winners

    winners = find_winners(Asked.of(campaign, DEFAULT_RESULTS, beside=()), own=True)
    if winners:
        more = f", the first {SHOWN} of {len(winners)}" if len(winners) > SHOWN else ""
        typer.echo(f"\nYour own problems{more}; `repro best {campaign}` says it again:\n")
        print_winners(winners[:SHOWN])
