"""Options that several commands have, and their defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_CONFIG = Path("config/config.yaml")
DEFAULT_RESULTS = Path("results")

Receipt = Annotated[
    bool,
    typer.Option(
        "--receipt",
        help="Write a receipt of what this was made from, by which the workflow knows when to make it again.",
    ),
]
