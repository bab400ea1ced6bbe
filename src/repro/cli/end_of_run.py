"""What the workflow prints at the end of a run: why steps failed, where the results are, and the winners."""

from __future__ import annotations

import atexit
import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import typer

from repro.bench.campaign_folder import RESULTS
from repro.cli.results import print_rivals, print_winners


class _Kept(io.StringIO):
    """Text that is coloured as if it were printed at once."""

    def isatty(self) -> bool:
        return sys.__stdout__ is not None and sys.__stdout__.isatty()


@contextmanager
def below_all() -> Iterator[None]:
    """Keep what is printed until the process ends: Snakemake prints lines of its own after its handlers."""
    kept = _Kept()
    try:
        with redirect_stdout(kept):
            yield
    finally:
        # the text alone waits: at that time nothing can be imported that starts threads
        atexit.register(lambda: print(kept.getvalue(), end="", flush=True))


def print_end_of_run(campaign: str, reasons: bool = True) -> None:
    """Print the first winners on the user's own files, or on all problems where there are none, and all rivals.

    `reasons` are those of problems without a winner, in full.
    """
    from repro.campaign.artifacts import CampaignSelection
    from repro.campaign.winners import MAX_WINNERS, find_rivals, find_winners

    asked = CampaignSelection.of(campaign, RESULTS, beside=())
    own = find_winners(asked, own=True)
    winners = own or find_winners(asked)
    rivals = find_rivals(asked)
    if winners:
        first = f", the first {MAX_WINNERS} of {len(winners)}" if len(winners) > MAX_WINNERS else ""
        whose = "Your own problems" if own else "The fastest kernels"
        typer.echo(f"\n{whose}{first}; `repro best {campaign}` says it again:\n")
        more = "" if own else f"`repro best {campaign}` says how to take them away"
        print_winners(winners[:MAX_WINNERS], more, reasons)
    print_rivals(rivals[:MAX_WINNERS])
    if len(rivals) > MAX_WINNERS:
        typer.echo(f"these are {MAX_WINNERS} of {len(rivals)}: `repro best {campaign}` has all")


def print_failures(failed: str, logs: str, records: Sequence[Path | str]) -> None:
    """Print what the failed steps said last, below a line that stands out among what Snakemake prints around it.

    Parameters
    ----------
    failed
        What `repro.campaign.workflow.failures` returns; empty if no step failed, as in a run that was interrupted.
    logs
        Folder of the steps' logs.
    records
        Snakemake's own records of the run, which have its tracebacks.
    """
    if failed:
        head = "Not complete. The failed steps, and what each said last:"
        typer.echo(f"\n{typer.style(head, fg='red', bold=True)}\n\n{failed}\n")
    else:
        typer.echo(f"\n{typer.style('Not complete.', fg='red', bold=True)}")
    typer.echo(f"logs of the steps  {logs}")
    typer.echo(f"Snakemake's own    {' '.join(map(str, records))}")
    if failed:
        typer.echo("                   (RuleException, CalledProcessError, WorkflowError: that a step failed, not why)")
