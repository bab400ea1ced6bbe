"""Readers of surfaces: OBJ, OFF, PLY and STL as programs write them, and what is refused."""

from __future__ import annotations

import struct
from pathlib import Path

import meshio
import numpy as np
import pytest

from repro.problems.meshes import read_surface
from support.mesh_shapes import SQUARES, TRIANGLES, VERTICES, area, refused

pytestmark = pytest.mark.usefixtures("read_here")
CUBE = (6.0, 12, ())
CUT = (6.0, 12, ("6 polygons cut into triangles",))
POINTS = "".join(f"v {x:g} {y:g} {z:g}\n" for x, y, z in VERTICES)


def faces(form: str = "{0}", cells: list[list[int]] = TRIANGLES) -> str:
    """Lines of OBJ, in whose form 0 is a number from 1 on and 1 one that counts back."""
    return "".join("f " + " ".join(form.format(i + 1, i - 8) for i in cell) + "\n" for cell in cells)


def interleaved() -> str:
    corners = [[f"v {x} {y} {z}\n" for x, y, z in VERTICES[t]] for t in TRIANGLES]
    return "".join("".join(three) + "f -3 -2 -1\n" for three in corners)


OBJ = {
    "plain": POINTS + faces(),
    "texture": POINTS + "vt 0 0\n" + faces("{0}/1"),
    "normals": POINTS + "vn 0 0 1\n" + faces("{0}//1"),
    "both": POINTS + "vt 0 0\nvn 0 0 1\n" + faces("{0}/1/1"),
    "empty_slash": POINTS + faces("{0}/"),
    "empty_slashes": POINTS + faces("{0}//"),
    "relative": POINTS + faces("{1}"),
    "relative_texture": POINTS + "vt 0 0\n" + faces("{1}/-1"),
    "groups": "mtllib a b.mtl\no a\ng b c\ns off\nusemtl x\n" + POINTS + faces() + "l 1 2\np 1\nparm u 0 1\n",
    "colours": POINTS.replace("\n", " 0.5 0.5 0.5\n") + faces(),
    "weights": POINTS.replace("\n", " 1.0\n") + faces(),
    "comments": "# caf\u00e9 \\\n" + POINTS.replace("\n", " # x\n") + faces() + "# end",
    "continued": POINTS + faces().replace(" ", " \\\n ").replace("f \\\n", "f "),
    "continued_vertices": POINTS.replace("v ", "v \\\n") + faces(),
    "name_with_backslash": "g C:\\dir\\\n" + POINTS + faces(),
    "crlf": (POINTS + faces()).replace("\n", "\r\n"),
    "cr": (POINTS + faces()).replace("\n", "\r"),
    "mark": "\ufeff" + POINTS + faces(),
    "blanks": "\n\n  " + POINTS.replace("v ", "v\t  ").replace("\n", "  \n  ") + faces() + "\n",
    "before": faces() + POINTS,
    "unused": POINTS + "v nan 9 9\n" + faces(),
    "no_end": (POINTS + faces()).rstrip(),
}


