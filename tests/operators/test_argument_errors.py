"""Wrong arguments of every public function: `ReproError` that is a `ValueError` or `TypeError`, in few words."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import repro
from repro.errors import MissingFileError, ReproError, ReproErrorOfType, ReproErrorOfValue
from repro.operators.base import OFTEN_CALLED
from repro.operators.runtime import open_runtime
from support.triangulations import hexagonal

pytestmark = pytest.mark.medium

DEVICE = "opencl:0"
MATRIX = sp.csr_array(sp.diags_array([-1.0, 4.0, -1.0], offsets=[-1, 0, 1], shape=(30, 30)))
X = np.ones(30)
MESH = hexagonal(3)
VERTICES = MESH.vertices, MESH.triangles
#: Longest message of a wrong argument, in characters.
MOST = 900


class Thing:
    """An object of no use to any function, with a long text."""

    def __repr__(self) -> str:
        return "thing " * 500


WRONG: dict[str, Any] = {
    "None": None, "object": Thing(), "word": "spam", "long word": "spam " * 500, "bytes": b"spam", "negative": -1,
    "fraction": 1.5, "nan": np.nan, "huge": 10**400, "true": True, "complex": 1j, "list": [1.0, 2.0],
    "long list": list(range(400)), "list of words": ["a", "b"], "ragged": [[1.0], [1.0, 2.0]], "dict": {"a": 1},
    "set": {1, 2}, "function": len, "class": dict, "tuple": (1, 2, 3, 4), "array": np.arange(400.0),
    "cube": np.zeros((3, 3, 3)), "words": np.array(["a"] * 30), "objects": np.array([Thing()] * 30),
    "nans": np.full(30, np.nan), "dense": np.eye(30), "matrix": sp.csr_array(np.eye(7)), "damaged": None,
}  # fmt: skip
WRONG["damaged"] = sp.csr_array(np.eye(30))
WRONG["damaged"].indices = WRONG["damaged"].indices + 40


def subjects() -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Each public function by its name, with arguments that it accepts."""
    A = repro.operator(MATRIX, device=DEVICE)
    ml = repro.amg(MATRIX, refreshable=True, device=DEVICE)
    smooth = repro.siac(VERTICES, 1, [[0.5, 0.5]], device=DEVICE)
    _, plan = repro.spgemm(MATRIX, MATRIX, DEVICE, plan=True)
    grown = repro.DynamicCSR.from_csr(MATRIX, device=DEVICE)
    space = repro.vectors(30, device=DEVICE)
    x, y = space.put(X), space.put(X)
    batch = {"rows": [0], "columns": [0], "values": [1.0]}
    everywhere = {"device": DEVICE}
    end = {"atol": 0.0, "return_info": False}
    return {
        "operator": (repro.operator, {"matrix": MATRIX, "tuned": "default", "entry": None, "precision": None,
                                      "results": "results", **everywhere}),
        "solve": (repro.solve, {"A": MATRIX, "b": X, "method": "cg", "rtol": 1e-8, "maxiter": 50, "x0": X,
                                **end, "M": None,
                                "entry": None, "precision": None, **everywhere}),
        "spgemm": (repro.spgemm, {"a": MATRIX, "b": MATRIX, "sort": False, "format": "csr", "plan": False,
                                  **everywhere}),
        "amg": (repro.amg, {"A": MATRIX, "B": None, "unknowns": 1, "theta": 0.0, "omega": 1.3, "max_levels": 3,
                            "max_coarse": 5, "smoother": "jacobi", "degree": 2, "refreshable": True, **everywhere}),
        "siac": (repro.siac, {"mesh": VERTICES, "degree": 1, "points": [[0.5, 0.5]], "scale": None,
                              "basis": None, "derivative": (0, 0), "matrix": "auto", **everywhere}),
        "vectors": (repro.vectors, {"n": 3, "entry": "real", "precision": "double", "order": "AoS", **everywhere}),
        "DynamicCSR": (repro.DynamicCSR, {"shape": (3, 3), "dtype": np.float64, "segments": 4, "slack": 4,
                                          "capacity": 9, "width": 1, **everywhere}),
        "from_csr": (repro.DynamicCSR.from_csr, {"matrix": MATRIX, "shape": None, "dtype": None, **everywhere}),
        "from_arrays": (repro.DynamicCSR.from_csr, {"matrix": (MATRIX.data, MATRIX.indices, MATRIX.indptr),
                                                    "shape": (30, 30), **everywhere}),
        "A.matvec": (A.matvec, {"x": X, "out": np.ones(30)}),
        "A.matvec on the device": (A.matvec, {"x": x, "out": y}),
        "A.rmatvec": (A.rmatvec, {"x": X, "out": np.ones(30)}),
        "A.solver": (A.solver, {"method": "cg"}),
        "A.solve": (A.solve, {"b": X, "method": "cg", "rtol": 1e-8, "maxiter": 50, "x0": X, **end, "M": None}),
        "ChipSolver.solve": (A.solver().solve, {"b": X, "x0": X, "rtol": 1e-8, "maxiter": 50, **end, "M": None}),
        "ml.solve": (ml.solve, {"b": X, "x0": X, "rtol": 1e-5, "maxiter": 50, "accel": "cg", "residuals": None,
                                **end}),
        "ml.refresh": (ml.refresh, {"A": MATRIX}),
        "smooth.matvec": (smooth.matvec, {"x": np.ones(63), "out": None}),
        "refill": (plan.refill, {"a_values": MATRIX.data, "b_values": MATRIX.data, "out": None}),
        "insert": (grown.insert, {**batch, "mode": "unique", "existing": "replace"}),
        "update": (grown.update, {**batch, "existing": "replace"}),
        "delete": (grown.delete, {"rows": [0], "columns": [0]}),
        "defragment": (grown.defragment, {"slack": 0}),
        "put": (space.put, {"host": X}),
        "get": (space.get, {"vector": x}),
        "axpby": (space.axpby, {"a": 1.0, "x": x, "b": 1.0, "y": y}),
        "dot": (space.dot, {"x": x, "y": y}),
        "norm": (space.norm, {"x": x}),
    }  # fmt: skip


