"""Containment of foreign code: changes of this process are undone after each call, and described in plain words.

Foreign code is a rival or another installed package. It shares the process with the code that measures and stores
rows. `Containment.call` holds what is shared (streams, working folder, limits, signal handlers, clocks, …) before a
call, and compares and restores it after the call. Timed launches run inside one call, so they do not pay for it.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import io
import locale
import os
import platform
import resource
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter, sleep
from typing import Any, TextIO

_LIBC = ctypes.CDLL(None)


class Interrupted(KeyboardInterrupt):
    """Raised at SIGINT, so that foreign code that raises a `KeyboardInterrupt` is not taken for a signal."""


class Terminated(BaseException):
    """Raised at SIGTERM; not an `Exception`, so that `except Exception` does not catch it."""


#: Exceptions that ask this process to end. Any other exception of foreign code is its own failure.
ENDING = (Interrupted, Terminated)


def text_of(error: BaseException) -> str:
    """Return the text of a foreign exception, whose `__str__` may raise."""
    try:
        return f"{error}"
    except BaseException as second:
        if isinstance(second, ENDING):
            raise
        return f"its text cannot be read: {type(second).__name__}"


@dataclass(frozen=True)
class State:
    """A part of the process that foreign code can change.

    Attributes
    ----------
    words
        Text for the report, such as `changes the working folder`; None: a change is restored but not reported.
    get, put
        Functions that read and restore it. `put` may fail.
    differ
        Returns whether two readings differ; objects of foreign code are compared by identity.
    """

    words: str | None
    get: Callable[[], Any]
    put: Callable[[Any], object]
    differ: Callable[[Any, Any], bool] = lambda old, new: old != new


#: Modules whose functions the harness calls while and after foreign code runs; additions to them are no change.
_MODULES = ("builtins", "time", "os", "signal", "threading", "io", "json", "ctypes", "numpy", "gc", "resource")
#: Attributes of `sys` that are watched as those of `_MODULES` are.
_HOOKS = ("stdin", "stdout", "stderr", "excepthook", "unraisablehook", "displayhook", "exit", "gettrace", "settrace")
_ABSENT = object()


class _Functions:
    """The attributes of modules; code that restores them must not call what foreign code may have replaced."""

    def __init__(self) -> None:
        self._held: list[tuple[dict[str, Any], list[tuple[str, Any]], str]] = []
        for name in _MODULES:
            module = sys.modules.get(name)
            if module is not None:
                self._held.append((vars(module), [*vars(module).items()], name))
        self._held.append((vars(sys), [(name, vars(sys)[name]) for name in _HOOKS], "sys"))

    def restore(self) -> list[str]:
        replaced = []
        for attributes, values, module in self._held:
            for name, value in values:
                if attributes.get(name, _ABSENT) is not value:
                    attributes[name] = value
                    replaced.append(f"{module}.{name}")
        return replaced


def _folder() -> str | None:
    try:
        return str(Path.cwd())
    except OSError:
        return None


def _put_folder(folder: str | None) -> None:
    if folder is not None:
        os.chdir(folder)


def _swap_umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _variables() -> dict[bytes, bytes]:
    """Return the environment variables of the C library, which libraries change past Python."""
    variables = {}
    array = ctypes.POINTER(ctypes.c_char_p).in_dll(_LIBC, "environ")
    place = 0
    while array and (item := array[place]) is not None:
        name, _, value = item.partition(b"=")
        variables[name] = value
        place += 1
    return variables


_ENVIRONMENT, _ENVIRONMENT_BYTES = os.environ, os.environb


def _set_variable(name: bytes, value: bytes | None) -> None:
    """Set an environment variable for Python and for the C library, or delete it."""
    if value is None:
        _ENVIRONMENT_BYTES.pop(name, None)
        os.unsetenv(name)
    else:
        _ENVIRONMENT_BYTES[name] = value


def _put_environment(variables: dict[bytes, bytes]) -> None:
    os.environ, os.environb = _ENVIRONMENT, _ENVIRONMENT_BYTES
    for name in {*_variables(), *_ENVIRONMENT_BYTES, *variables}:
        _set_variable(name, variables.get(name))


#: Signals of faults stay as foreign code has set them: the run-time systems of some languages need their handlers.
_FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP, signal.SIGABRT)
_SIGNALS = tuple(number for number in signal.valid_signals() - {*_FAULTS, signal.SIGKILL, signal.SIGSTOP})
#: Bytes of `struct sigaction`; more than any C library has.
_ACTION_BYTES = 256


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _handlers() -> tuple[list[Any], list[bytes]]:
    """Return the handlers of all signals as Python and as the C library know them."""
    actions = []
    for number in _SIGNALS:
        buffer = ctypes.create_string_buffer(_ACTION_BYTES)
        _LIBC.sigaction(int(number), None, buffer)
        actions.append(buffer.raw)
    return [signal.getsignal(number) for number in _SIGNALS], actions


def _put_handlers(value: tuple[list[Any], list[bytes]]) -> None:
    now = _handlers()
    for number, handler, action, new_handler, new_action in zip(_SIGNALS, *value, *now, strict=True):
        if new_handler is not handler and handler is not None and _in_main_thread():
            signal.signal(number, handler)
        if new_handler is not handler or new_action[:8] != action[:8]:
            _LIBC.sigaction(int(number), action, None)


def _handlers_differ(old: tuple[list[Any], list[bytes]], new: tuple[list[Any], list[bytes]]) -> bool:
    differ = any(before is not after for before, after in zip(old[0], new[0], strict=True))
    return differ or any(before[:8] != after[:8] for before, after in zip(old[1], new[1], strict=True))


def _wakeup() -> int | None:
    if not _in_main_thread():
        return None
    number = signal.set_wakeup_fd(-1)
    _put_wakeup(number)
    return number


def _put_wakeup(number: int | None) -> None:
    if number is not None and _in_main_thread():
        signal.set_wakeup_fd(number, warn_on_full_buffer=False)


_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)


def _put_timers(armed: list[bool]) -> None:
    for timer, was_armed in zip(_TIMERS, armed, strict=True):
        if not was_armed:
            signal.setitimer(timer, 0)


_LIMITS = tuple(getattr(resource, name) for name in sorted(dir(resource)) if name.startswith("RLIMIT_"))


def _put_limits(limits: list[tuple[int, int]]) -> None:
    """Restore limits. Only the superuser may raise a hard limit, but the soft one is the one that counts."""
    for limit, (soft, hard) in zip(_LIMITS, limits, strict=True):
        if resource.getrlimit(limit) == (soft, hard):
            continue
        try:
            resource.setrlimit(limit, (soft, hard))
        except (OSError, ValueError):
            lowered = resource.getrlimit(limit)[1]
            if limit == resource.RLIMIT_CORE:
                continue
            resource.setrlimit(limit, (soft, lowered))  # fails where the hard limit is below


#: Where the control word of the x87 unit and the register MXCSR lie in `fenv_t`, with the bits that are no flags.
_ROUNDING = ((0, 2, 0xFFFF), (28, 4, 0xFFFFFFC0))


def _floating_point() -> list[int]:
    if platform.machine() != "x86_64":
        return []
    buffer = ctypes.create_string_buffer(64)
    _LIBC.fegetenv(buffer)
    return [int.from_bytes(buffer.raw[place : place + size], "little") & mask for place, size, mask in _ROUNDING]


def _put_floating_point(words: list[int]) -> None:
    if not words:
        return
    buffer = ctypes.create_string_buffer(64)
    _LIBC.fegetenv(buffer)
    content = bytearray(buffer.raw)
    for (place, size, mask), word in zip(_ROUNDING, words, strict=True):
        flags = int.from_bytes(content[place : place + size], "little") & ~mask
        content[place : place + size] = (word | flags).to_bytes(size, "little")
    _LIBC.fesetenv(bytes(content))


def _numpy_errors() -> dict[str, Any] | None:
    numpy = sys.modules.get("numpy")
    return None if numpy is None or not hasattr(numpy, "geterr") else dict(numpy.geterr())


def _put_numpy_errors(errors: dict[str, Any] | None) -> None:
    if errors is not None:
        sys.modules["numpy"].seterr(**errors)


def _put_filters(filters: list[Any]) -> None:
    warnings.filters[:] = filters  # type: ignore[index]
    with suppress(AttributeError):
        warnings._filters_mutated()  # type: ignore[attr-defined]


def _put_collection(value: tuple[bool, tuple[int, int, int]]) -> None:
    (gc.enable if value[0] else gc.disable)()
    gc.set_threshold(*value[1])


def _are_other(old: Any, new: Any) -> bool:
    return old is not new


#: Limits come first, since reading the others needs descriptors.
STATES: tuple[State, ...] = (
    State("changes limits of its process (ulimit)", lambda: [*map(resource.getrlimit, _LIMITS)], _put_limits),
    State(
        "leaves a timer armed",
        lambda: [signal.getitimer(timer)[0] > 0 for timer in _TIMERS],
        _put_timers,
        lambda old, new: any(is_armed and not was for was, is_armed in zip(old, new, strict=True)),
    ),
    State("changes the working folder", _folder, _put_folder),
    State("changes the umask", _swap_umask, os.umask),
    State("changes environment variables", _variables, _put_environment),
    State("changes signal handlers", _handlers, _put_handlers, _handlers_differ),
    State(
        "blocks signals",
        lambda: signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        lambda mask: signal.pthread_sigmask(signal.SIG_SETMASK, mask),
    ),
    State(None, _wakeup, _put_wakeup),
    State("changes the locale", partial(locale.setlocale, locale.LC_ALL), partial(locale.setlocale, locale.LC_ALL)),
    State("changes its processors", partial(os.sched_getaffinity, 0), partial(os.sched_setaffinity, 0)),
    State(
        "changes its priority",
        lambda: os.getpriority(os.PRIO_PROCESS, 0),
        lambda value: os.setpriority(os.PRIO_PROCESS, 0, value),
    ),
    State("changes how floating-point numbers are rounded", _floating_point, _put_floating_point),
    State("changes NumPy's handling of errors", _numpy_errors, _put_numpy_errors),
    State("traces Python's calls", sys.gettrace, sys.settrace, _are_other),
    State("profiles Python's calls", sys.getprofile, sys.setprofile, _are_other),
    State(
        "changes Python's garbage collection", lambda: (gc.isenabled(), gc.get_threshold()), _put_collection
    ),
    State("changes Python's recursion limit", sys.getrecursionlimit, sys.setrecursionlimit),
    State("changes Python's switch interval", sys.getswitchinterval, sys.setswitchinterval),
    State(None, lambda: [*warnings.filters], _put_filters, lambda old, new: [*map(id, old)] != [*map(id, new)]),
)  # fmt: skip

#: Files that a driver opens and closes as it pleases.
_OF_DRIVERS = ("/dev/nvidia", "anon_inode:", "/dmabuf")
#: First number of descriptors that this module holds.
_HIGH = 64
Descriptors = Mapping[int, tuple[int, int, int]]


def _identity(number: int) -> tuple[int, int, int] | None:
    try:
        status = os.fstat(number)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_rdev


def _descriptors() -> Descriptors:
    """Return the open descriptors and the files that they refer to, without those of drivers."""
    found = {}
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 (faster, and called often)
        with suppress(OSError):
            link = os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115
            if not link.startswith(_OF_DRIVERS) and (identity := _identity(int(name))):
                found[int(name)] = identity
    return found


def _threads() -> dict[int, int]:
    """Return the native threads of this process with the nanoseconds for which each has run or waited to run."""
    found = {}
    for path in Path("/proc/self/task").iterdir():
        with suppress(OSError, ValueError):
            found[int(path.name)] = sum(map(int, (path / "schedstat").read_bytes().split()[:2]))
    return found


#: Seconds for which threads that foreign code has started may go on after a call, as pools do that wait actively; and
#: between two looks.
_CALMING, _LOOK = 2.0, 0.01


def _keep_busy(earlier: Mapping[int, int]) -> bool:
    """Return whether threads that were not there earlier compute on and on."""
    try:
        before = _threads()
        if not {*before} - {*earlier}:
            return False
        end = perf_counter() + _CALMING
        while perf_counter() < end:
            start = perf_counter()
            sleep(_LOOK)
            now, elapsed = _threads(), 1e9 * (perf_counter() - start)
            if sum(now[thread] - before.get(thread, 0) for thread in now if thread not in earlier) < elapsed / 2:
                return False
            before = now
    except OSError:
        return False
    return True


#: Descriptors of standard output and error of the outermost call; empty while no foreign code runs.
_outside: list[tuple[int, int]] = []
#: Whether foreign code has run in this process, which then ends without its exit functions and threads.
has_run = False


def release_streams() -> None:
    """Give this process its standard streams back from foreign code that hangs; the process must end next."""
    for number, held in _outside:
        with suppress(OSError):
            os.dup2(held, number)


def leave(code: int) -> None:
    """End this process at once if foreign code has run in it, whatever threads and exit functions that has left."""
    if has_run:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(code)


#: Bytes of output of one call that are read, lines of all calls that are kept, and letters of a line.
MAX_OUTPUT, MAX_LINES, MAX_LETTERS = 1 << 16, 20, 200


#: Environment variables that foreign code has set (None: deleted), by its name; it finds them again at its next call.
_variables_of: dict[str, dict[bytes, bytes | None]] = {}


class Containment:
    """What foreign code of one name has changed and printed so far.

    Parameters
    ----------
    name
        Name of the foreign code in messages.
    captures
        Whether standard output and error are kept in `lines` instead of being printed.
    """

    def __init__(self, name: str, *, captures: bool = True) -> None:
        self.name = name
        self._captures = captures
        #: What it changed, in the order of the changes, each once.
        self.changes: dict[str, None] = {}
        #: Lines that it printed, each once, with how often.
        self.lines: dict[str, int] = {}
        #: Further parts of the process to hold, such as the current context of a device.
        self.states: tuple[State, ...] = ()
        #: What it changed that cannot be restored; empty if nothing. Only a new process can go on.
        self.beyond_repair = ""
        self._variables = _variables_of.setdefault(name, {})
        self._opened: dict[int, tuple[int, int, int]] = {}
        self._threads: list[threading.Thread] = []
        self._inside = False

    @property
    def message(self) -> str | None:
        """What it changed, for a row; None if it changed nothing."""
        return ", ".join(self.changes) or None

    @contextmanager
    def call(self) -> Iterator[None]:
        """Hold the state of the process while the body calls foreign code; a call inside of a call does nothing."""
        if self._inside:
            yield
            return
        global has_run  # noqa: PLW0603
        has_run = True
        self._inside = True
        states = (*STATES, *self.states)
        before = [state.get() for state in states]
        open_before, native_threads, threads = _descriptors(), _threads(), threading.enumerate()
        streams = _Streams() if self._captures else None
        functions = _Functions()
        for name, value in self._variables.items():
            with suppress(ValueError):
                _set_variable(name, value)
        try:
            yield
        finally:
            replaced = functions.restore()
            if replaced:
                named = ", ".join(replaced[:3]) + ", …" * (len(replaced) > 3)
                self.changes[f"replaces {named}"] = None
            self._restore(states, before)
            if streams is not None:
                self._keep(streams.close())
            self._compare_descriptors(open_before)
            if _keep_busy(native_threads):
                self._spoil("leaves a thread that keeps a processor busy")
            self._threads += [thread for thread in threading.enumerate() if thread not in threads]
            self._inside = False

    def note_threads(self) -> None:
        """Note Python's threads that it has started and not ended; to be called after its last call."""
        if left := [thread.name for thread in self._threads if thread.is_alive()]:
            self.changes[f"leaves {len(left)} thread{'s' * (len(left) > 1)} running"] = None
        self._threads.clear()

    def _restore(self, states: Sequence[State], before: Sequence[Any]) -> None:
        for state, old in zip(states, before, strict=True):
            try:
                new = state.get()
                if not state.differ(old, new):
                    continue
                if state.get is _variables:
                    names = {name for name in {*old, *new} if old.get(name) != new.get(name)}
                    self._variables |= {name: new.get(name) for name in names}
                if state.words:
                    self.changes[state.words] = None
                state.put(old)
            except Exception as error:
                self._spoil(f"{state.words or 'changes its process'}, beyond repair ({type(error).__name__})")

    def _spoil(self, words: str) -> None:
        self.changes[words] = None
        self.beyond_repair = self.beyond_repair or words

    def _compare_descriptors(self, before: Descriptors) -> None:
        foreign = {number for number, identity in self._opened.items() if before.get(number) == identity}
        try:
            now = _descriptors()
        except OSError:
            self._spoil("takes all descriptors of its process")
            return
        changed = [
            number for number, identity in before.items() if number not in foreign and now.get(number) != identity
        ]
        if changed:
            closed = [number for number in changed if number not in now]
            self._spoil(f"{'closes' if closed else 'redirects'} descriptors of its process")
        self._opened = {
            number: identity for number, identity in now.items() if number in foreign or number not in before
        }

    def _keep(self, output: str) -> None:
        for line in output.splitlines():
            text = "".join(letter if letter.isprintable() else " " for letter in line).rstrip()
            if len(text) > MAX_LETTERS:
                text = f"{text[: MAX_LETTERS - 1]}…"
            if text and (text in self.lines or len(self.lines) < MAX_LINES):
                self.lines[text] = self.lines.get(text, 0) + 1


