"""Locks that give one thread of a process, and one process of a machine, exclusive use of a device.

A thread locks a device for the time of a call. A forked process must not use devices that its parent opened. A process
that measures holds a `flock` on one file for each device; the system releases the lock when the process ends. The file
is never deleted. It names the holder, so that waiting processes can print it, and idle processes: former holders that
still have a context on the device.
"""

from __future__ import annotations

import atexit
import errno
import json
import os
import platform
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from threading import RLock
from typing import Any, NoReturn, Protocol
from weakref import WeakSet

from repro.errors import ReproError
from repro.filesystem import describe_process, try_lock, unlock, wait_for_lock, write_holder

#: Maximum seconds that the exiting interpreter waits for a call in another thread.
SHUTDOWN_TIMEOUT = 10.0


class _Shared(Protocol):
    """An object that threads share: a device or an additional queue."""

    name: str
    exclusive: AbstractContextManager[object]


class _ForkedLock:
    """Replaces a lock in a forked process and raises errors, since neither CUDA nor threaded OpenCL works after
    a fork.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> NoReturn:
        raise ReproError(
            "the device was opened before this process was forked and cannot be used in it",
            where=self._name,
            expected=f"the process that opened it; this one is {os.getpid()}",
            todo="create operators and vectors in the process that uses them, or start processes by `spawn`, as "
            'multiprocessing.get_context("spawn") does',
        )

    def __exit__(self, *error: object) -> None: ...


_opened: WeakSet[Any] = WeakSet()


def exclusive_use(shared: _Shared) -> AbstractContextManager[object]:
    """Return a re-entrant lock for a device or a queue."""
    _opened.add(shared)
    return RLock()


def _invalidate_after_fork() -> None:
    for shared in list(_opened):
        shared.exclusive = _ForkedLock(shared.name)


def _lock_at_exit() -> None:
    """Lock all devices at interpreter exit, after running calls have ended.

    At exit, Python ends daemon threads. A thread that is inside a C++ library would abort the process; a thread that
    waits for a lock does not.
    """
    for shared in list(_opened):
        if not isinstance(shared.exclusive, _ForkedLock):
            shared.exclusive.acquire(timeout=SHUTDOWN_TIMEOUT)


os.register_at_fork(after_in_child=_invalidate_after_fork)
atexit.register(_lock_at_exit)


#: Possible folders for lock files; the first one that everyone can write to is used. The choice must not depend on the
#: user or the environment, since all processes must use the same folder.
PLACES = (Path("/run/lock"), Path("/var/lock"), Path("/tmp"))
SHARED = stat.S_IWOTH | stat.S_ISVTX
EVERYONE = 0o666
MAX_HOLDER_BYTES = 4096
#: Exceptions that reading JSON from an untrusted file may raise.
UNREADABLE = (ValueError, OverflowError, RecursionError)
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class DeviceLocks:
    """Locks of the devices that a process uses exclusively. The process may lend the devices for a time."""

    def __init__(self, devices: Iterable[str], work: str) -> None:
        self._devices, self._work = sorted(set(devices)), work
        self._files: list[int] = []
        self.idle: set[int] = set()

    def take(self, *, say: bool = True) -> None:
        """Wait for all locks, in an order that is equal in all processes; print the current holder if `say`."""
        self.idle = set()
        try:
            for device in self._devices:
                file = _acquire(device, say=say)
                self._files.append(file)
                self.idle |= _idle(file) - {os.getpid()}
                since = datetime.now().astimezone().isoformat(timespec="seconds")
                holder = {**describe_process(), "work": self._work, "since": since}
                _write(file, {**holder, "idle": sorted(self.idle)})
        except BaseException:
            self.free()
            raise

    def free(self) -> None:
        while self._files:
            file = self._files.pop()
            # This process keeps its context on the device until it ends.
            _write(file, {"idle": sorted(self.idle | {os.getpid()})})
            unlock(file)
            os.close(file)

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Release the locks while the body works on the host, then take them again, unless the body was interrupted."""
        self.free()
        try:
            yield
        except Exception:
            self.take(say=False)
            raise
        self.take(say=False)


