"""Operands at the edges of what products are for: each is named, and compared with SciPy's product or refused."""

from contextlib import ExitStack

import numpy as np
import pytest
import scipy.sparse as sp

from repro.devices.base import PART_ALIGNMENT, OutOfDeviceMemory
from repro.errors import ReproError
from repro.sparse.dynamic.host_layout import lay_out
from repro.sparse.dynamic.storage import Storage
from repro.sparse.spgemm.binned_rows import ProductBins
from repro.sparse.spgemm.kernels import BINS, LIMITS, BinWord
from repro.sparse.spgemm.multiplication import CoordinateMultiplication, Factors
from support.matrices import assert_product, doubled, fragmented, of_sizes, random

pytestmark = pytest.mark.medium


def unsorted(matrix):
    """Return a matrix whose rows have their columns in descending order."""
    order = np.concatenate(
        [np.arange(*ends)[::-1] for ends in np.column_stack([matrix.indptr[:-1], matrix.indptr[1:]])]
    )
    return sp.csr_array((matrix.data[order], matrix.indices[order], matrix.indptr), matrix.shape)


def with_empty_rows(matrix):
    return sp.csr_array(sp.diags_array((np.arange(matrix.shape[0]) % 3 > 0).astype(float)) @ matrix)


SQUARE = random(30, 30, 0.3)
EXACT = {
    "A without rows": (sp.csr_array((0, 5)), sp.csr_array((5, 4))),
    "A and B without entries": (sp.csr_array((3, 5)), sp.csr_array((5, 4))),
    "A without columns": (sp.csr_array((3, 0)), sp.csr_array((0, 4))),
    "A without entries": (sp.csr_array((30, 30)), SQUARE),
    "B without entries": (SQUARE, sp.csr_array((30, 30))),
    "B without columns": (sp.csr_array(np.eye(3)), sp.csr_array((3, 0))),
    "empty rows of A": (with_empty_rows(SQUARE), SQUARE),
    "empty rows of B": (SQUARE, with_empty_rows(SQUARE)),
    "identity": (sp.csr_array(np.eye(30)), SQUARE),
    "diagonal": (SQUARE, sp.csr_array(np.diag(np.arange(1.0, 31)))),
    "permutation": (sp.csr_array(np.eye(30)[::-1]), SQUARE),
    "a dense row times dense columns": (sp.csr_array(np.ones((1, 200))), sp.csr_array(np.ones((200, 3)))),
    "a dense column times a dense row": (sp.csr_array(np.ones((40, 1))), sp.csr_array(np.ones((1, 40)))),
    "a row of more than 16k products": (sp.csr_array(np.ones((2, 9))), of_sizes([2000] * 9, 2100)),
    "all products in one column": (random(20, 60, 0.5), sp.csr_array(np.arange(1.0, 61)[:, None])),
    "unsorted rows": (unsorted(SQUARE), unsorted(random(30, 40, 0.3, 2))),
}


@pytest.mark.parametrize("phases", ["one", "two"])
@pytest.mark.parametrize("name", EXACT)
def test_edges(multiplication, on_device, phases, name):
    a, b = EXACT[name]
    factors = Factors(on_device(a), on_device(b))
    products = multiplication()
    c = products.multiply_in_one_phase(factors) if phases == "one" else products.multiply_in_two_phases(factors)
    assert_product(c, a, b)


@pytest.mark.slow
@pytest.mark.parametrize("products", [limit + more for limit in LIMITS for more in (0, 1)])
def test_a_row_of_so_many_products(multiplication, on_device, products):
    # each column is met four times, but for the first ones, which are met once more
    columns = products // 4
    rows = [columns] * 4 + [products - 4 * columns]
    b = sp.csr_array(np.arange(columns) < np.array(rows)[:, None], dtype=float)
    a = sp.csr_array(np.arange(1.0, 6)[None])
    assert b.nnz == products
    stored = Factors(on_device(a), on_device(b))
    for c in (multiplication().multiply_in_one_phase(stored), multiplication().multiply_in_two_phases(stored)):
        assert_product(c, a, b)


