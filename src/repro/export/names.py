"""Which variants can be exported."""

from __future__ import annotations

from repro.codegen.names import read_variant
from repro.codegen.schedules import Schedule
from repro.codegen.targets import Target
from repro.errors import ReproError
from repro.formats.layout import Layout


def parse_variant(name: str, target: Target) -> tuple[Layout, Schedule]:
    """Return layout and schedule of a variant that a kernel can be exported of.

    Raises
    ------
    ReproError
        The name is not a variant's, the target cannot hold the schedule, or the layout renumbers the unknowns.
    """
    layout = Layout.parse(name.partition("/")[0])
    if layout.unknowns != "natural":
        raise ReproError(
            "a layout that renumbers the unknowns cannot be exported",
            expected="a variant in natural ordering, or clustered",
            actual=name,
            todo=f"reorder matrix and vectors yourself, and export {layout.stored}/{name.partition('/')[2]}",
        )
    return read_variant(name, target)
