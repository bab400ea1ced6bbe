"""Products with a filter's matrix on any device, shared by tests on the CPU and on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from repro.bench.guards import Guards
from repro.devices.base import Device, Program
from repro.problems.generated_fields import generate_field
from repro.sparse.device_primitives import LaunchContext
from repro.studies.dg_postprocessing.operands import DgOperands, make_operands
from repro.studies.dg_postprocessing.runnables_plane import FilterMatrixRunnable


def small_operands(degree: int, triangles: int = 60) -> DgOperands:
    """Return a small field with its points."""
    return make_operands(generate_field("delaunay", triangles=triangles, degree=degree), "double", 5)


@contextmanager
def ready(
    runnable: FilterMatrixRunnable, device: Device, load: Callable[[str], Program], operands: DgOperands
) -> Iterator[Guards]:
    """Bind a runnable on a device, its memory between guard zones."""
    guards = Guards(device)
    with ExitStack() as held:
        runnable.bind(LaunchContext(device, load, held, guards), operands)
        yield guards
        device.synchronize()
