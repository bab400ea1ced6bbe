"""Rendering the products with matrices in balanced coordinates, plain and compressed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from repro.codegen.render import SCALARS, render_template
from repro.codegen.targets import Target
from repro.errors import ReproError

#: Layouts by name, and how chunks are cut: the paper's two, and ours.
SPLITS: dict[str, Literal["plain", "padded", "unpadded", "aligned"]] = {
    "COO": "plain",
    "CCOO": "padded",
    "CCOO-unpadded": "unpadded",
    "CCOO-aligned": "aligned",
}
PAPERS = ("COO", "CCOO")
ENTRIES = (1, 2, 4, 8)
CHUNKS = (1, 2, 4)
LOADS = ("ca", "cs")
CLEAR_N_T = {"cuda": 256, "opencl": 64}
_NAME = re.compile(r"b(?P<threads>\d+)-k(?P<entries>\d+)-c(?P<chunks>\d+)(-(?P<load>cs))?")


@dataclass(frozen=True, order=True)
class Blocking:
    """How slots are dealt to threads.

    Attributes
    ----------
    threads
        Threads of a block, each of which takes part in every chunk: the paper's B.
    entries
        Slots of a thread, the paper's K.
    chunks
        Chunks that a block takes, one after the other.
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
        found = _NAME.fullmatch(text)
        if found is None or int(found["threads"]) not in (64, 128, 256) or int(found["entries"]) not in ENTRIES:
            raise ReproError(
                "unknown schedule of a layout of coordinates",
                expected="bB-kK-cC with B threads (64, 128 or 256), K slots of each (1, 2, 4 or 8) and C chunks of a block",
                actual=text,
                todo="spell the variant as the tables do, for example CCOO/b256-k4-c1",
            )
        return cls(int(found["threads"]), int(found["entries"]), int(found["chunks"]), found["load"] or "ca")


def paper_space() -> list[Blocking]:
    """Return the paper's blockings: B = 256, all K; and how many chunks a block takes, which it leaves open."""
    return [Blocking(256, entries, chunks) for entries in ENTRIES for chunks in CHUNKS]


def extended_space(layout: str) -> list[Blocking]:
    """Return ours beyond them for a layout: smaller chunks, and loads that leave the caches to the vectors."""
    papers = set(paper_space()) if layout in PAPERS else set()
    ours = [
        Blocking(threads, entries, chunks, load)
        for entries in ENTRIES
        for threads in (128, 256)
        for chunks in CHUNKS
        for load in LOADS
    ]
    return [blocking for blocking in ours if blocking not in papers]


def render_coo(
    templates: Path, precision: str, layout: str, blockings: Sequence[Blocking], target: Target
) -> str:
    """Return the source of the module with the kernels of a layout for all of some blockings.

    Raises
    ------
    ReproError
        A template is missing or wrong; template and line are named.
    """
    scalar, scalar_bytes = SCALARS[precision]
    unique = {blocking.kernel: blocking for blocking in blockings}
    return render_template(
        templates,
        "compressed_coo/module.j2",
        dialect=target.dialect,
        title=f"compressed_coo: {precision} precision, {layout}",
        scalar=scalar,
        scalar_bytes=scalar_bytes,
        split=SPLITS[layout],
        warp=target.warp,
        distances=[1 << i for i in range(target.warp.bit_length() - 1)],
        clear_n_t=CLEAR_N_T[target.dialect],
        blockings=[
            {"kernel": name, "resident": max(1, target.threads_per_sm // 2 // blocking.threads), **asdict(blocking)}
            for name, blocking in unique.items()
        ],
    )
