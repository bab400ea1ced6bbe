"""Reads surfaces: Wavefront's OBJ, Geomview's OFF as text, and STL, text and binary.

Of OBJ, lines other than vertices (`v`) and faces (`f`), and texture and normal indices, are ignored; of OFF normals,
colours and texture of vertices, and colours of faces.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from repro.problems.meshreaders import (
    Cells,
    Contents,
    Flaw,
    Floats,
    Numbers,
    check_alike,
    face,
    load_text,
    parse,
    split,
    truncated,
    whole,
)

_OBJ_CONTINUED = re.compile(rb"(?m)^[ \t]*(?:v|f|fo)[ \t](?:[^\n\\]*\\[ \t]*\n)+[^\n]*")
_OBJ_BREAK = re.compile(rb"\\[ \t]*\n")
_OBJ_NO_CORNER = re.compile(rb"(?<!\S)(?!\s|[+-]?\d+(?:/(?:[+-]?\d+)?){0,2}(?!\S)).")
_OBJ_BESIDE = re.compile(rb"/\S*")
_OBJ_VERTEX, _OBJ_FACES = b"v", (b"f", b"fo")
#: Keywords of unsupported surface elements, which are rejected.
_OBJ_NOT_READ = (b"cstype", b"surf", b"curv", b"call")
#: A line without a known keyword, which is a face or a vertex with a word before or instead of it.
_OBJ_WITHOUT_KEY = re.compile(rb"[+-]?\.?\d|\S+\s+(?:v|f|fo)\s")
#: Keywords of lines that are ignored, and may have a word `v` or `f` behind them.
_OBJ_NAMES = (b"o", b"g", b"s", b"mg", b"usemtl", b"mtllib", b"usemap", b"maplib", b"parm")
#: Allowed counts of numbers for a vertex: coordinates only, with a weight, or with a colour of three or four numbers.
_OBJ_WIDTHS = (3, 4, 6, 7)
#: Those that all vertices have or none, since a word too many gives the same.
_OBJ_OF_ALL = (4, 7)


def read_obj(path: Path, values: bool = False) -> Contents:
    """Read a surface; `Flaw` for a vertex with too few numbers or a weight, or an invalid corner."""
    text = load_text(path, b"#")
    if b"\\" in text:
        text = _OBJ_CONTINUED.sub(lambda match: _OBJ_BREAK.sub(b" ", match[0]), text)
    vertices: list[bytes] = []
    faces: list[bytes] = []
    vertices_before: list[int] = []  # for negative indices: number of vertices before each face
    for line in text.split(b"\n"):
        key, _, numbers = line.strip().replace(b"\t", b" ").partition(b" ")
        if key == _OBJ_VERTEX:
            vertices.append(numbers)
        elif key in _OBJ_FACES:
            faces.append(numbers)
            vertices_before.append(len(vertices))
        elif key in _OBJ_NOT_READ:
            raise Flaw(
                "the mesh has free-form curves or surfaces, or is in several files",
                expected="v and f alone",
                actual=line.strip()[:80].decode(errors="replace"),
                todo="export polygons, in one file",
            )
        elif key and key not in _OBJ_NAMES and _OBJ_WITHOUT_KEY.match(line.strip()):
            raise Flaw(
                "the mesh is damaged: a line does not begin with a keyword",
                expected="v, f, or another keyword, and its numbers",
                actual=line.strip()[:80].decode(errors="replace"),
            )
    points = _obj_points(vertices)
    sizes = np.array([len(corners.split()) for corners in faces], np.int64)
    if (sizes < 3).any():
        shortest = int(sizes.argmin())
        raise Flaw(
            "the mesh has faces with fewer than three corners",
            expected="f with at least three corners",
            actual=f"f {faces[shortest].decode(errors='replace').strip()[:80]} (number {shortest}, counted from 0)",
        )
    return points, split(sizes, _obj_corners(faces, sizes, np.array(vertices_before, np.int64), len(points)), face)


def _obj_points(vertices: list[bytes]) -> Floats:
    widths = np.array([len(vertex.split()) for vertex in vertices], np.int64)
    odd_lines = np.flatnonzero(~np.isin(widths, _OBJ_WIDTHS))
    if odd_lines.size:
        raise Flaw(
            "the mesh has vertices without three coordinates",
            expected="v x y z, with a weight or a colour behind",
            actual=f"v {vertices[odd_lines[0]].decode(errors='replace')[:80]} (number {odd_lines[0]}, counted from 0)",
        )
    if np.isin(widths, _OBJ_OF_ALL).any():
        check_alike(widths, "vertices")
    numbers = parse(b" ".join(vertices), np.float64, int(widths.sum()), "vertices")
    starts = np.cumsum(widths) - widths
    weights = numbers[starts[widths == 4] + 3]
    if (weights != 1).any():
        raise Flaw(
            "the mesh has weighted vertices, as used by rational curves and surfaces",
            expected="v x y z, or a weight of 1",
            actual=f"{np.count_nonzero(weights != 1)} vertices with another weight",
            todo="divide the coordinates by it or remove it, whichever is meant, or export polygons",
        )
    return np.asarray(numbers[starts[:, None] + np.arange(3)])


def _obj_corners(faces: list[bytes], sizes: Numbers, vertices_before: Numbers, count: int) -> Numbers:
    text = b"\n".join(faces)
    if _OBJ_NO_CORNER.search(text):
        wrong_face = next((corners for corners in faces if _OBJ_NO_CORNER.search(corners)), text)
        raise Flaw(
            "the mesh has faces whose corners are not numbers",
            expected="f with v, v/vt, v//vn or v/vt/vn for each corner",
            actual=f"f {wrong_face.decode(errors='replace')[:80]}",
        )
    corners = parse(_OBJ_BESIDE.sub(b"", text), np.int64, int(sizes.sum()), "corners")
    corners = np.where(
        corners < 0, corners + np.repeat(vertices_before, sizes), np.where(corners == 0, -1, corners - 1)
    )
    is_outside = (corners < 0) | (corners >= count)
    if is_outside.any():
        first = int(np.repeat(np.arange(len(sizes)), sizes)[is_outside][0])
        raise Flaw(
            "the mesh has elements with vertices that do not exist; it is damaged or truncated",
            expected=f"numbers from 1 to {count}, or negative ones that count back from the vertex above",
            actual=f"f {faces[first].decode(errors='replace').strip()[:80]} (number {first}, counted from 0)",
        )
    return corners


_OFF_HEADER = re.compile(rb"(?P<kind>(?:ST|C|N){0,3}(?P<more>4?n?)OFF)(?:\s+|$)")


def read_off(path: Path, values: bool = False) -> Contents:
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
    header = _OFF_HEADER.match(lines[0])
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
        if (content := _off_unlined(b" ".join(lines[1:]).split(), vertices, faces)) is not None:
            return content
        parts = f"{vertices + faces:,} lines, a vertex or a face each"
        if len(lines) - 1 < vertices + faces:
            raise truncated(parts, f"{len(lines) - 1:,}")
        raise Flaw("the OFF file has more lines than stated", expected=parts, actual=f"{len(lines) - 1:,}")
    return _off_points(lines[1 : 1 + vertices]), _off_faces(lines[1 + vertices :])


def _off_unlined(tokens: list[bytes], vertices: int, faces: int) -> Contents | None:
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
        _off_faces([b" ".join(tokens[start:end]) for start, end in zip(starts, ends[: len(starts)], strict=True)]),
    )


def _off_points(lines: list[bytes]) -> Floats:
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


def _off_faces(lines: list[bytes]) -> list[Cells]:
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


_STL_LINES = {b"facet": 0, b"outer": 1, b"vertex": 2, b"endloop": 3, b"endfacet": 4}
_STL_FACET = np.array([0, 1, 2, 2, 2, 3, 4])
_STL_OTHERS = (b"solid", b"endsolid", b"color")
_STL_HEAD = 84
_STL_RECORD = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])


def read_stl(path: Path, values: bool = False) -> Contents:
    """Read STL, text or binary; corners with equal coordinates become one vertex, sorted by coordinates.

    Raise `Flaw` for a wrong file size or incomplete facets.
    """
    content = path.read_bytes()
    count = int.from_bytes(content[80:_STL_HEAD], "little")
    if len(content) >= _STL_HEAD and len(content) == _STL_HEAD + count * _STL_RECORD.itemsize:
        corners = np.frombuffer(content, _STL_RECORD, count, _STL_HEAD)["corners"].astype(np.float64)
    elif content[:512].removeprefix(b"\xef\xbb\xbf").lstrip()[:5].lower() == b"solid" and b"\0" not in content[:512]:
        corners = _stl_corners(load_text(path))
    else:
        expected = f"{_STL_HEAD + count * _STL_RECORD.itemsize:,} bytes, of {count:,} triangles"
        if len(content) < _STL_HEAD:
            raise truncated(f"{_STL_HEAD} bytes, or text that begins with solid", f"{len(content):,} bytes")
        if len(content) < _STL_HEAD + count * _STL_RECORD.itemsize:
            raise truncated(expected, f"{len(content):,} bytes")
        raise Flaw("the STL file is longer than stated", expected, f"{len(content):,} bytes")
    points, cells = np.unique(corners.reshape(-1, 3) + 0.0, axis=0, return_inverse=True)
    return points, [Cells("triangle", 2, cells.reshape(-1, 3).astype(np.int64))]


def _stl_corners(text: bytes) -> NDArray[np.float64]:
    kinds: list[int] = []
    corners: list[bytes] = []
    solids, wrong_line = 0, ""
    for number, line in enumerate(text.split(b"\n"), 1):
        key, _, arguments = line.strip().replace(b"\t", b" ").partition(b" ")
        key = key.lower()
        if key in _STL_LINES:
            kinds.append(_STL_LINES[key])
            if solids < 1 or (key == b"vertex" and len(arguments.split()) != 3):
                wrong_line = wrong_line or f"{line[:60].decode(errors='replace').strip()} (line {number})"
            if key == b"vertex":
                corners.append(arguments)
        elif key in _STL_OTHERS:
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
    if len(kinds) % len(_STL_FACET) or (np.array(kinds, np.int64).reshape(-1, len(_STL_FACET)) != _STL_FACET).any():
        raise Flaw(
            "the mesh is damaged: the STL file has facets that are not triangles",
            expected="facets of facet, outer loop, three lines of vertex, endloop and endfacet",
            actual=f"{len(corners):,} of vertex in {len(kinds):,} lines",
        )
    return parse(b" ".join(corners), np.float64, 3 * len(corners), "vertices").reshape(-1, 3, 3)
