"""The id of a variant: a layout of coordinates, slices or pairs, and a blocking.

A blocking is the assignment of a layout's slots to threads. Names of variants are formatted and parsed only here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

from repro.bench.variant_id import BaseId, SearchPoint
from repro.codegen.targets import Target
from repro.errors import ReproError
from repro.studies.compressed_coo.coordinate_format import ENTRIES_PER_THREAD, MAX_ENTRIES
from repro.words import EXTENDED, PAPER, PAPER_TUNED, Space

#: How entries are split. Chunks: `plain` (COO), `padded`, `unpadded` or `aligned`, see `coordinate_format`. Slices of
#: 8, 16 or 32 rows. Tiles that store each symmetric pair once, of rows in natural (`pairs`) or `clustered` order.
Split = Literal["plain", "padded", "unpadded", "aligned", "slices-8", "slices-16", "slices-32", "pairs", "clustered"]
#: Layouts by name, and how each is split: the paper's two, and ours.
SPLITS: dict[str, Split] = {
    "COO": "plain",
    "CCOO": "padded",
    "CCOO-unpadded": "unpadded",
    "CCOO-aligned": "aligned",
    "CSELL-8": "slices-8",
    "CSELL-16": "slices-16",
    "CSELL-32": "slices-32",
    "Pairs": "pairs",
    "Pairs@clustered": "clustered",
}
#: Layouts of slices, and the number of rows per slice.
HEIGHTS = {"CSELL-8": 8, "CSELL-16": 16, "CSELL-32": 32}
#: Layouts that store each pair of a symmetric matrix once: tiles of rows in natural order, and of clusters.
PAIRS = ("Pairs", "Pairs@clustered")
PAPERS = ("COO", "CCOO")
CHUNKS = (1, 2, 4)
#: Rows per tile of pairs, which is also the number of threads in the block for the tile.
TILES = (64, 128, 256)
#: Slots per thread for pairs: with more slots, more than half of a short row's slots would be padding.
RUNS = (1, 2, 4)
LOADS = ("ca", "cs")
#: Threads per block to try: 256 as in the paper, for its compressed layout also 128; for our layouts the fastest
#: numbers on an H200. On the CPU, a block is a loop on one core, and longer loops are slower.
THREADS = {
    "COO": (256,),
    "CCOO": (128, 256),
    "CCOO-unpadded": (128,),
    "CCOO-aligned": (64, 128),
    **dict.fromkeys(HEIGHTS, (64, 128)),
    **dict.fromkeys(PAIRS, TILES),
}
CPU_THREADS = 64
#: Threads per block in the paper (King et al. 2020, section 5), and the number used instead on the CPU.
PAPERS_THREADS = (256, CPU_THREADS)
#: Entries in flight per thread for slices; at least as many as the codes in a word, since a word is loaded at once.
SLICED_ENTRIES = (4, 8, 16)
#: More than these take minutes to compile.
MAX_SLICED = 32
POWERS = tuple(1 << bits for bits in range(11))
_NAME = re.compile(r"b(?P<threads>\d+)-k(?P<entries>\d+)-c(?P<chunks>[1-9]\d{0,3})(-(?P<load>cs))?")


@dataclass(frozen=True, order=True)
class Blocking:
    """How slots are assigned to threads.

    Attributes
    ----------
    threads
        Threads per block, the paper's B; all threads work on every chunk of the block.
    entries
        Slots per thread, the paper's K; for slices, number of entries that a thread loads before it uses them.
    chunks
        Chunks that a block processes in sequence; for slices, slices per warp; for pairs, 1 (one tile per block).
    load
        Cache hint for loads of the matrix: `ca` keeps everything, `cs` marks data as used only once.
    """

    threads: int
    entries: int
    chunks: int = 1
    load: str = "ca"

    @property
    def kernel(self) -> str:
        """Name of the kernel; the number of chunks per block is a kernel argument, not a part of the name."""
        return f"spmv_b{self.threads}_k{self.entries}" + f"_{self.load}" * (self.load != "ca")

    def __str__(self) -> str:
        return f"b{self.threads}-k{self.entries}-c{self.chunks}" + f"-{self.load}" * (self.load != "ca")

    def space(self, layout: str) -> Space:
        """Return the space of this blocking for a layout.

        The paper has 256 threads, one chunk a block (section 4: n_z/(B·K) blocks) and no cache hints, and tunes K.
        """
        if layout not in PAPERS:
            return EXTENDED
        is_as_published = self.threads in PAPERS_THREADS and self.chunks == 1 and self.load == "ca"
        return PAPER if is_as_published else PAPER_TUNED


def blockings(target: Target, layout: str, space: Space | None = None) -> list[Blocking]:
    """Return the blockings to try for a layout in a space; None: in all spaces."""
    sizes = THREADS[layout] if target.dialect == "cuda" else (CPU_THREADS,)
    entries: Sequence[int] = SLICED_ENTRIES if layout in HEIGHTS else RUNS if layout in PAIRS else ENTRIES_PER_THREAD
    chunks = CHUNKS[:1] if layout in PAIRS else CHUNKS
    candidates = [Blocking(*blocking) for blocking in product(sizes, entries, chunks, LOADS)]
    return [blocking for blocking in candidates if space in (None, blocking.space(layout))]


@dataclass(frozen=True, order=True)
class CoordinateId(BaseId):
    """A layout (a name in `SPLITS`) with a blocking, spelt `CCOO/b256-k4-c1`."""

    layout: str
    blocking: Blocking

    def __str__(self) -> str:
        return f"{self.layout}/{self.blocking}"

    @classmethod
    def _read(cls, text: str) -> CoordinateId:
        layout, _, schedule = text.partition("/")
        check_layout(layout)
        parts = _NAME.fullmatch(schedule)
        # a chunk's rows have 8 bits, as have the numbers of a tile's rows
        most_threads, most_entries = (1024, MAX_SLICED) if layout in HEIGHTS else (256, MAX_ENTRIES)
        if (
            parts is None
            or int(parts["threads"]) not in (size for size in POWERS if 32 <= size <= most_threads)
            or int(parts["entries"]) not in (size for size in POWERS if size <= most_entries)
        ):
            raise ReproError(
                "unknown schedule of a coordinate layout",
                expected=f"bB-kK-cC: B threads and K slots of each, powers of two (32 to {most_threads}, at most "
                f"{most_entries}), C ≥ 1 chunks a block; rows of a chunk or tile have 8 bits",
                actual=schedule,
                todo="write the variant as in the tables, for example CCOO/b256-k4-c1",
            )
        blocking = Blocking(int(parts["threads"]), int(parts["entries"]), int(parts["chunks"]), parts["load"] or "ca")
        is_tile = blocking.threads in TILES and blocking.entries in RUNS and blocking.chunks == 1
        if layout in PAIRS and not is_tile:
            raise ReproError(
                "pairs use one block per tile",
                where=text,
                expected=f"bB-kK-c1 with B, the rows of a tile, one of {', '.join(map(str, TILES))}, and K one of "
                f"{', '.join(map(str, RUNS))}",
                actual=schedule,
            )
        return cls(layout, blocking)

    @property
    def columns(self) -> dict[str, Any]:
        return {
            "layout": self.layout,
            "ordering": "natural",
            "n_t": self.blocking.threads,
            "per_thread": self.blocking.entries,
            "chunks": self.blocking.chunks,
            "load": self.blocking.load,
        }

    @property
    def point(self) -> SearchPoint:
        sizes = (self.blocking.threads, self.blocking.entries, self.blocking.chunks)
        return SearchPoint.of(self.layout, (SPLITS[self.layout], self.blocking.load), sizes)


def check_layout(layout: str) -> str:
    """Return the given name if it is a layout. Raises `ReproError`: there is no layout of this name."""
    if layout not in SPLITS:
        raise ReproError("unknown coordinate layout", expected=f"one of {', '.join(SPLITS)}", actual=layout)
    return layout
