"""Reading a file that others wrote in a process of its own, so that a crash, a flood or a hang is one message.

The process is forked and so starts in milliseconds, has all modules that are imported already, and takes no more memory
than what it adds. What it read comes back through memory that both share.
"""

from __future__ import annotations

import faulthandler
import math
import mmap
import os
import pickle
import resource
import select
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from repro.config.models import Limits
from repro.errors import ReproError
from repro.problems.files import most_unpacked

T = TypeVar("T")
#: What reading may take whatever the file's size, in bytes.
ALWAYS = 2 << 30
_ALIGNED = 64
_PARTS = ("what", "where", "expected", "actual", "todo")


def read_apart(read: Callable[[], T], path: Path, limits: Limits, reader: str, named: Path | None = None) -> T:
    """Call a function in a forked process and return what it returned.

    Parameters
    ----------
    read
        Reads the file. What it returns is pickled; arrays are not copied.
    path
        The file; its size says how much memory is fair.
    limits
        Of memory and time.
    reader
        What reads, to be named in errors.
    named
        The file as errors name it, where it is a copy.

    Raises
    ------
    ReproError
        As `read`; or it took more memory or time than the limits allow, or ended the process.
    """
    memory, key = _allowed(path, limits)
    with tempfile.TemporaryDirectory(prefix="repro-read-") as folder:
        answer = os.memfd_create("repro-read", os.MFD_CLOEXEC)
        ended, held = os.pipe()
        try:
            child = _fork()
            if not child:
                _answer(read, answer, folder, memory, limits.seconds)
            os.close(held)
            held = -1
            status = _wait(child, ended, limits.seconds)
            result: T = _result(status, answer, named or path, limits, reader, memory, key)
            return result
        finally:
            for open_file in (answer, ended, *([held] if held >= 0 else [])):
                os.close(open_file)


def _allowed(path: Path, limits: Limits) -> tuple[int, str]:
    """Return how many bytes of memory reading may take, and the key that says so."""
    fair = max(ALWAYS, int(limits.memory_ratio * most_unpacked(path, limits)[0]))
    return (fair, "limits.memory_ratio") if fair < limits.memory else (limits.memory, "limits.memory")


def _fork() -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        # other threads are those of libraries; the process calls nothing that waits for them
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _wait(child: int, ended: int, seconds: float) -> int | None:
    """Return a process's status, or None if it takes longer; it is gone either way."""
    done = False
    try:
        waiting = select.poll()
        waiting.register(ended, select.POLLIN)
        done = bool(waiting.poll(min(1000 * seconds, 2**31 - 1)))  # its end of the pipe closes with it
    finally:
        if not done:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    return status if done else None


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
        killed = number == signal.SIGKILL
        raise ReproError(
            "reading the file ended the process that did it",
            where=path,
            expected="a mesh or matrix, or a message",
            actual=f"{reader} was ended by {signal.Signals(number).name}",
            todo="give the machine more memory, if it ran out of it" if killed else f"{again}, or in another format",
        )
    kind: str
    content: Any
    kind, content = _load(answer) if os.fstat(answer).st_size else ("bug", f"exit code {os.WEXITSTATUS(status)}")
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


def _answer(read: Callable[[], Any], answer: int, folder: str, memory: int, seconds: float) -> NoReturn:
    """Be the process: read, write what came of it, and end without what a Python program does at its end."""
    code = 1
    try:
        tempfile.tempdir = folder  # which the parent removes, however this ends
        faulthandler.disable()
        _confine(memory, seconds)
        try:
            _save(answer, ("read", read()))
        except ReproError as error:
            said = {part: None if (text := getattr(error, part)) is None else str(text) for part in _PARTS}
            _save(answer, ("refused", said))
        except MemoryError:
            _save(answer, ("memory", None))
        except BaseException:
            _save(answer, ("bug", traceback.format_exc()))
        code = 0
    finally:
        os._exit(code)


def _confine(memory: int, seconds: float) -> None:
    """Let the process take so much more memory than it has, and be the first to go where the machine runs out."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = _address_space() + memory
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
    # where its parent is killed nobody else would end it
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = min(2**31 - 1, math.ceil(_cpu_seconds() + seconds * (os.cpu_count() or 1)) + 1)
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with suppress(OSError):  # not everywhere
        Path("/proc/self/oom_score_adj").write_text("1000")


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _address_space() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def _save(file: int, content: tuple[str, Any]) -> None:
    """Write an object to a file: lengths, pickle, and its arrays as they are, each at a multiple of 64 bytes."""
    os.ftruncate(file, 0)
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(content, protocol=5, buffer_callback=buffers.append)
    raw = [buffer.raw() for buffer in buffers]
    head = pickle.dumps([len(body), *(len(part) for part in raw)])
    place = 0
    parts: list[bytes | memoryview] = [len(head).to_bytes(8, "little") + head, body, *raw]
    for part in parts:
        view = memoryview(part)
        done = 0
        while done < len(view):
            done += os.pwrite(file, view[done : done + (1 << 30)], place + done)
        place += -(-len(view) // _ALIGNED) * _ALIGNED


def _load(file: int) -> tuple[str, Any]:
    """Read it back; the arrays stay where they are, and may be written to."""
    memory = memoryview(mmap.mmap(file, 0, access=mmap.ACCESS_COPY))
    start = int.from_bytes(memory[:8], "little")
    lengths: list[int] = pickle.loads(memory[8 : 8 + start])
    place = -(-(8 + start) // _ALIGNED) * _ALIGNED
    parts = []
    for length in lengths:
        parts.append(memory[place : place + length])
        place += -(-length // _ALIGNED) * _ALIGNED
    body, *raw = parts
    content: tuple[str, Any] = pickle.loads(body, buffers=raw)
    return content
