"""Reads Wavefront's OBJ: vertices (`v`) and faces (`f`); other lines, and texture and normal indices, are ignored."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from repro.problems.meshreaders import Contents, Flaw, Floats, Numbers, check_alike, face, load_text, parse, split

_CONTINUED = re.compile(rb"(?m)^[ \t]*(?:v|f|fo)[ \t](?:[^\n\\]*\\[ \t]*\n)+[^\n]*")
_BREAK = re.compile(rb"\\[ \t]*\n")
_NO_CORNER = re.compile(rb"(?<!\S)(?!\s|[+-]?\d+(?:/(?:[+-]?\d+)?){0,2}(?!\S)).")
_BESIDE = re.compile(rb"/\S*")
_VERTEX, _FACES = b"v", (b"f", b"fo")
#: Keywords of unsupported surface elements, which are rejected.
_NOT_READ = (b"cstype", b"surf", b"curv", b"call")
#: A line without a known keyword, which is a face or a vertex with a word before or instead of it.
_WITHOUT_KEY = re.compile(rb"[+-]?\.?\d|\S+\s+(?:v|f|fo)\s")
#: Keywords of lines that are ignored, and may have a word `v` or `f` behind them.
_NAMES = (b"o", b"g", b"s", b"mg", b"usemtl", b"mtllib", b"usemap", b"maplib", b"parm")
#: Allowed counts of numbers for a vertex: coordinates only, with a weight, or with a colour of three or four numbers.
_WIDTHS = (3, 4, 6, 7)
#: Those that all vertices have or none, since a word too many gives the same.
_OF_ALL = (4, 7)


def read(path: Path, values: bool = False) -> Contents:
    """Read a surface; `Flaw` for a vertex with too few numbers or a weight, or an invalid corner."""
    text = load_text(path, b"#")
    if b"\\" in text:
        text = _CONTINUED.sub(lambda match: _BREAK.sub(b" ", match[0]), text)
    vertices: list[bytes] = []
    faces: list[bytes] = []
    vertices_before: list[int] = []  # for negative indices: number of vertices before each face
    for line in text.split(b"\n"):
        key, _, numbers = line.strip().replace(b"\t", b" ").partition(b" ")
        if key == _VERTEX:
            vertices.append(numbers)
        elif key in _FACES:
            faces.append(numbers)
            vertices_before.append(len(vertices))
        elif key in _NOT_READ:
            raise Flaw(
                "the mesh has free-form curves or surfaces, or is in several files",
                expected="v and f alone",
                actual=line.strip()[:80].decode(errors="replace"),
                todo="export polygons, in one file",
            )
        elif key and key not in _NAMES and _WITHOUT_KEY.match(line.strip()):
            raise Flaw(
                "the mesh is damaged: a line does not begin with a keyword",
                expected="v, f, or another keyword, and its numbers",
                actual=line.strip()[:80].decode(errors="replace"),
            )
    points = _points(vertices)
    sizes = np.array([len(corners.split()) for corners in faces], np.int64)
    if (sizes < 3).any():
        shortest = int(sizes.argmin())
        raise Flaw(
            "the mesh has faces with fewer than three corners",
            expected="f with at least three corners",
            actual=f"f {faces[shortest].decode(errors='replace').strip()[:80]} (number {shortest}, counted from 0)",
        )
    return points, split(sizes, _corners(faces, sizes, np.array(vertices_before, np.int64), len(points)), face)


def _points(vertices: list[bytes]) -> Floats:
    widths = np.array([len(vertex.split()) for vertex in vertices], np.int64)
    odd_lines = np.flatnonzero(~np.isin(widths, _WIDTHS))
    if odd_lines.size:
        raise Flaw(
            "the mesh has vertices without three coordinates",
            expected="v x y z, with a weight or a colour behind",
            actual=f"v {vertices[odd_lines[0]].decode(errors='replace')[:80]} (number {odd_lines[0]}, counted from 0)",
        )
    if np.isin(widths, _OF_ALL).any():
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


def _corners(faces: list[bytes], sizes: Numbers, vertices_before: Numbers, count: int) -> Numbers:
    text = b"\n".join(faces)
    if _NO_CORNER.search(text):
        wrong_face = next((corners for corners in faces if _NO_CORNER.search(corners)), text)
        raise Flaw(
            "the mesh has faces whose corners are not numbers",
            expected="f with v, v/vt, v//vn or v/vt/vn for each corner",
            actual=f"f {wrong_face.decode(errors='replace')[:80]}",
        )
    corners = parse(_BESIDE.sub(b"", text), np.int64, int(sizes.sum()), "corners")
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
