"""What is known of a problem before it is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Outline:
    """A problem that some study runs on.

    Attributes
    ----------
    name, kind
        Its name, and its kind: `matrix`, `updates` or `field`.
    entry
        What a matrix's non-zeros are; None for other kinds.
    definition
        Plain data that says what it is: when it changes, the problem is built again.
    files
        The user's own files that it is read from; none for a problem that is fetched or generated.
    size
        Rows and non-zeros that the registry or the file states, of a field about how many cells and modes in all;
        None where only building it tells.
    at_most
        Whether that is a bound: the non-zeros may be fewer.
    columns
        Columns where they are stated and others than the rows.
    """

    name: str
    kind: str = "matrix"
    entry: str | None = None
    definition: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[Path, ...] = ()
    size: tuple[int, int] | None = None
    at_most: bool = False
    columns: int | None = None

    @property
    def multiplies(self) -> bool:
        """Whether it may be a matrix for products y = A x time and again, for all that is known: square, not empty."""
        return self.columns is None and (self.size is None or 0 not in self.size)
