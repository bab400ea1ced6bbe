"""Rendering the modules of products of sparse matrices, in a precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from repro.codegen.precisions import SCALARS
from repro.codegen.targets import Target
from repro.codegen.templates import render_template
from repro.sparse.dynamic import state
from repro.sparse.kernels import N_T
from repro.sparse.keys import split_key
from repro.sparse.spgemm.shapes import BINS, LIMITS, hash_shapes, sort_shapes

#: How rows of the operands lie. `exact`: in one segment each, without room, no column twice. `chain`: anyhow.
Format = Literal["exact", "chain"]
FORMATS: tuple[Format, ...] = ("exact", "chain")
#: What a kernel of a bin leaves: rows in segments that it cuts off, their sizes, rows where there are segments.
Mode = Literal["one", "symbolic", "numeric"]
MODES: tuple[Mode, ...] = ("one", "symbolic", "numeric")
#: Lanes that count the products of a row.
COUNT_WIDTH = {"cuda": 4, "opencl": 1}
#: The modules: counting and listing rows, a mode each, the paper's way, and that through coordinates; in both formats.
KERNELS = ("count", *MODES, "esc", "expand")
MODULES = tuple(f"{kernels}-{format}" for kernels in KERNELS for format in FORMATS)


def render_spgemm(templates: Path, key: str, target: Target, owner: str) -> str:
    """Return the source of the module of a key, PRECISION/MODULE.

    Parameters
    ----------
    owner
        Whose module it is, for its title and for messages.

    Raises
    ------
    ReproError
        The key is none, or a template is missing or wrong.
    """
    precision, module = split_key(key, MODULES, owner)
    kernels, format = module.split("-")
    scalar, scalar_bytes = SCALARS[precision]
    count_width = COUNT_WIDTH[target.dialect]
    words: dict[str, Any] = {
        "dialect": target.dialect,
        "scalar": scalar,
        "format": format,
        "n_t": N_T[target.dialect],
        "state": state.NAMES,
    }
    if kernels == "count":
        own = {
            "limits": LIMITS,
            "n_bins": BINS,
            "count_width": count_width,
            "distances": [1 << bit for bit in range(count_width.bit_length() - 1)],
        }
    elif kernels == "expand":
        own = {"width": target.warp if target.dialect == "cuda" else 1}
    elif kernels == "esc":
        own = {"shapes": sort_shapes(target, scalar_bytes)}
    else:
        own = {"mode": kernels, "shapes": hash_shapes(target, scalar_bytes)}
    template = f"sparse/spgemm/{'hash' if kernels in MODES else kernels}.j2"
    return render_template(templates, template, title=f"{owner}: {module}, {precision} precision", **words, **own)
