"""The source of the study's modules: those of a dynamic matrix, and those of the formats it is compared with."""

from __future__ import annotations

from pathlib import Path

from repro.codegen.targets import Target
from repro.sparse.dynamic.kernels import render_module
from repro.studies.dynamic_csr import STUDY

#: Modules of the study's own, a template of that name each.
OWN = ("hybrid", "rebuild", "exchange")
#: What a campaign compiles.
MODULES = ("matrix", "sort", "product", *OWN)


def render_key(templates: Path, key: str, target: Target) -> str:
    """Return the source of the module of a key, PRECISION/MODULE.

    Raises
    ------
    ReproError
        The key is none, or a template is missing or wrong.
    """
    return render_module(templates, key, target, STUDY, {module: f"{STUDY}/{module}.j2" for module in OWN})
