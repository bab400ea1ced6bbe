"""How much integrating a region takes: operations, by a formula that figures print."""

from __future__ import annotations

from collections.abc import Callable

from repro.galerkin.basis import mode_count
from repro.galerkin.symmetric import positive
from repro.studies.dg_postprocessing.region_space import DEGREES, Method, element_points, full_width

#: Operations of a region beside its points and modes: edges, determinant, pieces of the kernel.
OF_PAPERS_REGION, OF_OUR_REGION = 54, 66


def of_papers_point(degree: int) -> int:
    """Return the operations at a quadrature point of the paper's kernel, by counting its text.

    Its place 18 and 9 for the edges; in each direction of the kernel 4 for the coordinate, 2k for the polynomial, 1; 18
    for the place in the element and 4 for the collapsed coordinates; for each direction of n points 2n (n - 1) for
    Lagrange's polynomials; the sums over QX, QY, QZ; 3 to add it up.
    """
    x, y, z = element_points(degree)
    lagrange = sum(2 * n * (n - 1) for n in (x, y, z))
    sums = y * z * (2 * x - 1) + z * (2 * y - 1) + 2 * z - 1
    return 27 + 3 * (5 + 2 * degree) + 22 + lagrange + sums + 3


def our_points(degree: int) -> int:
    """Return the points of our rule for a region."""
    return len(positive(4 * degree, 3).weights)


def of_our_point(degree: int) -> int:
    """Return the operations at one of our points: in each direction 6 + 2k + 1, and 2 for each mode."""
    return 3 * (6 + 2 * degree + 1) + 2 * mode_count(degree, 3)


def of_our_mode(degree: int) -> int:
    """Return the operations of ours for each mode: a place's coordinates, and the field's monomials there."""
    return 12 + 4 * mode_count(degree, 3)


def operations(method: Method, degree: int) -> int:
    """Return the additions, multiplications and divisions of a region, by counting the kernel's text."""
    modes = mode_count(degree, 3)
    if method == "matrix":
        return 2 * modes
    if method == "lane":
        return our_points(degree) * of_our_point(degree) + modes * of_our_mode(degree) + OF_OUR_REGION
    return full_width(degree) * of_papers_point(degree) + OF_PAPERS_REGION


def formula() -> str:
    """Return the sentences that say how operations are counted."""

    def both(number: Callable[[int], int]) -> str:
        return f"({', '.join(str(number(degree)) for degree in DEGREES)})"

    degrees = " and ".join(map(str, DEGREES))
    return (
        f"Operations of a region, counted in the kernels’ texts, for degrees {degrees}: of the paper’s "
        f"{both(of_papers_point)} at each of {both(full_width)} points and {OF_PAPERS_REGION} more; of ours "
        f"{both(of_our_point)} at each of {both(our_points)}, {both(of_our_mode)} for each of "
        f"{both(lambda degree: mode_count(degree, 3))} modes, and {OF_OUR_REGION} more. A division counts as one, a "
        "fused multiplication and addition as two."
    )
