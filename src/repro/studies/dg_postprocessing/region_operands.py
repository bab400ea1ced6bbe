"""What kernels that integrate regions work on, what they have to find, and how exactly."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import IncorrectError, Runnable, Unsupported
from repro.bench.workspace import Workspace
from repro.errors import ReproError
from repro.galerkin.basis import equispaced, evaluate, exponents, monomials
from repro.galerkin.quadrature import Rule, evaluation_rule, exact_for
from repro.galerkin.symmetric import positive
from repro.problems.field import Field
from repro.studies.dg_postprocessing.lobatto_radau import papers_rule
from repro.studies.dg_postprocessing.region_space import Method, full_width
from repro.studies.dg_postprocessing.region_work import operations
from repro.studies.dg_postprocessing.regions import NUMBERS, Regions

Floats = NDArray[np.float64]
#: Regions that NumPy has at a time: some hundred megabytes.
_CHUNK = 1 << 13


class Expected(NamedTuple):
    """Integrals and how far a right result may be from them, both float64 `(n,)`."""

    values: Floats
    bounds: Floats


class Clipped(NamedTuple):
    """A list of regions as a device made it: `rows` and `cells` of `Regions`."""

    rows: Floats
    cells: NDArray[np.int32]


@dataclass(frozen=True)
class RegionOperands:
    """A field, a list of regions, and the kernel.

    Attributes
    ----------
    field, regions
        Of one degree.
    pieces
        float64 `(3k + 1, k + 1)`: the kernel at j + t, from its first knot, is Σ_a pieces[j, a] t^a.
    """

    field: Field
    regions: Regions
    pieces: Floats

    def __post_init__(self) -> None:
        """Refuse what does not fit together."""
        degree, shape = self.regions.degree, (self.regions.width, self.regions.degree + 1)
        if self.field.degree != degree or self.pieces.shape != shape:
            raise ReproError(
                "field, regions and kernel do not fit",
                where=self.field.name,
                expected=f"a field of degree {degree} and pieces {shape}",
                actual=f"degree {self.field.degree}, pieces {self.pieces.shape}",
            )

    @property
    def degree(self) -> int:
        """p of the field and k of the kernel."""
        return self.regions.degree

    @property
    def count(self) -> int:
        """Regions of the list."""
        return len(self.regions.rows)

    @property
    def precision(self) -> str:
        """`double`, as in the paper."""
        return "double"

    @cached_property
    def checksum(self) -> str:
        """Hash of field, regions and kernel."""
        digest = hashlib.sha256(self.field.checksum().encode())
        for array in (self.regions.rows, self.regions.cells, self.pieces):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    @property
    def least_bytes(self) -> tuple[int, int]:
        """Bytes of the list, of the elements that it names with their modes, and of the integrals."""
        elements = len(np.unique(self.regions.cells))
        read = self.count * (8 * NUMBERS + 4) + elements * 8 * (3 + self.field.modes.shape[1])
        return read, 8 * self.count

    @property
    def operations(self) -> int:
        """Additions and multiplications of the rule with the fewest points."""
        return self.count * operations("lane", self.degree)

    @property
    def columns(self) -> Mapping[str, Any]:
        """How many regions of how many points."""
        return {"regions": self.count, "points": len(self.regions.places)}

    @cached_property
    def expected(self) -> Expected:
        """The integrals by NumPy."""
        return expected(self.regions, self.field, self.pieces, positive(4 * self.degree, 3))

    def check(self, runnable: Runnable, workspace: Workspace) -> float | None:
        """Launch a prepared runnable once and return its largest error over its bound.

        Raises
        ------
        IncorrectError
            The result is wrong.
        """
        runnable.before()
        runnable.launch()
        result = runnable.result()
        if result is None:
            return None
        if isinstance(result, Clipped):
            return self._check_clipped(result)
        values, bounds = self.expected if len(result) == self.count else self.sums
        with np.errstate(divide="ignore", invalid="ignore"):
            errors = np.abs(result - values) / bounds
        # written so that a NaN is wrong; a bound of 0 is that of an integral that is 0
        wrong = ~((errors <= 1) | (result == values))
        if wrong.any():
            first = int(np.flatnonzero(wrong)[0])
            message = f"{int(wrong.sum())} of {len(values)} integrals are wrong; the first is number {first}: "
            raise IncorrectError(f"{message}{result[first]}, expected {values[first]}", float(np.nanmax(errors)))
        return float(np.nanmax(errors, initial=0.0))

    def _check_clipped(self, clipped: Clipped) -> float:
        """Return by how much the regions of a point fail to fill its stencil, over a bound.

        The bound is n · eps of the stencil's volume for n regions, times the size of the domain in edges of a cube.
        """
        places, h = self.regions.places, self.regions.h
        listed = Regions(self.degree, h, clipped.rows, clipped.cells, places)
        volume = float(listed.width**3)
        volumes = np.abs(np.linalg.det(np.diff(listed.knots(), axis=1))) / 6
        filled = np.bincount(listed.points, volumes, len(places))
        counts = np.bincount(listed.points, minlength=len(places))
        extent = np.abs(self.field.vertices).max() / h + listed.width
        errors = np.abs(filled - volume) / (np.maximum(counts, 1) * extent * np.finfo(np.float64).eps * volume)
        if not (errors <= 1).all():
            first = int(np.flatnonzero(~(errors <= 1))[0])
            message = f"the regions of point {first} fill {filled[first]} of a stencil of {volume}"
            raise IncorrectError(message, float(np.nanmax(errors)))
        return float(errors.max())

    @property
    def sums(self) -> Expected:
        """The sums of the integrals of each point, `(points,)`: the filtered field, of the last point maybe a part."""
        points, count = self.regions.points, len(self.regions.places)
        values, bounds, sizes = (
            np.bincount(points, weights, count).astype(np.float64)
            for weights in (*self.expected, np.abs(self.expected.values))
        )
        terms = np.bincount(points, minlength=count)
        return Expected(values, bounds + terms * np.finfo(np.float64).eps * sizes)

    def pack(self, method: Method) -> dict[str, NDArray[Any]]:
        """Return the arrays that kernels of a method read.

        Returns
        -------
        dict
            Of all: `cells`, `pieces`. Of `vector`, the paper's: `rows` (the list as it is), `maps` (from each element
            to the reference simplex: the inverse of its edges, and its first corner), `field` (values at the element's
            points), `rule` (points and weights). Of ours: `columns` (the list transposed), `origins` (first corners),
            `modes` (coefficients of monomials of the distance from there, in edges of a cube).
        """
        arrays: dict[str, NDArray[Any]] = {"cells": self.regions.cells, "pieces": self.pieces}
        corners = self.field.vertices[self.field.cells]
        if method != "vector":
            columns = np.ascontiguousarray(self.regions.rows.T)
            return arrays | {"columns": columns, "origins": corners[:, 0].copy(), "modes": self.modes}
        inverses = np.linalg.inv(corners[:, 1:] - corners[:, :1]).transpose(0, 2, 1).reshape(-1, 9)
        points = evaluation_rule(self.degree, 3).points
        rule = papers_rule(self.degree)
        return arrays | {
            "rows": self.regions.rows,
            "maps": np.ascontiguousarray(np.hstack([inverses, corners[:, 0]])),
            "field": np.ascontiguousarray(self.field.modes @ evaluate(self.field.basis, points, self.degree).T),
            "rule": np.ascontiguousarray(np.column_stack([rule.points, rule.weights])),
        }

    @cached_property
    def modes(self) -> Floats:
        """float64 `(c, m)`, the field's coefficients in monomials of (y - first corner) / h."""
        return local_modes(self.field, self.regions.h)


