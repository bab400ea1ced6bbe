"""What operators of one device share: the device, compiled kernels in the user's cache, its stream among others."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
import pooch
from numpy.typing import NDArray

from repro.codegen.build_cache import Module, compile_module, compiled_before
from repro.devices.base import Buffer, Device, OutOfDeviceMemory, Program
from repro.devices.device_group import Devices
from repro.devices.selection import open_device, resolve_device
from repro.errors import ReproError
from repro.operators.arrays import LEGACY_DEFAULT_STREAM, DeviceArray, View, on_device, view
from repro.package_data import shipped

CACHE = "REPRO_CACHE"
#: Folder of the templates: the package's own, since programs of others run where a folder of that name can be theirs.
KERNELS = shipped("kernels", here=False)


class Runtime:
    """An open device with the means to compile and load kernels for it.

    One for each device in a process, made by `open_runtime`, and for all its threads: one at a time is in the body of
    `after`. A GPU's is the primary context, the one that CuPy, PyTorch and Numba use.

    Parameters
    ----------
    device
        The device.
    words
        What `open_runtime` is told to open it again, in another process too.
    """

    def __init__(self, device: Device, words: str = "auto") -> None:
        self.device, self.words = device, words
        self.devices = Devices([device])
        self._programs: dict[Path, Program] = {}
        self._streams = _Streams(device) if device.backend == "cuda" else None

    def compiled(self, source: str, name: str) -> tuple[Module, Path]:
        """Compile a source, unless the cache has it; return its manifest, and the folder that it lies in.

        Nothing is written where the cache has all of it: it may be one that cannot be written to.

        Raises
        ------
        ReproError
            It does not compile, there is no compiler, or what is compiled cannot be kept.
        """
        target = self.device.target
        manifest = cache_folder() / "modules" / target.name / f"{name}.json"
        try:
            module = compiled_before(source, target, manifest) or compile_module(source, target, manifest)
            return module, manifest.parent
        except OSError as error:
            raise ReproError(
                "a compiled kernel cannot be kept",
                where=error.filename2 or error.filename or manifest.parent,
                actual=error.strerror or error,
                todo="clear away what is there or make room, or name another folder in the environment variable "
                f"{CACHE}",
            ) from error

    def load(self, binary: Path) -> Program:
        """Load a binary once."""
        if binary not in self._programs:
            self._programs[binary] = self.device.load(binary)
        return self._programs[binary]

    def program(self, source: str, name: str) -> Program:
        """Compile a source, unless the cache has it, and load it; see `compiled`."""
        module, folder = self.compiled(source, name)
        return self.load(folder / str(module.binary))

    def upload(self, array: NDArray[Any]) -> Buffer:
        """Copy a host array to new memory."""
        try:
            return self.device.upload(array)
        except OutOfDeviceMemory as error:
            raise self.no_room(error) from None

    def put(self, array: NDArray[Any]) -> DeviceArray:
        """Return a new array with the contents of one on the host."""
        return DeviceArray(self.device, self.upload(array), array.shape, array.dtype)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> DeviceArray:
        """Return a new array, its contents undefined."""
        try:
            buffer = self.device.allocate(int(np.prod(shape)) * dtype.itemsize)
        except OutOfDeviceMemory as error:
            raise self.no_room(error) from None
        return DeviceArray(self.device, buffer, shape, dtype)

    def no_room(self, error: OutOfDeviceMemory) -> ReproError:
        """Return what to tell a user whose device is full."""
        with self.after():  # another library's GPU may be the current one
            free = self.device.free_bytes()
        return ReproError(
            "the device has no room",
            where=self.device.name,
            actual=f"{error}; {free} bytes are free",
            todo="release other operators and arrays, or use another layout or single precision",
        )

    def view(
        self, array: Any, what: str, dtype: np.dtype[Any], count: int, alignment: int, write: bool = False
    ) -> View:
        """Check an array and return where it lies on this device; see `repro.operators.arrays.view`.

        Raises
        ------
        ReproError
            It lies elsewhere, or is none that can be used.
        """
        if not on_device(array):
            raise ReproError(
                "this is no array on the device",
                where=what,
                expected=f"an array on {self.device.name}",
                actual=type(array).__name__,
                todo="bring a NumPy array there with the `put` of `repro.vectors` or of an operator's `vectors`",
            )
        if isinstance(array, DeviceArray):
            if array.device is not self.device:
                raise self._elsewhere(what, f"memory of {_which(array.device)}")
            return view(array, what, dtype, count, alignment, write)
        seen = view(array, what, dtype, count, alignment, write)
        if not self._holds(seen.buffer):
            raise self._elsewhere(what, "an address that is not in its memory")
        return seen

    def _elsewhere(self, what: str, actual: str) -> ReproError:
        return ReproError(
            "an array lies on another device",
            where=what,
            expected=f"memory of {_which(self.device)}",
            actual=actual,
            todo="bring it there first: nothing is copied from device to device unasked",
        )

    def _holds(self, memory: Any) -> bool:
        return self._streams is not None and (memory.nbytes == 0 or self._streams.holds(memory.pointer))

    def after(self, *streams: int | None) -> AbstractContextManager[object]:
        """Have the device to oneself in the body, whose kernels are queued behind what was queued on other streams.

        What comes later on these streams is queued behind the kernels. Another thread waits until the end of the body.

        Raises
        ------
        ReproError
            The device was opened before this process was forked from another.
        """
        return self.device.current() if self._streams is None else self._among(self._streams, streams)

    @contextmanager
    def _among(self, ours: _Streams, streams: tuple[int | None, ...]) -> Iterator[None]:
        with self.device.current(), ours.ordered({s for s in streams if s is not None}):
            yield

    def finish(self, *streams: int | None) -> None:
        """Wait for what is queued on our stream and on others, whoever has the device; None is the default stream."""
        if self._streams is None:
            self.device.synchronize()
            return
        if not self._streams.finish({LEGACY_DEFAULT_STREAM if s is None else s for s in streams}):
            self.device.synchronize()  # what is captured into a graph is so by who has the device


class _Streams:
    """Our stream among others of the GPU.

    It is ordered with the legacy default stream by CUDA itself, as every stream that is not made non-blocking; with
    other streams by an event.
    """

    def __init__(self, device: Any) -> None:
        from cuda.bindings import driver

        self._driver = driver
        self._ours = device.stream
        flags = driver.CUevent_flags.CU_EVENT_DISABLE_TIMING
        with device.current():
            self._context = self._call(driver.cuCtxGetCurrent)
            self._event = self._call(driver.cuEventCreate, flags)
            self._ordinal = int(self._call(driver.cuCtxGetDevice))

    def holds(self, pointer: int) -> bool:
        """Say whether an address is that of memory of this GPU."""
        ordinal = self._driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        status, holder = self._driver.cuPointerGetAttribute(ordinal, pointer)
        return not int(status) and int(holder) == self._ordinal

    @contextmanager
    def ordered(self, streams: set[int]) -> Iterator[None]:
        foreign = streams - {0, LEGACY_DEFAULT_STREAM, self._ours}
        with self._current():
            for stream in foreign:
                self._wait(self._ours, stream)
            yield
            for stream in foreign:
                self._wait(stream, self._ours)

    def finish(self, streams: set[int]) -> bool:
        """Wait for streams and for ours, unless ours is being captured: then say so."""
        with self._current():
            for stream in streams - {self._ours}:
                self._call(self._driver.cuStreamSynchronize, stream)
            if int(self._call(self._driver.cuStreamIsCapturing, self._ours)):
                return False
            self._call(self._driver.cuStreamSynchronize, self._ours)
        return True

    @contextmanager
    def _current(self) -> Iterator[None]:
        driver = self._driver
        elsewhere = int(self._call(driver.cuCtxGetCurrent)) != int(self._context)
        if elsewhere:  # another library, or another thread, works on another GPU or on none
            self._call(driver.cuCtxPushCurrent, self._context)
        try:
            yield
        finally:
            if elsewhere:
                self._call(driver.cuCtxPopCurrent)

    def _wait(self, later: int, earlier: int) -> None:
        """Hold a stream back until all that is queued on another is done."""
        self._call(self._driver.cuEventRecord, self._event, earlier)
        self._call(self._driver.cuStreamWaitEvent, later, self._event, 0)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        status, *result = function(*arguments)
        if int(status):
            raise ReproError(
                "the GPU refused to order its streams",
                where=function.__name__,
                actual=status,
                todo="pass the handle of a stream that is alive and belongs to the operator's GPU",
            )
        return result[0] if result else None


def _which(device: Device) -> str:
    """Return a device's name, and which one of that name it is."""
    return f"{device.name} ({device.uuid})"


def open_runtime(device: str = "auto") -> Runtime:
    """Return the runtime of a device, `auto`, `cuda:N` or `opencl:N`, opened at first use and kept.

    Raises
    ------
    ReproError
        The words name no device or several, it is not there, or what drives it is not installed.
    """
    with _opening:  # two runtimes of one device would not take each other's arrays
        return _open(resolve_device(device))


_opening = RLock()
# a process that is forked meanwhile would find it held for ever
os.register_at_fork(before=_opening.acquire, after_in_parent=_opening.release, after_in_child=_opening.release)


@cache
def _open(resolved: str) -> Runtime:
    return Runtime(open_device(resolved), resolved)


def cache_folder() -> Path:
    """Return where compiled kernels are kept: the environment variable REPRO_CACHE, or the user's cache.

    Raises
    ------
    ReproError
        It is in a home folder, and nobody knows which that is; or in the current one, which is gone.
    """
    named = os.environ.get(CACHE)
    try:
        return Path(named or pooch.os_cache("sparse-repro")).expanduser().absolute()
    except (OSError, RuntimeError) as error:
        raise ReproError(
            "no folder for compiled kernels",
            where=named,
            actual=error,
            todo=f"name one in the environment variable {CACHE}",
        ) from None
