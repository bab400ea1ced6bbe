"""Lists of regions on small meshes."""

from dataclasses import replace

from repro.filtering.kernel import kernel as siac_kernel
from repro.studies.dg_postprocessing.cubes import cube_field
from repro.studies.dg_postprocessing.region_operands import RegionOperands
from repro.studies.dg_postprocessing.regions import make_regions


def region_list(degree: int) -> RegionOperands:
    """Return a list of no round number of regions, from all over the stencils of some points."""
    count, step = {1: (60_000, 23), 2: (200_000, 199)}[degree]
    field = cube_field(f"cubes-{degree}", 3, degree)
    regions = make_regions(field, count, seed=3)
    some = replace(regions, rows=regions.rows[::step].copy(), cells=regions.cells[::step].copy())
    return RegionOperands(field, some, siac_kernel(degree).pieces)
