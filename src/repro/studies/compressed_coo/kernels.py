"""Rendering the products with matrices in balanced coordinates, plain and compressed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from repro.codegen.targets import DTYPES, SCALARS, Target
from repro.codegen.templates import LOAD_BYTES, render_template
from repro.entries import get_entry
from repro.errors import ReproError
from repro.sparse.pairs import NO_PAIR, SLICE, shared_entries
from repro.sparse.solvers.kernels import SOLVER_GROUP, render_solver_key, solver_key
from repro.studies.compressed_coo import STUDY_NAME, coordinate_format, sliced_format
from repro.studies.compressed_coo.ids import HEIGHTS, PAIRS, SPLITS, Blocking, blockings, check_layout
from repro.words import SPACES, find_space

CLEAR_BLOCK_SIZE = {"cuda": 256, "opencl": 64}
#: Resident threads per multiprocessor for which kernels of pairs are compiled, in eighths of the maximum, by slots per
#: thread: with more threads, registers would not suffice.
THREADS_EIGHTHS = {1: 8, 2: 8, 4: 5}


def render_key(templates: Path, key: str, target: Target) -> str:
    """Return the source of the module with the given key: every blocking of a layout, or a solver.

    Raises `ReproError`: the key is invalid, or a template is missing or wrong.
    """
    group, _, name = key.rpartition("/")
    if group == SOLVER_GROUP:
        return render_solver_key(templates, key, target)
    first, _, precision = group.partition("/")
    space = find_space(first)
    if space is None or precision not in DTYPES:
        raise ReproError(
            "unknown module",
            where=f"study {STUDY_NAME}",
            expected=f"SPACE/PRECISION/LAYOUT with a space of {', '.join(SPACES)} and a precision of "
            f"{', '.join(DTYPES)}, or {solver_key('bicgstab', 'PRECISION')}, for example paper/double/CCOO",
            actual=key,
        )
    layout = check_layout(name)
    return render_coo(templates, precision, layout, blockings(target, layout, space), target)


def render_coo(templates: Path, precision: str, layout: str, blockings: Sequence[Blocking], target: Target) -> str:
    """Return the source of the module with the kernels of a layout, for the given blockings.

    Raises `ReproError`: a template is missing or wrong; template and line are named.
    """
    unique = {blocking.kernel: blocking for blocking in blockings}
    if layout in PAIRS:
        return _render_pairs(templates, precision, layout, unique, target)
    common = {
        **_context(precision, layout, target),
        "distances": [1 << i for i in range(target.warp.bit_length() - 1)],
        "blockings": [
            {**_launch(name, blocking), "blocks_per_sm": _blocks_per_sm(target, layout, blocking)}
            for name, blocking in unique.items()
        ],
    }
    if layout in HEIGHTS:
        return render_template(
            templates,
            "compressed_coo/sliced.j2",
            **common,
            height=HEIGHTS[layout],
            shapes=sorted({(blocking.entries, blocking.load) for blocking in blockings}),
            code_bits=sliced_format.CODE_BITS,
            codes_of_word=sliced_format.CODES_OF_WORD,
            flags={"tabled": sliced_format.TABLED, "moved": sliced_format.MOVED, "whole": sliced_format.WHOLE},
            flag_bits=sliced_format.FLAG_BITS,
            nowhere=sliced_format.NOWHERE,
            window=sliced_format.WINDOW,
            add_block_size=CLEAR_BLOCK_SIZE[target.dialect],
        )
    return render_template(
        templates,
        "compressed_coo/module.j2",
        **common,
        split=SPLITS[layout],
        clear_block_size=CLEAR_BLOCK_SIZE[target.dialect],
        row_bytes=coordinate_format.ROW_BYTES,
        column_bytes=coordinate_format.COLUMN_BYTES,
        rows_mask=coordinate_format.ROWS_MASK,
        columns_shift=coordinate_format.COLUMNS_SHIFT,
        columns_mask=coordinate_format.COLUMNS_MASK,
        values_shift=coordinate_format.VALUES_SHIFT,
    )


def _launch(kernel: str, blocking: Blocking) -> dict[str, Any]:
    return {"kernel": kernel, "block_size": blocking.threads, "in_flight": blocking.entries, "load": blocking.load}


def _blocks_per_sm(target: Target, layout: str, blocking: Blocking) -> int:
    """Return the resident blocks per multiprocessor to compile for: half of its threads, 5/8 with few registers."""
    share = 5 / 8 if layout in HEIGHTS and blocking.entries <= 4 else 1 / 2
    return max(1, int(target.threads_per_sm * share) // blocking.threads)


def _render_pairs(templates: Path, precision: str, layout: str, unique: Mapping[str, Blocking], target: Target) -> str:
    """Return the source of a module of pairs, one kernel per blocking; block size is the number of rows per tile."""
    context = _context(precision, layout, target)
    return render_template(
        templates,
        "compressed_coo/pairs.j2",
        **context,
        entry=get_entry("real"),
        clustered=SPLITS[layout] == "clustered",
        slice_rows=SLICE,
        no_pair=NO_PAIR,
        halves=False,
        halo_in_flight=0,  # loads in flight need registers: four slots in flight leave none free
        blockings=[
            {
                **_launch(name, blocking),
                "blocks_per_sm": min(
                    target.blocks_per_sm,
                    target.threads_per_sm * THREADS_EIGHTHS[blocking.entries] // 8 // blocking.threads,
                ),
                "shared_entries": shared_entries(blocking.threads, context["scalar_bytes"]),
            }
            for name, blocking in unique.items()
        ],
    )


def _context(precision: str, layout: str, target: Target) -> dict[str, Any]:
    """Return the variables that all templates read."""
    scalar, scalar_bytes = SCALARS[precision]
    return {
        "dialect": target.dialect,
        "title": f"compressed_coo: {precision} precision, {layout}",
        "scalar": scalar,
        "scalar_bytes": scalar_bytes,
        "load_bytes": LOAD_BYTES,
        "unit": coordinate_format.UNIT.itemsize,
    }
