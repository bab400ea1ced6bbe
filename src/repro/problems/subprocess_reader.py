"""Reads a file of unknown origin in a subprocess, so that a crash, excessive memory or a hang only causes an error
message.

A single-threaded server (`repro.problems.reader_process`) forks the readers. This process cannot fork them itself:
locks of its other threads could block a reader forever. The server starts with the first file and ends with this
process; a forked process starts its own server. Results return through shared memory.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import pickle
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from repro.config.models import Limits
from repro.errors import ReproError
from repro.problems import reader_process
from repro.problems.files import max_unpacked
from repro.problems.reader_process import ONE_THREAD, ReadRequest, load_shared, save_shared

#: Maximum seconds for starting a reader; the server may first import libraries from a slow disk.
START = 300.0
#: Maximum seconds for ending a reader.
GRACE = 10.0
#: Program of the server process. It receives this process's module path, so it does not depend on script and folder.
_PROGRAM = """
import sys
sys.path[:] = sys.argv[2:]
from repro.problems.reader_process import serve
serve(int(sys.argv[1]))
"""
_TODO = "allow more processes (`ulimit -u`), if they ran out; or see that this Python can start as it did before"


def status_of_reader(request: ReadRequest, files: list[int], seconds: float) -> int | None:
    """Run a reader and return its exit status in the format of `os.waitpid`; None after a timeout.

    Raises `ReproError` if the reader cannot start.
    """
    tries = 2  # the operating system may have killed an idle server
    while True:
        server, tries = _get_server(), tries - 1
        try:
            save_shared(files[0], request)
            return server.run(files, seconds)
        except _LostError:
            _drop(server)
            if not tries:
                raise server.error() from None


class _LostError(Exception):
    """The server does not respond."""


class _Server:
    def __init__(self) -> None:
        if not sys.executable:
            raise _process_error("no Python interpreter (sys.executable)")
        self._reason = ""
        self._errors = os.fdopen(os.memfd_create("repro-reader-server", os.MFD_CLOEXEC), "rb", buffering=0)
        self._control, server_end = map(_raise_descriptor, socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        self._control.settimeout(START)
        # Pass on this interpreter's options for module paths, caches and encodings.
        flags = {"-E": "ignore_environment", "-s": "no_user_site", "-S": "no_site", "-B": "dont_write_bytecode"}
        options = [option for option, flag in flags.items() if getattr(sys.flags, flag)]
        options += ["-P", "-X", f"utf8={sys.flags.utf8_mode}"]
        # Without empty entries of `sys.path`, files in the current folder cannot replace library modules.
        package_path = str(Path(reader_process.__file__).parents[2])
        path = [*(entry for entry in sys.path if isinstance(entry, str) and entry), package_path]
        with server_end:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, *options, "-c", _PROGRAM, str(server_end.fileno()), *path],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=self._errors,
                    env={**os.environ, **ONE_THREAD},
                    pass_fds=[server_end.fileno()],
                )
            except OSError as error:
                self._close()
                raise _process_error(error) from None

    def run(self, files: list[int], seconds: float) -> int | None:
        shared, *other_files = files
        own_end, reader_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        status = None
        with own_end:
            try:
                with reader_end:
                    socket.send_fds(self._control, [b"+"], [shared, reader_end.fileno(), *other_files])
                answer = _word(own_end, START)
                if answer is None:
                    raise _LostError
                if answer.startswith("failed"):
                    raise _process_error(os.strerror(int(answer.split()[1])))
                status = _word(own_end, seconds)
            except OSError:
                raise _LostError from None
            finally:
                if status is None:
                    self._end_reader(own_end)
        return None if status is None else int(status)

    def _end_reader(self, connection: socket.socket) -> None:
        with suppress(OSError, _LostError):  # the server closes its end after the last message
            connection.shutdown(socket.SHUT_WR)
            while _word(connection, GRACE) is not None:
                pass
            self._process.kill()  # readers end with the server

    def stop(self) -> None:
        """End the server process and close its files."""
        self._control.close()
        try:
            self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        error_text = os.pread(self._errors.fileno(), 1 << 16, 0).decode(errors="replace").strip()
        self._reason = error_text.splitlines()[-1] if error_text else f"it ended with code {self._process.returncode}"
        self._errors.close()

    def forget(self) -> None:
        """Close a parent process's server connection after a fork, without ending the server."""
        self._close()
        self._process.returncode = 0  # not a child of this process, so do not wait for it

    def _close(self) -> None:
        self._control.close()
        self._errors.close()

    def error(self) -> ReproError:
        """Return the error to raise if the server has ended."""
        return _process_error(self._reason)


