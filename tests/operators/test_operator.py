import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator, cg, eigsh

import repro
from repro.entries import entries
from repro.errors import ReproError, Unsupported
from repro.sparse.compound.device_packing import DevicePacker
from support.matrices import draw

pytestmark = pytest.mark.medium

DEVICE = "opencl:0"
ENTRIES = sorted(entries())
TOLERANCE = {"single": 1e-4, "double": 1e-12}
VARIANTS = [
    "default",
    "Sl-16-SoA-SoA/dynamic-32-2",
    "ELL-AoS-AoS@rcm/static-64-3",
    "Sl-8-AoSoA-SoA@sorted/direct-64-3-w2-u2",
]


#: That a matrix of ones is to be taken for a pattern has to be said.
ASKED = {"pattern": "pattern"}


@pytest.fixture
def spd():
    """A symmetric, positive definite matrix of 3×3 blocks."""
    half = sp.random_array((60, 60), density=0.05, rng=np.random.default_rng(2))
    return sp.bsr_array(half @ half.T + sp.eye_array(60), blocksize=(3, 3))


@pytest.mark.sampled(8)
@pytest.mark.slow
@pytest.mark.parametrize("tuned", VARIANTS)
@pytest.mark.parametrize("entry", ENTRIES)
def test_a_matrix_is_multiplied_as_scipy_does(small_problem, as_scipy, entry, tuned):
    matrix = as_scipy(small_problem(entry))
    A = repro.operator(matrix, tuned, entry=ASKED.get(entry), device=DEVICE)
    x = draw(matrix.shape[1], matrix.dtype)
    assert A.shape == matrix.shape
    assert A.dtype == matrix.dtype
    assert A.entry == entry
    for y in (A @ x, A.matvec(x), A(x), A * x, A.matvec(x[:, None])[:, 0]):
        np.testing.assert_allclose(y, matrix @ x, atol=1e-12)
    several = np.stack([x, 2 * x, draw(len(x), matrix.dtype, 5)], axis=1)
    np.testing.assert_allclose(A @ several, matrix @ several, atol=1e-12)


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("entry", ENTRIES)
def test_a_problem_and_its_matrix_give_the_same_in_both_precisions(small_problem, as_scipy, entry, precision):
    problem = small_problem(entry)
    matrix = as_scipy(problem)
    narrow = {"f": np.float32, "c": np.complex64}[matrix.dtype.kind]
    given = matrix if precision == "double" else matrix.astype(narrow)
    A, B = (
        repro.operator(given, entry=ASKED.get(entry), device=DEVICE),
        repro.operator(problem, precision=precision, device=DEVICE),
    )
    assert A.precision == B.precision == precision
    x = draw(A.shape[1], A.dtype)
    np.testing.assert_array_equal(A @ x, B @ x)
    np.testing.assert_allclose(A @ x, matrix @ x, atol=TOLERANCE[precision])


def test_a_complex_vector_can_be_multiplied_by_a_real_matrix(spd):
    x = draw(60, complex)
    np.testing.assert_allclose(repro.operator(spd, device=DEVICE) @ x, spd @ x, atol=1e-12)


def test_blocks_of_three_are_found_in_a_csr_matrix_if_asked_for(spd):
    rows = sp.csr_array(spd)
    x = draw(60, float)
    assert repro.operator(rows, device=DEVICE).entry == "real"
    A = repro.operator(rows, entry="block3", device=DEVICE)
    assert (A.entry, A.n) == ("block3", 20)
    np.testing.assert_allclose(A @ x, spd @ x, atol=1e-12)


def test_duplicates_and_unsorted_columns_are_taken_as_scipy_takes_them():
    matrix = sp.csr_array(
        (np.array([1.0, 2.0, 3.0, 4.0]), np.array([2, 0, 2, 1]), np.array([0, 3, 3, 4])), shape=(3, 3)
    )
    before = matrix.data.copy(), matrix.indices.copy()
    x = draw(3, float)
    np.testing.assert_allclose(repro.operator(matrix, device=DEVICE) @ x, matrix @ x)
    np.testing.assert_array_equal(matrix.data, before[0])
    np.testing.assert_array_equal(matrix.indices, before[1])


def test_scipys_solvers_take_it(spd):
    A = repro.operator(spd, device=DEVICE)
    b = draw(60, float)
    x, failed = cg(A, b, rtol=1e-10)
    assert failed == 0
    np.testing.assert_allclose(spd @ x, b, atol=1e-8)
    largest = eigsh(A, k=1, return_eigenvectors=False)
    np.testing.assert_allclose(largest, np.linalg.eigvalsh(spd.toarray())[-1:], rtol=1e-8)
    np.testing.assert_allclose((A + aslinearoperator(sp.eye_array(60))) @ b, spd @ b + b, atol=1e-12)


