"""The identity of a variant, a layout of coordinates and a blocking: its text is made and read only here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import log2
from typing import Any

from repro.errors import ReproError
from repro.studies.compressed_coo.blocking import PAIRS, RUNS, SPLITS, TILES, Blocking
from repro.tuning.space import Point


@dataclass(frozen=True, order=True)
class VariantId:
    """A layout, a name in `SPLITS`, under a blocking, spelt `CCOO/b256-k4-c1`."""

    layout: str
    blocking: Blocking

    def __str__(self) -> str:
        return f"{self.layout}/{self.blocking}"

    @classmethod
    def parse(cls, text: str) -> VariantId:
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
    return VariantId.parse(text).point


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