@pytest.mark.parametrize("name", OBJ)
def test_obj_as_programs_write_it(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.obj"
    path.write_bytes(OBJ[name].encode("latin1" if name == "comments" else "utf8"))
    vertices, cells, notes = read_surface(path)
    np.testing.assert_array_equal(vertices, VERTICES)
    np.testing.assert_array_equal(cells, TRIANGLES)
    assert notes == (("1 unreferenced vertex dropped",) if name == "unused" else ())


def test_obj_with_vertices_between_the_faces(tmp_path: Path) -> None:
    (tmp_path / "a.obj").write_text(interleaved())
    assert area(tmp_path / "a.obj") == CUBE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (POINTS + faces() + "f 0 1 2\n", r"vertices that do not exist[\s\S]*from 1 to 8[\s\S]*f 0 1 2 \(number 12"),
        (POINTS + faces() + "f 1 2 9\n", "vertices that do not exist"),
        (POINTS + faces() + "f 1 2 -9\n", "vertices that do not exist"),
        ("f -1 -2 -3\n" + POINTS + faces(), "vertices that do not exist"),
        (POINTS + faces() + "f 1 2 x\n", r"corners are not numbers[\s\S]*f 1 2 x"),
        (POINTS + faces() + "f 1/2/3/4 2 3\n", "corners are not numbers"),
        (POINTS + faces() + "f 1.5 2 3\n", "corners are not numbers"),
        (POINTS + "v 1 2\n" + faces(), r"without three coordinates[\s\S]*v 1 2 \(number 8"),
        (POINTS + "v 1 2 z\n" + faces(), r"a word is not a number[\s\S]*'z'"),
        (POINTS.replace("\n", " 2\n") + faces(), "a weight"),
        (POINTS + faces() + "f 1 1 2\n", "degenerate triangles"),
        (POINTS + "v nan 0 0\n" + faces() + "f 1 2 9\n", "NaN, infinite or too large"),
        (POINTS + "v 1e200 0 0\n" + faces() + "f 1 2 9\n", "too large"),
        (POINTS, r"no triangles[\s\S]*no elements"),
        ("", "truncated"),
        ("\n# nothing\n", "truncated"),
    ],
)
def test_obj_that_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.obj"
    path.write_text(text)
    refused(read_surface, path, message)


def test_text_in_two_bytes_a_character_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.obj").write_text(POINTS + faces(), encoding="utf-16")
    refused(read_surface, tmp_path / "a.obj", r"UTF-16[\s\S]*iconv")


ROWS = "".join(f"{x:g} {y:g} {z:g}\n" for x, y, z in VERTICES)
FACES = "".join(f"3 {a} {b} {c}\n" for a, b, c in TRIANGLES)
OFF = {
    "plain": "OFF\n8 12 18\n" + ROWS + FACES,
    "counts_beside": "OFF 8 12 18\n" + ROWS + FACES,
    "no_edges": "OFF\n8 12\n" + ROWS + FACES,
    "no_keyword": "8 12 0\n" + ROWS + FACES,
    "colours": "COFF\n8 12 0\n" + ROWS.replace("\n", " 255 0 0 255\n") + FACES,
    "normals": "NOFF\n8 12 0\n" + ROWS.replace("\n", " 0 0 1\n") + FACES,
    "texture": "STOFF\n8 12 0\n" + ROWS.replace("\n", " 0.5 0.5\n") + FACES,
    "all": "STCNOFF\n8 12 0\n" + ROWS.replace("\n", " 0 0 1 1 0 0 1 0.5 0.5\n") + FACES,
    "face_colours": "OFF\n8 12 0\n" + ROWS + FACES.replace("\n", "  0.1 0.2 0.3\n", 5),
    "numbers_of_colours": "OFF\n8 12 0\n" + ROWS + FACES.replace("\n", " 7\n"),
    "comments": "OFF # a\n# b\n\n8 12 0 # c\n" + ROWS.replace("\n", " # d\n\n") + FACES,
    "crlf": ("OFF\n8 12 18\n" + ROWS + FACES).replace("\n", "\r\n"),
    "two_on_a_line": "OFF\n8 12 18\n" + ROWS.replace("\n", " ", 1) + FACES,
    "all_on_a_line": "OFF\n8 12 18\n" + (ROWS + FACES).replace("\n", " "),
    "mark": "\ufeffOFF\n8 12 18\n" + ROWS + FACES,
    "lines_and_points": "OFF\n8 14 18\n" + ROWS + "2 0 1\n" + FACES + "1 0\n",
}


