"""The command `repro claims`: verdicts on the papers' claims."""

from __future__ import annotations

from typing import Annotated

import typer

from repro.cli.options import DEFAULT_RESULTS, AsJson, CampaignName, RecordedConfig, Results, StudyName, print_json


def claims(
    campaign: CampaignName = None,
    study: StudyName = None,
    as_json: AsJson = False,
    report: Annotated[
        bool,
        typer.Option(
            "--report", help="Write results/<campaign>/reproduction.md and .tex: what was re-run, on what, each claim."
        ),
    ] = False,
    results: Results = DEFAULT_RESULTS,
    config: RecordedConfig = None,
) -> None:
    """Say of each claim of the papers whether it holds, by the rows of a campaign.

    Holds: in the published range or within the claim's tolerance. Weaker, stronger: beyond it. Reversed: the opposite
    was measured. Not testable here: there are no rows for it, and the reason is told. The claims are the lines of
    config/claims/<study>.csv; a CPU judges none that was published of a GPU.

    Examples:

        repro claims --campaign h200

        repro claims --campaign h100 --study compressed_coo --json

        repro claims --campaign h200 --report
    """
    from repro.campaign.artifacts import Asked
    from repro.campaign.report import claim_tables, verdict_line, write_reproduction
    from repro.cli.console import in_columns, terminal_width
    from repro.errors import ReproError

    asked = Asked.of(campaign, results, config)
    tables = claim_tables(asked, study)
    if not tables:
        raise ReproError(
            "no study with claims",
            where=f"campaign {asked.campaign}",
            expected="a study with config/claims/<study>.csv",
            actual=", ".join(asked.studies(study)),
        )
    if as_json:
        keys = {name: [column.key for column in table.columns] for name, (_, table) in tables.items()}
        told = {
            name: [dict(zip(keys[name], (cell.value for cell in row), strict=True)) for row in table.rows]
            for name, (_, table) in tables.items()
        }
        print_json({"campaign": asked.campaign, "claims": told})
    else:
        shown = ("verdict", "id", "published", "measured", "cases", "kernels", "claim")
        for name, (measured, table) in tables.items():
            at = [next(i for i, column in enumerate(table.columns) if column.key == key) for key in shown]
            typer.echo(f"{name} on {measured.column}: {verdict_line(table)}")
            lines = [[row[i].shown for i in at] for row in table.rows]
            for line in in_columns(
                ["verdict", "id", "published", "here", "cases", "kernels", "claim"], lines, terminal_width()
            ):
                typer.echo(line)
            typer.echo()
    if report:
        for path in write_reproduction(asked, tables):
            typer.echo(f"wrote {path}", err=as_json)
