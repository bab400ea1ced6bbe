"""Selects and opens the devices that the configuration names, and lists GPUs without creating a context.

Login nodes of a cluster, and jobs that do not measure, must know which GPUs a campaign uses. `repro doctor --gpus`
writes these GPUs to a file on a node with GPUs; the environment variable `REPRO_GPUS` contains the file's path. The
file is used only if a process sees no GPU.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

from repro.codegen import opencl_runtime
from repro.codegen.targets import CPU, Target, get_target
from repro.devices import nvml
from repro.devices.base import Device, DeviceError, LaunchError
from repro.devices.device_group import Devices
from repro.errors import ReproError
from repro.filesystem import write_whole
from repro.untrusted_files import read_json, shown
from repro.words import DEVICE_MEANING, DEVICE_WORDS, names_device, suggestion


@dataclass(frozen=True)
class Gpu:
    """A GPU that CUDA can use."""

    #: N in `cuda:N`: the GPU's number among visible GPUs in PCI order.
    ordinal: int
    #: Model name.
    name: str
    #: Compute capability in the compiler's form, such as `sm_90`.
    capability: str
    uuid: str


def has_bindings() -> bool:
    """Return whether NVIDIA's Python bindings are installed, without which no GPU is driven."""
    return bool(find_spec("cuda") and find_spec("cuda.bindings"))


def find_gpus() -> list[Gpu]:
    """Return the GPUs visible to CUDA in this process, in PCI order; empty without a driver or NVML.

    `CUDA_VISIBLE_DEVICES` is respected.
    """
    gpu_entries = nvml.list_gpus()
    visible = visible_devices([uuid for _, _, uuid in gpu_entries], os.environ.get("CUDA_VISIBLE_DEVICES"))
    return [Gpu(ordinal, *gpu_entries[index]) for ordinal, index in enumerate(visible)]


def visible_devices(uuids: Sequence[str], setting: str | None) -> list[int]:
    """Return the indices of the GPUs that a value of `CUDA_VISIBLE_DEVICES` makes visible, in the order of this value.

    Entries are numbers or prefixes of UUIDs. As in CUDA, the list ends at the first entry that matches no GPU.
    """
    if setting is None:
        return list(range(len(uuids)))
    ordinals: list[int] = []
    for word in (part.strip() for part in setting.split(",")):
        if word.isdigit():
            candidates = [int(word)] if int(word) < len(uuids) else []
        else:
            candidates = [i for i, uuid in enumerate(uuids) if word and uuid.startswith(word)]
        if len(candidates) != 1 or candidates[0] in ordinals:
            break
        ordinals.append(candidates[0])
    return ordinals


STATED = "REPRO_GPUS"


@dataclass(frozen=True)
class Node:
    """The GPUs and the driver version of the machine on which a campaign is measured."""

    gpus: tuple[Gpu, ...]
    driver: str | None


def node() -> Node:
    """Return the GPUs that this process can use; if there are none, return those in the file named by `REPRO_GPUS`."""
    gpus, path = find_gpus(), os.environ.get(STATED)
    if gpus or not path:
        return Node(tuple(gpus), nvml.driver_version())
    from pydantic import TypeAdapter, ValidationError  # only campaigns read such a file

    try:
        return TypeAdapter(Node).validate_python(read_json(Path(path)))
    except (OSError, ValueError) as error:
        wrong = error.errors()[0] if isinstance(error, ValidationError) else None
        reason = f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg'].lower()}" if wrong else error
        raise ReproError(
            "the file that lists a cluster's GPUs cannot be read",
            where=f"{STATED}={path}",
            actual=shown(reason),
            todo=f"write it on a node with GPUs: `repro doctor --gpus {path}`, or unset {STATED}",
        ) from None


def write_gpus(path: Path) -> None:
    """Write a list of this process's GPUs to a file; raise `ReproError` if there are none."""
    gpus = find_gpus()
    if not gpus:
        raise ReproError(
            "there are no GPUs to list",
            where=path,
            todo="do this on a node with GPUs, in a job that requests one: `srun --gpus=1 repro doctor --gpus …`",
        )
    machine = Node(tuple(gpus), nvml.driver_version())
    write_whole(path, json.dumps(asdict(machine), indent=1) + "\n")


