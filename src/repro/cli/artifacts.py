"""`repro table`, `repro figure` and `repro report`: everything that is made of measured rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from repro.cli.options import Receipt

if TYPE_CHECKING:
    from repro.artifacts.registry import Kind

Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[STUDY/]NAME...", help="`repro list artifacts` prints all; without a study all that have it are meant."
    ),
]
All = Annotated[bool, typer.Option("--all", help="All that the configuration asks for.")]
CampaignName = Annotated[
    str | None,
    typer.Option("--campaign", help="A recorded campaign: a folder below --results; that of --config by default."),
]
Campaigns = Annotated[
    list[str] | None,
    typer.Option(
        "--campaign",
        metavar="CAMPAIGN",
        help="A recorded campaign: a folder below --results; that of --config by default. Given again, others that "
        "stand beside the first, as by --beside.",
        show_default=False,
    ),
]
StudyName = Annotated[
    str | None, typer.Option("--study", help="A study of the campaign; all that it holds by default.")
]
Beside = Annotated[
    list[str] | None,
    typer.Option(
        "--beside",
        metavar="CAMPAIGN",
        help="Another recorded campaign, of another GPU say: its results stand beside this one's; can be given again. "
        "By default those that the configuration names (`beside`).",
        show_default=False,
    ),
]
Results = Annotated[Path, typer.Option("--results", metavar="DIR", help="Folder of the results.")]
Figures = Annotated[Path, typer.Option("--figures", metavar="DIR", help="Folder of the figures.")]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Names the campaign, its problems and its artifacts; by default config/config.yaml, and with --campaign "
        "what that campaign was run with.",
        show_default=False,
    ),
]
DEFAULT_CONFIG = Path("config/config.yaml")
RESULTS, FIGURES = Path("results"), Path("figures")


def table(
    names: Names = None,
    all_: All = False,
    campaign: CampaignName = None,
    study: StudyName = None,
    results: Results = RESULTS,
    config: ConfigFile = None,
    receipt: Receipt = False,
) -> None:
    """Make tables of a measured campaign, ours beside the published, as CSV, Markdown and LaTeX.

    They go to results/<campaign>/tables/<study>/NAME.{csv,md,tex}.

    Examples:

        repro table compound_spmv/table-1 compound_spmv/table-9

        repro table table-targets --campaign h200

        repro table --all --campaign h200 --study compound_spmv
    """
    with _receipt(receipt, config, "tables", study):
        _make("table", names or [], all_, campaign, study, results, results, config)


def figure(
    names: Names = None,
    all_: All = False,
    campaign: CampaignName = None,
    study: StudyName = None,
    results: Results = RESULTS,
    figures: Figures = FIGURES,
    config: ConfigFile = None,
    receipt: Receipt = False,
) -> None:
    """Make figures of a measured campaign as PDF, SVG and PNG.

    They go to figures/<campaign>/<study>/NAME.{pdf,svg,png}.

    Examples:

        repro figure compressed_coo/figure-5

        repro figure --all --campaign h200 --figures paper/figures
    """
    with _receipt(receipt, config, "figures", study):
        _make("figure", names or [], all_, campaign, study, results, figures, config)


def report(
    campaign: Campaigns = None,
    study: StudyName = None,
    results: Results = RESULTS,
    config: ConfigFile = None,
    beside: Beside = None,
    receipt: Receipt = False,
) -> None:
    """Write results/<campaign>/report.html: all tables and figures on one page that needs no network.

    With --beside, or several campaigns, the page has a name of its own, report-beside-CAMPAIGN.html.

    Examples:

        repro report

        repro report --campaign h200

        repro report --campaign h200 --beside repeat-h200

        repro report --campaign h200 --campaign repeat-h200
    """
    from repro.campaign.artifacts import Asked
    from repro.campaign.reporting import report as write
    from repro.cli.progress import Progress
    from repro.errors import ReproError

    named = campaign or []
    # each once; where none is named, those of the configuration
    beside = [*dict.fromkeys([*named[1:], *(beside or ())])] or None
    if receipt and beside:
        raise ReproError(
            "--receipt is for the page that the configuration asks for",
            actual=f"--beside {' --beside '.join(beside)}",
            todo="name the campaigns under `beside` in the configuration",
        )
    page = "-".join(["report", *(f"beside-{name}" for name in beside or ())])
    with _receipt(receipt, config, "report", None):
        asked = Asked.of(named[0] if named else None, results, config, beside)
        with Progress(f"report {asked.campaign}") as progress:
            path = write(asked, study, progress, page)
        typer.echo(f"wrote {path}")


@contextmanager
def _receipt(
    wanted: bool, config: Path | None, what: Literal["tables", "figures", "report"], study: str | None
) -> Iterator[None]:
    """Write the receipt of all tables or figures of a study, or of the report, where it is wanted."""
    if not wanted:
        yield
        return
    from repro.campaign.plan import make_plan
    from repro.campaign.receipts import making
    from repro.campaign.steps import presenting, reporting
    from repro.config import load

    plan = make_plan(load(config or DEFAULT_CONFIG))
    with making(reporting(plan) if what == "report" or study is None else presenting(plan, study, what)):
        yield


def _make(
    kind: Kind,
    names: list[str],
    all_: bool,
    campaign: str | None,
    study: str | None,
    results: Path,
    target: Path,
    config: Path | None,
) -> None:
    """Write tables or figures of each study that is meant below a folder, `target`."""
    from repro.artifacts.write import figures_folder, tables_folder, write
    from repro.campaign.artifacts import Asked, all_artifacts, find_artifacts, published_of
    from repro.cli.progress import Progress
    from repro.errors import ReproError

    asked = Asked.of(campaign, results, config)
    studies = asked.studies(study)
    if bool(names) == all_:
        choice = [f"{name}/{artifact.name}" for name in studies for artifact in all_artifacts(name, kind)]
        raise ReproError(
            "both names and --all are given" if names else f"no {kind} is named",
            expected=f"--all, or some of {', '.join(choice)}",
        )
    chosen = {name: asked.artifacts(name, kind) for name in studies} if all_ else find_artifacts(names, kind, studies)
    folder = tables_folder if kind == "table" else figures_folder
    with Progress(f"{kind}s {asked.campaign}") if all_ else nullcontext(lambda *_: None) as progress:
        for name, artifacts in chosen.items():
            progress(name, 0, len(artifacts))
            data, published = asked.read(name), published_of(name)
            for done, artifact in enumerate(artifacts, 1):
                for path in write(artifact, data, published, folder(target, asked.campaign, name)):
                    typer.echo(f"wrote {path}")
                progress(name, done, len(artifacts))
