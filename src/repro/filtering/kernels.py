"""Rendering of the modules of the filter in the plane, one for each degree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from repro.codegen.targets import Target
from repro.codegen.templates import render_template
from repro.errors import ReproError
from repro.galerkin.basis import exponents, mode_count
from repro.galerkin.quadrature import exact_for
from repro.sparse.elementwise import BLOCK_SIZE

#: Per point with an h of each point: the kernel per point but for that.
LOCAL = "local"
#: Per point and per element, as in the paper; per point by contours; making the filter's matrix, products with it, and
#: what these are compared with; per point with an h of each.
KERNELS = ("point", "element", "edges", "rows", "apply", "stored", LOCAL)
#: Degrees that modules are rendered for.
DEGREES = (0, 1, 2, 3)
#: Of each of them one: `edges-p2`.
MODULES = tuple(f"{kernels}-p{degree}" for degree in DEGREES for kernels in KERNELS)
#: Threads of a block to choose from; kernels that go around contours have shared memory for no more.
BLOCK_SIZES = {"cuda": (32, 64, 128, 256), "opencl": (16, 64)}
CONTOUR_BLOCK_SIZES = {"cuda": (32, 64, 128), "opencl": (16, 64)}
#: Rows of a tile at most: neighbouring points that a warp has at a time, and rows of the matrix that share columns.
TILE_ROWS = 16
#: The same where points are filtered without a matrix: each thread keeps a sum for each row.
SUM_ROWS = 8
#: Fields that a product takes at a time.
FIELDS = (1, 2, 4, 8, 16)
#: Arrays that the streaming kernels read, those of a product, and how many words a thread loads at a time.
STREAMS = ("values", "columns", "masks", "row_starts", "column_starts", "entry_starts", "modes")
UNROLLS = (1, 2, 4, 8)


def render_siac(templates: Path, module: str, target: Target, owner: str) -> str:
    """Return the source of a module, in double precision.

    Parameters
    ----------
    owner
        Whose module it is, for its title and for messages.

    Raises
    ------
    ReproError
        There is no such module, or a template is missing or wrong.
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
        "threads": (CONTOUR_BLOCK_SIZES if kernels in ("edges", "rows") else BLOCK_SIZES)[target.dialect],
        "n_t": BLOCK_SIZE[target.dialect],
        "field_counts": FIELDS,
        "streams": STREAMS,
        "unrolls": UNROLLS,
    }
    template = "point" if kernels == LOCAL else kernels
    return render_template(templates, f"filtering/{template}.j2", **names)
