"""The name of a layout: outer format, inner order of the entries, order of the vectors."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from repro.errors import ReproError

OUTER = ("CSR", "ELL", "Sl-16", "Sl-32")
ORDER = ("AoS", "SoA")


@dataclass(frozen=True, order=True)
class Layout:
    """A layout, spelt as in the papers: `CSR-AoS-AoS`, `ELL-SoA-AoS`, `Sl-32-SoA-SoA`.

    Attributes
    ----------
    outer
        `CSR`, `ELL` (ELLPACK-R), or `Sl-k` (sliced ELLPACK with slices of k rows).
    inner
        Order of the members of the matrix entries: `AoS` or `SoA`.
    vector
        Order of the members of the two vectors: `AoS` or `SoA`.
    """

    outer: str
    inner: str
    vector: str

    def __str__(self) -> str:
        return f"{self.outer}-{self.inner}-{self.vector}"

    @property
    def slice_rows(self) -> int | None:
        """k of sliced ELLPACK, None for the other formats."""
        return int(self.outer.removeprefix("Sl-")) if self.outer.startswith("Sl-") else None

    @classmethod
    def parse(cls, text: str) -> Layout:
        """Read the papers' spelling; the inverse of `str`.

        Raises
        ------
        ReproError
            The text names no layout.
        """
        layout = cls(*([""] * 3 + text.strip().rsplit("-", 2))[-3:])
        if layout.outer not in OUTER or layout.inner not in ORDER or layout.vector not in ORDER:
            raise ReproError(
                "unknown layout",
                expected=f"outer-inner-vector with outer one of {', '.join(OUTER)}, inner and vector AoS or SoA",
                actual=text,
                todo="spell it as the papers do, for example Sl-32-SoA-AoS; `repro list layouts` prints all",
            )
        return layout


REFERENCE = Layout("CSR", "AoS", "AoS")


def all_layouts() -> list[Layout]:
    """Return the 16 layouts of the papers' space, the reference layout first."""
    return [Layout(*parts) for parts in product(OUTER, ORDER, ORDER)]
