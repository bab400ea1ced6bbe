"""Discontinuous polynomials on the reference simplex: named bases, quadrature, and the L2 projection of functions.

The corners of the reference simplex are 0 and the unit vectors, in the order of a cell's corners. Modes are
coefficients of basis functions in reference coordinates; they are not scaled with the size of the cell.

Rules with positive weights are those of Xiao and Gimbutas (A numerical algorithm for the construction of efficient
quadrature rules in two and higher dimensions, Computers & Mathematics with Applications 59(2), 2010). Their points and
weights were refined by Newton's method in extended precision, so that each number is correctly rounded to double
precision.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import permutations, product
from math import comb, factorial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from repro.errors import ReproError

Floats = NDArray[np.float64]


def mode_count(degree: int, dimension: int) -> int:
    """Return the number of basis functions, the binomial coefficient (degree + dimension, dimension)."""
    return comb(degree + dimension, dimension)


def exponents(degree: int, dimension: int) -> NDArray[np.int64]:
    """Return the exponents of all monomials up to a total degree, `(m, dimension)`, sorted by total degree."""
    powers = [p for p in product(range(degree + 1), repeat=dimension) if sum(p) <= degree]
    return np.array(sorted(powers, key=lambda p: (sum(p), tuple(-i for i in p))), np.int64).reshape(-1, dimension)


def monomials(points: Floats, degree: int) -> Floats:
    """Return the values of all monomials at points `(n, dimension)`, `(n, m)`, in the order of `exponents`."""
    powers = exponents(degree, points.shape[1])
    values: Floats = np.prod(points[:, None, :] ** powers[None, :, :], axis=2)
    return values


def to_monomials(basis: str, degree: int, dimension: int) -> Floats:
    """Return the monomial coefficients of basis functions, `(m, m)`, one row per function. KeyError: unknown basis."""
    return _to_monomials(basis, degree, dimension).copy()


@cache
def _to_monomials(basis: str, degree: int, dimension: int) -> Floats:
    nodes = equispaced(max(degree, 1), dimension) if degree else np.full((1, dimension), 1 / (dimension + 1))
    # strictly inside the simplex, since the formula for Dubiner's functions divides 0 by 0 at a corner
    inner_nodes = 0.8 * nodes + 0.2 / (dimension + 1)
    matrix = np.asarray(
        np.linalg.solve(monomials(inner_nodes, degree), BASES[basis](inner_nodes, degree)).T, np.float64
    )
    matrix[np.abs(matrix) < 1e-13 * np.abs(matrix).max()] = 0.0
    return matrix


def evaluate(basis: str, points: Floats, degree: int) -> Floats:
    """Return the values of basis functions at points of the reference simplex, `(n, m)`."""
    values: Floats = monomials(points, degree) @ _to_monomials(basis, degree, points.shape[1]).T
    return values


def equispaced(degree: int, dimension: int) -> Floats:
    """Return the points with coordinates in multiples of 1 / degree, `(m, dimension)`, in the order of `exponents`."""
    points: Floats = exponents(degree, dimension) / max(degree, 1)
    return points


def _dubiner(points: Floats, degree: int) -> Floats:
    """Evaluate Dubiner's basis (1991), orthonormal on the simplex; the last coordinate's degree varies fastest."""
    dimension = points.shape[1]
    columns = []
    from scipy.special import eval_jacobi  # slow to import: every command reads the names of the bases

    for powers in product(range(degree + 1), repeat=dimension):
        if sum(powers) > degree:
            continue
        value, scale, total_power = np.ones(len(points)), 1.0, 0
        for axis, power in enumerate(powers):
            remaining_sum = 1.0 - points[:, axis + 1 :].sum(axis=1)  # largest possible sum of coordinates 0 to `axis`
            alpha = 2 * total_power + axis
            value = (
                value
                * remaining_sum**power
                * eval_jacobi(power, alpha, 0.0, 2.0 * points[:, axis] / remaining_sum - 1.0)
            )
            scale *= 2 * power + alpha + 1
            total_power += power
        columns.append(np.sqrt(scale) * value)
    values: Floats = np.stack(columns, axis=1)
    return values


def _lagrange(points: Floats, degree: int) -> Floats:
    dimension = points.shape[1]
    nodes = equispaced(degree, dimension) if degree else np.full((1, dimension), 1 / (dimension + 1))
    return np.asarray(np.linalg.solve(monomials(nodes, degree).T, monomials(points, degree).T).T, np.float64)


#: Function that evaluates the basis functions at points, for each basis.
BASES: dict[str, Callable[[Floats, int], Floats]] = {
    "dubiner": _dubiner,
    "lagrange": _lagrange,
    "monomial": monomials,
}


class Rule(NamedTuple):
    #: Quadrature points inside the reference simplex, `(q, dimension)`.
    points: Floats
    #: Positive weights, `(q,)`; the sum is the volume of the simplex.
    weights: Floats


@cache
def collapsed(*counts: int) -> Rule:
    """Return a product of one-dimensional Gauss-Jacobi rules, mapped from the cube to the simplex by collapsing faces.

    `counts` has the number of points per axis. With n points per axis, the rule is exact for total degree 2n - 1.
    """
    from scipy.special import roots_jacobi  # slow to import

    axes = []
    for axis, count in enumerate(counts):
        roots, weights = roots_jacobi(count, axis, 0)  # the Jacobi weight is the Jacobian of the map along this axis
        axes.append(((roots + 1) / 2, weights / 2 ** (axis + 1)))
    grid = np.meshgrid(*(roots for roots, _ in axes), indexing="ij")
    weights = np.prod(np.stack(np.meshgrid(*(weights for _, weights in axes), indexing="ij")), axis=0).ravel()
    points = np.empty((len(weights), len(counts)))
    collapsed_factor = np.ones(len(weights))
    for axis in reversed(range(len(counts))):
        points[:, axis] = collapsed_factor * grid[axis].ravel()
        collapsed_factor = collapsed_factor * (1.0 - grid[axis].ravel())
    return Rule(points, weights)


def exact_for(degree: int, dimension: int) -> Rule:
    """Return the smallest collapsed rule that is exact for polynomials of a total degree."""
    return collapsed(*[degree // 2 + 1] * dimension)


def evaluation_rule(degree: int, dimension: int) -> Rule:
    """Return the rule whose points are the default evaluation points of the filter in each cell.

    In the plane they are (P + 2)(P + 1) points for degree P (King 2017, section 4.2.2).
    """
    return collapsed(degree + 2, *[degree + 1] * (dimension - 1))


def volume(dimension: int) -> float:
    return 1.0 / factorial(dimension)


#: Rules for triangles by degree, of Xiao and Gimbutas (2010, see above). Each row is a set of symmetric points: a
#: weight, a and b; the points are the permutations of (a, b, 1 - a - b). Without b, b = a; with a weight only, the
#: point is the centroid.
_TRIANGLE: dict[int, tuple[tuple[float, ...], ...]] = {
    4: (
        (0.11169079483900586, 0.4459484909159649),
        (0.05497587182766081, 0.09157621350977055),
    ),
    6: (
        (0.08566656207649051, 0.21942998254978296),
        (0.04036554479651549, 0.48013796411221504),
        (0.020317279896830333, 0.019371724361240787, 0.14161901592396817),
    ),
    9: (
        (0.04856789814139911,),
        (0.0156673501135698, 0.48968251919873734),
        (0.039823869463605124, 0.1882035356190326),
        (0.03891377050238702, 0.4370895914929362),
        (0.012788837829349023, 0.044729513394452726),
        (0.021641769688644664, 0.03683841205473622, 0.22196298916076576),
    ),
}
#: Rules for tetrahedra by degree, of Xiao and Gimbutas (2010). Each row is one point: a weight and three reference
#: coordinates; the points have no symmetry.
_TETRAHEDRON: dict[int, tuple[tuple[float, float, float, float], ...]] = {
    4: (
        (0.017744672359248353, 0.09720464458758322, 0.10660417256199357, 0.68439041545304),
        (0.01837237207141629, 0.029569495206479668, 0.3292329597426468, 0.3179035602133944),
        (0.02582935266937435, 0.4327102390477686, 0.10384411641099307, 0.35382323920929715),
        (0.03223513534160572, 0.24027666492807281, 0.3044484024344969, 0.12680172591539193),
        (0.012693785874259723, 0.12941137378891027, 0.5380072039161857, 0.33019041483746464),
        (0.013237780011337555, 0.12154199133392778, 0.008991260093335767, 0.3064939884296901),
        (0.011578327656272558, 0.45076587609127666, 0.4329534904813558, 0.05945661629943392),
        (0.009988864191093258, 0.41926631387951296, 0.053341239535745134, 0.04778143555908674),
        (0.009232299811929393, 0.06722329489338333, 0.7412288820936229, 0.03518392977359871),
        (0.009212228192656147, 0.7525085070096552, 0.08140491840285921, 0.06809937093820657),
        (0.0065418484874733155, 0.04049050672759051, 0.17469405869723065, 0.013560701879802623),
    ),
    8: (
        (0.000290863922550935, 0.008855594278705282, 0.017607156126878593, 0.9485639297990063),
        (0.0025106282475171877, 0.03620467192851857, 0.1890744688700338, 0.7313673600360886),
        (0.0016460861324810853, 0.6113365336918843, 0.230743496794651, 0.005575773030437772),
        (0.0016881535417915506, 0.02777675799356598, 0.025806848872534347, 0.4665405858909195),
        (0.0029354226975222353, 0.15648668504006652, 0.046486129411092605, 0.7514965361518378),
        (0.002602731533963581, 0.19554608192260353, 0.24963708305787366, 0.5417931824618077),
        (0.0029981483163099743, 0.04149415901827828, 0.04908534432749601, 0.7171773570939519),
        (0.002754894466758769, 0.2209774649988177, 0.25791667315430694, 0.012395923360196532),
        (0.0037507609946702235, 0.41507658426998906, 0.043122383377879867, 0.4947991693199906),
        (0.0021332305621032605, 0.47940665335286614, 0.19990672903292186, 0.32009560675039733),
        (0.004542489322412097, 0.06224439946102182, 0.12397848932782068, 0.40365477501005675),
        (0.005382166773474431, 0.21251922611752902, 0.033836738097224234, 0.5056419509803698),
        (0.004697614316667843, 0.39727545746144305, 0.382880501165727, 0.08173362820479164),
        (0.004026390654635638, 0.04544737426285884, 0.4721332195496732, 0.43566699454566266),
        (0.005373542223987898, 0.21613969263007957, 0.49359008083401934, 0.03919057319753532),
        (0.00609168178460549, 0.045290749888583275, 0.25022744629303717, 0.4931447679590649),
        (0.006927915069245519, 0.42840777073602093, 0.1822460492233615, 0.06194696154684404),
        (0.00651045165815834, 0.14251462990889346, 0.22808018405507793, 0.12814373976661775),
        (0.004189847678431447, 0.18126219117094458, 0.030822472099931136, 0.2593463891596095),
        (0.008810488117670814, 0.24952076607995322, 0.164695505900329, 0.24990555072575177),
        (0.005454545792256893, 0.4862252458661594, 0.04243030114562252, 0.27523602729990526),
        (0.009298747966287865, 0.22746204998675484, 0.2003307068778028, 0.4489545286636957),
        (0.008892300407975949, 0.15825909334588992, 0.4118962036484129, 0.207391735140623),
        (0.004519589747580936, 0.028827258900935068, 0.511106071913576, 0.2295407130726558),
        (0.0066831341902216556, 0.2295406150635746, 0.48351828029101035, 0.24201755731748048),
        (0.00862993732316805, 0.4853135576380691, 0.2096423028706454, 0.1986199776692319),
        (0.003790620105750609, 0.022610909636660487, 0.2504719219173196, 0.22243464249277797),
        (0.002453317862571229, 0.7205111657178713, 0.03678064973474806, 0.20436892390732544),
        (0.0011495713860625912, 0.46531516041303544, 0.46181172516826474, 0.005422183307177846),
        (0.002829204876335753, 0.0393802186845053, 0.05045500693172463, 0.17319560868335168),
        (0.0028982004270852514, 0.04543453035210952, 0.7485745607457631, 0.16329934329935392),
        (0.003759873125583669, 0.4246500540795887, 0.03095052921613283, 0.1362062412251989),
        (0.003916487256448809, 0.21626414889065293, 0.0543830156062335, 0.051253765133874155),
        (0.003357785141131587, 0.20449181374722286, 0.7016567760643901, 0.04686865328087324),
        (0.0034241727240937802, 0.7195733300716949, 0.04478021549603169, 0.05599064468210172),
        (0.0029831339678821614, 0.046200582148664016, 0.7237094950417486, 0.04349881445195037),
        (0.0012535250586434993, 0.5003296720329748, 0.03576257087872002, 0.008112050755707182),
        (0.0036540831010869286, 0.041050298145482327, 0.4487780077524818, 0.045685365746118096),
        (0.0022892954263808753, 0.03985667792342307, 0.16438693098480803, 0.034482075478942234),
        (0.002564740902068496, 0.7623678849544526, 0.15063771178142515, 0.05243838992870339),
        (0.001977570116178895, 0.4982549617822044, 0.4139212834388191, 0.07975787096690584),
        (0.00042448341989054065, 0.04868900463902475, 0.004571184374518852, 0.02216207109666414),
        (0.00034651409450314454, 0.030052247775932187, 0.9408082028316024, 0.00671967882215297),
        (0.00025232423251917823, 0.9573816260583026, 0.000971878369015018, 0.016007984231298435),
    ),
}
#: Degrees for which there is a rule with positive weights, by dimension.
POSITIVE_DEGREES = {2: tuple(_TRIANGLE), 3: tuple(_TETRAHEDRON)}


def positive(degree: int, dimension: int) -> Rule:
    """Return the smallest tabulated rule with positive weights that is exact for a total degree.

    On triangles, rules of degrees 4, 6 and 9 have 6, 12 and 19 points; on tetrahedra, degrees 4 and 8 have 11 and 44.
    """
    degrees = [rule_degree for rule_degree in POSITIVE_DEGREES.get(dimension, ()) if rule_degree >= degree]
    if not degrees:
        available = (f"up to {max(known_degrees)} in {d} dimensions" for d, known_degrees in POSITIVE_DEGREES.items())
        raise ReproError(
            "no positive quadrature rule of this degree",
            where=f"simplices of {dimension} dimensions",
            expected=", ".join(available),
            actual=degree,
            todo="use a product of Gauss rules: repro.galerkin.exact_for",
        )
    rule = _rule(min(degrees), dimension)
    return Rule(rule.points.copy(), rule.weights.copy())


@cache
def _rule(degree: int, dimension: int) -> Rule:
    if dimension == 3:
        table = np.array(_TETRAHEDRON[degree])
        return Rule(table[:, 1:], table[:, 0])
    points: list[tuple[float, ...]] = []
    weights: list[float] = []
    for weight, *place in _TRIANGLE[degree]:
        first, second = {0: (1 / 3, 1 / 3), 1: tuple(2 * place), 2: tuple(place)}[len(place)]
        # a set, since some permutations coincide if two coordinates are equal
        orbit = sorted(set(permutations((first, second, 1 - first - second)))) if place else [(first, second, 0.0)]
        points += [point[:2] for point in orbit]
        weights += [weight] * len(orbit)
    return Rule(np.array(points), np.array(weights))


#: Number of quadrature points that `project` evaluates at once.
_AT_A_TIME = 1 << 20
#: The quadrature of `project` is exact for twice the degree of the field plus this number, for smooth functions.
_BEYOND = 8


def project(
    function: Callable[[Floats], Floats],
    vertices: Floats,
    cells: NDArray[np.int32],
    degree: int,
    basis: str = "dubiner",
) -> Floats:
    """Return the modes `(c, m)` of the L2 projection of a function onto the polynomials of each cell.

    `function` maps points `(n, d)` to values `(n,)`; the quadrature is exact for degree 2 P + 8.
    """
    dimension = vertices.shape[1]
    rule = exact_for(2 * degree + _BEYOND, dimension)
    functions = evaluate(basis, rule.points, degree)
    # the size of a cell cancels in the normal equations, so one small matrix serves all cells
    mass = functions.T @ (rule.weights[:, None] * functions)
    moments = np.linalg.solve(mass, (rule.weights[:, None] * functions).T).T
    modes = np.empty((len(cells), mode_count(degree, dimension)))
    step = max(1, _AT_A_TIME // len(rule.weights))
    for start in range(0, len(cells), step):
        corners = vertices[cells[start : start + step]]
        edges = corners[:, 1:] - corners[:, :1]
        points = corners[:, :1] + rule.points @ edges
        values = function(points.reshape(-1, dimension)).reshape(len(corners), -1)
        modes[start : start + step] = values @ moments
    return modes


def exchange_last(basis: str, degree: int, dimension: int) -> Floats:
    """Return a matrix `(m, m)` that transforms modes when the last two vertices of a cell are exchanged.

    The polynomial does not change, but its modes do, since basis functions depend on the order of the corners.
    """
    rule = exact_for(2 * degree, dimension)
    # coordinate i belongs to corner i + 1
    order = [*range(dimension - 2), dimension - 1, dimension - 2]
    functions, exchanged = evaluate(basis, rule.points, degree), evaluate(basis, rule.points[:, order], degree)
    weighted = rule.weights[:, None] * functions
    matrix: Floats = np.asarray(np.linalg.solve(weighted.T @ functions, weighted.T @ exchanged), np.float64)
    return matrix
