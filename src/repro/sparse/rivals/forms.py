"""The forms of a rival and how each is called: Python objects, kernels, and shared libraries.

Sources are compiled first. Shared libraries have the functions of `include/repro_rival.h` and are called by ctypes.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import byref, c_char_p, c_double, c_int32, c_int64, c_void_p
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import FrameSummary, extract_tb, format_exception_only, format_list
from typing import Any, Protocol, cast

import numpy as np

from repro.bench.timing import TooSlow
from repro.bench.worker import ContextLost
from repro.codegen import nvcc
from repro.codegen.build_cache import MODULES
from repro.codegen.targets import DTYPES, Target, get_target
from repro.config.models import Rival, RivalTask
from repro.containment import ENDING, text_of
from repro.devices.base import Argument, Device, LaunchError, OutOfDeviceMemory
from repro.errors import IncorrectError, ModuleError, ReproError, Unsupported
from repro.filesystem import write_whole
from repro.sparse.rivals.files import (
    KERNEL_HEADER,
    PYTHON,
    TUNING,
    as_tuned,
    include_folder,
    rival_identity,
    search_path,
)
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


#: C++ type of a number, by precision; and of an offset, by number of bits.
REALS = {"single": "float", "double": "double"}
OFFSETS = {32: "int32_t", 64: "int64_t"}
#: Target for which a source is compiled where no GPU can run it.
CHECKED_FOR = "sm_90"


class RivalBackend(Protocol):
    """A rival that can be called; methods raise the errors of `repro.bench.runnable.Runnable.prepare`."""

    @property
    def label(self) -> str:
        """Name and version that the rival reports; empty if it reports none."""

    def setup(self, problem: RivalProblem) -> None: ...

    def launcher(self, batches: Sequence[RivalBatch] = ()) -> Callable[[], None]:
        """Return a function that runs the rival once, after `setup`.

        For updates, it adds the batches one after the other.
        """

    def collect(self) -> None:
        """Copy the result of the last run to the problem; for updates, let the rival report its matrix."""

    def teardown(self) -> None: ...


def open_form(rival: Rival, device: Device, precision: str, block: int) -> RivalBackend:
    """Load a rival for a device; `block` is the size of the blocks of its matrix.

    Raises
    ------
    Unsupported, ModuleError, LaunchError
        The rival is not for this device, does not compile, or cannot be loaded.
    """
    if rival.python is not None:
        return PythonRival(rival.python, rival.of)
    if rival.library is not None:
        return LibraryRival(Path(rival.library).expanduser(), rival.of)
    if device.backend != "cuda":
        compiles_for = compile_without_gpu(rival, precision, block)
        raise Unsupported("a source is CUDA C++, which needs a GPU" + (compiles_for and f"; it {compiles_for}"))
    binary = compile_source(rival, device.target, precision, block)
    return KernelRival(rival, device, binary) if rival.kernel else LibraryRival(binary, rival.of)


def compile_source(rival: Rival, target: Target, precision: str, block: int) -> Path:
    """Compile a source for a precision and a block size, unless it is compiled already; return the path of the binary.

    Raises `ModuleError`: the source does not compile, or has no kernel of that name and parameters; the message is the
    compiler's first error.
    """
    assert rival.source is not None
    source, folder = Path(rival.source).expanduser().resolve(), MODULES / target.name / "rivals"
    try:
        if rival.kernel is None:
            return _compile(rival, source, target, precision, block)
        checked_source = folder / f"{rival_identity(rival)[:32]}.cu"
        write_whole(
            checked_source, f'#include "{source}"\n#include "{KERNEL_HEADER}"\nREPRO_RIVAL_CHECK({rival.kernel})\n'
        )
        try:
            return _compile(rival, checked_source, target, precision, block)
        except nvcc.CompileError as error:
            if f'"{rival.kernel}" is undefined' not in str(error):
                raise
            available_kernels = ", ".join(nvcc.kernel_names(_compile(rival, source, target, precision, block)))
            raise _no_kernel(rival, available_kernels) from None
    except nvcc.CompileError as error:
        raise ModuleError(f"{rival.source} does not compile: {error}") from None
    except ReproError as error:
        raise ModuleError(str(error)) from None


def _no_kernel(rival: Rival, available_kernels: str) -> ModuleError:
    return ModuleError(
        f'{rival.source} has no kernel {rival.kernel}, extern "C" __global__; it has {available_kernels}'
    )


def _compile(rival: Rival, source: Path, target: Target, precision: str, block: int) -> Path:
    macros = {
        **(TUNING if rival.tuned else {}),
        **as_tuned(rival)[1],
        "REPRO_RIVAL_REAL": REALS[precision],
        "REPRO_RIVAL_OFFSET": OFFSETS[rival.offsets],
        "REPRO_RIVAL_BLOCK": block,
    }
    words = [*(f"-D{name}={value}" for name, value in macros.items()), f"-I{include_folder()}"]
    return nvcc.build_foreign(
        source,
        MODULES / target.name / "rivals",
        f"{rival_identity(rival)} {source.name}",
        target,
        words,
        shared=rival.kernel is None,
    )


def compile_without_gpu(rival: Rival, precision: str, block: int) -> str:
    """Compile a source where no GPU can run it; return what it compiles for, or "" without nvcc.

    Raises `ModuleError`: as in `check_compiled`.
    """
    if nvcc.find() is None:
        return ""
    check_compiled(rival, get_target(CHECKED_FOR), precision, block)
    return f"compiles for {CHECKED_FOR}"


def check_compiled(rival: Rival, target: Target, precision: str, block: int) -> None:
    """Compile a source where no GPU can run it, and check that it has the kernel or functions that would be called.

    Raises `ModuleError`: the source does not compile, or lacks the kernel or functions.
    """
    binary = compile_source(rival, target, precision, block)
    kernels = nvcc.kernel_names(binary)
    available_kernels = ", ".join(kernels)
    if rival.kernel is None:
        try:
            LibraryRival(binary, rival.of)
        except ModuleError as error:
            hint = (
                f"; or name a kernel of it by `kernel`: {available_kernels}" if kernels and rival.of == "spmv" else ""
            )
            raise ModuleError(f"{str(error).replace(str(binary), str(rival.source))}{hint}") from None
    elif kernels and rival.kernel not in kernels:
        raise _no_kernel(rival, available_kernels)


class PythonRival:
    """A Python object with the methods of its task (`FUNCTIONS`), or a class of which an object is made.

    `module:object` is imported as in Python, with the current folder on the search path; `file.py:object` loads that
    file.
    """

    def __init__(self, dotted_name: str, task: RivalTask) -> None:
        self._task = task
        module_name, _, name = dotted_name.rpartition(":")
        with foreign("importing it"):
            module = _load(Path(module_name)) if module_name.endswith(PYTHON) else _import(module_name)
            if not hasattr(module, name):
                raise ModuleError(f"{module_name} has no {name}")
        with foreign("making it"):
            attribute = getattr(module, name)
            self._object: Any = attribute() if isinstance(attribute, type) else attribute
            absent = [method for method in FUNCTIONS[task] if not callable(getattr(self._object, method, None))]
        if absent:
            raise ModuleError(f"{dotted_name} has no method {', '.join(absent)}")
        self._was_set_up = False

    @property
    def label(self) -> str:
        with foreign("asking its name"):
            texts = (getattr(self._object, key, None) for key in ("name", "version"))
            return shown(" ".join(str(text) for text in texts if text))

    def setup(self, problem: RivalProblem) -> None:
        with foreign("setup"):
            self._object.setup(problem)
        self._was_set_up = True

    def launcher(self, batches: Sequence[RivalBatch] = ()) -> Callable[[], None]:
        with foreign("asking its methods"):
            timed_method = self._object.update if self._task == "updates" else self._object.run
        if self._task == "updates":

            def launch_updates() -> None:
                try:  # no context manager, which is slower, since this code is timed
                    for batch in batches:
                        timed_method(batch)
                except BaseException as error:
                    raise translated_error("update", error) from None

            return launch_updates

        def launch() -> None:
            try:
                timed_method()
            except BaseException as error:
                raise translated_error("run", error) from None

        return launch

    def collect(self) -> None:
        """Let a rival for updates report its matrix by `run`; other rivals have written their result already."""
        if self._task == "updates":
            with foreign("run"):
                self._object.run()

    def teardown(self) -> None:
        if self._was_set_up:
            self._was_set_up = False
            with foreign("teardown"):
                self._object.teardown()


def _load(path: Path) -> Any:
    """Import a file as a module, once; the file's folder is added to the search path for its own imports."""
    path = path.expanduser().resolve()
    name = f"rival_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}_{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    if (folder := str(path.parent)) not in sys.path:
        sys.path.append(folder)
    sys.modules[name] = module = module_from_spec(spec)  # dataclasses and pickles look modules up there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _import(name: str) -> Any:
    sys.path[:] = search_path()
    return import_module(name)


