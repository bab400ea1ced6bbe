"""Opening all that a measuring command needs: devices, one problem, one precision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from repro.bench.environment import describe, record
from repro.bench.operands import Operands
from repro.bench.trial import Bench
from repro.bench.workspace import Workspace
from repro.campaign.dependencies import code_hash
from repro.campaign.folders import Folders
from repro.config.models import Config
from repro.devices.base import LaunchError
from repro.devices.locking import hold
from repro.devices.open import identities, open_devices, resolve_device
from repro.errors import ReproError
from repro.studies import Study


@contextmanager
def open_bench(config: Config, study: Study, problem: str, operands: Operands, folders: Folders) -> Iterator[Bench]:
    """Open the devices, each of them alone, and bring operands to them.

    Raises
    ------
    ReproError
        A device is not there or what drives it is missing, or the common module is not compiled or not for it.
    """
    resolved = resolve_device(config.device)
    work = f"campaign {config.campaign}: {study.name} {problem} {operands.precision}"
    with hold(identities(resolved), work):
        devices = open_devices(resolved)
        try:
            workspace = Workspace(devices, operands)
            _load_common(workspace, resolved)
            environment: Mapping[str, Any] = describe(workspace)
            bench = Bench(
                workspace,
                study=study.name,
                problem=problem,
                timing=config.studies[study.name].timing,
                seed=config.seed,
                own=study.columns,
                environment=record(environment, folders.environments),
                driver=str(environment.get("driver")),
                code=code_hash,
            )
            bench.neighbours.look()
            yield bench
            bench.release()
        finally:
            devices.close()


def _load_common(workspace: Workspace, resolved: str) -> None:
    try:
        for device in workspace.devices:
            device.use_common(device.load(workspace.common.binary))
    except LaunchError as error:
        raise ReproError(
            "the common module cannot be loaded",
            where=f"device: {resolved}",
            actual=error,
            todo="modules for the CPU are compiled by the OpenCL runtime of opencl:0: measure on that device"
            if workspace.device.backend == "opencl"
            else "compile it again: remove its folder below `modules`",
        ) from None
