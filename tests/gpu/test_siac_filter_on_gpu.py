"""The filter on a GPU, in every way that it can be made, with arrays of CuPy on a stream of their own."""

import numpy as np
import pytest

import repro
from repro.filtering.reference import contour_rows
from repro.operators.runtime import open_runtime
from support.triangulations import hexagonal

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module", autouse=True)
def runtime(gpu, tmp_path_factory):
    """The operator's own opening of the GPU, with a cache of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPRO_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield open_runtime("cuda:0")


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
@pytest.mark.parametrize("kind", ["matrix", "contours", "clipping"])
def test_values_are_those_of_the_rows(runtime, degree, kind):
    mesh, rng = hexagonal(12), np.random.default_rng(1)
    points = rng.uniform(-0.5, 1.5, (300, 2))
    scale = mesh.longest * (0.6 if kind == "clipping" else 1)
    order = (min(degree, 1), 0) if degree > 1 else (0, 0)
    expected = contour_rows(mesh, points, degree, scale=scale, derivative=order)
    given = (mesh.vertices, mesh.triangles)
    with repro.siac(given, degree, points, scale, derivative=order, matrix=kind == "matrix", device="cuda:0") as smooth:
        assert smooth.kind == kind
        modes = rng.standard_normal((smooth.shape[1], 21))
        wanted = expected @ modes
        bound = 1e-11 * np.abs(wanted).max()
        np.testing.assert_allclose(smooth @ modes[:, 0], wanted[:, 0], atol=bound)
        np.testing.assert_allclose(smooth @ modes, wanted, atol=bound)
        np.testing.assert_allclose((smooth @ runtime.put(modes)).get(), wanted, atol=bound)


def test_cupys_arrays_are_taken_where_they_lie(runtime):
    cupy = pytest.importorskip("cupy")
    mesh = hexagonal(12)
    with repro.siac((mesh.vertices, mesh.triangles), 2, device="cuda:0") as smooth:
        modes = np.random.default_rng(2).standard_normal((smooth.shape[1], 4))
        expected = smooth @ modes
        with cupy.cuda.Stream(non_blocking=True):
            there = cupy.asarray(modes)
            for _ in range(20):
                result = cupy.asarray(smooth @ (2 * there)).get()
                np.testing.assert_allclose(result, 2 * expected, rtol=1e-12, atol=1e-12)
            out = cupy.empty(smooth.shape[0])
            smooth.matvec(cupy.ascontiguousarray(there[:, 1]), out)
            np.testing.assert_allclose(out.get(), expected[:, 1], atol=1e-13)
