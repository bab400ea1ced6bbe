"""State shared by all operators on one device: the device, a cache of compiled kernels, and the order of streams."""

from __future__ import annotations

import math
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from threading import RLock, get_ident, local
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.codegen.build_cache import Module, compile_module, compiled_before
from repro.devices.base import (
    PER_THREAD_DEFAULT_STREAM,
    Buffer,
    Device,
    DeviceError,
    LaunchError,
    OutOfDeviceMemory,
    Program,
)
from repro.devices.selection import open_device, resolve_device
from repro.errors import ReproError, ReproErrorOfType, ReproErrorOfValue, argument_errors, brief
from repro.operators.array_libraries import ArrayLibraries
from repro.operators.arrays import LEGACY_DEFAULT_STREAM, DeviceArray, ExternalArray, View, is_on_device, view
from repro.operators.dlpack import Share
from repro.package_data import shipped

CACHE = "REPRO_CACHE"
#: Folder of kernel templates in the installed package, not a folder `kernels` in the user's current directory.
KERNELS = shipped("kernels", here=False)
#: The beginning of a kernel's definition, as all templates have it; group 1 is its name.
_KERNEL = re.compile(r"^(?:WARP_)?KERNEL\([^()]*\)\s+(\w+)\(", re.MULTILINE)


def kernel_names(source: str) -> tuple[str, ...]:
    """Return the names of the kernels that a rendered source defines."""
    return tuple(_KERNEL.findall(source))


def with_kernel(source: str, name: str) -> str:
    """Return a CUDA source with one of its kernels; the others become functions that nothing calls."""
    return _KERNEL.sub(lambda begin: begin[0] if begin[1] == name else f"static __device__ void {begin[1]}(", source)


class KernelsOnDemand:
    """A program whose kernels are compiled and loaded one by one, as all take up to half a minute; a `Program`.

    Parameters
    ----------
    source, name
        The rendered source of all kernels, and its name in the cache.
    load
        Compiles a source with a name unless the cache has it, and loads it.
    """

    def __init__(self, source: str, name: str, load: Callable[[str, str], Program]) -> None:
        self._source, self._name, self._load = source, name, load
        self._names = frozenset(kernel_names(source))
        self._programs: dict[str, Program] = {}

    def having(self, name: str) -> Program:
        """Return the loaded program that has a kernel."""
        if name not in self._names:
            raise LaunchError(f"no kernel {name} in the module {self._name}")
        if name not in self._programs:
            [(full_name, source)] = self.sources(re.escape(name)).items()
            self._programs[name] = self._load(source, full_name)
        return self._programs[name]

    def sources(self, pattern: str) -> dict[str, str]:
        """Return the sources of the kernels whose names match a regular expression, by their names in the cache."""
        names = (name for name in self._names if re.fullmatch(pattern, name))
        return {f"{self._name}-{name}": with_kernel(self._source, name) for name in names}

    def kernel(self, name: str, shared: int = 0) -> Any:
        return self.having(name).kernel(name, shared)


