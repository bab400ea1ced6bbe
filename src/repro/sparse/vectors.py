"""Vectors: the orders of their members, and rendering the kernels that work on vectors alone."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from repro.codegen.precisions import SCALARS
from repro.codegen.targets import Target
from repro.codegen.templates import alignment, render_template
from repro.entries import get_entry

#: Threads of a block, and blocks of the grid for each multiprocessor: all of them fit there at once.
N_T = {"cuda": 256, "opencl": 64}
BLOCKS = {"cuda": 4, "opencl": 1}
#: Bytes of each vector that a thread has in flight, in as many entries as that is; and the most entries.
IN_FLIGHT, MOST = 32, 4
F = TypeVar("F", bound=np.floating)


def padded_size(size: int) -> int:
    """Return the numbers of a padded vector entry of so many members: the next power of two."""
    return 1 << (size - 1).bit_length()


def pack_vector(vector: NDArray[F], order: str) -> NDArray[F]:
    """Flatten `(n, k)` members: side by side (AoS), member by member (SoA), or side by side with zeros (Padded)."""
    if order == "Padded":
        size = vector.shape[1]
        vector = np.pad(vector, ((0, 0), (0, padded_size(size) - size)))
    return np.ascontiguousarray(vector.T if order == "SoA" else vector).ravel()


def render_vectors(templates: Path, entry: str, precision: str, order: str, target: Target) -> str:
    """Return the source of the module for vectors of an entry in an order: `AoS`, `SoA` or `Padded`.

    Raises
    ------
    ReproError
        A template is missing or wrong; template and line are named.
    """
    what = get_entry(entry)
    scalar, scalar_bytes = SCALARS[precision]
    size = padded_size(what.size) if order == "Padded" else what.size
    return render_template(
        templates,
        "sparse/vectors.j2",
        dialect=target.dialect,
        title=f"vectors: {entry}, {precision} precision, {order}",
        entry=what,
        scalar=scalar,
        scalar_bytes=scalar_bytes,
        vector=order,
        vector_type="scalar" if order == "SoA" else "vector_entry",
        vector_members=[*what.vector_members, *(f"padding{i}" for i in range(size - what.size))],
        vector_alignment=alignment(size, scalar_bytes),
        plain_alignment=alignment(what.size, scalar_bytes),
        conjugates=entry == "complex",
        n_t=N_T[target.dialect],
        n_b=BLOCKS[target.dialect],
        unroll=max(1, min(MOST, IN_FLIGHT // (size * scalar_bytes))),
    )
