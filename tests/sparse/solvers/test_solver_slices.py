"""Rows dealt to blocks: every entry once, whatever the lengths of rows, little padding, and what fits is kept."""

import doctest
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from repro.codegen.targets import DTYPES
from repro.sparse.operands import expand
from repro.sparse.ordering import reorder
from repro.sparse.solvers import persistent
from repro.sparse.solvers import slices as slices_module
from repro.sparse.solvers.kernels import PERSISTENT_BLOCK_SIZE
from repro.sparse.solvers.persistent import MAX_SECTORS, deal_rows
from repro.sparse.solvers.slices import LANES, assign_rows, keep_slices
from repro.sparse.symmetry import adjoint_members
from support.emulated_cuda import EmulatedCuda
from support.persistent_solves import as_matrix, dominant, laplacian, uneven

EMPTY_ROWS = sp.csr_array((np.array([3.0, 4.0]), (np.array([2, 90]), np.array([2, 1]))), shape=(91, 91))
MATRICES = {
    "grid": laplacian(30),
    "uneven": uneven(),
    "one": as_matrix(np.array([[2.0]])),
    "empty rows": as_matrix(EMPTY_ROWS),
    "full": as_matrix(np.random.default_rng(0).normal(size=(70, 70))),
    "blocks": dominant("block3", "symmetric"),
}


