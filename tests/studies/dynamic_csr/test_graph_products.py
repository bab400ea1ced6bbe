"""Every product of a growing matrix is run on the CPU and compared with the reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from repro.bench.timing import SamplingPlan
from repro.codegen.targets import CPU
from repro.config.models import Rival
from repro.sparse.library import for_problem
from repro.sparse.rivals.runnables import products_of
from repro.studies.dynamic_csr.ids import ProductId, product_ids
from repro.studies.dynamic_csr.operands import grow, lay_out_state
from repro.studies.dynamic_csr.runnables_products import PackedMatrix, ProductVariant, matrix_arrays
from repro.words import SPACES
from support.growing_matrices import around_limits, growing
from support.product_checks import check_products

EFFORT = SamplingPlan(2)
EXAMPLES = Path(__file__).parents[3] / "examples"
EVERY = [id for space in SPACES for mean in (1.0, 8.0, 64.0) for id in product_ids(CPU, space, mean)]
EVERY = list(dict.fromkeys(EVERY))


@pytest.fixture
def try_all(product_modules, make_graph_bench):
    """Try variants on a problem; return their rows."""
    modules, folder = product_modules

    def tried(problem, precision="double", ids=EVERY, segments=4):
        assert modules[precision].binary, modules[precision].message
        bench = make_graph_bench(problem, precision)
        variants = [ProductVariant(id, modules[precision], folder, segments) for id in ids]
        return [bench.try_once(variant, "search", EFFORT) for variant in variants]

    return tried


def right(rows):
    """Check that all are right and return how many."""
    assert [(row.name, row.message) for row in rows if row.status != "ok"] == []
    assert all(row.error <= 1 for row in rows)
    return len(rows)


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("precision", ["single", "double"])
def test_every_variant_is_right_around_every_limit(try_all, precision):
    rows = try_all(around_limits(), precision)
    assert right(rows) == len(EVERY) == 80
    assert all(row["what"] == "product" and row["matrix_bytes"] > 0 and row.bytes > 0 for row in rows)
    assert {row["segments"] for row in rows} == {4, None}


@pytest.mark.parametrize("segments", [1, 2, 3, 4])
def test_chains_of_any_length(try_all, segments):
    problem = around_limits(added=3000, batches=9)
    ids = [id for id in EVERY if id.state == "fragmented"]
    assert right(try_all(problem, ids=ids, segments=segments)) == len(ids)


@pytest.mark.parametrize(
    ("lengths", "columns", "added"),
    [
        ([40, 0, 3000, 1, 513], 5000, 60),  # a few long rows
        ([0, 1, 1, 0, 2] * 200, 3, 50),  # many short ones
        ([0] * 70, 9, 0),  # nothing at all
        ([0] * 70, 9, 1),  # one entry, in a batch
        ([5], 5, 2),  # one row
        ([2600, 0, 2600], 2600, 0),  # longer than what a block takes, one after the other
    ],
)
def test_shapes(try_all, lengths, columns, added):
    assert right(try_all(growing(lengths, columns, added))) == len(EVERY)


def test_what_lies_in_the_room_of_segments_is_not_read(product_modules, make_graph_bench):
    modules, folder = product_modules
    bench = make_graph_bench(around_limits(added=900))
    laid_out = grow(bench.operands)
    rows = np.repeat(np.arange(len(laid_out.sizes)), laid_out.sizes)
    nth = np.concatenate([np.arange(size) for size in laid_out.sizes])
    room = np.ones(laid_out.capacity, bool)
    room[laid_out.places(rows, nth)] = False
    assert room.sum() > 300
    laid_out.values[room] = np.nan
    bench.workspace.upload_packed(
        ("dcsr", "fragmented", 4), lambda: (PackedMatrix(1, 4, 1, 0), matrix_arrays(laid_out))
    )
    for id in EVERY:
        if id.state == "fragmented":
            row = bench.try_once(ProductVariant(id, modules["double"], folder), "search", EFFORT)
            assert (row.status, row.message) == ("ok", None), id


@pytest.mark.parametrize("text", ["dcsr-fragmented/vector-w4-u2", "dcsr-sorted/adaptive-e2-u2", "csr/chunks-u4"])
def test_launches_can_be_repeated_and_take_other_vectors(product_modules, make_graph_bench, text):
    modules, folder = product_modules
    bench = make_graph_bench(growing([0, 3, 700, 40, 1200, *[5] * 1400], 1405, 90))
    variant = ProductVariant(ProductId.parse(text), modules["double"], folder)
    check_products(bench, variant)


@pytest.mark.parametrize("text", ["dcsr-defragmented/streams", "dcsr-defragmented/adaptive-e4-u2"])
def test_the_same_product_twice_has_the_same_bits(product_modules, make_graph_bench, text):
    modules, folder = product_modules
    bench = make_graph_bench(growing([3000, 0, 700, 900, 33], 4000, 90))
    variant = ProductVariant(ProductId.parse(text), modules["double"], folder)
    bench.prepare(variant)
    results = []
    for _ in range(2):
        variant.launch()
        results.append(np.empty(5))
        bench.device.download(variant.result(), results[-1])
    assert np.array_equal(*results)


@pytest.mark.parametrize(("lengths", "columns"), [([4, 0, 7, 3], 90), ([2, 0, 1] * 30, 3)])
def test_the_library_multiplies_rectangular_matrices_with_places_summed_up(make_graph_bench, lengths, columns):
    problem = growing(lengths, columns, 60)
    bench = make_graph_bench(problem)
    for runnable in for_problem("real", "opencl"):
        row = bench.try_once(runnable, "search", EFFORT)
        assert (row.status, row.message) == ("ok", None)
        assert row.error <= 1
    summed = bench.operands.summed
    assert summed.nnz < bench.operands.grown.nnz
    assert bench.operands.product.problem.validate().shape == (len(lengths), columns)


def test_a_wrong_product_is_found(product_modules, make_graph_bench):
    modules, folder = product_modules
    bench = make_graph_bench(around_limits())
    laid_out = lay_out_state(bench.operands, "defragmented")
    laid_out.values[7] *= 1.001
    bench.workspace.upload_packed(
        ("dcsr", "defragmented", 4), lambda: (PackedMatrix(1, 4, 1, 0), matrix_arrays(laid_out))
    )
    variant = ProductVariant(ProductId.parse("dcsr-defragmented/vector-w8"), modules["double"], folder)
    row = bench.try_once(variant, "search", EFFORT)
    assert row.status == "incorrect" and "1 of" in row.message


def test_a_rival_multiplies_the_matrix_before_it_grows(make_graph_bench):
    bench = make_graph_bench(growing([4, 0, 7, 3], 90, 60))
    rival = Rival(name="scipy", python=f"{EXAMPLES / 'rivals/products.py'}:SciPyCsr")
    row = bench.try_once(*products_of([rival], "real"), "report", EFFORT)
    assert (row.status, row.message, row["what"]) == ("ok", None, None)
