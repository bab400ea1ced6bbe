"""Reference measurements for comparison: the streaming floor, a device copy and an empty kernel."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from repro.bench.guards import Guarded
from repro.bench.runnable import Operands, Runnable, Workspace
from repro.codegen.targets import Target
from repro.codegen.templates import StreamConfig
from repro.devices.base import Buffer

FLOOR, COPY, EMPTY = YARDSTICKS = "floor", "copy", "empty"
#: Word size in bytes of the streaming kernels for each backend.
STREAM_WORD_BYTES = {"cuda": 16, "opencl": 4}
COPY_BYTES = {"cuda": 1 << 29, "opencl": 1 << 26}


class Floor(Runnable):
    """A streaming kernel in one launch configuration. It reads and writes the minimum bytes of a solution once.

    The streaming floor of a problem is the time of the fastest configuration.
    """

    kind = FLOOR

    def __init__(self, stream: StreamConfig) -> None:
        self.name = f"{FLOOR}/{stream.block_size}-{stream.in_flight}"
        self._stream = stream

    @property
    def contender(self) -> tuple[str, str] | None:
        return ("", FLOOR) if self.kind == FLOOR else None

    def streamed(self, operands: Operands) -> tuple[int, int]:
        return operands.min_bytes

    def prepare(self, workspace: Workspace) -> None:
        device = workspace.device
        word_bytes = STREAM_WORD_BYTES[device.backend]
        read_count, write_count = (-(-size // word_bytes) for size in self.streamed(workspace.operands))
        self.bytes_moved = (read_count + write_count) * word_bytes
        self.launch = device.bind(
            workspace.common.program.kernel(self._stream.kernel),
            _grid(device.target, device.sm_count, self._stream, read_count),
            self._stream.block_size,
            [
                np.int32(read_count),
                np.int32(write_count),
                workspace.buffer(
                    ("streamed", read_count), lambda: device.upload(random_bytes(read_count * word_bytes))
                ),
                workspace.written(("streamed", write_count), write_count * word_bytes, "its output"),
            ],
        )


class DeviceCopy(Runnable):
    """A device-to-device copy much larger than the cache; it measures memory bandwidth.

    `least` overrides the number of bytes to copy; a probe on the CPU uses fewer bytes.
    """

    kind = COPY
    cold = False

    def __init__(self, stream: StreamConfig, least: int | None = None) -> None:
        self.name = f"{COPY}/{stream.block_size}-{stream.in_flight}"
        self._stream = stream
        self._bytes = least
        self.device_only = least is None
        self._halves: list[Buffer | Guarded] = []

    def prepare(self, workspace: Workspace) -> None:
        device = workspace.device
        word_bytes = STREAM_WORD_BYTES[device.backend]
        max_bytes = COPY_BYTES[device.backend] if self._bytes is None else min(self._bytes, COPY_BYTES[device.backend])
        word_count = min(max_bytes, device.free_bytes() // 8) // 2 // word_bytes
        self.bytes_moved = 2 * word_count * word_bytes
        source = device.upload(_copied(word_count * word_bytes))
        self._halves = [source]
        target = workspace.guards.allocate(word_count * word_bytes, "its copy")
        self._halves.append(target)
        self.launch = device.bind(
            workspace.common.program.kernel(self._stream.kernel.replace("stream", "copy")),
            _grid(device.target, device.sm_count, self._stream, word_count),
            self._stream.block_size,
            [np.int32(word_count), source, target.memory],
        )

    def release(self) -> None:
        while self._halves:
            self._halves.pop().release()


class Empty(Runnable):
    """An empty kernel, which measures the overhead of the clock."""

    kind = name = EMPTY
    cold = False

    def prepare(self, workspace: Workspace) -> None:
        self.launch = workspace.device.bind(workspace.common.program.kernel("empty"), 1, 32, [np.int32(0)])


def random_bytes(count: int) -> NDArray[np.uint8]:
    """Return random bytes with a long period, since a device can copy zeros faster than other data."""
    return np.resize(np.frombuffer(np.random.default_rng(0).bytes(1 << 20), np.uint8), count)


@lru_cache(maxsize=2)
def _copied(count: int) -> NDArray[np.uint8]:
    """Return the data to copy. They are made once for each process, since making them takes longer than copying."""
    return random_bytes(count)


def _grid(target: Target, sm_count: int, stream: StreamConfig, word_count: int) -> int:
    """Return the number of thread blocks that fill the device, or fewer if there are few words."""
    full = sm_count * max(1, target.threads_per_sm // stream.block_size)
    return max(1, min(full, -(-word_count // (stream.block_size * stream.in_flight))))
