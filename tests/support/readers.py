"""Functions that tests have read in a process of its own, which imports this module: so it imports little."""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from repro.errors import ReproError

#: Held by, and waited for in, the process that tests run in.
LOCK, GO = threading.Lock(), threading.Event()


def hold_and_import(module: str) -> bool:
    """Say whether a lock can be had; import a module."""
    importlib.import_module(module)
    return LOCK.acquire(timeout=10)


def give(what: Any) -> Any:
    return what


def end_by(number: int) -> None:
    os.kill(os.getpid(), number)


def crash(*_: object) -> None:
    ctypes.string_at(0)


def leave(code: int) -> NoReturn:
    os._exit(code)


def refuse(where: Path) -> NoReturn:
    raise ReproError("no good", where=where, actual=ValueError("x"), todo="another")


def divide() -> float:
    return 1 / int("0")


def take(count: int) -> int:
    return np.empty(count, np.int8).nbytes


def hang(pid: Path, seconds: float = 60) -> None:
    pid.write_text(str(os.getpid()))
    time.sleep(seconds)


def describe(name: str) -> tuple[str, str | None, bytes | None, str, bool]:
    """Say where the process is, what of its environment and path, and whether it finds a file."""
    where = str(Path.cwd()), os.environ.get("REPRO_TEST"), os.environb.get(b"REPRO_BYTES"), sys.path[0]
    return *where, Path(name).exists()


def count() -> tuple[int, int]:
    """Return how many threads and open files there are."""
    here = Path("/proc/self")
    return len(list((here / "task").iterdir())), len(list((here / "fd").iterdir()))


def say(word: str) -> None:
    print(word)
    os.write(2, f"{word} below\n".encode())
