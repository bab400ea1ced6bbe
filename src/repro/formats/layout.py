"""The name of a layout: outer format, inner order of the entries, order of the vectors."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from repro.errors import ReproError
from repro.formats.outer import outer_formats

ORDER = ("AoS", "SoA")


@dataclass(frozen=True, order=True)
class Layout:
    """A layout, spelt as in the papers: `CSR-AoS-AoS`, `ELL-SoA-AoS`, `Sl-32-SoA-SoA`.

    Attributes
    ----------
    outer
        `CSR`, `ELL` (ELLPACK-R), or `Sl-k` (sliced ELLPACK with slices of k rows); see `repro.formats.outer`.
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

    @classmethod
    def parse(cls, text: str) -> Layout:
        """Read the papers' spelling; the inverse of `str`.

        Raises
        ------
        ReproError
            The text names no layout.
        """
        layout = cls(*([""] * 3 + text.strip().rsplit("-", 2))[-3:])
        known = outer_formats()
        if layout.outer not in known or layout.inner not in ORDER or layout.vector not in ORDER:
            raise ReproError(
                "unknown layout",
                expected=f"outer-inner-vector with outer one of {', '.join(known)}, inner and vector AoS or SoA",
                actual=text,
                todo="spell it as the papers do, for example Sl-32-SoA-AoS; `repro list layouts` prints all",
            )
        return layout


REFERENCE = Layout("CSR", "AoS", "AoS")


def all_layouts() -> list[Layout]:
    """Return every layout, the reference layout first: the papers' 16, and those of formats added since."""
    found = [Layout(*parts) for parts in product(outer_formats(), ORDER, ORDER)]
    return sorted(found, key=lambda layout: layout != REFERENCE)
