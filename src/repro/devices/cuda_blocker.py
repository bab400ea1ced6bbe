"""Holding a stream back while the host fills its queue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from repro.devices.cuda_launch import bind_launch

#: A blocked stream is a deadlock under tools that wait for each launch: Nsight Compute and Systems, compute-sanitizer.
_TOOLS = ("CUDA_INJECTION64_PATH", "NV_COMPUTE_PROFILER_", "NV_NSIGHT_", "NV_SANITIZER_", "NV_TPS_", "NSYS_")
_TOOL_LIBRARIES = ("TreeLauncher", "sanitizer", "ToolsInjection")


def may_block(environment: Mapping[str, str]) -> bool:
    """Say whether a stream may be blocked in a process with these environment variables.

    Not with `REPRO_BLOCKING=0`, not with `CUDA_LAUNCH_BLOCKING=1`, not under a profiler or a sanitizer.
    """
    if environment.get("REPRO_BLOCKING") == "0" or environment.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"):
        return False
    preloaded = environment.get("LD_PRELOAD", "")
    return not any(name.startswith(_TOOLS) for name in environment) and not any(
        library in preloaded for library in _TOOL_LIBRARIES
    )


class Blocker:
    """A kernel that waits for a word in the host's memory to be set.

    Parameters
    ----------
    cuda
        `pycuda.driver`.
    kernel
        `block_stream` of the common module.
    stream
        The stream to block.
    timeout, short
        Seconds after which the kernel gives up, and where it is held for a short time only. It then sets a second word,
        and what was timed behind it counts for nothing.
    """

    def __init__(self, cuda: Any, kernel: Any, stream: Any, timeout: float, short: float) -> None:
        self._words = cuda.pagelocked_zeros(2, np.int32, mem_flags=cuda.host_alloc_flags.DEVICEMAP)
        address = np.uintp(self._words.base.get_device_pointer())
        self._launch, self._launch_short = (
            bind_launch(kernel, 1, 1, stream, [address, np.int64(seconds * 1e9)]) for seconds in (timeout, short)
        )

    @contextmanager
    def hold(self, short: bool = False) -> Iterator[None]:
        """Block the stream for as long as the body runs; the stream must be idle before."""
        self._words[:] = 0
        (self._launch_short if short else self._launch)()
        try:
            yield
        finally:
            self._words[0] = 1

    @property
    def expired(self) -> bool:
        """Whether the kernel gave up waiting; to be asked once the stream is idle again."""
        return bool(self._words[1])
