"""Which NVIDIA GPUs there are, without making a context on any."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from repro.devices import nvml


@dataclass(frozen=True)
class Gpu:
    """A GPU that CUDA can use.

    Attributes
    ----------
    ordinal
        N of `cuda:N`: its number among the visible GPUs, in the order of their PCI addresses.
    name, uuid
        The model, and which one of its kind.
    capability
        Its generation as the compiler names it: `sm_90`.
    """

    ordinal: int
    name: str
    capability: str
    uuid: str


def find_gpus() -> list[Gpu]:
    """Return the GPUs that CUDA would show this process; none where there is no driver or no NVML.

    `CUDA_VISIBLE_DEVICES` is respected. `repro.devices.cuda` opens GPUs in the same order, which is not CUDA's own
    default (the fastest first).
    """
    listed = nvml.list_gpus()
    visible = visible_devices([uuid for _, _, uuid in listed], os.environ.get("CUDA_VISIBLE_DEVICES"))
    return [Gpu(ordinal, *listed[index]) for ordinal, index in enumerate(visible)]


def visible_devices(uuids: Sequence[str], setting: str | None) -> list[int]:
    """Return the indices of the GPUs that a value of `CUDA_VISIBLE_DEVICES` leaves visible, in its order.

    As CUDA reads it: numbers or the beginnings of UUIDs; the first that fits no GPU ends the list.
    """
    if setting is None:
        return list(range(len(uuids)))
    chosen: list[int] = []
    for word in (part.strip() for part in setting.split(",")):
        if word.isdigit():
            fitting = [int(word)] if int(word) < len(uuids) else []
        else:
            fitting = [i for i, uuid in enumerate(uuids) if word and uuid.startswith(word)]
        if len(fitting) != 1 or fitting[0] in chosen:
            break
        chosen.append(fitting[0])
    return chosen
