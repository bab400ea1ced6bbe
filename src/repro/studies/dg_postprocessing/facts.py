"""What the record of a field in the plane holds for this study: intersection tests, and copies for patches."""

from __future__ import annotations

from collections.abc import Mapping

from repro.filtering.grids import SortedCells, count_tests
from repro.filtering.spline_kernel import kernel
from repro.filtering.triangulation import evaluation_points, of_field
from repro.problems.field import Field
from repro.problems.problem import Problem
from repro.studies.dg_postprocessing import COUNTED_DEGREE, PATCHES, POINT_CELL

#: Patches that copies are counted for: Figure 3.7's, and one for each multiprocessor of an H200.
PATCH_COUNTS = (PATCHES, 132)


def facts(problem: Problem) -> Mapping[str, object]:
    """Return the facts of a field in the plane, whose points are its quadrature points; nothing of other problems.

    Returns
    -------
    dict
        `triangles`, `points`, `degree`; `longest_edge` and `mean_edge`, in units of the mesh; `overhead`: by the number
        of patches the copies of points beside one solution, over its points (King 2017, Figure 3.7); and of degree 1,
        which Table 3.1 is of, `tests_per_point` and `tests_per_element` by the bounds of the text (eq. 3.1).
    """
    if not isinstance(problem, Field) or problem.dimension != 2 or not problem.periodic:
        return {}
    mesh = of_field(problem)
    points = evaluation_points(mesh, problem.degree)
    there, size = SortedCells(mesh, points), POINT_CELL * mesh.longest
    half = kernel(problem.degree).width * mesh.longest / 2
    overhead = {str(count): there.patches(half, count, size).overhead(len(points)) for count in PATCH_COUNTS}
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