def region_operands_of(workspace: Workspace, degree: int) -> RegionOperands:
    """Return what the kernels of a workspace integrate.

    Raises
    ------
    Unsupported
        It has other operands, or those of another degree.
    """
    operands = workspace.operands
    if not isinstance(operands, RegionOperands):
        raise Unsupported("no list of regions")
    if operands.degree != degree:
        raise Unsupported(f"a kernel of degree {degree} for a field of degree {operands.degree}")
    return operands


def local_modes(field: Field, h: float) -> Floats:
    """Return a field's coefficients in monomials of (y - first corner of the element) / h, `(c, m)`."""
    corners = field.vertices[field.cells]
    nodes = equispaced(field.degree, 3)
    places = nodes @ (corners[:, 1:] - corners[:, :1]) / h
    values = field.modes @ evaluate(field.basis, nodes, field.degree).T
    matrices = monomials(places.reshape(-1, 3), field.degree).reshape(*places.shape[:2], -1)
    return np.asarray(np.linalg.solve(matrices, values[:, :, None])[:, :, 0], np.float64)


def expected(regions: Regions, field: Field, pieces: Floats, rule: Rule | None = None) -> Expected:
    """Return the integral of kernel times field over each region, with bounds.

    The bound is terms · eps · Σ |w| |K| |u|, |K| and |u| the sums of the sizes of their monomials, the volume that of
    the sizes of the determinant's products; the terms are the paper's quadrature points, and eight times what places
    lose: the size of the domain and of the stencil, both in edges of a cube. Corners lose as much, which is more than
    some edges of a sliver have: the volume's bound is that with edges which are longer by it.

    Parameters
    ----------
    rule
        Exact for degree 4p; None: the product of Gauss rules.
    """
    rule = rule or exact_for(4 * field.degree, 3)
    origins, modes = field.vertices[field.cells[:, 0]], local_modes(field, regions.h)
    lost = 8 * (np.abs(field.vertices).max() / regions.h + regions.width)
    eps, terms = np.finfo(np.float64).eps, full_width(field.degree) + lost
    values, bounds = np.empty(len(regions.rows)), np.empty(len(regions.rows))
    knots, cubes = regions.knots(), regions.cubes
    for start in range(0, len(values), _CHUNK):
        part = slice(start, start + _CHUNK)
        cells = regions.cells[part]
        edges = knots[part, 1:] - knots[part, :1]
        inner = rule.points @ edges
        kernel, large_kernel = _kernel(pieces[cubes[part]], knots[part, :1] - cubes[part, None] + inner)
        first = (regions.corners[part, 0] - origins[cells]) / regions.h
        inside, large = _field(modes[cells], first[:, None] + inner, field.degree)
        values[part] = np.abs(np.linalg.det(edges)) * ((kernel * inside) @ rule.weights)
        sizes = _permanents(np.abs(edges))
        volumes = terms * eps * sizes + (_permanents(np.abs(edges) + lost * eps) - sizes)
        bounds[part] = volumes * ((large_kernel * large) @ rule.weights)
    return Expected(values, bounds)


