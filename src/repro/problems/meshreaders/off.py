"""Reads Geomview's OFF as text; normals, colours and texture of vertices, and colours of faces, are ignored."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from repro.problems.meshreaders import (
    Cells,
    Contents,
    Flaw,
    Floats,
    check_alike,
    face,
    load_text,
    parse,
    split,
    truncated,
    whole,
)

_HEADER = re.compile(rb"(?P<kind>(?:ST|C|N){0,3}(?P<more>4?n?)OFF)(?:\s+|$)")


def read(path: Path, values: bool = False) -> Contents:
    """Read a surface; `Flaw` for binary files, other formats or dimensions, and incomplete or invalid lines."""
    with path.open("rb") as file:
        start = file.readline(80).strip()
    if re.match(rb"\S*OFF\s+BINARY", start):
        raise Flaw(
            "the OFF file is binary",
            expected="one that is text",
            actual=start.decode(errors="replace"),
            todo="export it as text, or as PLY",
        )
    lines = [line.strip() for line in load_text(path, b"#").split(b"\n") if line.strip()]
    if not lines:
        raise truncated("an OFF file", "comments alone")
    header = _HEADER.match(lines[0])
    if header and header["more"]:
        raise Flaw(
            "the OFF file is not three-dimensional",
            expected="OFF, with ST, C or N before it",
            actual=header["kind"].decode(),
            todo="export it with three coordinates per vertex",
        )
    if header:
        lines[0] = lines[0][header.end() :]
    lines = lines[not lines[0] :]
    counts = lines[0].split() if lines else []
    if not header and not (counts and counts[0].isdigit()):
        raise Flaw("the file is not OFF", expected="OFF in the first line", actual=repr(lines[0][:20]))
    if len(counts) not in (2, 3):
        raise Flaw(
            "the OFF file states no size",
            expected="numbers of vertices, faces and edges in a line",
            actual=lines[0][:40].decode(errors="replace") if lines else "the end of the file",
        )
    vertices, faces = whole(counts[0], "vertices"), whole(counts[1], "faces")
    if len(lines) - 1 != vertices + faces:
        if (content := _unlined(b" ".join(lines[1:]).split(), vertices, faces)) is not None:
            return content
        parts = f"{vertices + faces:,} lines, a vertex or a face each"
        if len(lines) - 1 < vertices + faces:
            raise truncated(parts, f"{len(lines) - 1:,}")
        raise Flaw("the OFF file has more lines than stated", expected=parts, actual=f"{len(lines) - 1:,}")
    return _points(lines[1 : 1 + vertices]), _faces(lines[1 + vertices :])


def _unlined(tokens: list[bytes], vertices: int, faces: int) -> Contents | None:
    """Return a surface whose lines are broken arbitrarily; None unless the words are exactly coordinates and
    corners.
    """
    starts, offset = [], 3 * vertices
    for _ in range(faces):
        if offset >= len(tokens) or not tokens[offset].isdigit():
            return None
        starts.append(offset)
        offset += 1 + int(tokens[offset])
    if offset != len(tokens):
        return None
    ends = [*starts[1:], offset]
    return (
        parse(b" ".join(tokens[: 3 * vertices]), np.float64, 3 * vertices, "vertices").reshape(-1, 3),
        _faces([b" ".join(tokens[start:end]) for start, end in zip(starts, ends[: len(starts)], strict=True)]),
    )


def _points(lines: list[bytes]) -> Floats:
    widths = np.array([len(line.split()) for line in lines], np.int64)
    odd_lines = np.flatnonzero(widths < 3)
    if odd_lines.size:
        raise Flaw(
            "the mesh has vertices without three coordinates",
            expected="three numbers",
            actual=f"{lines[odd_lines[0]].decode(errors='replace')[:80]} (number {odd_lines[0]}, counted from 0)",
        )
    check_alike(widths, "vertices")
    numbers = parse(b" ".join(lines), np.float64, int(widths.sum()), "vertices")
    return np.asarray(numbers[(np.cumsum(widths) - widths)[:, None] + np.arange(3)])


def _faces(lines: list[bytes]) -> list[Cells]:
    tokens = [line.split() for line in lines]
    sizes = [whole(face_tokens[0], "corners") for face_tokens in tokens]
    odd_faces = [i for i, face_tokens in enumerate(tokens) if sizes[i] >= len(face_tokens)]
    if odd_faces:
        raise Flaw(
            "the mesh has faces with fewer corners than stated",
            expected="the number of corners, and as many vertex numbers",
            actual=f"{lines[odd_faces[0]].decode(errors='replace')[:80]} (number {odd_faces[0]}, counted from 0)",
        )
    # a colour has three or four numbers, and some faces may have none
    colours = np.array([len(face_tokens) - 1 - size for face_tokens, size in zip(tokens, sizes, strict=True)], np.int64)
    is_small = np.array(sizes, np.int64) < 3
    has_wrong_colours = not any(np.isin(colours, (0, width)).all() for width in (3, 4))
    if has_wrong_colours or (colours[is_small].any() and not colours[~is_small].all()):
        check_alike(colours, "faces, beside their corners,")
    text = b" ".join(b" ".join(face_tokens[1 : 1 + size]) for face_tokens, size in zip(tokens, sizes, strict=True))
    return split(np.array(sizes, np.int64), parse(text, np.int64, sum(sizes), "corners"), face)
