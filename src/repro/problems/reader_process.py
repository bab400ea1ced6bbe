"""The process in which `repro.problems.subprocess_reader` reads one file.

It takes a function from shared memory, and returns the result there without copying arrays. It ends when the process
that started it ends.
"""

from __future__ import annotations

import ctypes
import importlib
import mmap
import os
import pickle
import resource
import signal
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from repro.errors import ReproError

_ALIGNED = 64


def save_shared(file: int, content: object) -> None:
    """Write an object to a file: lengths, pickled object, and its arrays at offsets that are multiples of 64 bytes."""
    os.ftruncate(file, 0)
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(content, protocol=5, buffer_callback=buffers.append)
    raw = [buffer.raw() for buffer in buffers]
    header = pickle.dumps([len(body), *(len(part) for part in raw)])
    offset = 0
    parts: list[bytes | memoryview] = [len(header).to_bytes(8, "little") + header, body, *raw]
    for part in parts:
        view = memoryview(part)
        written_bytes = 0
        while written_bytes < len(view):
            written_bytes += os.pwrite(file, view[written_bytes : written_bytes + (1 << 30)], offset + written_bytes)
        offset += -(-len(view) // _ALIGNED) * _ALIGNED


def load_shared(file: int) -> Any:
    """Read an object that `save_shared` has written; its arrays are writable views of the file's memory."""
    memory = memoryview(mmap.mmap(file, 0, access=mmap.ACCESS_COPY))
    start = int.from_bytes(memory[:8], "little")
    lengths: list[int] = pickle.loads(memory[8 : 8 + start])
    offset = -(-(8 + start) // _ALIGNED) * _ALIGNED
    parts = []
    for length in lengths:
        parts.append(memory[offset : offset + length])
        offset += -(-length // _ALIGNED) * _ALIGNED
    body, *raw = parts
    return pickle.loads(body, buffers=raw)


#: Whether this process reads a file for another one.
is_isolated = False

_PARTS = ("what", "where", "expected", "actual", "todo")
_PR_SET_PDEATHSIG = 1
_FAILED = 1


@dataclass(frozen=True)
class ReadRequest:
    """A function to call in this process, and its limits."""

    #: The pickled function.
    read: bytes
    #: Modules to import before memory is limited.
    needs: tuple[str, ...]
    #: Memory limit in bytes.
    memory: int
    seconds: float


def answer(file: int, caller: int) -> NoReturn:
    """Replace the `ReadRequest` in shared memory by the result, and exit without Python's cleanup.

    `caller` is the process that started this one.
    """
    global is_isolated  # noqa: PLW0603
    is_isolated = True
    code = _FAILED
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the caller's thread may have blocked signals
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        request: ReadRequest = load_shared(file)
        os.ftruncate(file, 0)
        if os.getppid() == caller:
            _call(request, file)
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            code = 0
    finally:
        os._exit(code)


def _call(request: ReadRequest, file: int) -> None:
    """Write the function's result, or its error, with a word for which of these it is."""
    try:
        for name in request.needs:
            with suppress(Exception):  # the function will raise and report this error again
                importlib.import_module(name)
        read_function = pickle.loads(request.read)
        _confine(request)
        save_shared(file, ("read", read_function()))
    except ReproError as error:
        error_texts = {part: None if (text := getattr(error, part)) is None else str(text) for part in _PARTS}
        save_shared(file, ("refused", error_texts))
    except MemoryError:
        save_shared(file, ("memory", None))
    except BaseException:
        save_shared(file, ("bug", traceback.format_exc()))


def _confine(request: ReadRequest) -> None:
    """Limit memory and time of this process, and let the kernel kill it first if memory runs out."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_AS)
    limit = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + request.memory
    resource.setrlimit(
        resource.RLIMIT_AS, (limit if hard_limit == resource.RLIM_INFINITY else min(limit, hard_limit), hard_limit)
    )
    signal.setitimer(signal.ITIMER_REAL, request.seconds)  # SIGALRM ends the process
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with suppress(OSError):  # this file does not exist on every system
        Path("/proc/self/oom_score_adj").write_text("1000")
