"""Opening all that a measuring command needs: devices, one problem, one precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from repro.bench.environment import describe, record
from repro.bench.of_device import Timed
from repro.bench.operands import Operands
from repro.bench.trial import Bench
from repro.bench.workspace import Workspace
from repro.campaign.dependencies import code_hash
from repro.campaign.folders import Folders
from repro.config.models import Config
from repro.devices.base import LaunchError
from repro.devices.locking import Held, hold
from repro.devices.open import identities, open_devices, resolve_device
from repro.devices.several import Devices
from repro.errors import ReproError
from repro.studies import Study


@dataclass(frozen=True)
class Opened:
    """Devices that are held and open, and what is known of them, which the cases of a batch do not time again."""

    devices: Devices
    held: Held
    timed: dict[str, Timed] = field(default_factory=dict)


@contextmanager
def opened(config: Config, work: str) -> Iterator[Opened]:
    """Open the devices, each of them alone.

    Parameters
    ----------
    work
        What they are held for, as others who wait are told.

    Raises
    ------
    ReproError
        A device is not there or what drives it is missing.
    """
    resolved = resolve_device(config.device)
    with hold(identities(resolved), f"campaign {config.campaign}: {work}") as held:
        devices = open_devices(resolved)
        try:
            yield Opened(devices, held)
        finally:
            devices.close()


@contextmanager
def opened_once(config: Config, work: str) -> Iterator[Callable[[], Opened]]:
    """Give what opens the devices when it is called first, and returns the same after that, for a batch of cases."""
    with ExitStack() as stack:
        yield cache(lambda: stack.enter_context(opened(config, work)))


@contextmanager
def open_bench(
    config: Config,
    study: Study,
    problem: str,
    operands: Operands,
    folders: Folders,
    batch: Callable[[], Opened] | None = None,
    turns: int = 1,
) -> Iterator[Bench]:
    """Open the devices, unless they are given, and bring operands to them.

    Parameters
    ----------
    batch
        Returns what the case shares with others, as `opened_once` gives it; None: the devices are opened for it alone.
    turns
        How many processes take turns at the devices: with others beside it, this one lends them while it packs.

    Raises
    ------
    ReproError
        As `opened`, or the common module is not compiled or not for the devices.
    """
    with ExitStack() as stack:
        alone = opened(config, f"{study.name} {problem} {operands.precision}")
        place = batch() if batch else stack.enter_context(alone)
        # on a CPU, whoever packs disturbs what others measure
        lend = place.held.lent if turns > 1 and place.devices.backend == "cuda" else nullcontext
        workspace = Workspace(place.devices, operands, say=partial(print, flush=True), lend=lend, turns=turns)
        _load_common(workspace, config.device)
        environment: Mapping[str, Any] = describe(workspace, study.packages)
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
            timed=place.timed if batch else None,
            idle=lambda: place.held.idle,
        )
        stack.callback(bench.release)
        bench.neighbours.look()
        yield bench


def _load_common(workspace: Workspace, wanted: str) -> None:
    try:
        for device in workspace.devices:
            device.use_common(device.load(workspace.common.binary))
    except LaunchError as error:
        raise ReproError(
            "the common module cannot be loaded",
            where=f"device: {resolve_device(wanted)}",
            actual=error,
            todo="modules for the CPU are compiled by the OpenCL runtime of opencl:0: measure on that device"
            if workspace.device.backend == "opencl"
            else "compile it again: remove its folder below `modules`",
        ) from None
