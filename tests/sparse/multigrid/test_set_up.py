"""The set-up of multigrid on the CPU and by a GPU's emulator, compared with its model on the host."""

import numpy as np
import pytest
import scipy.sparse as sp

from repro.errors import ReproError
from repro.sparse.multigrid import reference
from repro.sparse.multigrid.reference import MultigridSettings
from support.hierarchies import assert_levels
from support.matrices import PROBLEMS, poisson, to_csr

pytestmark = pytest.mark.medium


@pytest.mark.sampled(4)
@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("precision", ["single", "double"])
def test_the_levels_are_those_of_the_model(device, levels_of, name, precision):
    matrix, settings = poisson(*PROBLEMS[name]), MultigridSettings(coarsest=20)
    expected = reference.set_up(matrix, settings=settings)
    levels = levels_of(matrix, settings=settings, precision=precision)
    assert len(levels) > 1
    assert_levels(device, levels, expected, 1e-10 if precision == "double" else 5e-4)
    radius = reference.spectral_radius(matrix, settings.ritz_steps)
    assert levels[0].radius == pytest.approx(radius, rel=1e-10 if precision == "double" else 1e-4)


@pytest.mark.slow
def test_the_coarse_matrix_is_the_product_of_the_three(levels_of):
    fine, *_ = levels = levels_of(poisson((40, 40), 9))
    a, p, r = (to_csr(matrix) for matrix in (fine.a, fine.p, fine.r))
    expected = r @ (a @ p)
    assert abs(to_csr(levels[1].a) - expected).max() <= 1e-12 * abs(expected).max()


@pytest.mark.parametrize(("unknowns", "k"), [(1, 2), (2, 3)])
def test_several_vectors_and_unknowns(device, levels_of, unknowns, k):
    matrix = sp.csr_array(sp.kron(poisson((24, 24), 5), np.eye(unknowns) + 0.1))
    near = np.random.default_rng(1).random((matrix.shape[0], k))
    expected = reference.set_up(matrix, near, unknowns, MultigridSettings(coarsest=60))
    assert_levels(device, levels_of(matrix, near, unknowns, MultigridSettings(coarsest=60)), expected, 1e-10)


def test_strong_connections_alone(device, levels_of):
    matrix = sp.csr_array(sp.kron(sp.eye_array(30), poisson((10, 10), 5)[:10, :10]) + 0.01 * poisson((30, 10), 5))
    settings = MultigridSettings(theta=0.08, coarsest=20)
    assert_levels(device, levels_of(matrix, settings=settings), reference.set_up(matrix, settings=settings), 1e-10)


def test_vectors_that_no_aggregate_can_tell_apart(device, levels_of):
    matrix = poisson((20, 20), 5)
    near = np.ones((400, 2))
    settings = MultigridSettings(coarsest=30)
    levels = levels_of(matrix, near, settings=settings)
    assert (to_csr(levels[1].a).diagonal() != 0).all()
    assert_levels(device, levels, reference.set_up(matrix, near, settings=settings), 1e-10)


def test_levels_and_smoothing_as_asked_for(device, levels_of):
    matrix = poisson((30, 30), 5)
    assert len(levels_of(matrix, settings=MultigridSettings(levels=2))) == 2
    plain = MultigridSettings(omega=0.0, coarsest=50)
    assert_levels(device, levels_of(matrix, settings=plain), reference.set_up(matrix, settings=plain), 1e-10)


@pytest.mark.parametrize(("near", "unknowns", "message"), [((10, 1), 1, "near null"), (None, 3, "unknowns per node")])
def test_vectors_that_do_not_fit_are_refused(levels_of, near, unknowns, message):
    with pytest.raises(ReproError, match=message):
        levels_of(poisson((20, 20), 5), None if near is None else np.ones(near), unknowns)


def test_the_set_up_is_the_same_each_time(device, levels_of):
    matrix = poisson((16, 16, 16), 7)
    first, second = levels_of(matrix), levels_of(matrix)
    for one, other in zip(first, second, strict=True):
        assert to_csr(one.a).data.tobytes() == to_csr(other.a).data.tobytes()
