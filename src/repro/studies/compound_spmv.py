"""SpMV with compound entries: joint tuning of layout and schedule.

Mueller-Roemer, Stork, Fellner: VMV 2019 (10.2312/vmv.20191324), Computer Graphics Forum 39(6) 2020 (10.1111/cgf.13957).
"""

from __future__ import annotations

from pathlib import Path

from repro.bench.variant import Variant
from repro.codegen.compile import Module, compile_module
from repro.codegen.render import render_module
from repro.codegen.schedules import Schedule, paper_space
from repro.codegen.targets import Target
from repro.config.models import Study
from repro.formats.layout import REFERENCE, Layout, all_layouts

NAME = "compound_spmv"


def layouts(settings: Study) -> list[Layout]:
    """Return the layouts to try, the reference layout always among them and first."""
    if settings.layouts == "all":
        return all_layouts()
    asked = {Layout.parse(text) for text in settings.layouts}
    return [layout for layout in all_layouts() if layout in asked or layout == REFERENCE]


def schedules(target: Target) -> list[Schedule]:
    """Return the space `paper`: every schedule that the target's limits admit."""
    return paper_space(target)


def render(templates: Path, entry: str, precision: str, layout: Layout, target: Target) -> str:
    """Return the source of one module."""
    return render_module(templates, NAME, entry, precision, layout, schedules(target), target)


def manifest(target: Target, entry: str, precision: str, layout: Layout) -> Path:
    """Return where the manifest of a module lies."""
    return Path("modules", target.name, NAME, f"{entry}-{precision}", f"{layout}.json")


def build(
    templates: Path, entry: str, precision: str, layout: Layout, target: Target, output: Path, *, record_errors: bool
) -> Module:
    """Render and compile one module."""
    source = render(templates, entry, precision, layout, target)
    return compile_module(source, target, output, record_errors=record_errors)


def variants(settings: Study, entry: str, precision: str, target: Target) -> list[Variant]:
    """Return the whole space for an entry and precision, layout by layout.

    Layouts that share the matrix's arrays follow each other, so that it is packed and uploaded once for both.

    Raises
    ------
    ReproError
        A module is not compiled yet.
    """
    found = []
    for layout in layouts(settings):
        path = manifest(target, entry, precision, layout)
        module = Module.load(path)
        found += [Variant(layout, schedule, module, path.parent) for schedule in schedules(target)]
    return found