def test_arrays_on_the_device_stay_there(spd):
    A = repro.operator(spd, device=DEVICE)
    x = draw(60, float)
    on_device = A.vectors.put(x)
    y = A @ on_device
    assert type(y) is type(on_device)
    np.testing.assert_allclose(np.asarray(y), spd @ x, atol=1e-12)
    out = A.vectors.empty()
    assert A.matvec(on_device, out=out) is out
    np.testing.assert_array_equal(out.get(), y.get())
    host = np.empty(60)
    assert A.matvec(x, out=host) is host
    np.testing.assert_array_equal(host, y.get())


@pytest.mark.parametrize("tuned", VARIANTS)
def test_operator_packs_the_matrix_once(spd, monkeypatch, tuned):
    packed = []
    pack = DevicePacker.pack
    monkeypatch.setattr(DevicePacker, "pack", lambda *arguments: packed.append(1) or pack(*arguments))
    A = repro.operator(spd, tuned, device=DEVICE)
    for seed in range(3):
        x = draw(60, float, seed)
        np.testing.assert_allclose((A @ A.vectors.put(x)).get(), spd @ x, atol=1e-12)
    assert len(packed) == 1


@pytest.mark.wording
def test_a_variant_that_cannot_hold_the_matrix_is_one_message(spd, monkeypatch):
    def pack(*arguments):
        raise Unsupported("too large for 32-bit indices")

    monkeypatch.setattr(DevicePacker, "pack", pack)
    with pytest.raises(ReproError, match=r"cannot hold the matrix[\s\S]*too large[\s\S]*another variant"):
        repro.operator(spd, device=DEVICE)


def test_what_does_not_fit_is_refused(spd):
    A = repro.operator(spd, device=DEVICE)
    x = A.vectors.put(np.ones(60))
    single = repro.operator(spd.astype(np.float32), device=DEVICE)
    with pytest.raises(ReproError, match="the wrong dtype"):
        single.matvec(x)
    with pytest.raises(ReproError, match="overlap"):
        A.matvec(x, out=x)
    with pytest.raises(ReproError, match="same place"):
        A.matvec(x, out=np.empty(60))
    with pytest.raises(ReproError, match="same place"):
        A.matvec(np.empty(60), out=x)
    with pytest.raises(ReproError, match="the wrong size"):
        repro.operator(sp.bsr_array(sp.eye_array(30), blocksize=(3, 3)), device=DEVICE).matvec(x)
    with pytest.raises(ValueError, match="the wrong length"):
        A @ np.ones(59)


@pytest.mark.parametrize(
    ("matrix", "options", "message"),
    [
        (np.eye(3), {}, "not a sparse matrix"),
        ("plate.mtx", {}, "scipy.io.mmread"),
        (Path("plate.mtx"), {}, "scipy.io.mmread"),
        (sp.csr_array((3, 4)), {}, "no entries"),
        (sp.csr_array((3, 3)), {}, r"no entries[\s\S]*DynamicCSR"),
        (sp.csr_array(np.diag([1.0, np.nan])), {}, "NaN"),
        (sp.eye_array(4, format="csr"), {"entry": "block3"}, r'where: matrix\n[\s\S]*entry="real"'),
        (sp.bsr_array(np.ones((4, 4)), blocksize=(4, 4)), {}, "not a quaternion matrix"),
        (sp.eye_array(3, dtype=complex, format="csr"), {"entry": "real"}, "does not match the entry"),
        (sp.eye_array(3, format="csr"), {"entry": "octonion"}, "unknown entry"),
        (sp.eye_array(3, format="csr"), {"precision": "half"}, "unknown precision"),
        (sp.eye_array(3, format="csr"), {"tuned": "best"}, "unknown choice of a kernel"),
        (sp.eye_array(3, format="csr"), {"tuned": "dfault"}, r"dfault; did you mean default\?"),
        (sp.eye_array(3, format="csr"), {"tuned": "CSR-AoS-AoS/static-1024-2"}, r"does not support[\s\S]*GPU"),
        (sp.eye_array(3, format="csr"), {"tuned": "CSR-AoS-AoS"}, "actual: only a layout"),
        (sp.eye_array(3, format="csr"), {"tuned": "no_such:thing"}, "no such campaign"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_matrix_or_a_wish_that_cannot_be_is_one_message(matrix, options, message):
    with pytest.raises(ReproError, match=message):
        repro.operator(matrix, device=DEVICE, **options)


def test_importing_the_package_imports_no_solver():
    code = "import sys, repro; print(repro.__version__, 'scipy' in sys.modules, 'numpy' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.split()[1:] == ["False", "False"]
