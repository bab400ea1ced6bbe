"""Products with the filter's matrix on a GPU, ours and cuSPARSE's, and the streaming of its bytes."""

from contextlib import ExitStack

import numpy as np
import pytest

from repro.errors import Unsupported
from repro.filtering.kernels import FIELDS
from repro.filtering.matrix import MatrixRows
from repro.sparse.library.cusparse_bindings import load as load_library
from repro.studies.dg_postprocessing.runnables_plane import library_products, matrix_runnables, routine_names
from support.dg_products import ready, small_operands
from support.siac_on_devices import check_shares, random_modes, siac_loader, stencil_on
from support.triangulations import hexagonal

pytestmark = pytest.mark.gpu
degrees = pytest.mark.parametrize("degree", [1, 2, 3])


@pytest.fixture(scope="module")
def load(gpu, templates, tmp_path_factory):
    return siac_loader(gpu, templates, tmp_path_factory.mktemp("products"))


@pytest.fixture(scope="module")
def cusparse():
    """The library; where it is missing the tests are skipped."""
    try:
        return load_library()
    except Unsupported as error:
        pytest.skip(str(error))


@degrees
def test_every_routine_of_cusparse_filters_as_numpy_does(gpu, load, cusparse, degree):
    operands = small_operands(degree, 600)
    products = library_products({}, routine_names("cuda"), "cuda")
    taken = []
    for product in products:
        try:
            with ready(product, gpu, load, operands) as guards:
                assert operands.check(product, None) <= 1
                assert guards.out_of_bounds_writes() == []
                taken.append(product.columns["routine"])
        except Unsupported as error:
            print(f"{product.name}: {error}")
    assert {"spmv-csr-alg1", "spmv-csr-alg2", "spmm-csr-alg1", "spmm-csr-alg2"} <= set(taken)


@degrees
@pytest.mark.parametrize("name", ["cusparse/spmv-csr-alg2-1", "cusparse/spmm-csr-alg2-16"])
def test_a_graph_of_the_librarys_product_leaves_the_same(gpu, load, cusparse, degree, name):
    operands = small_operands(degree, 600)  # cuSPARSE 12.6 takes no matrix of a few rows by some routines
    [product] = [product for product in library_products({}, routine_names("cuda"), "cuda") if product.name == name]
    with ready(product, gpu, load, operands):
        product.launch()
        expected = product.result()
        captured = gpu.capture(product.launch)
        captured.replay()
        np.testing.assert_allclose(product.result(), expected, rtol=0, atol=1e-13)
        captured.release()


@degrees
def test_warps_that_share_tiles_make_the_product_of_one_warp(gpu, load, degree):
    """Also what compute-sanitizer's racecheck runs on: `--kernel-regex kns=dealt`, and `-k warps` for pytest."""
    rng, mesh = np.random.default_rng(2), hexagonal(8)
    points = rng.uniform(-0.2, 1.2, (37, 2))
    with stencil_on(gpu, load, mesh, points, degree) as (launches, stencil, places), ExitStack() as held:
        rows = MatrixRows(launches, stencil, places, threads=32)
        matrix = rows.make(rows.count(), held)
        assert matrix.size.columns > 128 * matrix.size.tiles  # of 32 columns at the least, each share
        for fields in FIELDS:
            modes = launches.upload(np.ascontiguousarray(random_modes(mesh, degree, fields)))
            check_shares(launches, matrix, modes, len(points), fields)


@degrees
def test_streams_move_what_a_product_does_and_write_nothing_else(gpu, load, degree):
    operands = small_operands(degree, 600)
    [_], shared = matrix_runnables({})
    applied = 0
    for runnable in shared:
        with ready(runnable, gpu, load, operands) as guards:
            runnable.launch()
            assert guards.out_of_bounds_writes() == []
            if runnable.operation == "apply":
                assert operands.check(runnable, None) <= 1
            applied = applied or runnable.bytes_moved
            assert runnable.operation == "apply" or 0 <= applied - runnable.bytes_moved < 8 * 16
