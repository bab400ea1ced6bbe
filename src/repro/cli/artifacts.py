"""`repro table`, `repro figure` and `repro report`: everything that is made of measured rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from repro.artifacts.data import Campaign
    from repro.artifacts.registry import Artifact, Kind

DEFAULT_CONFIG = Path("config/config.yaml")

Names = Annotated[list[str] | None, typer.Argument(metavar="NAME...", help="Names; `repro list` prints all.")]
All = Annotated[bool, typer.Option("--all", help="All that the configuration asks for.")]
CampaignName = Annotated[
    str | None, typer.Option("--campaign", help="Folder below --results; the configuration's by default.")
]
StudyName = Annotated[
    str | None, typer.Option("--study", help="A study of the campaign; all that it holds by default.")
]
Results = Annotated[Path, typer.Option("--results", metavar="DIR", help="Folder of the results.")]
Figures = Annotated[Path, typer.Option("--figures", metavar="DIR", help="Folder of the figures.")]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help=f"Names the campaign and its artifacts; {DEFAULT_CONFIG} unless --campaign is given.",
        show_default=False,
    ),
]
RESULTS, FIGURES = Path("results"), Path("figures")


def table(
    names: Names = None,
    all_: All = False,
    campaign: CampaignName = None,
    study: StudyName = None,
    results: Results = RESULTS,
    config: ConfigFile = None,
) -> None:
    """Make tables of a measured campaign, ours beside the published, as CSV, Markdown and LaTeX.

    They go to results/<campaign>/tables/<study>/NAME.{csv,md,tex}.

    Examples:

        repro table table-1 table-9

        repro table --all --campaign h200 --study compound_spmv
    """
    _make("table", names or [], all_, campaign, study, results, results, config)


def figure(
    names: Names = None,
    all_: All = False,
    campaign: CampaignName = None,
    study: StudyName = None,
    results: Results = RESULTS,
    figures: Figures = FIGURES,
    config: ConfigFile = None,
) -> None:
    """Make figures of a measured campaign as PDF, SVG and PNG.

    They go to figures/<campaign>/<study>/NAME.{pdf,svg,png}.

    Examples:

        repro figure figure-5

        repro figure --all --campaign h200 --figures paper/figures
    """
    _make("figure", names or [], all_, campaign, study, results, figures, config)


def report(
    campaign: CampaignName = None,
    study: StudyName = None,
    results: Results = RESULTS,
    config: ConfigFile = None,
) -> None:
    """Write results/<campaign>/report.html: all tables and figures on one page that needs no network.

    Examples:

        repro report

        repro report --campaign h200
    """
    from repro.artifacts.published import Published
    from repro.artifacts.report import write_report

    settings = _Settings(campaign, config)
    parts = [
        (data, Published.load(study=data.study), settings.wanted(data.study))
        for data in _load(results, settings.campaign, study)
    ]
    typer.echo(f"wrote {write_report(parts, results / settings.campaign / 'report.html')}")


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
    from repro.artifacts import artifacts, get_artifact, studies
    from repro.artifacts.published import Published
    from repro.artifacts.write import figures_folder, tables_folder, write
    from repro.errors import ReproError

    if bool(names) == all_:
        known = sorted({artifact.name for each in studies() for artifact in artifacts(each, kind)})
        raise ReproError(
            "both names and --all are given" if names else f"no {kind} is named",
            expected=f"--all, or some of {', '.join(known)}",
        )
    settings = _Settings(campaign, config)
    folder = tables_folder if kind == "table" else figures_folder
    for data in _load(results, settings.campaign, study):
        published = Published.load(study=data.study)
        chosen = (
            [artifact for artifact in settings.wanted(data.study) if artifact.kind == kind]
            if all_
            else [get_artifact(data.study, name, kind) for name in names]
        )
        for artifact in chosen:
            for path in write(artifact, data, published, folder(target, settings.campaign, data.study)):
                typer.echo(f"wrote {path}")


class _Settings:
    """What a configuration says of campaign and artifacts, where there is one to ask."""

    def __init__(self, campaign: str | None, config: Path | None) -> None:
        from repro.config import load

        given = load(config or DEFAULT_CONFIG) if config or not campaign else None
        self.campaign = campaign or (given.campaign if given else "")
        self._asked = {name: study.artifacts for name, study in given.studies.items()} if given else {}

    def wanted(self, study: str) -> list[Artifact]:
        """Return a study's artifacts that are asked for, in their order."""
        from repro.artifacts import artifacts, get_artifact

        asked = self._asked.get(study, "all")
        everything = artifacts(study)
        if asked == "all":
            return everything
        names = {get_artifact(study, name).name for name in asked}
        return [artifact for artifact in everything if artifact.name in names]


def _load(results: Path, campaign: str, study: str | None) -> list[Campaign]:
    """Read one study of a campaign, or each that it holds."""
    from repro.artifacts import studies
    from repro.artifacts.data import Campaign
    from repro.errors import ReproError

    known = studies()
    if study is not None and study not in known:
        raise ReproError("unknown study", expected=f"one of {', '.join(known)}", actual=study)
    raw = results / campaign / "raw"
    held = [name for name in known if (raw / name).is_dir()]
    return [Campaign.load(raw, name) for name in ([study] if study else held or known)]
