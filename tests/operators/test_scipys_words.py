"""Solves take the arguments of SciPy's `cg` by its names, and mean the same by them."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, cg

import repro
from repro.errors import ReproError, ReproErrorOfType, ReproErrorOfValue
from support.persistent_solves import dominant

pytestmark = pytest.mark.medium
DEVICE = "opencl:0"
SECOND = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(20, 20))
GRID = sp.csr_array(sp.kron(SECOND, sp.eye_array(20)) + sp.kron(sp.eye_array(20), SECOND))
GRID = sp.csr_array(GRID + sp.diags_array(np.linspace(0, 9, 400)))
B = np.random.default_rng(3).normal(size=400)
SEVERAL = np.random.default_rng(4).normal(size=(400, 3))
SHARED = {"b", "x0", "rtol", "atol", "maxiter", "M", "callback"}
Solve = Callable[..., Any]


@pytest.fixture(scope="module", name="A")
def operator_of_grid() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return repro.operator(GRID, device=DEVICE)


@pytest.fixture(scope="module")
def ml() -> Any:
    return repro.amg(GRID, max_coarse=20, device=DEVICE)


@pytest.fixture(params=["repro.solve", "A.solve", "solver.solve", "ml.solve"])
def solve(request: pytest.FixtureRequest, A: Any, ml: Any) -> Solve:
    """Return each function that solves, without its matrix."""
    return {
        "repro.solve": lambda *b, **words: repro.solve(GRID, *b, device=DEVICE, **words),
        "A.solve": A.solve,
        "solver.solve": A.solver().solve,
        "ml.solve": ml.solve,
    }[request.param]


def residual(x: Any, b: Any = B) -> Any:
    return np.linalg.norm(b - GRID @ x, axis=0)


@pytest.mark.parametrize("ours", [repro.solve, repro.operators.SpmvOperator.solve, repro.operators.ChipSolver.solve,
                                  repro.operators.MultilevelSolver.solve])  # fmt: skip
def test_arguments_have_scipys_names_places_and_kinds(ours: Solve) -> None:
    theirs, own = inspect.signature(cg).parameters, inspect.signature(ours).parameters
    shared = [name for name in own if name in theirs]
    is_one_itself = ours is repro.operators.MultilevelSolver.solve
    expected = SHARED - ({"M"} if is_one_itself else set())
    assert set(shared) - {"A"} == expected
    assert shared == [name for name in theirs if name in own]
    for name in set(shared) - {"A", "b"}:
        assert own[name].kind is theirs[name].kind
    assert own["atol"].default == theirs["atol"].default == 0.0
    assert "tol" not in own


def test_values_are_scipys(solve: Solve) -> None:
    x, info = solve(B, rtol=1e-10, return_info=True)
    expected, their_info = cg(GRID, B, rtol=1e-10)
    assert info == their_info == 0
    assert type(info) is int
    np.testing.assert_allclose(x, expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(solve(B, rtol=1e-10), x)


@pytest.mark.parametrize(("rtol", "atol"), [(1e-3, 0.0), (0.0, 1e-2), (1e-9, 0.5), (1e-2, 1e-12)])
def test_the_larger_tolerance_counts(solve: Solve, rtol: float, atol: float) -> None:
    limit = max(rtol * np.linalg.norm(B), atol)
    x, info = solve(B, rtol=rtol, atol=atol, return_info=True)
    assert info == 0
    assert residual(x) <= 1.001 * limit
    assert residual(x) > limit / 1000  # and no more is done than is asked for


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_the_absolute_tolerance_is_one_for_b_as_it_is_given(solve: Solve, size: float) -> None:
    x, info = solve(size * B, rtol=0.0, atol=1e-3 * size, return_info=True)
    assert info == 0
    assert residual(x / size) <= 1.001e-3
    assert np.abs(x).max() > 0
    nothing, info = solve(B, rtol=0.0, atol=1e3, return_info=True)
    assert (info, np.abs(nothing).max()) == (0, 0.0)


def test_a_guess_is_the_third_argument_as_in_scipy(solve: Solve) -> None:
    start = cg(GRID, B, rtol=1e-12)[0]
    x, info = solve(B, start, rtol=1e-6, maxiter=0, return_info=True)
    assert info == 0
    np.testing.assert_array_equal(x, start)


def test_too_few_iterations_are_told_by_info_or_by_a_warning(solve: Solve) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x, info = solve(B, rtol=1e-10, maxiter=3, return_info=True)
        assert info == 3
        assert solve(B, rtol=1e-10, maxiter=0, return_info=True)[1] > 0
    with pytest.warns(RuntimeWarning, match="did not converge to 1e-10"):
        np.testing.assert_array_equal(solve(B, rtol=1e-10, maxiter=3), x)


def test_the_callback_has_the_x_of_each_iteration(solve: Solve) -> None:
    seen: list[Any] = []
    x, info = solve(B, rtol=1e-10, maxiter=4, callback=seen.append, return_info=True)
    assert info == len(seen) == 4
    np.testing.assert_array_equal(seen[-1], x)
    residuals = [residual(each) for each in (np.zeros(400), *seen)]
    assert len(set(residuals)) == 5  # copies, not one array
    assert residuals[-1] < residuals[0]
    for count in (1, 3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.testing.assert_allclose(solve(B, rtol=1e-10, maxiter=count), seen[count - 1], rtol=1e-12, atol=1e-14)


def test_a_callback_has_x_in_the_scale_of_b_and_may_use_the_device(solve: Solve, A: Any) -> None:
    seen: list[float] = []
    x = solve(1e-200 * B, rtol=1e-8, callback=lambda x: seen.append(float(np.linalg.norm(B - A @ (x * 1e200)))))
    assert seen[-1] <= 1.1e-8 * np.linalg.norm(B)
    assert residual(x * 1e200) <= 1.1e-8 * np.linalg.norm(B)


def test_an_error_in_a_callback_reaches_the_caller_and_the_next_solve_works(solve: Solve) -> None:
    def fail(_: Any) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        solve(B, callback=fail)
    assert residual(solve(B, rtol=1e-8)) <= 1.01e-8 * np.linalg.norm(B)
    with pytest.raises(ReproErrorOfType, match="not callable"):
        solve(B, callback=3)


def test_a_callback_of_a_device_array_has_one(A: Any, put: Callable[[Any], Any]) -> None:
    seen: list[Any] = []
    x = A.solve(put(B), callback=seen.append)
    np.testing.assert_array_equal(seen[-1].get(), x.get())
    assert (seen[0].get() != x.get()).any()


@pytest.mark.sampled(2)
def test_several_right_hand_sides_are_columns(solve: Solve) -> None:
    x, info = solve(SEVERAL, rtol=1e-10, return_info=True)
    assert (x.shape, info) == ((400, 3), 0)
    for column, b in zip(x.T, SEVERAL.T, strict=True):
        np.testing.assert_array_equal(column, solve(b, rtol=1e-10))
    again, info = solve(SEVERAL, x, rtol=1e-9, maxiter=0, return_info=True)
    assert info == 0
    np.testing.assert_array_equal(again, x)
    np.testing.assert_array_equal(solve(np.asfortranarray(SEVERAL), rtol=1e-10), x)
    np.testing.assert_array_equal(solve(SEVERAL, rtol=1e-10, x0=np.zeros(400)), x)
    one = np.column_stack([np.zeros(400), SEVERAL[:, 0]])
    assert solve(one, rtol=1e-10, maxiter=2, return_info=True)[1] == 2  # the worst column counts
    assert solve(SEVERAL[:, :0]).shape == (400, 0)
    assert solve(SEVERAL[:, :1], rtol=1e-10).shape == (400, 1)


@pytest.mark.parametrize(
    ("b", "words"),
    [
        (SEVERAL.T, {}),
        (np.ones((400, 2, 2)), {}),
        (SEVERAL, {"x0": SEVERAL[:, :2]}),
        (B, {"x0": SEVERAL}),
        (B, {"rtol": -1}),
        (B, {"atol": -1.0}),
        (B, {"atol": "legacy"}),
        (B, {"atol": np.inf}),
        (B, {"return_info": 3}),
    ],
)
def test_what_does_not_fit_is_refused(solve: Solve, b: Any, words: dict[str, Any]) -> None:
    with pytest.raises(ReproError):
        solve(b, **words)


@pytest.mark.parametrize("method", ["cg", "bicgstab"])
def test_preconditioners_are_operators_matrices_and_hierarchies(A: Any, ml: Any, method: str) -> None:
    inverse = 1 / GRID.diagonal()
    plain: list[Any] = []
    A.solve(B, rtol=1e-10, callback=plain.append, M=sp.eye_array(400), method=method)
    for M in (
        sp.diags_array(inverse), np.diag(inverse), LinearOperator((400, 400), matvec=lambda r: inverse * r.ravel()),
        repro.operator(sp.csr_array(sp.diags_array(inverse)), device=DEVICE), ml, ml.aspreconditioner(),
    ):  # fmt: skip
        for call in (
            A.solve,
            A.solver(method).solve,
            lambda *b, **words: repro.solve(GRID, *b, device=DEVICE, **words),
        ):
            words = {} if getattr(call, "__self__", None) is A.solver(method) else {"method": method}
            seen: list[Any] = []
            x, info = call(B, rtol=1e-10, M=M, callback=seen.append, return_info=True, **words)
            assert info == 0
            assert residual(x) <= 1.001e-10 * np.linalg.norm(B)
            assert len(seen) < len(plain)
            np.testing.assert_array_equal(seen[-1], x)


def test_iterations_with_a_preconditioner_are_scipys(A: Any, ml: Any) -> None:
    for M in (sp.diags_array(1 / GRID.diagonal()), ml.aspreconditioner(), sp.eye_array(400)):
        theirs: list[Any] = []
        ours: list[Any] = []
        cg(GRID, B, rtol=1e-6, M=M, callback=lambda x, seen=theirs: seen.append(x.copy()))
        A.solve(B, rtol=1e-6, M=M, callback=ours.append)
        assert len(ours) == len(theirs)
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("method", ["cg", "bicgstab"])
@pytest.mark.parametrize(("entry", "kind"), [("complex", "hermitian"), ("block3", "symmetric"),
                                             ("quaternion", "symmetric")])  # fmt: skip
def test_entries_with_a_preconditioner(as_scipy: Any, method: str, entry: str, kind: str) -> None:
    matrix = as_scipy(dominant(entry, kind, 40))
    n = matrix.shape[0]
    b = np.random.default_rng(2).normal(size=n).astype(matrix.dtype) * (1 + 2j if entry == "complex" else 1)
    M = sp.diags_array(1 / matrix.diagonal())
    x = repro.solve(matrix, b, M=M, method=method, rtol=1e-9, device=DEVICE)
    assert x.dtype == matrix.dtype
    assert np.linalg.norm(b - matrix @ x) <= 1.01e-9 * np.linalg.norm(b)


def test_single_precision_with_a_preconditioner(ml: Any) -> None:
    single = GRID.astype(np.float32)
    for M in (ml, repro.amg(single, max_coarse=20, device=DEVICE)):
        x = repro.solve(single, B, M=M, rtol=1e-5, device=DEVICE)
        assert x.dtype == np.float32
        assert residual(x.astype(np.float64)) <= 1.1e-5 * np.linalg.norm(B)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, info = repro.solve(single, B, M=ml, rtol=0.0, device=DEVICE, return_info=True)  # rounding ends it
    assert 0 < info < 4000


def test_vectors_on_the_device_with_a_preconditioner(A: Any, ml: Any, put: Callable[[Any], Any]) -> None:
    x = A.solve(put(B), put(0 * B), rtol=1e-9, M=ml)
    assert residual(x.get()) <= 1.001e-9 * np.linalg.norm(B)
    np.testing.assert_allclose(x.get(), A.solve(B, rtol=1e-9, M=ml), rtol=1e-7)


def test_unsuitable_preconditioners_are_refused(A: Any) -> None:
    for M, message in (
        (object(), "not a preconditioner"), (sp.eye_array(3), "the wrong shape"), ("ilu", "not a preconditioner"),
        (-sp.eye_array(400), "positive definite"),
    ):  # fmt: skip
        with pytest.raises(ReproError, match=message):
            A.solve(B, M=M)
    with pytest.raises(ReproErrorOfValue, match="broke down"):
        A.solve(B, M=LinearOperator((400, 400), matvec=lambda r: np.nan * r))
    with pytest.raises(ReproErrorOfType, match="unknown argument"):
        repro.amg(GRID, device=DEVICE).solve(B, M=sp.eye_array(400))


def test_the_name_of_a_tolerance_is_suggested(solve: Solve) -> None:
    with pytest.raises(ReproErrorOfType, match="did you mean rtol"):
        solve(B, tol=1e-7)


def test_residuals_of_several_right_hand_sides_follow_each_other(ml: Any) -> None:
    together: list[float] = []
    one: list[float] = []
    other: list[float] = []
    ml.solve(SEVERAL[:, :2], residuals=together)
    ml.solve(SEVERAL[:, 0], residuals=one)
    ml.solve(SEVERAL[:, 1], residuals=other)
    assert together == one + other
