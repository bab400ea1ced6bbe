"""Rendering the modules of this study: those of products, of multigrid, and of the dynamic matrix below them."""

from __future__ import annotations

from pathlib import Path

from repro.codegen.targets import Target
from repro.sparse.dynamic.kernels import TEMPLATES, render_module
from repro.sparse.multigrid.kernels import MODULES as MULTIGRID
from repro.sparse.multigrid.kernels import render_multigrid
from repro.sparse.spgemm.kernels import KERNELS, render_spgemm
from repro.studies.spgemm_amg import STUDY_NAME

#: Products of matrices each row of which lies in one segment without room.
PRODUCTS = tuple(f"{kernels}-exact" for kernels in KERNELS)
#: What a campaign compiles.
MODULES = ("matrix", "sort", *PRODUCTS, *MULTIGRID)


def render_key(templates: Path, key: str, target: Target) -> str:
    """Return the source of the module of a key, PRECISION/MODULE.

    Raises
    ------
    ReproError
        The key is none, or a template is missing or wrong.
    """
    module = key.partition("/")[2]
    if module in TEMPLATES:
        return render_module(templates, key, target, STUDY_NAME)
    render = render_multigrid if module in MULTIGRID else render_spgemm
    return render(templates, key, target, STUDY_NAME)
