"""NCCL's all-gather over the GPUs of one process: what an exchange of parts is held against."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from repro.bench.runnable import Unsupported
from repro.devices.base import Buffer, LaunchError
from repro.devices.cuda_versions import package_version
from repro.devices.several import Devices

if TYPE_CHECKING:
    from repro.devices.cuda import CudaDevice

#: What times depend on: the packages that may have it, and those that may bring the library.
PACKAGES = ("nccl4py", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "cupy", "cupy-cuda12x", "cupy-cuda13x")


def versions() -> str:
    """Return the versions of the packages that are there."""
    return " ".join(f"{name} {version}" for name in PACKAGES if (version := package_version(name)))


class View:
    """Numbers in the memory of a GPU, as other libraries take them."""

    def __init__(self, pointer: int, count: int, dtype: np.dtype[Any]) -> None:
        self.pointer, self.count, self.dtype = pointer, count, dtype

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": (self.count,),
            "typestr": self.dtype.str,
            "data": (self.pointer, False),
            "strides": None,
            "stream": None,
            "version": 3,
        }


class Library(Protocol):
    """One package's way to NCCL."""

    def open(self, ordinals: Sequence[int]) -> list[Any]:
        """Return a communicator for each GPU."""

    def gather(self, communicators: Sequence[Any], sent: Sequence[View], whole: Sequence[View], at: list[int]) -> None:
        """Queue the part of each GPU on its stream, all in one group."""

    def close(self, communicator: Any) -> None:
        """Give a communicator back."""


class Nccl4py:
    """NVIDIA's own package."""

    def __init__(self) -> None:
        self._core: Any = import_module("nccl.core")

    def open(self, ordinals: Sequence[int]) -> list[Any]:
        """Return a communicator for each GPU."""
        return cast(list[Any], self._core.Communicator.init_all(list(ordinals)))

    def gather(self, communicators: Sequence[Any], sent: Sequence[View], whole: Sequence[View], at: list[int]) -> None:
        """Queue the part of each GPU on its stream, all in one group."""
        with self._core.group():
            for communicator, own, vector, stream in zip(communicators, sent, whole, at, strict=True):
                communicator.allgather(own, vector, stream=stream)

    def close(self, communicator: Any) -> None:
        """Give a communicator back."""
        communicator.destroy()


class Cupy:
    """CuPy's own bindings."""

    def __init__(self) -> None:
        self._nccl: Any = import_module("cupy.cuda.nccl")
        if not self._nccl.available:
            raise ImportError("CuPy was built without NCCL")

    def open(self, ordinals: Sequence[int]) -> list[Any]:
        """Return a communicator for each GPU."""
        return cast(list[Any], self._nccl.NcclCommunicator.initAll(list(ordinals)))

    def gather(self, communicators: Sequence[Any], sent: Sequence[View], whole: Sequence[View], at: list[int]) -> None:
        """Queue the part of each GPU on its stream, all in one group."""
        nccl = self._nccl
        nccl.groupStart()
        try:
            for communicator, own, vector, stream in zip(communicators, sent, whole, at, strict=True):
                kind = nccl.NCCL_FLOAT64 if own.dtype.itemsize == 8 else nccl.NCCL_FLOAT32
                communicator.allGather(own.pointer, vector.pointer, own.count, kind, stream)
        finally:
            nccl.groupEnd()

    def close(self, communicator: Any) -> None:
        """Give a communicator back."""
        communicator.destroy()


class Nccl:
    """All-gathers over several GPUs, each on the GPUs' own streams.

    It takes a second to open and memory of each GPU, so that a workspace keeps it as it keeps buffers.

    Parameters
    ----------
    devices
        What to gather over.

    Raises
    ------
    Unsupported
        They are no GPUs, or no package has NCCL, or it cannot be used.
    """

    def __init__(self, devices: Devices) -> None:
        if devices.backend != "cuda":
            raise Unsupported("NCCL is for NVIDIA GPUs")
        # multicast by the switch between the GPUs is not for every process of a host to use
        os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
        self._gpus = cast("list[CudaDevice]", [*devices])
        self._library = _library()
        try:
            self._communicators = self._library.open([gpu.ordinal for gpu in self._gpus])
        except Exception as error:  # of whatever kind the package's are
            raise Unsupported(f"NCCL cannot be used: {error}") from error

    def bind_all_gather(self, vectors: Sequence[Buffer], part: int, dtype: np.dtype[Any]) -> Callable[[], None]:
        """Return what brings the part of each GPU to all others.

        Parameters
        ----------
        vectors
            The whole vector in the memory of each GPU.
        part
            Numbers of one part.
        dtype
            Of the numbers.
        """
        pointers = [int(cast(Any, vector).pointer) for vector in vectors]
        sent = [View(pointer + at * part * dtype.itemsize, part, dtype) for at, pointer in enumerate(pointers)]
        whole = [View(pointer, part * len(pointers), dtype) for pointer in pointers]
        streams = [gpu.stream for gpu in self._gpus]

        def gather() -> None:
            try:
                self._library.gather(self._communicators, sent, whole, streams)
            except Exception as error:
                raise LaunchError(f"NCCL: {error}") from error

        return gather

    @property
    def nbytes(self) -> int:
        """Bytes that can be read or written: none."""
        return 0

    def release(self) -> None:
        """Give the communicators back."""
        while self._communicators:
            with suppress(Exception):  # after a fault on a GPU the library refuses
                self._library.close(self._communicators.pop(0))


def _library() -> Library:
    missing: list[str] = []
    for package in (Nccl4py, Cupy):
        try:
            return package()
        except Exception as error:  # not installed, or its own libraries are not
            missing.append(f"{package.__name__}: {error}")
    raise Unsupported(f"no package has NCCL, nccl4py or CuPy: {'; '.join(missing)}")
