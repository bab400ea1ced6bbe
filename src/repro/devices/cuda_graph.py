"""CUDA graphs, which PyCUDA does not have: its stream is captured through NVIDIA's own bindings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cuda.bindings import driver

from repro.devices.base import CaptureError
from repro.devices.cuda_driver import check_cuda


class Graph:
    """A number of launches as one executable graph.

    Parameters
    ----------
    stream
        The handle of the stream that `launch` queues to; not the default stream.
    launch
        What to capture.
    count
        How many times.
    failure
        Makes an error of what the driver calls it.

    Raises
    ------
    CaptureError
        Something that `launch` does cannot be captured, or the device has no memory for the graph.
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
            check_cuda(driver.cuGraphUpload(self._executable, self._stream), self._not_uploaded)
        except BaseException:
            self.close()
            raise

    def replay(self) -> None:
        """Queue all launches at once."""
        check_cuda(driver.cuGraphLaunch(self._executable, self._stream), self._failure)

    def close(self) -> None:
        """Give the graph back, once no replay is queued any more."""
        driver.cuGraphExecDestroy(self._executable)

    def _not_uploaded(self, name: str) -> Exception:
        # the launches one by one need no memory, so a full device is no failure of theirs
        return CaptureError(name) if name == "CUDA_ERROR_OUT_OF_MEMORY" else self._failure(name)


def _capture(stream: Any, launch: Callable[[], None], count: int) -> Any:
    # of this thread alone: what other threads do is none of its business, and what cannot be replayed is an error
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
