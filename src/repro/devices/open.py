"""From the words of the configuration to open devices."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec

from repro.codegen import opencl_runtime
from repro.codegen.targets import CPU, Target, get_target
from repro.config.device_words import MEANING, names_device
from repro.devices.base import Device, LaunchError
from repro.devices.detect import Gpu
from repro.devices.several import Devices
from repro.devices.stated import node
from repro.errors import ReproError


def resolve_device(wanted: str) -> str:
    """Return the words of what the configuration says that name each device: `cuda:0`, `cuda:0,1`, `opencl:0/2`.

    `auto` is a GPU if there is one and what drives it is installed, else the CPU.

    Raises
    ------
    ReproError
        The words name no device, or a GPU or a CPU that is not there, or only parts of a GPU (MIG) are visible.
    """
    if not names_device(wanted):
        raise ReproError("no such device", where="device", expected=MEANING, actual=repr(wanted))
    backend, _, rest = wanted.partition(":")
    if backend == "opencl":
        numbers = [int(number) for number in (rest or "0").split("/")]
        if numbers[0]:  # listing what there is takes time; of whatever there is, one is the first
            opencl_runtime.open_device(numbers[0])
        return f"{backend}:{'/'.join(map(str, numbers))}"
    gpus = node().gpus
    if not gpus and "MIG-" in (visible := os.environ.get("CUDA_VISIBLE_DEVICES", "")):
        raise ReproError(
            "parts of a GPU (MIG) cannot be measured on",
            where="CUDA_VISIBLE_DEVICES",
            expected="numbers or UUIDs of whole GPUs, as `nvidia-smi -L` lists them",
            actual=visible,
            todo="ask for a whole GPU, which nothing else uses; `device: opencl` takes the CPU",
        )
    if wanted == "auto":
        return "cuda:0" if gpus and find_spec("pycuda") else "opencl:0"
    ordinals = range(max(len(gpus), 1)) if rest == "all" else [int(number) for number in (rest or "0").split(",")]
    if max(ordinals) >= len(gpus):
        raise ReproError(
            "no such GPU",
            where="device",
            expected=wanted,
            actual=_names(gpus) or "no NVIDIA GPU",
            todo="`repro doctor` says what was found; `device: auto` takes the CPU where there is no GPU",
        )
    return f"cuda:{','.join(map(str, ordinals))}"


def parts(resolved: str) -> list[str]:
    """Return the words of each single device of a resolved one; parts of a CPU are that CPU."""
    backend, _, numbers = resolved.partition(":")
    return [f"{backend}:{number}" for number in numbers.partition("/")[0].split(",")]


def identities(resolved: str) -> list[str]:
    """Return what tells each single device of a resolved one from any other: a GPU's UUID, `opencl:0` for a CPU.

    A GPU's number does not, as `CUDA_VISIBLE_DEVICES` changes it.
    """
    if not resolved.startswith("cuda:"):
        return parts(resolved)
    listed = node().gpus
    return [listed[int(part.partition(":")[2])].uuid for part in parts(resolved)]


def models(resolved: str) -> list[str]:
    """Return what times depend on of the devices that a resolved one names, without opening any: models and driver."""
    if not resolved.startswith("cuda:"):
        return [str(opencl_runtime.processor()), *opencl_runtime.identity()]
    machine = node()
    names = [machine.gpus[int(part.partition(":")[2])].name for part in parts(resolved)]
    return [*names, f"driver {machine.driver}"]


def target_of(resolved: str) -> Target:
    """Return the limits of a resolved device, or of all that it names, without opening any.

    Raises
    ------
    ReproError
        A GPU's generation is not in the table, or GPUs are of several.
    """
    backend, _, numbers = resolved.partition(":")
    if backend == "opencl":
        return CPU
    listed = node().gpus
    gpus = [listed[int(number)] for number in numbers.split(",")]
    capabilities = {gpu.capability for gpu in gpus}
    if len(capabilities) > 1:
        raise ReproError(
            "the GPUs are of several generations",
            where=f"device: {resolved}",
            expected="one, since all run the same binaries",
            actual=", ".join(f"cuda:{gpu.ordinal} {gpu.name} ({gpu.capability})" for gpu in gpus),
            todo="name GPUs of one generation",
        )
    return get_target(capabilities.pop())


def open_devices(wanted: str) -> Devices:
    """Open all devices that the configuration names.

    Raises
    ------
    ReproError
        One is not there, GPUs are of several generations or cannot be brought together, or what drives them is not
        installed.
    """
    resolved = resolve_device(wanted)
    if len(parts(resolved)) > 1:
        target_of(resolved)
    opened = _open(resolved)
    try:
        return Devices(opened)
    except LaunchError as error:
        for device in reversed(opened):
            device.close()
        raise ReproError("the devices cannot be brought together", where=f"device: {resolved}", actual=error) from None


def open_device(wanted: str) -> Device:
    """Open the one device that the configuration names.

    Raises
    ------
    ReproError
        It is not there, what drives it is not installed, or the words name several.
    """
    resolved = resolve_device(wanted)
    if "," in resolved or "/" in resolved:
        raise ReproError(
            "this runs on one device",
            where="device",
            expected="one, such as cuda:0 or opencl:0",
            actual=wanted if wanted == resolved else f"{wanted}, which is {resolved}",
        )
    return _open(resolved)[0]


def _open(resolved: str) -> list[Device]:
    backend, _, numbers = resolved.partition(":")
    if backend == "cuda":
        return _open_gpus([int(number) for number in numbers.split(",")])
    from repro.devices.opencl import OpenClDevice, open_parts

    ordinal, _, count = numbers.partition("/")
    return [*open_parts(int(ordinal), int(count))] if count else [OpenClDevice(int(ordinal))]


def _open_gpus(ordinals: Sequence[int]) -> list[Device]:
    from repro.devices.cuda_open import open_cuda

    opened: list[Device] = []
    try:
        for ordinal in ordinals:
            opened.append(open_cuda(ordinal))
    except ReproError:
        for device in reversed(opened):
            device.close()
        raise
    return opened


def _names(gpus: Sequence[Gpu]) -> str:
    return ", ".join(f"cuda:{gpu.ordinal} {gpu.name}" for gpu in gpus)
