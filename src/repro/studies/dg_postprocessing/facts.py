"""The facts of a field in the plane: numbers of intersection tests, and of copies for patches."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from repro.filtering.grids import SortedCells, count_tests, evaluation_points, of_field
from repro.filtering.spline_kernel import kernel
from repro.problems.field import Field
from repro.problems.problem import Problem
from repro.studies.dg_postprocessing import COUNTED_DEGREE, PATCHES, POINT_CELL

#: Numbers of patches for which copies are counted: Figure 3.7's, and one patch per multiprocessor of an H200.
PATCH_COUNTS = (PATCHES, 132)


#: Types of the result of `facts`; `repro merge` validates other records with them.
class Facts(BaseModel):
    triangles: int = 0
    points: int = 0
    degree: int = 0
    longest_edge: float = 0.0
    mean_edge: float = 0.0
    overhead: dict[str, float] = {}
    tests_per_point: int = 0
    tests_per_element: int = 0


def facts(problem: Problem) -> Mapping[str, object]:
    """Return the facts of a field in the plane at its quadrature points; {} for other problems.

    `overhead`: copies per point beyond the first, by the number of patches (King 2017, Figure 3.7). `tests_per_point`
    and `tests_per_element`: intersection tests of both methods for degree 1, by eq. 3.1, as in Table 3.1. Edge lengths
    are in units of the mesh.
    """
    if not isinstance(problem, Field) or problem.dimension != 2 or not problem.periodic:
        return {}
    mesh = of_field(problem)
    points = evaluation_points(mesh, problem.degree)
    host, size = SortedCells(mesh, points), POINT_CELL * mesh.longest
    half = kernel(problem.degree).width * mesh.longest / 2
    overhead = {str(count): host.patches(half, count, size).overhead(len(points)) for count in PATCH_COUNTS}
    statistics = problem.describe()
    described = {
        "triangles": len(mesh.triangles),
        "points": len(points),
        "degree": problem.degree,
        "longest_edge": mesh.longest,
        "mean_edge": statistics["mean_edge"],
        "overhead": overhead,
    }
    if problem.degree != COUNTED_DEGREE:
        return described
    per_point, per_element = count_tests(mesh, points, problem.degree)
    return {**described, "tests_per_point": per_point, "tests_per_element": per_element}
