"""Rendering of the study's modules by key: `space/entry-precision/layout` for products, packing, and solvers."""

from __future__ import annotations

from pathlib import Path

from repro.codegen.targets import DTYPES, Target
from repro.entries import get_entry
from repro.errors import ReproError
from repro.sparse.compound.device_packing import PACKINGS, render_packing
from repro.sparse.compound.kernels import render_module
from repro.sparse.compound.variants import Layout, schedules
from repro.sparse.solvers.kernels import SOLVER_GROUP, render_solver_key
from repro.studies.compound_spmv import STUDY_NAME
from repro.words import SPACES, Space, find_space

#: Group of the modules that pack matrices.
PACKING = "packing"


def packing_key(entry: str, precision: str, name: str) -> str:
    return f"{PACKING}/{entry}-{precision}/{name}"


def render_key(templates: Path, key: str, target: Target) -> str:
    """Return the source of the module with the given key: every schedule of the key's space, packing, or a solver.

    Raises `ReproError`: the key is invalid, or a template is missing or wrong.
    """
    if key.startswith(f"{SOLVER_GROUP}/"):
        return render_solver_key(templates, key, target)
    space, entry, precision, text = _split(key)
    if space is None:
        return render_packing(templates, entry, precision, text, target, STUDY_NAME)
    layout = Layout.parse(text)
    return render_module(templates, entry, precision, layout, schedules(target, space, layout), target, STUDY_NAME)


def _split(key: str) -> tuple[Space | None, str, str, str]:
    """Return space, entry, precision and layout from a module's key; for packing None and a name at the ends.

    Raises `ReproError`: the text is no such key.
    """
    first, _, rest = key.partition("/")
    space = find_space(first)
    kind, _, text = rest.partition("/")
    entry, _, precision = kind.rpartition("-")
    packs = first == PACKING and text in PACKINGS
    if not (space or packs) or precision not in DTYPES:
        raise ReproError(
            "unknown module",
            where=f"study {STUDY_NAME}",
            expected=f"SPACE/ENTRY-PRECISION/LAYOUT with a space of {', '.join(SPACES)} and a precision of "
            f"{', '.join(DTYPES)}, for example paper/block3-double/ELL-SoA-AoS, or {PACKING}/block3-double/AoS",
            actual=key,
        )
    get_entry(entry)
    return space, entry, precision, text
