"""Rivals as runnables: prepared, verified, timed and released like our kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from random import SystemRandom
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.bench.rows import OUTSIDE
from repro.bench.runnable import Runnable, Workspace, not_prepared
from repro.bench.worker import ContextLost, Watchdog, restart
from repro.config.models import Rival
from repro.containment import Containment, text_of
from repro.devices.base import Buffer, Device
from repro.errors import IncorrectError
from repro.sparse.expansions import Bsr, real_expansion, to_bsr
from repro.sparse.operands import ProductRunnable, operands_of
from repro.sparse.rivals.files import rival_identity
from repro.sparse.rivals.forms import (
    RivalBackend,
    compile_source,
    compile_without_gpu,
    foreign,
    open_form,
    translated_error,
)
from repro.sparse.rivals.problem import (
    NAN_BYTE,
    RivalArray,
    RivalArrays,
    RivalBatch,
    RivalProblem,
    as_array,
    give_matrix,
)

#: Time limit in seconds for a rival's teardown.
TEARDOWN_SECONDS = 60.0
#: By what the operand is multiplied between timed launches, and so its result, without rounding.
FACTORS = (1.0, -1.0, 0.5, -0.5)
#: Bytes that overwrite a result between timed launches: as floating-point numbers they are 0, about 1, and about -30.
RESULT_BYTES = (0x00, 0x3F, 0xC0)
_RANDOM = SystemRandom()  # a rival must not foresee it


class RivalRunnable(Runnable):
    """Base class for rivals of all tasks: loading, set-up, access to the result, and teardown."""

    kind = OUTSIDE

    def __init__(self, rival: Rival) -> None:
        self.rival = rival
        self.name = f"rival/{rival.name}"
        if rival.waits:
            self.clocks = ("host",)
        self.launch = not_prepared
        self._form: RivalBackend | None = None
        self._arrays: RivalArrays | None = None
        self._problem_of_rival: RivalProblem | None = None
        self._told_problem: RivalProblem | None = None
        self._label = ""
        self.containment: Containment = Containment(self.name)
        #: The vector of its result, and its buffer on a GPU; None if its result is a matrix.
        self._y: tuple[RivalArray, Buffer | None] | None = None
        #: The operand that `disturb` multiplies, with its content and its name; None if there is none.
        self._scaled: tuple[RivalArray, NDArray[Any], str] | None = None
        self._factor = 1.0
        #: What the next calls of `disturb` fill the result with; None leaves it.
        self._fillings: list[int | None] = []
        #: Seconds that its last set-up took.
        self.setup_seconds: float | None = None

    @cached_property
    def identity(self) -> str:
        return rival_identity(self.rival)

    @property
    def label(self) -> str:
        """Name in the configuration, followed by the name that the rival reports once it is prepared."""
        return f"{self.rival.name} ({self._label})" if self._label else self.rival.name

    def pack(self, workspace: Workspace) -> None:
        """Compile the rival's source, while other processes may use the device; without a GPU, to find its errors."""
        if self.rival.source is None:
            return
        precision, block = workspace.operands.precision, self._block(workspace)
        if workspace.device.backend == "cuda":
            compile_source(self.rival, workspace.device.target, precision, block)
        else:
            compile_without_gpu(self.rival, precision, block)

    def failure_of(self, error: BaseException) -> BaseException:
        return translated_error("it", error)

    def prepare(self, workspace: Workspace) -> None:
        self.release()
        self.containment.states = (*workspace.device.states,)
        with self.contained():
            self._prepare(workspace)

    def _prepare(self, workspace: Workspace) -> None:
        device = workspace.device
        form = open_form(self.rival, device, workspace.operands.precision, self._block(workspace))
        self._label = form.label
        self._factor, self._scaled = 1.0, None
        self._arrays = arrays = RivalArrays(device, workspace.guards)
        self._problem_of_rival = problem = self._problem(workspace, arrays)
        #: What the harness reads, since the rival may change its own copy.
        self._told_problem = replace(problem)
        device.synchronize()
        self._form = form  # from here on, the rival has to be torn down
        start = perf_counter()
        form.setup(problem)
        device.synchronize()
        self.setup_seconds = perf_counter() - start
        self._set_launch(form)

    def _set_launch(self, form: RivalBackend) -> None:
        self.launch = form.launcher()

    def rounds(self, launches: int) -> list[int]:
        """Split timed launches into rounds of lengths that the rival cannot foresee, one of them of one launch."""
        if launches < 3:
            return [launches]
        lengths = [1, first := _RANDOM.randint(1, launches - 2), launches - 1 - first]
        _RANDOM.shuffle(lengths)
        return lengths

    def disturb(self) -> str | None:
        """Change an operand if a rival must read it in each run; overwrite the last result, or leave it as it is.

        Return what was done.
        """
        if self._arrays is None or self._form is None:
            return None
        if self._scaled is None:
            return "its result was overwritten" if self._overwrite_result(_RANDOM.choice(RESULT_BYTES)) else None
        array, content, name = self._scaled
        self._factor = _RANDOM.choice([factor for factor in FACTORS if factor != self._factor])
        self._arrays.rewrite(array, content * content.dtype.type(self._factor))
        if not self._fillings:
            self._fillings = [None, _RANDOM.choice(RESULT_BYTES)]
            _RANDOM.shuffle(self._fillings)
        if (byte := self._fillings.pop()) is None:
            return f"{name} was changed and its result left as it was"
        self._overwrite_result(byte)
        return f"{name} was changed and its result overwritten"

    def _overwrite_result(self, byte: int) -> bool:
        """Fill the memory of the last result with a byte; return whether there is such memory."""
        if self._y is None or self._arrays is None:
            return False
        self._arrays.fill(*self._y, byte)
        return True

    @contextmanager
    def as_left(self) -> Iterator[None]:
        """Let launches do nothing in the body, so that a check is one of the last timed launch's result."""
        launch, self.launch = self.launch, lambda: None
        self.before = lambda: None  # type: ignore[method-assign]
        try:
            yield
        finally:
            self.launch = launch
            del self.before

    def _block(self, workspace: Workspace) -> int:
        """Return the block size of the rival's matrix."""
        raise NotImplementedError

    def _problem(self, workspace: Workspace, arrays: RivalArrays) -> RivalProblem:
        """Return the input of the rival, with copies of the operands."""
        raise NotImplementedError

    def _common_fields(self, workspace: Workspace, arrays: RivalArrays) -> dict[str, Any]:
        """Return the fields of a `RivalProblem` that rivals of all tasks receive."""
        return {
            "task": self.rival.of,
            "precision": workspace.operands.precision,
            "stream": arrays.stream if arrays.on_gpu else None,
            "device": int(getattr(workspace.device, "ordinal", 0)) if arrays.on_gpu else None,
        }

    def release(self) -> None:
        """Tear the rival down. Its times stay valid if that fails, or changes what cannot be put back.

        Raises `ContextLost`: it changed what cannot be put back: only a new process can go on.
        """
        self.launch = not_prepared
        form, self._form = self._form, None
        arrays, self._arrays = self._arrays, None
        self._told_problem = self._problem_of_rival = None
        if form is not None:

            def expired() -> None:
                restart(f"{self.name} did not end its teardown within {TEARDOWN_SECONDS:g} s")

            with Watchdog(TEARDOWN_SECONDS) as watchdog, watchdog.guard(expired), self.kept_apart(self.containment):
                try:
                    with foreign("teardown"):
                        form.teardown()
                except Exception as error:  # its memory is lost until this process ends
                    self.warn(f"warning: {self.name}: {text_of(error)}")
            self.containment.note_threads()
        if arrays is not None:
            arrays.release()
        if form is not None and self.containment.beyond_repair:
            raise ContextLost(f"{self.name}, whose teardown {self.containment.beyond_repair}")


