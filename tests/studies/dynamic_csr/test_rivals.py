"""Updates, products and conversions of other formats on the CPU, against SciPy."""

from contextlib import ExitStack
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from repro.errors import IncorrectError, ModuleError, Unsupported
from repro.sparse.device_primitives import ModuleFile, RunnableContext
from repro.studies.dynamic_csr.operands import (
    DeviceEntries,
    Entries,
    HybridArrays,
    SortedCoordinates,
    ell_pitch,
    make_operands,
    overflow,
)
from repro.studies.dynamic_csr.runnables_baselines import (
    CoordinateUpdate,
    HybridProduct,
    HybridSort,
    HybridUpdate,
    Rebuild,
    SortOfRows,
    Sums,
)
from repro.studies.dynamic_csr.runnables_updates import STATIC_PAIRS, StaticConversion, update_plan
from support.update_problems import PROBLEMS, RANDOM, cases, check_twice, drawn, growing, problems

pytest_plugins = ("support.rival_fixtures",)
UPDATES = (HybridUpdate, CoordinateUpdate, Rebuild)


@pytest.mark.sampled(60)
@cases
@pytest.mark.parametrize("order", ["sorted", "any"])
@pytest.mark.parametrize(
    ("update", "what"),
    [*product(UPDATES, ("insert", "stream")), (HybridUpdate, "iterate"), (Rebuild, "iterate")],
)
def test_an_update_leaves_the_grown_matrix(rivals_built, work_on, update, what, order, problem, precision):
    runnable = update(rivals_built[precision], what, order)
    assert check_twice(runnable, work_on(problem, precision)) <= 1
    assert runnable.columns["what"] == what
    assert runnable.name == f"{runnable.columns['format']}/{what}/{order}"


@cases
def test_the_hybrid_product(rivals_built, work_on, problem, precision):
    hybrid = HybridProduct(rivals_built[precision])
    workspace = work_on(problem, precision)
    assert check_twice(hybrid, workspace) <= 1
    assert hybrid.matrix_bytes > 0


def test_the_hybrid_product_of_other_vectors(rivals_built, work_on, cpu_device):
    workspace = work_on(PROBLEMS["long rows"])
    product = HybridProduct(rivals_built["double"])
    product.prepare(workspace)
    matrix = workspace.operands.grown
    vector = np.random.default_rng(9).normal(size=matrix.shape[1])
    x, y = cpu_device.upload(vector), cpu_device.allocate(8 * matrix.shape[0])
    product.product(x, y)()
    result = np.empty(matrix.shape[0])
    cpu_device.download(y, result)
    np.testing.assert_allclose(result, matrix @ vector, rtol=1e-10, atol=1e-10)
    product.release()


@problems
@pytest.mark.parametrize("primitive", [Sums, SortOfRows])
def test_the_primitives_as_they_are_timed(rivals_built, work_on, primitive, problem):
    runnable = primitive(rivals_built["double"])
    assert check_twice(runnable, work_on(problem)) <= 1
    assert runnable.columns["routine"] == "ours"


@problems
def test_the_sort_of_the_hybrid_format(rivals_built, work_on, problem):
    assert check_twice(HybridSort(rivals_built["double"]), work_on(problem)) <= 1


@problems
@pytest.mark.parametrize(("source", "target"), STATIC_PAIRS)
def test_a_conversion_leaves_the_matrix(rivals_built, work_on, source, target, problem):
    assert check_twice(StaticConversion(rivals_built["double"], source, target), work_on(problem)) <= 1


def test_stages_are_the_update_and_its_sort(rivals_built, work_on):
    workspace = work_on(PROBLEMS["long rows"])
    for update in (HybridUpdate, CoordinateUpdate):
        runnable = update(rivals_built["double"], "stream")
        assert list(runnable.stages) == ["update", "sort"]
        runnable.prepare(workspace)
        runnable.before()
        for stage in runnable.stages.values():
            stage()
        left = runnable.result()
        assert abs(left - workspace.operands.grown).max() < 1e-12
        runnable.release()
        assert not update(rivals_built["double"], "insert").stages


def test_coordinates_that_are_not_sorted_are_an_error(rivals_built, work_on):
    entries = Entries(np.array([2, 1, 0], np.int32), np.zeros(3, np.int32), np.arange(3.0))
    with ExitStack() as held:
        work = RunnableContext(work_on(PROBLEMS["one batch"]), rivals_built["double"], held)
        coordinates = SortedCoordinates(work, 3, 5, np.dtype(float))
        coordinates.bind_copy(DeviceEntries.upload(work, entries), 3)()
        with pytest.raises(IncorrectError, match="not sorted"):
            coordinates.read(0, 3)
        coordinates.bind_sort(0, 3)()
        np.testing.assert_array_equal(coordinates.read(1, 3).values, [2, 1, 0])


