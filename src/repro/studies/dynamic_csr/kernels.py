"""The source of this study's modules: the dynamic matrix, and the formats with which it is compared."""

from __future__ import annotations

from pathlib import Path

from repro.codegen.targets import Target
from repro.sparse.dynamic.kernels import render_module
from repro.studies.dynamic_csr import STUDY_NAME

#: Modules that only this study has; each has a template of its name.
OWN = ("hybrid", "rebuild", "exchange", "published")
#: Modules that a campaign compiles.
MODULES = ("matrix", "sort", "product", *OWN)


def render_key(templates: Path, key: str, target: Target) -> str:
    """Return the source of the module with the given key, PRECISION/MODULE."""
    return render_module(templates, key, target, STUDY_NAME, {module: f"{STUDY_NAME}/{module}.j2" for module in OWN})
