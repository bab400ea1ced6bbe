"""Files shared with other processes: written atomically, and locked by `flock` until the process ends."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import pwd
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary file beside `path`; it replaces `path` at the end, or is deleted after an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = _beside(path)
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def making_folder(path: Path) -> Iterator[Path]:
    """Yield a new hidden folder beside `path`; it is renamed to `path` at the end, or deleted after an error."""
    partial = _beside(path)
    try:
        partial.mkdir(parents=True)
        yield partial
        partial.rename(path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file atomically, text in UTF-8."""
    with replacing(path) as partial:
        partial.write_bytes(content if isinstance(content, bytes) else content.encode())


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.stem}.{os.getpid()}-{threading.get_ident()}{path.suffix}")


def try_lock(file: int) -> bool:
    """Lock an open file or folder; return False if another process holds the lock."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_for_lock(file: int) -> None:
    fcntl.flock(file, fcntl.LOCK_EX)


def unlock(file: int) -> None:
    """Free a lock, even if a forked process has the file open."""
    fcntl.flock(file, fcntl.LOCK_UN)


def describe_process() -> dict[str, Any]:
    """Return `pid`, `user` and `host` of this process, to be written into a lock file."""
    return {"pid": os.getpid(), "user": user_name(), "host": platform.node()}


def user_name() -> str:
    """Return the user name of this process, or the user's number if there is no name, as in some containers."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"user {os.getuid()}"


def write_holder(file: int, content: Mapping[str, Any]) -> None:
    """Replace the content of a lock file by JSON."""
    os.ftruncate(file, 0)
    os.pwrite(file, f"{json.dumps(content)}\n".encode(), 0)
