"""Reads a file of unknown origin in a process of its own, so that a crash, excessive memory or a hang only causes an
error message.

The process (`repro.problems.reader_process`) starts a new interpreter, which takes about a second. A fork would take
none, but locks of other threads could block it forever. Results return through shared memory.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from repro.config.models import Limits
from repro.errors import ReproError
from repro.problems import reader_process
from repro.problems.files import max_unpacked
from repro.problems.reader_process import ReadRequest, load_shared, save_shared

#: The program of the process. Without empty entries of `sys.path`, files in the current folder cannot replace modules.
_PROGRAM = """
import sys
sys.path[:] = sys.argv[3:]
from repro.problems.reader_process import answer
answer(int(sys.argv[1]), int(sys.argv[2]))
"""
#: Environment variables that keep libraries from starting threads.
_ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
#: Options of this interpreter for module paths, caches and encodings that are passed on, with their `sys.flags`.
_FLAGS = {"-E": "ignore_environment", "-s": "no_user_site", "-S": "no_site", "-B": "dont_write_bytecode"}

T = TypeVar("T")
#: Bytes of memory that reading any file may use, however small the file is.
ALWAYS = 2 << 30


def read_isolated(
    read: Callable[[], T],
    path: Path,
    limits: Limits,
    reader: str,
    public_path: Path | None = None,
    needs: Sequence[str] = (),
) -> T:
    """Call a function in a process of its own and return its result; thread-safe.

    The process has the current folder, environment, resource limits and standard error of this one, and its module path
    without empty entries. Raises `ReproError`: `read` raised it, or the process exceeded the limits, crashed, or could
    not be started.

    Parameters
    ----------
    read
        Picklable function, possibly a `functools.partial`. Its result is pickled too, without copying arrays.
    path
        File to read; the memory limit is proportional to the size of the file.
    reader
        Name of the reader in messages.
    public_path
        File to name in messages, if `path` is a copy.
    needs
        Modules that the function imports, for which no memory is counted.
    """
    if reader_process.is_isolated:
        return read()
    fair_memory = max(ALWAYS, int(limits.memory_ratio * max_unpacked(path, limits)[0]))
    memory, key = (
        (fair_memory, "limits.memory_ratio") if fair_memory < limits.memory else (limits.memory, "limits.memory")
    )
    request = ReadRequest(pickle.dumps(read), (*needs,), memory, limits.seconds)
    with _files() as (shared, errors):
        save_shared(shared, request)
        code = _run(shared, errors)
        result: T = _read_result(code, shared, public_path or path, limits, reader, memory, key)
        return result


@contextmanager
def _files() -> Iterator[list[int]]:
    """Open shared memory and standard error, with numbers above 2, since 0, 1 and 2 may be closed."""
    with ExitStack() as stack:

        def above_streams(file: int) -> int:
            number = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 3)
            stack.callback(os.close, number)
            return number

        memory = os.memfd_create("repro-read", os.MFD_CLOEXEC)
        stack.callback(os.close, memory)
        null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        stack.callback(os.close, null)
        try:
            errors = above_streams(2 if sys.__stderr__ else null)
        except OSError:  # standard error is closed
            errors = above_streams(null)
        yield [above_streams(memory), errors]


def _run(shared: int, errors: int) -> int:
    """Run the process and return its exit code, negative for a signal; it writes to standard error only."""
    package_path = str(Path(reader_process.__file__).parents[2])
    path = [*(entry for entry in sys.path if isinstance(entry, str) and entry), package_path]
    options = [option for option, flag in _FLAGS.items() if getattr(sys.flags, flag)]
    options += ["-P", "-X", f"utf8={sys.flags.utf8_mode}"]
    try:
        if not sys.executable:
            raise OSError("no Python interpreter (sys.executable)")
        process = subprocess.Popen(
            [sys.executable, *options, "-c", _PROGRAM, str(shared), str(os.getpid()), *path],
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            env={**os.environ, **_ONE_THREAD},
            pass_fds=[shared],
        )
    except OSError as error:
        raise _process_error(error) from None
    try:
        return process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise


def _process_error(actual: object) -> ReproError:
    return ReproError(
        "no process can be started to read files in",
        where=sys.executable or None,
        actual=actual,
        todo="allow more processes (`ulimit -u`), if they ran out; or see that this Python can start as it did before",
    )


def _read_result(code: int, shared: int, path: Path, limits: Limits, reader: str, memory: int, key: str) -> Any:
    advice = "the file is damaged, or made to do this: export it again"
    if code == -signal.SIGALRM:
        raise ReproError(
            "reading the file takes too long",
            where=path,
            expected=f"at most {limits.seconds:,g} s (limits.seconds)",
            actual=f"{reader} was still at it",
            todo=f"{advice}; or raise limits.seconds",
        )
    if code < 0:
        number = -code
        if number == signal.SIGINT:  # Ctrl-C in the terminal reaches all processes
            raise KeyboardInterrupt
        is_killed = number == signal.SIGKILL
        raise ReproError(
            "the process that read the file ended",
            where=path,
            expected="a mesh or matrix, or a message",
            actual=f"{reader} was ended by {signal.Signals(number).name}",
            todo="give the machine more memory, if it ran out of it"
            if is_killed
            else f"{advice}, or in another format",
        )
    # after an early end, the shared memory still contains the request, or nothing
    content: Any = load_shared(shared) if os.fstat(shared).st_size else ("bug", f"exit code {code}")
    if isinstance(content, ReadRequest):
        raise _process_error(f"it ended with code {code}")
    kind, content = content
    match kind:
        case "read":
            return content
        case "refused":
            raise ReproError(content.pop("what"), **content)
        case "memory":
            raise ReproError(
                "reading the file takes too much memory",
                where=path,
                expected=f"at most {memory:,} bytes ({key})",
                actual=f"{reader} asked for more, for a file of {path.stat().st_size:,} bytes",
                todo=f"{advice}; or raise {key}",
            )
    raise RuntimeError(f"{reader} failed on {path}\n{content}")