@pytest.mark.parametrize("name", OFF)
def test_off_as_programs_write_it(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.off").write_text(OFF[name])
    vertices, cells, notes = read_surface(tmp_path / "a.off")
    np.testing.assert_array_equal(vertices, VERTICES)
    np.testing.assert_array_equal(cells, TRIANGLES)
    assert notes == ()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"OFF BINARY\n\0\0\0\1", r"OFF file is binary[\s\S]*as text"),
        (b"4OFF\n1 1 1\n", "not three-dimensional"),
        (b"nOFF\n5\n1 1 1\n", "not three-dimensional"),
        (b"solid\n", "not OFF"),
        (b"OFF\n", "states no size"),
        (b"OFF\n8 x 0\n", r"number of faces[\s\S]*'x'"),
        (b"OFF\n8 12 0\n", "truncated"),
        (b"OFF\n8 -12 0\n", "number of faces"),
        (b"OFF\n3 1 0\n0 0 0\n1 0\n0 1 0\n3 0 1 2\n", "without three coordinates"),
        (b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n4 0 1 2\n", "fewer corners than stated"),
        (b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n3 0 1 2\n", "more lines than stated"),
        (b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 3\n", "vertices that do not exist"),
        (b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 -1\n", "vertices that do not exist"),
        (b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n99999999999999999999 0 1 2\n", "fewer corners"),
        (b"", "truncated"),
    ],
)
def test_off_that_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.off").write_bytes(content)
    refused(read_surface, tmp_path / "a.off", message)


TYPES = {
    "char": "b", "uchar": "B", "short": "h", "ushort": "H", "int": "i", "uint": "I", "float": "f", "double": "d",
    "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "float32": "f", "float64": "d",
}  # fmt: skip
XYZ = ("float x", "float y", "float z")
LIST = "list uchar int vertex_indices"


def ply(order: str, vertex: tuple[str, ...], face: tuple[str, ...], cells: list[list[int]], more: str = "") -> bytes:
    """PLY as text (order "") or binary; `more` are elements of one property before (<) or behind (>) the others."""

    def number(kind: str, of: float) -> bytes:
        of = float(of) if TYPES[kind] in "fd" else int(of)
        return struct.pack(order + TYPES[kind], of) if order else f"{of} ".encode()

    def row(properties: tuple[str, ...], known: dict[str, list[float]]) -> bytes:
        parts = []
        for of in properties:
            *kinds, name = of.removeprefix("list ").split()
            if of.startswith("list"):
                given = known.get("corners", [1.0] * 6) if name.startswith("vertex_ind") else [0.0, 1.0]
                parts += [number(kinds[0], len(given)), *(number(kinds[1], i) for i in given)]
            else:
                parts.append(number(kinds[0], known.get(name, [1.0])[0]))
        return b"".join(parts) + (b"" if order else b"\n")

    def declare(name: str, count: int, properties: tuple[str, ...]) -> str:
        return f"element {name} {count}\n" + "".join(f"property {of}\n" for of in properties)

    edge = ("int vertex1", "int vertex2")
    form = {"": "ascii", "<": "binary_little_endian", ">": "binary_big_endian"}[order]
    elements = [
        (declare("vertex", len(VERTICES), vertex),
         b"".join(row(vertex, {axis: [v[i]] for i, axis in enumerate("xyz")}) for v in VERTICES)),
        (declare("face", len(cells), face), b"".join(row(face, {"corners": cell}) for cell in cells)),
        (declare("edge", 2, edge), 2 * row(edge, {})),
    ]  # fmt: skip
    chosen = {"": elements[:2], "edges": elements, "first": elements[::-1], "flipped": elements[1::-1]}[more]
    head = f"ply\nformat {form} 1.0\ncomment a b\nobj_info c\n" + "".join(of for of, _ in chosen) + "end_header\n"
    return head.encode() + b"".join(body for _, body in chosen)


PLY: dict[str, tuple] = {
    "plain": (XYZ, (LIST,)),
    "index": (XYZ, ("list uchar uint vertex_index",)),
    "double": (("float64 x", "double y", "double z"), (LIST,)),
    "short": (("short x", "int8 y", "uint16 z"), ("list int short vertex_indices",)),
    "long_lists": (XYZ, ("list uint ushort vertex_indices",)),
    "ushort_count": (XYZ, ("list ushort uint vertex_indices",)),
    "float_indices": (XYZ, ("list uchar uchar vertex_indices",)),
    "colours": ((*XYZ, "uchar red", "uchar green", "float quality"), (LIST, "uchar red", "uchar green")),
    "normals_first": (("float nx", "float ny", *XYZ), ("uchar flags", "double area", LIST)),
    "texture": (XYZ, (LIST, "list uchar float texcoord", "int texnumber")),
    "texture_first": (XYZ, ("list uchar float texcoord", LIST)),
    "lists_of_vertices": ((*XYZ, "list uchar int neighbours"), (LIST,)),
    "zyx": (XYZ[::-1], (LIST,)),
    "edges": (XYZ, (LIST,), "edges"),
    "edges_first": (XYZ, (LIST,), "first"),
    "faces_first": (XYZ, (LIST,), "flipped"),
}


@pytest.mark.parametrize("order", ["", "<", ">"])
@pytest.mark.parametrize("name", PLY)
def test_ply_as_programs_write_it(tmp_path: Path, name: str, order: str) -> None:
    vertex, face, *more = PLY[name]
    (tmp_path / "a.ply").write_bytes(ply(order, vertex, face, TRIANGLES, *more))
    vertices, cells, notes = read_surface(tmp_path / "a.ply")
    np.testing.assert_array_equal(vertices, VERTICES)
    np.testing.assert_array_equal(cells, TRIANGLES)
    assert notes == ()


@pytest.mark.parametrize("order", ["", "<", ">"])
def test_ply_of_triangles_and_squares_keeps_their_order(tmp_path: Path, order: str) -> None:
    mixed = [TRIANGLES[0], TRIANGLES[1], SQUARES[1], TRIANGLES[4], TRIANGLES[5], *SQUARES[3:]]
    (tmp_path / "a.ply").write_bytes(ply(order, XYZ, (LIST, "list uchar float texcoord"), mixed))
    _, cells, notes = read_surface(tmp_path / "a.ply")
    assert notes == ("4 polygons cut into triangles",)
    np.testing.assert_array_equal(np.sort(cells[4:6]), np.sort(TRIANGLES[4:6]))
    assert [set(a) | set(b) for a, b in zip(cells[::2].tolist(), cells[1::2].tolist(), strict=True)] == [
        set(of) for of in SQUARES
    ]


@pytest.mark.parametrize("order", ["", "<"])
@pytest.mark.parametrize("feed", ["\r\n", "\r"])
def test_ply_whose_header_has_other_line_ends(tmp_path: Path, order: str, feed: str) -> None:
    head, end, body = ply(order, XYZ, (LIST,), TRIANGLES).partition(b"end_header\n")
    body = body if order else body.replace(b"\n", feed.encode())
    (tmp_path / "a.ply").write_bytes((head + end).replace(b"\n", feed.encode()) + body)
    assert area(tmp_path / "a.ply") == CUBE


SHORT = "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\n"
FACE = "element face 1\nproperty list uchar int vertex_indices\nend_header\n0 0 0\n1 0 0\n0 1 0\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (SHORT + FACE, "truncated"),
        (SHORT + FACE + "3 0 1\n", "truncated"),
        (SHORT + FACE + "3 0 1 2\n7\n", r"more data than its header states[\s\S]*1 numbers more"),
        (SHORT + FACE + "3 0 1 x\n", r"not a number[\s\S]*'x'"),
        (SHORT + FACE + "3 0 1 1.5\n", "not an integer"),
        (
            SHORT.replace("float y", "int y") + FACE.replace("1 0 0", "1 1.5 0") + "3 0 1 2\n",
            r"not an integer[\s\S]*y of vertex, a property of type int32\n  actual: 1.5",
        ),
        (SHORT + FACE + "-1 0 1 2\n", "list has no length"),
        (SHORT + FACE + "3 0 1 3\n", "vertices that do not exist"),
        (SHORT + FACE + "3 0 1 -1\n", "vertices that do not exist"),
        (SHORT + FACE + "0\n", "elements other than linear triangles"),
        (SHORT + FACE.replace("face 1", "face 0"), "no triangles"),
        (SHORT + "end_header\n0 0 0\n1 0 0\n0 1 0\n", "no triangles"),
        (SHORT.replace("float z", "float w") + FACE + "3 0 1 2\n", r"three dimensions[\s\S]*actual: x, y, w"),
        (SHORT + FACE.replace("vertex_indices", "corners") + "3 0 1 2\n", "faces of the mesh have no corners"),
        (SHORT + FACE.replace("uchar int", "uchar long") + "3 0 1 2\n", r"unknown type[\s\S]*actual: long"),
        (SHORT + FACE.replace("uchar int", "float int") + "3 0 1 2\n", "length of a list"),
        (SHORT.replace("ascii", "binary_middle_endian") + FACE, "header is not understood"),
        (SHORT.replace("1.0", "2.0", 1) + FACE, "header is not understood"),
        (SHORT.replace("vertex 3", "vertex -3") + FACE, "number of elements"),
        (SHORT.replace("vertex 3", "vertex 99999999999999") + FACE, "truncated"),
        (SHORT + FACE.replace("face", "tristrips") + "3 0 1 2\n", r"triangle strips[\s\S]*MeshLab"),
        (SHORT.partition("\n")[2] + FACE, "no complete header"),
        ("ply\n" + SHORT.partition("1.0\n")[2] + FACE, r"no line that says the format"),
        (SHORT, "no end_header"),
        ("", "no complete header"),
    ],
)
def test_ply_that_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a.ply").write_text(content)
    refused(read_surface, tmp_path / "a.ply", message)


@pytest.mark.parametrize("order", ["<", ">"])
def test_binary_ply_with_more_or_less_than_it_says(tmp_path: Path, order: str) -> None:
    whole = ply(order, XYZ, (LIST,), [*TRIANGLES, SQUARES[0]])
    path = tmp_path / "a.ply"
    for content, message in ((whole + b"\1\2", "2 bytes more"), (whole[:-1], "truncated"), (whole[:-18], "truncated")):
        path.write_bytes(content)
        refused(read_surface, path, message)


def stl(name: str = "solid a b\n", end: str = "endsolid a b\n") -> str:
    facets = [
        "facet normal 0 0 1\nouter loop\n" + "".join("vertex {:g} {:g} {:g}\n".format(*VERTICES[i]) for i in t)
        for t in TRIANGLES
    ]
    return name + "".join(f"{facet}endloop\nendfacet\n" for facet in facets) + end


def binary_stl(head: bytes = b"") -> bytes:
    rows = b"".join(struct.pack("<12fH", 0, 0, 1, *VERTICES[t].ravel(), 0) for t in TRIANGLES)
    return head.ljust(80, b" ") + struct.pack("<I", len(TRIANGLES)) + rows


@pytest.mark.parametrize(
    "content",
    [
        stl().encode(),
        stl("solid\n", "endsolid\n").encode(),
        stl().upper().encode(),
        stl().replace("\n", "\r\n").encode(),
        stl().replace("\nvertex", "\n\tvertex").encode(),
        b"\xef\xbb\xbf" + stl().encode(),
        (stl().replace("vertex 0 0 0", "vertex -0 0 -0.0", 2)).encode(),
        (stl("solid a\n", "endsolid a\nsolid b\nendsolid b\n")).encode(),
        binary_stl(),
        binary_stl(b"solid that is none"),
        binary_stl(b"\0" * 80),
    ],
)
def test_stl_as_programs_write_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.stl").write_bytes(content)
    assert area(tmp_path / "a.stl") == CUBE
    vertices, _, _ = read_surface(tmp_path / "a.stl")
    np.testing.assert_array_equal(vertices, np.unique(VERTICES, axis=0))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "truncated"),
        (binary_stl()[:-1], "truncated"),
        (binary_stl() + b"\0", "longer than stated"),
        (stl(end="").encode(), r"truncated[\s\S]*endsolid"),
        (stl().replace("endloop", "", 1).encode(), "facets that are not triangles"),
        (stl().replace("vertex 0 0 0\n", "", 1).encode(), "facets that are not triangles"),
        (stl().replace("endloop", "vertex 1 2 3\nendloop", 1).encode(), "facets that are not triangles"),
        (stl().replace("vertex 0 0 0", "vertex 0 0", 1).encode(), "invalid or out of place"),
        (stl().replace("vertex 0 0 0", "vertex 0 0 o", 1).encode(), r"not a number[\s\S]*'o'"),
        (stl().replace("endloop", "end loop", 1).encode(), r"not understood[\s\S]*end loop \(line 7\)"),
        (stl().replace("vertex 0 0 0", "vertex nan 0 0", 1).encode(), "NaN"),
    ],
)
def test_stl_that_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.stl").write_bytes(content)
    refused(read_surface, tmp_path / "a.stl", message)


