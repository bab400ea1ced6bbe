"""Exclusive use of devices: by one thread of this process, and by one process of the machine.

A thread has a device to itself for a call, and a process that was forked from the one that opened a device may not
use it. A process that measures takes a lock for each device, on which all users and processes of the machine agree.
The lock is `flock` on a file that is never deleted: the system frees it when its process ends, however it ends, and
a file that remains locks nothing. The file names the holder, for those who wait, and the previous holder: a process
that works on the host for a while, or ends, lets others measure, and is still on the device, where it does nothing.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import json
import os
import platform
import pwd
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from threading import RLock
from typing import Any, NoReturn, Protocol
from weakref import WeakSet

import psutil

from repro.errors import ReproError

#: Seconds that the end of the interpreter waits for what a thread has a device do.
SHUTDOWN_TIMEOUT = 10.0


class _Shared(Protocol):
    """What threads share: a device, or a queue beside its own.

    Attributes
    ----------
    name
        Of the device.
    exclusive
        Held by the thread that works with it.
    """

    name: str
    exclusive: AbstractContextManager[object]


class _Lost:
    """In the place of the lock in a forked process: neither CUDA nor an OpenCL of threads outlives a fork."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> NoReturn:
        raise ReproError(
            "the device was opened before this process was forked, and is of no use in it",
            where=self._name,
            expected=f"the process that opened it; this one is {os.getpid()}",
            todo="make operators and vectors in the process that uses them, or start processes by `spawn`, as "
            'multiprocessing.get_context("spawn") does',
        )

    def __exit__(self, *error: object) -> None: ...


_opened: WeakSet[Any] = WeakSet()


def exclusive_use(shared: _Shared) -> AbstractContextManager[object]:
    """Return a lock for who works with a device or a queue: for one thread, which may take it again."""
    _opened.add(shared)
    return RLock()


def _lose() -> None:
    for shared in list(_opened):
        shared.exclusive = _Lost(shared.name)


def _keep_for_good() -> None:
    """Take all devices when the interpreter ends, once what is under way is done.

    A daemon thread ends there in the middle of a call, and a C++ library below it takes the whole process along; one
    that waits for a lock does no harm.
    """
    for shared in list(_opened):
        if not isinstance(shared.exclusive, _Lost):
            shared.exclusive.acquire(timeout=SHUTDOWN_TIMEOUT)


os.register_at_fork(after_in_child=_lose)
atexit.register(_keep_for_good)


#: Where locks lie: the first that is there and that everyone can write to. Neither the environment nor the user decides
#: on it, or two of them would not see each other's.
PLACES = (Path("/run/lock"), Path("/var/lock"), Path("/tmp"))
SHARED = stat.S_IWOTH | stat.S_ISVTX
EVERYONE = 0o666
MAX_HOLDER_BYTES = 4096  # bytes that are read of what another process wrote
#: What comes of reading JSON that somebody else may have written.
UNREADABLE = (ValueError, OverflowError, RecursionError)
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class DeviceLocks:
    """Devices that are one process's alone, but while it lends them.

    Attributes
    ----------
    idle
        Processes that have let the devices go and may be on them still.
    """

    def __init__(self, devices: Iterable[str], work: str) -> None:
        self._devices, self._work = sorted(set(devices)), work
        self._files: list[int] = []
        self.idle: set[int] = set()

    def take(self, *, say: bool = True) -> None:
        """Wait until no other measurement runs on any of the devices, in one order; say for whom, if that is wanted."""
        self.idle = set()
        try:
            for device in self._devices:
                file = _locked(device, say=say)
                self._files.append(file)
                self.idle |= _idle(file) - {os.getpid()}
                _write(file, {**_self(self._work), "idle": sorted(self.idle)})
        except BaseException:
            self.free()
            raise

    def free(self) -> None:
        """Let others take the devices."""
        while self._files:
            file = self._files.pop()
            # a driver keeps a process on its devices until it ends
            _write(file, {"idle": sorted(self.idle | {os.getpid()})})
            fcntl.flock(file, fcntl.LOCK_UN)  # whoever was forked meanwhile has the file as well
            os.close(file)

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Let others measure on the devices while the body works on the host; then wait until they are free again.

        What interrupts the body is not kept waiting, and leaves the devices to the others.
        """
        self.free()
        try:
            yield
        except Exception:
            self.take(say=False)
            raise
        self.take(say=False)


@contextmanager
def lock_devices(devices: Iterable[str], work: str) -> Iterator[DeviceLocks]:
    """Wait until no other measurement runs on any of the devices, and keep others away meanwhile.

    Locks are taken in one order, whoever asks: no two measurements wait for each other. Whoever has to wait says for
    whom on the terminal, and afterwards for how long it did.

    Parameters
    ----------
    devices
        What is theirs alone, as `repro.devices.selection.identities` returns it.
    work
        What they are held for, as others who wait are told.

    Raises
    ------
    ReproError
        A lock's file cannot be opened, or is no file of its own.
    """
    held = DeviceLocks(devices, work)
    held.take()
    try:
        yield held
    finally:
        held.free()


def _locked(device: str, *, say: bool) -> int:
    """Return a device's lock, open and held; one that somebody deleted meanwhile keeps nobody away, so not that."""
    path = lock_path(device)
    while True:
        file = _open(path)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if say:
                print(f"the device {device} is held by {_holder(file)}; waiting", flush=True)
            start = time.monotonic()
            fcntl.flock(file, fcntl.LOCK_EX)
            if say:
                print(f"the device {device} is free: went on after {time.monotonic() - start:.0f} s", flush=True)
        try:
            if os.path.samestat(os.fstat(file), path.stat()):
                return file
        except FileNotFoundError:
            pass
        os.close(file)


