"""The server process of `repro.problems.subprocess_reader`. It forks one reader process for each file.

The server has a single thread, since a lock held by another thread would stay locked in a forked reader. It imports all
modules that readers need once, so that a reader starts in milliseconds. Readers end when the server ends, and the
server ends when its parent ends. Results return through shared memory without copying arrays. This module must not
import anything that is slow to import or starts threads.
"""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import math
import mmap
import os
import pickle
import resource
import select
import shutil
import signal
import socket
import sys
import tempfile
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


#: Environment variables that keep libraries from starting threads in the server.
ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
#: Whether this process is the server or a reader.
is_isolated = False

_PARTS = ("what", "where", "expected", "actual", "todo")
_PR_SET_PDEATHSIG = 1
_FAILED = 1


@dataclass(frozen=True)
class ReadRequest:
    """A function to call in a reader, and the state of the calling process."""

    #: The pickled function.
    read: bytes
    #: Modules that the server imports before forking; later readers have them too.
    needs: tuple[str, ...]
    #: Memory limit in bytes.
    memory: int
    seconds: float
    #: Folder for temporary files of the reader.
    temporary: str
    #: State to copy to the reader: `sys.path`, `os.environb` and the limits of `resource.getrlimit`.
    path: list[str]
    environment: dict[bytes, bytes]
    limits: dict[int, tuple[int, int]]


@dataclass(frozen=True)
class _Reader:
    caller: socket.socket
    temporary: str


def serve(control: int) -> NoReturn:
    """Fork a reader for each request until the other end of the socket is closed.

    Each message carries four files: shared memory with a `ReadRequest`, where the result will replace the request; one
    end of a connection; the caller's current folder; and its standard error. The server replies `started`, then the
    reader's exit status as `os.waitpid` returns it; or it replies `failed` and the errno. If the caller writes to the
    connection or closes it, the server kills the reader.
    """
    global is_isolated  # noqa: PLW0603
    is_isolated = True
    interruptible = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    # The terminal sends SIGINT to the parent too; the server ends when the parent ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    server = _Server(socket.socket(fileno=control), interruptible)
    code = _FAILED
    try:
        server.run()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        server.end_readers()
        os._exit(code)


class _Server:
    def __init__(self, control: socket.socket, interruptible: bool) -> None:
        self._control, self._interruptible = control, interruptible
        self._libc = ctypes.CDLL(None)
        self._readers: dict[int, _Reader] = {}
        self._ended, self._end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)  # receives a byte when a reader ends
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._poll.register(self._ended, select.POLLIN)
        signal.set_wakeup_fd(self._end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the parent thread may have blocked signals

    def run(self) -> None:
        """Handle requests, ended readers, and messages of callers."""
        while True:
            ready = {file for file, _ in self._poll.poll()}
            for pid, reader in self._readers.items():
                if reader.caller.fileno() in ready:
                    self._poll.unregister(reader.caller)
                    os.kill(pid, signal.SIGKILL)
            if self._ended in ready:
                with suppress(BlockingIOError):
                    os.read(self._ended, 1 << 12)
                self._reap()
            if self._control.fileno() in ready:
                message, files, *_ = socket.recv_fds(self._control, 1, 4, socket.MSG_CMSG_CLOEXEC)
                if not message:
                    return
                self._start(*files)

    def end_readers(self) -> None:
        for pid in self._readers:
            os.kill(pid, signal.SIGKILL)
        for pid, reader in self._readers.items():
            os.waitpid(pid, 0)
            shutil.rmtree(reader.temporary, ignore_errors=True)

    def _start(self, memory: int, connection: int, folder: int, errors: int) -> None:
        caller = socket.socket(fileno=connection)
        request: ReadRequest = load_shared(memory)
        for name in request.needs:
            with suppress(BaseException):  # the reader will raise and report this error again
                importlib.import_module(name)
        server = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:  # no more processes or memory available
            _say(caller, f"failed {error.errno}")
            caller.close()
        else:
            if not pid:
                caller.close()
                self._leave(server)
                _answer(request, memory, folder, errors)
            self._readers[pid] = _Reader(caller, request.temporary)
            self._poll.register(caller, select.POLLIN)
            _say(caller, "started")
        for file in (memory, folder, errors):
            os.close(file)

    def _leave(self, server: int) -> None:
        """Called in a reader: close the server's files, and arrange that the reader ends when the server ends."""
        self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != server:
            os._exit(_FAILED)
        signal.set_wakeup_fd(-1)
        ignored_signals = [signal.SIGINT] if self._interruptible else []
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, *ignored_signals):
            signal.signal(number, signal.SIG_DFL)
        for open_socket in (self._control, *(reader.caller for reader in self._readers.values())):
            open_socket.close()
        os.close(self._ended)
        os.close(self._end)

    def _reap(self) -> None:
        while self._readers:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            reader = self._readers.pop(pid)
            with suppress(KeyError):  # the reader may have been killed already
                self._poll.unregister(reader.caller)
            shutil.rmtree(reader.temporary, ignore_errors=True)
            _say(reader.caller, str(status))
            reader.caller.close()


