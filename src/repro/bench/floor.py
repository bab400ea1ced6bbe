"""The streaming floor, a device copy and an empty kernel: what every time is held against."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.workspace import Operands, Workspace, random_bytes
from repro.codegen.render import Stream
from repro.codegen.targets import Target
from repro.devices.base import Buffer
from repro.formats.pack import count_bytes

#: Bytes of the word that the dialects' streaming kernels move.
WORD = {"cuda": 16, "opencl": 4}
COPY_BYTES = {"cuda": 1 << 29, "opencl": 1 << 26}


def floor_bytes(operands: Operands) -> tuple[int, int]:
    """Return the bytes that a product in CSR-AoS has to read (matrix, x) and to write (y), each once."""
    matrix = count_bytes(operands.problem.row_lengths, len(operands.entry.members), operands.dtype.itemsize, "CSR")
    return matrix + operands.x.nbytes, operands.x.nbytes


class _Measured:
    """What the three share: nothing to verify, nothing to give back."""

    arrangement = ""
    launch: Callable[[], None]

    def __init__(self, kind: str, name: str) -> None:
        self.kind, self.name = kind, name
        self.identity = name
        self.columns: dict[str, Any] = {}
        self._moved = (0, 0)

    @property
    def moved(self) -> tuple[int, int]:
        """(bytes read and written, 0)."""
        return self._moved

    def result(self) -> Buffer | None:
        """Return None: there is nothing to verify."""
        return None

    def arrange(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the members as they are."""
        return values.ravel()

    def release(self) -> None:
        """Hold nothing: the memory is the workspace's."""


class Floor(_Measured):
    """A kernel that streams the bytes of CSR-AoS-AoS, in one configuration.

    The floor of a problem is the fastest configuration. It reads what a product has to read and writes what it has to
    write, every byte used and none twice.
    """

    def __init__(self, stream: Stream) -> None:
        super().__init__("floor", f"floor/{stream.n_t}-{stream.unroll}")
        self._stream = stream

    def prepare(self, workspace: Workspace) -> None:
        """Take the bytes that all configurations share."""
        device = workspace.device
        word = WORD[device.backend]
        read, written = (-(-size // word) for size in floor_bytes(workspace.operands))
        self._moved = (read + written) * word, 0
        self.launch = device.bind(
            workspace.common.kernel(self._stream.kernel),
            _grid(device.target, device.n_s, self._stream, read),
            self._stream.n_t,
            [np.int32(read), np.int32(written), workspace.streamed(read * word), workspace.y],
        )


class Copy(_Measured):
    """A copy of much more than the cache holds: what the memory does at best."""

    def __init__(self, stream: Stream) -> None:
        super().__init__("copy", f"copy/{stream.n_t}-{stream.unroll}")
        self._stream = stream
        self._halves: list[Buffer] = []

    def prepare(self, workspace: Workspace) -> None:
        """Take memory for both halves; its own, since what the floor reads stays in use beside it."""
        device = workspace.device
        word = WORD[device.backend]
        words = min(COPY_BYTES[device.backend], device.free_bytes() // 8) // 2 // word
        self._moved = 2 * words * word, 0
        self._halves = [device.upload(random_bytes(words * word)), device.allocate(words * word)]
        self.launch = device.bind(
            workspace.common.kernel(self._stream.kernel.replace("stream", "copy")),
            _grid(device.target, device.n_s, self._stream, words),
            self._stream.n_t,
            [np.int32(words), *self._halves],
        )

    def release(self) -> None:
        """Give both halves back."""
        while self._halves:
            self._halves.pop().release()


class Empty(_Measured):
    """A kernel that does nothing: what the clock itself reads."""

    def __init__(self) -> None:
        super().__init__("empty", "empty")

    def prepare(self, workspace: Workspace) -> None:
        """Bind the kernel."""
        self.launch = workspace.device.bind(workspace.common.kernel("empty"), 1, 32, [np.int32(0)])


def _grid(target: Target, n_s: int, stream: Stream, words: int) -> int:
    """Return the blocks that fill the device, or fewer where the words are fewer."""
    full = n_s * max(1, target.threads_per_sm // stream.n_t)
    return max(1, min(full, -(-words // (stream.n_t * stream.unroll))))
