"""Opening an NVIDIA GPU."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from repro.devices.cuda import CudaDevice
from repro.errors import ReproError
from repro.shipped import install


def open_cuda(ordinal: int) -> CudaDevice:
    """Open a GPU, numbered in the order of the PCI addresses.

    Raises
    ------
    ReproError
        PyCUDA, the driver or the GPU is not there, or its generation is not in the table of targets.
    """
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # NVML's order, so that `find_gpus` means the same
    # a kernel that is loaded at its first launch waits for the device, which a blocked stream never lets finish
    os.environ.setdefault("CUDA_MODULE_LOADING", "EAGER")
    where = f"device: cuda:{ordinal}"
    try:
        import_module("cuda.bindings.driver")
        cuda: Any = import_module("pycuda.driver")
    except ModuleNotFoundError as error:
        raise ReproError(
            "the packages for NVIDIA GPUs are not installed", where=where, actual=error, todo=install("cuda")
        ) from None
    except ImportError as error:
        raise ReproError(
            "PyCUDA cannot be loaded",
            where=where,
            actual=error,
            todo="install NVIDIA's driver (`nvidia-smi` must work); `device: opencl` runs on the CPU",
        ) from None
    try:
        cuda.init()
        count = cuda.Device.count()
    except cuda.Error as error:
        raise ReproError(
            "no NVIDIA GPU can be used",
            where=where,
            actual=error,
            todo="`nvidia-smi` must list it, CUDA_VISIBLE_DEVICES must not hide it; `device: opencl` runs on the CPU",
        ) from None
    if not 0 <= ordinal < count:
        raise ReproError("no such GPU", where=where, expected=f"cuda:0 to cuda:{count - 1}", actual=f"cuda:{ordinal}")
    try:
        return CudaDevice(cuda, ordinal)
    except cuda.Error as error:
        raise ReproError(
            "the GPU cannot be opened",
            where=where,
            actual=error,
            todo="see with `nvidia-smi` whether another process has it to itself or has filled its memory",
        ) from None