def _kernel(pieces: Floats, places: Floats) -> tuple[Floats, Floats]:
    """Return the kernel of pieces `(n, 3, k + 1)` at places `(n, q, 3)`, and the sum of the sizes of its terms."""
    kernel, large = np.ones(places.shape[:2]), np.ones(places.shape[:2])
    for axis in range(3):
        place = places[:, :, axis]
        value, size = np.zeros_like(kernel), np.zeros_like(kernel)
        for coefficient in pieces[:, axis].T[::-1]:
            value = value * place + coefficient[:, None]
            size = size * np.abs(place) + np.abs(coefficient)[:, None]
        kernel *= value
        large *= size
    return kernel, large


def _field(modes: Floats, places: Floats, degree: int) -> tuple[Floats, Floats]:
    """Return polynomials of modes `(n, m)` at places `(n, q, 3)`, and the sums of the sizes of their terms."""
    value, size = np.zeros(places.shape[:2]), np.zeros(places.shape[:2])
    for powers, mode in zip(exponents(degree, 3), modes.T, strict=True):
        term = np.broadcast_to(mode[:, None], value.shape)
        for axis in np.repeat(np.arange(3), powers):
            term = term * places[:, :, axis]
        value += term
        size += np.abs(term)
    return value, size


def _permanents(matrices: Floats) -> Floats:
    """Return the sums of the products of a determinant, all added: `(n,)`."""
    a, b, c = (matrices[:, i] for i in range(3))
    rolled = b * np.roll(c, 1, axis=1) + np.roll(b, 1, axis=1) * c
    sums: Floats = (a * np.roll(rolled, 1, axis=1)).sum(axis=1)
    return sums
