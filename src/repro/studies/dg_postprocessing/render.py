"""Rendering the modules of this study."""

from __future__ import annotations

from pathlib import Path

from repro.codegen.targets import Target
from repro.siac.render import DEGREES, KERNELS, render_siac
from repro.studies.dg_postprocessing.paper import STUDY


def modules_of(degree: int) -> tuple[str, ...]:
    """Return the modules that filtering fields of a degree takes."""
    return tuple(f"{kernels}-p{degree}" for kernels in KERNELS)


def keys_of(degree: int | None) -> list[str]:
    """Return the keys of the modules of a degree, `plane/MODULE`; of all degrees where it is not known yet."""
    degrees = DEGREES if degree is None else (degree,)
    return [f"plane/{module}" for degree in degrees for module in modules_of(degree)]


def render_key(templates: Path, key: str, target: Target) -> str:
    """Return the source of the module of a key.

    Raises
    ------
    ReproError
        The key is none, or a template is missing or wrong.
    """
    return render_siac(templates, key.partition("/")[2], target, STUDY)
