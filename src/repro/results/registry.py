"""Registry of artifacts (the papers' tables and figures, and our additional ones).

If a campaign has more problems than fit on a page, figures get a selection of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from repro.errors import ReproError
from repro.results.campaign_data import Campaign
from repro.results.problem_lines import problem_lines
from repro.results.published import Published
from repro.results.tables import Figure, Table
from repro.words import suggestion

#: Maximum number of problems in a figure; with one line each they fill a page.
MAX_DRAWN = 60


def select_for_figure(campaign: Campaign, published: Published) -> tuple[Campaign, str]:
    """Return the campaign with at most `MAX_DRAWN` problems for a figure, and a sentence on the omitted ones.

    The papers' problems and their stand-ins are always drawn. Of the others, sorted by entry type and size, an evenly
    spaced subset is drawn.
    """
    if len(campaign.problems) <= MAX_DRAWN:
        return campaign, ""
    lines = [line for line in problem_lines(campaign, published) if line.record is not None]
    paper_problems = [line.problem for line in lines if line.published is not None]
    other_problems = [line.problem for line in lines if line.published is None and line.is_available]
    room = min(max(MAX_DRAWN - len(paper_problems), 1), len(other_problems))
    selected_problems = {
        *paper_problems,
        *(other_problems[i] for i in np.linspace(0, len(other_problems) - 1, room).round().astype(int)),
    }
    drawn_campaign = campaign.only(selected_problems)
    sentence = (
        f"{len(drawn_campaign.problems)} of {len(campaign.problems):,} problems are drawn, evenly by kind and size; "
        "means are over these, and the tables contain all."
    )
    return drawn_campaign, sentence


#: Numbering of artifacts that are in no paper.
OURS = "ours"
#: Name of each study's table that compares wanted values (`config/targets`) with measured ones.
TARGETS = "table-targets"
Kind = Literal["table", "figure"]
#: Requirements of artifacts: other campaigns, rivals, times over several devices, energies, times beyond edges, or
#: further processes.
Need = Literal["beside", "rivals", "devices", "energy", "edges", "processes"]
MakeTable = Callable[[Campaign, Published], Table]
MakeFigure = Callable[[Campaign, Published], Figure]


@dataclass(frozen=True)
class Artifact:
    """One table or figure."""

    study: str
    name: str
    title: str
    #: Number of the table or figure in the paper, or `ours`.
    numbering: str
    kind: Kind
    make: MakeTable | MakeFigure
    #: Requirement that not every campaign meets; the artifact is made only from campaigns that meet it.
    needs: Need | None = None
    #: Keys of the table columns that the report's page shows first, after the columns that name the case.
    lead: tuple[str, ...] = ()
    #: Keys of the columns that are shown first instead if no row has a value of `lead`.
    lead_instead: tuple[str, ...] = ()
    #: Optional measurement (`Study.parts`) that the artifact shows; it is made only if the campaign has this part.
    part: str = ""

    @property
    def is_of_papers(self) -> bool:
        """Whether the artifact shows papers' numbers, claims on them, or our targets."""
        return self.numbering != OURS or self.name == TARGETS

    @property
    def short(self) -> str:
        """Display name in lists of artifacts: Table 5.2, Figure speedup."""
        kind, _, suffix = self.name.partition("-")
        return f"{kind.capitalize()} {suffix.replace('-', '.' if suffix[:1].isdigit() else ' ')}"


_REGISTRY: dict[tuple[str, str], Artifact] = {}


def _register(artifact: Artifact) -> None:
    key = (artifact.study, artifact.name)
    if key in _REGISTRY:
        raise ValueError(f"two artifacts are called {artifact.name} in {artifact.study}")
    _REGISTRY[key] = artifact


def table(
    study_name: str,
    name: str,
    *,
    title: str,
    numbering: str,
    needs: Need | None = None,
    lead: tuple[str, ...] = (),
    lead_instead: tuple[str, ...] = (),
    part: str = "",
) -> Callable[[MakeTable], MakeTable]:
    """Register the decorated function as a table; the report's page shows its columns `lead` first, such as a speedup.

    If no row has a value in these columns, the page shows `lead_instead` first, for example the speedup of the papers'
    kernels where ours were not searched.
    """

    def decorate(make: MakeTable) -> MakeTable:
        _register(Artifact(study_name, name, title, numbering, "table", make, needs, lead, lead_instead, part))
        return make

    return decorate


def figure(
    study_name: str, name: str, *, title: str, numbering: str, needs: Need | None = None, part: str = ""
) -> Callable[[MakeFigure], MakeFigure]:
    """Register the decorated function as a figure; it is called with the result of `select_for_figure`.

    The registered function adds the figure's foot, and to its caption which campaign and which problems are drawn.
    """

    def decorate(make: MakeFigure) -> MakeFigure:
        def make_figure(campaign: Campaign, published: Published) -> Figure:
            figure_campaign, sentence = select_for_figure(campaign, published)
            figure_data = make(figure_campaign, published)
            names = " and ".join(figure_data.campaigns or (campaign.name,))
            drawn_campaigns = f"campaign{'s' * (len(figure_data.campaigns) > 1)} {names}"
            precision = f"{campaign.precisions[0]} precision" if len(campaign.precisions) == 1 else ""
            clock = f"{figure_data.clock} clock" if figure_data.clock else ""
            parts = [campaign.column, drawn_campaigns, clock, precision]
            source = "" if f"campaign {campaign.name}" in figure_data.caption else f"Drawn from {drawn_campaigns}."
            caption = " ".join(text for text in (figure_data.caption, source, sentence) if text)
            return replace(figure_data, caption=caption, foot=", ".join(part for part in parts if part))

        _register(Artifact(study_name, name, title, numbering, "figure", make_figure, needs, part=part))
        return make

    return decorate


def _natural(name: str) -> tuple[bool, int, str]:
    number = re.search(r"-(\d+)", name)
    return number is None, int(number[1]) if number else 0, name


def artifacts(study_name: str, kind: Kind | None = None) -> list[Artifact]:
    """Return a study's registered artifacts: tables before figures, sorted by number, ours last."""
    registered = [a for a in _REGISTRY.values() if a.study == study_name and kind in (None, a.kind)]
    return sorted(registered, key=lambda a: (a.kind != "table", _natural(a.name)))


def get_artifact(study_name: str, name: str) -> Artifact:
    """Return the artifact with this name; raise `ReproError` if the study has none."""
    artifacts_by_name = {artifact.name: artifact for artifact in artifacts(study_name)}
    if name not in artifacts_by_name:
        raise ReproError(
            "unknown artifact",
            where=f"study {study_name}",
            expected=f"one of {', '.join(artifacts_by_name) or '(there are none)'}",
            actual=f"{name}{suggestion(name, artifacts_by_name)}",
        )
    return artifacts_by_name[name]
