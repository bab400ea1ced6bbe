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
        Rows and non-zeros that the registry states; None where only building it tells.
    """

    name: str
    kind: str = "matrix"
    entry: str | None = None
    definition: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[Path, ...] = ()
    size: tuple[int, int] | None = None
