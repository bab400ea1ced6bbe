"""The registry of artifacts: one item a table or figure of a paper, and ours."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure, Table
from repro.artifacts.drawn import drawn
from repro.artifacts.published import Published
from repro.errors import ReproError

Kind = Literal["table", "figure"]
MakeTable = Callable[[Campaign, Published], Table]
MakeFigure = Callable[[Campaign, Published], Figure]


@dataclass(frozen=True)
class Artifact:
    """One table or figure.

    Attributes
    ----------
    study, name
        Together its key: `compound_spmv`, `table-2`.
    title
        One line without a full stop.
    numbering
        Where the paper prints it, or `ours`.
    kind
        `table` or `figure`.
    make
        Builds it from a campaign and the published numbers.
    several
        Whether it compares campaigns, and is made only where others stand beside one.
    """

    study: str
    name: str
    title: str
    numbering: str
    kind: Kind
    make: MakeTable | MakeFigure
    several: bool = False

    @property
    def short(self) -> str:
        """The name as a list of artifacts has it: Table 5.2, Figure speedup."""
        kind, _, rest = self.name.partition("-")
        return f"{kind.capitalize()} {rest.replace('-', '.' if rest[:1].isdigit() else ' ')}"


_REGISTRY: dict[tuple[str, str], Artifact] = {}


def _register(artifact: Artifact) -> None:
    key = (artifact.study, artifact.name)
    if key in _REGISTRY:
        raise ValueError(f"two artifacts are called {artifact.name} in {artifact.study}")
    _REGISTRY[key] = artifact


def table(
    study: str, name: str, *, title: str, numbering: str, several: bool = False
) -> Callable[[MakeTable], MakeTable]:
    """Register the decorated function as a table."""

    def decorate(make: MakeTable) -> MakeTable:
        _register(Artifact(study, name, title, numbering, "table", make, several))
        return make

    return decorate


def figure(
    study: str, name: str, *, title: str, numbering: str, several: bool = False
) -> Callable[[MakeFigure], MakeFigure]:
    """Register the decorated function as a figure; of a campaign with many problems it is given those to draw."""

    def decorate(make: MakeFigure) -> MakeFigure:
        def make_drawn(campaign: Campaign, published: Published) -> Figure:
            few, said = drawn(campaign, published)
            made = make(few, published)
            return replace(made, caption=f"{made.caption} {said}".rstrip())

        _register(Artifact(study, name, title, numbering, "figure", make_drawn, several))
        return make

    return decorate


def _natural(name: str) -> tuple[bool, int, str]:
    number = re.search(r"-(\d+)", name)
    return number is None, int(number[1]) if number else 0, name


def artifacts(study: str, kind: Kind | None = None) -> list[Artifact]:
    """Return a study's artifacts, once it has registered them: tables before figures, by their numbers, ours last."""
    registered = [a for a in _REGISTRY.values() if a.study == study and kind in (None, a.kind)]
    return sorted(registered, key=lambda a: (a.kind != "table", _natural(a.name)))


def get_artifact(study: str, name: str) -> Artifact:
    """Return one artifact.

    Raises
    ------
    ReproError
        The study has none of that name.
    """
    by_name = {artifact.name: artifact for artifact in artifacts(study)}
    if name not in by_name:
        raise ReproError(
            "unknown artifact",
            where=f"study {study}",
            expected=f"one of {', '.join(by_name) or '(there are none)'}",
            actual=name,
        )
    return by_name[name]
