"""Fields on cubes of tetrahedra, and lists of regions of small ones."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from repro.filtering.spline_kernel import kernel as siac_kernel
from repro.galerkin import project
from repro.problems.field import BASIS, FUNCTIONS, Field, kuhn_cube
from repro.studies.dg_postprocessing.operands import RegionOperands
from repro.studies.dg_postprocessing.regions import make_regions

#: Cubes in each direction (King 2017, section 4.3): 6000 tetrahedra.
PAPERS_COUNT = 10
Floats = NDArray[np.float64]


def cube_field(count: int, degree: int, function: Callable[[Floats], Floats] = FUNCTIONS["sine"]) -> Field:
    """Return any function's projection on the mesh of the generated field `cubes`, so many in each direction."""
    vertices, cells = kuhn_cube(count)
    modes = project(function, vertices, cells, degree, BASIS)
    return Field("cubes", vertices, cells, degree, BASIS, modes, periodic=True, origin={}).complete()


def region_list(degree: int) -> RegionOperands:
    """Return a list of no round number of regions, from all over the stencils of some points."""
    count, step = {1: (60_000, 23), 2: (200_000, 199)}[degree]
    field = cube_field(3, degree)
    regions = make_regions(field, count, seed=3)
    some = replace(regions, rows=regions.rows[::step].copy(), cells=regions.cells[::step].copy())
    return RegionOperands(field, some, siac_kernel(degree).pieces)
