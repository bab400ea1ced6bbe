"""`repro record`: a measured campaign as the few files that are kept of it."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

RESULTS = Path("results")


def record(
    campaign: Annotated[str, typer.Argument(help="Folder below --results.", show_default=False)],
    results: Annotated[Path, typer.Option("--results", metavar="DIR", help="Folder of the results.")] = RESULTS,
) -> None:
    """Keep a campaign as a record: one file a study and step.

    The rows of all problems go to results/<campaign>/raw/<study>/<step>.parquet, and the files of single problems are
    deleted. Tables, figures, report and comparison read either. A problem that is measured again later is merged by the
    same command. It is refused while a run works in the folder.

    Example:

        repro record h200
    """
    from repro.campaign.recording import pack
    from repro.campaign.starting import held_alone
    from repro.problems.names import campaign_folder

    raw = campaign_folder(results, campaign) / "raw"
    # what a run writes between reading and deleting would be lost; where there is nothing, `pack` says so
    with held_alone(campaign, results) if raw.is_dir() else nullcontext():
        before = _sizes(raw)
        for path in pack(raw):
            typer.echo(f"{path}: {_mib(path.stat().st_size)}")
        after = _sizes(raw)
    typer.echo(f"{len(before)} files of {_mib(sum(before))} before, {len(after)} of {_mib(sum(after))} now")


def _sizes(raw: Path) -> list[int]:
    """Return the bytes of each Parquet file below a folder."""
    from repro.reading import files_below

    return [path.lstat().st_size for path in files_below(raw, "*.parquet")]


def _mib(size: int) -> str:
    return f"{size / 2**20:.2f} MiB"
