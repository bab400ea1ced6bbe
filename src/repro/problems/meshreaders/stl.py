"""Reads STL, text and binary; corners with equal coordinates become one vertex."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from repro.problems.meshreaders import Cells, Contents, Flaw, load_text, parse, truncated

_LINES = {b"facet": 0, b"outer": 1, b"vertex": 2, b"endloop": 3, b"endfacet": 4}
_PATTERN = np.array([0, 1, 2, 2, 2, 3, 4])
_BESIDE = (b"solid", b"endsolid", b"color")
_HEAD = 84
_RECORD = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])


def read(path: Path, values: bool = False) -> Contents:
    """Read a surface; vertices are sorted by coordinates. Raise `Flaw` for a wrong file size or incomplete facets."""
    content = path.read_bytes()
    count = int.from_bytes(content[80:_HEAD], "little")
    if len(content) >= _HEAD and len(content) == _HEAD + count * _RECORD.itemsize:
        corners = np.frombuffer(content, _RECORD, count, _HEAD)["corners"].astype(np.float64)
    elif content[:512].removeprefix(b"\xef\xbb\xbf").lstrip()[:5].lower() == b"solid" and b"\0" not in content[:512]:
        corners = _text(load_text(path))
    else:
        expected = f"{_HEAD + count * _RECORD.itemsize:,} bytes, of {count:,} triangles"
        if len(content) < _HEAD:
            raise truncated(f"{_HEAD} bytes, or text that begins with solid", f"{len(content):,} bytes")
        if len(content) < _HEAD + count * _RECORD.itemsize:
            raise truncated(expected, f"{len(content):,} bytes")
        raise Flaw("the STL file is longer than stated", expected, f"{len(content):,} bytes")
    points, cells = np.unique(corners.reshape(-1, 3) + 0.0, axis=0, return_inverse=True)
    return points, [Cells("triangle", 2, cells.reshape(-1, 3).astype(np.int64))]


def _text(text: bytes) -> NDArray[np.float64]:
    kinds: list[int] = []
    corners: list[bytes] = []
    solids, wrong_line = 0, ""
    for number, line in enumerate(text.split(b"\n"), 1):
        key, _, arguments = line.strip().replace(b"\t", b" ").partition(b" ")
        key = key.lower()
        if key in _LINES:
            kinds.append(_LINES[key])
            if solids < 1 or (key == b"vertex" and len(arguments.split()) != 3):
                wrong_line = wrong_line or f"{line[:60].decode(errors='replace').strip()} (line {number})"
            if key == b"vertex":
                corners.append(arguments)
        elif key in _BESIDE:
            solids += {b"solid": 1, b"endsolid": -1, b"color": 0}[key]
        elif key:
            raise Flaw(
                "a line of the STL file is not understood",
                expected="solid, facet, outer loop, vertex, endloop, endfacet or endsolid",
                actual=f"{line[:60].decode(errors='replace').strip()} (line {number})",
            )
    if solids > 0:
        raise truncated("endsolid behind the facets", "text without endsolid")
    if wrong_line:
        raise Flaw(
            "the mesh is damaged: a line of the STL file is invalid or out of place",
            expected="facets between solid and endsolid, three numbers a vertex",
            actual=wrong_line,
        )
    if len(kinds) % len(_PATTERN) or (np.array(kinds, np.int64).reshape(-1, len(_PATTERN)) != _PATTERN).any():
        raise Flaw(
            "the mesh is damaged: the STL file has facets that are not triangles",
            expected="facets of facet, outer loop, three lines of vertex, endloop and endfacet",
            actual=f"{len(corners):,} of vertex in {len(kinds):,} lines",
        )
    return parse(b" ".join(corners), np.float64, 3 * len(corners), "vertices").reshape(-1, 3, 3)
