"""Rivals in shared libraries with the functions of `include/repro_rival.h`, called by ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import byref, c_char_p, c_double, c_int32, c_int64, c_void_p
from pathlib import Path
from typing import Any

import numpy as np

from repro.codegen.targets import DTYPES
from repro.config.models import RivalTask
from repro.devices.base import LaunchError, OutOfDeviceMemory
from repro.errors import IncorrectError, ModuleError, Unsupported
from repro.sparse.rivals.problem import FUNCTIONS, RivalArray, RivalBatch, RivalMatrix, RivalProblem, address_of
from repro.untrusted_files import shown

INTERFACE = 1
OK, UNSUPPORTED = 0, 1
TASKS: dict[RivalTask, int] = {"spmv": 0, "spgemm": 1, "solve": 2, "updates": 3}
_ALLOCATE = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_int64)


class CMatrix(ctypes.Structure):
    """The C structure `repro_rival_matrix`."""

    _fields_ = (
        *((name, c_int64) for name in ("rows", "columns", "entries")),
        *((name, c_int32) for name in ("block", "offset_bytes")),
        *((name, c_void_p) for name in ("offsets", "indices", "values")),
    )


class CBatch(ctypes.Structure):
    """The C structure `repro_rival_batch`."""

    _fields_ = (("entries", c_int64), *((name, c_void_p) for name in ("rows", "columns", "values")))


class CProblem(ctypes.Structure):
    """The C structure `repro_rival_problem`."""

    _fields_ = (
        *((name, c_int32) for name in ("interface", "task", "number_bytes", "device")),
        ("stream", c_void_p),
        *((name, CMatrix) for name in ("a", "b", "c")),
        *((name, c_void_p) for name in ("x", "y")),
        ("tolerance", c_double),
        ("iterations", c_int64),
        ("allocate", _ALLOCATE),
        ("harness", c_void_p),
        *((name, c_int64) for name in ("coming", "largest_batch")),
    )


class LibraryRival:
    """A loaded shared library; `ModuleError` if it cannot be loaded or lacks a function that its task needs."""

    def __init__(self, path: Path, task: RivalTask) -> None:
        try:
            library = ctypes.CDLL(str(path.resolve()))
        except OSError as error:
            raise ModuleError(f"the library cannot be loaded: {shown(error)}") from None
        absent = [name for name in FUNCTIONS[task] if not hasattr(library, f"repro_rival_{name}")]
        if absent:
            names = ", ".join(f"repro_rival_{name}" for name in absent)
            raise ModuleError(f'{path} has no function {names}: declare it extern "C", as include/repro_rival.h does')
        self._library = library
        self._problem: CProblem | None = None
        self._rival_problem: RivalProblem | None = None
        self._state = c_void_p()

    @property
    def label(self) -> str:
        """Name and version that the library reports; empty if it reports none."""
        return " ".join(filter(None, (self._text("name"), self._text("version"))))

    def _text(self, name: str) -> str:
        function: Any = getattr(self._library, f"repro_rival_{name}", None)
        if function is None:
            return ""
        function.restype = c_char_p
        return shown((function() or b"").decode(errors="replace"))

    def setup(self, problem: RivalProblem) -> None:
        self._rival_problem, self._problem, self._state = problem, _as_c(problem), c_void_p()
        status = self._library.repro_rival_setup(byref(self._problem), byref(self._state))
        self._raise(status, "set-up")

    def launcher(self, batches: Sequence[RivalBatch] = ()) -> Callable[[], None]:
        assert self._problem is not None
        assert self._rival_problem is not None
        problem, state = byref(self._problem), self._state
        if self._rival_problem.task == "updates":
            update = self._library.repro_rival_update
            addresses = [[address_of(array) for array in (one.rows, one.columns, one.values)] for one in batches]
            c_batches = [byref(CBatch(batch.entries, *at)) for batch, at in zip(batches, addresses, strict=True)]

            def launch_updates() -> None:
                for batch in c_batches:
                    if status := update(problem, state, batch):
                        self._raise(status, "update")

            return launch_updates
        run = self._library.repro_rival_run

        def launch() -> None:
            if status := run(problem, state):
                self._raise(status, "run")

        if self._rival_problem.task != "solve":
            return launch
        whole, max_iterations = self._problem, self._rival_problem.iterations

        def launch_again() -> None:
            whole.iterations = max_iterations
            launch()

        return launch_again

    def collect(self) -> None:
        problem, c_problem = self._rival_problem, self._problem
        if problem is None or c_problem is None:
            return
        problem.iterations = int(c_problem.iterations)
        if problem.task == "updates":
            self._raise(self._library.repro_rival_run(byref(c_problem), self._state), "run")
        if problem.arrays is not None:
            problem.c = _matrix_c(c_problem.c, problem)

    def _raise(self, status: int, function: str) -> None:
        if status == OK:
            return
        reason = self._text("error")
        if status == UNSUPPORTED:
            raise Unsupported(reason or "it does not say why")
        if "out of memory" in reason.lower():
            raise OutOfDeviceMemory(reason)
        raise LaunchError(f"{function} returned {status}: {reason or 'it does not say why'}")

    def teardown(self) -> None:
        problem, self._problem = self._problem, None
        if problem is not None and self._state:
            self._library.repro_rival_teardown(byref(problem), self._state)
        self._state = c_void_p()


def _as_c(problem: RivalProblem) -> CProblem:
    """Return the C structure of a problem; it refers to the arrays of `problem`."""
    c_problem = CProblem(
        interface=INTERFACE,
        task=TASKS[problem.task],
        number_bytes=np.dtype(DTYPES[problem.precision]).itemsize,
        device=-1 if problem.device is None else problem.device,
        stream=problem.stream or None,
        a=_matrix(problem.a),
        x=None if problem.x is None else address_of(problem.x),
        y=None if problem.y is None else address_of(problem.y),
        tolerance=problem.tolerance,
        iterations=problem.iterations,
        coming=problem.coming,
        largest_batch=problem.largest_batch,
    )
    if problem.b is not None:
        c_problem.b = _matrix(problem.b)
    arrays = problem.arrays

    def allocate(harness: int | None, nbytes: int) -> int | None:
        try:
            assert arrays is not None
            return address_of(arrays.allocate_result(nbytes)) if nbytes >= 0 else None
        except (OutOfDeviceMemory, MemoryError):
            return None

    c_problem.allocate = _ALLOCATE(allocate)
    return c_problem


def _matrix_c(c: CMatrix, problem: RivalProblem) -> tuple[RivalArray, RivalArray, RivalArray]:
    """Return the arrays of the matrix that a run has reported; raise `IncorrectError` if they cannot be a matrix."""
    assert problem.arrays is not None
    if c.offset_bytes not in (4, 8) or c.entries < 0 or not (c.offsets and (not c.entries or (c.indices and c.values))):
        raise IncorrectError("c is not all there: entries, offset_bytes and three arrays")
    offset, number = np.dtype(f"i{c.offset_bytes}"), np.dtype(DTYPES[problem.precision])
    rows, entries = problem.a.shape[0], int(c.entries)
    places = ((c.offsets, rows + 1, offset), (c.indices, entries, np.dtype(np.int32)), (c.values, entries, number))
    offsets, indices, values = (problem.arrays.at(place, (count,), dtype) for place, count, dtype in places)
    return offsets, indices, values


def _matrix(matrix: RivalMatrix) -> CMatrix:
    offsets, indices, values = (address_of(array) for array in (matrix.offsets, matrix.indices, matrix.values))
    numbers = matrix.shape[0], matrix.shape[1], matrix.entries, matrix.block, matrix.offsets.dtype.itemsize
    return CMatrix(*numbers, offsets, indices, values)
