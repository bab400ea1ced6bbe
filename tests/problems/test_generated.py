"""Generated problems: sizes, symmetries, valid meshes and checked parameters."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from repro.entries import get_entry
from repro.errors import ReproError
from repro.problems import generators
from repro.problems.generators import HUBS_3D, KINDS, generate, size_of
from repro.problems.meshes import tetrahedron_volumes
from repro.problems.problem import describe_pattern

pytestmark = pytest.mark.medium


@pytest.mark.sampled(8)
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_defaults_have_the_size_that_is_known_before_and_repeat(kind: str) -> None:
    matrix = generate(kind)
    assert 5_000 <= matrix.n <= 20_000
    assert matrix.indptr.dtype == matrix.indices.dtype == np.int32
    assert matrix.values.shape == (len(matrix.indices), len(get_entry(KINDS[kind].entry).members))
    assert np.isfinite(matrix.values).all()
    rows = np.repeat(np.arange(matrix.n), np.diff(matrix.indptr))
    assert (np.diff(rows * np.int64(matrix.n) + matrix.indices) > 0).all(), "columns sorted, none twice"
    rows_known, nonzeros_known = size_of(kind, {})
    if KINDS[kind].at_most:
        assert matrix.n <= rows_known < 1.6 * matrix.n
        assert len(matrix.indices) <= nonzeros_known < 1.6 * len(matrix.indices)
    else:
        assert (matrix.n, len(matrix.indices)) == (rows_known, nonzeros_known)
    again = generate(kind)
    assert matrix.values.tobytes() == again.values.tobytes()
    assert matrix.indices.tobytes() == again.indices.tobytes()


@pytest.mark.parametrize("kind", [kind for kind in sorted(KINDS) if kind.endswith("hubs")])
def test_hubs_give_a_heavy_tail(kind: str) -> None:
    matrix = generate(kind)
    found = describe_pattern(matrix.indptr, matrix.indices)
    assert found["row_length"]["max"] > 200
    assert found["row_length"]["q3"] <= 15
    assert found["ell_factor"] > 20
    assert np.sort(np.diff(matrix.indptr))[-100] >= 15


def test_every_compound_entry_has_two_and_one_with_a_tail() -> None:
    for entry in ("complex", "quaternion", "block3"):
        kinds = [kind for kind, item in KINDS.items() if item.entry == entry]
        assert len(kinds) >= 2 and any(kind.endswith("hubs") for kind in kinds)


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("diffusion", {"points": (5, 3), "stencil": 9}),
        ("diffusion", {"points": (2, 7), "stencil": 5}),
        ("arrow", {"rows": 30, "dense": 7}),
        ("helmholtz_box", {"cells": (2, 3, 5)}),
        ("helmholtz_disk", {"refinements": 2}),
        ("dirac_torus", {"rings": 5, "segments": 3}),
        ("dirac_blob", {"rows": 50}),
    ],
)
def test_a_size_is_known_without_generating(kind: str, parameters: dict[str, Any]) -> None:
    matrix = generate(kind, **parameters)
    assert size_of(kind, parameters) == (matrix.n, len(matrix.indices))


def test_parameters_that_are_wrong_have_no_size() -> None:
    assert size_of("arrow", {"rows": "many"}) is size_of("diffusion", {"points": 3}) is size_of("none", {}) is None


@pytest.mark.parametrize(("stencil", "centre"), [(7, 6), (27, 26)])
def test_poisson_stencils(stencil: int, centre: int) -> None:
    matrix = generate("poisson", points=[4, 5, 6], stencil=stencil)
    dense = sp.csr_array((matrix.values[:, 0], matrix.indices, matrix.indptr)).toarray()
    index = np.indices((4, 5, 6)).reshape(3, -1)
    apart = np.abs(index[:, :, None] - index[:, None, :])
    near = apart.sum(axis=0) == 1 if stencil == 7 else apart.max(axis=0) == 1
    np.testing.assert_array_equal(dense, centre * np.eye(120) - near)


def test_parameters_change_the_problem() -> None:
    small = generate("elasticity_box", cells=[2, 3, 4])
    assert small.n == 3 * 4 * 5
    stiff = generate("elasticity_box", cells=[2, 3, 4], young=10.0)
    np.testing.assert_allclose(stiff.values, 10 * small.values, rtol=1e-12)
    assert generate("dirac_blob", rows=77).n == 77
    assert generate("dirac_torus", rings=5, segments=6).n == 30
    assert generate("helmholtz_disk", refinements=2).n < generate("helmholtz_disk", refinements=3).n


@pytest.mark.parametrize("sizes", [HUBS_3D, (3, 3, 7)])
def test_collapsed_boxes_stay_filled_without_overlap(sizes: tuple[int, ...]) -> None:
    cells = (24, 25, 26)
    vertices, tets = generators.collapse(generators.lattice_box(cells), cells, sizes, seed=3)
    volumes = tetrahedron_volumes(vertices, tets)
    assert volumes.min() > 0
    assert volumes.sum() == pytest.approx(24 * 25 * 26, rel=1e-12)
    assert len(np.unique(tets)) == len(vertices) == 25 * 26 * 27 - sum((size - 1) ** 3 - 1 for size in sizes)


def edge_counts(faces: np.ndarray) -> np.ndarray:
    edges = np.sort(np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]), axis=1)
    return np.unique(edges, axis=0, return_counts=True)[1]


def surfaces() -> dict[str, tuple[np.ndarray, np.ndarray, int]]:
    lattice, faces = generators.lattice_torus(100, 90)
    hubs = generators.collapse((lattice, faces), (100, 90), (32, 16, 3, 3), seed=2)
    wrapped = generators.wrap_torus(hubs[0], 100, 90)
    return {
        "torus": (generators.wrap_torus(lattice, 100, 90), faces, 0),
        "hubs": (wrapped, hubs[1], 0),
        "blob": (*generators.blob(500), 2),
    }


@pytest.mark.parametrize("name", ["torus", "hubs", "blob"])
def test_surfaces_are_closed_and_face_outwards(name: str) -> None:
    vertices, faces, euler = surfaces()[name]
    counts = edge_counts(faces)
    assert (counts == 2).all()
    assert len(vertices) - len(counts) + len(faces) == euler
    directed = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    assert len(np.unique(directed, axis=0)) == len(directed), "each edge is run through once each way"
    assert np.linalg.det(vertices[faces]).sum() / 6 > 0


@pytest.mark.parametrize("name", ["torus", "hubs", "blob"])
def test_a_subdivided_surface_is_the_same_surface(name: str) -> None:
    vertices, faces, euler = surfaces()[name]
    fine, small = generators.subdivide(vertices, faces)
    assert np.array_equal(fine[: len(vertices)], vertices)
    assert len(small) == 4 * len(faces)
    assert len(fine) - len(edge_counts(small)) + len(small) == euler
    assert (edge_counts(small) == 2).all()

    def normals(points: np.ndarray, triangles: np.ndarray) -> np.ndarray:
        a, b, c = (points[triangles[:, i]] for i in range(3))
        return np.cross(b - a, c - a)

    quarters = normals(fine, small).reshape(len(faces), 4, 3)
    np.testing.assert_allclose(quarters, np.repeat(normals(vertices, faces)[:, None] / 4, 4, axis=1), atol=1e-12)


def test_mapped_bar_is_not_inverted() -> None:
    cells = (6, 6, 30)
    lattice, tets = generators.lattice_box(cells)
    assert tetrahedron_volumes(generators.horn_vertices(lattice, cells), tets).min() > 0


def test_hubs_that_do_not_fit() -> None:
    with pytest.raises(ReproError, match=r"(?s)do not fit.*one of 5 in 4 × 9 × 9 cells"):
        generate("helmholtz_hubs", cells=[4, 9, 9], hubs=[5])
    with pytest.raises(ReproError, match="do not fit"):
        generate("elasticity_hubs", cells=[8, 8, 8], hubs=[6, 6])


@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [
        ("cube", {}, "expected: one of arrow, diffusion, dirac_blob"),
        ("poisson", {"cells": [3, 3, 3]}, "cells: unknown parameter"),
        ("poisson", {"stencil": 9}, "stencil: Input should be 7 or 27 (is 9)"),
        ("poisson", {"points": [3, 3]}, "points.2: Field required"),
        ("helmholtz_box", {"wavenumber": 0}, "wavenumber: Input should be greater than 0 (is 0)"),
        ("helmholtz_box", {"wavenumber": float("nan"), "loss": -1}, "loss: Input should be greater"),
        ("dirac_blob", {"rows": "many"}, "rows: Input should be a valid integer"),
        ("dirac_torus", {"rings": 2}, "rings: Input should be greater than or equal to 3 (is 2)"),
        ("elasticity_box", {"poisson": 0.5}, "poisson: Input should be less than 0.5"),
        ("elasticity_hubs", {"hubs": [2]}, "hubs.0: Input should be greater than or equal to 3"),
    ],
)
def test_bad_parameters_are_named(kind: str, parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ReproError, match=re.escape(message)):
        generate(kind, **parameters)
