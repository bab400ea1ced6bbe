"""Reads TetGen's pair of files: vertices in `.node`, cells in `.ele`. Numbers start from 0 or 1, or are arbitrary."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from repro.problems.meshreaders import Cells, Content, Contents, Flaw, load_text, renumbered, whole, whole_numbers

_KINDS = {3: ("triangle", 2), 4: ("tetra", 3), 6: ("triangle6", 2), 10: ("tetra10", 3)}


def read(path: Path, values: bool = False) -> Contents:
    """Read a volume mesh from both files, given the path of either; raise `Flaw` for invalid headers, rows or
    numbers.
    """
    header, rows = _table(path.with_suffix(".node"), "vertices", (3, 0, 0))
    dimension = header[1]
    points, numbers = rows[:, 1 : 1 + dimension], whole_numbers(rows[:, 0], "vertices")
    header, cells = _table(path.with_suffix(".ele"), "cells", (4, 0))
    size = header[1]
    if size not in _KINDS:
        raise Flaw("the .ele file has cells of an unsupported kind", expected="4 corners each", actual=size)
    corners = whole_numbers(cells[:, 1 : 1 + size], "corners")
    return points, [Cells(*_KINDS[size], renumbered(corners, numbers, "vertices"))]


def _table(path: Path, subject: str, defaults: tuple[int, ...]) -> tuple[list[int], NDArray[np.float64]]:
    """Return the numbers of the first line, and the rows after it; each row starts with its own number."""
    content = Content(load_text(path, b"#"))
    tokens = content.line().split()
    if not tokens or len(tokens) > 1 + len(defaults):
        raise Flaw(
            f"the first line of the {path.suffix} file is not a header",
            expected=f"the number of {subject}, and up to {len(defaults)} more",
            actual=b" ".join(tokens)[:80].decode(errors="replace") or "nothing",
        )
    header_numbers = [whole(token, subject) for token in tokens]
    header = [*header_numbers, *defaults[len(header_numbers) - 1 :]]
    width = 1 + sum(header[1:])
    rows = content.numbers(header[0] * width, np.float64, f"{subject} in the {path.suffix} file")
    if excess_word := content.token():
        raise Flaw(
            f"the {path.suffix} file is longer than its first line states",
            expected=f"{header[0]:,} rows of {width} numbers",
            actual=f"{excess_word[:40].decode(errors='replace')} behind them",
        )
    return header, rows.reshape(header[0], width)
