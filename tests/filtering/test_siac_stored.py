"""What the filter's matrix is compared with, on the CPU by OpenCL and CUDA's text in an emulator."""

from contextlib import ExitStack

import numpy as np
import pytest

from repro.bench.guards import Guards
from repro.bench.yardsticks import STREAM_WORD_BYTES
from repro.filtering.grids import SortedCells
from repro.filtering.kernels import IN_FLIGHT_COUNTS
from repro.filtering.matrix import MatrixRows, StoredMatrix
from repro.filtering.matrix_free import Points, Stencil
from repro.sparse.device_primitives import LaunchContext
from support.emulated_cuda import EmulatedCuda, needs_compiler
from support.siac_on_devices import random_modes, siac_loader
from support.triangulations import hexagonal, structured

degrees = pytest.mark.parametrize("degree", [0, 1, 3])


@pytest.fixture(scope="module", params=["cpu", pytest.param("emulated", marks=needs_compiler)])
def any_device(request):
    return EmulatedCuda() if request.param == "emulated" else request.getfixturevalue("cpu_device")


@pytest.fixture(scope="module")
def load(any_device, templates, built_folder):
    return siac_loader(any_device, templates, built_folder / "siac")


@pytest.fixture
def made(any_device, load):
    """Make the matrix of a degree, its memory between guard zones."""
    with ExitStack() as held:
        guards = Guards(any_device)

        def make(degree, mesh=hexagonal(5), count=37):
            points = np.random.default_rng(3).uniform(-0.5, 1.5, (count, 2))
            launches = LaunchContext(any_device, load, held, guards)
            there = Points(launches, SortedCells(mesh, points))
            rows = MatrixRows(launches, Stencil(mesh, degree, mesh.longest), there)
            matrix = rows.make(rows.count(), held)
            return matrix, launches, guards

        yield make


def arrays_of(matrix, modes):
    """Return what a product reads, with its bytes."""
    size = matrix.size
    starts = ((matrix.row_starts, 4), (matrix.column_starts, 8), (matrix.entry_starts, 8))
    return [(matrix.values, 8 * size.modes * size.pairs), (matrix.columns, 4 * size.columns),
            (matrix.masks, 2 * size.columns), *((buffer, n * (size.tiles + 1)) for buffer, n in starts),
            (modes, modes.nbytes)]  # fmt: skip


@pytest.mark.sampled(6)
@pytest.mark.slow
@degrees
@pytest.mark.parametrize("mesh", [hexagonal(5), structured(1)], ids=["delaunay", "two"])
def test_scalars_are_those_of_the_blocks(any_device, made, degree, mesh):
    matrix, launches, _ = made(degree, mesh)
    csr, expand = StoredMatrix(matrix).expand()
    launches.keep(csr)
    expand()
    expanded = csr.download()
    size = matrix.size
    assert expanded.nnz == size.modes * size.pairs and csr.nbytes == 12 * expanded.nnz + 4 * (size.points + 1)
    order = launches.download(matrix.order, size.points, np.int32)
    expected = matrix.download()
    assert abs(expanded - expected[order]).max() <= 1e-14  # which adds up the images of a triangle
    # a row's blocks stay whole, in the order in which they were made
    blocks = expanded.indices.reshape(-1, size.modes)
    np.testing.assert_array_equal(blocks - blocks[:, :1], np.broadcast_to(np.arange(size.modes), blocks.shape))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("unroll", IN_FLIGHT_COUNTS)
def test_streaming_reads_every_word_once_and_writes_all_of_the_result(any_device, made, unroll):
    matrix, launches, guards = made(1)
    size, word = matrix.size, STREAM_WORD_BYTES[any_device.backend]
    modes = launches.upload(random_modes(hexagonal(5), 1))
    result = launches.numbers(size.points, np.float64)
    any_device.fill(result, 0)
    launch, moved = StoredMatrix(matrix).stream(modes, result, unroll)
    launch()
    assert guards.out_of_bounds_writes() == []
    counts = [nbytes for _, nbytes in arrays_of(matrix, modes)]
    assert sum(counts) == size.nbytes + modes.nbytes
    assert moved == sum(nbytes // word * word for nbytes in (*counts, 8 * size.points))
    # threads write what they read: those of all differ, and the exclusive or of all is that of the first ones' words
    written = launches.download(result, 8 * size.points // word * word // 4, np.uint32).reshape(-1, word // 4)
    assert np.count_nonzero(written.any(axis=1)) > 0.9 * len(written)


def test_what_is_streamed_is_all_that_is_read(any_device, made):
    """With a result that has a word for every thread, the exclusive or of all words is that of all that there are."""
    matrix, launches, _ = made(1)
    word = STREAM_WORD_BYTES[any_device.backend]
    modes = launches.upload(random_modes(hexagonal(5), 1))
    threads = 1 << 20  # more than there are on either device
    result = launches.numbers(threads * word // 8, np.float64)
    any_device.fill(result, 0)
    StoredMatrix(matrix).stream(modes, result, 4)[0]()
    written = launches.download(result, threads * word // 4, np.uint32).reshape(threads, -1)
    repeats = np.flatnonzero((written == written[0]).all(axis=1))
    step = int(np.diff(repeats).min())  # a thread writes again after as many words as there are threads
    expected = np.zeros(word // 4, np.uint32)
    for buffer, nbytes in arrays_of(matrix, modes):
        words = launches.download(buffer, nbytes // word * word // 4, np.uint32).reshape(-1, word // 4)
        expected ^= np.bitwise_xor.reduce(words, axis=0)
    np.testing.assert_array_equal(np.bitwise_xor.reduce(written[:step], axis=0), expected)


def test_the_matrix_lies_between_guard_zones(any_device, made, monkeypatch):
    asked = []
    allocate = Guards.allocate
    monkeypatch.setattr(
        Guards, "allocate", lambda self, nbytes, *rest: asked.append(nbytes) or allocate(self, nbytes, *rest)
    )
    matrix, _, guards = made(1)
    size = matrix.size
    assert {2 * size.columns, 4 * size.columns, 24 * size.pairs} <= set(asked)
    assert guards.out_of_bounds_writes() == []


def test_what_32_bits_do_not_count_does_not_fit(made):
    matrix, *_ = made(1)
    stored = StoredMatrix(matrix)
    assert stored.fits_csr
    object.__setattr__(matrix, "triangles", 2**30)
    assert not stored.fits_csr
