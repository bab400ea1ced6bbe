"""Stages of a set-up as one cooperative launch each: the bits of a launch for each phase, and the same each time."""

import numpy as np
import pytest
import scipy.sparse as sp

from repro.devices.base import LaunchError
from repro.sparse.multigrid import reference
from repro.sparse.multigrid.hierarchy import refresh_hierarchy
from repro.sparse.multigrid.reference import MultigridSettings
from support.hierarchies import bit_count, launch_each_phase, read, with_hubs
from support.matrices import poisson

pytestmark = pytest.mark.gpu
LARGE = {"5": ((700, 700), 5), "27": ((56, 56, 56), 27)}
CASES = {
    "5 points": (poisson((200, 200), 5), None, 1, {}),
    "27 points": (poisson((32, 32, 32), 27), None, 1, {}),
    "hubs": (with_hubs(150, 4), None, 1, {}),
    "strong connections alone": (poisson((150, 150), 9), None, 1, {"theta": 0.08}),
    "several unknowns": (
        sp.kron(poisson((60, 60), 5), np.eye(3) + 0.1), np.random.default_rng(1).random((10800, 6)), 3, {}
    ),
}  # fmt: skip


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("name", CASES)
def test_one_launch_gives_the_same_bits_as_one_for_each_phase(gpu, levels_of, monkeypatch, name, precision):
    matrix, near, unknowns, given = CASES[name]
    settings = MultigridSettings(**given)
    together = bit_count(gpu, levels_of(matrix, near, unknowns, settings, precision))
    launch_each_phase(monkeypatch)
    assert together == bit_count(gpu, levels_of(matrix, near, unknowns, settings, precision))


@pytest.mark.parametrize("name", ["27 points", "several unknowns"])
def test_a_refresh_as_a_graph_gives_the_bits_of_its_launches(gpu, load, levels_of, monkeypatch, name):
    matrix, near, unknowns, _ = CASES[name]
    matrix = sp.csr_array(matrix)
    rng = np.random.default_rng(2)
    values = [matrix.data * scale for scale in rng.uniform(0.5, 1, (3, 1))]
    values[1] = matrix.data + (matrix.data > 0) * rng.uniform(0, 1, matrix.nnz)  # a larger diagonal

    def refreshed():
        levels = levels_of(matrix, near, unknowns, refreshable=True)
        bits = []
        for of_matrix in (*values, values[0]):
            gpu.write(levels[0].a.values, of_matrix)
            levels[:] = refresh_hierarchy(gpu, load("double"), levels)
            bits.append(bit_count(gpu, levels))
        assert bits[0] == bits[-1] and bits[0] != bits[1]
        return bits, levels[0].refresh

    as_graph, refresh = refreshed()
    assert refresh.is_captured
    launch_each_phase(monkeypatch)
    apart, refresh = refreshed()
    assert not refresh.is_captured and apart == as_graph


@pytest.mark.parametrize("name", ["5 points", "hubs"])
def test_the_set_up_is_the_same_each_time(gpu, levels_of, name):
    matrix, *given = CASES[name]
    first = bit_count(gpu, levels_of(matrix, *given[:2]))
    for _ in range(10):
        assert bit_count(gpu, levels_of(matrix, *given[:2])) == first


@pytest.mark.parametrize("name", LARGE)
def test_aggregates_and_radius_of_more_nodes_than_threads(gpu, levels_of, name):
    matrix = poisson(*LARGE[name])
    finest = levels_of(matrix, settings=MultigridSettings(levels=2))[0]
    expected = reference.aggregate(reference.strong(matrix, 0.0))
    np.testing.assert_array_equal(read(gpu, finest.aggregates, matrix.shape[0], np.int32), expected)
    assert finest.radius == pytest.approx(reference.spectral_radius(matrix, 8), rel=1e-10)
    np.testing.assert_array_equal(read(gpu, finest.diagonal, matrix.shape[0]), matrix.diagonal())


def test_more_blocks_than_are_resident_are_refused(gpu, load):
    kernel = gpu.cooperative(load("double")("grouping"), "transpose", 256)
    assert kernel.resident >= 4 * gpu.sm_count
    buffers = [gpu.allocate(4096) for _ in range(14)]
    launch = kernel.bind(kernel.resident + 1, [0, 0, *buffers, -1, 0])
    with pytest.raises(LaunchError, match="COOPERATIVE_LAUNCH_TOO_LARGE"):
        launch()
