"""Rendering a layout and its schedules to the source of a module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from repro.codegen.targets import SCALARS, Target
from repro.codegen.templates import LOAD_BYTES, alignment, render_template
from repro.entries import Entry, get_entry
from repro.errors import ReproError
from repro.sparse.compound.layouts import TILE, TILE_ROWS, Layout, chunks
from repro.sparse.compound.outer import Outer, get_outer
from repro.sparse.compound.schedules import CHUNK, DIRECT, Schedule
from repro.sparse.elementwise import padded_size
from repro.sparse.pairs import NO_PAIR, SIGNS, SLICE, shared_entries
from repro.sparse.symmetry import KINDS, SYMMETRIC, adjoint_members, diagonal_members, kept_on_diagonal

#: The folder of the templates.
TEMPLATES = "compound_spmv"
#: Columns of other tiles that a thread of pairs asks for at once: on meshes a tile has fewer than two for each.
COLUMNS_AT_ONCE = 2


def kernel_name(schedule: Schedule, target: Target) -> str:
    """Return the name of the kernel that runs a schedule.

    In CUDA every schedule has its own, since n_b is a launch bound; in OpenCL n_b changes the grid alone.
    """
    name = f"spmv_{schedule.kind}_{schedule.n_t}"
    if target.dialect == "cuda":
        name += f"_{schedule.n_b}"
    return f"{name}_{schedule.shape}" if schedule.shape else name


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
    if layout.of_pairs:
        return _render_pairs(templates, entry, precision, layout, schedules, target)
    what, outer = get_entry(entry), get_outer(layout.outer)
    unique = {kernel_name(s, target): s for s in schedules}
    with_long_rows = {name for name, s in unique.items() if _takes_long_rows(s, layout)}
    return render_template(
        templates,
        f"{TEMPLATES}/module.j2",
        **_context(entry, precision, layout, target),
        outer=outer.template,
        rows_adjacent=outer.rows_adjacent,
        **outer.constants,
        # an entry without members has no zero to stand where there is none
        absent_entries=outer.padded and not what.members,
        warp=target.warp,
        warp_distances=_distances(target.warp, 1),
        # of long rows the caches keep everything
        loads=sorted(
            {s.load for s in unique.values() if s.shape and not _copies(s, what)}
            | ({"ca"} if with_long_rows else set())
        ),
        copies=any(_copies(s, what) for s in unique.values()),
        blocks_of_long_rows=sorted({unique[name].n_t for name in with_long_rows}),
        papers_schedules=any(not s.shape for s in unique.values()),
        loads_vectors=True,
        stores_vectors=True,
        shapes=[_shape(s, outer, what, target.warp) for s in {s.shape: s for s in unique.values() if s.shape}.values()],
        schedules=[
            {
                "kernel": name,
                "shape": s.shape,
                "long_rows": name in with_long_rows,
                "staged": _staged(s, what, target.warp),
                **asdict(s),
            }
            for name, s in unique.items()
        ],
    )


def _render_pairs(
    templates: Path, entry: str, precision: str, layout: Layout, schedules: Sequence[Schedule], target: Target
) -> str:
    """Return the source of a module of pairs."""
    what = get_entry(entry)
    if not what.members:
        raise ReproError(
            "a matrix without values has no pairs to store once",
            where=f"{layout} of the entry {entry}",
            todo="choose another layout; `repro list layouts` prints all",
        )
    unique = {kernel_name(s, target): s for s in schedules}
    # halves of a vector's entry of which each takes a load
    halves = layout.vector != "SoA" and _vector_numbers(entry, layout) * SCALARS[precision][1] == 2 * LOAD_BYTES
    return render_template(
        templates,
        f"{TEMPLATES}/pairs.j2",
        **_context(entry, precision, layout, target),
        **pairs_constants(entry, layout),
        absent_entries=False,
        papers_schedules=False,
        loads=sorted({s.load for s in unique.values()}),
        copies=any(s.ahead == "a" for s in unique.values()),
        halves=halves,
        at_once=COLUMNS_AT_ONCE,
        loads_vectors=not halves,
        stores_vectors=not halves or target.dialect != "cuda",
        room=shared_entries(TILE_ROWS[layout.outer], _vector_numbers(entry, layout) * SCALARS[precision][1]),
        schedules=[{"kernel": name, **asdict(s)} for name, s in unique.items()],
    )


def pairs_constants(entry: str, layout: Layout) -> dict[str, Any]:
    """Return what the templates of pairs read: the sizes, and what an entry is across from another."""
    members = get_entry(entry).members
    kinds = KINDS.get(entry, (SYMMETRIC,))
    sign_given = len(kinds) > 1
    factors = {1: "", -1: "sign * " if sign_given else "-"}
    return {
        "tile_rows": TILE_ROWS[layout.outer],
        "slice_rows": SLICE,
        "no_pair": NO_PAIR,
        "sign_given": sign_given,
        "first_sign": SIGNS[kinds[0]],
        "across": [
            (member, members[source], factors[sign])
            for member, (source, sign) in zip(members, adjoint_members(entry), strict=True)
        ],
        "on_diagonal": [members[number] for number in kept_on_diagonal(entry)],
        "diagonal_members": [
            (member, "" if same is None else members[same])
            for member, same in zip(members, diagonal_members(entry), strict=True)
        ],
    }


def _context(entry: str, precision: str, layout: Layout, target: Target) -> dict[str, Any]:
    """Return what the templates of all formats read."""
    what, size = get_entry(entry), _vector_numbers(entry, layout)
    scalar, scalar_bytes = SCALARS[precision]
    loads = chunks(len(what.members), scalar_bytes)
    return {
        "dialect": target.dialect,
        "title": f"{TEMPLATES}: {entry}, {precision} precision, {layout.stored}",
        "entry": what,
        "scalar": scalar,
        "scalar_bytes": scalar_bytes,
        "matrix_alignment": alignment(len(what.members), scalar_bytes),
        "vector_alignment": alignment(size, scalar_bytes),
        "vector_members": [*what.vector_members, *(f"padding{i}" for i in range(size - what.size))],
        "inner": layout.inner,
        "vector": layout.vector,
        "clustered": layout.ordering == "clustered",
        "matrix_type": "matrix_entry" if layout.inner == "AoS" and what.members else "scalar",
        "vector_type": "scalar" if layout.vector == "SoA" else "vector_entry",
        "tile": TILE,
        "chunks": loads,
        "chunk_widths": sorted({width for _, width in loads}),
        "chunk_members": ("a", "b", "c", "d"),
    }


def _vector_numbers(entry: str, layout: Layout) -> int:
    """Return how many numbers an entry of a vector has, with those that pad it."""
    size = get_entry(entry).size
    return padded_size(size) if layout.vector == "Padded" else size


def _takes_long_rows(schedule: Schedule, layout: Layout) -> bool:
    """Say whether each of the first blocks takes one of the long rows, which a clustered layout stores last."""
    return layout.ordering == "clustered" and schedule.kind in (DIRECT, CHUNK)


def _copies(schedule: Schedule, entry: Entry) -> bool:
    """Say whether entries are copied to shared memory before their turn."""
    return schedule.ahead == "a" and bool(entry.members)


def _staged(schedule: Schedule, entry: Entry, warp: int) -> dict[str, int] | None:
    """Return where a warp's copied entries lie, in scalars; None where none are copied.

    `this` and `other`: where the two batches begin that take turns; `entry`: from each of a batch to the next; `warp`:
    from a warp's to the next one's.
    """
    if not _copies(schedule, entry):
        return None
    one = warp * len(entry.members)
    batch = schedule.unroll * one
    return {"this": 0, "other": batch, "entry": one, "warp": 2 * batch}


def _shape(schedule: Schedule, outer: Outer, entry: Entry, warp: int) -> dict[str, Any]:
    """Return how the threads of a warp share its rows, and over which distances their sums meet."""
    return {
        "name": schedule.shape,
        "width": schedule.width,
        "unroll": schedule.unroll,
        "load": schedule.load,
        "ahead": schedule.ahead,
        "staged": _staged(schedule, entry, warp),
        "distances": _distances(schedule.width, warp // schedule.width if outer.rows_adjacent else 1),
    }


def _distances(width: int, nearest: int) -> list[int]:
    """Return the distances of the shuffles in which the sums of so many threads meet, the farthest first."""
    return [nearest << i for i in reversed(range(width.bit_length() - 1))]
