"""Rendering the products with matrices in balanced coordinates, plain and compressed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from repro.codegen.precisions import DTYPES, SCALARS
from repro.codegen.targets import Target
from repro.codegen.templates import LOAD_BYTES, render_template
from repro.errors import ReproError
from repro.sparse.solvers.render import SOLVERS, render_solver
from repro.studies.compressed_coo.blocking import SPACES, SPLITS, Blocking, blockings
from repro.studies.compressed_coo.compressed import (
    COLUMN_BYTES,
    COLUMNS_MASK,
    COLUMNS_SHIFT,
    ROW_BYTES,
    ROWS_MASK,
    UNIT,
    VALUES_SHIFT,
)
from repro.studies.compressed_coo.paper import STUDY
from repro.studies.compressed_coo.variant_id import check_layout

#: The group of the solvers' modules.
SOLVED = "solvers"
CLEAR_N_T = {"cuda": 256, "opencl": 64}


def render_key(templates: Path, key: str, target: Target) -> str:
    """Return the source of the module of a key: every blocking of a layout, or a solver.

    Raises
    ------
    ReproError
        The key is none, or a template is missing or wrong.
    """
    group, _, name = key.rpartition("/")
    if group == SOLVED:
        solver, _, precision = name.rpartition("-")
        return render_solver(templates, solver, precision, target)
    space, _, precision = group.partition("/")
    if space not in SPACES or precision not in DTYPES:
        raise ReproError(
            "unknown module",
            where=f"study {STUDY}",
            expected=f"SPACE/PRECISION/LAYOUT with a space of {', '.join(SPACES)} and a precision of "
            f"{', '.join(DTYPES)}, or {SOLVED}/{SOLVERS[0]}-PRECISION, for example paper/double/CCOO",
            actual=key,
        )
    layout = check_layout(name)
    return render_coo(templates, precision, layout, blockings(target, layout), target)


def render_coo(templates: Path, precision: str, layout: str, tried: Sequence[Blocking], target: Target) -> str:
    """Return the source of the module with the kernels of a layout for some blockings.

    Raises
    ------
    ReproError
        A template is missing or wrong; template and line are named.
    """
    scalar, scalar_bytes = SCALARS[precision]
    unique = {blocking.kernel: blocking for blocking in tried}
    return render_template(
        templates,
        "compressed_coo/module.j2",
        dialect=target.dialect,
        title=f"compressed_coo: {precision} precision, {layout}",
        scalar=scalar,
        scalar_bytes=scalar_bytes,
        split=SPLITS[layout],
        warp=target.warp,
        distances=[1 << i for i in range(target.warp.bit_length() - 1)],
        clear_n_t=CLEAR_N_T[target.dialect],
        load_bytes=LOAD_BYTES,
        unit=UNIT.itemsize,
        row_bytes=ROW_BYTES,
        column_bytes=COLUMN_BYTES,
        rows_mask=ROWS_MASK,
        columns_shift=COLUMNS_SHIFT,
        columns_mask=COLUMNS_MASK,
        values_shift=VALUES_SHIFT,
        blockings=[
            {"kernel": name, "resident": max(1, target.threads_per_sm // 2 // blocking.threads), **asdict(blocking)}
            for name, blocking in unique.items()
        ],
    )
