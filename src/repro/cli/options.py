"""Options that several commands share, and their defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_RESULTS = Path("results")

ConfigFile = Annotated[Path, typer.Option("--config", "-c", metavar="FILE", help="The campaign's configuration.")]
ConfigFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="A configuration file in place of config/config.yaml; given again, later ones lie over earlier ones.",
    ),
]
Results = Annotated[Path, typer.Option("--results", metavar="DIR", help="Folder of the results.")]
Receipt = Annotated[
    bool,
    typer.Option(
        "--receipt",
        help="Write a receipt of what this was made from, by which the workflow knows when to make it again.",
    ),
]
#: Id of the run, passed by the supervising process to the measuring process.
Run = Annotated[str | None, typer.Option("--run", hidden=True)]
