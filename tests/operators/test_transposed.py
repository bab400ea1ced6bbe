"""Products with the transpose of a matrix, for every entry, on the host and on the device."""

import gc
from dataclasses import replace
from weakref import ref

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, bicg, lsmr, lsqr, qmr, svds

import repro
from repro.entries import entries
from repro.errors import ReproError
from repro.operators.product import Product
from repro.problems.matrix import Matrix
from repro.sparse import symmetry
from repro.sparse.operands import expand
from repro.sparse.symmetry import transposed

pytestmark = pytest.mark.medium

DEVICE = "opencl:0"
ENTRIES = sorted(entries())
TOLERANCE = {"single": 1e-4, "double": 1e-12}
VARIANTS = ["default", "Sl-8-AoSoA-SoA@sorted/direct-64-3-w2-u2"]
#: That a matrix of ones is to be taken for a pattern has to be said.
ASKED = {"pattern": "pattern"}


def draw(shape, dtype, seed=1):
    numbers = np.random.default_rng(seed).uniform(-1, 1, (2, *np.atleast_1d(shape)))
    return (numbers[0] + 1j * numbers[1] if np.dtype(dtype).kind == "c" else numbers[0]).astype(dtype)


@pytest.fixture
def made(monkeypatch):
    """Return the products that are made, in order."""
    products = []
    make = Product.__init__

    def watched(self, *arguments):
        products.append(self)
        make(self, *arguments)

    monkeypatch.setattr(Product, "__init__", watched)
    return products


@pytest.mark.parametrize("tuned", VARIANTS)
@pytest.mark.parametrize("entry", ENTRIES)
def test_a_transpose_is_multiplied_as_scipy_does(small_problem, as_scipy, entry, tuned):
    matrix = as_scipy(small_problem(entry))
    A = repro.operator(matrix, tuned, entry=ASKED.get(entry), device=DEVICE)
    assert A.T.name == A.H.name == A.name
    assert A.T.shape == A.shape
    x = draw(A.shape[0], matrix.dtype)
    plain, adjoint = matrix.T @ x, matrix.conj().T @ x
    assert not np.allclose(plain, matrix @ x)
    assert np.allclose(plain, adjoint) == (entry != "complex")
    for y in (A.T @ x, A.T.matvec(x[:, None])[:, 0], x @ A):
        np.testing.assert_allclose(y, plain, atol=1e-12)
    out = np.empty_like(x)
    for y in (A.H @ x, A.rmatvec(x), A.rmatvec(x[:, None])[:, 0], A.rmatvec(x, out=out), A.H(x)):
        np.testing.assert_allclose(y, adjoint, atol=1e-12)
    np.testing.assert_allclose(A.T.rmatvec(x), matrix.conj() @ x, atol=1e-12)
    several = draw((A.shape[0], 3), matrix.dtype)
    np.testing.assert_allclose(A.T @ several, matrix.T @ several, atol=1e-12)
    for y in (A.H @ several, A.rmatmat(several)):
        np.testing.assert_allclose(y, matrix.conj().T @ several, atol=1e-12)


@pytest.mark.parametrize("tuned", VARIANTS)
@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("entry", ENTRIES)
def test_arrays_on_the_device_stay_there(small_problem, as_scipy, entry, precision, tuned):
    problem = small_problem(entry)
    matrix = as_scipy(problem)
    A = repro.operator(problem, tuned, precision=precision, device=DEVICE)
    x = draw(A.shape[0], A.dtype)
    on_device, out = A.vectors.put(x), A.vectors.empty()
    assert A.rmatvec(on_device, out=out) is out
    for y in (out, A.H @ on_device, A.rmatvec(on_device)):
        assert type(y) is type(on_device)
        np.testing.assert_allclose(y.get(), matrix.conj().T @ x, atol=TOLERANCE[precision])
    for y in (A.T @ on_device, on_device @ A, on_device * A):
        assert type(y) is type(on_device)
        np.testing.assert_allclose(y.get(), matrix.T @ x, atol=TOLERANCE[precision])
    for several in (A.matmat, A.rmatmat, A.T.matmat):
        with pytest.raises(ReproError, match="X has the wrong shape"):
            several(on_device)


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_transposed_matrix_is_exact_and_back_again_the_same(small_problem, entry):
    problem = small_problem(entry)
    for conjugate in (False, True):
        other = transposed(problem, conjugate=conjugate).validate()
        assert other.checksum() != problem.checksum()
        again = transposed(other, conjugate=conjugate)
        for name, array in problem.arrays().items():
            np.testing.assert_array_equal(again.arrays()[name], array)
    # the expansion's transpose is that of the conjugated: complex numbers are conjugated in theirs
    assert np.array_equal(expand(other, other.values).toarray(), expand(problem, problem.values).toarray().T)


def test_a_matrix_that_is_not_square_has_a_transpose():
    wide = sp.csr_array(np.array([[0.0, 2, 0, 3], [1, 0, 0, 0]]))
    matrix = Matrix("wide", "real", 2, wide.indptr, wide.indices, wide.data[:, None], columns=4).validate()
    tall = transposed(matrix).validate()
    assert tall.shape == (4, 2)
    stored = sp.csr_array((tall.values[:, 0], tall.indices, tall.indptr), shape=tall.shape)
    assert np.array_equal(stored.toarray(), wide.toarray().T)
    assert transposed(tall).shape == (2, 4)


