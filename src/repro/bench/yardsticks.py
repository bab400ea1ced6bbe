"""The streaming floor, a device copy and an empty kernel: what every time is held against."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import Operands, Runnable
from repro.bench.workspace import Guarded, Workspace
from repro.codegen.targets import Target
from repro.codegen.templates import Stream
from repro.devices.base import Buffer

FLOOR, COPY, EMPTY = YARDSTICKS = "floor", "copy", "empty"
#: Bytes of the word that the dialects' streaming kernels move.
WORD = {"cuda": 16, "opencl": 4}
COPY_BYTES = {"cuda": 1 << 29, "opencl": 1 << 26}


class Floor(Runnable):
    """A kernel that streams the least bytes of a solution, in one configuration.

    The floor of a problem is the fastest configuration. It reads what any solution has to read and writes what it has
    to write, every byte used and none twice.

    Parameters
    ----------
    stream
        The configuration.
    """

    kind = FLOOR

    def __init__(self, stream: Stream) -> None:
        self.name = f"{FLOOR}/{stream.n_t}-{stream.unroll}"
        self._stream = stream

    def streamed(self, operands: Operands) -> tuple[int, int]:
        """Return the bytes that are read, and those that are written."""
        return operands.least_bytes

    def prepare(self, workspace: Workspace) -> None:
        """Take the memory that all configurations share."""
        device = workspace.device
        word = WORD[device.backend]
        read, written = (-(-size // word) for size in self.streamed(workspace.operands))
        self.moved = (read + written) * word
        self.launch = device.bind(
            workspace.common.program.kernel(self._stream.kernel),
            _grid(device.target, device.n_s, self._stream, read),
            self._stream.n_t,
            [
                np.int32(read),
                np.int32(written),
                workspace.buffer(("streamed", read), lambda: device.upload(random_bytes(read * word))),
                workspace.written(("streamed", written), written * word, "its output"),
            ],
        )


class DeviceCopy(Runnable):
    """A copy of much more than the cache holds: what the memory does at best.

    Parameters
    ----------
    stream
        The kernel's configuration.
    least
        Bytes to copy, where fewer than that do: a probe of a small problem on the CPU, of which a copy of all that
        takes longer than its launches. None: as many as the yardstick has.
    """

    kind = COPY
    cold = False

    def __init__(self, stream: Stream, least: int | None = None) -> None:
        self.name = f"{COPY}/{stream.n_t}-{stream.unroll}"
        self._stream = stream
        self._bytes = least
        self.of_device = least is None
        self._halves: list[Buffer | Guarded] = []

    def prepare(self, workspace: Workspace) -> None:
        """Take memory for both halves; its own, since what the floor reads stays in use beside it."""
        device = workspace.device
        word = WORD[device.backend]
        most = COPY_BYTES[device.backend] if self._bytes is None else min(self._bytes, COPY_BYTES[device.backend])
        words = min(most, device.free_bytes() // 8) // 2 // word
        self.moved = 2 * words * word
        source = device.upload(_copied(words * word))
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


@lru_cache(maxsize=2)
def _copied(count: int) -> NDArray[np.uint8]:
    """Return what copies start from, the same for all of a process, since making it takes longer than to copy it."""
    return random_bytes(count)


def _grid(target: Target, n_s: int, stream: Stream, words: int) -> int:
    """Return the blocks that fill the device, or fewer where the words are fewer."""
    full = n_s * max(1, target.threads_per_sm // stream.n_t)
    return max(1, min(full, -(-words // (stream.n_t * stream.unroll))))
