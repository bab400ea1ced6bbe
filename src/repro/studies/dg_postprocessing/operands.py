"""The operands of this study in the plane: a field, the points that it is filtered at, and what must come out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import IncorrectError, Runnable
from repro.bench.workspace import Workspace
from repro.errors import ReproError
from repro.filtering.direct import Stencil
from repro.filtering.local_scales import within_triangles
from repro.filtering.reference import contour_rows, count_work
from repro.filtering.sorted import Sorted
from repro.filtering.triangulation import Triangulation, evaluation_points, of_field
from repro.galerkin.basis import mode_count
from repro.galerkin.quadrature import evaluation_rule
from repro.problems.field import Field
from repro.studies.dg_postprocessing.accuracy import Errors, Exact, exact, unfiltered
from repro.studies.dg_postprocessing.work import Work2D, operations

Floats = NDArray[np.float64]
#: Points whose values are computed by NumPy, and those that only the work is counted of.
CHECKED = 256
#: Points whose values are compared at a time.
COMPARED = 1 << 18


class Filters(Runnable):
    """A runnable that leaves the filtered field at all points.

    Attributes
    ----------
    local
        Whether each point has an h of its own.
    errors
        How far a result that was right is from the exact function; None before, or where that is not known.
    read
        Waits, and returns what a launch left; set by `prepare`.
    """

    local: bool = False
    errors: Errors | None = None
    read: Callable[[], Floats]

    def result(self) -> Floats:
        """Wait, and return it: float64 `(n,)`, or `(n, fields)`, of which each is the field itself."""
        return self.read()


@dataclass(frozen=True, eq=False)
class Expected:
    """What must come out at some points.

    Attributes
    ----------
    places
        int64 `(k,)`, which points.
    values, bound
        float64 `(k,)`, and by how much a result may differ: `terms ε Σ|w||u|`, times what contours lose.
    work
        Of all points, from what these take.
    """

    places: NDArray[np.int64]
    values: Floats
    bound: Floats
    work: Work2D


@dataclass(frozen=True, eq=False)
class DgOperands:
    """A field in the plane and its quadrature points.

    Attributes
    ----------
    name, precision
        Of the problem, and `double`.
    mesh, degree, basis, modes
        As of the problem; the degree is the kernel's as well.
    seed
        Of what is drawn.
    checksum
        Of the problem and of the seed.
    function
        The name of the function that the field is the projection of; None: not known.
    """

    name: str
    precision: str
    mesh: Triangulation
    degree: int
    basis: str
    modes: Floats
    seed: int
    checksum: str
    function: str | None = None
    _agreed: dict[bool, Floats] = field(default_factory=dict, repr=False)

    @property
    def scale(self) -> float:
        """h: the longest edge (King 2017, section 3.2)."""
        return self.mesh.longest

    @cached_property
    def points(self) -> Floats:
        """The quadrature points of all triangles, float64 `(n, 2)`."""
        return evaluation_points(self.mesh, self.degree)

    @cached_property
    def stencil(self) -> Stencil:
        """The filter."""
        return Stencil(self.mesh, self.degree, self.scale)

    @cached_property
    def host(self) -> Sorted:
        """Mesh and points, sorted once for all that filters."""
        return Sorted(self.mesh, self.points)

    @property
    def least_bytes(self) -> tuple[int, int]:
        """Corners and modes of all triangles, and the points; a value at each."""
        triangles, points = len(self.mesh.triangles), len(self.points)
        return 8 * (triangles * (6 + mode_count(self.degree, 2)) + 2 * points), 8 * points

    @property
    def operations(self) -> int:
        """Those of contours; see `repro.studies.dg_postprocessing.work`."""
        return operations(self.expected.work, self.degree)

    @property
    def columns(self) -> Mapping[str, Any]:
        """How much there is to do, and how far the field itself is from the function that it is the projection of."""
        work, errors = self.expected.work, self._unfiltered
        return {
            "triangles": len(self.mesh.triangles),
            "points": len(self.points),
            "degree": self.degree,
            "scale": self.scale,
            "pairs": work.pairs,
            "segments": work.segments,
            "subtriangles": work.subtriangles,
            **({"dg_l2_error": errors.l2, "dg_max_error": errors.largest} if errors else {}),
        }

    @cached_property
    def local_scales(self) -> Floats:
        """An h of each point, as long as the edges around it, float64 `(n,)`."""
        return within_triangles(self.mesh, evaluation_rule(self.degree, 2).points)

    @cached_property
    def _exact(self) -> Exact | None:
        return exact(self.mesh, self.degree, self.function)

    @cached_property
    def _unfiltered(self) -> Errors | None:
        return self._exact.errors(unfiltered(self.degree, self.basis, self.modes)) if self._exact else None

    @cached_property
    def expected(self) -> Expected:
        """What must come out at points drawn at random, by NumPy."""
        return self._expect(np.broadcast_to(self.scale, len(self.points)))

    @cached_property
    def local_expected(self) -> Expected:
        """The same with an h of each point."""
        return self._expect(self.local_scales)

    def _expect(self, scales: Floats) -> Expected:
        generator = np.random.default_rng(self.seed)
        total = len(self.points)
        places = np.sort(generator.choice(total, min(CHECKED, total), replace=False))
        there, scales = self.points[places], scales[places]
        rows = contour_rows(self.mesh, there, self.degree, self.basis, scales)
        modes = self.modes.ravel()
        counts = count_work(self.mesh, there, self.degree, scales)
        terms = counts.pairs * mode_count(self.degree, 2)
        bound = terms * self.stencil.loss * np.finfo(np.float64).eps * (abs(rows) @ np.abs(modes))
        share = total / len(places)
        work = Work2D(
            *(round(share * int(np.sum(numbers))) for numbers in (counts.pairs, counts.triangles, counts.segments))
        )
        return Expected(places, rows @ modes, bound, work)

    def check(self, runnable: Runnable, workspace: Workspace) -> float | None:
        """Launch once; compare some points with NumPy's, and all of them with the first result that was right there.

        Raises
        ------
        IncorrectError
            A value is outside its bound.
        """
        if not isinstance(runnable, Filters):
            return None
        runnable.before()
        runnable.launch()
        result = runnable.result().reshape(len(self.points), -1)
        expected = self.local_expected if runnable.local else self.expected
        error = np.abs(result[expected.places] - expected.values[:, None]) / expected.bound[:, None]
        largest = float(np.max(error))
        if not largest <= 1:
            raise IncorrectError(f"{np.count_nonzero(~(error <= 1))} of {error.size} checked values are wrong", largest)
        agreed = self._agreed.setdefault(runnable.local, result[:, 0].copy())
        # bounds of points are alike: the largest of those that were drawn, and as much again
        wrong, apart = _apart(result, agreed, 2 * float(expected.bound.max()))
        if wrong:
            raise IncorrectError(f"{wrong} of {result.size} values differ from those of another way", apart)
        runnable.errors = self._exact.errors(result[:, 0]) if self._exact else None
        return largest


def _apart(result: Floats, agreed: Floats, bound: float) -> tuple[int, float]:
    """Return how many numbers `(n, fields)` are further than a bound from those of `(n,)`; the largest error over it.

    Some points at a time, since there may be twenty million of them.
    """
    wrong, largest = 0, []
    for first in range(0, len(agreed), COMPARED):
        some = slice(first, first + COMPARED)
        errors = np.abs(result[some] - agreed[some, None]) / bound
        wrong += int(np.count_nonzero(~(errors <= 1)))  # NaN is wrong
        largest.append(errors.max())
    return wrong, float(np.max(largest))


def make_operands(problem: Field, precision: str, seed: int) -> DgOperands:
    """Return the operands of a field in the plane.

    Raises
    ------
    ReproError
        The precision is another than double, the only one of the text; or the field cannot be filtered.
    """
    if precision != "double":
        raise ReproError(
            "fields are filtered in double precision only",
            where=f"studies.dg_postprocessing.precisions: {problem.name}",
            expected="double",
            actual=precision,
        )
    mesh = of_field(problem)
    checksum = hashlib.sha256(f"{problem.checksum()} {seed}".encode()).hexdigest()
    function = problem.origin.get("function")
    return DgOperands(
        problem.name, precision, mesh, problem.degree, problem.basis, problem.modes, seed, checksum, function
    )
