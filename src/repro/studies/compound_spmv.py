"""SpMV with compound entries: joint tuning of layout and schedule.

Mueller-Roemer, Stork, Fellner: VMV 2019 (10.2312/vmv.20191324), Computer Graphics Forum 39(6) 2020 (10.1111/cgf.13957).
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path

from repro.bench.rows import Row
from repro.bench.runnable import Runnable
from repro.bench.variant import Variant
from repro.codegen.compile import Module, compile_module, manifest_path
from repro.codegen.names import read_variant
from repro.codegen.render import kernel_name, render_module
from repro.codegen.schedules import Schedule, extended_space, paper_space
from repro.codegen.targets import Target
from repro.config.models import Study
from repro.entries import entries, get_entry
from repro.formats.layout import REFERENCE, Layout, all_layouts, extended_layouts
from repro.tuning.choose import Choice, choose_layout_and_schedule

NAME = "compound_spmv"
ENTRIES = tuple(entries())
SOLVERS = ()
SPACES = ("paper", "extended")
#: Orders of the unknowns that are tried beside the matrix's own.
RENUMBERED = ("rcm", "sorted")


def spaces(settings: Study) -> tuple[str, ...]:
    """Return the spaces to search, one after the other: the papers', and ours beside it where it is asked for."""
    return SPACES if settings.space == "extended" else SPACES[:1]


def layouts(settings: Study, space: str, entry: str) -> list[str]:
    """Return the layouts of a space to try; the papers' space always has the reference layout, and first."""
    known = all_layouts() if space == "paper" else extended_layouts(get_entry(entry).size)
    asked = set(known) if settings.layouts == "all" else {Layout.parse(text) for text in settings.layouts}
    return [str(layout) for layout in known if layout in asked or (space == "paper" and layout == REFERENCE)]


def schedules(target: Target, space: str, layout: str) -> list[Schedule]:
    """Return every schedule of a space that the target's limits admit."""
    return paper_space(target) if space == "paper" else extended_space(target, Layout.parse(layout))


def render(templates: Path, space: str, entry: str, precision: str, layout: str, target: Target) -> str:
    """Return the source of one module."""
    known = schedules(target, space, layout)
    return render_module(templates, NAME, entry, precision, Layout.parse(layout), known, target)


def variants(target: Target, space: str, layout: str, module: Module, folder: Path) -> list[Variant]:
    """Return the variants of a module, in natural ordering."""
    stored = Layout.parse(layout)
    return [Variant(stored, schedule, module, folder, space) for schedule in schedules(target, space, layout)]


def reordered(variants: Sequence[Variant], best: Container[str]) -> list[Variant]:
    """Return the best variants with the unknowns renumbered, where our space is searched."""
    if not any(variant.space == "extended" for variant in variants):
        return []
    winners = [variant for variant in variants if variant.name in best and variant.layout.ordering == "natural"]
    return [variant.reordered(ordering) for ordering in RENUMBERED for variant in winners]


def choose(rows: Sequence[Row], tie: float) -> list[Choice]:
    """Return what tuning the schedule, the layout and both choose."""
    return choose_layout_and_schedule(rows, tie)


def sequels(runnables: Sequence[Runnable], rows: Sequence[Row], precision: str, target: Target) -> list[Runnable]:
    """Return nothing: the papers time products alone."""
    return []


def find(templates: Path, entry: str, precision: str, name: str, target: Target) -> Variant:
    """Return the variant of a name, from a compiled module that holds it or from one of its own."""
    layout, schedule = read_variant(name, target)
    stored = str(layout.stored)
    for space in SPACES:
        path = manifest_path(target.name, NAME, space, entry, precision, stored)
        if schedule in schedules(target, space, stored) and path.exists():
            built = Module.load(path)
            if built.binary and (not built.resources or kernel_name(schedule, target) in built.resources):
                return Variant(layout, schedule, built, path.parent, space)
    source = render_module(templates, NAME, entry, precision, layout.stored, [schedule], target)
    path = manifest_path(target.name, NAME, "single", entry, precision, f"{stored}-{schedule}")
    return Variant(layout, schedule, compile_module(source, target, path), path.parent, SPACES[-1])
