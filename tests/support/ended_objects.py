"""Uses everything of public objects after their end, in a process of its own: `python -m support.ended_objects`.

It prints one line for each use: the object, the use, and the class of the error or the value's text.
"""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

import repro
from repro.errors import ReproError
from repro.operators.runtime import open_runtime
from support.triangulations import hexagonal

DEVICE = "opencl:0"
MATRIX = sp.csr_array(np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 0.0], [2.0, 0.0, 5.0]]))


def ended_operator() -> Any:
    A = repro.operator(MATRIX, device=DEVICE)
    A @ np.ones(3)
    A.close()
    return A


def ended_transpose() -> Any:
    A = repro.operator(MATRIX, device=DEVICE)
    with A.T as transpose:
        transpose @ np.ones(3)
    return transpose


def transpose_of_an_ended_operator() -> Any:
    with repro.operator(MATRIX, device=DEVICE) as A:
        return A.T


def ended_solver() -> Any:
    with repro.operator(MATRIX, device=DEVICE).solver("bicgstab") as solver:
        solver.solve(np.ones(3))
    return solver


def ended_filter() -> Any:
    mesh = hexagonal(3)
    with repro.siac((mesh.vertices, mesh.triangles), 1, [[0.5, 0.5]], device=DEVICE) as smooth:
        smooth @ np.ones(smooth.shape[1])
    return smooth


def ended_plan() -> Any:
    plan = repro.spgemm(MATRIX, MATRIX, DEVICE, plan=True)[1]
    plan.refill()
    plan.close()
    return plan


def ended_hierarchy() -> Any:
    with repro.amg(MATRIX + MATRIX.T, refreshable=True, device=DEVICE) as ml:
        ml.solve(np.ones(3))
    return ml


def ended_matrix_that_grows() -> Any:
    with repro.DynamicCSR.from_csr(MATRIX, device=DEVICE) as grown:
        grown @ np.ones(3)
    return grown


def ended_reader() -> Any:
    with repro.DynamicCSR.from_csr(MATRIX, device=DEVICE).reader() as reader:
        reader @ np.ones(3)
    return reader


def released_array() -> Any:
    array = open_runtime(DEVICE).put(np.ones(3))
    array.buffer.release()
    return array


ENDED: dict[str, Callable[[], Any]] = {
    make.__name__: make
    for make in (
        ended_operator, ended_transpose, transpose_of_an_ended_operator, ended_solver, ended_filter, ended_plan,
        ended_hierarchy, ended_matrix_that_grows, ended_reader, released_array,
    )
}  # fmt: skip
#: Uses that compute with the matrix: after the end they have to raise `ReproError`.
COMPUTING = {"matvec", "rmatvec", "matmat", "rmatmat", "dot", "@", "()", "solve", "refill", "get"}


def uses(thing: Any) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield each use by its name."""
    n = getattr(thing, "shape", (3, 3))[-1]
    x, several = np.ones(n), np.ones((n, 2))
    for name in sorted({*dir(type(thing)), *vars(thing)}):
        if name.startswith("_"):
            continue
        yield f".{name}", lambda name=name: getattr(thing, name)
        if callable(getattr(type(thing), name, None)):
            arguments = {"matmat": (several,), "rmatmat": (several,), "refill": (), "get": ()}.get(name)
            for given in ((), (x,)) if arguments is None else (arguments,):
                yield name, lambda name=name, given=given: getattr(thing, name)(*given)
    yield from {
        "repr": lambda: repr([thing]), "str": lambda: f"{thing}", "copy": lambda: copy.copy(thing),
        "deepcopy": lambda: copy.deepcopy(thing), "pickle": lambda: pickle.dumps(thing), "iter": lambda: list(thing),
        "len": lambda: len(thing), "==": lambda: operator.eq(thing, thing), "hash": lambda: hash(thing) != 0,
        "bool": lambda: bool(thing), "with": lambda: type(thing).__enter__(thing), "@": lambda: thing @ x,
        "x @": lambda: x @ thing, "()": lambda: thing(x), "2 *": lambda: 2 * thing, "+": lambda: thing + thing,
        "product of a sum": lambda: operator.matmul(thing + thing, x), "asarray": lambda: np.asarray(thing),
    }.items()  # fmt: skip


def main() -> None:
    for subject, make in ENDED.items():
        thing = make()
        for name, use in uses(thing):
            try:
                said = f"value {use()!r}"
            except ReproError as error:
                said = f"told {error}"
            except (AttributeError, NotImplementedError, TypeError, ValueError) as error:
                said = f"{type(error).__name__} {error}"
            print(subject, name, said.replace("\n", " | "), sep="\t", flush=True)


if __name__ == "__main__":
    main()
