"""Rendering the modules of a dynamic matrix: a template each, in a precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from repro.codegen.precisions import DTYPES, SCALARS
from repro.codegen.targets import Target
from repro.codegen.templates import render_template
from repro.sparse.dynamic import state
from repro.sparse.kernels import N_T
from repro.sparse.keys import split_key

#: What there is a module of, and the template of each. Readers beside changes, and batches in other types, are for a
#: matrix that is taken away.
TEMPLATES = {
    "matrix": "sparse/dynamic/matrix.j2",
    "sort": "sparse/sort.j2",
    "product": "sparse/dynamic/product.j2",
    "reader": "sparse/dynamic/reader.j2",
    "arrays": "sparse/dynamic/arrays.j2",
}
#: The largest batch that one block inserts, and its threads.
SMALL = 2048
SMALL_N_T = {"cuda": 1024, "opencl": 64}
#: The largest batch that several such blocks insert without sorting it, each the rows of a part of all hashes.
MEDIUM = 32768
#: The entries of such a batch that there is a block for.
OF_PART = 512
#: Rows of more entries, or with more of a batch, are changed by a block together; a batch has a bit of a word for each.
LONG_ROW, LONG_RUN = 128, 32
#: Blocks of a multiprocessor for them.
LONG_BLOCKS = 2
#: Entries of a batch that a thread looks at where there is little to do for one.
SEVERAL = 2
#: Blocks of `insert_runs` that a multiprocessor shall hold: it bounds their registers.
RUNS_N_B = 5
#: A group of lanes of `insert_rest` does the share of one block of `insert_runs`; a block has so many groups.
OF_REST = {"cuda": N_T["cuda"] // 32, "opencl": N_T["opencl"]}
#: Entries of the new buffer that a block of a defragmentation copies, per thread.
COPIED = 8
#: Entries for each thread up to which a row of a mixed product is left to its threads, or to a warp.
MIXED_MOST = 32
#: Other devices that a kernel can store to.
PEERS = 7


def render_module(templates: Path, key: str, target: Target, study: str, more: dict[str, str] | None = None) -> str:
    """Return the source of the module of a key, PRECISION/MODULE.

    Parameters
    ----------
    study
        Whose module it is, for its title and for messages.
    more
        Modules beside those of `TEMPLATES`, and the template of each.

    Raises
    ------
    ReproError
        The key is none, or a template is missing or wrong.
    """
    every = {**TEMPLATES, **(more or {})}
    precision, module = split_key(key, every, f"study {study}")
    title = f"{study}: {module}, {precision} precision"
    return render_template(templates, every[module], title=title, **_words(precision, target))


def _words(precision: str, target: Target) -> dict[str, Any]:
    """Return what the templates are told."""
    (scalar, scalar_bytes), limits = SCALARS[precision], np.finfo(DTYPES[precision])
    return {
        "dialect": target.dialect,
        "scalar": scalar,
        "scalar_bytes": scalar_bytes,
        "least": float(limits.tiny),
        "largest": float(limits.max),
        "warp": target.warp,
        "n_t": N_T[target.dialect],
        "small": SMALL,
        "small_n_t": SMALL_N_T[target.dialect],
        "long_row": LONG_ROW,
        "long_run": LONG_RUN,
        "several": SEVERAL,
        "runs_n_b": RUNS_N_B,
        "copied": COPIED,
        "peers": PEERS,
        "mixed_most": MIXED_MOST,
        "state": state.NAMES,
    }
