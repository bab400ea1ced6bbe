"""Captures launches on a PyCUDA stream as CUDA graphs, through NVIDIA's own Python bindings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cuda.bindings import driver

from repro.devices.base import CaptureError
from repro.devices.cuda_driver import check_cuda


class Graph:
    """An executable graph of `count` launches, captured from a stream other than the default stream.

    Raises
    ------
    CaptureError
        Something in `launch` cannot be captured, or the device has no memory for the graph.
    """

    def __init__(
        self, stream: int, launch: Callable[[], None], count: int, failure: Callable[[str], Exception]
    ) -> None:
        self._stream = driver.CUstream(stream)
        self._failure = failure
        graph = _capture(self._stream, launch, count)
        try:
            self._executable = check_cuda(driver.cuGraphInstantiate(graph, 0), CaptureError)
        finally:
            driver.cuGraphDestroy(graph)
        try:
            # Upload the graph now: if a full device has no memory for it, only the graph fails, not the single
            # launches.
            check_cuda(
                driver.cuGraphUpload(self._executable, self._stream),
                lambda name: CaptureError(name) if name == "CUDA_ERROR_OUT_OF_MEMORY" else failure(name),
            )
        except BaseException:
            self.close()
            raise

    def replay(self) -> None:
        check_cuda(driver.cuGraphLaunch(self._executable, self._stream), self._failure)

    def close(self) -> None:
        """Free the graph; no queued replay may use it."""
        driver.cuGraphExecDestroy(self._executable)


def _capture(stream: Any, launch: Callable[[], None], count: int) -> Any:
    # Capture only calls of this thread; calls that a graph cannot contain are errors.
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    check_cuda(driver.cuStreamBeginCapture(stream, mode), CaptureError)
    try:
        for _ in range(count):
            launch()
    except BaseException as error:
        _, graph = driver.cuStreamEndCapture(stream)
        if graph is not None and int(graph):
            driver.cuGraphDestroy(graph)
        if isinstance(error, Exception):
            raise CaptureError(str(error)) from error
        raise
    return check_cuda(driver.cuStreamEndCapture(stream), CaptureError)
