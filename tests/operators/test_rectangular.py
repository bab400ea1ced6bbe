"""Rectangular matrices, tall and wide, multiplied as SciPy does, and what remains for square ones."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import lsmr, lsqr, svds

import repro
from repro.entries import entries, get_entry
from repro.errors import ReproError
from repro.problems.matrix import Matrix
from repro.sparse.operands import expand
from repro.sparse.symmetry import transposed

pytestmark = pytest.mark.medium

DEVICE = "opencl:0"
ENTRIES = sorted(entries())
#: One variant for each way to store and to order rows; the operator's default is the first.
VARIANTS = [
    "default",
    "Sl-8-AoSoA-Padded@clustered/direct-64-3-w2-u2",
    "ELLPACK-SoA-AoS/static-64-3",
    "Sl-16-AoS-AoS/dynamic-32-2",
    "ELL-AoSoA-Padded/chunk-64-3-w4",
    "CSR-AoSoA-AoS/split-64-3-u2-cs",
]
CASES = 300 // len(VARIANTS)


def draw_shape(rng):
    """Return rows and columns, often one of them 1, far more rows than columns, or the reverse."""
    kind = rng.integers(5)
    small, large = int(rng.integers(1, 12)), int(rng.integers(13, 160))
    return [(small, large), (large, small), (1, large), (large, 1), (large, large + small)][kind]


def draw_matrix(rng, entry):
    """Return a rectangular matrix with entries, among them often empty rows and columns, and long rows."""
    rows, columns = draw_shape(rng)
    present = rng.random((rows, columns)) < rng.choice([0.02, 0.2, 0.9])
    present[rng.random(rows) < 0.3] = False
    present[:, rng.random(columns) < 0.3] = False
    present[rng.integers(rows), rng.integers(columns)] = True
    if rng.random() < 0.3:
        present[rng.integers(rows)] = True
    pattern = sp.csr_array(present)
    values = rng.uniform(-1, 1, (pattern.nnz, len(get_entry(entry).members)))
    indptr, indices = pattern.indptr.astype(np.int32), pattern.indices.astype(np.int32)
    return Matrix("drawn", entry, rows, indptr, indices, values, columns)


def in_scipy(matrix):
    if matrix.entry != "complex":
        return sp.csr_array(expand(matrix, matrix.values))
    values = matrix.values[:, 0] + 1j * matrix.values[:, 1]
    return sp.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)


def draw_vector(rng, size, dtype):
    x = rng.uniform(-1, 1, size)
    return (x + 1j * rng.uniform(-1, 1, size)).astype(dtype) if dtype.kind == "c" else x.astype(dtype)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("tuned", VARIANTS)
def test_products_of_rectangular_matrices_are_scipys(tuned):
    rng = np.random.default_rng(VARIANTS.index(tuned))
    for case in range(CASES):
        entry = ENTRIES[case % len(ENTRIES)]
        matrix = draw_matrix(rng, entry)
        exact = in_scipy(matrix)
        with repro.operator(matrix, tuned, device=DEVICE) as A:
            assert (A.shape, A.dtype) == (exact.shape, exact.dtype)
            x, y = draw_vector(rng, A.shape[1], A.dtype), draw_vector(rng, A.shape[0], A.dtype)
            compared = [
                (A @ x, exact @ x),
                (A.T @ y, exact.T @ y),
                (A.H @ y, exact.conj().T @ y),
                (A.rmatvec(y), exact.conj().T @ y),
                (A.T.T @ x, exact @ x),
                ((A @ A.vectors.put(x)).get(), exact @ x),
                (A.matvec(x, out=np.empty(A.shape[0], A.dtype)), exact @ x),
                (A.matvec(A.vectors.put(x), out=A.y_vectors.empty()).get(), exact @ x),
                (A.H.matvec(A.y_vectors.put(y), out=A.vectors.empty()).get(), exact.conj().T @ y),
                (A @ x[:, None], exact @ x[:, None]),
            ]
            for number, (actual, expected) in enumerate(compared):
                message = f"{entry} {matrix.shape}, case {case}, product {number}"
                np.testing.assert_allclose(actual, expected, atol=1e-12, err_msg=message)


@pytest.mark.parametrize("entry", ENTRIES)
def test_scipys_rectangular_matrices_are_read_with_their_entries(entry):
    rng = np.random.default_rng(3)
    matrix = draw_matrix(rng, entry)
    exact = in_scipy(matrix)
    size = get_entry(entry).size if entry in ("block3", "quaternion") else 1
    given = sp.bsr_array(exact, blocksize=(size, size)) if size > 1 else exact
    A = repro.operator(given, entry="pattern" if entry == "pattern" else None, device=DEVICE)
    assert (A.entry, A.n) == (entry, matrix.n)
    x = draw_vector(rng, A.shape[1], A.dtype)
    np.testing.assert_allclose(A @ x, exact @ x, atol=1e-12)
    again = pickle.loads(pickle.dumps(A))
    np.testing.assert_array_equal(again @ x, A @ x)
    np.testing.assert_array_equal(again.H @ (A @ x), A.H @ (A @ x))


@pytest.mark.parametrize("shape", [(40, 15), (15, 40)])
@pytest.mark.parametrize("dtype", [float, complex])
def test_scipys_solvers_take_the_operator(shape, dtype):
    rng = np.random.default_rng(5)
    exact = sp.random_array(shape, density=0.4, rng=rng).astype(dtype)
    exact = sp.csr_array(exact * (2j if dtype is complex else 1.0) + 9 * sp.eye_array(*shape))
    A = repro.operator(exact, device=DEVICE)
    b = rng.uniform(-1, 1, shape[0]).astype(dtype)  # SciPy adds to b in place
    expected = np.linalg.lstsq(exact.toarray(), b)[0]
    for solver in (lsqr, lsmr):
        x = solver(A, b, atol=1e-14, btol=1e-14, conlim=0)[0]
        np.testing.assert_allclose(x, expected, atol=1e-8)
    largest = svds(A, 3, return_singular_vectors=False, rng=1)
    np.testing.assert_allclose(np.sort(largest), np.linalg.svd(exact.toarray())[1][2::-1], rtol=1e-8)


def test_lengths_are_those_of_rows_and_columns():
    A = repro.operator(sp.csr_array(np.ones((3, 5))), device=DEVICE)
    assert A.vectors.size == 5
    assert A.y_vectors.size == 3
    assert A.H.vectors.size == 3
    for wrong in (np.ones(3), np.ones((3, 1)), A.y_vectors.zeros()):
        with pytest.raises(ReproError, match=r"the wrong (length|size)"):
            A @ wrong
    with pytest.raises(ReproError, match="the wrong size"):
        A.matvec(A.vectors.zeros(), out=A.vectors.zeros())
    with pytest.raises(ReproError, match="the wrong shape"):
        A.matvec(np.ones(5), out=np.ones(5))
    assert (A @ A.vectors.zeros()).shape == (3,)


@pytest.mark.parametrize("shape", [(3, 5), (5, 3)])
@pytest.mark.parametrize(
    ("tuned", "reason"),
    [
        ("ELL-AoS-AoS@rcm/static-64-3", "@rcm"),
        ("Sl-8-AoSoA-AoS@sorted/direct-64-3-w2-u2", "@sorted"),
        ("CSR-AoS-AoS@bisected/static-64-3", "@bisected"),
        ("CSR-AoS-SoA/static-64-3", "SoA"),
        ("Pairs-64-AoSoA-AoS/direct-64-2", "not symmetric: it has"),
    ],
)
def test_layouts_for_square_matrices_say_so(shape, tuned, reason):
    matrix = sp.csr_array(np.full(shape, 1 + 1j))
    with pytest.raises(ReproError, match=rf"{reason}[\s\S]*choose another variant"):
        repro.operator(matrix, tuned, device=DEVICE)


def test_the_fastest_of_a_few_is_found_for_rectangular_matrices():
    matrix = sp.random_array((300, 40), density=0.1, rng=np.random.default_rng(1), format="csr")
    A = repro.operator(matrix, "now", device=DEVICE)
    np.testing.assert_allclose(A @ np.ones(40), matrix @ np.ones(40), atol=1e-12)


@pytest.mark.parametrize("shape", [(3, 5), (5, 3)])
def test_solvers_of_square_matrices_say_what_to_do(shape):
    matrix = sp.csr_array(np.ones(shape))
    A = repro.operator(matrix, device=DEVICE)
    b = np.ones(shape[0])
    for call in (lambda: repro.solve(matrix, b, device=DEVICE), lambda: A.solve(b), A.solver):
        with pytest.raises(ReproError, match=r"not square[\s\S]*to do: [\s\S]*lsqr"):
            call()
    with pytest.raises(ReproError, match=r"square[\s\S]*to do: [\s\S]*lsqr"):
        repro.amg(matrix, device=DEVICE)


def test_gradients_of_rectangular_matrices():
    torch = pytest.importorskip("torch")
    from repro.torch import spmv_values

    dense = np.random.default_rng(1).uniform(-1, 1, (4, 7))
    A = repro.operator(sp.csr_array(dense), device=DEVICE)
    weight = torch.from_numpy(dense)
    for shape in ((7,), (7, 1)):
        x = torch.linspace(-1, 1, 7, dtype=torch.float64).reshape(shape).requires_grad_()
        y = A @ x
        assert y.shape == (4, *shape[1:])
        assert torch.allclose(y, (weight @ x).detach())
        (y**2).sum().backward()
        assert torch.allclose(x.grad, (2 * weight.T @ (weight @ x.detach())).reshape(shape))
        assert torch.autograd.gradcheck(lambda x: A @ x, (x,))
    values = torch.from_numpy(dense.ravel().copy()).requires_grad_()
    x = torch.linspace(-1, 1, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v, x: spmv_values(A, v, x), (values, x))


def test_transposing_twice_is_the_matrix():
    matrix = draw_matrix(np.random.default_rng(2), "quaternion")
    again = transposed(transposed(matrix))
    assert again.shape == matrix.shape
    np.testing.assert_array_equal(again.values, matrix.values)
