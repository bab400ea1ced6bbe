"""Opening all that a measuring command needs: one device, one problem, one precision."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from repro.bench.environment import describe, record
from repro.bench.trial import Bench
from repro.bench.workspace import Workspace, make_operands
from repro.codegen.compile import Module
from repro.config.models import Config
from repro.devices.base import Device, Program
from repro.devices.open import open_device
from repro.errors import ReproError
from repro.problems.problem import Problem


class Folders:
    """Where the files of one (study, problem, precision) lie.

    Attributes
    ----------
    raw
        Parquet files, which the artifacts are made from.
    store
        JSON lines, which a killed job is resumed from.
    problem
        The built problem.
    environments
        The environment records of the campaign.
    """

    def __init__(self, config: Config, study: str, problem: str, precision: str) -> None:
        results = Path("results", config.campaign)
        self.raw = results / "raw" / study / problem / precision
        self.store = results / "store" / study / problem / precision
        self.problem = results / "problems" / f"{problem}.npz"
        self.environments = results / "raw" / "environment"


def check_study(config: Config, study: str) -> None:
    """Refuse a study that is not configured.

    Raises
    ------
    ReproError
        It is not.
    """
    if study not in config.studies:
        raise ReproError("unknown study", expected=f"one of {', '.join(config.studies)}", actual=study)


def modules_folder(target: str) -> Path:
    """Return the folder of the compiled modules of a target."""
    return Path("modules", target)


@contextmanager
def open_bench(config: Config, study: str, problem: Problem, precision: str, folders: Folders) -> Iterator[Bench]:
    """Open the device, alone, and bring a problem to it.

    Raises
    ------
    ReproError
        The device is not there or what drives it is missing, or the common module is not compiled.
    """
    settings = config.studies[study]
    with _alone(config.device):
        device = open_device(config.device)
        try:
            for process in device.other_processes():
                print(f"warning: the device is shared with {process}; times may be disturbed", flush=True)
            environment = describe(device)
            common, common_hash = load_common(device)
            device.use_common(common)
            operands = make_operands(problem, precision, config.seed)
            bench = Bench(
                device,
                operands,
                Workspace(device, operands, common, common_hash),
                study=study,
                protocol=settings.protocol,
                seed=config.seed,
                environment=record(environment, folders.environments),
                driver=str(environment.get("driver")),
            )
            yield bench
            bench.release()
        finally:
            device.close()


def load_common(device: Device) -> tuple[Program, str]:
    """Load the module that every campaign needs; return it and its hash.

    Raises
    ------
    ReproError
        It is not compiled, or does not compile.
    """
    manifest = modules_folder(device.target.name) / "common.json"
    module = Module.load(manifest)
    if module.binary is None:
        raise ReproError("the common module does not compile", where=manifest, actual=module.message)
    return device.load(manifest.parent / module.binary), module.hash


@contextmanager
def _alone(device: str) -> Iterator[None]:
    """Wait until no other measurement of this user runs on the device, and keep others away meanwhile."""
    name = f"sparse-repro-{os.getuid()}-{device.replace(':', '-')}.lock"
    lock = FileLock(Path(tempfile.gettempdir(), name))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        print(f"another measurement runs on {device}; waiting for it to end", flush=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