def test_there_has_to_be_a_batch_to_insert(rivals_built, work_on):
    workspace = work_on(growing(RANDOM, []))
    with pytest.raises(Unsupported, match="no batch"):
        Rebuild(rivals_built["double"]).prepare(workspace)
    assert check_twice(Rebuild(rivals_built["double"], "stream"), workspace) <= 1


def test_several_batches_are_captured_as_one_operation_and_any_number_is(rivals_built, work_on):
    batches = [drawn(150, 90, 3, seed) for seed in range(100)]
    for count, clocks in ((1, ("event", "graph")), (100, ("event",))):
        runnable = Rebuild(rivals_built["double"])
        assert check_twice(runnable, work_on(growing(RANDOM, batches[:count]))) <= 1
        assert runnable.clocks == clocks
        assert runnable.columns["batch"] == 3


@pytest.mark.parametrize("update", [HybridUpdate, Rebuild])
def test_a_wrong_product_between_batches_is_noticed(rivals_built, work_on, update):
    workspace = work_on(PROBLEMS["several batches"])
    runnable = update(rivals_built["double"], "iterate")
    runnable.prepare(workspace)
    assert np.isnan(runnable.product()).all()
    assert workspace.operands.check(runnable, workspace) <= 1
    launch = runnable.launch

    def spoil():
        launch()
        y = runnable.product()
        y[3] += 1
        workspace.device.write(runnable._y, y)

    runnable.launch = spoil
    with pytest.raises(IncorrectError, match="1 of"):
        workspace.operands.check(runnable, workspace)
    runnable.release()


def test_a_module_that_does_not_compile_is_said(rivals_built, work_on, tmp_path):
    sort = rivals_built["double"]["sort"]
    broken = {
        **rivals_built["double"],
        "sort": ModuleFile(replace(sort.module, binary=None, message="line 3"), tmp_path),
    }
    with pytest.raises(ModuleError, match="line 3"):
        Rebuild(broken).prepare(work_on(PROBLEMS["one batch"]))


def test_orders_of_entries():
    operands = make_operands(PROBLEMS["one batch"], "double", 1)
    by_row = update_plan(operands, "stream", "sorted").batches[0]
    shuffled = update_plan(operands, "stream", "any").batches[0]
    assert (np.diff(by_row.rows) >= 0).all()
    assert not (np.diff(shuffled.rows) >= 0).all()
    np.testing.assert_allclose(shuffled.to_csr(operands.grown.shape).toarray(), operands.grown.toarray())
    rows = PROBLEMS["one batch"].batch(0)[0]
    np.testing.assert_array_equal(update_plan(operands, "insert", "any").batches[0].rows, rows)
    np.testing.assert_array_equal(update_plan(operands, "insert", "sorted").batches[0].rows, np.sort(rows))


def test_the_hybrid_layout_on_the_host():
    matrix = sp.csr_array(np.array([[1, 2, 3, 4, 5], [0, 0, 0, 0, 0], [0, 6, 0, 0, 7.0]]))
    arrays = HybridArrays.of(matrix, 2)
    pitch = ell_pitch(3)
    assert pitch == 32
    np.testing.assert_array_equal(arrays.counts, [5, 0, 2])
    np.testing.assert_array_equal(arrays.values[[0, pitch, 2, pitch + 2]], [1, 2, 6, 7])
    np.testing.assert_array_equal(arrays.columns[[0, pitch, 2, pitch + 2]], [0, 1, 1, 4])
    np.testing.assert_array_equal(arrays.over.values, [3, 4, 5])
    np.testing.assert_array_equal(arrays.over.rows, [0, 0, 0])
    assert overflow(arrays.counts, 2) == 3


@pytest.mark.parametrize("width", [0, 1, 3, 9])
@pytest.mark.parametrize("sizes", [[5, 0, 2, 1, 0, 3] * 11, [0, 0], []])
def test_the_hybrid_layout_is_read_as_it_was_laid_out(sizes, width):
    pointers = np.concatenate([[0], np.cumsum(sizes, dtype=int)])
    nnz = int(pointers[-1])
    columns = np.random.default_rng(1).integers(0, 7, nnz).astype(np.int32)
    matrix = sp.csr_array((np.arange(1.0, nnz + 1), columns, pointers), shape=(len(sizes), 7))
    arrays = HybridArrays.of(matrix, width)
    assert len(arrays.over.rows) == overflow(arrays.counts, width)
    arrays.values[arrays.values == 0] = np.nan  # behind the entries of a row there is anything
    read = arrays.to_csr(matrix.shape, width)
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(read, name), getattr(matrix, name))
