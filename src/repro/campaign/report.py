"""The report of a campaign: all its studies on one page."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from repro.campaign.artifacts import Asked, published_of
from repro.errors import ReproError
from repro.results.report import PageStudy, write_report
from repro.results.tables import Result
from repro.studies import get_study

if TYPE_CHECKING:
    from repro.tuning.search import ProgressCallback


#: In a study's folder: how its tables are read.
WORDS = "words.html.j2"


def report(
    asked: Asked, study: str | None = None, progress: ProgressCallback = lambda *_: None, page: str = "report"
) -> Path:
    """Write the page with all studies of a campaign, or with one of them; return its path.

    Parameters
    ----------
    asked
        The campaign, with those that stand beside it.
    study
        One of its studies; None: all.
    progress
        Is told of each study that is read, and of each table and figure.
    page
        Name of the page's file, without its ending.

    Raises
    ------
    ReproError
        There is no such campaign or study, its records cannot be read, or one beside it has none of its studies.
    """
    names = asked.studies(study)
    parts = []
    for done, name in enumerate(names):
        progress("reading studies", done, len(names))
        parts.append(_part(asked, name))
    progress("reading studies", len(names), len(names))
    for other in asked.others:
        if not set(names) & set(other.studies()):
            raise ReproError(
                "campaigns without a study in common",
                where=other.raw,
                expected=f"one of {', '.join(names)}",
                actual=", ".join(other.studies()),
            )
    return write_report(parts, asked.results / asked.campaign / f"{page}.html", progress)


def _part(asked: Asked, name: str) -> PageStudy:
    study, campaign = get_study(name), asked.read(name)
    return PageStudy(
        campaign,
        published_of(name),
        asked.artifacts(name),
        study.headline,
        study.libraries.get(campaign.backend or "", ""),
        study.highlights,
        _words(name),
        study.title,
        study.reference,
        Result(**study.result) if study.result else None,
    )


def _words(study: str) -> Path | None:
    spec = find_spec(f"repro.studies.{study}.study")
    words = Path(str(spec.origin)).parent / WORDS if spec else None
    return words if words and words.exists() else None
