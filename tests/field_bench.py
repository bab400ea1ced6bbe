"""Benches for filtering a field; for the tests of both kinds of device."""

from __future__ import annotations

from repro.bench.trial import Bench
from repro.bench.workspace import Workspace
from repro.config.models import Timing
from repro.problems.fields import generate_field
from repro.studies.dg_postprocessing.operands import make_operands
from repro.studies.dg_postprocessing.study import STUDY


def field_benches(modules_folder, **timing):
    """Give what opens a bench on devices for a field, and release all at the end; for fixtures."""
    benches = []

    def make(devices, triangles=60, degree=1, variance="high"):
        field = generate_field("delaunay", triangles=triangles, degree=degree, variance=variance)
        object.__setattr__(field, "name", f"{variance}, P = {degree}")
        benches.append(
            Bench(
                Workspace(devices, make_operands(field, "double", 1), modules_folder, resident=16),
                study=STUDY.name,
                problem=field.name,
                timing=Timing(**timing),
                seed=1,
                own=STUDY.columns,
                environment="test",
                driver="test",
                code=str,
            )
        )
        return benches[-1]

    yield make
    for bench in benches:
        bench.release()
