"""Files that are written whole or not at all: a process that is killed leaves the old one, or none."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a file beside `path`, in a folder that is made, which takes its place in the end or vanishes on an error.

    Raises
    ------
    OSError
        There is no room, or no permission.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.stem}.{os.getpid()}-{threading.get_ident()}{path.suffix}")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file, text in UTF-8.

    Raises
    ------
    OSError
        There is no room, or no permission.
    """
    with replacing(path) as partial:
        partial.write_bytes(content if isinstance(content, bytes) else content.encode())
