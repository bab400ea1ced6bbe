"""Scalar matrices of known construction: patterns and values against dense ones, symmetry, how far values repeat."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from repro.entries import get_entry
from repro.errors import ReproError
from repro.problems import generators
from repro.problems.assembly import assemble_elasticity, assemble_helmholtz, fold_blocks, unfold
from repro.problems.generators import WIND, draw_field, generate
from repro.problems.problem import describe_pattern
from repro.problems.registry import Generated, Registry, load_registry

REGISTRY = Path(__file__).parents[2] / "config/problems.yaml"
GRIDS = {5: (4, 7), 9: (5, 4), 7: (3, 4, 5), 27: (4, 3, 5)}
SCALAR = ("arrow", "diffusion", "elasticity_scalar", "helmholtz_scalar")


def dense(kind: str, **parameters: object) -> np.ndarray:
    matrix = generate(kind, **parameters)
    return sp.csr_array((matrix.values[:, 0], matrix.indices, matrix.indptr), shape=(matrix.n,) * 2).toarray()


def brute_force(points: tuple[int, ...], stencil: int, varies: bool, convection: float, seed: int) -> np.ndarray:
    """Add up a dense matrix point by point."""
    kappa = draw_field(points, seed) if varies else np.ones(points)
    speeds = [draw_field(points, seed + 1 + axis) if varies else np.ones(points) for axis in range(len(points))]
    matrix = np.zeros((np.prod(points),) * 2)
    for here in product(*map(range, points)):
        i = np.ravel_multi_index(here, points)
        for step in product((-1, 0, 1), repeat=len(points)):
            if not any(step) or (stencil in (5, 7) and np.abs(step).sum() > 1):
                continue
            there = tuple(np.add(here, step))
            inside = all(0 <= place < count for place, count in zip(there, points, strict=True))
            coupling = 2 / (1 / kappa[here] + 1 / kappa[there]) if inside else kappa[here]
            if sum(step) == -1 and np.abs(step).sum() == 1:
                axis = step.index(-1)
                coupling += convection * WIND[axis] * speeds[axis][here]
            matrix[i, i] += coupling
            if inside:
                matrix[i, np.ravel_multi_index(there, points)] = -coupling
    return matrix


@pytest.mark.parametrize("convection", [0.0, 0.7])
@pytest.mark.parametrize("coefficients", ["constant", "variable"])
@pytest.mark.parametrize("stencil", GRIDS)
def test_a_stencil_is_what_adding_up_point_by_point_gives(stencil: int, coefficients: str, convection: float) -> None:
    points = GRIDS[stencil]
    found = dense("diffusion", points=points, stencil=stencil, coefficients=coefficients, convection=convection, seed=5)
    expected = brute_force(points, stencil, coefficients == "variable", convection, 5)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-15)
    assert np.array_equal(found != 0, expected != 0)
    assert np.array_equal(found, found.T) == (convection == 0)
    others = np.abs(found).sum(axis=1) - np.diag(found)
    assert (np.diag(found) >= others * (1 - 1e-14)).all(), "diagonally dominant"
    assert (np.diag(found) > others * 1.01).any(), "strictly at the boundary"


@pytest.mark.parametrize("stencil", GRIDS)
def test_values_of_constant_coefficients_repeat_and_others_do_not(stencil: int) -> None:
    points = GRIDS[stencil]
    constant = dense("diffusion", points=points, stencil=stencil, convection=0.5)
    assert len(np.unique(constant)) <= 3 + len(points), "0, the diagonal, -1, and upstream along each axis"
    variable = dense("diffusion", points=points, stencil=stencil, coefficients="variable")
    upper = variable[np.triu(variable != 0)]
    assert len(np.unique(upper)) == len(upper)
    if stencil in (5, 7):
        everywhere = dense("diffusion", points=points, stencil=stencil, coefficients="variable", convection=0.5)
        assert len(np.unique(everywhere[everywhere != 0])) == np.count_nonzero(everywhere)


def test_the_seed_decides_on_variable_coefficients_alone() -> None:
    for kind in SCALAR:
        first, second = (generate(kind, coefficients="variable", seed=seed) for seed in (1, 2))
        assert np.array_equal(first.indices, second.indices)
        assert (first.values != second.values).mean() > 0.99
        first, second = (generate(kind, seed=seed) for seed in (1, 2))
        assert np.array_equal(first.values, second.values)


@pytest.mark.parametrize(
    ("points", "stencil", "nonzeros"), [((1000, 1000), 5, 4_996_000), ((148, 148, 58), 7, 8_814_880)]
)
def test_sizes_are_those_of_the_matrices_whose_pattern_they_have(
    points: tuple[int, ...], stencil: int, nonzeros: int
) -> None:
    """ecology1 and atmosmodd, as the collection prints them."""
    matrix = generate("diffusion", points=points, stencil=stencil)
    assert (matrix.n, len(matrix.indices)) == (np.prod(points), nonzeros)


@pytest.mark.wording
def test_a_stencil_of_other_dimensions() -> None:
    with pytest.raises(ReproError, match=r"differ in dimension\n  where: 9 points\n  expected: 2 .*\n  actual: 3"):
        generate("diffusion", points=[4, 4, 4], stencil=9)
    with pytest.raises(ReproError, match="stencil: Input should be 5, 7, 9 or 27"):
        generate("diffusion", stencil=6)
    with pytest.raises(ReproError, match="too large for 32-bit indices"):
        generate("diffusion", points=[2000, 2000, 2000], stencil=7)


@pytest.mark.parametrize("coefficients", ["constant", "variable"])
def test_an_arrow_has_full_rows_and_columns(coefficients: str) -> None:
    found = dense("arrow", rows=30, dense=3, coefficients=coefficients)
    near = np.abs(np.subtract.outer(np.arange(30), np.arange(30))) <= 1
    hub = np.arange(30) < 3
    assert np.array_equal(found != 0, near | hub[:, None] | hub[None, :])
    assert np.array_equal(found, found.T)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-12)
    upper = found[np.triu(found != 0)]
    assert len(np.unique(upper)) == (len(upper) if coefficients == "variable" else 4)


@pytest.mark.wording
def test_an_arrow_with_too_many_full_rows() -> None:
    with pytest.raises(ReproError, match="too many full rows"):
        generate("arrow", rows=6, dense=3)
    with pytest.raises(ReproError, match="too large for 32-bit indices"):
        generate("arrow", rows=10_000_000, dense=1000)


@pytest.mark.parametrize("entry", ["complex", "quaternion", "block3"])
def test_unfolding_writes_out_what_the_entry_means(entry: str) -> None:
    kind = {"complex": "helmholtz_box", "quaternion": "dirac_torus", "block3": "elasticity_mapped"}[entry]
    small = {"cells": [3, 3, 4]} if entry != "quaternion" else {"rings": 6, "segments": 5}
    assembled = generate(kind, **small)
    k = get_entry(entry).size
    scalar = unfold(assembled, entry)
    assert scalar.n == k * assembled.n
    matrix = sp.csr_array((scalar.values[:, 0], scalar.indices, scalar.indptr))
    assert matrix.has_sorted_indices
    assert (matrix.data != 0).all()
    blocks = matrix.toarray().reshape(assembled.n, k, assembled.n, k).swapaxes(1, 2)
    rows = np.repeat(np.arange(assembled.n), np.diff(assembled.indptr))
    np.testing.assert_array_equal(
        blocks[rows, assembled.indices], get_entry(entry).expand(assembled.values), strict=True
    )
    if entry != "complex":  # which is not folded from real blocks
        np.testing.assert_array_equal(fold_blocks(matrix, entry, "toy").values, assembled.values)


def test_a_field_of_one_value_is_that_value() -> None:
    vertices, tets = generators.lattice_box((3, 4, 3))
    np.testing.assert_allclose(
        assemble_elasticity(vertices, tets, young=np.full(len(tets), 2.5)).values,
        assemble_elasticity(vertices, tets, young=2.5).values,
        rtol=1e-12,
        atol=1e-12,
    )
    np.testing.assert_array_equal(
        assemble_helmholtz(vertices, tets, wavenumber=np.full(len(tets), 0.6)).values,
        assemble_helmholtz(vertices, tets, wavenumber=0.6).values,
    )
    for assemble, name in ((assemble_elasticity, "young"), (assemble_helmholtz, "wavenumber")):
        field = np.ones(len(tets))
        field[-1] = 0
        with pytest.raises(ReproError, match="out of range"):
            assemble(vertices, tets, **{name: field})


@pytest.mark.parametrize("coefficients", ["constant", "variable"])
def test_elasticity_as_scalars_is_symmetric_positive_definite(coefficients: str) -> None:
    found = dense("elasticity_scalar", cells=[3, 3, 4], coefficients=coefficients, foundation=0.01)
    np.testing.assert_array_equal(found, found.T)
    least = np.linalg.eigvalsh(found)
    # the six rigid motions feel nothing but the foundation
    np.testing.assert_allclose(least[:6], 0.01, rtol=1e-9)
    assert least[6] > 0.02
    distinct = len(np.unique(found[found != 0]))
    assert distinct < 40 if coefficients == "constant" else distinct > 0.4 * np.count_nonzero(found)


@pytest.mark.parametrize("coefficients", ["constant", "variable"])
def test_helmholtz_as_scalars_has_the_complex_matrix(coefficients: str) -> None:
    found = dense("helmholtz_scalar", cells=[4, 3, 4], coefficients=coefficients)
    real, imaginary = found[::2, ::2], found[1::2, ::2]
    np.testing.assert_array_equal(found[1::2, 1::2], real)
    np.testing.assert_array_equal(found[::2, 1::2], -imaginary)
    np.testing.assert_array_equal(real, real.T)
    assert not np.array_equal(found, found.T)
    distinct = len(np.unique(found[found != 0]))
    assert distinct < 256 if coefficients == "constant" else distinct > 0.3 * np.count_nonzero(found)


# the sets of the registry


@pytest.fixture(scope="module")
def shipped() -> Registry:
    return load_registry(REGISTRY)


@pytest.mark.parametrize(("name", "smallest", "largest"), [("coo", 10_000, 60_000), ("coo_tiny", 400, 1000)])
def test_the_small_sets_are_small_and_have_both(shipped: Registry, name: str, smallest: int, largest: int) -> None:
    items = shipped.expand(name)
    assert len(items) == {"coo": 6, "coo_tiny": 3}[name]
    assert {str(item.name).rsplit("_", 1)[1] for item in items} == {"const", "var"}
    longest = []
    for item in items:
        assert isinstance(item, Generated)
        built = generate(item.kind, **item.parameters)
        assert smallest <= built.n <= largest, item.name
        found = describe_pattern(built.indptr, built.indices)
        longest.append(found["row_length"]["max"] / built.n)
        repeat = len(np.unique(built.values)) <= 256
        assert repeat == item.name.endswith("_const"), item.name
    assert max(longest) == 1, "one has full rows"


def count_rows(item: Generated) -> int:
    """Return the rows of a generated problem without building it."""
    asked = item.parameters
    match item.kind:
        case "arrow":
            return int(asked["rows"])
        case "diffusion":
            return int(np.prod(asked["points"]))
        case kind:
            a_vertex = {"elasticity_scalar": 3, "helmholtz_scalar": 2}[kind]
            return a_vertex * int(np.prod(np.add(asked["cells"], 1)))


def test_the_large_set_has_pairs_of_more_than_900_000_rows_and_the_real_ones_of_the_mirror(shipped: Registry) -> None:
    items = shipped.expand("coo_h200")
    assert {item.entry for item in items} == {"real"}
    large = {item.name: item for item in items if isinstance(item, Generated)}
    assert len(large) >= 14
    assert {item.parameters.get("stencil") for item in large.values()} >= {5, 7, 9, 27}
    assert {item.kind for item in large.values()} == set(SCALAR)
    for name, item in large.items():
        assert count_rows(item) > 900_000, name
        assert item.parameters["coefficients"] == {"const": "constant", "var": "variable"}[name.rsplit("_", 1)[1]]
        if name.endswith("_const"):
            other = dict(large[name.removesuffix("const") + "var"].parameters)
            assert other | {"coefficients": "constant"} == item.parameters | {"seed": other["seed"]}
    others = [item for item in items if item.name not in large]
    assert {item.name for item in others} == {
        "cryg2500", "bayer10", "bcsstk13", "bcsstk16_scalar", "rajat01", "494_bus",
    }  # fmt: skip
    assert all(item.checksum and item.published for item in others)