def test_an_entry_whose_transpose_is_none_is_refused(small_problem, monkeypatch):
    get = symmetry.get_entry
    lower = replace(get("real"), members=("a", "b"), vector_members=("x", "y"), expand=lambda v: v[:, [[0, 0], [1, 0]]])
    monkeypatch.setattr(symmetry, "get_entry", lambda name: lower)
    with pytest.raises(ReproError, match="transpose of this entry has a different entry type"):
        transposed(small_problem("complex"), conjugate=True)


def test_a_transpose_is_made_once_of_the_same_kernel_and_closed_with_its_matrix(small_problem, made):
    A = repro.operator(small_problem("complex"), device=DEVICE)
    assert len(made) == 1
    T, H = A.T, A.H
    assert len(made) == 3
    assert T is A.T
    assert H is A.H
    assert T is not H
    assert [repr(each).split()[1] for each in (A, T, H)] == ["SpmvOperator:", "transposed", "adjoint"]
    assert T.T is A
    assert H.H is A
    assert T.nbytes == A.nbytes
    x = draw(A.shape[0], complex)
    on_device = A.vectors.put(x)
    A.rmatvec(x)
    assert len(made) == 3
    A.close()
    A.close()
    assert not any(product._memory._exit_callbacks for product in made)
    for closed in (A, T, H):
        for use in (lambda: closed @ x, lambda: closed @ on_device, lambda: closed.rmatvec(x), lambda: closed.T):  # noqa: B023
            with pytest.raises(ReproError, match=r"closed[\s\S]*create a new one"):
                use()
    assert not any("_staging" in vars(closed) for closed in (A, T, H))


def test_one_that_was_closed_by_itself_is_made_again(small_problem):
    problem = small_problem("quaternion")
    x = draw(4 * problem.n, float)
    with repro.operator(problem, device=DEVICE) as A:
        expected = A.T @ x
        with A.T as T:
            pass
        assert A.T is not T
        np.testing.assert_array_equal(A.T @ x, expected)
        back = A.T
    with pytest.raises(ReproError, match="closed"):
        A @ x
    with pytest.raises(ReproError, match="closed"):
        back @ x


def test_a_transpose_outlives_its_forgotten_matrix_and_holds_it_not(small_problem):
    problem = small_problem("block3")
    A = repro.operator(problem, device=DEVICE)
    x = draw(A.shape[0], float)
    expected, T, forgotten = A @ x, A.T, ref(A)
    del A
    gc.collect()
    assert forgotten() is None
    np.testing.assert_array_equal(T.T @ x, expected)


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_symmetric_or_hermitian_matrix_takes_the_one_that_is_there(small_problem, as_scipy, entry, made):
    matrix = sp.csr_array(as_scipy(small_problem(entry)))
    if entry == "pattern":
        matrix = matrix.maximum(matrix.T)
        hermitian, symmetric = matrix, matrix
    else:
        hermitian, symmetric = matrix + matrix.conj().T, matrix + matrix.T
    for whole, conjugate in ((symmetric, False), (hermitian, True)):
        made.clear()
        A = repro.operator(whole, entry=entry, device=DEVICE)
        transpose = A.H if conjugate else A.T
        assert (transpose.H if conjugate else transpose.T) is A
        assert len(made) == 1
        transpose.close()  # the memory is not its own
        x = draw(A.shape[0], matrix.dtype)
        other = (A.T if conjugate else A.H) @ x
        assert len(made) == (2 if entry == "complex" else 1)
        np.testing.assert_allclose(other, (whole.T if conjugate else whole.conj().T) @ x, atol=1e-12)


def test_a_matrix_that_is_symmetric_but_for_a_bit_is_not_taken_for_symmetric(made):
    matrix = sp.csr_array(np.array([[2.0, 1.0], [np.nextafter(1.0, 2.0), 2.0]]))
    A = repro.operator(matrix, device=DEVICE)
    assert A.T is not A
    assert len(made) == 2


@pytest.mark.parametrize("entry", ["real", "complex", "block3"])
def test_scipys_solvers_that_need_it_take_it(small_problem, as_scipy, entry):
    matrix = sp.csr_array(as_scipy(small_problem(entry, n=30)))
    matrix = matrix + 40 * sp.eye_array(matrix.shape[0], format="csr")
    A = repro.operator(matrix, entry=entry, device=DEVICE)
    b = draw(A.shape[0], matrix.dtype)
    for solve in (bicg, qmr):
        x, failed = solve(A, b, rtol=1e-12)
        assert failed == 0
        np.testing.assert_allclose(matrix @ x, b, atol=1e-8)
    for least_squares in (lsqr, lsmr):
        np.testing.assert_allclose(least_squares(A, b, atol=1e-13, btol=1e-13)[0], x, atol=1e-8)
    largest = np.linalg.svd(matrix.toarray(), compute_uv=False)[0]
    np.testing.assert_allclose(svds(A, k=1, return_singular_vectors=False), [largest], rtol=1e-8)
    # of what SciPy makes of operators too
    combined = 2 * A + A.H @ A
    assert isinstance(combined, LinearOperator)
    whole = 2 * matrix + matrix.conj().T @ matrix
    np.testing.assert_allclose(combined.rmatvec(b), whole.conj().T @ b, atol=1e-9)


def test_vectors_of_another_length_are_refused(small_problem):
    A = repro.operator(small_problem("real"), device=DEVICE)
    with pytest.raises(ValueError, match="the wrong length"):
        A.rmatvec(np.ones(A.shape[0] + 1))
    with pytest.raises(ReproError, match="the wrong size"):
        A.rmatvec(repro.vectors(A.shape[0] + 1, device=DEVICE).zeros())
