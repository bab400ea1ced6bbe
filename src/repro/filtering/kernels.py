"""Rendering of the filter's kernel modules for the plane; each kind of kernel has one module per degree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from repro.codegen.targets import Target
from repro.codegen.templates import render_template
from repro.errors import ReproError
from repro.galerkin import exact_for, exponents, mode_count
from repro.sparse.elementwise import BLOCK_SIZE

#: Kind of kernel: filtering per point with one h per point; rendered from the template `point`.
LOCAL = "local"
#: Kinds of kernels, in this order: filtering per point and per element (King 2017), filtering per point by contours,
#: computing the filter's matrix, products with the matrix, streaming of a stored matrix, and filtering with a local h.
KERNELS = ("point", "element", "edges", "rows", "apply", "stored", LOCAL)
DEGREES = (0, 1, 2, 3)
#: Module names: kind of kernel and degree, such as `edges-p2`.
MODULES = tuple(f"{kernels}-p{degree}" for degree in DEGREES for kernels in KERNELS)
#: Possible numbers of threads per block; contour kernels have fewer, as they need shared memory per thread.
BLOCK_SIZES = {"cuda": (32, 64, 128, 256, 512), "opencl": (16, 64)}
CONTOUR_BLOCK_SIZES = {"cuda": (32, 64, 128), "opencl": (16, 64)}
#: Largest number of points (matrix rows) per tile; the points are neighbours, and matrix rows of a tile share columns.
TILE_ROWS = 16
#: Largest number of points per tile for filtering without a matrix, where each thread has one sum per point.
SUM_ROWS = 8
#: Numbers of fields that one launch of a product can filter.
FIELDS = (1, 2, 4, 8, 16)
#: Arrays that a product reads; the streaming kernels read the same arrays.
STREAMS = ("values", "columns", "masks", "row_starts", "column_starts", "entry_starts", "modes")
#: Possible numbers of words that a thread of a streaming kernel loads at once.
IN_FLIGHT_COUNTS = (1, 2, 4, 8)


def block_sizes(kernels: str, target: Target) -> tuple[int, ...]:
    """Return the searched numbers of threads per block of a kind of kernel."""
    return (CONTOUR_BLOCK_SIZES if kernels in ("edges", "rows") else BLOCK_SIZES)[target.dialect]


def render_siac(templates: Path, module: str, target: Target, owner: str, threads: int | None = None) -> str:
    """Return the source of a module in double precision; `owner` is named in the source's title and in errors.

    With `threads`, it has only the kernels with this number of threads per block.
    """
    if module not in MODULES:
        raise ReproError("unknown module", where=owner, expected=f"one of {', '.join(MODULES)}", actual=module)
    kernels, _, word = module.partition("-p")
    degree = int(word)
    powers = [(int(a), int(b)) for a, b in exponents(degree, 2)]
    rule = exact_for(3 * degree, 2)
    roots, weights = np.polynomial.legendre.leggauss((3 * degree + 3) // 2)
    names: dict[str, Any] = {
        "dialect": target.dialect,
        "title": f"{owner}: {module}",
        "kernels": kernels,
        LOCAL: kernels == LOCAL,
        "degree": degree,
        "width": 3 * degree + 1,
        "mode_count": mode_count(degree, 2),
        "exponents": powers,
        "index": [[powers.index((a, b)) for b in range(degree + 1 - a)] for a in range(degree + 1)],
        "rule": [(*map(float, point), float(weight)) for point, weight in zip(*rule, strict=True)],
        "gauss": [(float(root + 1) / 2, float(weight) / 2) for root, weight in zip(roots, weights, strict=True)],
        "tile_rows": SUM_ROWS if kernels == "edges" else TILE_ROWS,
        "block_sizes": (threads,) if threads else block_sizes(kernels, target),
        "block_size": BLOCK_SIZE[target.dialect],
        "field_counts": FIELDS,
        "streams": STREAMS,
        "in_flight_counts": IN_FLIGHT_COUNTS,
    }
    template = {LOCAL: "point", "edges": "contour_per_point"}.get(kernels, kernels)
    return render_template(templates, f"filtering/{template}.j2", **names)