class Runtime:
    """An open device, with compiler and cache for its kernels.

    A process has one runtime per device, made by `open_runtime` and shared by all threads; only one thread at a time
    can be in the body of `with runtime.after()`. On a GPU the runtime uses the primary context, as CuPy, PyTorch and
    Numba do. `words` is the name of the device, such as `cuda:0`, which opens the device again, also in another
    process.
    """

    def __init__(self, device: Device, words: str = "auto") -> None:
        self.device, self.words = device, words
        self._programs: dict[Path, Program] = {}
        self._streams = _Streams(device) if device.backend == "cuda" else None
        #: The device's number, as libraries of arrays count GPUs; -1 for a device that is none.
        self.ordinal = int(getattr(device, "ordinal", -1))
        #: Handle of the device's own stream on a GPU.
        self.stream = int(getattr(device, "stream", 0))
        self.libraries = ArrayLibraries(device, self.empty)
        self._imported = _Imported()
        #: Objects that a solve of the thread with the lock is using.
        self._solving: list[object] = []

    def compiled(self, source: str, name: str) -> tuple[Module, Path]:
        """Compile a source unless the cache has it; return the module's manifest and the folder of its files.

        If the cache has the module, it is only read, so it may be read-only. It raises `ReproError` if there is no
        compiler, the compilation fails, or the cache cannot be written.
        """
        target, manifest = self.device.target, self._manifest(name)
        try:
            module = compiled_before(source, target, manifest) or compile_module(source, target, manifest)
            return module, manifest.parent
        except OSError as error:
            raise ReproError(
                "a compiled kernel cannot be stored",
                where=error.filename2 or error.filename or manifest.parent,
                actual=error.strerror or error,
                todo="remove what is there, free some space, or name another folder in the environment variable "
                f"{CACHE}",
            ) from error

    def compile_together(self, sources: Mapping[str, str]) -> None:
        """Compile, in parallel, those sources that the cache lacks; `sources` maps names to sources."""
        target = self.device.target
        missing = [name for name in sources if not compiled_before(sources[name], target, self._manifest(name))]
        if len(missing) < 2:
            return  # what uses the program compiles it
        with ThreadPoolExecutor(min(len(missing), len(os.sched_getaffinity(0)))) as pool:
            for _ in pool.map(lambda name: self.compiled(sources[name], name), missing):
                pass

    def _manifest(self, name: str) -> Path:
        return cache_folder() / "modules" / self.device.target.name / f"{name}.json"

    def load(self, binary: Path) -> Program:
        if binary not in self._programs:
            self._programs[binary] = self.device.load(binary)
        return self._programs[binary]

    def program(self, source: str, name: str) -> Program:
        """Compile a source unless the cache has it, and load it; see `compiled`."""
        module, folder = self.compiled(source, name)
        return self.load(folder / str(module.binary))

    def kernels(self, source: str, name: str) -> Program:
        """Return the program of a source with many kernels; a GPU's are compiled when each is first used."""
        return (
            KernelsOnDemand(source, name, self.program) if self.device.backend == "cuda" else self.program(source, name)
        )

    def upload(self, array: NDArray[Any]) -> Buffer:
        try:
            return self.device.upload(array)
        except OutOfDeviceMemory as error:
            raise self.out_of_memory_error(error) from None

    def put(self, array: NDArray[Any]) -> DeviceArray:
        return DeviceArray(self.device, self.upload(array), array.shape, array.dtype)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> DeviceArray:
        try:
            buffer = self.device.allocate_ordered(math.prod(shape) * dtype.itemsize)
        except OutOfDeviceMemory as error:
            raise self.out_of_memory_error(error) from None
        return DeviceArray(self.device, buffer, shape, dtype)

    def out_of_memory_error(self, error: OutOfDeviceMemory) -> ReproError:
        with self.after():  # makes the context of this GPU current
            free = self.device.free_bytes()
        return ReproError(
            "the device is out of memory",
            where=self.device.name,
            actual=f"{error}; {free} bytes are free",
            todo="close other operators, free arrays, or use another layout or single precision",
        )

    def view(
        self,
        array: Any,
        subject: str,
        dtype: np.dtype[Any],
        count: int,
        alignment: int,
        write: bool = False,
        stream: int | None = None,
    ) -> View:
        """Check that an array is on this device, and return a view of its memory; see `repro.operators.arrays.view`.

        `stream` is the one that computes the array; None: that of its library, if this is known.
        """
        if isinstance(array, DeviceArray):
            if array.device is not self.device:
                raise self._elsewhere(subject, f"memory of {_describe_device(array.device)}")
            return view(array, subject, dtype, count, alignment, write)
        library = self.libraries[type(array)]
        if stream is None and library is not None and self._streams is not None:
            stream = library.stream(self.ordinal)
        if stream is not None and library is not None and self._streams is not None:
            address = library.address(array, dtype, count, self.ordinal)
            if address and address % alignment == 0:
                return View(ExternalArray(address, count * dtype.itemsize, array), stream, tuple(array.shape))
        if not is_on_device(array):
            raise ReproErrorOfType(
                "not an array on the device",
                where=subject,
                expected=f"an array on {self.device.name}",
                actual=type(array).__name__,
                todo="copy a NumPy array there with `put` of `repro.vectors` or of an operator's `vectors`",
            )
        array_view = view(array, subject, dtype, count, alignment, write, stream)
        memory: Any = array_view.buffer
        if isinstance(memory.owner, Share):
            self._imported.views.append(array_view)
        if self._streams is None or (memory.nbytes and not self._streams.holds(memory.pointer)):
            raise self._elsewhere(subject, "an address that is not in its memory")
        return array_view

    def _elsewhere(self, subject: str, actual: str) -> ReproError:
        return ReproErrorOfValue(
            "an array is on a different device",
            where=subject,
            expected=f"memory of {_describe_device(self.device)}",
            actual=actual,
            todo="copy it there first; arrays are not copied between devices automatically",
        )

    @contextmanager
    def after(self, *streams: int | None, reads: str | None = None) -> Iterator[None]:
        """Return a context manager that locks the device and orders work with other streams.

        Kernels that the `with` body launches run after earlier work and before later work of `streams`. Other threads
        wait until the end of the body. It raises `ReproError` in a process forked after the device was opened, and if
        a launch fails.

        `reads` names a body that reads on the host, which a CUDA graph cannot contain: while one of the streams, or
        the current one of a library of arrays, is captured, it raises `ReproError` before anything is queued.
        """
        foreign, own_streams = {s for s in streams if s is not None}, self._streams
        try:
            with self.device.current():
                if reads is not None:
                    self.refuse_capture(reads, *foreign)
                with nullcontext() if own_streams is None else own_streams.ordered(foreign):
                    try:
                        yield
                    finally:
                        if own_streams is not None and (views := self._imported.take()):
                            own_streams.hold(views)
        except LaunchError as error:
            raise refused_launch(error) from error

    @contextmanager
    def solving(self, solver: object, operator: object = None) -> Iterator[None]:
        """Note that a solve uses a solver, and perhaps an operator, until the body ends; the caller has the lock."""
        self.require_idle(solver)
        self._solving += (solver, operator)
        try:
            yield
        finally:
            del self._solving[-2:]

    def require_idle(self, *objects: object) -> None:
        """Raise `ReproError` if a solve, which has called the user's callback, uses one of the objects."""
        for each in objects:
            if any(each is used for used in self._solving):
                raise ReproError(
                    "a running solve uses the object",
                    where=repr(each),
                    todo="call this after the solve; in a callback, use another operator or hierarchy",
                )

    def refuse_capture(self, reads: str, *streams: int | None) -> None:
        """Raise `ReproError` while one of the streams, or a library's current one, is captured; see `after`."""
        if self.captures(*streams):
            self._imported.take()
            raise ReproError(
                "a CUDA graph cannot contain a step that the host reads; nothing was queued",
                where=reads,
                actual="a stream that is being captured",
                todo="call it before or after the capture; products, refills, filters and `axpby` of device arrays "
                "can be captured",
            )

    def captures(self, *streams: int | None) -> bool:
        """Return whether one of the streams, or a library's current one, is captured into a CUDA graph."""
        if self._streams is None:
            return False
        return self._streams.are_captured({s for s in streams if s is not None} | self.libraries.streams(self.ordinal))

    def marks(self) -> Marks:
        """Return the marks of one object on streams."""
        return Marks(self._streams)

    def finish(self, *streams: int | None) -> None:
        """Wait for the device's own stream and for `streams`, without the lock; None is the default stream."""
        if self._streams is None:
            self.device.synchronize()
            return
        if not self._streams.finish({LEGACY_DEFAULT_STREAM if s is None else s for s in streams}):
            self.device.synchronize()  # the thread with the lock captures a graph; this waits for the lock


