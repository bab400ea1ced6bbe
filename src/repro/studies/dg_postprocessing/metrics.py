"""What a filtered field is measured by: operations, the peak of a device, errors, and features for searches.

Operations are counted by formulas that tables and figures print. Errors are against the exact function that a
field is the projection of. Features say how much alike two fields are, for a search that learns from those of
other fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from repro.filtering.triangulation import Triangulation, evaluation_points
from repro.galerkin.basis import evaluate, mode_count
from repro.galerkin.quadrature import evaluation_rule, positive
from repro.problems.field import FUNCTIONS
from repro.studies.dg_postprocessing.ids import REGION_DEGREES, RegionMethod, element_points, full_width
from repro.studies.dg_postprocessing.regions import region_count
from repro.tuning.recordings import Machine

#: Results in double precision that a multiprocessor gives in a cycle, each of a fused multiplication and addition, by
#: compute capability: CUDA C++ Programming Guide 11, "Throughput of Native Arithmetic Instructions", and from 7.5 on
#: its edition 13, table 30, "Ratio of FP32 to FP64 Throughput", of 64 lanes in single precision (7.5, 8.0) or 128.
LANES = {
    **dict.fromkeys(("sm_50", "sm_52", "sm_53", "sm_61", "sm_62"), 4),
    **dict.fromkeys(("sm_60", "sm_70", "sm_72", "sm_80"), 32),
    **dict.fromkeys(("sm_90", "sm_100"), 64),
    **dict.fromkeys(("sm_75", "sm_86", "sm_87", "sm_89", "sm_103", "sm_110", "sm_120", "sm_121"), 2),
}


def peak_gflops(environment: Mapping[str, Any]) -> float | None:
    """Return a device's largest rate in double precision, GFLOPS; None of a device that it is not known of.

    Parameters
    ----------
    environment
        A record with `target`, `multiprocessors` and `max_sm_clock_mhz`: two operations a lane and cycle.
    """
    lanes = LANES.get(str(environment.get("target")))
    count, clock = environment.get("multiprocessors"), environment.get("max_sm_clock_mhz")
    return 2e-3 * lanes * count * clock if lanes and count and clock else None


#: Additions and multiplications of a pair beside its segments, and of a segment beside its Gauss points: corners into
#: kernel coordinates and the search for lines; where a segment ends.
PAIR_OPERATIONS, SEGMENT_OPERATIONS = 80, 12


class Work2D(NamedTuple):
    """Pairs of a point and an image of a triangle, and what these are cut into.

    Attributes
    ----------
    pairs
        Images of triangles that meet the stencil of a point.
    subtriangles
        Triangles that clipping leaves.
    segments
        Parts of edges between knot lines.
    """

    pairs: int
    subtriangles: int
    segments: int


def gauss_points(degree: int) -> int:
    """Return the points that are exact along a segment, for degree 3 P + 1."""
    return (3 * degree + 3) // 2


def evaluation_operations(degree: int) -> int:
    """Return the operations at a Gauss point of a contour: position, K along y, u along x, K u integrated, the sum."""
    modes = mode_count(degree, 2)
    along_x = 2 * (degree + 1) ** 2 + (2 * degree + 1) + 4 * degree
    return 4 + 2 * degree + 2 + 2 * (modes - degree - 1) + along_x + 3


def contour_operations(work: Work2D, degree: int) -> int:
    """Return the operations of contours: (28, 50, 78) an evaluation for P = 1, 2, 3, a fused one counted as two."""
    evaluations = work.segments * gauss_points(degree)
    return (
        evaluations * evaluation_operations(degree) + work.segments * SEGMENT_OPERATIONS + work.pairs * PAIR_OPERATIONS
    )


def triangle_operations(mesh: Triangulation, degree: int, scale: float) -> NDArray[np.float64]:
    """Return the operations of a pair of a point and each triangle that lies within its stencil, float64 `(t,)`.

    An edge has a segment, and one more for each line that it crosses: on average over all points its extents along x
    and y, in widths of a square.
    """
    sides = np.abs(mesh.corners - np.roll(mesh.corners, 1, axis=1)).sum(axis=(1, 2)) / scale
    of_segment = gauss_points(degree) * evaluation_operations(degree) + SEGMENT_OPERATIONS
    return np.asarray(PAIR_OPERATIONS + (3 + sides) * of_segment, np.float64)


def contour_formula() -> str:
    """Return the sentences that say how operations are counted."""
    evaluations = ", ".join(str(evaluation_operations(degree)) for degree in (1, 2, 3))
    gauss = ", ".join(str(gauss_points(degree)) for degree in (1, 2, 3))
    return (
        f"Operations: ({evaluations}) an evaluation of the integrand for P = 1, 2, 3, of which a segment between knot "
        f"lines takes ({gauss}), {SEGMENT_OPERATIONS} more a segment and {PAIR_OPERATIONS} a pair of a point "
        "and a triangle; a fused multiplication and addition counts as two. They are those of contours, "
        "of pairs and segments counted at 256 points, whatever a way does itself, so that rates are in "
        "proportion to speeds."
    )


#: Operations of a region beside its points and modes: edges, determinant, pieces of the kernel.
PAPER_REGION_OPERATIONS, OWN_REGION_OPERATIONS = 54, 66


def paper_point_operations(degree: int) -> int:
    """Return the operations at a quadrature point of the paper's kernel, by counting its text.

    Its place 18 and 9 for the edges; in each direction of the kernel 4 for the coordinate, 2k for the polynomial, 1; 18
    for the place in the element and 4 for the collapsed coordinates; for each direction of n points 2n (n - 1) for
    Lagrange's polynomials; the sums over QX, QY, QZ; 3 to add it up.
    """
    x, y, z = element_points(degree)
    lagrange = sum(2 * n * (n - 1) for n in (x, y, z))
    sums = y * z * (2 * x - 1) + z * (2 * y - 1) + 2 * z - 1
    return 27 + 3 * (5 + 2 * degree) + 22 + lagrange + sums + 3


def rule_points(degree: int) -> int:
    """Return the points of our rule for a region."""
    return len(positive(4 * degree, 3).weights)


def point_operations(degree: int) -> int:
    """Return the operations at one of our points: in each direction 6 + 2k + 1, and 2 for each mode."""
    return 3 * (6 + 2 * degree + 1) + 2 * mode_count(degree, 3)


def mode_operations(degree: int) -> int:
    """Return the operations of ours for each mode: a place's coordinates, and the field's monomials there."""
    return 12 + 4 * mode_count(degree, 3)


def region_operations(method: RegionMethod, degree: int) -> int:
    """Return the additions, multiplications and divisions of a region, by counting the kernel's text."""
    modes = mode_count(degree, 3)
    if method == "matrix":
        return 2 * modes
    if method == "lane":
        return rule_points(degree) * point_operations(degree) + modes * mode_operations(degree) + OWN_REGION_OPERATIONS
    return full_width(degree) * paper_point_operations(degree) + PAPER_REGION_OPERATIONS


