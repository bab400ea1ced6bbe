"""Products on a stream of their own while the matrix is changed on another: each row as before a change or after it."""

import numpy as np
import pytest

from repro.codegen.build_cache import compile_module
from repro.sparse.dynamic import host_layout
from repro.sparse.dynamic.matrix import DynamicMatrix
from repro.sparse.dynamic.storage import EntryBatch
from repro.studies.dynamic_csr.kernels import render_key
from support.concurrent_readers import Readers, Rows, appending, replacing, sums_of_swapping, swapping, without_check

pytestmark = pytest.mark.gpu

#: Rows that a thread changes by itself, and rows that a block changes together; so many that a change takes a while.
SHORT, LONG = Rows(20_000, 24), Rows(500, 2000)
SECONDS, PATIENCE = 3, 60
WIDTHS = [1, 8, 32]


@pytest.fixture(scope="module")
def modules(gpu, templates, tmp_path_factory):
    """What a matrix and its readers need; `careless` reads without a look at versions."""
    folder = tmp_path_factory.mktemp("readers")
    sources = {name: render_key(templates, f"double/{name}", gpu.target) for name in ("matrix", "sort", "reader")}
    sources["careless"] = without_check(sources["reader"])
    programs = {}
    for name, source in sources.items():
        module = compile_module(source, gpu.target, folder / f"{name}.json")
        assert module.binary, module.message
        programs[name] = gpu.load(folder / module.binary)
    return programs


@pytest.fixture
def on_gpu(gpu, modules):
    """Bring a matrix to the GPU."""
    held = []

    def bring(arrays):
        held.append(DynamicMatrix(gpu, modules["matrix"], modules["sort"], arrays, 2))
        return held[-1]

    yield bring
    for matrix in held:
        matrix.release()


@pytest.fixture
def make_batch(gpu):
    """Bring entries to the GPU."""

    def make(rows, columns, values=None):
        of_values = None if values is None else gpu.upload(np.asarray(values, np.float64))
        arrays = (gpu.upload(np.asarray(array, np.int32)) for array in (rows, columns))
        return EntryBatch(len(rows), *arrays, of_values)

    return make


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("rows", [SHORT, LONG], ids=["short", "long"])
def test_values_of_a_row_change_together(modules, on_gpu, make_batch, gpu, rows, width):
    def race(program, seconds):
        matrix = on_gpu(host_layout.lay_out(rows.matrix(np.ones(rows.length))))
        readers = Readers(gpu, program, matrix, width, lambda sums: sums % rows.length == 0)
        return readers.run(replacing(matrix, rows, make_batch), seconds)

    sound = race(modules["reader"], SECONDS)
    assert not sound.errors
    assert not sound.torn
    assert len(sound.seen) > 2
    assert race(modules["careless"], PATIENCE).torn


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("rows", [SHORT, LONG], ids=["short", "long"])
def test_entries_go_and_come_together(modules, on_gpu, make_batch, gpu, rows, width):
    def race(program, seconds):
        matrix = on_gpu(host_layout.lay_out(rows.matrix(rows.weights), capacity=8 * rows.rows * rows.length))
        legal = sums_of_swapping(rows)
        readers = Readers(gpu, program, matrix, width, lambda sums: np.isin(sums, legal))
        return readers.run(swapping(matrix, rows, make_batch), seconds)

    sound = race(modules["reader"], SECONDS)
    assert not sound.errors
    assert not sound.torn
    assert len(sound.seen) == 3
    if rows is LONG:  # a thread is done with a short row before a careless reader is between two of its steps
        assert race(modules["careless"], PATIENCE).torn


@pytest.mark.parametrize("width", WIDTHS)
def test_what_is_appended_is_seen_at_once_or_not(modules, on_gpu, make_batch, gpu, width):
    matrix = on_gpu(host_layout.lay_out(SHORT.matrix(np.ones(SHORT.length)), segments=3))
    readers = Readers(gpu, modules["reader"], matrix, width, lambda sums: sums % SHORT.length == 0)
    readers.run(appending(matrix, SHORT, make_batch), SECONDS)
    assert not readers.errors
    assert not readers.torn
    assert len(readers.seen) > 2


def test_a_queue_beside_runs_while_the_stream_is_busy(gpu, gpu_module):
    """What is written and read on it does not wait for the device's own stream."""
    queue = gpu.new_queue()
    buffer, large = gpu.allocate(8000), gpu.allocate(1 << 30)
    for _ in range(200):
        gpu.fill(large, 0)  # some tens of milliseconds
    numbers, result = np.arange(1000.0), np.empty(1000)
    queue.write(buffer, numbers)
    queue.download(buffer, result)
    busy = not gpu._stream.is_done()
    np.testing.assert_array_equal(result, numbers)
    gpu.synchronize()
    assert busy
