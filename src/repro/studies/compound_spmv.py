"""SpMV with compound entries: joint tuning of layout and schedule.

Mueller-Roemer, Stork, Fellner: VMV 2019 (10.2312/vmv.20191324), Computer Graphics Forum 39(6) 2020 (10.1111/cgf.13957).
"""

from __future__ import annotations

from pathlib import Path

from repro.bench.variant import Variant
from repro.codegen.compile import Module
from repro.codegen.render import render_module
from repro.codegen.schedules import Schedule, extended_space, paper_space
from repro.codegen.targets import Target
from repro.config.models import Study
from repro.entries import get_entry
from repro.formats.layout import REFERENCE, Layout, all_layouts, extended_layouts

NAME = "compound_spmv"


def spaces(settings: Study) -> tuple[str, ...]:
    """Return the spaces to search, one after the other: the papers', and ours beside it where it is asked for."""
    return ("paper", "extended") if settings.space == "extended" else ("paper",)


def layouts(settings: Study, space: str, entry: str) -> list[Layout]:
    """Return the layouts of a space to try; the papers' space always has the reference layout, and first."""
    known = all_layouts() if space == "paper" else extended_layouts(get_entry(entry).size)
    if settings.layouts == "all":
        return known
    asked = {Layout.parse(text) for text in settings.layouts}
    return [layout for layout in known if layout in asked or (space == "paper" and layout == REFERENCE)]


def schedules(target: Target, space: str, layout: Layout) -> list[Schedule]:
    """Return every schedule of a space that the target's limits admit."""
    return paper_space(target) if space == "paper" else extended_space(target, layout)


def render(templates: Path, space: str, entry: str, precision: str, layout: Layout, target: Target) -> str:
    """Return the source of one module."""
    return render_module(templates, NAME, entry, precision, layout, schedules(target, space, layout), target)


def manifest(target: Target, space: str, entry: str, precision: str, layout: Layout) -> Path:
    """Return where the manifest of a module lies."""
    return Path("modules", target.name, NAME, space, f"{entry}-{precision}", f"{layout.stored}.json")


def variants(settings: Study, entry: str, precision: str, target: Target) -> list[Variant]:
    """Return all variants for an entry and precision, space by space and layout by layout, in natural ordering.

    Layouts that share the matrix's arrays follow each other, so that it is packed and uploaded once for both.

    Raises
    ------
    ReproError
        A module is not compiled yet.
    """
    found = []
    for space in spaces(settings):
        for layout in layouts(settings, space, entry):
            path = manifest(target, space, entry, precision, layout)
            module = Module.load(path)
            found += [
                Variant(layout, schedule, module, path.parent, space) for schedule in schedules(target, space, layout)
            ]
    return found
