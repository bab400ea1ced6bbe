"""Rendering this study's modules: products, multigrid, and the dynamic matrix that both use."""

from __future__ import annotations

from pathlib import Path

from repro.codegen.targets import Target
from repro.sparse.dynamic.kernels import TEMPLATES, render_module
from repro.sparse.multigrid.kernels import MODULES as MULTIGRID
from repro.sparse.multigrid.kernels import render_multigrid
from repro.sparse.spgemm.kernels import exact_modules, render_spgemm
from repro.studies.spgemm_amg import STUDY_NAME


def modules_for(target: Target) -> tuple[str, ...]:
    """Return the names of the modules that a campaign compiles for a target."""
    return ("matrix", "sort", *exact_modules(target), *MULTIGRID)


def render_key(templates: Path, key: str, target: Target) -> str:
    """Return the source of the module with the given key, PRECISION/MODULE."""
    module = key.partition("/")[2]
    if module in TEMPLATES:
        return render_module(templates, key, target, STUDY_NAME)
    render = render_multigrid if module in MULTIGRID else render_spgemm
    return render(templates, key, target, STUDY_NAME)
