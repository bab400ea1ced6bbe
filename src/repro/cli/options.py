"""Options that several commands share, and their defaults."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from repro.bench.campaign_folder import CampaignFolder


def complete_campaign(incomplete: str) -> Iterator[str]:
    """Yield the campaigns below `results` whose names start with `incomplete`, for completion in a shell."""
    yield from (folder.name for folder in CampaignFolder.measured() if folder.name.startswith(incomplete))


def complete_study(incomplete: str) -> list[str]:
    """Return the studies whose names start with `incomplete`, for completion in a shell."""
    from repro.studies import study_names

    return [name for name in study_names() if name.startswith(incomplete)]


ConfigFile = Annotated[
    Path, typer.Option("--config", "--configfile", "-c", metavar="FILE", help="The campaign's configuration.")
]
ConfigFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--config",
        "--configfile",
        "-c",
        metavar="FILE",
        help="A configuration file instead of config/config.yaml; repeatable, later files override earlier ones.",
    ),
]
NamedFiles = Annotated[list[Path] | None, typer.Argument(metavar="FILE", help="The same as --config.")]
RecordedConfig = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "--configfile",
        "-c",
        metavar="FILE",
        help="The configuration that names the campaign, its problems and its artifacts; by default "
        "config/config.yaml, or with --campaign the one that the campaign was run with.",
        show_default=False,
    ),
]
CampaignName = Annotated[
    str | None,
    typer.Option(
        "--campaign",
        metavar="CAMPAIGN",
        help="A recorded campaign: a folder below --results; by default that of the configuration.",
        autocompletion=complete_campaign,
        show_default=False,
    ),
]
CampaignArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="CAMPAIGN",
        help="The same as --campaign.",
        autocompletion=complete_campaign,
        show_default=False,
    ),
]
Campaigns = Annotated[
    list[str] | None,
    typer.Option(
        "--campaign",
        metavar="CAMPAIGN",
        help="A recorded campaign: a folder below --results; by default the one that --config names. Repeat it to show "
        "other campaigns beside the first, as with --beside.",
        autocompletion=complete_campaign,
        show_default=False,
    ),
]
StudyName = Annotated[
    str | None,
    typer.Option("--study", help="A study of the campaign; all by default.", autocompletion=complete_study),
]
Results = Annotated[Path, typer.Option("--results", metavar="DIR", help="Folder of the results.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the output as JSON.")]
Receipt = Annotated[
    bool,
    typer.Option(
        "--receipt",
        help="Write a receipt of the inputs and the configuration, from which the workflow sees when to repeat this.",
    ),
]
#: Id of the run, passed by the supervising process to the measuring process.
Run = Annotated[str | None, typer.Option("--run", hidden=True)]


def named_campaign(named: str | None, campaign: str | None) -> str | None:
    """Return the campaign that the argument or `--campaign` names; None if neither does.

    Raises `ReproError`: they name different ones.
    """
    if named and campaign and named != campaign:
        from repro.errors import ReproError

        raise ReproError(
            "two campaigns were named", expected="one", actual=f"{named} --campaign {campaign}", todo="name only one"
        )
    return named or campaign


def print_json(content: object) -> None:
    """Print plain data as JSON; paths and other objects are written as their text."""
    import json

    typer.echo(json.dumps(content, indent=2, ensure_ascii=False, default=str))