def test_inner_dimensions_that_disagree(on_device):
    with pytest.raises(ReproError, match="cannot be multiplied"):
        Factors(on_device(random(4, 5, 0.5)), on_device(random(4, 5, 0.5)))


def test_operands_in_two_precisions(on_device):
    with pytest.raises(ReproError, match="different precisions"):
        Factors(on_device(random(4, 4, 0.5)), on_device(random(4, 4, 0.5), np.float32))


def test_what_cancels_stays_an_entry(multiplication, on_device):
    a, b = sp.csr_array([[1.0, 1.0]]), sp.csr_array([[1.0, 2.0], [-1.0, 3.0]])
    c = multiplication().multiply_in_one_phase(Factors(on_device(a), on_device(b))).download().to_csr()
    c.sort_indices()
    assert c.nnz == 2 and c.data.tolist() == [0.0, 5.0]


def test_columns_twice_in_a_row_of_b(multiplication, device):
    a, b = random(50, 40, 0.2), random(40, 90, 0.3)
    stored = [Storage.upload(device, lay_out(matrix, 1)) for matrix in (a, doubled(b))]
    assert_product(multiplication().multiply_in_two_phases(Factors(*stored, "chain")), a, sp.csr_array(2 * b))


def test_operands_in_several_segments(multiplication, device):
    a, b = random(50, 40, 0.2), random(40, 90, 0.3)
    stored = [Storage.upload(device, fragmented(matrix, 3)) for matrix in (a, b)]
    assert (fragmented(a, 3).fragments > 1).any()
    assert_product(multiplication().multiply_in_one_phase(Factors(*stored, "chain")), a, b)


def test_rectangular_matrices_one_after_the_other(multiplication, on_device):
    a, b, c = random(20, 70, 0.2), random(70, 40, 0.2, 2), random(40, 15, 0.3, 3)
    products = multiplication()
    ab = products.multiply_in_one_phase(Factors(on_device(a), on_device(b)))
    abc = products.multiply_in_one_phase(Factors(ab, on_device(c))).download().to_csr()
    assert abc.shape == (20, 15)
    assert abs(abc - a @ b @ c).max() <= 1e-13 * (a @ b @ c).max()


@pytest.mark.parametrize("phases", ["one", "two"])
def test_nan_inf_and_minus_zero(multiplication, on_device, phases):
    # a sum starts at 0, to which -0 is added
    a, b = sp.csr_array([[1.0, 2.0], [0.0, 3.0]]), sp.csr_array([[np.nan, 1.0], [np.inf, -0.0]])
    factors, products = Factors(on_device(a), on_device(b)), multiplication()
    c = products.multiply_in_one_phase(factors) if phases == "one" else products.multiply_in_two_phases(factors)
    dense = c.download().to_csr().toarray()
    np.testing.assert_array_equal(dense, [[np.nan, 1.0], [np.inf, 0.0]])
    assert not np.signbit(dense[1, 1])


@pytest.mark.parametrize("precision", ["single", "double"])
def test_denormals(multiplication, on_device, precision):
    dtype, small = (np.float32, 1e-20) if precision == "single" else (np.float64, 1e-157)
    a, b = sp.csr_array(small * np.eye(3), dtype=dtype), sp.csr_array(small * np.diag([1.0, 2.0, 3.0]), dtype=dtype)
    stored = Factors(on_device(a, dtype), on_device(b, dtype))
    c = multiplication(precision).multiply_in_one_phase(stored).download().to_csr()
    expected = (a @ b).diagonal()
    assert (expected > 0).all() and (expected < np.finfo(dtype).tiny).all()
    np.testing.assert_array_equal(c.diagonal(), expected)


