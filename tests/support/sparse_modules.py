"""The modules of dynamic matrices, of products and of multigrid, compiled for a device once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from repro.codegen.build_cache import compile_module
from repro.devices.base import Device, Program
from repro.sparse.dynamic.kernels import render_module
from repro.sparse.multigrid import kernels as multigrid
from repro.sparse.spgemm import kernels as spgemm
from support.emulated_cuda import EmulatedCuda, compile_kernels

RENDERERS = {
    **dict.fromkeys(multigrid.MODULES, multigrid.render_multigrid),
    **dict.fromkeys(spgemm.MODULES, spgemm.render_spgemm),
}


def loader(device: Device, templates: Path, folder: Path) -> Callable[[str], Program]:
    """Return what loads the module of a key, PRECISION/MODULE, compiled at first use.

    A GPU's emulator has those of equal sources in one folder beside that one, whatever the folder.
    """
    programs: dict[str, Program] = {}

    def load(key: str) -> Program:
        if key not in programs:
            source = RENDERERS.get(key.partition("/")[2], render_module)(templates, key, device.target, "tests")
            if isinstance(device, EmulatedCuda):
                programs[key] = compile_kernels(source, folder.parent / "emulated")
            else:
                manifest = folder / f"{key}.json"
                module = compile_module(source, device.target, manifest)
                assert module.binary, module.message
                programs[key] = device.load(manifest.parent / module.binary)
        return programs[key]

    return load


def by_precision(load: Callable[[str], Program]) -> Callable[[str], Callable[[str], Program]]:
    """Return what gives the loader of a precision."""
    return lambda precision: lambda module: load(f"{precision}/{module}")
