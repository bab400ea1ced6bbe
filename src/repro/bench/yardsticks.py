"""The streaming floor, a device copy and an empty kernel: what every time is held against."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from repro.bench.guards import Guarded
from repro.bench.runnable import Runnable
from repro.bench.workspace import Workspace
from repro.codegen.common import Stream
from repro.codegen.targets import Target
from repro.devices.base import Buffer

FLOOR, COPY, EMPTY = YARDSTICKS = "floor", "copy", "empty"
#: Bytes of the word that the dialects' streaming kernels move.
WORD = {"cuda": 16, "opencl": 4}
COPY_BYTES = {"cuda": 1 << 29, "opencl": 1 << 26}


class Floor(Runnable):
    """A kernel that streams the least bytes of a solution, in one configuration.

    The floor of a problem is the fastest configuration. It reads what any solution has to read and writes what it has
    to write, every byte used and none twice.
    """

    kind = FLOOR

    def __init__(self, stream: Stream) -> None:
        self.name = f"{FLOOR}/{stream.n_t}-{stream.unroll}"
        self._stream = stream

    def prepare(self, workspace: Workspace) -> None:
        """Take the memory that all configurations share."""
        device = workspace.device
        word = WORD[device.backend]
        read, written = (-(-size // word) for size in workspace.operands.least_bytes)
        self.moved = (read + written) * word
        self.launch = device.bind(
            workspace.common.program.kernel(self._stream.kernel),
            _grid(device.target, device.n_s, self._stream, read),
            self._stream.n_t,
            [
                np.int32(read),
                np.int32(written),
                workspace.buffer("streamed", lambda: device.upload(random_bytes(read * word))),
                workspace.written("streamed", written * word, "its output"),
            ],
        )


class Copy(Runnable):
    """A copy of much more than the cache holds: what the memory does at best."""

    kind = COPY
    cold = False

    def __init__(self, stream: Stream) -> None:
        self.name = f"{COPY}/{stream.n_t}-{stream.unroll}"
        self._stream = stream
        self._halves: list[Buffer | Guarded] = []

    def prepare(self, workspace: Workspace) -> None:
        """Take memory for both halves; its own, since what the floor reads stays in use beside it."""
        device = workspace.device
        word = WORD[device.backend]
        words = min(COPY_BYTES[device.backend], device.free_bytes() // 8) // 2 // word
        self.moved = 2 * words * word
        source = device.upload(random_bytes(words * word))
        self._halves = [source]
        target = workspace.guards.allocate(words * word, "its copy")
        self._halves.append(target)
        self.launch = device.bind(
            workspace.common.program.kernel(self._stream.kernel.replace("stream", "copy")),
            _grid(device.target, device.n_s, self._stream, words),
            self._stream.n_t,
            [np.int32(words), source, target.memory],
        )

    def release(self) -> None:
        """Give both halves back."""
        while self._halves:
            self._halves.pop().release()


class Empty(Runnable):
    """A kernel that does nothing: what the clock itself reads."""

    kind = name = EMPTY
    cold = False

    def prepare(self, workspace: Workspace) -> None:
        """Bind the kernel."""
        self.launch = workspace.device.bind(workspace.common.program.kernel("empty"), 1, 32, [np.int32(0)])


def random_bytes(count: int) -> NDArray[np.uint8]:
    """Return so many bytes, random but for a long period: zeros can be faster than data."""
    return np.resize(np.frombuffer(np.random.default_rng(0).bytes(1 << 20), np.uint8), count)


def _grid(target: Target, n_s: int, stream: Stream, words: int) -> int:
    """Return the blocks that fill the device, or fewer where the words are fewer."""
    full = n_s * max(1, target.threads_per_sm // stream.n_t)
    return max(1, min(full, -(-words // (stream.n_t * stream.unroll))))
