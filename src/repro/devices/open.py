"""From the words of the configuration to an open device."""

from __future__ import annotations

from repro.codegen.targets import CPU, Target, get_target
from repro.devices.base import Device
from repro.devices.detect import find_gpus
from repro.errors import ReproError


def resolve_device(wanted: str) -> str:
    """Return `cuda:N` or `opencl:N` for what the configuration says; `auto` is a GPU if there is one, else the CPU.

    Raises
    ------
    ReproError
        A GPU is asked for that is not there.
    """
    backend, _, ordinal = wanted.partition(":")
    if backend == "auto":
        return "cuda:0" if find_gpus() else "opencl:0"
    number = int(ordinal or 0)
    if backend == "cuda" and number >= len(find_gpus()):
        found = ", ".join(f"cuda:{gpu.ordinal} {gpu.name}" for gpu in find_gpus()) or "no NVIDIA GPU"
        raise ReproError(
            "no such GPU",
            where="device",
            expected=f"{wanted}",
            actual=found,
            todo="`repro doctor` says what was found; `device: auto` takes the CPU where there is no GPU",
        )
    return f"{backend}:{number}"


def target_of(resolved: str) -> Target:
    """Return the limits of a resolved device without opening it.

    Raises
    ------
    ReproError
        The GPU's generation is not in the table.
    """
    backend, _, ordinal = resolved.partition(":")
    return CPU if backend == "opencl" else get_target(find_gpus()[int(ordinal)].capability)


def open_device(wanted: str) -> Device:
    """Open the device that the configuration names.

    Raises
    ------
    ReproError
        It is not there, or what drives it is not installed.
    """
    backend, _, ordinal = resolve_device(wanted).partition(":")
    if backend == "cuda":
        from repro.devices.cuda import open_cuda

        return open_cuda(int(ordinal))
    from repro.devices.opencl import OpenClDevice

    return OpenClDevice(int(ordinal))
