"""Folders for what is half-written, beside the place that it goes to once it is whole."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

PREFIX = ".partial-"
#: Seconds within which a folder that was just made gets its lock.
YOUNG = 60.0


@contextmanager
def partial_folder(beside: Path) -> Iterator[Path]:
    """Make a folder in `beside` that is removed at the end, and remove those that killed processes left there.

    A folder is locked while its process lives: so one whose process is gone, here or on another machine, can be told.
    """
    remove_leftovers(beside)
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=beside) as folder, ExitStack() as held:
        with suppress(OSError):  # where a file system has no locks, nobody takes a folder for a leftover either
            held.enter_context(_locked(Path(folder)))
        yield Path(folder)


def remove_leftovers(beside: Path) -> None:
    """Remove the folders in `beside` that no process fills any more."""
    for folder in beside.glob(f"{PREFIX}*"):
        # what cannot be looked at or removed is in nobody's way
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > YOUNG:
                with _locked(folder):
                    shutil.rmtree(folder)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, or raise OSError where another process has it."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)
