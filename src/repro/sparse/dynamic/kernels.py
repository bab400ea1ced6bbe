"""Rendering of the modules of a dynamic matrix, and the words of its device state."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.codegen.targets import DTYPES, SCALARS, Target
from repro.codegen.templates import render_template
from repro.sparse.elementwise import BLOCK_SIZE, split_key

#: Offset of the next segment; counts of begun and ended operations, which differ after an interruption.
STATE_BUFFER_END, STATE_BEGUN, STATE_FINISHED = 0, 1, 2
#: Entries of a defragmented copy, set by `Operations.total`.
STATE_TOTAL = 3
#: Counters of the running operation: rows with a full chain, rows without space in the buffer, unplaced entries, and
#: entries outside the matrix. At its end the operation copies them to its report, after these words.
STATE_CHAIN_FULL, STATE_BUFFER_FULL, STATE_UNPLACED, STATE_OUT_OF_RANGE = STATE_COUNTERS = 4, 5, 6, 7
#: Finished blocks of the running operation.
STATE_DONE = 12
#: Rows with many entries, listed for blocks.
STATE_LONG = 13
STATE_WORDS = 16
#: For templates.
STATE_NAMES = {
    "BUFFER_END": STATE_BUFFER_END,
    "BEGUN": STATE_BEGUN,
    "FINISHED": STATE_FINISHED,
    "TOTAL": STATE_TOTAL,
    "CHAIN_FULL": STATE_CHAIN_FULL,
    "BUFFER_FULL": STATE_BUFFER_FULL,
    "UNPLACED": STATE_UNPLACED,
    "OUT_OF_RANGE": STATE_OUT_OF_RANGE,
    "DONE": STATE_DONE,
    "LONG": STATE_LONG,
    "COUNTERS": len(STATE_COUNTERS),
}


@dataclass(frozen=True)
class Report:
    """Report of the last operation on a matrix."""

    #: Rows that took none of their entries because all segments of their chain are full.
    full: int
    #: Rows that took none of their entries because the buffer has no space for another segment.
    beyond: int
    #: Entries of the batch for these rows.
    unplaced: int
    #: Entries outside of the matrix; with one of them nothing is done.
    bad: int
    #: Where the next segment is cut off.
    pointer: int
    #: Entries of the matrix, if they were counted.
    total: int
    #: Whether the operation finished.
    finished: bool

    @classmethod
    def of(cls, words: NDArray[np.int32]) -> Report:
        """Read the words of a state, int32 `(STATE_WORDS,)`."""
        full, beyond, unplaced, bad = (int(words[counter + len(STATE_COUNTERS)]) for counter in STATE_COUNTERS)
        finished = bool(words[STATE_BEGUN] == words[STATE_FINISHED])
        return cls(full, beyond, unplaced, bad, int(words[STATE_BUFFER_END]), int(words[STATE_TOTAL]), finished)


#: Template of each module; `reader` and `arrays` are for operators only.
TEMPLATES = {
    "matrix": "sparse/dynamic/matrix.j2",
    "sort": "sparse/sort.j2",
    "product": "sparse/dynamic/product.j2",
    "reader": "sparse/dynamic/reader.j2",
    "arrays": "sparse/dynamic/arrays.j2",
}
#: The largest batch that one block inserts, and its threads (measurements behind these and the next four are not
#: recorded).
MAX_SMALL_BATCH = 2048
SMALL_BLOCK_SIZE = {"cuda": 1024, "opencl": 64}
#: The largest batch that several such blocks insert without sorting it, each block the rows of a range of hashes.
MAX_MEDIUM_BATCH = 32768
#: Entries of such a batch for each block.
ENTRIES_PER_PART = 512
#: A block changes a row of more entries, or with more entries of a batch; below, a thread has a bit of a word for each.
LONG_ROW, LONG_RUN = 128, 32
#: Blocks for them on each multiprocessor.
LONG_BLOCKS = 2
#: Entries of a batch that a thread processes where each takes little work.
ENTRIES_PER_THREAD = 2
#: Entries of a large batch that a thread inserts. With four a GPU's block needs half the shared memory, but an H200
#: takes longer in the mean (results/h200/trials/insertion-in-lines.csv).
INSERT_ENTRIES_PER_THREAD = {"cuda": 8, "opencl": ENTRIES_PER_THREAD}
#: Words of int32 of a `continued_row` of `insert.j2`.
CONTINUED_ROW_WORDS = 8
#: Blocks of a GPU's `insert_runs` resident on a multiprocessor, which bounds their registers.
INSERT_BLOCKS_PER_SM = 4
#: Entries that each thread of a defragmentation copies.
COPIES_PER_THREAD = 8
#: Blocks of `copy_rows` resident on a multiprocessor, which bounds their registers; fewer if it holds fewer threads.
#: With six an H200 takes longer (results/h200/trials/defragmentation-by-lines.csv).
COPY_BLOCKS_PER_SM = 5
#: Rows that each thread of `place_all_rows` places.
ROWS_PER_THREAD = 8
#: Maximum entries per thread for which the threads of a row, or a warp, compute a mixed product.
MIXED_MAX = 32
#: Maximum number of other devices that a kernel stores to.
PEERS = 7


def render_module(
    templates: Path, key: str, target: Target, study_name: str, more: dict[str, str] | None = None
) -> str:
    """Return the source of module PRECISION/MODULE; `study_name` stands in its title and in messages."""
    every = {**TEMPLATES, **(more or {})}
    precision, module = split_key(key, every, f"study {study_name}")
    title = f"{study_name}: {module}, {precision} precision"
    return render_template(templates, every[module], title=title, **_template_variables(precision, target))


def _template_variables(precision: str, target: Target) -> dict[str, Any]:
    (scalar, scalar_bytes), limits = SCALARS[precision], np.finfo(DTYPES[precision])
    return {
        "dialect": target.dialect,
        "scalar": scalar,
        "scalar_bytes": scalar_bytes,
        "min_normal": float(limits.tiny),
        "max_finite": float(limits.max),
        "warp": target.warp,
        "block_size": BLOCK_SIZE[target.dialect],
        "small_batch": MAX_SMALL_BATCH,
        "small_block_size": SMALL_BLOCK_SIZE[target.dialect],
        "long_row": LONG_ROW,
        "long_run": LONG_RUN,
        "entries_per_thread": ENTRIES_PER_THREAD,
        "insert_entries_per_thread": INSERT_ENTRIES_PER_THREAD[target.dialect],
        "insert_blocks_per_sm": INSERT_BLOCKS_PER_SM,
        "copies_per_thread": COPIES_PER_THREAD,
        "copy_blocks_per_sm": min(COPY_BLOCKS_PER_SM, target.threads_per_sm // BLOCK_SIZE[target.dialect]),
        "rows_per_thread": ROWS_PER_THREAD,
        "peers": PEERS,
        "mixed_max": MIXED_MAX,
        "state": STATE_NAMES,
    }
