"""Reading a foreign file in a process of its own, so that a crash, a flood or a hang becomes one message.

The reader is forked by a server (`repro.problems.reader_process`), one for each process. The server is a program of
its own and has one thread: this process may have several, and a lock that one of them holds at that moment, such as
that on imports, would block a child of this process for ever. The server starts with the first file and ends with
this process; a process that was forked from this one starts its own. What was read comes back through shared
memory.
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
from repro.problems.files import most_unpacked
from repro.problems.reader_process import ONE_THREAD, ReadRequest, load_shared, save_shared

#: Seconds that it may take to have a reader: the server imports libraries, from a slow disk maybe.
START = 300.0
#: Seconds that it may take to end one.
GRACE = 10.0
#: The server's program. It takes modules from where this process does, whatever the script or the folder it starts in.
_PROGRAM = """
import sys
sys.path[:] = sys.argv[2:]
from repro.problems.reader_process import serve
serve(int(sys.argv[1]))
"""
_TODO = "allow more processes (`ulimit -u`), if they ran out; or see that this Python can start as it did before"


def status_of_reader(request: ReadRequest, files: list[int], seconds: float) -> int | None:
    """Have a process read, and return how it ended, as `os.waitpid` has it; None: it took longer, and was ended.

    Parameters
    ----------
    request
        What to read, and how.
    files
        What goes along, see `repro.problems.reader_process.serve`: memory, which gets the answer, the folder that the
        process is to be in, and its standard error.
    seconds
        How long it may take.

    Raises
    ------
    ReproError
        No process can be started.
    """
    tries = 2  # the server may have been ended by somebody while it had nothing to do
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
    """The server does not answer, or no longer."""


class _Server:
    def __init__(self) -> None:
        if not sys.executable:
            raise _no_process("no Python interpreter (sys.executable)")
        self._reason = ""
        self._said = os.fdopen(os.memfd_create("repro-reader-server", os.MFD_CLOEXEC), "rb", buffering=0)
        self._control, theirs = map(_raised, socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        self._control.settimeout(START)
        # what this Python was told of where modules come from and go to, and of how paths are spelt
        told = {"-E": "ignore_environment", "-s": "no_user_site", "-S": "no_site", "-B": "dont_write_bytecode"}
        options = [option for option, flag in told.items() if getattr(sys.flags, flag)]
        options += ["-P", "-X", f"utf8={sys.flags.utf8_mode}"]
        # what is in the folder that this process is in now may have the name of a library
        here = str(Path(reader_process.__file__).parents[2])
        path = [*(entry for entry in sys.path if isinstance(entry, str) and entry), here]
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, *options, "-c", _PROGRAM, str(theirs.fileno()), *path],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=self._said,
                    env={**os.environ, **ONE_THREAD},
                    pass_fds=[theirs.fileno()],
                )
            except OSError as error:
                self._close()
                raise _no_process(error) from None

    def run(self, files: list[int], seconds: float) -> int | None:
        shared, *others = files
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        status = None
        with mine:
            try:
                with theirs:
                    socket.send_fds(self._control, [b"+"], [shared, theirs.fileno(), *others])
                said = _word(mine, START)
                if said is None:
                    raise _LostError
                if said.startswith("failed"):
                    raise _no_process(os.strerror(int(said.split()[1])))
                status = _word(mine, seconds)
            except OSError:
                raise _LostError from None
            finally:
                if status is None:
                    self._end_reader(mine)
        return None if status is None else int(status)

    def _end_reader(self, connection: socket.socket) -> None:
        with suppress(OSError, _LostError):  # the other end is closed when all is said
            connection.shutdown(socket.SHUT_WR)
            while _word(connection, GRACE) is not None:
                pass
            self._process.kill()  # a reader dies with it

    def stop(self) -> None:
        """Let it end, and have nothing left of it."""
        self._control.close()
        try:
            self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        said = os.pread(self._said.fileno(), 1 << 16, 0).decode(errors="replace").strip()
        self._reason = said.splitlines()[-1] if said else f"it ended with code {self._process.returncode}"
        self._said.close()

    def forget(self) -> None:
        """Leave it to the process that this one was forked from."""
        self._close()
        self._process.returncode = 0  # it is no child of this one, which has not to wait for it

    def _close(self) -> None:
        self._control.close()
        self._said.close()

    def error(self) -> ReproError:
        """Return the error that it came to an end."""
        return _no_process(self._reason)


def _no_process(actual: object) -> ReproError:
    what = "no process can be started to read files in"
    return ReproError(what, where=sys.executable or None, actual=actual, todo=_TODO)


def _raised(end: socket.socket) -> socket.socket:
    """Return a socket under another number than that of standard input, output or error, where those are closed."""
    with end:
        return socket.socket(fileno=fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 3))


def _word(connection: socket.socket, seconds: float) -> str | None:
    """Return what the server says, or None if it takes longer."""
    waiting = select.poll()
    waiting.register(connection, select.POLLIN)
    if not waiting.poll(min(1000 * seconds, 2**31 - 1)):
        return None
    word = connection.recv(64).decode()
    if not word:
        raise _LostError
    return word


_server: _Server | None = None
#: While it is held, a server starts and its files are not this module's yet; no process is forked meanwhile.
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
        if _server is server:  # else another thread has done so
            _server = None
            server.stop()


def stop() -> None:
    """End the server, if there is one. Another one starts when it is needed."""
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
#: What reading may take whatever the file's size, in bytes.
ALWAYS = 2 << 30
_LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]


def read_isolated(
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
    if reader_process.is_isolated:
        return read()
    memory, key = _allowed(path, limits)
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
    kind, content = load_shared(answer) if done else ("bug", f"exit code {os.WEXITSTATUS(status)}")
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