def _process_error(actual: object) -> ReproError:
    failure = "no process can be started to read files in"
    return ReproError(failure, where=sys.executable or None, actual=actual, todo=_TODO)


def _raise_descriptor(end: socket.socket) -> socket.socket:
    """Return the socket with a file descriptor above 2, since 0, 1 and 2 may be closed later."""
    with end:
        return socket.socket(fileno=fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 3))


def _word(connection: socket.socket, seconds: float) -> str | None:
    """Return the next message of the server as text; None after a timeout."""
    waiting = select.poll()
    waiting.register(connection, select.POLLIN)
    if not waiting.poll(min(1000 * seconds, 2**31 - 1)):
        return None
    word = connection.recv(64).decode()
    if not word:
        raise _LostError
    return word


_server: _Server | None = None
#: Held while a server starts and its files are not registered in this module yet; forking waits for this lock.
_lock = threading.RLock()


def _get_server() -> _Server:
    global _server  # noqa: PLW0603
    with _lock:
        if _server is None:
            _server = _Server()
        return _server


def _drop(server: _Server) -> None:
    global _server  # noqa: PLW0603
    with _lock:
        if _server is server:  # otherwise another thread has already dropped it
            _server = None
            server.stop()


def stop() -> None:
    """End the server if it is running; the next read starts a new one."""
    if _server is not None:
        _drop(_server)


def _forget() -> None:
    global _server  # noqa: PLW0603
    if _server is not None:
        _server.forget()
        _server = None
    _lock.release()


atexit.register(stop)
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_forget)


T = TypeVar("T")
#: Bytes of memory that reading any file may use, however small the file is.
ALWAYS = 2 << 30
_LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]


def read_isolated(
    read: Callable[[], T],
    path: Path,
    limits: Limits,
    reader: str,
    public_path: Path | None = None,
    needs: Sequence[str] = (),
) -> T:
    """Call a function in a subprocess and return its result; thread-safe.

    The subprocess has the current folder, environment, module path, resource limits and standard error of this process.
    Raises `ReproError`: `read` raised it, or the subprocess exceeded the limits, crashed, or could not be started.

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
        Additional modules that the server imports once for all files.
    """
    if reader_process.is_isolated:
        return read()
    fair_memory = max(ALWAYS, int(limits.memory_ratio * max_unpacked(path, limits)[0]))
    memory, key = (
        (fair_memory, "limits.memory_ratio") if fair_memory < limits.memory else (limits.memory, "limits.memory")
    )
    with tempfile.TemporaryDirectory(prefix="repro-read-") as temporary, _files() as files:
        request = ReadRequest(
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
        result: T = _read_result(status, files[0], public_path or path, limits, reader, memory, key)
        return result


@contextmanager
def _files() -> Iterator[list[int]]:
    """Open the files to send with a request: shared memory, current folder, and standard error."""
    descriptors: list[int] = []
    try:
        descriptors.append(os.memfd_create("repro-read", os.MFD_CLOEXEC))
        try:
            descriptors.append(os.open(".", os.O_PATH | os.O_DIRECTORY))
        except OSError:  # the current folder is not accessible
            descriptors.append(os.open("/", os.O_PATH | os.O_DIRECTORY))
        try:
            descriptors.append(os.dup(2 if sys.__stderr__ else -1))
        except OSError:  # standard error is closed
            descriptors.append(os.open(os.devnull, os.O_WRONLY))
        yield descriptors
    finally:
        for file in descriptors:
            os.close(file)


def _read_result(
    status: int | None, answer: int, path: Path, limits: Limits, reader: str, memory: int, key: str
) -> Any:
    advice = "the file is damaged, or made to do this: export it again"
    if status is None:
        raise ReproError(
            "reading the file takes too long",
            where=path,
            expected=f"at most {limits.seconds:,g} s (limits.seconds)",
            actual=f"{reader} was still at it",
            todo=f"{advice}; or raise limits.seconds",
        )
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
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
    # After a crash, the shared memory may still contain the request instead of a result.
    is_complete = os.WEXITSTATUS(status) == 0 and os.fstat(answer).st_size
    content: Any
    kind, content = load_shared(answer) if is_complete else ("bug", f"exit code {os.WEXITSTATUS(status)}")
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
