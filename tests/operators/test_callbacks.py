"""What a callback may do with the operator or hierarchy that is solving."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import repro
from repro.errors import ReproError

pytestmark = [pytest.mark.medium, pytest.mark.filterwarnings("ignore::repro.operators.SlowOnCpuWarning")]
DEVICE = "opencl:0"
LINE = sp.diags_array([-1.0, 2.1, -1.0], offsets=[-1, 0, 1], shape=(300, 300)).tocsr()
#: Its transpose has a matrix of its own.
SKEW = sp.csr_array(LINE + sp.diags_array([0.3], offsets=[1], shape=(300, 300)))
B = LINE @ np.random.default_rng(0).standard_normal(300)
ONES = np.ones(300)


def hierarchy() -> Any:
    return repro.amg(LINE, refreshable=True, device=DEVICE)


def operator() -> Any:
    return repro.operator(LINE, device=DEVICE)


def cycles(ml: Any, **options: Any) -> Any:
    return ml.solve(B, accel=None, **options)


def multigrid(ml: Any, **options: Any) -> Any:
    return ml.solve(B, **options)


def on_chip(A: Any, **options: Any) -> Any:
    return A.solve(B, **options)


def columns(A: Any, **options: Any) -> Any:
    return A.solve(np.stack([B, ONES], 1), **options)[:, 0]


def preconditioned(A: Any, **options: Any) -> Any:
    return A.solve(B, M=sp.eye_array(300), **options)


def transposed(A: Any, **options: Any) -> Any:
    return A.T.solve(B, method="bicgstab", **options)


def skew() -> Any:
    return repro.operator(SKEW, device=DEVICE)


#: What is solved with, how, and a call that would spoil the solve.
REFUSED: dict[str, tuple[Callable[[], Any], Callable[..., Any], Callable[[Any], object]]] = {
    "cycle": (hierarchy, multigrid, lambda ml: ml.aspreconditioner() @ ONES),
    "cycle in cycles": (hierarchy, cycles, lambda ml: ml.aspreconditioner() @ ONES),
    "solve by multigrid": (hierarchy, multigrid, lambda ml: ml.solve(ONES)),
    "solve by cycles": (hierarchy, cycles, lambda ml: ml.solve(ONES)),
    "precondition": (hierarchy, multigrid, lambda ml: operator().solve(ONES, M=ml)),
    "refresh": (hierarchy, multigrid, lambda ml: ml.refresh(LINE)),
    "close the hierarchy": (hierarchy, cycles, lambda ml: ml.close()),
    "solve": (operator, on_chip, lambda A: A.solve(ONES)),
    "solve columns": (operator, columns, lambda A: A.solver().solve(ONES)),
    "update": (operator, on_chip, lambda A: A.update(LINE.data)),
    "update with M": (operator, preconditioned, lambda A: A.update(2 * LINE.data)),
    "update the transpose": (skew, transposed, lambda A: A.update(SKEW.data)),
    "update from the transpose": (operator, on_chip, lambda A: A.T.update(LINE.data)),
    "close": (operator, on_chip, lambda A: A.close()),
    "close with M": (operator, preconditioned, lambda A: A.close()),
    "close the solver": (operator, on_chip, lambda A: A.solver().close()),
    "close the transpose": (skew, transposed, lambda A: A.close()),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_callback_cannot_spoil_its_solve(name: str) -> None:
    make, solve, spoil = REFUSED[name]
    with make() as solver:
        undisturbed = solve(solver)
        seen: list[str] = []

        def callback(x: Any) -> None:
            with pytest.raises(ReproError, match="a running solve uses the object") as caught:
                spoil(solver)
            seen.append(caught.value.message)

        np.testing.assert_array_equal(solve(solver, callback=callback), undisturbed)
        assert seen and "callback" in seen[0]
        with pytest.raises(ReproError, match="a running solve"):  # it also ends the solve
            solve(solver, callback=lambda x: spoil(solver))
        np.testing.assert_array_equal(solve(solver), undisturbed)
        spoil(solver)


#: What is solved with, how, and a call that leaves the solve alone.
ALLOWED: dict[str, tuple[Callable[[], Any], Callable[..., Any], Callable[[Any], object]]] = {
    "product": (operator, on_chip, lambda A: A @ ONES),
    "product with M": (operator, preconditioned, lambda A: A @ ONES),
    "products": (operator, on_chip, lambda A: A @ np.stack([ONES, B], 1)),
    "adjoint": (operator, on_chip, lambda A: A.H @ ONES),
    "vectors": (operator, preconditioned, lambda A: A.vectors.norm(A.vectors.put(ONES))),
    "another method": (operator, on_chip, lambda A: A.solve(ONES, method="bicgstab")),
    "with M": (operator, preconditioned, lambda A: A.solve(ONES, M=sp.eye_array(300))),
    "with M, inside": (operator, on_chip, lambda A: A.solve(ONES, M=sp.eye_array(300))),
    "on the chip, inside M": (operator, preconditioned, lambda A: A.solve(ONES)),
    "copy": (operator, on_chip, lambda A: A.to_scipy()),
    "levels": (hierarchy, multigrid, lambda ml: ml.levels[0].A),
    "matrix": (hierarchy, cycles, lambda ml: ml.to_scipy()),
    "another hierarchy": (hierarchy, multigrid, lambda ml: hierarchy().solve(ONES)),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_a_callback_may_use_what_does_not_change_the_solve(name: str) -> None:
    make, solve, use = ALLOWED[name]
    with make() as solver:
        undisturbed = solve(solver)
        np.testing.assert_array_equal(solve(solver, callback=lambda x: use(solver)), undisturbed)
