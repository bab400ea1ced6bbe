"""Rendering the files of an exported kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro import __version__
from repro.codegen.precisions import SCALARS
from repro.codegen.targets import STATIC_SHARED, Target
from repro.codegen.templates import render_template, without_macros
from repro.entries import get_entry
from repro.errors import ReproError
from repro.export.matrix_file import kind_of_file
from repro.export.names import check_name, check_unused
from repro.shipped import shipped
from repro.sparse import bisection
from repro.sparse.clusters import CLUSTER, LONG_ROW, LONG_ROW_OF_MEAN
from repro.sparse.orientation import ROUNDS
from repro.sparse.pair_tiles import LEADING, MOST_SLOTS, NO_COLUMN, NO_PAIR
from repro.sparse.slots import STEPS, STEPS_OF_BLOCK
from repro.sparse.vectors import padded_size
from repro.studies.compound_spmv.layout import TILE_ROWS, Layout
from repro.studies.compound_spmv.outer import Outer, get_outer
from repro.studies.compound_spmv.render import kernel_name, pairs_constants, render_module
from repro.studies.compound_spmv.schedules import KEPT, Schedule
from repro.studies.compound_spmv.tiles import TILE, chunks


@dataclass(frozen=True)
class Export:
    """What is exported.

    Attributes
    ----------
    name
        Namespace, library and files are named so.
    provenance
        (label, value) pairs: where layout and schedule come from.
    """

    name: str
    entry: str
    precision: str
    layout: Layout
    schedule: Schedule
    target: Target
    provenance: Sequence[tuple[str, str]] = ()


def render_export(templates: Path, export: Export) -> dict[str, str]:
    """Return the files of an exported kernel: name to content.

    The kernel is rendered from the template that is measured, with the one schedule. Only the linkage differs: a kernel
    that has C's name for every program could be linked once.

    Raises
    ------
    ReproError
        The name can be none in C++ or means something else, the entry has no values, the outer format has no
        conversion on the GPU yet, or a template is wrong.
    """
    check_name(export.name)
    if not get_entry(export.entry).members:
        raise ReproError(
            "a matrix without values cannot be exported",
            where=f"the entry {export.entry}",
            todo="export the entry real, and give it ones",
        )
    pairs = export.layout.of_pairs
    outer = None if pairs else get_outer(export.layout.outer)
    if outer is not None and not shipped(templates / "export/outer" / f"{outer.template}.j2").exists():
        raise ReproError(
            "this format has no conversion on the GPU yet",
            where=export.layout.outer,
            todo=f"write {templates}/export/outer/{outer.template}.j2",
        )
    context = _context(export)
    module = render_module(templates, export.entry, export.precision, export.layout, [export.schedule], export.target)
    module = without_macros(templates, export.target.dialect, module)
    includes = [line for line in module.splitlines() if line.startswith("#include")]
    kernel = "\n".join(line for line in module.splitlines() if line not in includes) + "\n"
    files = {
        f"{export.name}.h": "header",
        f"{export.name}.cu": "source",
        "CMakeLists.txt": "cmake",
        "example.cpp": "example",
        "README.md": "readme",
    }
    context |= {"includes": includes, "kernel_source": kernel.replace('extern "C" __global__', "__global__")}
    texts = {file: render_template(templates, f"export/{template}.j2", **context) for file, template in files.items()}
    check_unused(export.name, [text for file, text in texts.items() if Path(file).suffix in (".h", ".cu", ".cpp")])
    return texts


def _context(export: Export) -> dict[str, Any]:
    entry, pairs = get_entry(export.entry), export.layout.of_pairs
    scalar, scalar_bytes = SCALARS[export.precision]
    stride = padded_size(entry.size) if export.layout.vector == "Padded" else entry.size
    return {
        "library": export.name,
        "dialect": export.target.dialect,
        "title": f"y = A x for sparse matrices with {export.entry} entries in {export.precision} precision, layout "
        f"{export.layout}, schedule {export.schedule}",
        "made_by": f"Written by `repro export` of sparse-repro {__version__}",
        "entry": entry,
        "scalar": scalar,
        "members": _members(entry.members, scalar_bytes),
        "layout": export.layout,
        "pairs": pairs,
        "clustered": export.layout.ordering == "clustered",
        "cluster": CLUSTER,
        "bisection": bisection,
        "long_row": LONG_ROW,
        "long_row_of_mean": LONG_ROW_OF_MEAN,
        **(_of_pairs(export) if pairs else _of_outer(get_outer(export.layout.outer))),
        "schedule": export.schedule,
        "share_of_l2": KEPT,
        "kernel": kernel_name(export.schedule, export.target),
        "warp": export.target.warp,
        "tile": TILE,
        "steps": STEPS_OF_BLOCK if export.layout.ordering == "clustered" else STEPS,
        "vector_stride": stride,
        "where_members_lie": _where(export.layout.vector, stride - entry.size),
        "architecture": export.target.name.removeprefix("sm_"),
        "file_kind": kind_of_file(export.entry, export.precision),
        "provenance": export.provenance,
    }


def _of_outer(outer: Outer) -> dict[str, Any]:
    """Return what the conversion to an outer format reads."""
    return {"outer": outer.template, **outer.constants}


def _of_pairs(export: Export) -> dict[str, Any]:
    """Return what the conversion to pairs reads."""
    rows = TILE_ROWS[export.layout.outer]
    return {
        **pairs_constants(export.entry, export.layout),
        "leading_of_mean": LEADING,
        "no_column": NO_COLUMN,
        "most_slots": min(MOST_SLOTS, NO_PAIR // rows),
        "rounds": ROUNDS,
        "shared_bytes": STATIC_SHARED - 2 * rows,
    }


def _where(order: str, spare: int) -> str:
    """Say where the members of a vector's entries lie."""
    if order == "SoA":
        return "member by member"
    after = f", and {spare} unused number{'s' * (spare > 1)} after them" if spare else ""
    return f"the members of an entry side by side{after}"


def _members(names: Sequence[str], scalar_bytes: int) -> list[dict[str, Any]]:
    """Return the members of a matrix entry with their place in it, and the chunk that holds each in a tile."""
    return [
        {"name": names[offset], "offset": offset, "chunk": {"first": first, "size": size}}
        for first, size in chunks(len(names), scalar_bytes)
        for offset in range(first, first + size)
    ]
