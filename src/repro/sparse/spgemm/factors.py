"""What is multiplied."""

from __future__ import annotations

from dataclasses import dataclass

from repro.errors import ReproError
from repro.sparse.dynamic.layout import MOST_ENTRIES
from repro.sparse.dynamic.storage import Storage
from repro.sparse.spgemm.render import Format


@dataclass(frozen=True)
class Factors:
    """Two matrices on a device.

    Attributes
    ----------
    a, b
        The matrices.
    format
        `exact`: each row of both lies in one segment without room, and has no column twice. `chain`: anyhow.

    Raises
    ------
    ReproError
        They cannot be multiplied.
    """

    a: Storage
    b: Storage
    format: Format = "exact"

    def __post_init__(self) -> None:
        if self.a.shape[1] != self.b.shape[0]:
            raise ReproError(
                "the matrices cannot be multiplied",
                expected=f"a second matrix with {self.a.shape[1]} rows, as the first has columns",
                actual=f"{self.b.shape[0]} rows",
            )
        if self.a.dtype != self.b.dtype:
            raise ReproError(
                "the matrices are in two precisions", expected=f"both of {self.a.dtype}", actual=self.b.dtype
            )

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the product."""
        return self.a.shape[0], self.b.shape[1]


def too_many(entries: int) -> ReproError:
    """Return what to say of a product with so many entries."""
    return ReproError(
        "the product has more entries than a matrix can hold",
        expected=f"at most {MOST_ENTRIES:,}",
        actual=f"up to {entries:,}",
    )
