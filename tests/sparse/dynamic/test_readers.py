"""Products while the matrix is changed: every row as before a change or as after it, on a second queue of the CPU."""

import numpy as np
import pytest
import scipy.sparse as sp

from repro.codegen.build_cache import compile_module
from repro.codegen.targets import CPU
from repro.errors import ReproError
from repro.sparse.dynamic import host_layout
from repro.sparse.dynamic.kernels import render_module
from repro.sparse.dynamic.matrix import ConcurrentReader, DynamicMatrix
from repro.sparse.dynamic.schedules import row_widths
from support.concurrent_readers import Readers, Rows, appending, replacing, sums_of_swapping, swapping, without_check

pytestmark = pytest.mark.medium

#: Rows that a thread changes by itself, and rows that a block changes together.
SHORT, LONG = Rows(200, 24), Rows(6, 700)
#: How long sound readers are watched; and how long the others have to be caught, which takes them a tenth of a second.
SECONDS, PATIENCE = 1.5, 30


@pytest.fixture(scope="session")
def device(cpu_device):
    """The CPU through OpenCL alone: other queues and other modules are of it."""
    return cpu_device


@pytest.fixture(scope="module")
def careless(tmp_path_factory, templates, cpu_device):
    """The module without its look at versions."""
    folder = tmp_path_factory.mktemp("careless")
    module = compile_module(
        without_check(render_module(templates, "double/reader", CPU, "tests")), CPU, folder / "reader.json"
    )
    return cpu_device.load(folder / module.binary)


@pytest.fixture
def reader(load_module):
    """The module as it is."""
    return load_module("double/reader")


@pytest.mark.parametrize("width", row_widths(CPU))
@pytest.mark.parametrize("precision", ["single", "double"])
def test_a_matrix_at_rest_is_multiplied(load_module, on_cpu, make_batch, cpu_device, precision, width):
    dtype = {"single": np.float32, "double": np.float64}[precision]
    random = np.random.default_rng(2)
    base = sp.random_array((71, 50), density=0.1, rng=random, format="csr", dtype=dtype)
    matrix = on_cpu(host_layout.lay_out(base, 3))
    rows, columns = random.integers(0, 71, 300), random.integers(0, 50, 300)
    values = random.integers(-8, 8, 300).astype(dtype)
    matrix.insert(make_batch(rows, columns, values, dtype=dtype))
    x = random.uniform(-1, 1, 50).astype(dtype)
    y = cpu_device.upload(np.full(71, np.nan, dtype))
    queue = cpu_device.new_queue()
    ConcurrentReader(queue, load_module(f"{precision}/reader"), width, matrix).multiply(cpu_device.upload(x), y)
    result = np.empty(71, dtype)
    queue.download(y, result)
    np.testing.assert_allclose(result, matrix.to_csr() @ x, rtol=0, atol=1e-4 if precision == "single" else 1e-12)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("width", [1, 16])
@pytest.mark.parametrize("rows", [SHORT, LONG], ids=["short", "long"])
def test_values_of_a_row_change_together(reader, careless, on_cpu, make_batch, cpu_device, rows, width):
    def legal(sums):
        return sums % rows.length == 0

    def race(program, seconds):
        matrix = on_cpu(host_layout.lay_out(rows.matrix(np.ones(rows.length))))
        return Readers(cpu_device, program, matrix, width, legal).run(replacing(matrix, rows, make_batch), seconds)

    sound = race(reader, SECONDS)
    assert not sound.errors
    assert not sound.torn
    assert len(sound.seen) > 2  # it was changed meanwhile
    assert race(careless, PATIENCE).torn  # rows are seen half changed by who does not look


@pytest.mark.sampled(2)
@pytest.mark.parametrize("width", [1, 16])
@pytest.mark.parametrize("rows", [SHORT, LONG], ids=["short", "long"])
def test_entries_go_and_come_together(reader, careless, on_cpu, make_batch, cpu_device, rows, width):
    def race(program, seconds):
        matrix = on_cpu(host_layout.lay_out(rows.matrix(rows.weights), capacity=8 * rows.rows * rows.length))
        legal = sums_of_swapping(rows)
        readers = Readers(cpu_device, program, matrix, width, lambda sums: np.isin(sums, legal))
        return readers.run(swapping(matrix, rows, make_batch), seconds)

    sound = race(reader, SECONDS)
    assert not sound.errors
    assert not sound.torn
    assert len(sound.seen) == 3
    assert race(careless, PATIENCE).torn


@pytest.mark.parametrize("width", [1, 16])
def test_what_is_appended_is_seen_at_once_or_not(reader, on_cpu, make_batch, cpu_device, width):
    """Without a look at versions too: the size alone says how much of a row there is."""
    matrix = on_cpu(host_layout.lay_out(SHORT.matrix(np.ones(SHORT.length)), segments=3))
    readers = Readers(cpu_device, reader, matrix, width, lambda sums: sums % SHORT.length == 0)
    readers.run(appending(matrix, SHORT, make_batch), SECONDS)
    assert not readers.errors
    assert not readers.torn
    assert len(readers.seen) > 2


def test_arrays_stay_until_all_who_hold_them_let_go(on_cpu, cpu_device):
    base = sp.eye_array(5, format="csr")
    matrix = on_cpu(host_layout.lay_out(base))
    first, second = matrix.retain(), matrix.retain()
    assert first is second
    matrix.defragment()
    assert matrix.retain() is not first
    matrix.storage.release()
    values = np.empty(5)
    for storage in (first, second):
        cpu_device.download(storage.values, values)
        np.testing.assert_array_equal(values, np.ones(5))
        storage.release()
    assert not first.retain()
    first.release()  # harmless


def test_a_matrix_that_was_released_is_not_held(load_module, cpu_device):
    modules = (load_module(f"double/{module}") for module in ("matrix", "sort"))
    matrix = DynamicMatrix(cpu_device, *modules, host_layout.lay_out(sp.eye_array(5, format="csr")), 2)
    matrix.release()
    with pytest.raises(ReproError, match="closed"):
        matrix.retain()
