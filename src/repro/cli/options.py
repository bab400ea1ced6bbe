"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

Receipt = Annotated[
    bool,
    typer.Option(
        "--receipt",
        help="Write a receipt of what this was made from, by which the workflow knows when to make it again.",
    ),
]
