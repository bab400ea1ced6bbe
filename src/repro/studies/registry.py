"""The studies, by name: a module of this folder that has `NAME` and what `StudyModule` asks for."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from repro.bench.variant import Variant
from repro.codegen.schedules import Schedule
from repro.codegen.targets import Target
from repro.config.models import Study
from repro.errors import ReproError
from repro.formats.layout import Layout

STUDIES = ("compound_spmv",)


class StudyModule(Protocol):
    """What a study's module offers to the commands."""

    NAME: str

    def spaces(self, settings: Study) -> tuple[str, ...]:
        """Return the spaces of variants to search, one after the other."""

    def layouts(self, settings: Study, space: str, entry: str) -> list[Layout]:
        """Return the layouts of a space to try."""

    def schedules(self, target: Target, space: str, layout: Layout) -> Sequence[Schedule]:
        """Return the schedules of a space on a target."""

    def render(self, templates: Path, space: str, entry: str, precision: str, layout: Layout, target: Target) -> str:
        """Return the source of one module."""

    def manifest(self, target: Target, space: str, entry: str, precision: str, layout: Layout) -> Path:
        """Return where the manifest of a module lies."""

    def variants(self, settings: Study, entry: str, precision: str, target: Target) -> list[Variant]:
        """Return all variants of all spaces for an entry and precision, in natural ordering."""


def get_study(name: str) -> StudyModule:
    """Return the module of a study.

    Raises
    ------
    ReproError
        There is none of that name.
    """
    if name not in STUDIES:
        raise ReproError("unknown study", expected=f"one of {', '.join(STUDIES)}", actual=name)
    return cast(StudyModule, import_module(f"repro.studies.{name}"))
