"""A compiled module, as runnables of several kernels are given it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from repro.bench.runnable import ModuleError
from repro.bench.workspace import Workspace
from repro.codegen.compile import Module, manifest_path
from repro.codegen.targets import Target
from repro.devices.base import Program


@dataclass(frozen=True)
class Built:
    """A module's manifest, and where it lies.

    Attributes
    ----------
    module
        The manifest.
    folder
        Its folder; binaries are relative to it.
    """

    module: Module
    folder: Path

    @classmethod
    def read(cls, manifest: Path) -> Built:
        """Read a manifest.

        Raises
        ------
        ReproError
            It is missing or damaged.
        """
        return cls(Module.load(manifest), manifest.parent)

    def program(self, workspace: Workspace, at: int = 0) -> Program:
        """Return the module, loaded on the device of that number.

        Raises
        ------
        ModuleError
            It did not compile, or its binary is not what was compiled.
        """
        if self.module.binary is None:
            raise ModuleError(self.module.message)
        return workspace.program(self.folder / self.module.binary, at)


def read_modules(target: Target, study: str, group: str, names: Iterable[str]) -> dict[str, Built]:
    """Return a study's compiled modules of a group by name.

    Raises
    ------
    ReproError
        One is not compiled yet.
    """
    return {name: Built.read(manifest_path(target.name, study, f"{group}/{name}")) for name in names}
