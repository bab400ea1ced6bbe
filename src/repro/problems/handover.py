"""An object in memory that two processes share: its arrays are written once, and not copied where they are read."""

from __future__ import annotations

import mmap
import os
import pickle
from typing import Any

_ALIGNED = 64


def save(file: int, content: object) -> None:
    """Write an object to a file: lengths, pickle, and its arrays as they are, each at a multiple of 64 bytes."""
    os.ftruncate(file, 0)
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(content, protocol=5, buffer_callback=buffers.append)
    raw = [buffer.raw() for buffer in buffers]
    head = pickle.dumps([len(body), *(len(part) for part in raw)])
    place = 0
    parts: list[bytes | memoryview] = [len(head).to_bytes(8, "little") + head, body, *raw]
    for part in parts:
        view = memoryview(part)
        done = 0
        while done < len(view):
            done += os.pwrite(file, view[done : done + (1 << 30)], place + done)
        place += -(-len(view) // _ALIGNED) * _ALIGNED


def load(file: int) -> Any:
    """Read it back; the arrays stay where they are, and may be written to."""
    memory = memoryview(mmap.mmap(file, 0, access=mmap.ACCESS_COPY))
    start = int.from_bytes(memory[:8], "little")
    lengths: list[int] = pickle.loads(memory[8 : 8 + start])
    place = -(-(8 + start) // _ALIGNED) * _ALIGNED
    parts = []
    for length in lengths:
        parts.append(memory[place : place + length])
        place += -(-length // _ALIGNED) * _ALIGNED
    body, *raw = parts
    return pickle.loads(body, buffers=raw)