def entries_of(slices, entry):
    """Rows, columns and members of all slots with a value, in the matrix's numbers."""
    rows, columns, members = [], [], []
    for first, packed, begin, steps in slices.slices:
        count, lanes = packed % 64, packed // 64
        for step in range(begin, begin + steps):
            for lane in range(count * lanes):
                rows.append(slices.rows[first + lane // lanes])
                columns.append(slices.rows[slices.columns[step, lane]])
                members.append(slices.values[step, :, lane])
    return np.array(rows), np.array(columns), np.array(members).reshape(len(rows), -1)


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize(("blocks", "warps", "ordered"), [(1, 2, True), (7, 2, False), (132, 16, True)])
def test_every_entry_has_one_slot_and_every_row_one_place(name, blocks, warps, ordered):
    matrix = MATRICES[name]
    order = np.random.default_rng(3).permutation(matrix.n) if ordered else None
    slices = assign_rows(matrix, np.dtype(float), blocks, warps, order)
    assert sorted(slices.rows) == list(range(matrix.n))
    assert slices.blocks <= blocks
    assert (np.diff(slices.starts) > 0).all()
    assert slices.starts[-1] == len(slices.slices)
    rows, columns, members = entries_of(slices, matrix.entry)
    kept = members.any(axis=1)
    found = sp.csr_array(
        (np.arange(1, kept.sum() + 1), (rows[kept], columns[kept])), shape=(matrix.n, matrix.n)
    )  # fmt: skip
    assert found.nnz == matrix.nnz
    found.sort_indices()
    assert np.array_equal(found.indices, matrix.indices)
    np.testing.assert_array_equal(members[kept][found.data - 1], matrix.values)


def test_the_example_is_as_printed():
    assert doctest.testmod(slices_module).failed == 0


def test_long_rows_cost_little_padding_and_blocks_have_about_as_much_to_do():
    slices = assign_rows(uneven(6000), np.dtype(float), 10, 4)
    slots = len(slices.columns) * LANES
    assert slots < 2.2 * uneven(6000).nnz
    steps = slices.slices["steps"]
    of_blocks = np.add.reduceat(steps, slices.starts[:-1])
    assert of_blocks.max() < 2.5 * of_blocks.mean()


def test_rows_of_a_grid_stay_in_their_order_and_get_more_lanes_where_they_are_few():
    many, few = (assign_rows(laplacian(points, 3), np.dtype(float), 4, 4) for points in (16, 6))
    assert np.array_equal(many.rows, np.arange(16**3))
    assert (many.slices["rows_and_lanes"] // 64 == 1).all()
    assert len(many.columns) * LANES < 1.2 * laplacian(16, 3).nnz
    wide = assign_rows(as_matrix(np.ones((64, 64))), np.dtype(float), 4, 4)
    assert (wide.slices["rows_and_lanes"] // 64 == 4).all()
    assert len(few.slices) >= 6**3 / LANES


def test_a_block_keeps_its_first_slices_as_far_as_they_fit():
    slices = assign_rows(laplacian(40), np.dtype(float), 3, 2)
    assert keep_slices(slices, "real", 1 << 30).steps == len(slices.columns)
    assert keep_slices(slices, "real", 0).steps == 0
    slices = replace(slices, values=np.random.default_rng(0).normal(size=slices.values.shape))  # no two are the same
    for capacity in (2000, 10_000, 20_000):
        kept = keep_slices(slices, "real", capacity)
        assert kept.form == "slices"
        assert 0 < kept.max_bytes <= capacity
        assert kept.steps * slices.step_bytes <= 3 * kept.max_bytes
        for block, end in enumerate(kept.ends):
            steps = slices.slices["steps"][slices.starts[block] : end].sum()
            following = slices.slices["steps"][end] if end < slices.starts[block + 1] else 0
            assert steps * slices.step_bytes <= capacity
            assert not following or (steps + following) * slices.step_bytes > capacity


def decode(slices, kept, block, entry):
    """Columns, and members of values, of the steps that a block keeps, read as kernels read them; and their number."""
    first = slices.first_steps()[block]
    steps = slices.ends()[kept.ends[block] - 1] - first
    first_word, words, count = kept.image_places[block]
    image = kept.images[16 * first_word :][: 16 * words].tobytes()
    members = slices.values.shape[1]
    table = np.frombuffer(image, slices.values.dtype, members * count).reshape(members, count)
    codes = np.frombuffer(image, np.uint32, 32 * steps, table.nbytes).reshape(steps, 32)
    least = np.frombuffer(image, np.int32, steps, table.nbytes + codes.nbytes)
    values = table[:, codes >> 16 & 0x7FFF]
    transposed = np.stack([sign * values[source] for source, sign in adjoint_members(entry)])
    values = np.where(codes >> 31, transposed, values).transpose(1, 0, 2)
    return least[:, None] + (codes & 0xFFFF).astype(np.int32), values, slice(first, first + steps)


@pytest.mark.parametrize(
    ("entry", "kind", "precision"),
    [("complex", "hermitian", "single"), ("quaternion", "hermitian", "double"), ("block3", "symmetric", "double")],
)
def test_a_table_holds_the_slots_with_one_value_for_each_pair(entry, kind, precision):
    matrix = dominant(entry, kind, 600)
    slices = assign_rows(matrix, np.dtype(DTYPES[precision]), 3, 2)
    capacity = slices.nbytes // 12
    kept = keep_slices(slices, entry, capacity)
    assert kept.form == "table"
    assert kept.max_bytes <= capacity
    assert 0 < kept.steps < len(slices.columns)
    assert len(kept.images) % 16 == 0
    for block in range(3):
        columns, values, steps = decode(slices, kept, block, entry)
        np.testing.assert_array_equal(values, slices.values[steps])
        filled = values.any(axis=1)
        np.testing.assert_array_equal(columns[filled], slices.columns[steps][filled])
        rows, others, _ = entries_of(
            replace(slices, slices=slices.slices[slices.starts[block] : kept.ends[block]]), entry
        )
        pairs = set(zip(np.minimum(rows, others), np.maximum(rows, others), strict=True))
        assert kept.image_places["values"][block] <= len(pairs) + 2  # the diagonal's value, and 0


def test_a_table_is_taken_where_more_fits_and_columns_are_near_each_other():
    slices = assign_rows(laplacian(40), np.dtype(float), 3, 2)
    assert keep_slices(slices, "real", slices.nbytes).form == "slices"
    kept = keep_slices(slices, "real", slices.nbytes // 5)
    assert kept.form == "table"
    assert kept.steps == len(slices.columns)
    assert kept.image_places["values"].max() == 3  # -1, 4.1 and 0
    columns = slices.columns.copy()
    columns[len(columns) // 2, :2] = 0, 1 << 16
    far = keep_slices(replace(slices, columns=columns), "real", slices.nbytes // 5)
    assert far.form == "table"
    assert far.steps < kept.steps
    broken = np.flatnonzero(far.ends != kept.ends)
    assert len(broken) == 1
    last = slices.slices[far.ends[broken[0]]]
    assert last["first_step"] <= len(columns) // 2 < last["first_step"] + last["steps"]


def test_the_diagonal_is_that_of_the_real_expansion():
    for entry, kind in (("complex", "hermitian"), ("quaternion", "hermitian"), ("block3", "symmetric")):
        matrix = dominant(entry, kind, 100)
        slices = assign_rows(matrix, np.dtype(float), 2, 2)
        diagonal = expand(matrix, matrix.values).diagonal().reshape(matrix.n, -1)
        np.testing.assert_allclose(slices.scale, 1 / diagonal[slices.rows])
    empty = assign_rows(as_matrix(EMPTY_ROWS), np.dtype(float), 2, 2)
    assert (np.delete(empty.scale[:, 0], np.flatnonzero(empty.rows == 2)) == 1).all()
    assert empty.smallest_diagonal == (0, 0)


def renumbered(matrix, seed=5):
    return reorder(matrix, np.random.default_rng(seed).permutation(matrix.n))


def test_rows_are_clustered_where_blocks_then_load_less_of_x():
    device = EmulatedCuda()
    grid = laplacian(60)
    shuffled = renumbered(grid)
    dealt = deal_rows(shuffled, np.dtype(float), device)
    warps = PERSISTENT_BLOCK_SIZE["cuda"] // LANES
    assert dealt.sectors() < 0.5 * assign_rows(shuffled, np.dtype(float), device.sm_count, warps).sectors()
    rows, columns, members = entries_of(dealt, "real")
    kept = members.any(axis=1)
    found = sp.csr_array((members[kept, 0], (rows[kept], columns[kept])), shape=(grid.n, grid.n))
    assert abs(found - sp.csr_array((shuffled.values[:, 0], shuffled.indices, shuffled.indptr))).max() == 0


@pytest.mark.parametrize("matrix", [laplacian(12, 3), as_matrix(EMPTY_ROWS), as_matrix(np.ones((1, 1)))])
def test_rows_stay_in_their_order_where_that_loads_less(matrix):
    device = EmulatedCuda()
    dealt = deal_rows(matrix, np.dtype(float), device)
    natural = assign_rows(matrix, np.dtype(float), device.sm_count, PERSISTENT_BLOCK_SIZE["cuda"] // LANES)
    assert dealt.sectors() <= MAX_SECTORS * natural.sectors()


def test_rows_of_a_matrix_far_too_large_for_the_chip_stay_in_their_order(monkeypatch):
    device = EmulatedCuda()
    monkeypatch.setattr(persistent, "chip_room", lambda device: 64)
    assert list(deal_rows(renumbered(laplacian(20)), np.dtype(float), device).rows[:3]) == [0, 1, 2]