@pytest.mark.parametrize("suffix", [".ply", ".obj"])
def test_squares_are_cut(tmp_path: Path, suffix: str) -> None:
    meshio.Mesh(VERTICES, [("quad", SQUARES)]).write(tmp_path / f"a{suffix}")
    assert area(tmp_path / f"a{suffix}") == CUT


def test_squares_of_off_are_cut(tmp_path: Path) -> None:
    rows = "".join("4 " + " ".join(map(str, of)) + " 255 0 0\n" for of in SQUARES)
    (tmp_path / "a.off").write_text("OFF\n8 6 12\n" + ROWS + rows)
    assert area(tmp_path / "a.off") == CUT


PLY_VERTICES = "element vertex 4\nproperty float x\nproperty float y\nproperty float z\n"
PLY_FACES = "element face 1\nproperty list uchar int vertex_indices\n"
SQUARE = "0 0 0\n1 0 0\n1 1 0\n0 1 0\n"
FACET = "facet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 1 1 0\nendloop\nendfacet\n"
SILENT = {
    "faces_twice.ply": f"ply\nformat ascii 1.0\n{PLY_VERTICES}{PLY_FACES}{PLY_FACES}end_header\n"
    + f"{SQUARE}3 0 1 2\n3 0 2 3\n",
    "vertices_twice.ply": f"ply\nformat ascii 1.0\n{PLY_VERTICES}{PLY_VERTICES}{PLY_FACES}end_header\n"
    + f"{SQUARE * 2}3 0 1 2\n",
    "z_twice.ply": f"ply\nformat ascii 1.0\n{PLY_VERTICES}property float z\n{PLY_FACES}end_header\n"
    + "0 0 0 0\n1 0 0 0\n1 1 0 0\n0 1 0 0\n3 0 1 2\n",
    "numbers_slide.stl": "solid a\n"
    + FACET.replace("vertex 0 0 0", "vertex 0 0").replace("x 1 0 0", "x 0 1 0 0")
    + "endsolid\n",
    "behind_the_end.stl": f"solid a\n{FACET}endsolid\n{FACET}",
    "end_too_often.stl": f"solid a\n{FACET}endsolid\nendsolid\nsolid b\n{FACET}",
    "free_form.obj": POINTS + "cstype bezier\ndeg 1 1\nsurf 0 1 0 1 1 2 3 4\nend\n" + faces(),
    "in_files.obj": POINTS + faces() + "call other.obj\n",
    "two_corners.obj": POINTS + faces() + "f 1 2\n",
    "no_corner.obj": POINTS + faces() + "f\n",
}


@pytest.mark.parametrize("name", SILENT)
def test_what_would_be_read_as_less_or_otherwise_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(SILENT[name])
    refused(read_surface, path, "the mesh|the PLY file")


@pytest.mark.parametrize("kind", ["NCOFF", "NCSTOFF", "CSTOFF", "STCNOFF"])
def test_off_says_what_is_beside_coordinates_in_any_order(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.off"
    beside = " 1" * (3 * ("N" in kind) + 4 * ("C" in kind) + 2 * ("ST" in kind))
    vertices = "".join(f"{line}{beside}\n" for line in SQUARE.splitlines())
    path.write_text(f"{kind}\n4 2 0\n{vertices}3 0 1 2\n3 0 2 3\n")
    assert area(path)[:2] == (1.0, 2)
