"""Writing artifacts: every file whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

from repro import whole
from repro.artifacts import style
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure, Table
from repro.artifacts.published import Published
from repro.artifacts.registry import Artifact
from repro.artifacts.render_tables import TABLE_FORMATS
from repro.errors import ReproError


def tables_folder(results: Path, campaign: str, study: str) -> Path:
    """Where a study's tables of a campaign lie."""
    return results / campaign / "tables" / study


def figures_folder(figures: Path, campaign: str, study: str) -> Path:
    """Where a study's figures of a campaign lie."""
    return figures / campaign / study


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary file beside `path` that takes its place at the end, or vanishes on an error.

    Raises
    ------
    ReproError
        The folder cannot be written or the disk is full.
    """
    try:
        with whole.replacing(path) as partial:
            yield partial
    except OSError as error:
        raise ReproError(
            "cannot write an artifact",
            where=path,
            actual=error.strerror or error,
            todo="check the permissions and the free space of the folder",
        ) from error


def write_table(artifact: Artifact, table: Table, folder: Path) -> list[Path]:
    """Write one table as CSV, Markdown and LaTeX; return the files."""
    paths = []
    for suffix, render in TABLE_FORMATS.items():
        path = folder / f"{artifact.name}.{suffix}"
        with replacing(path) as partial:
            partial.write_text(render(table, artifact.name), encoding="utf-8")
        paths.append(path)
    return paths


def write_figure(artifact: Artifact, figure: Figure, folder: Path, device: str) -> list[Path]:
    """Write one figure as PDF, SVG and PNG, the device named below it; return the files."""
    paths = [folder / f"{artifact.name}.{suffix}" for suffix in style.FORMATS]
    with ExitStack() as stack:
        style.save(figure, [stack.enter_context(replacing(path)) for path in paths], artifact.title, device)
    return paths


def write(artifact: Artifact, campaign: Campaign, published: Published, folder: Path) -> list[Path]:
    """Make one artifact of a campaign and write all its files; return them.

    A table of a campaign whose yardsticks were disturbed says so first.
    """
    made = artifact.make(campaign, published)
    if artifact.kind == "table":
        if campaign.disturbance:
            made = replace(made, caption=f"{campaign.disturbance} {made.caption}")
        return write_table(artifact, cast(Table, made), folder)
    return write_figure(artifact, cast(Figure, made), folder, campaign.column)
