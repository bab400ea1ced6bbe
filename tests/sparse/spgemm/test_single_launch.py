"""Whole products in one launch by a GPU's emulator, compared with SciPy's, and the memory that they take."""

import ctypes
import re
import subprocess

import numpy as np
import pytest
import scipy.sparse as sp

from repro.codegen.targets import TARGETS, get_target
from repro.sparse.spgemm import arena, one_launch
from repro.sparse.spgemm.binned_rows import Factors
from repro.sparse.spgemm.kernels import SINGLE_TABLES, single_shape, single_shapes
from repro.sparse.spgemm.multiplication import Multiplication
from repro.sparse.spgemm.one_launch import SingleLaunch, Sizes, factor_sizes
from support.emulated_cuda import EmulatedCuda, needs_compiler
from support.matrices import PROBLEMS, assert_product, of_sizes, poisson, random
from support.sparse_modules import by_precision, loader

pytestmark = needs_compiler


@pytest.fixture(scope="module")
def device():
    return EmulatedCuda()


@pytest.fixture(scope="module")
def load(device, templates, built_folder):
    return by_precision(loader(device, templates, built_folder / "sparse"))


@pytest.fixture
def launches(device):
    made = {np.dtype(dtype): SingleLaunch(device, np.dtype(dtype)) for dtype in (np.float32, np.float64)}
    yield made
    for one in made.values():
        one.release()


@pytest.fixture
def multiply(load, launches, on_device):
    """Multiply in one launch; the product is None where that does not do it."""

    def run(a, b, dtype=np.float64):
        precision = "single" if dtype == np.float32 else "double"
        factors = Factors(*(on_device(sp.csr_array(matrix, dtype=dtype), dtype) for matrix in (a, b)))
        return launches[np.dtype(dtype)].multiply(load(precision), factors)

    return run


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", PROBLEMS)
def test_matrices_of_stencils(multiply, name, dtype):
    a = sp.csr_array(poisson(*PROBLEMS[name]), dtype=dtype)
    for _ in range(2):
        c = multiply(a, a, dtype)
        assert_product(c, a, a, dtype)
        pattern = abs(a) @ abs(a)
        assert (c.entries, c.longest) == (pattern.nnz, np.diff(pattern.indptr).max())
        assert c.entries <= c.capacity == c.report().pointer
        c.release()


@pytest.mark.parametrize("density", [0.1, 0.7])
def test_few_and_long_rows(multiply, density):
    a = sp.csr_array(np.random.default_rng(1).random((40, 200)))
    b = random(200, 30, density, 2)
    assert_product(multiply(a, b), a, b)


def test_several_entries_of_a_row_in_flight(multiply, device):
    a, b = sp.csr_array(np.random.default_rng(1).random((9, 200))), random(200, 320, 0.07, 2)
    resident = device.sm_count * device.target.threads_per_sm
    assert single_shape(device.target, 8, 320, 9, 200, b.nnz / 200, resident).in_flight > 1
    assert_product(multiply(a, b), a, b)


def test_rows_that_differ_but_are_short(multiply):
    skewed = sp.csr_array(sp.vstack([random(200, 200, 0.01), np.ones((1, 200))]))
    assert_product(multiply(skewed, skewed[:200]), skewed, skewed[:200])


def test_empty_rows(multiply):
    a = sp.csr_array(sp.vstack([sp.csr_array((3, 40)), random(60, 40, 0.1), sp.csr_array((5, 40))]))
    b = random(40, 50, 0.1, 2)
    assert_product(multiply(a, b), a, b)


def test_the_same_each_time_bit_for_bit(multiply):
    a, b = random(90, 60, 0.3), random(60, 60, 0.3, 2)
    results = set()
    for _ in range(5):
        rows = multiply(a, b).download().to_csr()
        rows.sort_indices()
        results.add(rows.data.tobytes())
    assert len(results) == 1


ORDERED = """
#define INLINE static inline
#define IN_SHARED
{slots}
extern "C" void places(int* keys, int size, int table, int* result)
{{
    for (int slot = 0, before = 0; slot < table; slot++)
        if (keys[slot] >= 0)
            result[slot] = place_in_row(keys, slot, before++, size, table);
}}
"""


def insert(columns, homes, table):
    """Return a hash table by linear probing, with columns inserted in the given order."""
    keys = np.full(table, -1, np.int32)
    for column in columns:
        slot = homes[column]
        while keys[slot] >= 0:
            slot = (slot + 1) % table
        keys[slot] = column
    return keys


