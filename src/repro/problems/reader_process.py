"""The process in which `repro.problems.subprocess_reader` has files read: a server that forks a reader a file.

It is started as a program of its own and has one thread, since a process with several threads cannot be forked
safely: a lock that another thread holds at that moment stays locked in the child for ever. The server imports once
what readers need, so that a reader starts in milliseconds. It ends with the process that started it, and a reader
with the server. An object returns through shared memory: its arrays are written once, and not copied where they are
read.

This module imports nothing that is heavy or that starts threads.
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


def load_shared(file: int) -> Any:
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
    return pickle.loads(body, buffers=raw)


#: What keeps libraries from starting threads in the server.
ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
#: Whether this process is a server or a reader, and so is apart already.
is_isolated = False

_PARTS = ("what", "where", "expected", "actual", "todo")
_PR_SET_PDEATHSIG = 1
_FAILED = 1


@dataclass(frozen=True)
class ReadRequest:
    """A function to call, and what the caller's process is like at that moment.

    Attributes
    ----------
    read
        The function, pickled.
    needs
        Modules that it needs, which the server imports for all readers to come.
    memory, seconds
        What it may take.
    temporary
        A folder for temporary files.
    path, environment, limits
        As `sys.path`, `os.environb` and `resource.getrlimit` have them.
    """

    read: bytes
    needs: tuple[str, ...]
    memory: int
    seconds: float
    temporary: str
    path: list[str]
    environment: dict[bytes, bytes]
    limits: dict[int, tuple[int, int]]


@dataclass(frozen=True)
class _Reader:
    caller: socket.socket
    temporary: str


def serve(control: int) -> NoReturn:
    """Fork a reader for each request until the other end of a socket is closed.

    Parameters
    ----------
    control
        The socket. Each message has four files: memory with a `Request`, which the answer replaces; one end of a
        connection; the caller's folder and standard error. Over the connection the server says `started`, then how the
        reader ended, as `os.waitpid` has it; or `failed` and the system's number of the error. A reader is killed where
        the caller writes anything or closes its end.
    """
    global is_isolated  # noqa: PLW0603
    is_isolated = True
    interruptible = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    # what started this process gets these as well, and it ends with that
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
        self._ended, self._end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)  # gets a byte when a reader ends
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._poll.register(self._ended, select.POLLIN)
        signal.set_wakeup_fd(self._end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the thread that started this may have blocked some

    def run(self) -> None:
        """Heed requests, ends of readers and words of callers."""
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
            with suppress(BaseException):  # the reader comes to it again, and says it
                importlib.import_module(name)
        server = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:  # no more processes, or no memory
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
        """Be a reader: have nothing that is the server's, and end when it does."""
        self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != server:
            os._exit(_FAILED)
        signal.set_wakeup_fd(-1)
        asked = [signal.SIGINT] if self._interruptible else []
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, *asked):
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
            with suppress(KeyError):  # it may have been killed for this very reason
                self._poll.unregister(reader.caller)
            shutil.rmtree(reader.temporary, ignore_errors=True)
            _say(reader.caller, str(status))
            reader.caller.close()


def _say(caller: socket.socket, word: str) -> None:
    with suppress(OSError):  # it is gone
        caller.send(word.encode())


def _answer(request: ReadRequest, memory: int, folder: int, errors: int) -> NoReturn:
    """Be the reader: read, write what came of it, and end without what a Python program does at its end."""
    code = _FAILED
    try:
        os.ftruncate(memory, 0)
        try:
            _be_like_the_caller(request, folder, errors)
            _confine(request)
            read = pickle.loads(request.read)
            save_shared(memory, ("read", read()))
        except ReproError as error:
            said = {part: None if (text := getattr(error, part)) is None else str(text) for part in _PARTS}
            save_shared(memory, ("refused", said))
        except MemoryError:
            save_shared(memory, ("memory", None))
        except BaseException:
            save_shared(memory, ("bug", traceback.format_exc()))
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        code = 0
    finally:
        os._exit(code)


def _be_like_the_caller(request: ReadRequest, folder: int, errors: int) -> None:
    for stream in (sys.stdout, sys.stderr):  # a result goes where the caller says, not to its standard output
        os.dup2(errors, stream.fileno())
    os.fchdir(folder)
    os.environb.clear()
    os.environb.update(request.environment)
    sys.path[:] = request.path
    importlib.invalidate_caches()
    tempfile.tempdir = request.temporary  # which is removed, however this ends
    faulthandler.disable()
    for number, both in request.limits.items():
        with suppress(ValueError, OSError):  # the server was given less from the start
            resource.setrlimit(number, both)


def _confine(request: ReadRequest) -> None:
    """Let the process take so much more memory than it has, and be the first to go where the machine runs out."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = _address_space() + request.memory
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
    # where nobody is left to end it
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = min(2**31 - 1, math.ceil(_cpu_seconds() + request.seconds * (os.cpu_count() or 1)) + 1)
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
