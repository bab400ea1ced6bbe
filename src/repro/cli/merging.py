"""`repro merge`: campaigns measured in parts, as one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RESULTS = Path("results")


def merge(
    parts: Annotated[
        list[str], typer.Argument(metavar="PART…", help="Campaigns: their names, or their folders.", show_default=False)
    ],
    to: Annotated[str, typer.Option("--to", metavar="NAME", help="The merged campaign's name.", show_default=False)],
    keep_apart: Annotated[
        bool, typer.Option("--keep-apart", help="Merge rows of other code, another protocol or environment as well.")
    ] = False,
    results: Annotated[Path, typer.Option("--results", metavar="DIR", help="Folder of the results.")] = RESULTS,
) -> None:
    """Make one campaign of parts that were measured on several hosts or at several times.

    The parts stay as they are. The merged campaign is a record, results/NAME: the rows of all parts in one file a study
    and step, with the configuration of all, to be replayed. Each case is of one part; a case that several have is taken
    once if its rows are the same, and refused if they are not.

    The rows of a study must be of one protocol, one code and one environment. Where they are not, --keep-apart merges
    them with the record of the environment that each row was measured in, and says in NOTES.md what differs. Rows of
    several devices are never merged.

    Examples:

        repro merge first-half second-half --to whole

        repro merge /mnt/node1/results/large /mnt/node2/results/large --to large --keep-apart
    """
    from shlex import join

    from repro.campaign.merging import merge as run
    from repro.errors import ReproError

    if len(parts) < 2:
        raise ReproError("nothing to merge", expected="two parts or more", actual=", ".join(parts))
    merged = run(parts, results, to, keep_apart)
    for part in merged.parts:
        counts = ", ".join(f"{study} {len(cases)}" for study, cases in part.cases.items())
        left = f"; {part.left_out} that its configuration does not name are left out" if part.left_out else ""
        typer.echo(f"{part.name}: cases of {counts}{left}")
    typer.echo(f"{merged.folder}: cases of {', '.join(f'{study} {count}' for study, count in merged.cases.items())}")
    if merged.differences:
        count = len(merged.differences)
        typer.echo(f"kept apart: {count} {'difference' if count == 1 else 'differences'}, in {merged.folder}/NOTES.md")
    command = ["snakemake", "--cores", "4", "all", "--configfile", f"{merged.folder}/config.yaml"]
    typer.echo(f"tables, figures and report: {join(command)}")