def test_a_matrix_by_itself(multiplication, on_device):
    a = random(50, 50, 0.1)
    stored = on_device(a)
    for c in (
        multiplication().multiply_in_one_phase(Factors(stored, stored)),
        multiplication().multiply_in_two_phases(Factors(stored, stored)),
    ):
        assert_product(c, a, a)
    np.testing.assert_array_equal(stored.download().to_csr().data, a.data)


# rows of A, entries of each, entries of the one row of B that they all meet: more products than 31 bits count
MANY = {"in all": (1 << 16, 1), "of one row": (1, 1 << 16), "of each of two rows": (2, 1 << 16)}


@pytest.mark.parametrize("name", MANY)
def test_more_than_two_to_the_31_products_are_counted(device, load, name):
    rows, entries = MANY[name]
    width = 1 << 16
    a = sp.csr_array((np.ones(rows * entries), np.zeros(rows * entries, int), entries * np.arange(rows + 1)), (rows, 1))
    b = sp.csr_array(np.ones((1, width)))
    first, second = (Storage.upload(device, lay_out(matrix, 1)) for matrix in (a, b))
    c = Storage.empty(device, (rows, width), 1, 1, np.dtype(np.float64))
    bins = ProductBins(device, load("double")("count-chain"), rows)
    bins.bin_by_products(first, second, c)
    counts = bins.read()
    assert counts.rows[-1] == rows and sum(counts.rows) == rows
    # a row's own products are counted up to 2^31 - 1: it has the last bin anyway, and no more entries than columns
    assert counts.totals[-1] == rows * min(entries * width, (1 << 31) - 1)
    if entries > 1:
        with pytest.raises(ReproError, match="too many entries for a matrix"):
            CoordinateMultiplication(device, load("double")).multiply(Factors(first, second, "chain"))
    for thing in (first, second, c, bins):
        thing.release()


def test_totals_go_on_where_the_lower_word_comes_around(device, load, monkeypatch):
    n, begun = 5000, 3
    with ExitStack() as held:
        bins = ProductBins(device, load("double")("count-exact"), n)
        held.callback(bins.release)
        c = Storage.empty(device, (n, 10), 1, 1, np.dtype(np.float64))
        held.callback(c.release)
        sizes = device.upload(np.full(n, 1_000_003, np.int32))
        held.callback(sizes.release)
        words = np.zeros(bins.counts.nbytes // 4, np.int32)
        of_bins = words[PART_ALIGNMENT // 4 :][: len(BinWord) * BINS].reshape(BINS, len(BinWord))
        # as after blocks of more than two billions of rows' lower halves
        of_bins[:, BinWord.TOTAL_HIGH], of_bins[:, BinWord.TOTAL_LOW] = begun, -1000
        monkeypatch.setattr(device, "fill", lambda buffer, value: device.write(buffer, words))
        bins.bin_by_sizes(c, sizes)
        before = (begun << 16) + (1 << 32) - 1000
        assert bins.read().totals == (*[before] * (BINS - 1), before + n * 1_000_003)


@pytest.mark.parametrize("phases", ["one", "two"])
def test_a_product_larger_than_the_memory(multiplication, on_device, device, monkeypatch, phases):
    a, b = sp.csr_array(np.ones((300, 1))), sp.csr_array(np.ones((1, 300)))
    factors, products, held, allocate = Factors(on_device(a), on_device(b)), multiplication(), [], device.allocate

    def limited(nbytes):
        if nbytes >= 4 * 300 * 300:
            raise OutOfDeviceMemory("there is no such room")
        buffer = allocate(nbytes)
        release = buffer.release
        held.append(buffer)
        monkeypatch.setattr(buffer, "release", lambda: (held.remove(buffer) if buffer in held else None, release())[1])
        return buffer

    monkeypatch.setattr(device, "allocate", limited)
    with pytest.raises(OutOfDeviceMemory, match="no such room"):
        products.multiply_in_one_phase(factors) if phases == "one" else products.multiply_in_two_phases(factors)
    assert not held
    monkeypatch.undo()
    assert_product(products.multiply_in_two_phases(factors), a, b)
