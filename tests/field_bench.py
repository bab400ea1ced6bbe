"""Benches for filtering a field; for the tests of both kinds of device."""

from __future__ import annotations

from benches import opened_benches
from repro.problems.field import generate_field
from repro.studies.dg_postprocessing.operands import make_operands
from repro.studies.dg_postprocessing.study import STUDY


def field_benches(modules_folder, **timing):
    """Give what opens a bench on devices for a field, and release all at the end; for fixtures."""
    with opened_benches(modules_folder, STUDY.name, STUDY.columns, **timing) as open_bench:

        def make(devices, triangles=60, degree=1, variance="high"):
            field = generate_field("delaunay", triangles=triangles, degree=degree, variance=variance)
            object.__setattr__(field, "name", f"{variance}, P = {degree}")
            return open_bench(devices, field.name, make_operands(field, "double", 1))

        yield make