@pytest.fixture(scope="module")
def made() -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return subjects()


NAMES = [
    "operator", "solve", "spgemm", "amg", "siac", "vectors", "DynamicCSR", "from_csr", "from_arrays", "A.matvec",
    "A.matvec on the device", "A.rmatvec", "A.solver", "A.solve", "ChipSolver.solve", "ml.solve", "ml.refresh",
    "smooth.matvec", "refill", "insert", "update", "delete", "defragment", "put", "get", "axpby", "dot", "norm",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_argument_is_a_short_error_that_python_knows(made, name):
    function, accepted = made[name]
    function(**accepted)
    refused = 0
    for argument in accepted:
        for kind, value in WRONG.items():
            try:
                function(**{**accepted, argument: value})
            except (ReproError, ValueError, TypeError) as error:
                refused += 1
                what = name, argument, kind, type(error).__name__, str(error)[:300]
                assert isinstance(error, ReproError), what
                assert isinstance(error, (ValueError, TypeError)), what
                assert len(str(error)) <= MOST, (len(str(error)), *what)
    assert refused > len(accepted)
    function(**accepted)


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_keyword_is_told_with_the_right_ones(made, name):
    function, accepted = made[name]
    if function.__name__ in OFTEN_CALLED - {"dot"}:
        with pytest.raises(TypeError):
            function(**accepted, spam=1)
        return
    with pytest.raises(ReproErrorOfType, match="unknown argument") as refusal:
        function(**accepted, spam=1)
    assert "spam=" in str(refusal.value)
    parameters = [name for name in inspect.signature(function).parameters if name != "self"]
    assert refusal.value.expected == ", ".join(parameters)
    with pytest.raises(ReproErrorOfType, match="wrong arguments"):
        function(*range(20))
    if any(value.default is inspect.Parameter.empty for value in inspect.signature(function).parameters.values()):
        with pytest.raises(ReproErrorOfType, match="missing a required argument"):
            function()


@pytest.mark.parametrize(
    ("call", "near"),
    [
        (lambda: repro.solve(MATRIX, X, max_iter=3), "maxiter"),
        (lambda: repro.solve(MATRIX, X, r_tol=3), "rtol"),
        (lambda: repro.solve(MATRIX, X, tolerance=3), "rtol"),
        (lambda: repro.operator(MATRIX, devise="auto"), "device"),
        (lambda: repro.DynamicCSR((3, 3), segment=3), "segments"),
        (lambda: repro.amg(MATRIX, max_level=3), "max_levels"),
        (lambda: repro.spgemm(MATRIX, MATRIX, sorted=True), "sort"),
    ],
)
def test_the_nearest_right_keyword_is_named(call, near):
    with pytest.raises(ReproErrorOfType, match=f"did you mean {near}"):
        call()


def test_an_error_of_an_argument_keeps_its_class_and_a_mistake_of_ours_its_own():
    error = ReproErrorOfValue("wrong", where="b").at("c")
    assert (type(error), error.where) == (ReproErrorOfValue, "c")
    assert type(MissingFileError("none", path="p").at("c")) is MissingFileError

    from repro.operators.base import public

    @public
    def ours(x: int) -> int:
        return len(x)  # type: ignore[arg-type]

    with pytest.raises(TypeError, match="has no len") as raised:
        ours(1)
    assert not isinstance(raised.value, ReproError)


@pytest.mark.parametrize(
    "value", [np.arange(400.0), list(range(400)), tuple(range(400)), set(range(400)), "x" * 5000, np.ones((20, 20, 5))]
)
def test_a_message_shows_a_part_of_a_large_value(value):
    text = str(ReproError("wrong", expected=value, actual=value, where=value))
    assert len(text) < (3 * 2100 if isinstance(value, str) else 500)
    assert "…" in text
    assert str(ReproError("wrong", actual=(3, 4))) == "wrong\n  actual: (3, 4)"


def test_a_warning_names_the_line_of_the_caller():
    for call in (
        lambda: repro.solve(MATRIX, X, rtol=1e-30, maxiter=1, device=DEVICE),
        lambda: repro.operator(MATRIX, device=DEVICE).solve(X, rtol=1e-30, maxiter=1),
        lambda: repro.amg(MATRIX, device=DEVICE).solve(X, rtol=1e-30, maxiter=1),
    ):
        with pytest.warns(RuntimeWarning, match="did not converge") as told:
            call()
        assert {warning.filename for warning in told} == {__file__}


def test_memory_of_a_device_is_no_argument(monkeypatch):
    runtime = open_runtime(DEVICE)
    monkeypatch.setenv("REPRO_CACHE", "/dev/null/cache")
    with pytest.raises(ReproError) as raised:
        runtime.compiled("kernel", "none")
    assert not isinstance(raised.value, ValueError)
