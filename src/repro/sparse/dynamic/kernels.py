"""Rendering of the modules of a dynamic matrix, a template each, in a precision; and the words of its state.

The state is what a dynamic matrix counts on the device. Host and kernels share the positions of its words.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.codegen.targets import DTYPES, SCALARS, Target
from repro.codegen.templates import render_template
from repro.sparse.elementwise import BLOCK_SIZE, split_key

#: Where the next segment is cut off; operations begun and ended: where these differ, the last one was left in the
#: middle.
STATE_POINTER, STATE_OPENED, STATE_CLOSED = 0, 1, 2
#: The entries of the matrix, or what it takes once it is brought together, where that was asked for.
STATE_TOTAL = 3
#: Counters of the operation under way, which ends by moving them on by so many words: rows whose chain was full, rows
#: for which the buffer had no more segment, entries of the batch that were left, and entries outside of the matrix.
STATE_FULL, STATE_BEYOND, STATE_UNPLACED, STATE_BAD = STATE_COUNTERS = 4, 5, 6, 7
#: Blocks that have come to the end of the operation under way.
STATE_DONE = 12
#: Rows that it listed for blocks, since they have many entries.
STATE_LONG = 13
STATE_WORDS = 16
#: For templates.
STATE_NAMES = {
    "POINTER": STATE_POINTER,
    "OPENED": STATE_OPENED,
    "CLOSED": STATE_CLOSED,
    "TOTAL": STATE_TOTAL,
    "FULL": STATE_FULL,
    "BEYOND": STATE_BEYOND,
    "LEFT": STATE_UNPLACED,
    "BAD": STATE_BAD,
    "DONE": STATE_DONE,
    "LONG": STATE_LONG,
    "COUNTERS": len(STATE_COUNTERS),
}


@dataclass(frozen=True)
class Report:
    """What the last operation on a matrix came to.

    Attributes
    ----------
    full, beyond
        Rows that took none of their entries because their chain had no empty slot, or the buffer no room.
    left
        Entries of the batch for these rows.
    bad
        Entries outside of the matrix; where there is one, nothing was done.
    pointer
        Where the next segment is cut off.
    total
        Entries, where they were counted.
    whole
        Whether the operation came to its end.
    """

    full: int
    beyond: int
    left: int
    bad: int
    pointer: int
    total: int
    whole: bool

    @classmethod
    def of(cls, words: NDArray[np.int32]) -> Report:
        """Read the words of a state, int32 `(WORDS,)`."""
        full, beyond, left, bad = (int(words[counter + len(STATE_COUNTERS)]) for counter in STATE_COUNTERS)
        whole = bool(words[STATE_OPENED] == words[STATE_CLOSED])
        return cls(full, beyond, left, bad, int(words[STATE_POINTER]), int(words[STATE_TOTAL]), whole)


pass  # codemod

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
SMALL_BLOCK_SIZE = {"cuda": 1024, "opencl": 64}
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
RUNS_BLOCKS_PER_SM = 5
#: A group of lanes of `insert_rest` does the share of one block of `insert_runs`; a block has so many groups.
OF_REST = {"cuda": BLOCK_SIZE["cuda"] // 32, "opencl": BLOCK_SIZE["opencl"]}
#: Entries of the new buffer that a block of a defragmentation copies, per thread.
COPIED = 8
#: Entries for each thread up to which a row of a mixed product is left to its threads, or to a warp.
MIXED_MAX = 32
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
        "n_t": BLOCK_SIZE[target.dialect],
        "small": SMALL,
        "small_n_t": SMALL_BLOCK_SIZE[target.dialect],
        "long_row": LONG_ROW,
        "long_run": LONG_RUN,
        "several": SEVERAL,
        "runs_n_b": RUNS_BLOCKS_PER_SM,
        "copied": COPIED,
        "peers": PEERS,
        "mixed_most": MIXED_MAX,
        "state": STATE_NAMES,
    }
