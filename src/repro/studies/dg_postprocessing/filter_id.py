"""The identity of a way to filter; its text is made and read only here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import log2
from typing import Any, Literal, get_args

from repro.bench.rows import ColumnType
from repro.codegen.targets import Target
from repro.errors import ReproError
from repro.filtering.render import CONTOUR_THREADS, THREADS
from repro.studies.dg_postprocessing.paper import CENTROID_CELL, POINT_CELL
from repro.tuning.space import Point

Way = Literal["point", "element", "edges", "atomic"]
SPACES = ("paper", "extended")
#: The columns of a row that its name says.
ID_COLUMNS: dict[str, ColumnType] = {"way": str, "threads": int, "cell": float, "blocks": int}
#: Sizes of cells that are tried, and blocks (of `element` and `atomic`: patches) for each multiprocessor.
CELLS: dict[Way, tuple[float, ...]] = {
    "point": (0.5, 1.0),
    "element": (0.25, 0.5),
    "edges": (0.25, 0.5, 1.0),
    "atomic": (0.5,),
}
BLOCKS: dict[Way, tuple[int, ...]] = {"point": (8, 32), "element": (2, 4), "edges": (4, 16, 64), "atomic": (4, 16)}
#: Of the CPU, where a launch takes long and the study is a rehearsal: threads, and what is tried beside the paper's.
CPU_THREADS = 16
CPU_OURS: tuple[tuple[Way, float, int], ...] = (("edges", 1.0, 16), ("atomic", 0.5, 4))
_TEXT = re.compile(r"(?P<way>\w+)-t(?P<threads>\d+)-c(?P<cell>\d+(\.\d+)?)-b(?P<blocks>\d+)")


@dataclass(frozen=True)
class FilterId:
    """A way to filter a field at points, spelt `edges-t64-c0.5-b16`.

    Attributes
    ----------
    way
        `point`, `element` or `atomic` (per element without copies), which clip, or `edges`, contours per point.
    threads
        Of a block.
    cell
        Of the grid that is searched, in longest edges.
    blocks
        For each multiprocessor; of `element` and `atomic` its patches.
    """

    way: Way
    threads: int
    cell: float
    blocks: int

    def __str__(self) -> str:
        return f"{self.way}-t{self.threads}-c{self.cell:g}-b{self.blocks}"

    @classmethod
    def parse(cls, text: str) -> FilterId:
        """Read the text of a way; the inverse of `str`.

        Raises
        ------
        ReproError
            It is none.
        """
        match = _TEXT.fullmatch(text)
        if match and match["way"] in get_args(Way):
            id = cls(match["way"], int(match["threads"]), float(match["cell"]), int(match["blocks"]))  # type: ignore[arg-type]
            if all((id.threads, id.cell, id.blocks)) and str(id) == text:
                return id
        raise ReproError("no way to filter", expected="such as edges-t64-c0.5-b16", actual=text)

    @property
    def space(self) -> str:
        """`paper`: a block a multiprocessor, and cells as the text has them; else `extended`."""
        cells = {"point": CENTROID_CELL, "element": POINT_CELL}
        return SPACES[0] if self.blocks == 1 and cells.get(self.way) == self.cell else SPACES[1]

    @property
    def module(self) -> str:
        """The kernels that it is one of."""
        return "element" if self.way == "atomic" else self.way

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of a row: everything that the text says."""
        return {"way": self.way, "threads": self.threads, "cell": self.cell, "blocks": self.blocks}

    @property
    def point(self) -> Point:
        """Its place in its space, for searches that learn."""
        return Point(self.way, (self.way,), (log2(self.threads), log2(self.cell), log2(self.blocks)))


def point_of(text: str) -> Point:
    """Return the place of a way that is given by its text.

    Raises
    ------
    ReproError
        It is none.
    """
    return FilterId.parse(text).point


def ids(target: Target, space: str, named: Literal["all"] | Sequence[str] = "all") -> Iterator[FilterId]:
    """Give all ways of a space, or those of some names, the paper's first."""
    return (id for id in _all_ids(target, space) if named == "all" or str(id) in named)


def _all_ids(target: Target, space: str) -> Iterator[FilterId]:
    on_gpu = target.dialect == "cuda"
    threads = THREADS["cuda"] if on_gpu else (CPU_THREADS,)
    for way, cell in (("point", CENTROID_CELL), ("element", POINT_CELL)):
        yield from (FilterId(way, n_t, cell, 1) for n_t in threads)  # type: ignore[arg-type]
    if space != SPACES[1]:
        return
    if not on_gpu:
        yield from (FilterId(way, CPU_THREADS, cell, blocks) for way, cell, blocks in CPU_OURS)
        return
    for way in get_args(Way):
        fitting = CONTOUR_THREADS["cuda"] if way == "edges" else threads
        yield from (FilterId(way, *sizes) for sizes in product(fitting, CELLS[way], BLOCKS[way]))
