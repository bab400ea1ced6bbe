"""Rendering the modules of this study."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from repro.codegen.targets import Target
from repro.filtering.render import DEGREES, KERNELS, render_siac
from repro.sparse.dynamic.render import render_module
from repro.studies.dg_postprocessing.paper import CLIP, STUDY
from repro.studies.dg_postprocessing.region_render import render_regions
from repro.studies.dg_postprocessing.region_space import module_keys

#: What the keys of modules in the plane begin with; those in space begin with their degree, `p1/` or `p2/`.
PLANE = "plane"
#: The module that adds up what clipping counts.
SORT = "double/sort"


def modules_of(degree: int) -> tuple[str, ...]:
    """Return the modules that filtering fields of a degree takes."""
    return tuple(f"{kernels}-p{degree}" for kernels in KERNELS)


def keys_of(degree: int | None) -> list[str]:
    """Return the keys of the modules of a degree, `plane/MODULE`; of all degrees where it is not known yet."""
    degrees = DEGREES if degree is None else (degree,)
    return [f"{PLANE}/{module}" for degree in degrees for module in modules_of(degree)]


def region_keys(degree: int, target: Target, parts: Sequence[str]) -> list[str]:
    """Return the keys of the modules that a list of regions takes: of all widths that fit, ours, and of clipping."""
    return [*module_keys(degree, target), *([f"p{degree}/clip", SORT] if CLIP in parts else [])]


def render_key(templates: Path, key: str, target: Target) -> str:
    """Return the source of the module of a key.

    Raises
    ------
    ReproError
        The key is none, or a template is missing or wrong.
    """
    group, _, module = key.partition("/")
    if group == PLANE:
        return render_siac(templates, module, target, STUDY)
    return render_module(templates, key, target, STUDY) if key == SORT else render_regions(templates, key, target)
