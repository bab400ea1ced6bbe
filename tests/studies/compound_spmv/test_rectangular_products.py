"""All layouts, orders of rows and library products of this study, on rectangular matrices."""

import numpy as np
import pytest

from repro.codegen.build_cache import compile_module
from repro.codegen.targets import CPU
from repro.entries import get_entry
from repro.errors import ReproError, Unsupported
from repro.problems.matrix import Matrix
from repro.sparse.compound.kernels import render_module
from repro.sparse.compound.product import suits
from repro.sparse.compound.runnables import Variant
from repro.sparse.compound.variants import Schedule, VariantId, all_layouts, extended_layouts
from repro.sparse.elementwise import pack_vector
from repro.sparse.library import for_problem
from repro.sparse.operands import make_operands
from repro.sparse.ordering import permutation

SHAPES = [(150, 40), (40, 150), (1, 37), (37, 1)]


def make_matrix(entry, shape, density=0.2):
    """Return a matrix with empty rows and columns, and an entry in its last corner."""
    rng = np.random.default_rng(shape[0])
    present = rng.random(shape) < density
    present[1::4] = False
    present[:, 2::5] = False
    present[-1, -1] = True
    indptr = np.concatenate([[0], np.cumsum(present.sum(axis=1))]).astype(np.int32)
    indices = np.nonzero(present)[1].astype(np.int32)
    values = rng.uniform(-1, 1, (len(indices), len(get_entry(entry).members)))
    return Matrix("rectangular", entry, shape[0], indptr, indices, values, shape[1]).validate()


@pytest.mark.sampled(1)
@pytest.mark.medium
@pytest.mark.parametrize("entry", ["real", "complex", "pattern"])
def test_every_layout_multiplies_a_rectangular_matrix_or_says_why_not(tmp_path, templates, make_bench, entry):
    benches = [make_bench(make_matrix(entry, shape)) for shape in SHAPES]
    refused = set()
    for layout in dict.fromkeys([*all_layouts(), *extended_layouts(get_entry(entry))]):
        if layout.stores_pairs:
            continue
        schedule = Schedule("direct", 32, 2, 2) if layout.inner == "AoSoA" else Schedule("static", 32, 2)
        source = render_module(templates, entry, "double", layout, [schedule], CPU, "tests")
        module = compile_module(source, CPU, tmp_path / f"{layout}.json")
        for bench in benches:
            variant = Variant(VariantId(layout, schedule), module, tmp_path)
            operands = bench.workspace.operands
            if suits(operands.problem, layout):
                bench.prepare(variant)
                assert bench.check(variant) <= 1
                vectors = [pack_vector(array, layout.vector).nbytes for array in (operands.x, operands.reference)]
                assert variant.bytes_moved == variant.matrix_bytes + sum(vectors)
            else:
                refused.add(layout.vector)
                variant.pack(bench.workspace)
                with pytest.raises(Unsupported, match="SoA"):
                    variant.prepare(bench.workspace)
            variant.release()
    assert refused == ({"SoA"} if entry == "complex" else set())
    for bench in benches:
        bench.release()


@pytest.mark.parametrize("entry", ["real", "complex", "block3"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_library_multiplies_rectangular_matrices(make_bench, entry, shape):
    bench = make_bench(make_matrix(entry, shape))
    for product in for_problem(entry, "opencl"):
        bench.prepare(product)
        assert bench.check(product) <= 1
        product.release()
    bench.release()


def test_rectangular_operands_have_an_x_of_the_columns():
    matrix = make_matrix("quaternion", (20, 7))
    operands = make_operands(matrix, "single", 1, rectangular=True)
    assert operands.x.shape == (7, 4)
    assert operands.reference.shape == operands.bound.shape == (20, 4)
    assert operands.min_bytes[1] == 20 * 4 * 4
    with pytest.raises(ReproError, match="not square"):
        make_operands(matrix, "single", 1)


@pytest.mark.parametrize("shape", [(2000, 300), (300, 2000), (90, 5000), (1, 40), (40, 1)])
def test_clusters_of_a_rectangular_matrix_are_an_order_of_its_rows(shape):
    rows = permutation(make_matrix("real", shape, 0.01), "bisected")
    np.testing.assert_array_equal(np.sort(rows), np.arange(shape[0]))


def test_clusters_of_a_rectangular_matrix_bring_rows_with_the_same_columns_together():
    """Rows of 20 groups, each with columns of its own, in random order."""
    rng = np.random.default_rng(1)
    group = rng.permutation(np.repeat(np.arange(20), 64))
    indices = np.sort(group[:, None] * 10 + np.array([rng.choice(10, 4, replace=False) for _ in group]), axis=1)
    indptr = np.arange(0, 4 * len(group) + 1, 4)
    matrix = Matrix(
        "groups", "real", len(group), indptr.astype(np.int32), indices.ravel().astype(np.int32),
        np.ones((4 * len(group), 1)), 200,
    )  # fmt: skip
    changes = np.count_nonzero(np.diff(group[permutation(matrix, "bisected")]))
    assert changes < len(group) / 4 < np.count_nonzero(np.diff(group))
