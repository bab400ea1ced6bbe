from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from repro.entries import get_entry
from repro.errors import ReproError
from repro.problems.assembly import Assembled, fold_blocks, unfold

EPSILON = np.finfo(float).eps


def expanded(entry: str, seed: int = 1, n: int = 20) -> tuple[sp.csr_array, sp.bsr_array, np.ndarray]:
    """Return a random matrix with compound entries as scalars, as blocks, and its members."""
    rng = np.random.default_rng(seed)
    pattern = sp.random_array((n, n), density=0.2, rng=rng, format="csr")
    pattern.sort_indices()
    values = rng.standard_normal((pattern.nnz, len(get_entry(entry).members)))
    k = get_entry(entry).size
    blocks = sp.bsr_array((get_entry(entry).expand(values), pattern.indices, pattern.indptr), shape=(k * n, k * n))
    scalar = sp.csr_array(blocks)
    scalar.sort_indices()
    return scalar, blocks, values


@pytest.mark.parametrize("entry", ["quaternion", "block3"])
def test_folding_undoes_the_expansion(entry: str) -> None:
    scalar, blocks, values = expanded(entry)
    folded = fold_blocks(scalar, entry, "toy")
    assert folded.n == 20
    np.testing.assert_array_equal(folded.indptr, blocks.indptr)
    np.testing.assert_array_equal(folded.indices, blocks.indices)
    np.testing.assert_array_equal(folded.values, values)
    assert folded.indices.dtype == np.int32
    assert "100.0%" in folded.notes[0]


def test_a_block_that_is_partly_empty_is_filled_with_zeros() -> None:
    dense = np.zeros((6, 6))
    dense[0, 4], dense[5, 5] = 2.0, 3.0
    folded = fold_blocks(sp.csr_array(dense), "block3", "toy")
    assert folded.indices.tolist() == [1, 1]
    assert folded.values[0].tolist() == [0, 2, 0, 0, 0, 0, 0, 0, 0]
    assert folded.values[1].tolist() == [0, 0, 0, 0, 0, 0, 0, 0, 3]


@pytest.mark.parametrize("entry", ["real", "complex", "quaternion", "block3"])
@pytest.mark.parametrize("shape", [(2, 3), (3, 2), (0, 2), (2, 0), (0, 0)])
def test_a_rectangular_or_empty_matrix_is_folded_and_unfolded(entry: str, shape: tuple[int, int]) -> None:
    k, rng = get_entry(entry).size if entry != "complex" else 1, np.random.default_rng(1)
    rows, columns = shape
    values = rng.standard_normal((rows * columns, len(get_entry(entry).members)))
    blocks = get_entry(entry).expand(values).reshape(rows, columns, get_entry(entry).size, get_entry(entry).size)
    if entry == "complex":
        dense = (values[:, 0] + 1j * values[:, 1]).reshape(shape)
    else:
        dense = blocks.transpose(0, 2, 1, 3).reshape(k * rows, k * columns)
    folded = fold_blocks(sp.csr_array(dense), entry, "toy")
    assert (folded.n, folded.columns) == (rows, None if rows == columns else columns)
    np.testing.assert_array_equal(folded.values, values)
    flat = unfold(folded, entry)
    size = get_entry(entry).size
    assert (flat.n, flat.columns) == (size * rows, None if rows == columns else size * columns)
    np.testing.assert_array_equal(flat.values.ravel(), blocks.transpose(0, 2, 1, 3).ravel())


def test_scalars_stay_what_they_are() -> None:
    real = sp.csr_array(np.array([[1.0, 0], [2, 3]]))
    assert fold_blocks(real, "real", "toy").values.tolist() == [[1], [2], [3]]
    complex_ = sp.csr_array(np.array([[1 + 2j, 0], [0, 3j]]))
    folded: Assembled = fold_blocks(complex_, "complex", "toy")
    assert folded.values.tolist() == [[1, 2], [0, 3]]
    assert folded.values.flags.c_contiguous


@pytest.mark.parametrize(("row", "column"), [(0, 0), (2, 1), (3, 3)])
def test_the_first_block_that_is_no_quaternion_is_named(row: int, column: int) -> None:
    scalar, blocks, _ = expanded("quaternion")
    block_row = 7
    block_column = int(blocks.indices[blocks.indptr[block_row]])
    dense = scalar.toarray()
    dense[4 * block_row + row, 4 * block_column + column] *= -1
    with pytest.raises(ReproError, match=f"block row {block_row}, block column {block_column} ") as caught:
        fold_blocks(sp.csr_array(dense), "quaternion", "toy")
    assert "1 of " in str(caught.value.actual)


def test_rounding_is_a_misfit_unless_tolerated() -> None:
    scalar, _, values = expanded("quaternion")
    noisy = scalar.copy()
    noisy.data *= 1 + 4 * EPSILON * np.random.default_rng(2).standard_normal(noisy.nnz)
    with pytest.raises(ReproError, match="not a quaternion matrix"):
        fold_blocks(noisy, "quaternion", "toy")
    np.testing.assert_allclose(fold_blocks(noisy, "quaternion", "toy", tolerance=1e-13).values, values, rtol=1e-13)


@pytest.mark.parametrize(("entry", "size"), [("quaternion", 6), ("block3", 8)])
def test_a_size_that_is_no_multiple(entry: str, size: int) -> None:
    with pytest.raises(ReproError, match=rf"a multiple of {get_entry(entry).size} rows[\s\S]*{size} rows"):
        fold_blocks(sp.csr_array(np.eye(size)), entry, "toy")


@pytest.mark.wording
def test_columns_that_are_no_multiple() -> None:
    with pytest.raises(ReproError, match=r"a multiple of 3 columns[\s\S]*7 columns"):
        fold_blocks(sp.csr_array(np.ones((6, 7))), "block3", "toy")


@pytest.mark.wording
@pytest.mark.parametrize(("dtype", "entry"), [(float, "complex"), (complex, "real"), (complex, "block3")])
def test_values_of_another_kind(dtype: type, entry: str) -> None:
    with pytest.raises(ReproError, match="does not match the entry"):
        fold_blocks(sp.csr_array(np.eye(12, dtype=dtype)), entry, "toy")


def test_the_form_of_a_block_is_spelt_out() -> None:
    with pytest.raises(ReproError) as caught:
        fold_blocks(sp.csr_array(np.arange(16.0).reshape(4, 4)), "quaternion", "toy")
    assert caught.value.expected == "4 x 4 blocks w -x -y -z / x w -z y / y z w -x / z -y x w"


def test_a_matrix_of_ones_is_a_pattern_and_no_other() -> None:
    matrix = sp.csr_array(np.array([[1.0, 0, 1], [0, 1, 0], [0, 1, 1]]))
    folded = fold_blocks(matrix, "pattern", "toy")
    assert folded.values.shape == (5, 0)
    np.testing.assert_array_equal(folded.indices, matrix.indices)
    matrix.data[3] = 2.5
    with pytest.raises(ReproError, match=r"the matrix is not a pattern[\s\S]*1 of 5 values differ, the first is 2.5"):
        fold_blocks(matrix, "pattern", "toy")