@contextmanager
def lock_devices(devices: Iterable[str], work: str) -> Iterator[DeviceLocks]:
    """Wait until no other measurement runs on these devices, then keep the devices locked during the body.

    Raises `ReproError`: a lock file cannot be opened or is not a regular file.

    Parameters
    ----------
    devices
        Identifiers returned by `repro.devices.selection.identities`.
    work
        Description of the measurement, printed by waiting processes.
    """
    locks = DeviceLocks(devices, work)
    locks.take()
    try:
        yield locks
    finally:
        locks.free()


def _acquire(device: str, *, say: bool) -> int:
    """Open and lock a device's file; return it. If the file was deleted meanwhile, open a new one."""
    path = lock_path(device)
    while True:
        file = _open(path)
        if not try_lock(file):
            if say:
                print(f"the device {device} is held by {_holder(file)}; waiting", flush=True)
            start = time.monotonic()
            wait_for_lock(file)
            if say:
                print(f"the device {device} is free: went on after {time.monotonic() - start:.0f} s", flush=True)
        try:
            if os.path.samestat(os.fstat(file), path.stat()):
                return file
        except FileNotFoundError:
            pass
        os.close(file)


def lock_path(device: str) -> Path:
    for folder in PLACES:
        with suppress(OSError):
            if folder.stat().st_mode & SHARED == SHARED and not os.statvfs(folder).f_flag & os.ST_RDONLY:
                break
    return folder / f"sparse-repro-{device.replace(':', '-').replace('/', '-')}.lock"


def _open(path: Path) -> int:
    """Open a lock file, or create it with access for all users; symbolic links are rejected."""
    try:
        file = _open_or_make(path)
    except OSError as error:
        link = error.errno in (errno.ELOOP, errno.EMLINK)
        raise _refusal(path, "it is a link" if link else error.strerror) from None
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        os.close(file)
        raise _refusal(path, "it is no file, or a link to one")
    return file


def _open_or_make(path: Path) -> int:
    while True:
        try:
            # With the kernel setting fs.protected_regular, O_CREAT would fail on another user's file.
            return os.open(path, os.O_RDWR | _FLAGS)
        except FileNotFoundError:
            pass
        except PermissionError:  # another user's file; read access is enough to lock it
            return os.open(path, os.O_RDONLY | _FLAGS)
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS, EVERYONE)
        except FileExistsError:
            continue
        os.fchmod(file, EVERYONE)  # `os.open` alone would apply the umask
        return file


def _refusal(path: Path, reason: object) -> ReproError:
    return ReproError(
        "a device cannot be locked",
        where=path,
        expected="a file that every user can read and write",
        actual=reason,
        todo=f"ask its owner or the administrator to delete it: `rm {path}`",
    )


def _write(file: int, content: Mapping[str, Any]) -> None:
    """Write the holder to the file if this user may write to it; locking needs only read access."""
    with suppress(OSError):  # a full disk does not prevent measuring
        write_holder(file, content)


def _idle(file: int) -> set[int]:
    """Return former holders of a device that are still alive, as listed in the lock file."""
    try:
        idle_pids = json.loads(os.pread(file, MAX_HOLDER_BYTES, 0))["idle"]
        return {pid for pid in idle_pids if isinstance(pid, int) and _is_alive(pid)}
    except (OSError, KeyError, TypeError, *UNREADABLE):  # no content, or an unknown format
        return set()


def _is_alive(pid: int) -> bool:
    """Return whether there is a process of this number, also one of another user."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _holder(file: int) -> str:
    for _ in range(10):  # the holder writes its name shortly after locking
        if b'"pid"' in (content := os.pread(file, MAX_HOLDER_BYTES, 0)):
            break
        time.sleep(0.02)
    try:
        holder = json.loads(content)
        since = datetime.fromisoformat(holder["since"]).astimezone()
        host = "" if holder["host"] == platform.node() else f" on {holder['host']}"
        who = f"pid {int(holder['pid'])}{host} ({_plain(holder['user'])}, {_plain(holder['work'])})"
    except (KeyError, TypeError, *UNREADABLE):
        return "another process, which does not say who it is"
    today = since.date() == datetime.now().astimezone().date()
    return f"{who} since {since:%H:%M}" if today else f"{who} since {since:%Y-%m-%d %H:%M}"


def _plain(text: object) -> str:
    """Remove control characters from another user's text before it is printed to a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(text))[:200]
