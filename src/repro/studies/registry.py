"""The studies, by name: a module of this folder that has `NAME` and what `StudyModule` asks for."""

from __future__ import annotations

from collections.abc import Container, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from repro.bench.rows import Row
from repro.bench.runnable import Candidate, Runnable
from repro.codegen.compile import Module, manifest_path
from repro.codegen.targets import Target
from repro.config.models import Study
from repro.errors import ReproError
from repro.tuning.choose import Choice

STUDIES = ("compound_spmv", "compressed_coo")


class StudyModule(Protocol):
    """What a study's module offers to the commands.

    Attributes
    ----------
    NAME
        The study's.
    ENTRIES
        The entries of the problems that it takes.
    SOLVERS
        The iterative solvers that it times, by name; a module is compiled for each.
    """

    NAME: str
    ENTRIES: tuple[str, ...]
    SOLVERS: tuple[str, ...]

    def spaces(self, settings: Study) -> tuple[str, ...]:
        """Return the spaces of variants to search, one after the other."""

    def layouts(self, settings: Study, space: str, entry: str) -> list[str]:
        """Return the layouts of a space to try, by name; a module is compiled for each.

        Raises
        ------
        ReproError
            A layout that is asked for is none.
        """

    def schedules(self, target: Target, space: str, layout: str) -> Sequence[object]:
        """Return the schedules of a space on a target; each is a variant with the layout."""

    def render(self, templates: Path, space: str, entry: str, precision: str, layout: str, target: Target) -> str:
        """Return the source of one module."""

    def variants(self, target: Target, space: str, layout: str, module: Module, folder: Path) -> Sequence[Candidate]:
        """Return the variants of a compiled module, which lies in a folder; those of one packing side by side."""

    def reordered(self, variants: Sequence[Candidate], best: Container[str]) -> Sequence[Candidate]:
        """Return what is tried on reordered matrices, knowing the names of the best variants; nothing where none is."""

    def choose(self, rows: Sequence[Row], tie: float) -> list[Choice]:
        """Return which variant each tuning chooses."""

    def sequels(
        self, runnables: Sequence[Runnable], rows: Sequence[Row], precision: str, target: Target
    ) -> Sequence[Runnable]:
        """Return what is timed once the report is there, such as solvers with the products that did best.

        Raises
        ------
        ReproError
            A module is not compiled yet.
        """

    def find(self, templates: Path, entry: str, precision: str, name: str, target: Target) -> Candidate:
        """Return the variant of a name, from a compiled module that holds it or from one of its own.

        Raises
        ------
        ReproError
            The name is no variant's, or its kernel does not compile.
        """


def all_variants(study: StudyModule, settings: Study, entry: str, precision: str, target: Target) -> list[Candidate]:
    """Return all variants, space by space and layout by layout: layouts that share arrays follow each other.

    Raises
    ------
    ReproError
        A module is not compiled yet.
    """
    found: list[Candidate] = []
    for space in study.spaces(settings):
        for layout in study.layouts(settings, space, entry):
            path = manifest_path(target.name, study.NAME, space, entry, precision, layout)
            found += study.variants(target, space, layout, Module.load(path), path.parent)
    return found


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
