"""Devices bring rows together as the host does, whatever rows a tile has."""

import numpy as np
import pytest
import scipy.sparse as sp

from repro.sparse.dynamic import host_layout
from repro.sparse.dynamic.kernels import COPIES_PER_THREAD, ROWS_PER_THREAD
from repro.sparse.dynamic.storage import Storage
from repro.sparse.elementwise import BLOCK_SIZE
from support.dynamic_matrices import assert_equal, random_matrix


def tile_of(device):
    return COPIES_PER_THREAD * BLOCK_SIZE[device.backend]


def fragmented(matrix, seed=3):
    """Return a matrix of four segments a row at most, out of order, with free entries in some."""
    random = np.random.default_rng(seed)
    arrays = host_layout.lay_out(matrix, 4, 8 * matrix.nnz + 20_000)
    rows, columns = matrix.shape
    for slack in (1, 0, 2):
        count = max(matrix.nnz // 9, 3)
        batch = random.integers(0, rows, count), random.integers(0, columns, count), random.random(count)
        arrays, left = host_layout.insert(arrays, *batch, slack)
        assert not left.any()
    return arrays


def skewed(device):
    """Rows that begin and end at the ends of tiles, one of several tiles, many empty ones."""
    tile, random = tile_of(device), np.random.default_rng(1)
    sizes = np.concatenate(
        [[tile, 0, tile - 1, 1, 3 * tile + 5, 0, 0], np.zeros(2 * tile), random.zipf(1.4, 300) % 90, [0, 0]]
    )
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    columns = (np.arange(offsets[-1]) - np.repeat(offsets[:-1], sizes.astype(int))).astype(np.int32)
    return sp.csr_array((np.arange(1.0, offsets[-1] + 1), columns, offsets), shape=(len(sizes), 8 * tile))


MATRICES = {
    "short": lambda device: random_matrix(2 * ROWS_PER_THREAD * BLOCK_SIZE[device.backend] + 5, 90, 0.05),
    "long": lambda device: random_matrix(9, 2 * tile_of(device), 0.4),
    "skewed": skewed,
    "one": lambda device: sp.csr_array([[2.0]]),
}


@pytest.mark.parametrize("kind", MATRICES)
def test_rows_come_together_in_another_matrix_again_and_again(on_cpu, device, kind):
    arrays = fragmented(MATRICES[kind](device))
    dynamic = on_cpu(arrays)
    blank = sp.csr_array(arrays.shape, dtype=arrays.values.dtype)
    targets = [Storage.upload(device, host_layout.lay_out(blank, 4, arrays.nnz + more)) for more in (0, 3)]
    launches = [dynamic.operations.together(target) for target in targets]
    expected = host_layout.defragment(arrays)
    for target, launch in (*zip(targets, launches, strict=True), (targets[0], launches[0])):
        device.fill(target.columns, 0xFF)
        launch()
        moved = target.download()
        assert moved.pointer == arrays.nnz
        np.testing.assert_array_equal(moved.pairs[1:], 0)
        np.testing.assert_array_equal(moved.sizes, expected.sizes)
        lengths = moved.pairs[0, :, 1] - moved.pairs[0, :, 0]
        np.testing.assert_array_equal(lengths, expected.sizes)
        np.testing.assert_array_equal(moved.columns[: arrays.nnz], expected.columns[: arrays.nnz])
        np.testing.assert_array_equal(moved.values[: arrays.nnz], expected.values[: arrays.nnz])
    if device.backend == "cuda":
        blocks = max(1, -(-arrays.shape[0] // (ROWS_PER_THREAD * BLOCK_SIZE["cuda"])))
        counters = np.empty(3, np.int32)
        device.download(dynamic._scratch.take("totals", 8 * (2 + blocks)), counters)
        assert counters.tolist() == [0, 0, 3]  # what a launch published is no other's
    for target in targets:
        target.release()


@pytest.mark.parametrize("kind", MATRICES)
@pytest.mark.parametrize("slack", [0, 3])
def test_a_matrix_is_brought_together_with_and_without_slack(on_cpu, device, kind, slack):
    arrays = fragmented(MATRICES[kind](device), seed=5)
    dynamic = on_cpu(arrays)
    dynamic.defragment(slack)
    after, expected = dynamic.storage.download(), host_layout.defragment(arrays, slack=slack)
    np.testing.assert_array_equal(after.pairs, expected.pairs)
    assert_equal(after.to_csr(), expected.to_csr())


def test_without_rows_there_is_nothing_to_copy(on_cpu, device):
    arrays = host_layout.lay_out(sp.csr_array((0, 3)), 4, 5)
    target = Storage.upload(device, arrays)
    on_cpu(arrays).operations.together(target)()
    assert target.report().pointer == 0
    target.release()


def test_an_order_of_rows_is_kept(on_cpu, device):
    arrays = fragmented(random_matrix(300, 90))
    dynamic = on_cpu(arrays)
    order = np.random.default_rng(2).permutation(300).astype(np.int32)
    permutation = device.upload(order)
    rooms, offsets = dynamic.operations.rooms(0, permutation)
    target = Storage.upload(device, host_layout.lay_out(sp.csr_array((300, 90)), 4, arrays.nnz))
    rooms()
    dynamic.operations.copy(offsets, target, False, permutation)()
    moved = target.download()
    assert_equal(moved.to_csr(), arrays.to_csr())
    starts = moved.pairs[0, order, 0]
    filled = moved.sizes[order] > 0
    assert (np.diff(starts[filled]) > 0).all()
    target.release()