@contextmanager
def foreign(function: str) -> Iterator[None]:
    """Convert errors of foreign code in the body to errors of a runnable."""
    try:
        yield
    except BaseException as error:
        raise translated_error(function, error) from None


#: Errors of a runnable, which stay as they are. Foreign code may raise them too, but no subclass of its own.
_OWN_ERRORS = (Unsupported, ModuleError, LaunchError, OutOfDeviceMemory, IncorrectError, TooSlow, MemoryError)


def translated_error(function: str, error: BaseException) -> BaseException:
    """Return the error of a runnable that corresponds to an error of foreign code; its note has the traceback."""
    if isinstance(error, (*ENDING, ContextLost)) or type(error) in _OWN_ERRORS:
        return error
    words = shown(text_of(error)) or type(error).__name__
    if isinstance(error, MemoryError):
        return MemoryError(words)
    if isinstance(error, NotImplementedError):
        return Unsupported(words)
    if "out of memory" in words.lower():
        return OutOfDeviceMemory(words)
    own_files = __file__, importlib.__file__
    frames = [
        frame
        for frame in extract_tb(error.__traceback__)
        if frame.filename not in own_files and not frame.filename.startswith("<frozen importlib")
    ]
    if isinstance(error, ModuleNotFoundError):
        failure: BaseException = _missing_module(error, words)
    else:
        failure = LaunchError(f"{function} raised {type(error).__name__}: {words}{_place(frames)}")
    failure.add_note("".join([*format_list(frames), *format_exception_only(error)]))
    return failure


