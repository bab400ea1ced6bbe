"""Rendering a layout and its schedules to the source of a module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from repro.codegen.precisions import DTYPES, SCALARS
from repro.codegen.targets import Target
from repro.codegen.templates import alignment, render_template
from repro.entries import get_entry
from repro.errors import ReproError
from repro.sparse.vectors import padded_size
from repro.studies.compound_spmv.layout import Layout
from repro.studies.compound_spmv.outer import Outer, get_outer
from repro.studies.compound_spmv.paper import STUDY
from repro.studies.compound_spmv.schedules import CHUNK, DIRECT, SPACES, Schedule, schedules
from repro.studies.compound_spmv.tiles import TILE, chunks


def kernel_name(schedule: Schedule, target: Target) -> str:
    """Return the name of the kernel that runs a schedule.

    In CUDA every schedule has its own, since n_b is a launch bound; in OpenCL n_b changes the grid alone.
    """
    name = f"spmv_{schedule.kind}_{schedule.n_t}"
    if target.dialect == "cuda":
        name += f"_{schedule.n_b}"
    return f"{name}_{schedule.shape}" if schedule.shape else name


def render_key(templates: Path, key: str, target: Target) -> str:
    """Return the source of the module of a key, `space/entry-precision/layout`: every schedule of the space.

    Raises
    ------
    ReproError
        The key is none, or a template is missing or wrong.
    """
    space, entry, precision, layout = _split(key)
    return render_module(templates, entry, precision, layout, schedules(target, space, layout), target)


def _split(key: str) -> tuple[str, str, str, Layout]:
    """Return space, entry, precision and layout of a module's key.

    Raises
    ------
    ReproError
        It is none.
    """
    space, _, rest = key.partition("/")
    kind, _, text = rest.partition("/")
    entry, _, precision = kind.rpartition("-")
    if space not in SPACES or precision not in DTYPES:
        raise ReproError(
            "unknown module",
            where=f"study {STUDY}",
            expected=f"SPACE/ENTRY-PRECISION/LAYOUT with a space of {', '.join(SPACES)} and a precision of "
            f"{', '.join(DTYPES)}, for example paper/block3-double/ELL-SoA-AoS",
            actual=key,
        )
    get_entry(entry)
    return space, entry, precision, Layout.parse(text)


def render_module(
    templates: Path,
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
    with_long_rows = {name for name, s in unique.items() if _takes_long_rows(s, layout)}
    size = padded_size(what.size) if layout.vector == "Padded" else what.size
    loads = chunks(len(what.members), scalar_bytes)
    return render_template(
        templates,
        f"{STUDY}/module.j2",
        dialect=target.dialect,
        title=f"{STUDY}: {entry}, {precision} precision, {layout.stored}",
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
        # of long rows the caches keep everything
        loads=sorted({s.load for s in unique.values() if s.shape} | ({"ca"} if with_long_rows else set())),
        blocks_of_long_rows=sorted({unique[name].n_t for name in with_long_rows}),
        papers_schedules=any(not s.shape for s in unique.values()),
        shapes=[_shape(s, outer, target.warp) for s in {s.shape: s for s in unique.values() if s.shape}.values()],
        schedules=[
            {"kernel": name, "shape": s.shape, "long_rows": name in with_long_rows, **asdict(s)}
            for name, s in unique.items()
        ],
    )


def _takes_long_rows(schedule: Schedule, layout: Layout) -> bool:
    """Say whether each of the first blocks takes one of the long rows, which a clustered layout stores last."""
    return layout.ordering == "clustered" and schedule.kind in (DIRECT, CHUNK)


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