class RivalProduct(RivalRunnable, ProductRunnable):
    """A product y = A x by a rival; compound entries of the matrix are expanded to real numbers."""

    def __init__(self, rival: Rival, entry: str) -> None:
        super().__init__(rival)
        self._representation = real_expansion(entry)
        self.arrangement = f"{self._representation.arrangement}@natural"
        self._device: Device | None = None
        self._uploaded: Buffer | None = None

    @property
    def columns(self) -> dict[str, Any]:
        columns = {
            "ordering": "natural",
            "routine": self.label,
            "format": self.rival.format,
            "representation": self._representation.name,
            "papers_choice": False,
            "matrix_bytes": self.matrix_bytes or None,
        }
        return columns if self.setup_seconds is None else {**columns, "preprocess": self.setup_seconds}

    def _block(self, workspace: Workspace) -> int:
        return self._representation.size if self.rival.format == "bsr" else 1

    def _problem(self, workspace: Workspace, arrays: RivalArrays) -> RivalProblem:
        operands = operands_of(workspace)
        bsr = to_bsr(operands.problem, self._representation, operands.dtype)
        a, self.matrix_bytes = give_matrix(arrays, self.rival, bsr, operands.problem.shape[1], "the matrix")
        x = arrays.give(operands.x.ravel(), "x")
        self._scaled = x, operands.x.ravel(), "x"
        self._device = workspace.device
        self._y = y, _ = arrays.empty((a.shape[0],), operands.dtype, "its result")
        self.bytes_moved = self.matrix_bytes + operands.dtype.itemsize * sum(a.shape)
        return RivalProblem(**self._common_fields(workspace, arrays), a=a, x=x, y=y)

    def erase_result(self, workspace: Workspace) -> None:
        self._overwrite_result(NAN_BYTE)

    def result(self) -> Buffer | None:
        """Return y for the study's x; on the CPU, and for a multiple of this x, it is uploaded to a new buffer.

        Only verification calls this, so it also checks that the rival has not changed the matrix and x.
        """
        if self._y is None or self._arrays is None or self._device is None:
            return None
        self._arrays.check_read_only()
        array, buffer = self._y
        if buffer is not None and self._factor == 1:
            return buffer
        self._drop_upload()
        y = self._arrays.read(array)
        self._uploaded = self._device.upload(y / y.dtype.type(self._factor))
        return self._uploaded

    def arrange(self, values: NDArray[Any]) -> NDArray[Any]:
        return self._representation.arrange(values)

    def _drop_upload(self) -> None:
        upload, self._uploaded = self._uploaded, None
        if upload is not None:
            upload.release()

    def release(self) -> None:
        super().release()
        self._drop_upload()
        self._y = None


