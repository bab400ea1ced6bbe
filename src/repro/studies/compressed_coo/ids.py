"""The identity of a variant: a layout of coordinates, of slices or of pairs, and a blocking.

A blocking says how the slots of a layout are dealt to threads. The text of a variant is made and read only here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import log2
from typing import Any, Literal

from repro.codegen.targets import Target
from repro.errors import ReproError
from repro.studies.compressed_coo.coordinate_format import ENTRIES
from repro.tuning.variant_space import Point

#: How chunks are cut; or slices of so many rows; or tiles of pairs, of rows as they come and of clusters.
Split = Literal["plain", "padded", "unpadded", "aligned", "slices-8", "slices-16", "slices-32", "pairs", "clustered"]
#: Layouts by name, and how they are cut: the paper's two, and ours.
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
#: Those of slices, and the rows of one.
HEIGHTS = {"CSELL-8": 8, "CSELL-16": 16, "CSELL-32": 32}
#: Those that store each pair of a symmetric matrix once: tiles of rows as they come, and of clusters.
PAIRS = ("Pairs", "Pairs@clustered")
PAPERS = ("COO", "CCOO")
#: The paper's layouts, and ours beside them.
SPACES = ("paper", "extended")
CHUNKS = (1, 2, 4)
#: Rows of a tile of pairs, and threads of the block that takes it.
TILES = (64, 128, 256)
#: Slots of a thread of pairs: with more, more than half of those of short rows would be padding.
RUNS = (1, 2, 4)
LOADS = ("ca", "cs")
#: Threads of a block: of the paper's layouts its 256 and fewer, which cost plain coordinates nothing; of ours what did
#: best on an H200. On the CPU a block is a loop of one core, and pays for being longer.
THREADS = {
    "COO": (256,),
    "CCOO": (128, 256),
    "CCOO-unpadded": (128,),
    "CCOO-aligned": (64, 128),
    **dict.fromkeys(HEIGHTS, (64, 128)),
    **dict.fromkeys(PAIRS, TILES),
}
CPU_THREADS = 64
#: Of slices: fewer entries in flight than a word has codes are no fewer loads.
SLICED_ENTRIES = (4, 8)
_NAME = re.compile(r"b(?P<threads>\d+)-k(?P<entries>\d+)-c(?P<chunks>[1-9]\d{0,3})(-(?P<load>cs))?")


@dataclass(frozen=True, order=True)
class Blocking:
    """How slots are dealt to threads.

    Attributes
    ----------
    threads
        Threads of a block, each of which takes part in every chunk: the paper's B.
    entries
        Slots of a thread, the paper's K; with slices, entries of a row that a thread has in flight.
    chunks
        Chunks that a block takes, one after the other; with slices, those that a warp takes; one tile of pairs.
    load
        What the caches are to keep of the matrix: `ca` everything, `cs` nothing for long.
    """

    threads: int
    entries: int
    chunks: int = 1
    load: str = "ca"

    @property
    def kernel(self) -> str:
        """Name of the kernel; how many chunks a block takes is an argument."""
        return f"spmv_b{self.threads}_k{self.entries}" + f"_{self.load}" * (self.load != "ca")

    def __str__(self) -> str:
        return f"b{self.threads}-k{self.entries}-c{self.chunks}" + f"-{self.load}" * (self.load != "ca")

    @classmethod
    def parse(cls, text: str) -> Blocking:
        """Return what a name means: `b256-k4-c1`, with `-cs` for loads that the caches need not keep.

        Raises
        ------
        ReproError
            It means nothing, or more threads or slots than chunks have.
        """
        parts = _NAME.fullmatch(text)
        if parts is None or int(parts["threads"]) not in (32, 64, 128, 256) or int(parts["entries"]) not in ENTRIES:
            raise ReproError(
                "unknown schedule of a layout of coordinates",
                expected="bB-kK-cC: B threads (32, 64, 128, 256), K slots of each (1, 2, 4, 8), C ≥ 1 chunks a block",
                actual=text,
                todo="spell the variant as the tables do, for example CCOO/b256-k4-c1",
            )
        return cls(int(parts["threads"]), int(parts["entries"]), int(parts["chunks"]), parts["load"] or "ca")


def blockings(target: Target, layout: str) -> list[Blocking]:
    """Return all that is tried for a layout, in the paper's space and in ours.

    B, K and how many chunks a block takes are the paper's parameters; what caches keep it leaves open.
    """
    sizes = THREADS[layout] if target.dialect == "cuda" else (CPU_THREADS,)
    entries: Sequence[int] = SLICED_ENTRIES if layout in HEIGHTS else RUNS if layout in PAIRS else ENTRIES
    chunks = CHUNKS[:1] if layout in PAIRS else CHUNKS
    return [Blocking(*blocking) for blocking in product(sizes, entries, chunks, LOADS)]


@dataclass(frozen=True, order=True)
class CoordinateId:
    """A layout, a name in `SPLITS`, under a blocking, spelt `CCOO/b256-k4-c1`."""

    layout: str
    blocking: Blocking

    def __str__(self) -> str:
        return f"{self.layout}/{self.blocking}"

    @classmethod
    def parse(cls, text: str) -> CoordinateId:
        """Read a variant's text; the inverse of `str`.

        Raises
        ------
        ReproError
            It is no variant's.
        """
        layout, _, schedule = text.partition("/")
        check_layout(layout)
        blocking = Blocking.parse(schedule)
        of_tile = blocking.threads in TILES and blocking.entries in RUNS and blocking.chunks == 1
        if layout in PAIRS and not of_tile:
            raise ReproError(
                "pairs have a block for each tile",
                where=text,
                expected=f"bB-kK-c1 with B, the rows of a tile, one of {', '.join(map(str, TILES))}, and K one of "
                f"{', '.join(map(str, RUNS))}",
                actual=schedule,
            )
        return cls(layout, blocking)

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of a row: everything that the text says."""
        return {
            "layout": self.layout,
            "ordering": "natural",
            "n_t": self.blocking.threads,
            "per_thread": self.blocking.entries,
            "chunks": self.blocking.chunks,
            "load": self.blocking.load,
        }

    @property
    def point(self) -> Point:
        """The variant's place in its space, for searches that learn: its words, and its sizes as binary logarithms."""
        sizes = (self.blocking.threads, self.blocking.entries, self.blocking.chunks)
        return Point(self.layout, (SPLITS[self.layout], self.blocking.load), tuple(log2(size) for size in sizes))


@lru_cache(maxsize=1 << 15)
def point_of(text: str) -> Point:
    """Return the place of a variant that is given by its text.

    Raises
    ------
    ReproError
        It is no variant's.
    """
    return CoordinateId.parse(text).point


def check_layout(layout: str) -> str:
    """Return a layout's name if it is one.

    Raises
    ------
    ReproError
        It is none.
    """
    if layout not in SPLITS:
        raise ReproError("unknown layout of coordinates", expected=f"one of {', '.join(SPLITS)}", actual=layout)
    return layout
