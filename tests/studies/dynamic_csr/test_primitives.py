"""Sums and sorts on the CPU's device against NumPy's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.codegen.build_cache import compile_module
from repro.codegen.targets import CPU, get_target
from repro.errors import IncorrectError, ReproError
from repro.sparse.device_primitives import FEW_TILES, SORT_BLOCK_SIZE, SORT_ITEMS, RadixSort, Scan, bit_count
from repro.sparse.device_primitives import SCAN_ITEMS as SUMMED
from repro.sparse.elementwise import BLOCK_SIZE
from repro.studies.dynamic_csr.kernels import render_key
from repro.studies.dynamic_csr.runnables_baselines import check_sort

TILE = SORT_BLOCK_SIZE["opencl"] * SORT_ITEMS["opencl"]
CAPACITY = 5 * TILE + 7
MOST = 1_000_000
FEW = FEW_TILES * SUMMED * BLOCK_SIZE["opencl"]
sizes = st.one_of(
    st.integers(0, 40), st.sampled_from([t * TILE + o for t in (1, 2, 4) for o in (-1, 0, 1)]), st.just(CAPACITY)
)


@pytest.fixture(scope="module")
def program(tmp_path_factory, templates, cpu_device):
    """The module of the primitives."""
    folder = tmp_path_factory.mktemp("primitives")
    module = compile_module(render_key(templates, "single/sort", CPU), CPU, folder / "sort.json")
    return cpu_device.load(folder / module.binary)


@pytest.fixture(scope="module")
def scan(program, cpu_device):
    scan = Scan(cpu_device, program, MOST)
    yield scan
    scan.release()


@pytest.fixture(scope="module")
def radix_sort(program, cpu_device):
    radix_sort = RadixSort(cpu_device, program, CAPACITY)
    yield radix_sort
    radix_sort.release()


@pytest.fixture(scope="module")
def sorted_by(cpu_device, radix_sort):
    """Sort keys on the device; return the keys and their order."""

    def sort(keys, bits):
        given = cpu_device.upload(keys)
        bound = radix_sort.bind(given, len(keys), bits)
        bound.launch()
        after = np.empty_like(keys)
        cpu_device.download(given, after)
        np.testing.assert_array_equal(after, keys)
        given.release()
        return _of(cpu_device, bound.keys, len(keys), keys.dtype), _of(cpu_device, bound.order, len(keys))

    return sort


def _of(device, buffer, count, dtype=np.int32):
    numbers = np.empty(count, dtype)
    device.download(buffer, numbers)
    return numbers


def _keys(n, bits, seed, distinct):
    """Draw keys of so many bits, of which so many are distinct at most."""
    random = np.random.default_rng(seed)
    drawn = random.integers(0, 1 << bits, max(distinct, 1), dtype=np.uint64)
    return random.choice(drawn, n).astype(np.uint32)


@pytest.mark.parametrize("n", [0, 1, 63, 64, FEW - 1, FEW, FEW + 1, 4 * FEW, 123_457, MOST])
def test_sums_are_those_before(cpu_device, scan, n):
    counts = np.random.default_rng(n).integers(0, 2000, n).astype(np.int32)
    before = cpu_device.upload(counts)
    sums = cpu_device.allocate(4 * (n + 1))
    scan.bind(before, sums, n)()
    expected = np.concatenate([[0], np.cumsum(counts)])
    np.testing.assert_array_equal(_of(cpu_device, sums, n + 1), expected)
    np.testing.assert_array_equal(_of(cpu_device, before, n), counts)
    # where the numbers were
    in_place = cpu_device.upload(np.append(counts, np.int32(77)))
    scan.bind(in_place, in_place, n)()
    np.testing.assert_array_equal(_of(cpu_device, in_place, n + 1), expected)
    for buffer in (before, sums, in_place):
        buffer.release()


@settings(max_examples=40, deadline=None)
@given(n=sizes, bits=st.integers(0, 32), seed=st.integers(0, 9), distinct=st.sampled_from([1, 2, 50, CAPACITY]))
def test_the_order_is_stable_and_the_input_stays(sorted_by, n, bits, seed, distinct):
    keys = _keys(n, bits, seed, distinct)
    in_order, order = sorted_by(keys, bits)
    expected = np.argsort(keys, kind="stable")
    np.testing.assert_array_equal(order, expected)
    np.testing.assert_array_equal(in_order, keys[expected])


@settings(max_examples=25, deadline=None)
@given(n=sizes, rows=st.integers(1, 1 << 20), columns=st.integers(1, 1 << 31), seed=st.integers(0, 9))
def test_by_column_and_then_by_row(cpu_device, radix_sort, n, rows, columns, seed):
    random = np.random.default_rng(seed)
    row, column = (random.integers(0, count, n).astype(np.int32) for count in (rows, columns))
    buffers = cpu_device.upload(row), cpu_device.upload(column)
    by_column = radix_sort.bind(buffers[1], n, bit_count(columns))
    by_row = radix_sort.bind(buffers[0], n, bit_count(rows), by_column.order)
    for _ in range(2):  # the order that the first left is overwritten, and made again
        by_column.launch()
        by_row.launch()
        expected = np.lexsort((column, row))
        np.testing.assert_array_equal(_of(cpu_device, by_row.order, n), expected)
        np.testing.assert_array_equal(_of(cpu_device, by_row.keys, n), row[expected])
    for buffer in buffers:
        buffer.release()


def test_an_order_of_the_callers_stays(cpu_device, radix_sort):
    n = TILE + 3
    keys, order = _keys(n, 9, 1, n), np.random.default_rng(2).permutation(n).astype(np.int32)
    buffers = cpu_device.upload(keys), cpu_device.upload(order)
    bound = radix_sort.bind(buffers[0], n, 9, buffers[1])
    bound.launch()
    np.testing.assert_array_equal(_of(cpu_device, bound.order, n), order[np.argsort(keys[order], kind="stable")])
    np.testing.assert_array_equal(_of(cpu_device, buffers[1], n), order)
    np.testing.assert_array_equal(_of(cpu_device, buffers[0], n, np.uint32), keys)


def test_bits_above_those_that_count_are_not_looked_at(sorted_by):
    keys = _keys(1000, 20, 1, 1000)
    np.testing.assert_array_equal(sorted_by(keys, 5)[1], np.argsort(keys & 31, kind="stable"))


def test_fewer_keys_than_there_is_memory_for_may_have_more_runs(cpu_device, program):
    """With one tile more than there are runs, each run has two tiles."""
    runs = RadixSort(cpu_device, program, 1)._most
    larger = RadixSort(cpu_device, program, (runs + 1) * TILE)
    keys = _keys(runs * TILE, 10, 1, 5000)
    uploaded = cpu_device.upload(keys)
    bound = larger.bind(uploaded, len(keys), 10)
    bound.launch()
    np.testing.assert_array_equal(_of(cpu_device, bound.order, len(keys)), np.argsort(keys, kind="stable"))
    larger.release()
    larger.release()


def test_what_is_too_much_is_refused(cpu_device, radix_sort, scan):
    buffer = cpu_device.allocate(4)
    with pytest.raises(ReproError, match="too many keys"):
        radix_sort.bind(buffer, CAPACITY + 1, 8)
    with pytest.raises(ReproError, match="number of key bits"):
        radix_sort.bind(buffer, 1, 33)
    with pytest.raises(ReproError, match="too many numbers"):
        scan.bind(buffer, buffer, MOST + 1)


@pytest.mark.parametrize(("count", "bits"), [(0, 0), (1, 0), (2, 1), (256, 8), (257, 9)])
def test_bits_of_numbers(count, bits):
    assert bit_count(count) == bits


@pytest.mark.parametrize("name", ["sm_50", "sm_90"])
def test_both_dialects_have_the_tile_that_python_has(templates, name):
    source = render_key(templates, "single/sort", get_target(name))
    assert f"sorted[{SORT_BLOCK_SIZE['cuda'] * SORT_ITEMS['cuda']}]" in source
    assert f"KERNEL({SORT_BLOCK_SIZE['cuda']}, 4) sort_scatter" in source
    assert f"sorted[{TILE}]" in render_key(templates, "single/sort", CPU)


def test_a_sort_is_checked_by_what_it_is():
    keys = np.array([5, 1, 5, 1, 0], np.int32)
    order = np.argsort(keys, kind="stable").astype(np.int32)
    check_sort(keys, keys[order], order)
    check_sort(keys[:0], keys[:0], order[:0])
    swapped, twice, outside = order.copy(), order.copy(), order.copy()
    swapped[[1, 2]] = swapped[[2, 1]]
    twice[2] = twice[1]
    outside[0] = 5
    for wrong in (swapped, twice, outside, -1 - order):
        with pytest.raises(IncorrectError, match="keys or places are wrong"):
            check_sort(keys, keys[order], wrong)
    with pytest.raises(IncorrectError, match="keys or places are wrong"):
        check_sort(keys, keys, np.arange(5, dtype=np.int32))
    with pytest.raises(IncorrectError, match="1 keys or places are wrong"):
        check_sort(keys, np.array([0, 1, 1, 5, 6], np.int32), order)