@contextmanager
def told_apart(name: str) -> Iterator[None]:
    """Contain the body; print its output and its changes on standard error, prefixed with a name."""
    containment = Containment(name)
    try:
        with containment.call():
            yield
    finally:
        for line in containment.lines:
            print(f"{name} prints: {line}", file=sys.stderr)
        if containment.changes:
            print(f"warning: {name} {containment.message}", file=sys.stderr)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    _LIBC.fflush(None)


def _stream(number: int) -> TextIO:
    return io.TextIOWrapper(
        io.FileIO(number, "w", closefd=False), encoding="utf-8", errors="replace", write_through=True
    )


class _Streams:
    """Standard streams of foreign code: empty input, and a file in memory for output and errors."""

    def __init__(self) -> None:
        _flush()
        self._stdout, self._stderr = sys.stdout, sys.stderr
        self._file = os.memfd_create("output")
        self._held = [(number, fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, _HIGH)) for number in (0, 1, 2)]
        self._identities = [(_identity(number), _identity(held)) for number, held in self._held]
        if not _outside:
            _outside.extend(self._held[1:])
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.close(empty)
        for number in (1, 2):
            os.dup2(self._file, number)
        sys.stdout, sys.stderr = _stream(1), _stream(2)

    def close(self) -> str:
        """Give the process its streams back; return what was printed."""
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        sys.stdout, sys.stderr = self._stdout, self._stderr
        _LIBC.fflush(None)
        output = b""
        with suppress(OSError):
            output = os.pread(self._file, MAX_OUTPUT, 0)
        if _outside == self._held[1:]:
            _outside.clear()
        for (number, held), (wanted, kept) in zip(self._held, self._identities, strict=True):
            if wanted == kept == _identity(held):
                os.dup2(held, number)
                os.close(held)
            else:  # closed or redirected: no other file may get the number
                with suppress(OSError):
                    empty = os.open(os.devnull, os.O_RDWR)
                    os.dup2(empty, number)
                    if empty != number:
                        os.close(empty)
        with suppress(OSError):
            os.close(self._file)
        return output.decode(errors="replace")