class Marks:
    """Marks on other streams than the device's own, for which later work on this one can wait; the caller locks them.

    A mark costs an event. A stream that CUDA orders with the device's own needs none, and none is set on a stream that
    is being captured into a graph: its work runs when the graph does.
    """

    def __init__(self, streams: _Streams | None) -> None:
        self._streams = streams
        self._events: dict[tuple[int, int], Any] = {}
        self._set: set[tuple[int, int]] = set()

    def add(self, stream: int) -> None:
        """Mark the end of what is queued on a stream."""
        streams = self._streams
        if streams is None or streams.is_ordered(stream):
            return
        key = stream, get_ident() if stream == PER_THREAD_DEFAULT_STREAM else 0
        if key not in self._events:
            self._events[key] = streams.take_event()
        if streams.mark(self._events[key], stream):
            self._set.add(key)

    def wait(self) -> None:
        """Have later work on the device's own stream wait for all marks."""
        while self._set:
            assert self._streams is not None
            self._streams.wait_for_mark(self._events[self._set.pop()])

    def __del__(self) -> None:
        if self._streams is not None:
            self._streams.give_back(self._events.values())


class _Streams:
    """Orders the stream of a device with streams of other libraries on the same GPU.

    The device's stream is a blocking stream, so CUDA itself orders it with the legacy default stream. An event orders
    it with any other stream.
    """

    def __init__(self, device: Any) -> None:
        from cuda.bindings import driver

        self._driver = driver
        self._own_stream = device.stream
        #: Arrays that queued work uses, and the event behind that work.
        self._held: deque[tuple[Any, list[View]]] = deque()
        flags = driver.CUevent_flags.CU_EVENT_DISABLE_TIMING
        with device.current():
            self._context = self._call(driver.cuCtxGetCurrent)
            self._event = self._call(driver.cuEventCreate, flags)
            self._unused_events: list[Any] = []
            self._without_event = {0, LEGACY_DEFAULT_STREAM, self._own_stream}
            self._ordinal = int(self._call(driver.cuCtxGetDevice))

    def holds(self, pointer: int) -> bool:
        ordinal = self._driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        status, holder = self._driver.cuPointerGetAttribute(ordinal, pointer)
        return not int(status) and int(holder) == self._ordinal

    @contextmanager
    def ordered(self, streams: set[int]) -> Iterator[None]:
        foreign = streams - self._without_event
        with self._current():
            for stream in foreign:
                self._wait(self._own_stream, stream)
            try:
                yield
            except BaseException:
                # launches before the error may still use the caller's arrays; the first error is the one to report
                with suppress(Exception):
                    self._let_wait(foreign)
                raise
            self._let_wait(foreign)

    def _let_wait(self, streams: set[int]) -> None:
        """Make later work of `streams` wait for the work that is queued on the device's own stream."""
        for stream in streams:
            self._wait(stream, self._own_stream)

    def hold(self, views: list[View]) -> None:
        """Keep arrays alive until the work that is queued now is done; a later call finds that it is.

        Libraries without a stream that waits for this one would use the memory again at once.
        """
        driver = self._driver
        while self._held and not int(driver.cuEventQuery(self._held[0][0])[0]):
            driver.cuEventDestroy(self._held.popleft()[0])
        event = self._call(driver.cuEventCreate, driver.CUevent_flags.CU_EVENT_DISABLE_TIMING)
        self._call(driver.cuEventRecord, event, self._own_stream)
        self._held.append((event, views))

    def is_ordered(self, stream: int) -> bool:
        """Return whether CUDA itself orders a stream with the device's own."""
        return stream in self._without_event

    def are_captured(self, streams: set[int]) -> bool:
        """Return whether one of `streams`, or the device's own, is being captured into a graph."""
        # the default stream cannot be captured, and to ask about it would spoil the capture of a stream ordered with it
        asked = {self._own_stream, *streams} - {0, LEGACY_DEFAULT_STREAM}
        with self._current():
            return any(int(self._call(self._driver.cuStreamIsCapturing, stream)) for stream in asked)

    def take_event(self) -> Any:
        """Return an event for marks."""
        if self._unused_events:
            return self._unused_events.pop()
        with self._current():
            return self._call(self._driver.cuEventCreate, self._driver.CUevent_flags.CU_EVENT_DISABLE_TIMING)

    def give_back(self, events: Iterable[Any]) -> None:
        self._unused_events.extend(events)

    def mark(self, event: Any, stream: int) -> bool:
        """Record an event; return False on a stream that is being captured."""
        with self._current():
            if int(self._call(self._driver.cuStreamIsCapturing, stream)):
                return False
            self._call(self._driver.cuEventRecord, event, stream)
        return True

    def wait_for_mark(self, event: Any) -> None:
        with self._current():
            self._call(self._driver.cuStreamWaitEvent, self._own_stream, event, 0)

    def finish(self, streams: set[int]) -> bool:
        """Wait for `streams` and the device's own stream; return False while a graph is captured on it."""
        with self._current():
            for stream in streams - {self._own_stream}:
                self._call(self._driver.cuStreamSynchronize, stream)
            if int(self._call(self._driver.cuStreamIsCapturing, self._own_stream)):
                return False
            self._call(self._driver.cuStreamSynchronize, self._own_stream)
        return True

    @contextmanager
    def _current(self) -> Iterator[None]:
        driver = self._driver
        foreign_context = int(self._call(driver.cuCtxGetCurrent)) != int(self._context)
        if foreign_context:  # another library has made a context of its own current
            self._call(driver.cuCtxPushCurrent, self._context)
        try:
            yield
        finally:
            if foreign_context:
                self._call(driver.cuCtxPopCurrent)

    def _wait(self, waiting_stream: int, awaited_stream: int) -> None:
        """Make the stream `waiting_stream` wait for all work queued so far on the stream `awaited_stream`."""
        self._call(self._driver.cuEventRecord, self._event, awaited_stream)
        self._call(self._driver.cuStreamWaitEvent, waiting_stream, self._event, 0)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        status, *result = function(*arguments)
        if int(status):
            raise ReproErrorOfValue(
                "the GPU refused to order its streams",
                where=function.__name__,
                actual=status,
                todo="pass the handle of a live stream of the operator's GPU",
            )
        return result[0] if result else None