def test_the_place_of_a_column_does_not_depend_on_who_came_first(templates, tmp_path):
    source = ORDERED.format(slots=re.sub(r"(?s)\{#.*?#\}", "", (templates / "sparse/spgemm/slots.j2").read_text()))
    (tmp_path / "slots.cpp").write_text(source)
    subprocess.run(["c++", "-shared", "-fPIC", "-o", tmp_path / "slots.so", tmp_path / "slots.cpp"], check=True)
    places = ctypes.CDLL(str(tmp_path / "slots.so")).places
    pointer = ctypes.POINTER(ctypes.c_int)
    random_of, over_the_end = np.random.default_rng(1), 0
    for _ in range(300):
        table = int(random_of.integers(2, 40))
        size = int(random_of.integers(1, table + 1))
        columns = random_of.permutation(100)[:size]
        # homes near the end, so that runs go over it
        homes = dict(zip(columns.tolist(), random_of.integers(table // 2, table, size).tolist(), strict=True))
        rows = []
        for order in (columns, columns[::-1], np.sort(columns)):
            keys, result = insert(order.tolist(), homes, table), np.full(table, -1, np.int32)
            over_the_end += bool(keys[0] >= 0 and keys[-1] >= 0)
            places(keys.ctypes.data_as(pointer), size, table, result.ctypes.data_as(pointer))
            taken = keys >= 0
            assert sorted(result[taken]) == list(range(size))
            row = np.empty(size, np.int32)
            row[result[taken]] = keys[taken]
            rows.append(row.tolist())
        assert rows[0] == rows[1] == rows[2]
    assert over_the_end > 100


def test_a_table_that_is_too_small_is_found_out_and_remembered(multiply, launches, monkeypatch):
    a, b = random(90, 60, 0.3), random(60, 100, 0.1, 2)
    monkeypatch.setattr(Sizes, "entries_of_row", 10)
    launched = []
    ours = launches[np.dtype(np.float64)]
    run = ours._run
    monkeypatch.setattr(ours, "_run", lambda *given: (launched.append(given[2].shape.table), run(*given))[1])
    c = multiply(a, b)
    assert_product(c, a, b)
    assert launched[0] < c.longest
    tries = len(launched)
    assert 2 <= tries <= 5
    assert_product(multiply(a, b), a, b)
    assert len(launched) == tries + 1
    assert 7 * launched[-1] >= 8 * c.longest


def test_what_one_launch_does_not_do(multiply, device, launches, monkeypatch):
    skewed = sp.csr_array(sp.vstack([random(200, 200, 0.01), np.ones((1, 200))]))
    with monkeypatch.context() as no_row_is_short:
        no_row_is_short.setattr(one_launch, "SHORT_PRODUCTS", 0)
        assert multiply(skewed, skewed[:200]) is None
    long = of_sizes([1500] * 4, 3000)
    assert multiply(sp.eye_array(4), long) is None
    assert multiply(sp.csr_array((0, 3)), sp.csr_array((3, 4))) is None
    a = poisson(*PROBLEMS["5"])
    monkeypatch.setattr(one_launch, "MAX_ENTRIES", 1000)
    assert multiply(a, a) is None


def test_a_buffer_that_is_too_small_ends_in_another_way(multiply, launches, on_device, monkeypatch):
    a = poisson(*PROBLEMS["5"])
    monkeypatch.setattr(Sizes, "products", 2)  # which bounds the entries of a row
    assert multiply(a, a) is None
    assert launches[np.dtype(np.float64)].configuration(factor_sizes(Factors(on_device(a), on_device(a)))) is None


def test_a_product_goes_on_in_another_way(load, on_device, device, monkeypatch):
    products = Multiplication(device, load("double"), np.float64)
    a, b = random(50, 60, 0.1), random(60, 40, 0.2, 2)
    factors = Factors(on_device(a), on_device(b))
    for c in (products.multiply_in_one_launch(factors), products.multiply(factors)):
        assert c.lease is not None
        assert_product(c, a, b)
        d = products.multiply(Factors(on_device(random(9, 50, 0.2, 3)), c))
        assert_product(d, random(9, 50, 0.2, 3), c.download().to_csr())
    monkeypatch.setattr(one_launch, "SHORT_PRODUCTS", 0)
    skewed = sp.csr_array(sp.vstack([random(200, 200, 0.01), np.ones((1, 200))]))
    factors = Factors(on_device(skewed), on_device(skewed[:200]))
    assert products.multiply_in_one_launch(factors) is None
    c = products.multiply(factors)
    assert_product(c, skewed, skewed[:200])


def test_sizes_are_known_of_what_was_uploaded(on_device):
    a, b = random(50, 60, 0.1), random(60, 40, 0.2, 2)
    factors = Factors(on_device(a), on_device(b))
    assert factor_sizes(factors) == (50, a.nnz, np.diff(a.indptr).max(), 60, b.nnz, np.diff(b.indptr).max(), 40)
    assert factor_sizes(Factors(factors.a, factors.b, "chain")) is None
    factors.a.longest = None
    assert factor_sizes(factors) is None


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [pytest.param(np.float32, marks=pytest.mark.exhaustive), np.float64])
def test_every_shape(multiply, launches, device, monkeypatch, dtype):
    ours = launches[np.dtype(dtype)]
    for shape in single_shapes(device.target, dtype().itemsize):
        print(shape)  # what would hang on a GPU ends the process of its emulator
        sizes = [shape.table, shape.table - 1, shape.table // 2, 3, 1, 7, 9, 2] * 3
        b = sp.csr_array(of_sizes(sizes, shape.table), dtype=dtype)
        a = sp.csr_array(sp.vstack([random(9, 24, 0.3), sp.csr_array((2, 24)), random(30, 24, 0.9, 2)]), dtype=dtype)
        monkeypatch.setattr(ours, "_shape", lambda *given, shape=shape: shape)
        ours._configurations.clear()
        assert_product(multiply(a, b, dtype), a, b, dtype)


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.dialect == "cuda"])
def test_shapes_of_whole_warps_that_fit(name):
    target = get_target(name)
    for scalar_bytes in (4, 8):
        shapes = single_shapes(target, scalar_bytes)
        tables = {shape.table for shape in shapes}
        assert tables <= set(SINGLE_TABLES)
        assert tables == set(SINGLE_TABLES) or name != "sm_90"
        for shape in shapes:
            assert shape.threads % 32 == 0
            assert shape.warps == 1 or shape.table % shape.threads == 0  # each warp stores as many slots
            assert shape.blocks_per_sm * (shape.shared_bytes(scalar_bytes) + 64) <= target.shared_bytes
        # where blocks have rows, bins do not take over much earlier than where warps have them
        of_blocks = max((shape.table for shape in shapes if shape.warps > 1), default=0)
        assert of_blocks >= 0.5 * max(shape.table for shape in shapes if shape.warps == 1 and shape.groups > 1)


@pytest.mark.parametrize(
    ("entries", "of_a", "of_b", "rows", "wanted"),
    [
        (13, 5, 5, 10**6, (16, 4, 1)),
        (125, 27, 27, 10**6, (192, 16, 1)),
        (27, 113, 12, 10**5, (64, 8, 4)),
        (27, 100, 12, 5000, (64, 8, 4)),
        (1146, 164, 27, 2391, (1536, 32, 8)),
    ],
)
def test_the_shape_of_a_product(entries, of_a, of_b, rows, wanted):
    shape = single_shape(get_target("sm_90"), 8, entries, rows, of_a, of_b, 132 * 2048)
    assert (shape.table, shape.lanes, shape.groups) == wanted


def test_configurations_that_are_asked_for_again_outlast_others(launches, monkeypatch):
    monkeypatch.setattr(one_launch, "REMEMBERED", 3)
    ours = launches[np.dtype(np.float64)]
    guessed = []
    monkeypatch.setattr(ours, "_estimate_configuration", lambda sizes: guessed.append(sizes.rows))
    for rows in (1, 2, 3, 1, 4, 1, 2):
        ours.configuration(Sizes(rows, rows, 1, rows, rows, 1, rows))
    assert guessed == [1, 2, 3, 4, 2]


def test_the_memory_of_rows_is_taken_over(multiply, launches, monkeypatch):
    a = poisson(*PROBLEMS["5"])
    first = multiply(a, a)
    table = first.table.pointer
    second = multiply(a, a)
    assert second.table.pointer != table
    first.release()
    third = multiply(a, a)
    assert third.table.pointer == table
    assert_product(second, a, a)
    assert_product(third, a, a)
    monkeypatch.setattr(arena, "SHELVED_BYTES", 0)
    for product in (second, third):
        product.release()
    assert not launches[np.dtype(np.float64)].row_arrays._released


def test_only_the_rest_of_a_row_is_left_unused(multiply, device, monkeypatch):
    # a warp takes 133 entries at once, and its eight rows have up to 104: were these kept together, 29 would be left
    monkeypatch.setattr(device, "sm_count", 1)
    a = poisson((80, 80), 5)
    c = multiply(a, a)
    assert c.capacity < 1.15 * c.entries
    assert_product(c, a, a)