def _missing_module(error: ModuleNotFoundError, words: str) -> Exception:
    """Return the error of a missing module: the rival is wrong if the package is there, else it is not for this host.

    A package that is not there may be misspelt, which cannot be known.
    """
    package, _, inner = (error.name or "").partition(".")
    if inner and PathFinder.find_spec(package, search_path()):
        return ModuleError(f"{words}, though there is {package}: is it misspelt, or of another version?")
    return Unsupported(f"{words}: is it installed, or misspelt?")


def _place(frames: Sequence[FrameSummary]) -> str:
    """Return ` (file.py:line)` of the innermost frame in the folder of the file that was called; "" without frames."""
    own = [frame for frame in frames if Path(frame.filename).parent == Path(frames[0].filename).parent]
    return f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""


class KernelRival:
    """A kernel for y = A x, `extern "C" __global__`, with the parameters (rows, offsets, indices, values, x, y).

    `rows` is an int and counts blocks. The grid has `threads_per_row` threads for each row.
    """

    def __init__(self, rival: Rival, device: Device, binary: Path) -> None:
        assert rival.kernel is not None
        self._device = device
        self._rival, self._tuning = as_tuned(rival)
        try:
            self._kernel = device.load(binary).kernel(rival.kernel)
        except LaunchError as error:
            raise ModuleError(f'{error}; declare it extern "C" __global__') from None
        self._launch: Callable[[], None] | None = None

    @property
    def label(self) -> str:
        """The kernel's name, with the configuration that Kernel Tuner found."""
        return " ".join([self._rival.kernel or "", *(f"{name}={value}" for name, value in self._tuning.items())])

    def setup(self, problem: RivalProblem) -> None:
        rival, a = self._rival, problem.a
        rows = a.offsets.shape[0] - 1
        arrays = (a.offsets, a.indices, a.values, problem.x, problem.y)
        grid = max(1, -(-rows * rival.threads_per_row // rival.block))
        arguments = cast("list[Argument]", arrays)  # arrays have a `pointer`, as buffers do
        self._launch = self._device.bind(self._kernel, grid, rival.block, [rows, *arguments])

    def launcher(self, batches: Sequence[RivalBatch] = ()) -> Callable[[], None]:
        assert self._launch is not None
        return self._launch

    def collect(self) -> None:
        """Do nothing: the only result is y, which the kernel has written."""

    def teardown(self) -> None:
        self._launch = None