def lock_path(device: str) -> Path:
    """Return the file that a device's lock is on."""
    place = next((place for place in PLACES if _is_shared(place)), PLACES[-1])
    return place / f"sparse-repro-{device.replace(':', '-').replace('/', '-')}.lock"


def _is_shared(place: Path) -> bool:
    try:
        return place.stat().st_mode & SHARED == SHARED and not os.statvfs(place).f_flag & os.ST_RDONLY
    except OSError:
        return False


def _open(path: Path) -> int:
    """Open the file, made if need be so that every user can lock it; never one that a link leads to."""
    try:
        file = _open_or_make(path)
    except OSError as error:
        link = error.errno in (errno.ELOOP, errno.EMLINK)
        raise _refused(path, "it is a link" if link else error.strerror) from None
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        os.close(file)
        raise _refused(path, "it is no file, or a link to one")
    return file


def _open_or_make(path: Path) -> int:
    while True:
        try:
            # without O_CREAT: where fs.protected_regular is set, another user's file could not be opened with it
            return os.open(path, os.O_RDWR | _FLAGS)
        except FileNotFoundError:
            pass
        except PermissionError:  # as its owner made it; to lock it, reading will do
            return os.open(path, os.O_RDONLY | _FLAGS)
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS, EVERYONE)
        except FileExistsError:
            continue
        os.fchmod(file, EVERYONE)  # whatever the umask is
        return file


def _refused(path: Path, reason: object) -> ReproError:
    return ReproError(
        "a device cannot be locked",
        where=path,
        expected="a file that every user can read and write",
        actual=reason,
        todo=f"have its owner or the administrator delete it: `rm {path}`",
    )


def _self(work: str) -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "user": user_name(),
        "host": platform.node(),
        "work": work,
        "since": datetime.now().astimezone().isoformat(timespec="seconds"),
    }


def user_name() -> str:
    """Return who runs this process; a container's user may have no name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"user {os.getuid()}"


def _write(file: int, content: Mapping[str, Any]) -> None:
    """Say who holds the lock; a file of another user's that can only be read locks as well, and says nothing."""
    try:
        os.ftruncate(file, 0)
        os.pwrite(file, f"{json.dumps(content)}\n".encode(), 0)
    except OSError:  # a full disk does not keep anyone from measuring either
        pass


def _idle(file: int) -> set[int]:
    """Return the processes that have let a device go and live, as the last holder noted them."""
    try:
        noted = json.loads(os.pread(file, MAX_HOLDER_BYTES, 0))["idle"]
        return {pid for pid in noted if isinstance(pid, int) and psutil.pid_exists(pid)}
    except (OSError, KeyError, TypeError, *UNREADABLE):  # nobody is noted, or not in a way that this understands
        return set()


def _holder(file: int) -> str:
    """Return who wrote into the file, in words."""
    for _ in range(10):  # it is written a moment after it is locked
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
    """Return text of another user's as it may be printed: nothing in it steers the terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(text))[:200]
