"""Rendering templates to the source of a module."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError

from repro.codegen.schedules import Schedule
from repro.codegen.targets import Target
from repro.entries import get_entry
from repro.errors import ReproError
from repro.formats.layout import Layout
from repro.formats.outer import Outer, get_outer
from repro.formats.pack import padded_size
from repro.formats.tiles import TILE, chunks

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
    name = f"spmv_{schedule.kind}_{schedule.n_t}"
    if target.dialect == "cuda":
        name += f"_{schedule.n_b}"
    return f"{name}_{schedule.shape}" if schedule.shape else name


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
    what, outer = get_entry(entry), get_outer(layout.outer)
    scalar, scalar_bytes = SCALARS[precision]
    unique = {kernel_name(s, target): s for s in schedules}
    size = padded_size(what.size) if layout.vector == "Padded" else what.size
    loads = chunks(len(what.members), scalar_bytes)
    return render_template(
        templates,
        f"{study}/module.j2",
        dialect=target.dialect,
        title=f"{study}: {entry}, {precision} precision, {layout.stored}",
        entry=what,
        scalar=scalar,
        scalar_bytes=scalar_bytes,
        matrix_alignment=alignment(len(what.members), scalar_bytes),
        vector_alignment=alignment(size, scalar_bytes),
        vector_members=[*what.vector_members, *(f"padding{i}" for i in range(size - what.size))],
        outer=outer.template,
        rows_adjacent=outer.rows_adjacent,
        **outer.constants,
        inner=layout.inner,
        # an entry without members has no zero to stand where there is none
        absent_entries=outer.padded and not what.members,
        vector=layout.vector,
        clustered=layout.ordering == "clustered",
        matrix_type="matrix_entry" if layout.inner == "AoS" and what.members else "scalar",
        vector_type="scalar" if layout.vector == "SoA" else "vector_entry",
        tile=TILE,
        chunks=loads,
        chunk_widths=sorted({width for _, width in loads}),
        chunk_members=("a", "b", "c", "d"),
        warp=target.warp,
        warp_distances=_distances(target.warp, 1),
        loads=_loads(layout, unique.values()),
        sizes_of_blocks=sorted({s.n_t for s in unique.values()}),
        papers_schedules=any(not s.shape for s in unique.values()),
        shapes=[_shape(s, outer, target.warp) for s in {s.shape: s for s in unique.values() if s.shape}.values()],
        schedules=[{"kernel": name, "shape": s.shape, **asdict(s)} for name, s in unique.items()],
    )


def _loads(layout: Layout, schedules: Iterable[Schedule]) -> list[str]:
    """Return the ways to load matrix entries that our schedules need; a clustered layout's long rows need `ca`."""
    ours = {s.load for s in schedules if s.shape} | ({"ca"} if layout.ordering == "clustered" else set())
    return sorted(ours)


def _shape(schedule: Schedule, outer: Outer, warp: int) -> dict[str, Any]:
    """Return how the threads of a warp share its rows, and over which distances their sums meet."""
    return {
        "name": schedule.shape,
        "width": schedule.width,
        "unroll": schedule.unroll,
        "load": schedule.load,
        "distances": _distances(schedule.width, warp // schedule.width if outer.rows_adjacent else 1),
    }


def _distances(width: int, nearest: int) -> list[int]:
    """Return the distances of the shuffles in which the sums of so many threads meet, the farthest first."""
    return [nearest << i for i in reversed(range(width.bit_length() - 1))]


def render_common(templates: Path, target: Target) -> str:
    """Return the source of the module that every campaign needs: empty kernel, verification, floor, copy."""
    return render_template(
        templates,
        f"{COMMON}/module.j2",
        dialect=target.dialect,
        title="empty kernel, verification, streaming floor, copy",
        verify_n_t=VERIFY_N_T[target.dialect],
        streams=streams(target),
    )


def render_template(templates: Path, name: str, **context: Any) -> str:
    """Return a template of that folder with its names filled in.

    Raises
    ------
    ReproError
        The template is missing or wrong; template and line are named.
    """
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
