"""The streaming floor of a format of pairs, which moves fewer bytes than CSR, and so has a floor of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from repro.bench.operands import Operands
from repro.bench.rows import Row
from repro.bench.yardsticks import Floor
from repro.codegen.common import Stream
from repro.studies.compound_spmv.layout import Layout

#: The kind of its rows: what is no floor of the problem is not taken for one.
OWN_FLOOR = "own floor"


class OwnFloor(Floor):
    """A kernel that streams the bytes of a matrix in a layout, with x, and writes as many as y has.

    Parameters
    ----------
    stream
        The configuration.
    layout
        The layout, its ordering with it.
    matrix_bytes
        What the matrix takes in it.
    """

    kind = OWN_FLOOR

    def __init__(self, stream: Stream, layout: Layout, matrix_bytes: int) -> None:
        super().__init__(stream)
        self.name = f"{self.name}/{layout}"
        self._layout, self._matrix_bytes = layout, matrix_bytes

    @property
    def columns(self) -> Mapping[str, Any]:
        """The layout, and the bytes of the matrix in it."""
        return {
            "layout": str(self._layout),
            "ordering": self._layout.unknowns,
            "outer": self._layout.outer,
            "matrix_bytes": self._matrix_bytes,
        }

    def streamed(self, operands: Operands) -> tuple[int, int]:
        """Return the bytes of the matrix and of x, which has as many as y; and those of y."""
        vector = operands.least_bytes[1]
        return self._matrix_bytes + vector, vector


def own_floors(rows: Iterable[Row], streams: Sequence[Stream]) -> dict[str, list[OwnFloor]]:
    """Return the floors of the formats of pairs that rows of variants are of, by layout: one a configuration."""
    stored = {str(row["layout"]): row["matrix_bytes"] for row in rows if row["matrix_bytes"]}
    layouts = {layout: size for text, size in stored.items() if (layout := Layout.parse(text)).of_pairs}
    return {str(layout): [OwnFloor(stream, layout, size) for stream in streams] for layout, size in layouts.items()}