def resolve_device(setting: str) -> str:
    """Convert the configured device selection to explicit device names: `cuda:0`, `cuda:0,1`, `opencl:0/2`.

    `auto` selects a GPU if one exists and its Python packages are installed, otherwise the CPU. Raises `ReproError`:
    the selection is invalid, a device does not exist, or only parts of a GPU (MIG) are visible.
    """
    if not names_device(setting):
        meant = suggestion(setting, DEVICE_WORDS)
        raise ReproError("no such device", where="device", expected=DEVICE_MEANING, actual=f"{setting!r}{meant}")
    backend, _, number_list = setting.partition(":")
    if backend == "opencl":
        numbers = [int(number) for number in (number_list or "0").split("/")]
        if numbers[0]:  # skip the slow listing for device 0, which always exists
            opencl_runtime.open_device(numbers[0])
        return f"{backend}:{'/'.join(map(str, numbers))}"
    gpus = node().gpus
    if not gpus and "MIG-" in (visible := os.environ.get("CUDA_VISIBLE_DEVICES", "")):
        raise DeviceError(
            "parts of a GPU (MIG) cannot be used for measurements",
            where="CUDA_VISIBLE_DEVICES",
            expected="numbers or UUIDs of whole GPUs, as `nvidia-smi -L` lists them",
            actual=visible,
            remedy="request a whole GPU that nothing else uses",
            fallback=("opencl", "uses the CPU"),
        )
    if setting == "auto":
        return "cuda:0" if gpus and has_bindings() else "opencl:0"
    ordinals = (
        range(max(len(gpus), 1))
        if number_list == "all"
        else [int(number) for number in (number_list or "0").split(",")]
    )
    if max(ordinals) >= len(gpus):
        raise DeviceError(
            "no such GPU",
            where="device",
            expected=setting,
            actual=_names(gpus) or "no NVIDIA GPU",
            remedy="`repro doctor` shows what was found",
            fallback=("auto", "uses the CPU if there is no GPU"),
        )
    return f"cuda:{','.join(map(str, ordinals))}"


def single_devices(device: str) -> list[str]:
    """Return the name of each single device; for sub-devices of a CPU, the CPU's name."""
    backend, _, numbers = device.partition(":")
    return [f"{backend}:{number}" for number in numbers.partition("/")[0].split(",")]


def identities(device: str) -> list[str]:
    """Return a unique identifier for each device: a GPU's UUID, since `CUDA_VISIBLE_DEVICES` changes numbers, or
    `opencl:0`.
    """
    if not device.startswith("cuda:"):
        return single_devices(device)
    gpus = node().gpus
    return [gpus[int(part.partition(":")[2])].uuid for part in single_devices(device)]


def models(device: str) -> list[str]:
    """Return device models and driver version, on which times depend, without opening a device."""
    if not device.startswith("cuda:"):
        return [str(opencl_runtime.processor()), *opencl_runtime.runtime_identity()]
    machine = node()
    names = [machine.gpus[int(part.partition(":")[2])].name for part in single_devices(device)]
    return [*names, f"driver {machine.driver}"]


def target_of(device: str) -> Target:
    """Return the hardware limits common to all selected devices without opening any; `ReproError` if they differ."""
    backend, _, numbers = device.partition(":")
    if backend == "opencl":
        return CPU
    known_gpus = node().gpus
    gpus = [known_gpus[int(number)] for number in numbers.split(",")]
    capabilities = {gpu.capability for gpu in gpus}
    if len(capabilities) > 1:
        raise ReproError(
            "the GPUs belong to several generations",
            where=f"device: {device}",
            expected="one generation, since all run the same binaries",
            actual=", ".join(f"cuda:{gpu.ordinal} {gpu.name} ({gpu.capability})" for gpu in gpus),
            todo="name GPUs of one generation",
        )
    return get_target(capabilities.pop())


def open_devices(setting: str) -> Devices:
    """Open all devices that the configuration selects.

    Raises `ReproError`: a device or its Python packages are missing, the GPUs differ in generation, or they cannot be
    linked.
    """
    device_names = resolve_device(setting)
    if len(single_devices(device_names)) > 1:
        target_of(device_names)
    members = _open(device_names)
    try:
        return Devices(members)
    except LaunchError as error:
        for device in reversed(members):
            device.close()
        raise ReproError("the devices cannot be used together", where=f"device: {device_names}", actual=error) from None


def open_device(setting: str) -> Device:
    """Open the single device that the configuration selects.

    Raises `ReproError`: the device or its Python packages are missing, or several devices are selected.
    """
    device_name = resolve_device(setting)
    if "," in device_name or "/" in device_name:
        raise ReproError(
            "this runs on one device only",
            where="device",
            expected="one, such as cuda:0 or opencl:0",
            actual=setting if setting == device_name else f"{setting}, which is {device_name}",
        )
    return _open(device_name)[0]


def _open(device: str) -> list[Device]:
    backend, _, numbers = device.partition(":")
    if backend == "cuda":
        return _open_gpus([int(number) for number in numbers.split(",")])
    from repro.devices.opencl import OpenClDevice, open_sub_devices

    ordinal, _, count = numbers.partition("/")
    return [*open_sub_devices(int(ordinal), int(count))] if count else [OpenClDevice(int(ordinal))]


def _open_gpus(ordinals: Sequence[int]) -> list[Device]:
    from repro.devices.cuda import open_cuda

    devices: list[Device] = []
    try:
        for ordinal in ordinals:
            devices.append(open_cuda(ordinal))
    except ReproError:
        for device in reversed(devices):
            device.close()
        raise
    return devices


def _names(gpus: Sequence[Gpu]) -> str:
    return ", ".join(f"cuda:{gpu.ordinal} {gpu.name}" for gpu in gpus)
