"""Copies of operators by `copy` and `pickle`: made anew of the matrix, or refused in words."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import repro
from repro.errors import ReproError
from support.threaded_operators import REORDERED, draw, matrices, near
from support.triangulations import hexagonal

pytestmark = pytest.mark.medium

DEVICE = "opencl:0"
COPIES = {"pickle": lambda thing: pickle.loads(pickle.dumps(thing)), "copy": copy.copy, "deepcopy": copy.deepcopy}


@pytest.fixture(params=COPIES)
def again(request):
    """A way to copy."""
    return COPIES[request.param]


@pytest.mark.parametrize("tuned", ["default", REORDERED])
@pytest.mark.parametrize("entry", list(matrices()))
def test_an_operator_is_made_anew(again, entry, tuned):
    matrix = matrices()[entry]
    A = repro.operator(matrix, tuned, precision="single", device=DEVICE)
    other, other_transpose = again(A), again(A.T)
    assert [repr(again(each)) for each in (A, A.T, A.H)] == [repr(each) for each in (A, A.T, A.H)]
    assert (other.name, other.entry, other.dtype, other.shape) == (A.name, A.entry, A.dtype, A.shape)
    A.close()
    x = draw(1).astype(np.float32)
    assert near(other @ x, matrix @ x, 1e-5)
    assert near(other_transpose @ x, matrix.T @ x, 1e-5)


def test_a_closed_operator_is_not_copied(again):
    A = repro.operator(sp.eye_array(3).tocsr(), device=DEVICE)
    A.close()
    with pytest.raises(ReproError, match="closed"):
        again(A)


def test_a_matrix_that_grows_is_copied_as_it_is_then(again):
    A = repro.DynamicCSR((4, 5), np.float32, segments=3, slack=7, device=DEVICE)
    A.insert([0, 0, 3], [1, 1, 4], [1.0, 2.0, 3.0])
    other = again(A)
    A.delete([0], [1])
    assert other.nnz == 3  # two of one place
    assert (other.segments, other.dtype, other.capacity) == (A.segments, A.dtype, A.capacity)
    other.insert([1], [0], [5.0])
    np.testing.assert_array_equal(other.to_scipy().toarray()[[0, 1, 3], [1, 0, 4]], [3, 5, 3])
    assert A.nnz == 1


def test_vectors_are_made_anew(again):
    space = repro.vectors(5, "quaternion", "single", "Padded", device=DEVICE)
    other = again(space)
    x = np.arange(20, dtype=np.float32)
    np.testing.assert_array_equal(other.get(other.put(x)), x)
    assert other.order == "Padded"
    assert repr(other) == repr(space)
    assert "5 quaternion entries in single precision, Padded" in repr(space)


@pytest.mark.wording
def test_what_is_nothing_without_its_device_is_refused(again):
    A = sp.csr_array(np.eye(3))
    mesh = hexagonal(3)
    for thing in (
        repro.amg(A, device=DEVICE),
        repro.amg(A, device=DEVICE).levels[0],
        repro.DynamicCSR.from_csr(A, device=DEVICE).reader(),
        repro.siac((mesh.vertices, mesh.triangles), 1, [[0.5, 0.5]], device=DEVICE),
        repro.vectors(3, device=DEVICE).zeros(),
    ):
        with pytest.raises(ReproError, match="neither copied nor pickled"):
            again(thing)