def region_formula() -> str:
    """Return the sentences that say how operations are counted."""

    def both(number: Callable[[int], int]) -> str:
        return f"({', '.join(str(number(degree)) for degree in REGION_DEGREES)})"

    degrees = " and ".join(map(str, REGION_DEGREES))
    return (
        f"Operations of a region, counted in the kernels’ texts, for degrees {degrees}: of the paper’s "
        f"{both(paper_point_operations)} at each of {both(full_width)} points and {PAPER_REGION_OPERATIONS} more; of "
        f"ours {both(point_operations)} at each of {both(rule_points)}, {both(mode_operations)} for each of "
        f"{both(lambda degree: mode_count(degree, 3))} modes, and {OWN_REGION_OPERATIONS} more. A division counts as "
        "one, a fused multiplication and addition as two."
    )


Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Errors:
    """How far values at the quadrature points are from the exact ones.

    Attributes
    ----------
    l2
        The root of the integral of the square over the domain, by the quadrature whose points these are.
    largest
        At any of the points.
    """

    l2: float
    largest: float


@dataclass(frozen=True, eq=False)
class Exact:
    """A function at the quadrature points of a triangulation.

    Attributes
    ----------
    values
        float64 `(n,)`.
    weights
        float64 `(n,)`, whose sum is the area of the domain.
    """

    values: Floats
    weights: Floats

    def errors(self, values: Floats) -> Errors:
        """Return how far values `(n,)` are from these."""
        apart = np.abs(values - self.values)
        return Errors(float(np.sqrt(self.weights @ apart**2)), float(apart.max()))


def exact(mesh: Triangulation, degree: int, function: str | None) -> Exact | None:
    """Return a function, a key of `repro.problems.field.FUNCTIONS`, at the points of fields of a degree.

    None where it is not known which function a field is the projection of.
    """
    if function not in FUNCTIONS:
        return None
    weights = np.outer(2 * mesh.areas, evaluation_rule(degree, 2).weights).ravel()
    return Exact(FUNCTIONS[function](evaluation_points(mesh, degree)), weights)


def unfiltered(degree: int, basis: str, modes: Floats) -> Floats:
    """Return a field at the quadrature points, float64 `(t Q,)`, from its modes `(t, m)`."""
    values: Floats = (modes @ evaluate(basis, evaluation_rule(degree, 2).points, degree).T).ravel()
    return values


def region_features(record: Mapping[str, Any], precision: str, machine: Machine) -> NDArray[np.float64]:
    """Return what fields are compared by, by their records, `(4,)`.

    Dimension, degree, and logarithms of regions per thread that the device can hold, and of the modes' bytes over those
    of the cache.
    """
    dimension, degree, cells = record["dimension"], record["degree"], record["cells"]
    logarithms = np.log2([
        region_count(cells) / (machine.n_s * machine.threads_per_sm),
        8 * cells * mode_count(degree, dimension) / machine.cache_bytes,
    ])  # fmt: skip
    return np.array([dimension, degree, *logarithms], np.float64)