def _say(caller: socket.socket, word: str) -> None:
    with suppress(OSError):  # the caller has ended
        caller.send(word.encode())


def _answer(request: ReadRequest, memory_fd: int, folder_fd: int, errors_fd: int) -> NoReturn:
    """Called in a reader: call the function, write its result, and exit without Python's cleanup."""
    code = _FAILED
    try:
        os.ftruncate(memory_fd, 0)
        try:
            _adopt_environment(request, folder_fd, errors_fd)
            _confine(request)
            read_function = pickle.loads(request.read)
            save_shared(memory_fd, ("read", read_function()))
        except ReproError as error:
            error_texts = {part: None if (text := getattr(error, part)) is None else str(text) for part in _PARTS}
            save_shared(memory_fd, ("refused", error_texts))
        except MemoryError:
            save_shared(memory_fd, ("memory", None))
        except BaseException:
            save_shared(memory_fd, ("bug", traceback.format_exc()))
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        code = 0
    finally:
        os._exit(code)


def _adopt_environment(request: ReadRequest, folder_fd: int, errors_fd: int) -> None:
    for stream in (sys.stdout, sys.stderr):  # a reader must not write to the caller's standard output
        os.dup2(errors_fd, stream.fileno())
    os.fchdir(folder_fd)
    os.environb.clear()
    os.environb.update(request.environment)
    sys.path[:] = request.path
    importlib.invalidate_caches()
    tempfile.tempdir = request.temporary  # the caller removes this folder
    faulthandler.disable()
    for number, limit_pair in request.limits.items():
        with suppress(ValueError, OSError):  # the server's own limit may be lower
            resource.setrlimit(number, limit_pair)


def _confine(request: ReadRequest) -> None:
    """Limit the memory and CPU time of this reader, and let the kernel kill it first if memory runs out."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_AS)
    limit = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + request.memory
    resource.setrlimit(
        resource.RLIMIT_AS, (limit if hard_limit == resource.RLIM_INFINITY else min(limit, hard_limit), hard_limit)
    )
    # The CPU-time limit ends the reader even if no other process does.
    _, hard_limit = resource.getrlimit(resource.RLIMIT_CPU)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    seconds = usage.ru_utime + usage.ru_stime + request.seconds * (os.cpu_count() or 1)
    soft_limit = min(2**31 - 1, math.ceil(seconds) + 1)
    resource.setrlimit(
        resource.RLIMIT_CPU,
        (soft_limit if hard_limit == resource.RLIM_INFINITY else min(soft_limit, hard_limit), hard_limit),
    )
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with suppress(OSError):  # this file does not exist on every system
        Path("/proc/self/oom_score_adj").write_text("1000")
