"""Reading a file that others wrote in a process of its own, so that a crash, a flood or a hang is one message.

The process is forked by a server, which is a program of its own and has one thread: this process may have others, and
what they hold at that moment, such as a lock on imports, a child of its own would wait for in vain. The server starts
with the first file and ends with this process. What was read comes back through memory that both share.
"""

from __future__ import annotations

import os
import pickle
import resource
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from repro.config.models import Limits
from repro.errors import ReproError
from repro.problems import reader_process
from repro.problems.files import most_unpacked
from repro.problems.handover import load
from repro.problems.reader_process import Request
from repro.problems.reader_server import status_of_reader

T = TypeVar("T")
#: What reading may take whatever the file's size, in bytes.
ALWAYS = 2 << 30
_LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]


def read_apart(
    read: Callable[[], T],
    path: Path,
    limits: Limits,
    reader: str,
    named: Path | None = None,
    needs: Sequence[str] = (),
) -> T:
    """Call a function in a process of its own and return what it returned.

    The process has this one's folder, environment, path of modules, limits and standard error, and nothing else of it.
    Any thread may call this.

    Parameters
    ----------
    read
        Reads the file. It is pickled, so it is a module's function, or a `functools.partial` of one. What it returns is
        pickled as well; arrays are not copied.
    path
        The file; its size says how much memory is fair.
    limits
        Of memory and time.
    reader
        What reads, to be named in errors.
    named
        The file as errors name it, where it is a copy.
    needs
        Modules beside the function's own that it imports, to be imported once for all files.

    Raises
    ------
    ReproError
        As `read`; or it took more memory or time than the limits allow, or ended the process; or there is no process
        to be had.
    """
    if reader_process.is_apart:
        return read()
    memory, key = _allowed(path, limits)
    with tempfile.TemporaryDirectory(prefix="repro-read-") as temporary, _files() as files:
        request = Request(
            pickle.dumps(read),
            (getattr(read, "func", read).__module__, *needs),
            memory,
            limits.seconds,
            temporary,
            [entry for entry in sys.path if isinstance(entry, str)],
            dict(os.environb),
            {number: resource.getrlimit(number) for number in _LIMITS},
        )
        status = status_of_reader(request, files, limits.seconds)
        result: T = _result(status, files[0], named or path, limits, reader, memory, key)
        return result


@contextmanager
def _files() -> Iterator[list[int]]:
    """Open what a request consists of: memory to share, this process's folder, and its standard error."""
    opened: list[int] = []
    try:
        opened.append(os.memfd_create("repro-read", os.MFD_CLOEXEC))
        try:
            opened.append(os.open(".", os.O_PATH | os.O_DIRECTORY))
        except OSError:  # nothing can be read from where it is then
            opened.append(os.open("/", os.O_PATH | os.O_DIRECTORY))
        try:
            opened.append(os.dup(2 if sys.__stderr__ else -1))
        except OSError:  # a program without one
            opened.append(os.open(os.devnull, os.O_WRONLY))
        yield opened
    finally:
        for file in opened:
            os.close(file)


def _allowed(path: Path, limits: Limits) -> tuple[int, str]:
    """Return how many bytes of memory reading may take, and the key that says so."""
    fair = max(ALWAYS, int(limits.memory_ratio * most_unpacked(path, limits)[0]))
    return (fair, "limits.memory_ratio") if fair < limits.memory else (limits.memory, "limits.memory")


def _result(status: int | None, answer: int, path: Path, limits: Limits, reader: str, memory: int, key: str) -> Any:
    again = "the file is damaged, or made to do this: fetch or export it again"
    if status is None:
        raise ReproError(
            "reading the file takes too long",
            where=path,
            expected=f"at most {limits.seconds:,g} s (limits.seconds)",
            actual=f"{reader} was still at it",
            todo=f"{again}; or raise limits.seconds",
        )
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGINT:  # which came from the terminal to all processes
            raise KeyboardInterrupt
        killed = number == signal.SIGKILL
        raise ReproError(
            "reading the file ended the process that did it",
            where=path,
            expected="a mesh or matrix, or a message",
            actual=f"{reader} was ended by {signal.Signals(number).name}",
            todo="give the machine more memory, if it ran out of it" if killed else f"{again}, or in another format",
        )
    # what ended otherwise may have left the request there
    done = os.WEXITSTATUS(status) == 0 and os.fstat(answer).st_size
    content: Any
    kind, content = load(answer) if done else ("bug", f"exit code {os.WEXITSTATUS(status)}")
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
                todo=f"{again}; or raise {key}",
            )
    raise RuntimeError(f"{reader} failed on {path}\n{content}")
