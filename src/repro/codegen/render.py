"""Rendering templates to the source of a module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError

from repro.codegen.schedules import Schedule
from repro.codegen.targets import Target
from repro.entries import get_entry
from repro.errors import ReproError
from repro.formats.layout import Layout
from repro.formats.outer import get_outer

SCALARS = {"single": ("float", 4), "double": ("double", 8)}
VERIFY_N_T = {"cuda": 256, "opencl": 64}
COMMON = "common"


@dataclass(frozen=True)
class Stream:
    """One configuration of the streaming kernel that measures the floor."""

    n_t: int
    unroll: int

    @property
    def kernel(self) -> str:
        """Its name in the common module; the copy of the same shape has `copy` for `stream`."""
        return f"stream_{self.n_t}_{self.unroll}"


def streams(target: Target) -> list[Stream]:
    """Return the 16 configurations that the floor is the best of.

    On the CPU a work-group is a loop, and pays for being longer than the kernels' own.
    """
    first = 128 if target.dialect == "cuda" else 64
    growth = 2 if target.dialect == "cuda" else 4
    return [Stream(first * growth**i, unroll) for i in range(4) for unroll in (1, 2, 4, 8)]


def kernel_name(schedule: Schedule, target: Target) -> str:
    """Return the name of the kernel that runs a schedule.

    In CUDA every schedule has its own, since n_b is a launch bound; in OpenCL n_b changes the grid alone.
    """
    if target.dialect == "cuda":
        return f"spmv_{schedule.kind}_{schedule.n_t}_{schedule.n_b}"
    return f"spmv_{schedule.kind}_{schedule.n_t}"


def alignment(members: int, scalar_bytes: int) -> int:
    """Return the largest power of two from 1 to 16 that divides the size of an AoS type (in bytes)."""
    return max(a for a in (1, 2, 4, 8, 16) if members * scalar_bytes % a == 0)


def render_module(
    templates: Path,
    study: str,
    entry: str,
    precision: str,
    layout: Layout,
    schedules: Sequence[Schedule],
    target: Target,
) -> str:
    """Return the source of the module that holds all schedules of one (entry, precision, layout).

    Raises
    ------
    ReproError
        A template is missing or wrong; template and line are named.
    """
    members, outer = get_entry(entry), get_outer(layout.outer)
    scalar, scalar_bytes = SCALARS[precision]
    unique = {kernel_name(s, target): s for s in schedules}
    return _render(
        templates,
        f"{study}/module.j2",
        dialect=target.dialect,
        title=f"{study}: {entry}, {precision} precision, {layout}",
        entry=members,
        scalar=scalar,
        matrix_alignment=alignment(len(members.members), scalar_bytes),
        vector_alignment=alignment(members.size, scalar_bytes),
        outer=outer.template,
        **outer.constants,
        inner=layout.inner,
        vector=layout.vector,
        schedules=[{"kernel": name, "kind": s.kind, "n_t": s.n_t, "n_b": s.n_b} for name, s in unique.items()],
    )


def render_common(templates: Path, target: Target) -> str:
    """Return the source of the module that every campaign needs: empty kernel, verification, floor, copy."""
    return _render(
        templates,
        f"{COMMON}/module.j2",
        dialect=target.dialect,
        title="empty kernel, verification, streaming floor, copy",
        verify_n_t=VERIFY_N_T[target.dialect],
        streams=streams(target),
    )


def _render(templates: Path, name: str, **context: Any) -> str:
    environment = Environment(
        loader=FileSystemLoader(templates),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    try:
        return environment.get_template(name).render(**context)
    except TemplateError as error:
        where = f"{getattr(error, 'filename', None) or templates / name}:{getattr(error, 'lineno', '?')}"
        detail = f"{type(error).__name__}: {error.message}"
        raise ReproError("a template cannot be rendered", where=where, actual=detail, todo="correct it") from error
