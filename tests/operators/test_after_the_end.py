"""Public objects after `close`, `release` or their `with` block: a value or a message, never a crash or old numbers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import repro
from repro.errors import ReproError
from repro.operators.runtime import open_runtime
from support.ended_objects import COMPUTING, ENDED, ended_filter, ended_operator, ended_plan, ended_solver

pytestmark = pytest.mark.medium

DEVICE = "opencl:0"
LINE = sp.diags_array([-1.0, 2.5, -1.5], offsets=[-1, 0, 1], shape=(40, 40)).tocsr()
B = np.arange(40.0)


@pytest.fixture(scope="module")
def said() -> list[list[str]]:
    """What each use of each ended object said, from a process of its own, which a crash would end."""
    tests = Path(__file__).parents[1]
    quickly_compiled = {"PYOPENCL_BUILD_OPTIONS": "-cl-opt-disable"}  # a third of the time
    path = os.pathsep.join([str(tests), *filter(None, [os.environ.get("PYTHONPATH")])])
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "support.ended_objects"],
        capture_output=True, text=True, check=False, timeout=600, cwd=tests,
        env={**os.environ, **quickly_compiled, "PYTHONPATH": path},
    )  # fmt: skip
    assert run.returncode == 0, f"status {run.returncode} after {run.stdout.splitlines()[-1:]}: {run.stderr[-2000:]}"
    return [line.split("\t") for line in run.stdout.splitlines()]


def test_no_use_of_an_ended_object_ends_the_process(said):
    assert {subject for subject, *_ in said} == set(ENDED)


def test_what_computes_is_refused_in_words(said):
    computed = [(subject, use, word) for subject, use, word in said if use in COMPUTING]
    assert len(computed) > 20
    for subject, use, word in computed:
        assert not word.startswith("value"), (subject, use, word)
    refusals = {subject for subject, _, word in computed if "closed" in word or "released" in word}
    assert refusals == set(ENDED)


def test_no_memory_is_reported_that_was_freed(said):
    sizes = {(subject, use): word for subject, use, word in said if use in (".nbytes", ".kept")}
    del sizes["released_array", ".nbytes"]  # that of its shape
    assert len(sizes) >= 6
    assert set(sizes.values()) == {"value 0"}


def test_the_text_of_an_ended_object_says_so(said):
    texts = [word for subject, use, word in said if use == "repr" and subject != "released_array"]
    assert len(texts) == len(ENDED) - 1
    assert all("closed" in text or "released" in text for text in texts)


@pytest.mark.parametrize("make", [ended_operator, ended_solver, ended_filter])
def test_a_second_close_has_no_effect(make):
    thing = make()
    thing.close()
    assert thing.closed
    with pytest.raises(ReproError, match="closed"):
        thing.solve(B[:3]) if hasattr(thing, "solve") else thing @ np.ones(thing.shape[1])


def test_a_second_release_has_no_effect():
    plan = ended_plan()
    plan.close()
    assert plan.nbytes == 0


@pytest.mark.parametrize("method", ["cg", "bicgstab"])
def test_a_closed_solver_is_made_anew(method):
    matrix = LINE if method == "bicgstab" else sp.csr_array(LINE + LINE.T)
    with repro.operator(matrix, device=DEVICE) as A:
        with A.solver(method) as first:
            expected = first.solve(B)
        assert A.solver(method) is not first
        assert A.solver(method) is A.solver(method)
        for x in (A.solve(B, method=method), repro.solve(A, B, method=method), A.solver(method).solve(B)):
            np.testing.assert_array_equal(x, expected)
        with pytest.raises(ReproError, match="closed"):
            first.solve(B)


def test_a_closed_transpose_is_made_anew():
    with repro.operator(LINE, device=DEVICE) as A:
        for _ in range(2):
            with A.T as transpose, transpose.solver("bicgstab") as solver:
                np.testing.assert_allclose(transpose @ B, LINE.T @ B)
                np.testing.assert_allclose(LINE.T @ solver.solve(B), B, atol=1e-6)
            np.testing.assert_allclose(A.rmatvec(B), LINE.T @ B)
            np.testing.assert_allclose(A.T.T @ B, LINE @ B)
            assert A.T is not transpose


def test_released_memory_is_refused_by_each_use():
    runtime = open_runtime(DEVICE)
    space = repro.vectors(3, device=DEVICE)
    x, y = runtime.put(np.ones(3)), runtime.put(np.ones(3))
    y.buffer.release()
    y.buffer.release()
    with repro.operator(sp.eye_array(3).tocsr(), device=DEVICE) as A:
        for use in (
            y.get, lambda: A @ y, lambda: A.matvec(x, out=y), lambda: space.dot(x, y), lambda: space.axpby(1, y, 1, x),
            lambda: space.get(y), lambda: A.solve(y),
        ):  # fmt: skip
            with pytest.raises(ReproError, match="released"):
                use()
        np.testing.assert_array_equal(A @ np.ones(3), np.ones(3))