class _Imported(local):
    """Arrays of libraries without a known stream that a thread has imported and not used yet."""

    def __init__(self) -> None:
        # those of products that the device does not lock for, which wait themselves, give way
        self.views: deque[View] = deque(maxlen=16)

    def take(self) -> list[View]:
        views = list(self.views)
        self.views.clear()
        return views


def refused_launch(error: LaunchError) -> ReproError:
    return ReproError(
        "the device refused a launch",
        actual=error,
        todo="start a new process, as the device is lost to this one"
        if error.sticky
        else "pass a live stream of the operator's GPU, and do not close an operator while it is in use",
    )


def _describe_device(device: Device) -> str:
    return f"{device.name} ({device.uuid})"


def open_runtime(device: str = "auto") -> Runtime:
    """Return the one runtime for a device (`auto`, `cuda:N`, `opencl:N`); raise `ReproError` if it is unavailable."""
    if not isinstance(device, str):
        expected = "a string such as auto, cuda:0 or opencl:0"
        raise ReproErrorOfType("no such device", where="device", expected=expected, actual=brief(device))
    with _opening_lock:  # a second runtime for the same device would refuse arrays of the first one
        try:
            with argument_errors():
                name = resolve_device(device)
            return _open(name)
        except DeviceError as error:
            raise error.in_python() from None


_opening_lock = RLock()
# otherwise, a fork while another thread opens a device would leave the lock held for ever in the child process
os.register_at_fork(
    before=_opening_lock.acquire, after_in_parent=_opening_lock.release, after_in_child=_opening_lock.release
)


@cache
def _open(device_name: str) -> Runtime:
    return Runtime(open_device(device_name), device_name)


def cache_folder() -> Path:
    """Return the folder of compiled kernels: the environment variable REPRO_CACHE, else the user's cache.

    It raises `ReproError` if the home folder is unknown, or if the current folder was deleted.
    """
    configured = os.environ.get(CACHE)
    try:
        users_cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
        if not users_cache.is_absolute():  # such a path has to be ignored, by the XDG Base Directory specification
            users_cache = Path("~/.cache")
        return Path(configured or users_cache / "sparse-repro").expanduser().absolute()
    except (OSError, RuntimeError) as error:
        raise ReproError(
            "no folder for compiled kernels",
            where=configured,
            actual=error,
            todo=f"name one in the environment variable {CACHE}",
        ) from None
