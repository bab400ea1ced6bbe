"""Atomic writing: a killed process leaves the old file or folder, or none."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary file beside `path` that replaces it at the end, or vanishes on an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = _beside(path)
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def making_folder(path: Path) -> Iterator[Path]:
    """Yield a hidden new folder beside `path` that is renamed to it at the end, or vanishes on an error."""
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
