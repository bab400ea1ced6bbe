"""Output at the end of a run: why steps failed, where the results are, and the winners, as `repro best` prints them."""

from __future__ import annotations

import atexit
import io
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from repro.bench.campaign_folder import RESULTS
from repro.bench.worker import BY_SIGNAL

if TYPE_CHECKING:
    from repro.campaign.artifacts import CampaignSelection
    from repro.campaign.winners import Winner
    from repro.results.shared_artifacts import RivalLine


class _Kept(io.StringIO):
    """Text buffer that claims to be a terminal if standard output is one, so that the text gets colours."""

    def isatty(self) -> bool:
        return sys.__stdout__ is not None and sys.__stdout__.isatty()


@contextmanager
def below_all() -> Iterator[None]:
    """Delay all output of the body until the process ends, so that it appears below Snakemake's own last lines."""
    kept_lines = _Kept()
    try:
        with redirect_stdout(kept_lines):
            yield
    finally:
        # only printing is delayed: at exit, modules that start threads can no longer be imported
        atexit.register(lambda: print(kept_lines.getvalue(), end="", flush=True))


def print_end_of_run(campaign: str, reasons: bool = True) -> None:
    """Print the first winners on the user's own files (if there are none, on all problems), and all rivals.

    With `reasons`, the full reason is printed for each problem without a winner.
    """
    from repro.campaign.artifacts import CampaignSelection
    from repro.campaign.winners import MAX_WINNERS, find_rivals, find_winners

    selection = CampaignSelection.of(campaign, RESULTS, reference_names=())
    own_winners = find_winners(selection, own_only=True)
    winners = own_winners or find_winners(selection)
    rivals = find_rivals(selection)
    if winners:
        first = f", the first {MAX_WINNERS} of {len(winners)}" if len(winners) > MAX_WINNERS else ""
        title = "Your own problems" if own_winners else "The fastest kernels"
        typer.echo(f"\n{title}{first}; `repro best {campaign}` says it again:\n")
        advice = "" if own_winners else f"`repro best {campaign}` says how to take them away"
        print_winners(winners[:MAX_WINNERS], advice, reasons)
    print_rivals(rivals[:MAX_WINNERS])
    if len(rivals) > MAX_WINNERS:
        typer.echo(f"these are {MAX_WINNERS} of {len(rivals)}: `repro best {campaign}` has all")
    print_not_searched(selection, winners)


def print_failures(rule_text: str, logs: str, records: Sequence[Path | str], exit_code: int = 1) -> None:
    """Print the last output of the failed steps, below a line that is easy to find in Snakemake's output.

    Parameters
    ----------
    rule_text
        Result of `repro.campaign.workflow.failures`; empty if no step failed, as in an interrupted run.
    logs
        Folder of the steps' logs.
    records
        Snakemake's own log files of the run, which contain its tracebacks.
    exit_code
        With which the run ends; above 128 after a signal that asked it to end.
    """
    if exit_code > BY_SIGNAL:
        state = "Interrupted." if exit_code == BY_SIGNAL + signal.SIGINT else "Terminated."
        typer.echo(f"\n{typer.style(state, fg='red', bold=True)} The same command goes on from here.")
    if rule_text:
        header = "Not complete. The failed steps, and what each said last:"
        typer.echo(f"\n{typer.style(header, fg='red', bold=True)}\n\n{rule_text}\n")
    elif exit_code < BY_SIGNAL:
        typer.echo(f"\n{typer.style('Not complete.', fg='red', bold=True)} The same command goes on from here.")
    typer.echo(f"logs of the steps  {logs}")
    typer.echo(f"Snakemake's own    {' '.join(map(str, records))}")
    if rule_text:
        typer.echo("                   (RuleException, CalledProcessError: that a step failed, not why)")


def print_winners(winners: Sequence[Winner], advice: str = "", reasons: bool = True) -> None:
    """Print a table of winners, and for each problem the shell and Python lines that use its kernels.

    `advice` is printed below the table, in place of these lines. Without `reasons`, only the table states why a problem
    has no winner, shortened.
    """
    from repro.campaign.winners import REHEARSAL, SPARE_HEADS, notes, table_headers, table_rows, usage_lines
    from repro.cli.console import INDENT, in_columns, leave_out_columns, terminal_width, wrapped

    if any(winner.on_cpu for winner in winners):
        typer.echo(f"{typer.style(REHEARSAL, fg='yellow')}\n")
    studies = [*dict.fromkeys(winner.study for winner in winners)]
    unprinted: dict[str, None] = {}
    for number, study in enumerate(studies):
        if len(studies) > 1:
            typer.echo("\n" * bool(number) + typer.style(study, bold=True))
        study_winners = [winner for winner in winners if winner.study == study]
        headers, rows, left_out = leave_out_columns(
            table_headers(study_winners), table_rows(study_winners), SPARE_HEADS
        )
        unprinted |= dict.fromkeys(left_out)
        header, *lines = in_columns(headers, rows, terminal_width())
        typer.echo("\n".join([typer.style(header, bold=True), *lines]))
    if unprinted:
        said = f"a wider terminal, a pipe or --json has also: {', '.join(unprinted)}"
        typer.echo("\n".join(wrapped(said, terminal_width())))
    for number, note in enumerate(notes(winners, reasons)):
        if number == 0:
            typer.echo()
        for part in note.splitlines():
            typer.echo("\n".join(wrapped(part, terminal_width(), indent=INDENT)))
    if advice:
        typer.echo(f"\n{advice}")
        return
    for problem, lines in usage_lines(winners):
        typer.echo(f"\n{typer.style(problem, bold=True)}")
        for line in lines:
            typer.echo(f"    {line}")


def print_not_searched(asked: CampaignSelection, winners: Sequence[Winner]) -> None:
    """Print a line if a GPU was searched for the papers' kernels alone, so that ours may be faster."""
    from repro.campaign.winners import without_ours
    from repro.cli.console import INDENT, terminal_width, wrapped

    if keys := [f"studies.{study}" for study in without_ours(asked, winners)]:
        line = f"Ours were not searched: `space: extended` in {' and '.join(keys)} does."
        typer.echo("\n" + "\n".join(wrapped(line, terminal_width(), indent=INDENT)))


def print_rivals(rivals: Sequence[RivalLine]) -> None:
    """Print the result of each rival in each case, if there are rivals."""
    from repro.campaign.winners import RIVAL_HEADS, faster_rivals, rival_rows
    from repro.cli.console import INDENT, in_columns, terminal_width, wrapped

    if rivals:
        typer.echo(f"\n{typer.style('Your own kernels', bold=True)}, beside ours and the library; above 1 is faster:\n")
    for line in in_columns(RIVAL_HEADS, rival_rows(rivals), terminal_width()) if rivals else ():
        typer.echo(line)
    for note in faster_rivals(rivals):
        typer.echo("\n".join(wrapped(note, terminal_width(), indent=INDENT)))
