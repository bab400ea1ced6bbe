"""Output of the workflow at the end of a run: why steps failed, where the results are, and the winners."""

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
    """Text buffer that claims to be a terminal if standard output is one, so that the text gets colours."""

    def isatty(self) -> bool:
        return sys.__stdout__ is not None and sys.__stdout__.isatty()


@contextmanager
def below_all() -> Iterator[None]:
    """Delay all output of the body until the process ends, so that it appears below Snakemake's own last lines."""
    kept = _Kept()
    try:
        with redirect_stdout(kept):
            yield
    finally:
        # only printing is delayed: at exit, modules that start threads can no longer be imported
        atexit.register(lambda: print(kept.getvalue(), end="", flush=True))


def print_end_of_run(campaign: str, reasons: bool = True) -> None:
    """Print the first winners on the user's own files (if there are none, on all problems), and all rivals.

    With `reasons`, the full reason is printed for each problem without a winner.
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
    """Print the last output of the failed steps, below a line that is easy to find in Snakemake's output.

    Parameters
    ----------
    failed
        Result of `repro.campaign.workflow.failures`; empty if no step failed, as in an interrupted run.
    logs
        Folder of the steps' logs.
    records
        Snakemake's own log files of the run, which contain its tracebacks.
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