class RivalWithMatrix(RivalRunnable):
    """A rival whose result is a matrix C, in arrays that it requests or allocates itself."""

    def _block(self, workspace: Workspace) -> int:
        return 1

    def before(self) -> None:
        """Make the memory of the last result available to the next run."""
        if self._arrays is not None:
            self._arrays.reuse_results()

    def result(self) -> sp.csr_array:
        """Wait, and return the last result; raise `IncorrectError` if it is not a valid CSR matrix."""
        problem, problem_of_rival = self._told_problem, self._problem_of_rival
        assert self._arrays is not None
        assert self._form is not None
        assert problem is not None
        assert problem_of_rival is not None
        self._form.collect()
        self._arrays.check_read_only()
        if problem_of_rival.c is None:
            raise IncorrectError("it set no result: c is None")
        with foreign("reading c"):
            offsets, indices, values = (self._arrays.read(as_array(array)) for array in problem_of_rival.c)
        rows, columns = problem.a.shape[0], (problem.b or problem.a).shape[1]
        fits = offsets.shape == (rows + 1,) and indices.shape == values.shape == (int(offsets[-1]),)
        if not fits or offsets[0] != 0 or (np.diff(offsets) < 0).any():
            raise IncorrectError("the offsets of c do not ascend from 0 to the number of its entries")
        if len(indices) and not 0 <= indices.min() <= indices.max() < columns:
            raise IncorrectError("columns of c are out of range")
        if values.dtype != problem.a.values.dtype:
            raise IncorrectError(f"values of c are {values.dtype}, not {problem.a.values.dtype}")
        return sp.csr_array((values, indices, offsets), shape=(rows, columns))


class RivalMultiplication(RivalWithMatrix):
    """The product C = A B by a rival; a subclass of the study supplies the factors."""

    clocks = ("host",)

    def _factors(self, workspace: Workspace) -> tuple[sp.csr_array, sp.csr_array]:
        raise NotImplementedError

    def erase_result(self, workspace: Workspace) -> None:
        """Fill the values of C with NaN, if a run or the set-up has already reported their address."""
        self._overwrite_result(NAN_BYTE)

    def _overwrite_result(self, byte: int) -> bool:
        form, arrays, problem = self._form, self._arrays, self._problem_of_rival
        if form is None or arrays is None or problem is None:
            return False
        with suppress(IncorrectError):  # no result is reported yet
            form.collect()
            with foreign("reading c"):
                if problem.c is not None:
                    arrays.overwrite(as_array(problem.c[2]), byte)
        return problem.c is not None

    def _problem(self, workspace: Workspace, arrays: RivalArrays) -> RivalProblem:
        a, b = (
            give_matrix(arrays, self.rival, as_bsr(matrix), matrix.shape[1], f"the matrix {name}")[0]
            for name, matrix in zip("AB", self._factors(workspace), strict=True)
        )
        return RivalProblem(**self._common_fields(workspace, arrays), a=a, b=b, arrays=arrays)


