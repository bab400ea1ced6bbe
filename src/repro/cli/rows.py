"""The command `repro results`: measured rows for programs of others."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from repro.cli.options import DEFAULT_RESULTS, Results


def results_(
    campaign: Annotated[str, typer.Argument(help="A recorded campaign: a folder below --results.")] = "default",
    study: Annotated[str | None, typer.Option("--study", help="A study of it; all by default.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="As JSON, the default: all columns, samples too.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="As CSV: all columns but the samples.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of both instead.")] = False,
    t4: Annotated[
        Path | None,
        typer.Option(
            "--t4",
            metavar="DIR",
            help="Write the searches in Kernel Tuner's format T4 to DIR/<study>/<problem>/<precision>.json instead.",
        ),
    ] = None,
    results: Results = DEFAULT_RESULTS,
) -> None:
    """Print the measured rows of a campaign for other programs, or write its searches in a format of others.

    A row is one variant, baseline, rival or yardstick that was tried, in seconds and bytes; what a column means is in
    docs/reference/columns.md, and its type in the schema.

    Examples:

        repro results h200 --study compound_spmv --csv > rows.csv

        repro results h200 --schema

        repro results h200 --t4 build/t4
    """
    from repro.bench.rows import SCHEMA
    from repro.campaign.interchange import json_schema, rows_of, studies_of, t4_of, write_csv
    from repro.errors import ReproError
    from repro.filesystem import write_whole

    asked = [word for word, on in (("--json", json_), ("--csv", csv), ("--schema", schema), ("--t4", t4)) if on]
    if len(asked) > 1:
        raise ReproError(
            "one format at a time", expected="one of --json, --csv, --schema, --t4", actual=" ".join(asked)
        )
    raw = results / campaign / "raw"
    studies = studies_of(raw, study)
    if schema:
        typer.echo(json.dumps(json_schema(studies), indent=1))
    elif csv:
        write_csv(raw, studies, sys.stdout)
    elif t4 is not None:
        for one in studies:
            for (problem, precision), search in t4_of(raw, one).items():
                path = t4 / one.name / problem / f"{precision}.json"
                write_whole(path, json.dumps(search) + "\n")
                typer.echo(f"{path}: {len(search['results'])} variants")
    else:
        rows = [row for one in studies for row in rows_of(raw, one)]
        typer.echo(json.dumps({"schema": SCHEMA, "campaign": campaign, "rows": rows}))
