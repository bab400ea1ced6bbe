"""The GPUs of a cluster's nodes, stated in a file for those of its machines that have none.

A campaign is planned on a login node, and problems are built, modules compiled and tables made wherever there is room;
all of them have to know what it is measured on. `repro doctor --gpus` writes the file on a node with GPUs, and the
environment variable `REPRO_GPUS` names it. Where a process has a GPU of its own, that one counts.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from repro.devices import nvml
from repro.devices.detect import Gpu, find_gpus
from repro.errors import ReproError
from repro.reading import read_json, shown
from repro.whole import write_whole

STATED = "REPRO_GPUS"


@dataclass(frozen=True)
class Node:
    """What a campaign can be measured on.

    Attributes
    ----------
    gpus
        As CUDA numbers them.
    driver
        Version of NVIDIA's driver; None where it is not known.
    """

    gpus: tuple[Gpu, ...]
    driver: str | None


def node() -> Node:
    """Return the GPUs that this process can use; where it can use none, those that are stated.

    Raises
    ------
    ReproError
        The file that states them is not there, or is none.
    """
    gpus, path = find_gpus(), os.environ.get(STATED)
    if gpus or not path:
        return Node(tuple(gpus), nvml.driver_version())
    try:
        return TypeAdapter(Node).validate_python(read_json(Path(path)))
    except (OSError, ValueError) as error:
        wrong = error.errors()[0] if isinstance(error, ValidationError) else None
        said = f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg'].lower()}" if wrong else error
        raise ReproError(
            "the file that states a cluster's GPUs cannot be read",
            where=f"{STATED}={path}",
            actual=shown(said),
            todo=f"write it on a node with GPUs: `repro doctor --gpus {path}`, or unset {STATED}",
        ) from None


def write_gpus(path: Path) -> None:
    """Write down the GPUs that this process can use.

    Raises
    ------
    ReproError
        There are none.
    OSError
        The file cannot be written.
    """
    gpus = find_gpus()
    if not gpus:
        raise ReproError(
            "there are no GPUs to write down",
            where=path,
            todo="do so on a node that has them, in a job that asks for one: `srun --gpus=1 repro doctor --gpus …`",
        )
    stated = Node(tuple(gpus), nvml.driver_version())
    write_whole(path, json.dumps(asdict(stated), indent=1) + "\n")