class RivalUpdates(RivalWithMatrix):
    """C = A + batches, one after the other, by a rival; a subclass of the study supplies A and the batches.

    The rival's `update` is timed, and its `run` reports C. A launch changes the rival's matrix, so the rival is torn
    down and set up again before each launch but the first.
    """

    clocks = ("event",)
    cold = False

    def __init__(self, rival: Rival) -> None:
        super().__init__(rival)
        self._batches: list[RivalBatch] = []
        self._device: Device | None = None
        self._update: Callable[[], None] = not_prepared
        #: Whether there was no launch since the last set-up.
        self._fresh = False

    def _growth(self, workspace: Workspace) -> tuple[sp.csr_array, Sequence[tuple[NDArray[Any], ...]]]:
        """Return A, and (rows, columns, values) of each batch."""
        raise NotImplementedError

    def _problem(self, workspace: Workspace, arrays: RivalArrays) -> RivalProblem:
        matrix, batches = self._growth(workspace)
        a, _ = give_matrix(arrays, self.rival, as_bsr(matrix), matrix.shape[1], "the matrix")
        names = [f"a batch's {part}" for part in ("rows", "columns", "values")]
        self._batches = [RivalBatch(*map(arrays.give, batch, names)) for batch in batches]
        counts = [batch.entries for batch in self._batches]
        self._device = workspace.device
        common_fields = self._common_fields(workspace, arrays)
        return RivalProblem(
            **common_fields, a=a, arrays=arrays, coming=sum(counts), largest_batch=max(counts, default=0)
        )

    def _set_launch(self, form: RivalBackend) -> None:
        self._update, self._fresh = form.launcher(self._batches), True
        self.launch = self._launch_updates

    def _launch_updates(self) -> None:
        """Run the updates on the matrix of the last set-up; `before` sets up again between timed launches."""
        self._fresh = False
        self._update()

    def before(self) -> None:
        """Set up the rival again if it was launched, so that its matrix is A."""
        super().before()
        if self._fresh:
            return
        form, device, problem = self._form, self._device, self._problem_of_rival
        assert form is not None
        assert device is not None
        assert problem is not None
        device.synchronize()
        form.teardown()
        problem.c = None
        form.setup(problem)
        device.synchronize()
        self._set_launch(form)

    def release(self) -> None:
        super().release()
        self._batches, self._update = [], not_prepared


class RivalSolution(RivalRunnable):
    """A solution of A y = x to a tolerance by a rival; a subclass of the study supplies the system."""

    clocks = ("host",)

    def __init__(self, rival: Rival) -> None:
        super().__init__(rival)
        self._most = 0
        #: Iterations of the verified run, if the rival reports them.
        self.iterations: int | None = None

    def _system(self, workspace: Workspace) -> tuple[sp.csr_array, NDArray[Any], float, int]:
        """Return A, x `(rows,)`, the tolerance and the largest number of iterations."""
        raise NotImplementedError

    def _block(self, workspace: Workspace) -> int:
        return 1

    def _problem(self, workspace: Workspace, arrays: RivalArrays) -> RivalProblem:
        matrix, right, tolerance, self._most = self._system(workspace)
        a, _ = give_matrix(arrays, self.rival, as_bsr(matrix), matrix.shape[1], "the matrix")
        x = arrays.give(right, "the right-hand side")
        self._scaled = x, right, "the right-hand side"
        self._y = y, _ = arrays.empty((a.shape[0],), right.dtype, "its result")
        common_fields = self._common_fields(workspace, arrays)
        return RivalProblem(**common_fields, a=a, x=x, y=y, tolerance=tolerance, iterations=self._most)

    def before(self) -> None:
        """Overwrite the last solution, so that no solve starts from it."""
        self._overwrite_result(_RANDOM.choice((NAN_BYTE, *RESULT_BYTES)))
        if self._problem_of_rival is not None:
            self._problem_of_rival.iterations = self._most

    def result(self) -> NDArray[Any]:
        """Wait, and return the last solution y `(rows,)`."""
        assert self._arrays is not None
        assert self._form is not None
        assert self._y is not None
        assert self._problem_of_rival is not None
        self._arrays.check_read_only()
        self._form.collect()
        with foreign("reading iterations"):
            reported_iterations = int(self._problem_of_rival.iterations)
        self.iterations = reported_iterations if 0 < reported_iterations < self._most else None
        y = self._arrays.read(self._y[0])
        return np.asarray(y / y.dtype.type(self._factor))


def as_bsr(matrix: sp.csr_array) -> Bsr:
    """Return a CSR matrix as BSR with 1×1 blocks, without copying its numbers."""
    return Bsr(matrix.indptr, matrix.indices, matrix.data.reshape(-1, 1, 1))


def products_of(rivals: Sequence[Rival], entry: str) -> list[RivalProduct]:
    """Return new runnables for those rivals that multiply by matrices with this type of entries."""
    return [RivalProduct(rival, entry) for rival in rivals if rival.of == "spmv"]
