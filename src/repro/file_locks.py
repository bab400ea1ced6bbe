"""Locks on files and folders by `flock`, which end with their process."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import pwd
from collections.abc import Mapping
from typing import Any


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
    """Free a lock, also if a forked process has the file open."""
    fcntl.flock(file, fcntl.LOCK_UN)


def describe_process() -> dict[str, Any]:
    """Return `pid`, `user` and `host` for a lock's file."""
    return {"pid": os.getpid(), "user": user_name(), "host": platform.node()}


def user_name() -> str:
    """Return the user of this process, who may have no name in a container."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"user {os.getuid()}"


def write_holder(file: int, content: Mapping[str, Any]) -> None:
    """Replace the content of a lock's file by JSON."""
    os.ftruncate(file, 0)
    os.pwrite(file, f"{json.dumps(content)}\n".encode(), 0)
