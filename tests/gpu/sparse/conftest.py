"""Modules of products and of multigrid, compiled for the GPU once."""

from collections.abc import Callable

import pytest

from repro.codegen.compile import compile_module
from repro.devices.base import Program
from repro.sparse.dynamic.render import render_module
from repro.sparse.multigrid import render as multigrid
from repro.sparse.spgemm import render as spgemm


@pytest.fixture(scope="session")
def load(gpu, templates, tmp_path_factory) -> Callable[[str], Callable[[str], Program]]:
    """Give what loads the modules of a precision, each compiled at first use."""
    folder, programs = tmp_path_factory.mktemp("sparse"), {}

    def load_one(key: str) -> Program:
        if key not in programs:
            name = key.partition("/")[2]
            render = {
                **dict.fromkeys(multigrid.MODULES, multigrid.render_multigrid),
                **dict.fromkeys(spgemm.MODULES, spgemm.render_spgemm),
            }.get(name, render_module)
            manifest = folder / f"{key}.json"
            module = compile_module(render(templates, key, gpu.target, "tests"), gpu.target, manifest)
            assert module.binary, module.message
            programs[key] = gpu.load(manifest.parent / module.binary)
        return programs[key]

    return lambda precision: lambda module: load_one(f"{precision}/{module}")
