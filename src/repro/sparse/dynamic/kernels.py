"""Rendering of the modules of a dynamic matrix, and the int32 words of its state on the device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.codegen.targets import DTYPES, SCALARS, Target
from repro.codegen.templates import render_template
from repro.sparse.device_primitives import RADIX, SCAN_ITEMS, SORT_BLOCK_SIZE, SORT_ITEMS
from repro.sparse.dynamic.schedules import CHUNK_WAYS, DEVICE_SCHEDULE, MIXED_WAYS, WAYS, Schedule, row_widths
from repro.sparse.elementwise import BLOCK_SIZE, split_key

#: Offset of the next segment; counts of started and of finished operations, which differ after an interruption.
STATE_BUFFER_END, STATE_BEGUN, STATE_FINISHED = 0, 1, 2
#: Number of entries of a defragmented copy, set by `Operations.total`.
STATE_TOTAL = 3
#: Counters of the running operation: rows with a full chain, rows without space in the buffer, unplaced entries, and
#: entries outside the matrix. At its end, the operation copies them to its report, the words after these.
STATE_CHAIN_FULL, STATE_BUFFER_FULL, STATE_UNPLACED, STATE_OUT_OF_RANGE = STATE_COUNTERS = 4, 5, 6, 7
#: Number of finished blocks of the running operation.
STATE_DONE = 12
#: Number of rows with many entries, which blocks instead of threads process.
STATE_LONG = 13
STATE_WORDS = 16
#: Names of the state words in templates.
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
    """Report of the last operation on a matrix, read from its state."""

    #: Number of rows into which nothing was inserted because all segments of their chain are full.
    full: int
    #: Number of rows into which nothing was inserted because the buffer has no space for another segment.
    rows_without_room: int
    #: Number of entries of the batch that were not inserted, for lack of space in their rows.
    unplaced: int
    #: Number of entries outside of the matrix; if there are any, the operation changes nothing.
    bad: int
    #: Offset at which the next segment is allocated.
    pointer: int
    #: Number of entries of the matrix, if the operation counted them.
    total: int
    #: Whether the operation finished.
    finished: bool

    @classmethod
    def of(cls, words: NDArray[np.int32]) -> Report:
        """Read the words of a state, int32 `(STATE_WORDS,)`."""
        full, rows_without_room, unplaced, bad = (
            int(words[counter + len(STATE_COUNTERS)]) for counter in STATE_COUNTERS
        )
        finished = bool(words[STATE_BEGUN] == words[STATE_FINISHED])
        return cls(
            full, rows_without_room, unplaced, bad, int(words[STATE_BUFFER_END]), int(words[STATE_TOTAL]), finished
        )


#: Template of each module; `reader` and `arrays` are for operators only.
TEMPLATES = {
    "matrix": "sparse/dynamic/matrix.j2",
    "sort": "sparse/sort.j2",
    "product": "sparse/dynamic/product.j2",
    "reader": "sparse/dynamic/reader.j2",
    "arrays": "sparse/dynamic/arrays.j2",
}
#: Largest batch that a single block inserts, and the threads of this block.
MAX_SMALL_BATCH = 2048
SMALL_BLOCK_SIZE = {"cuda": 1024, "opencl": 64}
#: Largest batch that is inserted without sorting, by several blocks; each block inserts the rows of a range of hashes.
MAX_MEDIUM_BATCH = 32768
#: Number of batch entries per block, if several blocks insert an unsorted batch.
ENTRIES_PER_PART = 512
#: A row with more entries, or with more entries of the batch, is changed by a block. Any other row is changed by a
#: thread, which marks the row's batch entries in the bits of one word.
LONG_ROW, LONG_RUN = 128, 32
#: Number of blocks per multiprocessor of kernels that change long rows, one row per block.
LONG_BLOCKS = 2
#: Number of batch entries per thread in kernels with little work per entry.
ENTRIES_PER_THREAD = 2
#: Number of entries of a large batch that a thread inserts. With four, a GPU's block needs half the shared memory, but
#: an H200 takes longer in the mean (results/h200/trials/insertion-in-lines.csv).
INSERT_ENTRIES_PER_THREAD = {"cuda": 8, "opencl": ENTRIES_PER_THREAD}
#: Size in int32 words of a `continued_row` of `insert.j2`, which checks it when it is compiled.
CONTINUED_ROW_WORDS = 8
#: Resident blocks per multiprocessor of the kernel `insert_runs` on a GPU; limits the registers per thread.
INSERT_BLOCKS_PER_SM = 4
#: Number of entries that each thread of a defragmentation copies.
COPIES_PER_THREAD = 8
#: Resident blocks per multiprocessor of the kernel `copy_rows`; limits the registers per thread. Fewer if a
#: multiprocessor holds fewer threads. With six an H200 takes longer (results/h200/trials/defragmentation-by-lines.csv).
COPY_BLOCKS_PER_SM = 5
#: Number of rows that each thread of the kernel `place_all_rows` processes.
ROWS_PER_THREAD = 8
#: Schedule `mixed`: largest number of entries per thread up to which the row's own threads, or a warp, compute a row.
MIXED_MAX = 32
#: Largest number of other devices to whose memory a kernel writes.
PEERS = 7


def render_module(
    templates: Path,
    key: str,
    target: Target,
    study_name: str,
    extra_templates: dict[str, str] | None = None,
    variables: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    """Return the source of module `key` (PRECISION/MODULE).

    `study_name` is named in its title and in error messages. `variables` replace the templates' usual ones.
    """
    all_templates = {**TEMPLATES, **(extra_templates or {})}
    precision, module = split_key(key, all_templates, f"study {study_name}")
    title = f"{study_name}: {module}, {precision} precision"
    all_variables = {**_template_variables(precision, target), **variables}
    return render_template(templates, all_templates[module], title=title, **all_variables)


def render_product(templates: Path, precision: str, target: Target, study_name: str, schedule: Schedule) -> str:
    """Return the source of a module `product` with the kernels of one schedule, and those that they use."""
    load_mode = schedule.in_flight, schedule.load
    # the module has a fused kernel of bins in any case, and parts of long rows have two entries in flight in `chunks`
    fused = (2, schedule.load) if schedule.kind == "chunks" or schedule.in_flight == 1 else load_mode
    variables = {
        "widths": (schedule.width,) if schedule.width else row_widths(target),
        "load_modes": [fused] if schedule.kind == "chunks" else list(dict.fromkeys([fused, load_mode])),
        "fused_load_mode": fused,
        "mixed_load_modes": [load_mode] if schedule.kind == "mixed" else [],
        "chunk_load_modes": [load_mode] if schedule.kind == "chunks" else [],
    }
    return render_module(templates, f"{precision}/product", target, study_name, variables=variables)


def _template_variables(precision: str, target: Target) -> dict[str, Any]:
    (scalar, scalar_bytes), limits = SCALARS[precision], np.finfo(DTYPES[precision])
    return {
        "dialect": target.dialect,
        "scalar": scalar,
        "scalar_bytes": scalar_bytes,
        "min_normal": float(limits.tiny),
        "max_finite": float(limits.max),
        "block_size": BLOCK_SIZE[target.dialect],
        "scan_items": SCAN_ITEMS,
        "sort_block_size": SORT_BLOCK_SIZE[target.dialect],
        "sort_items": SORT_ITEMS[target.dialect],
        "radix": RADIX,
        "widths": row_widths(target),
        "load_modes": WAYS[target.dialect],
        "mixed_load_modes": MIXED_WAYS[target.dialect],
        "chunk_load_modes": CHUNK_WAYS[target.dialect],
        "fused_load_mode": (DEVICE_SCHEDULE.in_flight, DEVICE_SCHEDULE.load),
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
        "continued_row_words": CONTINUED_ROW_WORDS,
        "peers": PEERS,
        "mixed_max": MIXED_MAX,
        "state": STATE_NAMES,
    }
